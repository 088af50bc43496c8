"""What operations take and give: tensors on one device and numbers, as nodes."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np

from lazyten.frontend.core.handle import DTypeLike, Handle
from lazyten.frontend.core.values import Values
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node, cast
from lazyten.operators.math import shapes
from lazyten.storage import data as _data
from lazyten.storage.placement import canonical, placed
from lazyten.storage.storage import Storage
from lazyten.support.errors import ComplexError, DTypeError, ForeignOperandError, two_devices
from lazyten.support.location import is_our_class

_NUMBERS = float, int, bool, np.number, np.bool_
_COMPARABLE = Handle, *_NUMBERS, complex, np.ndarray, list, tuple

Tensor = TypeVar("Tensor", bound="Operands[Any]")

REFLECTED = frozenset(f"__{name}__" for name in (
    "radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rmatmul", "rand", "ror",
    "rxor", "rlshift", "rrshift"))


def has_operators(value: object) -> bool:
    """Whether its class says itself what operators do whose left operand is of another class."""
    return _are_defined_by(type(value))  # type: ignore[arg-type]  # classes are hashable


def is_comparable(value: object) -> bool:
    """Whether == and != are for tensors to answer: of numbers, tensors, arrays and what has
    operators of its own. Of all else Python says that it is another object."""
    return isinstance(value, _COMPARABLE) or has_operators(value)


@cache
def _are_defined_by(kind: type) -> bool:
    return any(REFLECTED & vars(c).keys() for c in kind.__mro__ if not is_our_class(c)
               and c.__module__.partition(".")[0] not in ("builtins", "numpy"))


class Operands(Values[Tensor]):
    """Operations on nodes as operations on tensors."""

    __slots__ = ()

    @staticmethod
    def _copy_of(data: Any, dtype: DTypeLike | None = None, device: str | None = None,
                 requires_grad: bool = False) -> Tensor:
        """A tensor with a copy of numbers, nested sequences or an array; see `lazyten.tensor`."""
        where = placed(device)
        if isinstance(data, Handle):
            node = data.detach().to(dtype=dtype, device=where).node
        else:
            node = _data.buffer_node(data, None if dtype is None else dt.as_dtype(dtype), where)
        result: Tensor = Handle._view(Storage(node, where), (), None)
        return result.requires_grad_() if requires_grad else result

    def _fresh(self, value: Node | np.ndarray[Any, Any], device: str | None = None,
               requires_grad: bool = False) -> Tensor:
        """A new tensor that no gradient flows through, on this device or another; a leaf that gets
        one if it `requires_grad`."""
        where = self.device if device is None else canonical(device)
        made = self._of(value, where) if isinstance(
            value, Node) else self._copy_of(value, device=where)
        return made.requires_grad_() if requires_grad else made

    def _operand(self, value: Any, operation: str) -> Tensor | Scalar:
        """The other operand, on this device. DTypeError for what is not a number or a tensor."""
        if isinstance(value, Handle):
            if value._storage.device != self._storage.device:
                raise two_devices(operation, self.device, value.device)
            return value  # type: ignore[return-value]  # every handle is a Tensor
        if type(value) is float or type(value) is bool:
            return value
        if isinstance(value, complex | np.complexfloating):
            raise ComplexError
        if isinstance(value, _NUMBERS):
            return shapes.as_number(value, operation, "the other operand")
        if isinstance(value, np.ndarray | list | tuple) and not has_operators(value):
            return self._copy_of(value, device=self.device)
        error = ForeignOperandError if has_operators(value) else DTypeError
        raise error(f"{operation} of a tensor and {type(value).__name__} {value!r:.40}: the other "
                    f"operand must be a tensor, an array or a number")

    def _operand_here(self, value: Any, operation: str) -> Tensor | Scalar:
        """The same, of which a zero-dim tensor of the cpu is copied to this device."""
        return self._operand(on_one_device(self, value)[1], operation)

    def _tensor(self, value: Any, operation: str) -> Tensor:
        """Another tensor, on this device. DTypeError for anything else."""
        tensors_given(operation, value)
        self._operand(value, operation)
        found: Tensor = value
        return found

    def _element(self, value: Any, operation: str) -> Tensor | Scalar:
        """What elements of this dtype are set to: a number that fits, or a zero-dim tensor."""
        if not isinstance(value, Handle):
            return shapes.as_element(value, self.dtype, operation)
        given = self._tensor(on_one_device(self, value)[1], operation)
        if given.shape or dt.category(given.dtype) > dt.category(self.dtype):
            raise DTypeError(f"{operation} of {self.dtype.name} by a tensor of {given.dtype.name} "
                             f"{given.shape}: give a number, or a zero-dim tensor that fits; "
                             f"convert it first")
        return given

    def _binary(self, operation: str, function: Callable[..., Node], other: Any,
                swapped: bool = False) -> Tensor:
        if isinstance(other, Handle) and other._storage.device != self._storage.device:
            one, two = on_one_device(self, other)
            if one is not self or two is not other:
                result: Tensor = one._binary(operation, function, two, swapped)
                return result
        right = self._operand(other, operation)
        left = self.node
        if not isinstance(right, Handle):
            return self._result(function(right, left) if swapped else function(left, right), self)
        node = function(right.node, left) if swapped else function(left, right.node)
        return self._result(node, self, right)

    def _unary(self, function: Callable[[Node], Node]) -> Tensor:
        return self._result(function(self.node), self)

    def _special(self, function: Callable[[Node], Node]) -> Tensor:
        """A function that is made of several ops: 16-bit floats are computed in float32."""
        node = self.node
        if not node.dtype.is_half:
            return self._result(function(node), self)
        return self._result(cast(function(cast(node, dt.float32)), node.dtype), self)


def on_one_device(*operands: Any) -> tuple[Any, ...]:
    """Operands, of which zero-dim tensors of the cpu are copied to the device of the others."""
    tensors = [x for x in operands if isinstance(x, Handle)]
    if len({t.device for t in tensors}) < 2:
        return operands
    home = next((t.device for t in tensors if not _is_number(t)), None)
    if home is None:
        return operands
    return tuple([x._copied_to(home) if isinstance(x, Handle) and _is_number(x) else x
                  for x in operands])


def _is_number(x: Handle[Any]) -> bool:
    """Whether it is a zero-dim tensor of the cpu."""
    return not x.shape and x.device.type == "cpu"


def node_of(x: Tensor | Scalar) -> Node | Scalar:
    """A tensor's node; a number itself."""
    return x.node if isinstance(x, Handle) else x


def tensors_given(operation: str, *values: Any) -> None:
    """DTypeError for what is no tensor."""
    for x in values:
        if not isinstance(x, Handle):
            raise DTypeError(f"{operation}: {type(x).__name__} {x!r:.40} is not a tensor; wrap it "
                             f"in lazyten.tensor()")
