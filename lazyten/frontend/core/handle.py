"""A tensor as a handle: a Storage, the moves that make a view of it, and whether gradients flow."""
from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from types import FunctionType
from typing import Any, Generic, Self, TypeVar, overload
from weakref import ReferenceType, WeakValueDictionary, finalize

import numpy as np

from lazyten.autodiff import hooks, twins
from lazyten.autodiff.hooks import RemovableHandle, walk
from lazyten.execution import background
from lazyten.execution.lineage import Lineage
from lazyten.frontend.core.in_place import shown_as
from lazyten.frontend.core.keywords import contiguous_format, taking_aliases
from lazyten.frontend.core.overriding import overridable
from lazyten.frontend.core.size import Size
from lazyten.ir.dtype import DType
from lazyten.ir.movement import Moves, out_shape
from lazyten.ir.node import Node, Shape, alias, cast, const, make
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.operators.arrays import indexing
from lazyten.operators.math import shapes
from lazyten.storage import history, levels, tracing
from lazyten.storage.placement import Device, canonical, has_values
from lazyten.storage.stand_ins import layout_of
from lazyten.storage.storage import Storage
from lazyten.support.errors import GradientError, NoAxisError, NoValuesError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.symbolic.view import ShapeTracker

DTypeLike = DType | str | type | np.dtype[Any]
C = TypeVar("C", bound=type)
Tensor = TypeVar("Tensor", bound="Handle[Any]")
"""What operations give. It is Tensor, as that names itself for it where it is made of all parts;
until there each part says which methods it counts on."""

class Leaves(WeakValueDictionary[int, Any]):
    """Tensors by the ids of their LEAF nodes."""

    data: dict[int, ReferenceType[Any]]

    def owners(self, ids: Iterable[int]) -> list[Any]:
        """The tensors of these ids that collect gradients; None where one is gone, or was frozen
        since it was read. (get() takes three times as long.)"""
        found = [None if one is None else one() for one in map(self.data.get, ids)]
        return [None if x is None or x._storage.leaf_id is None else x for x in found]


