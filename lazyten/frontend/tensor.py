"""The tensor: what users hold. A thin handle: a Storage, and the moves that make a view of it.

Every operation makes GRAPH nodes (elementwise.py, special.py, reductions.py, windows.py, losses.py)
and computes nothing; printing, `.numpy()`, `.item()`, `bool()` and `realize()` compute. Indexing,
transposing and the like give views, which share the Storage: what is written through one is seen
through all.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, overload
from weakref import WeakValueDictionary, ref

import numpy as np

from lazyten.autodiff import gradient as _gradient
from lazyten.autodiff import hooks
from lazyten.execution import background
from lazyten.execution import realization as _realization
from lazyten.execution.lineage import Lineage
from lazyten.frontend import printing
from lazyten.frontend.core.mixed_precision import LOW, WIDE, casting
from lazyten.frontend.memory_format import (
    MemoryFormat,
    contiguous_format,
    order_of,
    preserve_format,
)
from lazyten.frontend.methods.arrangement import ArrangementMethods
from lazyten.frontend.methods.counting import CountingMethods
from lazyten.frontend.methods.creation import CreationMethods
from lazyten.frontend.methods.gathering import GatherMethods, adder
from lazyten.frontend.methods.gradients import GradientMethods
from lazyten.frontend.methods.in_place import in_place
from lazyten.frontend.methods.math import MathMethods
from lazyten.frontend.methods.metadata import MetadataMethods
from lazyten.frontend.methods.order import OrderMethods
from lazyten.frontend.methods.products import ProductMethods
from lazyten.frontend.methods.random import RandomMethods
from lazyten.frontend.methods.reductions import ReductionMethods
from lazyten.frontend.methods.views import ViewMethods
from lazyten.frontend.size import Size
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.movement import Moves, chained, inverse_order, out_shape
from lazyten.ir.node import Node, Shape, cast, const, elementwise, make, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import indexing
from lazyten.operators.arrays import windows as _windows
from lazyten.operators.arrays.arrangements import tile
from lazyten.operators.arrays.index_arrays import Indexed, Selection, select
from lazyten.operators.arrays.strided import written_through
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import losses, shapes, special
from lazyten.storage import data as _data
from lazyten.storage import history, levels, tracing
from lazyten.storage.placement import Device, canonical, default_device, placed
from lazyten.storage.storage import Storage
from lazyten.support.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexingError,
    ShapeError,
)
from lazyten.support.grad_mode import is_grad_enabled, no_grad
from lazyten.symbolic.view import ShapeTracker

# inside Tensor, bool, int and float are methods
Flag: TypeAlias = bool
Integer: TypeAlias = int
Real: TypeAlias = float
DTypeLike = DType | str | type | np.dtype[Any]
KINDS = {"Half": dt.float16, "BFloat16": dt.bfloat16, "Float": dt.float32, "Double": dt.float64,
         "Byte": dt.uint8, "Char": dt.int8, "Short": dt.int16, "Int": dt.int32, "Long": dt.int64,
         "Bool": dt.bool_}
"""Element types by PyTorch's names of tensors of them."""
_NUMBERS = float, int, bool, np.number, np.bool_


class _Array(NamedTuple):
    """Where index array `number` stands among the entries of an index."""

    number: int

    def __repr__(self) -> str:
        return "array"


_leaves: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""The tensor whose `.grad` a LEAF node's gradient goes to."""


