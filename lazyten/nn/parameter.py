"""`Parameter`: the tensor that a module trains, known by its class."""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from sys import getrefcount
from typing import Any, NoReturn

from lazyten.frontend import functions
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.core.overriding import disabled
from lazyten.frontend.core.pickling import KINDS
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, const
from lazyten.storage import tracing
from lazyten.storage.placement import default_device
from lazyten.storage.storage import Storage
from lazyten.support.errors import DTypeError, ShapeError, not_sparse
from lazyten.support.grad_mode import no_grad


class Parameter(Tensor):
    """A leaf with `data`'s value, which a Module registers when it is assigned.

    It shares memory with `data`, which becomes a view of it without gradients, unless that is or
    has a view, requires gradients or is shared already: then it is a copy.

    requires_grad: whether it collects gradients; without, it is frozen, and still a parameter.
    What is computed from it is a Tensor. Copies lack attributes of a user's.
    """

    __slots__ = ()
    __torch_function__: Any = disabled

    def __new__(cls, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        """A ComplexParameter, where the data is complex, and what other kinds of tensors say."""
        if cls is Parameter and isinstance(data, ComplexTensor):
            return object.__new__(ComplexParameter)
        kind = getattr(data, "_as_parameter", None) if cls is Parameter else None
        return object.__new__(cls if kind is None else kind())

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        if data is None:
            data = Tensor._of(const(0, dt.default_float, (0,)), default_device())
        if not isinstance(data, Tensor):
            raise DTypeError(f"Parameter of {type(data).__name__} {data!r:.40}: give a tensor, for "
                             f"example lazyten.zeros(3)")
        if is_sparse(data):
            raise not_sparse("Parameter")
        if isinstance(data, Parameter):
            warnings.warn("Parameter of a Parameter is a copy, which is trained apart, where "
                          "PyTorch's have their values in one memory; to tie weights, assign the "
                          "Parameter itself to both modules", UserWarning, stacklevel=2)
        with no_grad():
            value = data.detach().clone()
        self._hold(value._storage, value._moves)
        self.requires_grad_(requires_grad)
        if tracing.active is None and _is_alone(data):
            data.data = self

    @classmethod
    def _around(cls, storage: Storage, moves: Moves, requires_grad: bool) -> Parameter:
        """A parameter that is a handle of this storage, which nothing else trains."""
        result = object.__new__(cls)
        result._hold(storage, moves)
        result.requires_grad_(requires_grad)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        found = memo.get(id(self))
        if found is None:
            storage = self._copied_storage(memo)
            found = memo[id(self)] = self._around(storage, self._moves, self.requires_grad)
        return found

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def _is_alone(data: Tensor) -> bool:
    """Whether a tensor shows memory of its own, all of it and as the only one, without gradients: a
    view that was made of it before would not go with it."""
    return not (data._moves or data._detached or data.requires_grad or data._storage.shared
                or isinstance(data, Parameter | Buffer)) and _references(data) == _one()


def _references(x: Tensor) -> int:
    return getrefcount(x._storage)


@cache
def _one() -> int:
    """The references to the storage of a tensor that nothing is a view of."""
    return _references(Tensor._of(const(0, dt.default_float, (0,)), default_device()))


KINDS["parameter"] = Parameter


class ComplexParameter(ComplexTensor, Parameter):
    """A parameter of complex numbers: one of pairs of floats, which is the leaf."""

    __slots__ = ()

    def __init__(self, data: ComplexTensor, requires_grad: bool = True) -> None:
        self._parts, self._collected = Parameter(data._parts, requires_grad), None

    def __deepcopy__(self, memo: dict[int, Any]) -> ComplexParameter:
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = object.__new__(type(self))
            found._parts, found._collected = self._parts.__deepcopy__(memo), None
        return found

    def __repr__(self) -> str:
        return f"Parameter containing:\n{ComplexTensor.__repr__(self)}"


class Buffer(Tensor):
    """A tensor that shares `data`'s memory, and that a Module registers as a buffer when it is
    assigned; persistent: it is saved and loaded, too."""

    __slots__ = ("persistent",)

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        value = functions.empty((0,)) if data is None else data
        if not isinstance(value, Tensor):
            raise DTypeError(f"Buffer of {type(value).__name__} {value!r:.40}: give a tensor, for "
                             f"example lazyten.zeros(3)")
        value = value.detach()
        self._hold(value._storage, value._moves)
        self.persistent = persistent


class UninitializedTensorMixin:
    """What has no elements, but a dtype and a device, until its shape is known. (No Tensor, as the
    class of an object can only become one of the same layout.)"""

    __slots__ = ()
    cls_to_become: type[Tensor]

    def materialize(self: Any, shape: Sequence[int], device: str | None = None,
                    dtype: DTypeLike | None = None) -> None:
        """Become a `cls_to_become` of this shape, in place, with values that are still to be
        set."""
        fresh = functions.empty(shape, device=self.device if device is None else device,
                                dtype=self.dtype if dtype is None else dtype)
        self.__class__ = self.cls_to_become
        self._value = None
        with no_grad():
            self._become(fresh)

    def _refuse(self) -> NoReturn:
        raise ShapeError(f"an {type(self).__name__} has no shape and no values yet: call the "
                         f"module that holds it once, or materialize(shape) before it is used")

    @property
    def shape(self) -> Size:
        """ShapeError: there is none."""
        self._refuse()

    @property
    def node(self) -> Node:
        """ShapeError: there is no value."""
        self._refuse()

    @property
    def _value(self) -> Any:
        """What an operation is looked up by: ShapeError."""
        self._refuse()

    @_value.setter
    def _value(self, value: None) -> None:
        """There is nothing to remember."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is known only once a layer sees an input (nn.LazyLinear). Until then
    it has no elements, but a dtype and a device, which a module's to() changes."""

    __slots__ = ()
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(functions.empty((0,), device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is known only once a layer sees an input. Until then it has no elements,
    but a dtype and a device, which a module's to() changes."""

    __slots__ = ()
    cls_to_become = Buffer

    def __init__(self, requires_grad: bool = False, device: str | None = None,
                 dtype: DTypeLike | None = None, persistent: bool = True) -> None:
        super().__init__(functions.empty((0,), device=device, dtype=dtype), persistent=persistent)
        self.requires_grad_(requires_grad)


def is_lazy(param: object) -> bool:
    """Whether this is a parameter or a buffer whose shape is not known yet."""
    return isinstance(param, UninitializedTensorMixin)


def parameter_of(fresh: Tensor) -> Parameter:
    """A parameter of a new tensor that nobody else holds: without the copy."""
    return Parameter._around(fresh._storage, fresh._moves, True)