leaves = Leaves()
"""The tensor whose `.grad` a LEAF node's gradient goes to."""
held_as_rows: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Those of them whose gradient is to be sparse, if it is of rows that were looked up."""
results: type[Any]
"""The class of what operations give: `Tensor`, whose module imports all parts."""

KEPT_VIEWS = 2048
"""Shapes and strides of views that are kept: a program makes the same ones again and again."""


def forget_with(storage: Storage, leaf_id: int) -> None:
    """What is known of a leaf by this id goes when its storage does, unless the tensor has another
    then: `x.data = y` gives it one."""
    finalize(storage, _forget, leaf_id).atexit = False


def _forget(leaf_id: int) -> None:
    owner = leaves.get(leaf_id)
    if owner is None or owner._leaf_id != hooks.one_leaf(leaf_id):
        hooks.forget(leaf_id)


@lru_cache(KEPT_VIEWS)
def shape_after(shape: Shape, moves: Moves) -> Size:
    """The shape that moves make of another."""
    for op, arg in moves:
        shape = out_shape(op, shape, arg)
    return Size(shape)


@lru_cache(KEPT_VIEWS)
def _tracker_after(shape: Shape, moves: Moves) -> ShapeTracker:
    """How what moves make of an array of this shape lies in its memory."""
    tracker = ShapeTracker.of(shape)
    for op, arg in moves:
        tracker = tracker.moved(op, arg)
    return tracker


def made_of_parts(owner: C) -> C:
    """A decorator: this class, made of the parts, is what operations give. Methods go by its name,
    in messages of Python and in pickles, too."""
    global results
    results = owner
    named: dict[FunctionType, Any] = {}  # two names of one method stay names of one
    for part in owner.__mro__[1:]:
        for name, method in list(vars(part).items()):
            if isinstance(method, FunctionType):
                if method.__qualname__.startswith((part.__name__, f"{owner.__name__}.")):
                    method.__qualname__ = f"{owner.__name__}.{method.__name__}"
                    method.__module__ = owner.__module__  # where a pickle finds it
                if not name.startswith("_"):
                    setattr(part, name, named.setdefault(method, taking_aliases(method)))
    return owner


def of_its_own(node: Node) -> Node:
    """The value of a tensor that gradients flow through: where hooks are called with its gradient,
    or another tensor has the same value already, it is another."""
    trace = tracing.current()
    if trace is None:
        return twins.apart(node, twins.is_taken)
    found = twins.apart(node, trace.taken.__contains__)
    trace.taken.add(found)
    return found


class Handle(Generic[Tensor]):
    """Storage, moves, lineage and gradient of a tensor; its shape, type and place."""

    __slots__ = ("__weakref__", "_grad", "_hooked", "_lineage", "_moves", "_retains", "_storage",
                 "_value")
    _storage: Storage
    _moves: Moves
    _lineage: Lineage | None
    _grad: Tensor | None
    _hooked: tuple[object, ...]
    _retains: RemovableHandle
    _value: Any

    def _hold(self, storage: Storage, moves: Moves = ()) -> None:
        """Be a new handle of this storage."""
        self._storage, self._moves = storage, moves
        self._lineage = self._grad = self._value = None

    @staticmethod
    def _view(storage: Storage, moves: Moves, lineage: Lineage | None) -> Tensor:
        """A handle of a storage, as it is shown by moves."""
        result: Tensor = object.__new__(results)
        result._storage, result._moves, result._lineage = storage, moves, lineage
        result._grad = result._value = None
        if lineage is not None and tracing.active is not None:
            tracing.made(result)
        return result

    @staticmethod
    def _of(node: Node, device: str, requires_grad: bool = False, one_of: bool = False) -> Tensor:
        """A new tensor of a node's value. requires_grad: gradients flow through it, one of its own.
        one_of: of several that are made, and computed, together, such as the gradients of one
        backward pass."""
        if requires_grad:
            node = of_its_own(node)
        storage = Storage(node, device, requires_grad)
        if requires_grad:
            twins.owned_by(storage, node)
        if one_of:
            history.note(storage)
        else:
            background.made(storage)
        return Handle._view(storage, (), None)

    @staticmethod
    def _result(node: Node, *operands: Handle[Any]) -> Tensor:
        """What an operation on these tensors gives: it requires a gradient if one of them does, and
        its graph is used up if that is so of all of these."""
        requires = flows = False
        for t in operands:
            if t.requires_grad:
                requires, flows = True, flows or t._keeps_graph
        if requires and not is_grad_enabled():
            node, requires = levels.without_gradient(node), levels.tangents_pass()
        elif requires:
            node = alias(node) if node.op in MOVEMENT or any(
                t.node is node for t in operands) else node
        requires = requires and node.dtype.is_float
        result: Tensor = Handle._of(node, operands[0]._storage.device, requires and flows)
        if requires and not flows:
            result._storage.end_graph()
        return result

    @staticmethod
    def _gradient(node: Node, device: str) -> Tensor:
        """A gradient on its way, for a user's function: no gradient flows through it unless the
        walk is differentiated."""
        flows = walk.is_differentiable
        result: Tensor = Handle._of(node if flows else make(Op.DETACH, node.dtype, (node,)), device,
                                    flows)
        return result

    def _given(self, node: Node, *others: Handle[Any]) -> Tensor:
        """What an operation on this tensor and others gives."""
        return self._result(node, self, *others)

    def _same(self) -> Tensor:
        """This tensor, as what operations give."""
        return self  # type: ignore[return-value]  # every handle is a Tensor

    def _cast(self, dtype: DType) -> Tensor:
        """The elements in another type; itself if it is this one."""
        return self._same() if dtype is self.dtype else self._given(cast(self.node, dtype))

    def _copied_to(self, device: str) -> Tensor:
        """The elements on another device. NoValuesError if they have no values here."""
        tracing.refuse(f"copying a tensor from '{self.device}' to '{device}'",
                       "copy it outside, and give it as an argument")
        flows = self.requires_grad and is_grad_enabled()
        if not has_values(self.device):
            raise NoValuesError
        if not (flows or has_values(device)):  # what would be copied need not be kept
            return self._of(const(0, self.dtype, self.shape), device)
        node = make(Op.COPY, self.dtype, (self.node,), (self.device, device))
        return self._of(node if flows else levels.without_gradient(node), device,
                        flows or self.requires_grad and levels.tangents_pass())

    @overridable
    def detach(self) -> Tensor:
        """The same values (the same storage), through which no gradient flows."""
        return self._view(self._storage, self._moves, Lineage())

    def detach_(self) -> Self:
        """detach, of this tensor itself; a leaf collects no gradients any more. Gives it."""
        if self.requires_grad and self.is_leaf:
            return self.requires_grad_(False)
        self._becomes_detached()
        return self

    _becomes_detached = shown_as(detach)

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """The GRAPH node of the current value."""
        storage = self._storage
        if storage.shared is not None:
            storage.refresh(self._tracker.numpy_view if self._moves else None)
        if self._lineage is not None:
            return self._lineage.read(storage, self._moves)
        if storage.leaf_id is not None and is_grad_enabled():
            background.before_graph(storage)
        node = storage.node
        return indexing.apply(self._moves, node) if self._moves else node

    @property
    def _detached(self) -> bool:
        """Whether no gradient of the storage flows through this handle."""
        return self._lineage is not None and not self._lineage.follows

    @property
    def shape(self) -> Size:
        """The size of each axis."""
        shape, moves = self._storage.shape, self._moves
        return shape_after(shape, moves) if moves else Size(shape)

    @property
    def _tracker(self) -> ShapeTracker:
        return _tracker_after(self._storage.shape, self._moves)

    @property
    def _layout(self) -> ShapeTracker:
        """How this view lies in memory, or what it stands for in a transform."""
        layout = layout_of(self._storage)
        return self._tracker if layout is None else _tracker_after(
            layout.shape, layout.moves + self._moves)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._storage.dtype

    @property
    def device(self) -> Device:
        """The device that the values are on: its name, a string."""
        return canonical(self._storage.device)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[shapes.axis(dim, self.ndim, "size")]

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    @overload
    def stride(self) -> Shape: ...
    @overload
    def stride(self, dim: int) -> int: ...

    def stride(self, dim: int | None = None) -> Shape | int:
        """Elements between neighbours on each axis, or on one, in the storage. ShapeError if this
        view is not laid out in strides."""
        view = self._layout.single
        if view is None or view.mask is not None:
            raise ShapeError(f"stride of a view of shape {self.shape}: its elements are not evenly "
                             f"spaced in memory; contiguous() makes a copy that is")
        return view.strides if dim is None else view.strides[shapes.axis(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        """Where the first element is in the storage, in elements."""
        if tracing.active is not None:
            tracing.placed(self._storage)
        view = self._layout.single
        return 0 if view is None else view.offset

    def __len__(self) -> int:
        if not self.shape:
            raise NoAxisError("len of a zero-dim tensor: it has no axes; numel() is 1")
        return self.shape[0]

    __hash__ = object.__hash__

    # ---- gradients -------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow back through this tensor. Set it on leaves; see detach()."""
        storage = self._storage
        if tracing.active is not None:
            tracing.touched(storage)
        lineage = self._lineage
        gradients = storage if lineage is None or lineage.follows else lineage
        return gradients.requires_grad and storage.dtype.is_float

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Collect gradients for this tensor in `.grad`, or stop. Gives this tensor.

        What detach() gave gets a storage of its own: later writes to either are its own. So does
        what expand() gave, as each element has a gradient, and none can be written.
        """
        if requires_grad == self.requires_grad:
            return self
        if not requires_grad:
            if self._storage.leaf_id is None:
                raise GradientError("requires_grad = False on a tensor that an operation made: "
                                    "only leaves can be switched off; use detach()")
            self._storage.cease_to_be_leaf()
            return self
        if not self.dtype.is_float:
            raise GradientError(f"requires_grad of a tensor of {self.dtype.name}: only floats "
                                f"have gradients; convert with .float() first")
        if self._detached or any(op is Op.EXPAND for op, _ in self._moves):
            tracing.refuse_unless_made(self, "changing requires_grad of a tensor from outside")
            own = results.clone(self, contiguous_format)  # which is looked up
            self._storage, self._moves, self._lineage = own._storage, (), None
        self._storage.become_leaf()
        self._own_leaf()
        return self

    @property
    def _keeps_graph(self) -> bool:
        """Whether it requires a gradient, and no backward() has used up its graph."""
        lineage = self._lineage
        gradients = self._storage if lineage is None or lineage.follows else lineage
        return gradients.requires_grad and not gradients.was_freed

    @property
    def _base(self) -> Tensor | None:
        """What this is a view of: the whole memory as a tensor; None if it is all of it. The tensor
        itself where it is a leaf; else another of the same memory."""
        if not self._moves:
            return None
        owner = self._leaf_owner
        return self._view(self._storage, (), self._lineage) if owner is None or owner._moves else \
            owner

    def _is_view(self) -> bool:
        """Whether it is a view of another tensor."""
        return bool(self._moves)

    def _own_leaf(self) -> None:
        """Collect in `.grad` what flows to this tensor's storage, a leaf."""
        leaves[self._leaf_id] = self

    @property
    def _leaf_owner(self) -> Tensor | None:
        """The tensor whose `.grad` collects what flows through this one to a leaf."""
        return None if self._detached else leaves.get(self._leaf_id)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return not self.requires_grad or leaves.get(self._leaf_id) is self

    @property
    def _leaf_id(self) -> int:
        return -1 if self._storage.leaf_id is None else self._storage.leaf_id