class Tensor(MetadataMethods, CreationMethods, ViewMethods, MathMethods, ArrangementMethods,
             OrderMethods, ReductionMethods, GatherMethods, CountingMethods, ProductMethods,
             RandomMethods, GradientMethods):
    """An array of numbers that is computed when it is needed.

    Tensor(2, 3) is a tensor of these sizes, whose values do not matter. Tensor(data) copies nested
    sequences or a NumPy array to the default float type; `lazyten.tensor` keeps the type.
    """

    __slots__ = ("__weakref__", "_grad", "_hooked", "_lineage", "_moves", "_retains", "_storage")
    __array_priority__ = 1000  # NumPy leaves `array + tensor` to the tensor

    def __init__(self, *data: Any, dtype: DTypeLike | None = None, device: str | None = None,
                 requires_grad: bool = False) -> None:
        kind = dt.default_float if dtype is None else dt.as_dtype(dtype)
        if _data.are_sizes(data):
            where = placed(device)
            self._hold(Storage(const(0, kind, shapes.new_shape(data or (0,), "Tensor")), where))
        else:
            given = _data.only_sequence(data)
            wanted = dtype if isinstance(given, Tensor) else kind
            self._hold(Tensor._copy_of(given, wanted, device)._storage)
        if requires_grad:
            self.requires_grad_()

    @staticmethod
    def _copy_of(data: Any, dtype: DTypeLike | None = None, device: str | None = None,
                 requires_grad: Flag = False) -> Tensor:
        """A tensor with a copy of numbers, nested sequences or an array; see `lazyten.tensor`."""
        where = placed(device)
        if isinstance(data, Tensor):
            node = data.detach().to(dtype=dtype, device=where).node
        else:
            node = _data.buffer_node(data, None if dtype is None else dt.as_dtype(dtype), where)
        result = Tensor._view(Storage(node, where), (), None)
        return result.requires_grad_() if requires_grad else result

    def _hold(self, storage: Storage, moves: Moves = ()) -> None:
        """Be a new handle of this storage."""
        self._storage, self._moves = storage, moves
        self._lineage: Lineage | None = None
        self._grad: Tensor | None = None

    # ---- structure -------------------------------------------------------------------------------

    @staticmethod
    def _view(storage: Storage, moves: Moves, lineage: Lineage | None) -> Tensor:
        result = object.__new__(Tensor)
        result._storage, result._moves, result._lineage = storage, moves, lineage
        result._grad = None
        if lineage is not None and tracing.active is not None:
            tracing.made(result)
        return result

    @staticmethod
    def _of(node: Node, device: str, requires_grad: bool = False, one_of: bool = False) -> Tensor:
        """A new tensor of a node's value. one_of: of several that are made, and computed, together,
        such as the gradients of one backward pass."""
        storage = Storage(node, device, requires_grad)
        if one_of:
            history.note(storage)
        else:
            background.made(storage)
        return Tensor._view(storage, (), None)

    @staticmethod
    def _result(node: Node, *operands: Tensor) -> Tensor:
        """What an operation on these tensors gives: it requires a gradient if one of them does."""
        requires = False
        for t in operands:
            requires = requires or t.requires_grad
        if requires and not is_grad_enabled():
            node, requires = make(Op.DETACH, node.dtype, (node,)), False
        return Tensor._of(node, operands[0]._storage.device, requires and node.dtype.is_float)

    def _given(self, node: Node, *others: Tensor) -> Tensor:
        """What an operation on this tensor and others gives."""
        return Tensor._result(node, self, *others)

    def _fresh(self, value: Node | np.ndarray[Any, Any], device: str | None = None) -> Tensor:
        """A new tensor that no gradient flows through, on this device or another."""
        where = self.device if device is None else canonical(device)
        return Tensor._of(value, where) if isinstance(
            value, Node) else Tensor._copy_of(value, device=where)

    def _cast(self, dtype: DType) -> Tensor:
        return self.to(dtype=dtype)

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
    def _detached(self) -> Flag:
        """Whether no gradient of the storage flows through this handle."""
        return self._lineage is not None

    @property
    def shape(self) -> Size:
        """The size of each axis."""
        shape = self._storage.value.shape
        for op, arg in self._moves:
            shape = out_shape(op, shape, arg)
        return Size(shape)

    @property
    def _tracker(self) -> ShapeTracker:
        tracker = ShapeTracker.of(self._storage.value.shape)
        for op, arg in self._moves:
            tracker = tracker.moved(op, arg)
        return tracker

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._storage.value.dtype

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
        view = self._tracker.single
        if view is None or view.mask is not None:
            raise ShapeError(f"stride of a view of shape {self.shape}: its elements are not evenly "
                             f"spaced in memory; contiguous() makes a copy that is")
        return view.strides if dim is None else view.strides[shapes.axis(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        """Where the first element is in the storage, in elements."""
        view = self._tracker.single
        return 0 if view is None else view.offset

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Whether the elements are in memory in row-major order, or another, without gaps."""
        order = order_of(memory_format, self.ndim, "is_contiguous")
        if order is None:
            return self._tracker.is_contiguous
        return self.permute(order)._tracker.is_contiguous

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len of a zero-dim tensor: it has no axes; numel() is 1")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise ShapeError("iteration over a zero-dim tensor: it has no axes; use item()")
        return (self[i] for i in range(self.shape[0]))

    # ---- values ----------------------------------------------------------------------------------

    def realize(self) -> Tensor:
        """Compute the value now; gives this tensor."""
        _realization.realize([self._storage])
        return self

    def numpy(self, *, force: Flag = False) -> np.ndarray[Any, Any]:
        """The values as a new NumPy array (bfloat16 as float32, which NumPy lacks), also of what
        requires gradients, so `force` is not needed. DTypeError for 8-bit floats."""
        if self.dtype.is_stored:
            raise DTypeError(f"numpy of {self.dtype.name}: NumPy has no such type; use "
                             f".float().numpy()")
        return self._values()

    def _values(self) -> np.ndarray[Any, Any]:
        """The values as a new NumPy array, of float32 where NumPy lacks the type."""
        self.realize()
        values = self._storage.read()
        if self.dtype is dt.float16:
            values = values.astype(np.float16)
        if not self._moves:
            return values
        return np.array(self._tracker.numpy_view(values.reshape(-1)))

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a zero-dim tensor."""
        return self._values().tolist()

    def item(self) -> Scalar:
        """The value of a tensor of one element. ShapeError for any other."""
        if self.numel() != 1:
            raise ShapeError(f"item of a tensor of shape {self.shape}: it has {self.numel()} "
                             f"elements, and item() is for one; use tolist()")
        value: Scalar = self._values().reshape(()).item()
        return value

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(f"bool of a tensor of shape {self.shape}: the truth of "
                             f"{self.numel()} elements is ambiguous; use any() or all()")
        return bool(self.item())

    def __int__(self) -> int:
        value = self.item()
        if not math.isfinite(value):
            raise ArgumentError(f"int of a tensor that holds {value}: it is not a whole number; "
                                f"use float()")
        return int(value)

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not (self.dtype.is_int or self.dtype is dt.bool_):
            raise DTypeError(f"a tensor of {self.dtype.name} cannot be an index: it must be an "
                             f"integer; convert with .long()")
        return int(self.item())

    def __repr__(self) -> str:
        with no_grad():
            values = self.detach()._values()
        suffixes = []
        if not values.size and values.ndim != 1:
            suffixes.append(f"size={self.shape}")
        default = (dt.default_float, dt.default_int, dt.bool_)
        if self.dtype not in default or not values.size and self.dtype is not dt.default_float:
            suffixes.append(f"dtype={self.dtype}")
        if self.device != default_device():
            suffixes.append(f"device='{self.device}'")
        if self.requires_grad:
            suffixes.append("requires_grad=True")
        return printing.format_tensor(values, suffixes)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if self.shape else format(self.item(), spec)

    def __contains__(self, element: Any) -> Flag:
        return Flag((self == element).any())

    def __hash__(self) -> int:
        return id(self)

    # ---- conversion ------------------------------------------------------------------------------

    def to(self, *args: Any, dtype: DTypeLike | None = None, device: str | None = None,
           memory_format: MemoryFormat = preserve_format, non_blocking: Flag = False,
           copy: Flag = False) -> Tensor:
        """This tensor in another dtype, on another device, in another layout, or all of them:
        to('interpreter'), to(lt.float64), to(other_tensor). Itself if nothing changes, unless
        `copy`. Nothing waits for what is computed, so non_blocking makes no difference."""
        for arg in args:
            if isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, str) and arg not in dt.BY_NAME:
                device = arg
            else:
                dtype = arg
        result = self
        if dtype is not None and dt.as_dtype(dtype) is not self.dtype:
            result = Tensor._result(cast(self.node, dt.as_dtype(dtype)), self)
        if device is not None and canonical(device) != result.device:
            result = result._copied_to(canonical(device))
        if memory_format is not preserve_format:
            result = result.contiguous(memory_format)
        return result.clone(memory_format) if copy and result is self else result

    def _copied_to(self, device: str) -> Tensor:
        node = make(Op.COPY, self.dtype, (self.node,), (self.device, device))
        return Tensor._of(node, device, self.requires_grad and is_grad_enabled())

    def cpu(self) -> Tensor:
        """This tensor on the cpu."""
        return self.to(device="cpu")

    @overload
    def type(self) -> str: ...
    @overload
    def type(self, dtype: DTypeLike) -> Tensor: ...

    def type(self, dtype: DTypeLike | None = None) -> Tensor | str:
        """This tensor in another dtype; without one, the name of its kind: 'lazyten.FloatTensor'.
        """
        if dtype is not None:
            return self.to(dtype=dtype)
        names = [name for name, kind in KINDS.items() if kind is self.dtype]
        return f"lazyten.{(names or [self.dtype.name.capitalize()])[0]}Tensor"

    def float(self) -> Tensor:
        """In float32."""
        return self.to(dtype=dt.float32)

    def double(self) -> Tensor:
        """In float64."""
        return self.to(dtype=dt.float64)

    def half(self) -> Tensor:
        """In float16."""
        return self.to(dtype=dt.float16)

    def bfloat16(self) -> Tensor:
        """In bfloat16."""
        return self.to(dtype=dt.bfloat16)

    def int(self) -> Tensor:
        """In int32."""
        return self.to(dtype=dt.int32)

    def long(self) -> Tensor:
        """In int64."""
        return self.to(dtype=dt.int64)

    def bool(self) -> Tensor:
        """In bool: whether not 0."""
        return self.to(dtype=dt.bool_)

    def bitcast(self, dtype: DTypeLike) -> Tensor:
        """The same bits as another dtype of the same width. DTypeError if the widths differ."""
        target = dt.as_dtype(dtype)
        if target.bits != self.dtype.bits or dt.bool_ in (target, self.dtype):
            raise DTypeError(f"bitcast {self.dtype.name} -> {target.name}: both need the same "
                             f"number of bits ({self.dtype.bits} and {target.bits} here)")
        return Tensor._result(make(Op.BITCAST, target, (self.node,)), self)

    # ---- gradients -------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> Flag:
        """Whether gradients flow back through this tensor. Set it on leaves; see detach()."""
        storage = self._storage
        if tracing.active is not None:
            tracing.touched(storage)
        gradients = storage if self._lineage is None else self._lineage
        return gradients.requires_grad and storage._node.dtype.is_float

    @requires_grad.setter
    def requires_grad(self, wanted: Flag) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: Flag = True) -> Tensor:
        """Collect gradients for this tensor in `.grad`, or stop. Gives this tensor.

        What detach() gave gets a storage of its own: later writes to either are its own.
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
        if self._detached:
            tracing.refuse_unless_made(self, "changing requires_grad of a tensor from outside")
            self._storage, self._moves = Storage(self.node, self.device), ()
            self._lineage = None
            background.made(self._storage)
        self._storage.become_leaf()
        self._own_leaf()
        return self

    def _own_leaf(self) -> None:
        """Collect in `.grad` what flows to this tensor's storage, a leaf."""
        _leaves[self._leaf_id] = self

    @property
    def _leaf_owner(self) -> Tensor | None:
        """The tensor whose `.grad` collects what flows through this one to a leaf."""
        return None if self._detached else _leaves.get(self._leaf_id)

    @property
    def is_leaf(self) -> Flag:
        """Whether no recorded operation made this tensor."""
        return not self.requires_grad or _leaves.get(self._leaf_id) is self

    @property
    def _leaf_id(self) -> Integer:
        return -1 if self._storage.leaf_id is None else self._storage.leaf_id

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward() has collected; None before, and for tensors that are no
        leaves."""
        if tracing.active is not None:
            tracing.gradient_used(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            tracing.gradient_used(self, replaced=True)
            self._grad = None
            return
        self._tensor(value, "grad =")
        if value.shape != self.shape or value.dtype is not self.dtype:
            raise GradientError(f"grad = a tensor of {value.dtype.name} {value.shape}: it must be "
                                f"like this one, {self.dtype.name} {self.shape}")
        tracing.gradient_used(self, replaced=True)
        self._grad = value

    def _become(self, value: Tensor) -> None:
        """Take over another tensor's value, dtype and device; go on collecting gradients."""
        tracing.storage_replaced()
        required = self.requires_grad
        self._storage, self._moves = Storage(value.detach().node, value.device), ()
        background.made(self._storage)
        self._lineage, self._grad = None, None
        if required:
            self.requires_grad_()

    def __copy__(self) -> Tensor:
        return Tensor._view(self._storage, self._moves, self._lineage)

    def _copied_storage(self, memo: dict[Integer, Any]) -> Storage:
        """The storage's deep copy, which aliases share. GradientError for what is no leaf."""
        if not self.is_leaf:
            raise GradientError("deepcopy of a tensor that an operation made and gradients flow "
                                "through: only leaves can be copied; use detach() or clone()")
        storage: Storage | None = memo.get(id(self._storage))
        if storage is None:
            self._storage.refresh()
            storage = memo[id(self._storage)] = Storage(self._storage.value, self.device)
        return storage

    def __deepcopy__(self, memo: dict[Integer, Any]) -> Tensor:
        storage = self._copied_storage(memo)
        result = memo[id(self)] = Tensor._view(storage, self._moves, None)
        if self.requires_grad:
            result.requires_grad_()
        if self._grad is not None:
            result.grad = self._grad.__deepcopy__(memo)
        return result

    def detach(self) -> Tensor:
        """The same values (the same storage), through which no gradient flows."""
        return Tensor._view(self._storage, self._moves, Lineage())

    def backward(self, gradient: Tensor | None = None, retain_graph: Flag = False,
                 inputs: Sequence[Tensor] | None = None) -> None:
        """Add the gradient of this tensor to `.grad` of every leaf that it was computed from, or of
        those among `inputs`.

        gradient: what this tensor's elements are weighted with; may be left out for one element.
        retain_graph: keep what is needed to call backward() again. Nothing is computed yet: the
        gradients are tensors as lazy as any, through which no gradient flows; see autograd.grad().
        """
        cotangent, node = self._cotangent(gradient), self.node
        wanted = None if inputs is None else {self._leaf_among(t) for t in inputs}
        touched = [self._storage]
        for leaf, part in _gradient.leaf_gradients(node, cotangent):
            owner = _leaves.get(leaf.arg)
            if owner is not None and (wanted is None or leaf.arg in wanted):
                touched.append(owner._collect(indexing.apply(owner._moves, part)))
                hooks.accumulated(leaf.arg, owner)
        if not retain_graph:
            self._free_graph()
        group = tuple(ref(s) for s in touched)
        for storage in touched:
            storage.companions = group
        background.summed(touched[1:])

    def _free_graph(self) -> None:
        """Give up what this tensor was computed from: backward() has used it."""
        if self._lineage is None:
            self._storage.free_graph()
        else:
            self._lineage.free()

    def _leaf_among(self, given: Any) -> Integer:
        """The id of a leaf that backward() is to add to."""
        leaf = self._tensor(given, "backward: inputs")
        if not leaf.requires_grad or not leaf.is_leaf:
            raise GradientError(f"backward: a tensor of shape {leaf.shape} among the inputs is no "
                                f"leaf that requires gradients; use autograd.grad()")
        return leaf._leaf_id

    def _cotangent(self, given: Tensor | None) -> Node:
        if not self.requires_grad:
            raise GradientError(f"backward of a tensor of shape {self.shape} that does not require "
                                f"gradients: set requires_grad on a leaf it is computed from, and "
                                f"compute it outside no_grad()")
        if (self._storage if self._lineage is None else self._lineage).was_freed:
            raise GradientError("backward was called on this tensor before, which frees what it "
                                "was computed from; the first time, pass retain_graph=True")
        if given is None:
            if self.numel() != 1:
                raise GradientError(f"backward of shape {self.shape}: a gradient without weights "
                                    f"is for one element; reduce first, with sum() or mean(), or "
                                    f"pass gradient=")
            return const(1.0, self.dtype, self.shape)
        self._tensor(given, "backward")
        if given.shape != self.shape or not given.dtype.is_float:
            raise GradientError(f"backward: gradient is {given.dtype.name} {given.shape}, but the "
                                f"tensor {self.dtype.name} {self.shape}; they must be alike")
        return cast(given.detach().node, self.dtype)

    def _collect(self, part: Node) -> Storage:
        """Add to `.grad`, in place if there is one. No gradient flows through it."""
        levels.check_write(self._storage.serial, self.shape, "calls backward() into .grad of")
        tracing.gradient_used(self)
        part = make(Op.DETACH, part.dtype, (part,))
        if self._grad is None:
            self._grad = Tensor._of(part, self.device, one_of=True)
        else:
            background.before_sum(self._grad._storage)
            self._grad._write(elementwise(Op.ADD, self._grad.detach().node, part), False,
                              one_of=True)
        return self._grad._storage

    # ---- writing ---------------------------------------------------------------------------------

    def _write(self, value: Node, requires_grad: Flag, replaces: Flag = False,
               one_of: Flag = False) -> Tensor:
        """Make `value` (of this tensor's shape and dtype) the value, seen by all views. replaces:
        the old value has no say in it. one_of: see _of."""
        storage = self._storage
        if self._moves:  # what is not written stays
            storage.refresh()
        replaces = replaces and self.requires_grad and value.numel == storage.value.numel
        if self._lineage is not None and requires_grad:
            self._lineage.write(self._written(self._lineage.read(storage, ()), value, replaces))
            value, requires_grad = make(Op.DETACH, value.dtype, (value,)), False
        old = storage.value
        value = self._written(old, value, replaces and requires_grad)
        if storage.keeps_graph and not requires_grad:  # what gradients passed by, they still do
            value = ew.written_over(old, value)
        keeps_graph = requires_grad or storage.keeps_graph
        if storage.shared is not None:
            value = _realization.computed(value, storage.device, keeps_graph)
        storage.assign(value, keeps_graph)
        for reference in storage.retaining:
            tensor = reference()
            if tensor is not None:
                tensor._retain_new_value()
        if one_of:
            history.note(storage)
        else:
            background.made(storage)
        return self

    def _written(self, old: Node, value: Node, replaces: Flag) -> Node:
        """What `old`, shaped as the storage, becomes by writing `value` through this view."""
        if self._moves:
            value = written_through(self._moves, old, value)
        return ew.flat_in(old, value) if replaces else value

    def _update(self, operation: str, value: Node, *others: Tensor,
                replaces: Flag = False) -> Tensor:
        """What an in-place operation does: check that `value` fits, and write it. replaces: it does
        not depend on what is there."""
        tracked = is_grad_enabled()
        if tracked and self._storage.leaf_id is not None and not self._detached:
            raise GradientError(f"{operation} on a leaf that requires gradients would lose the "
                                f"value they are for; do it inside no_grad()")
        if value.shape != self.shape:
            raise ShapeError(f"{operation} on shape {self.shape} would give shape {value.shape}: "
                             f"an in-place result keeps the shape; use the operation that makes a "
                             f"new tensor")
        if dt.category(value.dtype) > dt.category(self.dtype):
            raise DTypeError(f"{operation} on {self.dtype.name} would give {value.dtype.name}, "
                             f"which does not fit in it; convert first, or make a new tensor")
        requires = tracked and (self.requires_grad or any(t.requires_grad for t in others))
        replaces = replaces or not value.dtype.is_float  # no gradient flows through it
        value = cast(value, self.dtype)
        if not requires and any(t.requires_grad for t in (self, *others)):
            value = make(Op.DETACH, value.dtype, (value,))
        return self._write(value, requires, replaces)

    def copy_(self, source: Any) -> Tensor:
        """Take over the values of `source`, broadcast to this shape and converted to this dtype."""
        return self._copy_from(source, "copy_")

    def _copy_from(self, source: Any, operation: str) -> Tensor:
        other = self._operand(source, operation)
        node = other.node if isinstance(other, Tensor) else const(
            shapes.as_element(other, self.dtype, operation), self.dtype)
        if operation == "assignment":
            node = _without_leading_ones(node, self.ndim)
        if shapes.broadcast([node.shape, self.shape], operation) != self.shape:
            raise ShapeError(f"{operation} of shape {node.shape} into {self.shape}: it does not "
                             f"broadcast to it; reshape it")
        wide = ew.broadcast_to(cast(node, self.dtype), self.shape)
        return self._update(operation, wide, *([other] if isinstance(other, Tensor) else []),
                            replaces=True)

    def fill_(self, value: Any) -> Tensor:
        """Set every element to `value`, a number or a zero-dim tensor."""
        number = self._element(value, "fill_")
        return self._update("fill_", ew.as_node(_node(number), self.dtype, self.shape),
                            *([number] if isinstance(number, Tensor) else []), replaces=True)

    def zero_(self) -> Tensor:
        """Set every element to 0."""
        return self.fill_(0)

    def add_(self, other: Any, alpha: Scalar = 1) -> Tensor:
        """self += alpha * other, in place."""
        return self._in_place("add_", *_scaled(ew.scaled_sum, alpha, other, "add_"))

    def sub_(self, other: Any, alpha: Scalar = 1) -> Tensor:
        """self -= alpha * other, in place."""
        return self._in_place("sub_", *_scaled(ew.scaled_difference, alpha, other, "sub_"))

    def mul_(self, other: Any) -> Tensor:
        """self *= other, in place."""
        return self._in_place("mul_", ew.mul, other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """self /= other, in place; see divide for rounding_mode."""
        if rounding_mode is None:
            return self._in_place("div_", ew.true_divide, other)
        quotient = self.divide(other, rounding_mode)
        return self._update("div_", quotient.node, quotient)

    def pow_(self, exponent: Any) -> Tensor:
        """self **= exponent, in place."""
        return self._in_place("pow_", ew.power, exponent)

    __iadd__, __isub__, __imul__, __itruediv__, __ipow__ = add_, sub_, mul_, div_, pow_

    def _in_place(self, operation: str, function: Callable[..., Node], other: Any) -> Tensor:
        right = self._operand(other, operation)
        others = [right] if isinstance(right, Tensor) else []
        return self._update(operation, function(self.node, _node(right)), *others)

    def __setitem__(self, index: Any, value: Any) -> None:
        if _is_flag(index):
            self.unsqueeze(0)[self._mask(index)] = value
        elif _has_arrays(index) or _is_unread(index):
            self._set_where(index, value)
        else:
            self[index]._copy_from(value, "assignment")

    def _set_where(self, index: Any, value: Any) -> None:
        """Assignment through index arrays."""
        other = self._operand(value, "assignment")
        one = not isinstance(other, Tensor) or other.numel() == 1
        if one and _is_array(index):  # of a mask the elements need not be counted
            mask = self._index_tensor(index)
            if mask.dtype is dt.bool_:
                self._check_mask(mask, 0)
                chosen = reshape(mask.node, mask.shape + (1,) * (self.ndim - mask.ndim))
                if isinstance(other, Tensor):
                    number: Scalar | Node = cast(reshape(other.node, ()), self.dtype)
                else:
                    number = shapes.as_element(other, self.dtype, "assignment")
                wide = ew.where(ew.broadcast_to(chosen, self.shape),
                                ew.as_node(number, self.dtype, ()), self.node)
                self._update("assignment", wide, *([other] if isinstance(other, Tensor) else []))
                return
        view, selection, arrays = self._selected(index, "assignment")
        view._put(selection, other, arrays, False, "assignment")

    def _put(self, selection: Selection, value: Tensor | Scalar, arrays: Sequence[Tensor],
             accumulate: Flag, operation: str) -> Tensor:
        node = value.node if isinstance(value, Tensor) else const(
            shapes.as_element(value, self.dtype, operation), self.dtype)
        if operation == "assignment":
            node = _without_leading_ones(node, len(selection.result))
        if shapes.broadcast([node.shape, selection.result], operation) != selection.result:
            raise ShapeError(f"{operation} of shape {node.shape} to indexed elements of shape "
                             f"{selection.result}: it does not broadcast to it; reshape it")
        if dt.category(node.dtype) > dt.category(self.dtype):
            raise DTypeError(f"{operation} of {node.dtype.name} into {self.dtype.name}: it does "
                             f"not fit; convert it first")
        wide = ew.broadcast_to(cast(node, self.dtype), selection.result)
        new = selection.write(self.node, wide, adder(self.dtype) if accumulate else None)
        others = [value, *arrays] if isinstance(value, Tensor) else arrays
        return self._update(operation, new, *others)

    def index_put_(self, indices: Sequence[Tensor], values: Any,
                   accumulate: Flag = False) -> Tensor:
        """self[indices] = values, in place, where the last of several for one place stays; or
        accumulate: self[indices] += values, where all are added."""
        if not isinstance(indices, list | tuple) or not any(
                _is_array(i) or _is_place(i) for i in indices):
            raise DTypeError(f"index_put_: the indices are {indices!r:.60}; give a list of tensors "
                             f"of integers or bools, one for each axis")
        view, selection, arrays = self._selected(tuple(indices), "index_put_")
        view._put(selection, self._operand(values, "index_put_"), arrays, accumulate, "index_put_")
        return self

    # ---- operands --------------------------------------------------------------------------------

    def _operand(self, value: Any, operation: str) -> Tensor | Scalar:
        """The other operand, on this device. DTypeError for what is not a number or a tensor."""
        if isinstance(value, Tensor):
            if value._storage.device != self._storage.device:
                raise DeviceError(f"{operation} of tensors on '{self.device}' and "
                                  f"'{value.device}': both must be on one device; move one with "
                                  f".to('{self.device}')")
            return value
        if type(value) is Real or type(value) is Flag:
            number: Scalar = value
            return number
        if isinstance(value, _NUMBERS) and not isinstance(value, np.complexfloating):
            return shapes.as_number(value, operation, "the other operand")
        if isinstance(value, np.ndarray | list | tuple):
            return Tensor._copy_of(value, device=self.device)
        raise DTypeError(f"{operation} of a tensor and {type(value).__name__} {value!r:.40}: the "
                         f"other operand must be a tensor, an array or a number")

    def _tensor(self, value: Any, operation: str) -> Tensor:
        """Another tensor, on this device. DTypeError for anything else."""
        if not isinstance(value, Tensor):
            raise DTypeError(f"{operation}: {type(value).__name__} {value!r:.40} is not a tensor; "
                             f"wrap it in lazyten.tensor()")
        self._operand(value, operation)
        return value

    def _binary(self, operation: str, function: Callable[..., Node], other: Any,
                swapped: Flag = False) -> Tensor:
        right = self._operand(other, operation)
        operands = (self, right) if isinstance(right, Tensor) else (self,)
        left_node, right_node = self.node, _node(right)
        node = function(right_node, left_node) if swapped else function(left_node, right_node)
        return Tensor._result(node, *operands)

    def _unary(self, function: Callable[[Node], Node]) -> Tensor:
        return Tensor._result(function(self.node), self)

    def _special(self, function: Callable[[Node], Node]) -> Tensor:
        """A function that is made of several ops: 16-bit floats are computed in float32."""
        node = self.node
        if not node.dtype.is_half:
            return Tensor._result(function(node), self)
        return Tensor._result(cast(function(cast(node, dt.float32)), node.dtype), self)

    # ---- arithmetic ------------------------------------------------------------------------------

    def add(self, other: Any, alpha: Scalar = 1) -> Tensor:
        """self + alpha * other, broadcast and promoted."""
        return self._binary("add", *_scaled(ew.scaled_sum, alpha, other, "add"))

    def sub(self, other: Any, alpha: Scalar = 1) -> Tensor:
        """self - alpha * other, broadcast and promoted."""
        return self._binary("sub", *_scaled(ew.scaled_difference, alpha, other, "sub"))

    def mul(self, other: Any) -> Tensor:
        """self * other, broadcast and promoted."""
        return self._binary("mul", ew.mul, other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """self / other in a float type; see divide for rounding_mode."""
        if rounding_mode is not None:
            return self.divide(other, rounding_mode)
        return self._binary("div", ew.true_divide, other)

    def floor_divide(self, other: Any) -> Tensor:
        """The greatest whole numbers <= self / other; of integers by 0, 0."""
        return self._binary("floor_divide", ew.floor_divide, other)

    floor_divide_ = in_place(floor_divide)

    def remainder(self, other: Any) -> Tensor:
        """self - floor_divide(self, other) * other: the sign of other; of integers by 0, 0."""
        return self._binary("remainder", ew.remainder, other)

    remainder_ = in_place(remainder)

    @casting(WIDE)
    def pow(self, exponent: Any) -> Tensor:
        """self to the power of exponent."""
        return self._binary("pow", ew.power, exponent)

    def maximum(self, other: Any) -> Tensor:
        """The greater of each pair; NaN if either is."""
        return self._binary("maximum", ew.maximum, other)

    def minimum(self, other: Any) -> Tensor:
        """The lesser of each pair; NaN if either is."""
        return self._binary("minimum", ew.minimum, other)

    __add__, __sub__, __mul__, __truediv__ = add, sub, mul, div
    __floordiv__, __mod__, __pow__ = floor_divide, remainder, pow
    __ifloordiv__, __imod__ = floor_divide_, remainder_

    def __radd__(self, other: Any) -> Tensor:
        return self._binary("add", ew.add, other, swapped=True)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("sub", ew.sub, other, swapped=True)

    def __rmul__(self, other: Any) -> Tensor:
        return self._binary("mul", ew.mul, other, swapped=True)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._binary("div", ew.true_divide, other, swapped=True)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return self._binary("floor_divide", ew.floor_divide, other, swapped=True)

    def __rmod__(self, other: Any) -> Tensor:
        return self._binary("remainder", ew.remainder, other, swapped=True)

    @casting(WIDE)
    def __rpow__(self, other: Any) -> Tensor:
        return self._binary("pow", ew.power, other, swapped=True)

    def __neg__(self) -> Tensor:
        return self._unary(ew.negative)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return self._unary(ew.absolute)

    def neg(self) -> Tensor:
        """-self; the least integer stays itself."""
        return self._unary(ew.negative)

    neg_ = negative_ = in_place(neg)

    def abs(self) -> Tensor:
        """|self|; the least integer stays itself. The gradient at 0 is 0."""
        return self._unary(ew.absolute)

    abs_ = absolute_ = in_place(abs)

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN for NaN."""
        return self._unary(ew.sign)

    sign_ = in_place(sign)

    # ---- comparisons, logic, bits ----------------------------------------------------------------

    def eq(self, other: Any) -> Tensor:
        """self == other, as bool."""
        return self._binary("eq", ew.equal, other)

    eq_ = in_place(eq)

    def ne(self, other: Any) -> Tensor:
        """self != other, as bool."""
        return self._binary("ne", ew.not_equal, other)

    ne_ = not_equal_ = in_place(ne)

    def lt(self, other: Any) -> Tensor:
        """self < other, as bool."""
        return self._binary("lt", ew.less, other)

    lt_ = less_ = in_place(lt)

    def le(self, other: Any) -> Tensor:
        """self <= other, as bool."""
        return self._binary("le", ew.less_equal, other)

    le_ = less_equal_ = in_place(le)

    def gt(self, other: Any) -> Tensor:
        """self > other, as bool."""
        return self._binary("gt", ew.greater, other)

    gt_ = greater_ = in_place(gt)

    def ge(self, other: Any) -> Tensor:
        """self >= other, as bool."""
        return self._binary("ge", ew.greater_equal, other)

    ge_ = greater_equal_ = in_place(ge)

    __lt__, __le__, __gt__, __ge__ = lt, le, gt, ge

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]  # elementwise, as in NumPy
        return NotImplemented if other is None or isinstance(other, str) else self.eq(other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]  # elementwise, as in NumPy
        return NotImplemented if other is None or isinstance(other, str) else self.ne(other)

    def __and__(self, other: Any) -> Tensor:
        return self._binary("bitwise_and", ew.bitwise_and, other)

    def __or__(self, other: Any) -> Tensor:
        return self._binary("bitwise_or", ew.bitwise_or, other)

    def __xor__(self, other: Any) -> Tensor:
        return self._binary("bitwise_xor", ew.bitwise_xor, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Tensor:
        return self._unary(ew.invert)

    def __lshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_left_shift", ew.shift_left, other)

    def __rshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_right_shift", ew.shift_right, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_left_shift", ew.shift_left, other, swapped=True)

    def __rrshift__(self, other: Any) -> Tensor:
        return self._binary("bitwise_right_shift", ew.shift_right, other, swapped=True)

    def logical_not(self) -> Tensor:
        """Whether 0."""
        return self._unary(lambda x: ew.invert(ew.as_bool(x)))

    logical_not_ = in_place(logical_not)

    def logical_and(self, other: Any) -> Tensor:
        """Whether both are not 0."""
        return self._binary("logical_and", ew.logical_and, other)

    logical_and_ = in_place(logical_and)

    def logical_or(self, other: Any) -> Tensor:
        """Whether one is not 0."""
        return self._binary("logical_or", ew.logical_or, other)

    logical_or_ = in_place(logical_or)

    def logical_xor(self, other: Any) -> Tensor:
        """Whether exactly one is not 0."""
        return self._binary("logical_xor", ew.logical_xor, other)

    logical_xor_ = in_place(logical_xor)

    def isnan(self) -> Tensor:
        """Whether NaN."""
        return self._unary(lambda x: ew.not_equal(x, x))

    def isinf(self) -> Tensor:
        """Whether infinite, of either sign."""
        return self._unary(lambda x: ew.equal(ew.absolute(x), Real("inf")))

    def isfinite(self) -> Tensor:
        """Whether neither infinite nor NaN."""
        return self._unary(lambda x: ew.less(ew.absolute(x), Real("inf")))

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """The elements held between min and max, numbers or tensors; NaN stays."""
        if min is None and max is None:
            raise ArgumentError("clamp: give min, max or both")
        low, high = [None if b is None else self._operand(b, "clamp") for b in (min, max)]
        shapes.broadcast([t.shape for t in (self, low, high) if isinstance(t, Tensor)], "clamp")
        node = ew.clip(self.node, None if low is None else _node(low),
                       None if high is None else _node(high))
        return Tensor._result(node, self, *[b for b in (low, high) if isinstance(b, Tensor)])

    clip = clamp
    clamp_ = clip_ = in_place(clamp)

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """`value`, a number or a zero-dim tensor, where the bool mask holds, else the elements."""
        chosen = self._tensor(mask, "masked_fill").node
        if chosen.dtype is not dt.bool_:
            raise DTypeError(f"masked_fill: the mask is {chosen.dtype.name}; make it bool first, "
                             f"for example with `mask != 0`")
        shapes.broadcast([self.shape, chosen.shape], "masked_fill")
        number = self._element(value, "masked_fill")
        node = ew.where(chosen, ew.as_node(_node(number), self.dtype, ()), self.node)
        return Tensor._result(node, self, mask, *([number] if isinstance(number, Tensor) else []))

    masked_fill_ = in_place(masked_fill)

    def _element(self, value: Any, operation: str) -> Tensor | Scalar:
        """What elements of this dtype are set to: a number that fits, or a zero-dim tensor."""
        if not isinstance(value, Tensor):
            return shapes.as_element(value, self.dtype, operation)
        given = self._tensor(value, operation)
        if given.shape or dt.category(given.dtype) > dt.category(self.dtype):
            raise DTypeError(f"{operation} of {self.dtype.name} by a tensor of {given.dtype.name} "
                             f"{given.shape}: give a number, or a zero-dim tensor that fits; "
                             f"convert it first")
        return given

    # ---- functions -------------------------------------------------------------------------------

    @casting(WIDE)
    def exp(self) -> Tensor:
        """e to the power of each element."""
        return self._special(special.exp)

    exp_ = in_place(exp)

    def exp2(self) -> Tensor:
        """2 to the power of each element."""
        return self._special(special.exp2)

    exp2_ = in_place(exp2)

    @casting(WIDE)
    def expm1(self) -> Tensor:
        """exp(x) - 1, also for small x."""
        return self._special(special.expm1)

    expm1_ = in_place(expm1)

    @casting(WIDE)
    def log(self) -> Tensor:
        """The natural logarithm."""
        return self._special(special.log)

    log_ = in_place(log)

    @casting(WIDE)
    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return self._special(special.log2)

    log2_ = in_place(log2)

    @casting(WIDE)
    def log10(self) -> Tensor:
        """The logarithm to base 10."""
        return self._special(special.log10)

    log10_ = in_place(log10)

    @casting(WIDE)
    def log1p(self) -> Tensor:
        """log(1 + x), also for small x."""
        return self._special(special.log1p)

    log1p_ = in_place(log1p)

    def sqrt(self) -> Tensor:
        """The square root."""
        return self._special(special.sqrt)

    sqrt_ = in_place(sqrt)

    @casting(WIDE)
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return self._special(special.rsqrt)

    rsqrt_ = in_place(rsqrt)

    @casting(WIDE)
    def reciprocal(self) -> Tensor:
        """1 / x."""
        return self._special(special.reciprocal)

    reciprocal_ = in_place(reciprocal)

    def square(self) -> Tensor:
        """x * x."""
        return self._unary(special.square)

    square_ = in_place(square)

    def sin(self) -> Tensor:
        """The sine of radians."""
        return self._special(special.sin)

    sin_ = in_place(sin)

    def cos(self) -> Tensor:
        """The cosine of radians."""
        return self._special(special.cos)

    cos_ = in_place(cos)

    @casting(WIDE)
    def tan(self) -> Tensor:
        """The tangent of radians."""
        return self._special(special.tan)

    tan_ = in_place(tan)

    def floor(self) -> Tensor:
        """The greatest whole number <= x."""
        return self._unary(special.floor)

    floor_ = in_place(floor)

    def ceil(self) -> Tensor:
        """The least whole number >= x."""
        return self._unary(special.ceil)

    ceil_ = in_place(ceil)

    def trunc(self) -> Tensor:
        """x without its fraction."""
        return self._unary(special.trunc)

    trunc_ = in_place(trunc)

    def round(self, *, decimals: Integer = 0) -> Tensor:
        """The nearest number of so many decimals (below 0: of zeros), halves to the even one."""
        places = shapes.as_int(decimals, "round", "decimals")
        return self._unary(lambda x: special.rounded(x, places))

    round_ = in_place(round)

    def erf(self) -> Tensor:
        """The error function."""
        return self._special(special.erf)

    erf_ = in_place(erf)

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return self._unary(special.relu)

    relu_ = in_place(relu)

    def sigmoid(self) -> Tensor:
        """1 / (1 + e ** -x)."""
        return self._special(special.sigmoid)

    sigmoid_ = in_place(sigmoid)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return self._special(special.tanh)

    tanh_ = in_place(tanh)

    def gelu(self, approximate: str = "none") -> Tensor:
        """x times the normal distribution function at x; approximate='tanh' for the formula with
        tanh."""
        if approximate not in ("none", "tanh"):
            raise ArgumentError(f"gelu: approximate={approximate!r} is neither 'none' nor 'tanh'")
        return self._special(lambda x: special.gelu(x, approximate == "tanh"))

    def silu(self) -> Tensor:
        """x * sigmoid(x)."""
        return self._special(special.silu)

    @casting(WIDE)
    def softmax(self, dim: Integer, dtype: DTypeLike | None = None) -> Tensor:
        """e ** x over its sum along an axis."""
        axis = shapes.axis(dim, self.ndim, "softmax")
        return self.to(dtype=dtype)._unary(lambda x: losses.softmax(x, axis))

    @casting(WIDE)
    def log_softmax(self, dim: Integer, dtype: DTypeLike | None = None) -> Tensor:
        """The logarithm of softmax."""
        axis = shapes.axis(dim, self.ndim, "log_softmax")
        return self.to(dtype=dtype)._unary(lambda x: losses.log_softmax(x, axis))

    # ---- movement --------------------------------------------------------------------------------

    def _moved(self, *moves: tuple[Op, Any]) -> Tensor:
        """A view through more moves."""
        lineage = self._lineage
        if lineage is None and self._storage.requires_grad and not is_grad_enabled():
            lineage = Lineage()
        shape, all_moves = self._storage.value.shape, self._moves
        for op, arg in moves:
            all_moves = chained(all_moves, shape, op, arg)
        return Tensor._view(self._storage, all_moves, lineage)

    def _restrided(self, moves: Moves) -> Tensor:
        """Another view of the storage."""
        return Tensor._view(self._storage, (), self._lineage)._moved(*moves)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order in another shape; one size may be -1. A view where
        strides allow it, otherwise a new tensor."""
        new = shapes.reshaped(self.shape, shape)
        return self._reshaped(new)

    def _reshaped(self, new: Shape) -> Tensor:
        if new == self.shape:
            return self._moved()
        if not self._moves or self._tracker.moved(Op.RESHAPE, new).single is not None:
            return self._moved((Op.RESHAPE, new))
        return Tensor._result(move(Op.RESHAPE, self.node, new), self)

    def view(self, *shape: Any) -> Tensor:
        """reshape() that is a view or a ShapeError."""
        if len(shape) == 1 and isinstance(shape[0], DType):
            raise DTypeError(f"view as {shape[0].name}: a storage has one type; bitcast() makes a "
                             f"new tensor of the same bits")
        new = shapes.reshaped(self.shape, shape, "view")
        if self._moves and self._tracker.moved(Op.RESHAPE, new).single is None:
            raise ShapeError(f"view {self.shape} -> {new}: the elements' strides do not allow it "
                             f"without a copy; use reshape()")
        return self._moved((Op.RESHAPE, new))

    def view_as(self, other: Tensor) -> Tensor:
        """view() in another tensor's shape."""
        return self.view(self._tensor(other, "view_as").shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """reshape() in another tensor's shape."""
        return self.reshape(self._tensor(other, "reshape_as").shape)

    def flatten(self, start_dim: Integer = 0, end_dim: Integer = -1) -> Tensor:
        """Axes start_dim to end_dim made one."""
        rank = self.ndim
        if rank == 0:
            return self.reshape(1)
        first = shapes.axis(start_dim, rank, "flatten")
        last = shapes.axis(end_dim, rank, "flatten")
        if first > last:
            raise ArgumentError(f"flatten of shape {self.shape}: start_dim {start_dim} comes after "
                                f"end_dim {end_dim}")
        size = 1
        for n in self.shape[first:last + 1]:
            size *= n
        return self._reshaped((*self.shape[:first], size, *self.shape[last + 1:]))

    def unflatten(self, dim: Integer, sizes: Sequence[Integer]) -> Tensor:
        """One axis split in several; one size may be -1."""
        axis, n = shapes.sized_axis(dim, self.shape, "unflatten")
        inner = shapes.reshaped((n,), [sizes], "unflatten")
        return self._reshaped((*self.shape[:axis], *inner, *self.shape[axis + 1:]))

    def squeeze(self, dim: Integer | Sequence[Integer] | None = None) -> Tensor:
        """Without the axes of size 1, or without those named if they are of size 1."""
        named = dim is None or not isinstance(dim, list | tuple) or dim
        axes = shapes.axes(dim, self.ndim, "squeeze") if named else ()
        gone = {a for a in axes if a < self.ndim and self.shape[a] == 1}
        return self._reshaped(tuple(n for a, n in enumerate(self.shape) if a not in gone))

    def unsqueeze(self, dim: Integer) -> Tensor:
        """With a new axis of size 1 before axis `dim`."""
        axis = shapes.axis(dim, self.ndim + 1, "unsqueeze")
        return self._reshaped((*self.shape[:axis], 1, *self.shape[axis:]))

    def permute(self, *dims: Any) -> Tensor:
        """The axes in another order; a view."""
        given = shapes.sizes(dims, "permute")
        axes = tuple(shapes.axis(a, self.ndim, "permute") for a in given)
        if len(axes) != self.ndim or len(set(axes)) != len(axes):
            raise IndexingError(f"permute {given} of shape {self.shape}: name each of the "
                                f"{self.ndim} axes once")
        return self._moved((Op.PERMUTE, axes))

    def transpose(self, dim0: Integer, dim1: Integer) -> Tensor:
        """Two axes exchanged; a view."""
        a = shapes.axis(dim0, self.ndim, "transpose")
        b = shapes.axis(dim1, self.ndim, "transpose")
        if not self.shape:
            return self._moved()
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self._moved((Op.PERMUTE, tuple(order)))

    def t(self) -> Tensor:
        """A matrix transposed; vectors and zero-dim tensors as they are."""
        if self.ndim > 2:
            raise ShapeError(f"t of shape {self.shape}: it is for at most 2 axes; use transpose()")
        return self.transpose(0, -1)

    @property
    def data(self) -> Tensor:
        """detach(); what is assigned is the new value, and `.grad` stays."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        tracing.refuse_unless_made(self, "assigning to .data of a tensor from outside")
        given = self._tensor(value, "data =")
        if not given.dtype.is_float and self.requires_grad:
            raise GradientError(f"data = a tensor of {given.dtype.name}, of one that requires "
                                f"gradients: only floats have gradients; convert with .float()")
        collected = self._grad
        self._become(given)
        self._grad = collected

    def _shown_as(self, view: Tensor, operation: str) -> Tensor:
        """Make this tensor itself a view of its storage."""
        tracing.refuse_unless_made(self, f"{operation} of a tensor from outside")
        if is_grad_enabled() and self.requires_grad and self.is_leaf:
            raise GradientError(f"{operation} on a leaf that requires gradients: its gradient has "
                                f"the shape that it had; use the method that gives a view")
        self._storage, self._moves, self._lineage = view._storage, view._moves, view._lineage
        return self

    @property
    def T(self) -> Tensor:
        """All axes in reverse order; a view."""
        return self._moved((Op.PERMUTE, tuple(reversed(range(self.ndim)))))

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged; a view. A zero-dim tensor is itself."""
        if not self.shape:
            return self
        if self.ndim < 2:
            raise ShapeError(f"mT of shape {self.shape}: a matrix has at least 2 axes")
        return self.transpose(-2, -1)

    def expand(self, *shape: Any) -> Tensor:
        """Axes of size 1 repeated, and new ones in front; a view, nothing is copied."""
        new = shapes.expanded(self.shape, shape)
        return self._moved((Op.RESHAPE, (1,) * (len(new) - self.ndim) + self.shape),
                           (Op.EXPAND, new))

    broadcast_to = expand

    def expand_as(self, other: Tensor) -> Tensor:
        """expand() to another tensor's shape."""
        return self.expand(self._tensor(other, "expand_as").shape)

    def repeat(self, *repeats: Any) -> Tensor:
        """The tensor copied side by side, `repeats` times along each axis."""
        times = shapes.new_shape(repeats, "repeat")
        if len(times) < self.ndim:
            raise ShapeError(f"repeat {times} of shape {self.shape}: give a number for each of the "
                             f"{self.ndim} axes")
        return self._unary(lambda x: tile(x, times, "repeat"))

    def flip(self, *dims: Any) -> Tensor:
        """The elements of some axes in reverse order; x[::-1] is a view of them."""
        given = shapes.sizes(dims, "flip")
        axes = shapes.axes(given, self.ndim, "flip") if given else ()
        return Tensor._result(move(Op.FLIP, self.node, axes), self)

    def pad(self, padding: Sequence[Integer], value: Scalar = 0) -> Tensor:
        """`value` around the last axes: (before, after) of the last axis, then of the one before,
        and so on, as torch.nn.functional.pad; negative numbers cut."""
        given = shapes.sizes([padding], "pad")
        value = shapes.as_element(value, self.dtype, "pad")
        if len(given) % 2 or len(given) > 2 * self.ndim:
            raise ShapeError(f"pad {given} of shape {self.shape}: give (before, after) for the "
                             f"last axis, then for the one before, at most {self.ndim} pairs")
        pairs = [(0, 0)] * (self.ndim - len(given) // 2) + [
            (given[i], given[i + 1]) for i in range(len(given) - 2, -1, -2)]
        chain = indexing.Chain(self.shape)
        for axis, (before, after) in enumerate(pairs):
            n = self.shape[axis]
            if n + min(before, 0) + min(after, 0) < 0:
                raise ShapeError(f"pad {given} of shape {self.shape}: axis {axis} has size {n}, "
                                 f"and {-min(before, 0) - min(after, 0)} elements cannot be cut")
            chain.shrink(axis, max(-before, 0), n - max(-after, 0))
        around = tuple((max(b, 0), max(a, 0)) for b, a in pairs)
        shapes.countable(out_shape(Op.PAD, chain.shape, around), "pad")
        inner = indexing.apply(chain.moves, self.node)
        return Tensor._result(ew.padded(inner, around, value), self)

    def contiguous(self, memory_format: MemoryFormat = contiguous_format) -> Tensor:
        """Itself if its elements are in row-major order, or another, else a copy that is."""
        if self.is_contiguous(memory_format):
            return self
        if memory_format.order is not None:
            return self.clone(memory_format)
        return Tensor._result(make(Op.CONTIGUOUS, self.dtype, (self.node,)), self)

    def clone(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """A tensor of its own with the same value, in row-major order or another."""
        order = order_of(memory_format, self.ndim, "clone")
        if order is None:
            return Tensor._result(self.node, self)
        return Tensor._result(self.permute(order).node, self).permute(inverse_order(order))

    def __getitem__(self, index: Any) -> Tensor:
        if _is_flag(index):
            return self.unsqueeze(0)[self._mask(index)]
        if _has_arrays(index) or _is_unread(index):
            return self._taken(index)
        return self._moved(*indexing.basic(index, self.shape))

    def _taken(self, index: Any) -> Tensor:
        """Indexing with index arrays."""
        view, selection, arrays = self._selected(index, "index")
        return Tensor._result(selection.read(view.node), self, *arrays)

    def _index_tensor(self, given: Any) -> Tensor:
        if isinstance(given, list) and not given:
            given = np.zeros(0, np.int64)
        return self._tensor(given if isinstance(given, Tensor) else
                            Tensor._copy_of(given, device=self.device), "index")

    def _mask(self, flag: Any) -> Tensor:
        """A bool without axes, as a mask of 1 element."""
        return self._index_tensor(flag).reshape(1)

    def _selected(self, index: Any, operation: str) -> tuple[Tensor, Selection, list[Tensor]]:
        """A view by what is basic in the index, what the arrays select in it, and the arrays. A
        mask is read now: how many elements it selects is a shape."""
        given = list(index) if isinstance(index, tuple) else [index]
        unread = not _has_arrays(index)
        arrays = [self._index_tensor(e) if _is_array(e) or unread and _is_place(e) else None
                  for e in given]
        marked: list[Any] = []
        for number, (entry, array) in enumerate(zip(given, arrays, strict=True)):
            mask = array is not None and array.dtype is dt.bool_
            if array is not None and mask and not array.ndim:
                raise IndexingError("a bool without axes as an index chooses between all and "
                                    "nothing; use where(), or reshape it to (1,)")
            axes = array.ndim if array is not None and mask else 1
            marked += [entry] if array is None else [_Array(number)] * axes
        found: list[Indexed] = []
        used: list[Tensor] = []
        masks: dict[Integer, list[Tensor]] = {}
        basic: list[Any] = []
        axis = 0
        for entry in indexing.entries(tuple(marked), self.shape):
            array = arrays[entry.number] if isinstance(entry, _Array) else None
            if array is not None:
                if array.dtype is dt.bool_:
                    if entry.number not in masks:
                        self._check_mask(array, axis)
                        masks[entry.number] = list(array.nonzero(as_tuple=True))
                    array = masks[entry.number].pop(0)
                else:
                    self._check_on_host(given[entry.number], array, axis)
                at = sum(b is None or isinstance(b, slice) for b in basic)
                found.append(Indexed(at, axis, array.node))
                used.append(array)
            basic.append(entry if array is None else slice(None))
            axis += entry is not None
        view = self._moved(*indexing.basic(tuple(basic), self.shape))
        return view, select(view.shape, found, operation), used

    def _check_mask(self, mask: Tensor, axis: Integer) -> None:
        there = self.shape[axis:axis + mask.ndim]
        if mask.shape != there:
            raise IndexingError(f"a bool mask of shape {mask.shape} as an index from axis {axis} "
                                f"on of a tensor of shape {self.shape}: it must have the shape of "
                                f"those axes, {there}")

    def _check_on_host(self, given: Any, array: Tensor, axis: Integer) -> None:
        """What is known now is checked now."""
        if not isinstance(given, Tensor) and array.dtype.is_int and array.numel():
            for extreme in (np.min(given), np.max(given)):
                indexing.position(int(extreme), axis, self.shape)

    def nonzero(self, as_tuple: Flag = False) -> Any:
        """Where the elements are not 0: int64 (count, ndim), or as_tuple a tensor an axis.

        Computes this tensor: how many there are is a shape. In a jitted function it is a JitError.
        """
        if as_tuple and not self.shape:
            return self.reshape(1).nonzero(as_tuple=True)
        places = np.argwhere(self.detach().clone().realize()._storage.read()).astype(np.int64)
        found = Tensor._copy_of(places.T if as_tuple else places, device=self.device)
        return found.unbind() if as_tuple else found

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where the bool mask holds, in one axis; the two broadcast. Computes the
        mask, as how many there are is a shape."""
        chosen = self._tensor(mask, "masked_select")
        if chosen.dtype is not dt.bool_:
            raise DTypeError(f"masked_select: the mask is {chosen.dtype.name}; make it bool first, "
                             f"for example with `mask != 0`")
        common = shapes.broadcast([self.shape, chosen.shape], "masked_select")
        wide = self.expand(common or (1,))
        found: Tensor = wide[chosen.expand(common or (1,))]
        return found

    def select(self, dim: Integer, index: SupportsIndex) -> Tensor:
        """One position of an axis, which goes away; a view."""
        axis = shapes.axis(dim, self.ndim, "select")
        return self[(*(slice(None),) * axis, shapes.as_int(index, "select", "an index"))]

    def narrow(self, dim: Integer, start: Integer, length: Integer) -> Tensor:
        """`length` positions of an axis from `start`; a view."""
        axis, n = shapes.sized_axis(dim, self.shape, "narrow")
        start = shapes.as_int(start, "narrow", "the start")
        length = shapes.as_int(length, "narrow", "the length")
        if not 0 <= start <= start + length <= n:
            raise IndexingError(f"narrow: {length} elements from {start} are outside axis {axis} "
                                f"of size {n}; start at 0 or more and end at {n} or less")
        return self[(*(slice(None),) * axis, slice(start, start + length))]

    def split(self, split_size: Integer | Sequence[Integer],
              dim: Integer = 0) -> tuple[Tensor, ...]:
        """Parts of a size (the last may be smaller), or of given sizes, along an axis; views."""
        axis, n = shapes.sized_axis(dim, self.shape, "split")
        if isinstance(split_size, Sequence):
            lengths = [shapes.as_int(s, "split", "a size") for s in split_size]
            if any(m < 0 for m in lengths) or sum(lengths) != n:
                raise ShapeError(f"split {lengths} of axis {axis}: the sizes must be 0 or more and "
                                 f"add up to {n}")
        else:
            size = shapes.as_int(split_size, "split", "a size")
            if size < 1:
                raise ArgumentError(f"split: a size of {size}; give 1 or more")
            lengths = [min(size, n - i) for i in range(0, n, size)] or [0]
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        return tuple(self.narrow(axis, s, m) for s, m in zip(starts, lengths, strict=True))

    def chunk(self, chunks: Integer, dim: Integer = 0) -> tuple[Tensor, ...]:
        """At most `chunks` parts of one size (the last may be smaller) along an axis; views."""
        if shapes.as_int(chunks, "chunk", "the number of parts") < 1:
            raise ArgumentError(f"chunk: {chunks} parts; give 1 or more")
        _, n = shapes.sized_axis(dim, self.shape, "chunk")
        return self.split(max(-(-n // chunks), 1), dim)

    def unbind(self, dim: Integer = 0) -> tuple[Tensor, ...]:
        """Each position of an axis; views."""
        axis = shapes.axis(dim, self.ndim, "unbind")
        if not self.shape:
            raise ShapeError("unbind of a zero-dim tensor: it has no axis to take apart; use "
                             "item()")
        return tuple(self.select(axis, i) for i in range(self.shape[axis]))

    # ---- products --------------------------------------------------------------------------------

    @casting(LOW)
    def matmul(self, other: Any) -> Tensor:
        """The matrix product of the last two axes, the others broadcast; vectors as in NumPy."""
        right = self._operand(other, "matmul")
        if not isinstance(right, Tensor):
            raise DTypeError(f"matmul of a tensor and the number {right!r}: multiply with *")
        return Tensor._result(_windows.matmul(self.node, right.node), self, right)

    __matmul__ = matmul

    def __rmatmul__(self, other: Any) -> Tensor:
        left = self._operand(other, "matmul")
        if not isinstance(left, Tensor):
            raise DTypeError(f"matmul of the number {left!r} and a tensor: multiply with *")
        return left.matmul(self)

    def dot(self, other: Tensor) -> Tensor:
        """The sum of products of two vectors of one length."""
        self._tensor(other, "dot")
        if self.ndim != 1 or self.shape != other.shape:
            raise ShapeError(f"dot of shapes {self.shape} and {other.shape}: both must have one "
                             f"axis, of one size; use matmul")
        return self._binary("dot", _windows.matmul, other)


# ---- helpers -------------------------------------------------------------------------------------

def _node(x: Tensor | Scalar) -> Node | Scalar:
    return x.node if isinstance(x, Tensor) else x


def _scaled(function: Callable[[Any, Any, Scalar], Node], alpha: Any, other: Any,
            operation: str) -> tuple[Callable[[Any, Any], Node], Any]:
    """A function of two operands with the factor of the second, and the second. A tensor as the
    factor, which need not be known yet, is multiplied with it first."""
    if isinstance(alpha, Tensor):
        return lambda a, b: function(a, b, 1), alpha * other
    factor = shapes.as_number(alpha, operation, "alpha")
    return lambda a, b: function(a, b, factor), other


def _is_array(entry: Any) -> bool:
    return isinstance(entry, list | np.ndarray) or isinstance(entry, Tensor) and bool(
        entry.shape or entry.dtype is dt.bool_)


def _is_place(entry: Any) -> bool:
    return isinstance(entry, Tensor) and not entry.shape and entry.dtype.is_int


def _is_unread(index: Any) -> bool:
    """Whether an index has tensors for integers where no value can be read, as they are recorded
    for other values, too: it selects as index arrays do."""
    if tracing.current() is None and not levels.under_way():
        return False
    return any(map(_is_place, index if isinstance(index, tuple) else (index,)))


def _is_flag(index: Any) -> bool:
    """Whether an index is a bool without axes, which is a mask of a new axis in front."""
    return isinstance(index, bool | np.bool_) or (
        isinstance(index, Tensor) and index.dtype is dt.bool_ and not index.shape)


def _without_leading_ones(x: Node, rank: int) -> Node:
    """x without those axes of size 1 in front that are more than `rank` axes."""
    extra = len(x.shape) - rank
    return reshape(x, x.shape[extra:]) if extra > 0 and set(x.shape[:extra]) == {1} else x


def _has_arrays(index: Any) -> bool:
    return any(_is_array(e) for e in index) if isinstance(index, tuple) else _is_array(index)
