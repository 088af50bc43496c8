"""What the groups of tensor methods (`*_methods.py`) need of the class that they become a part of.

`Tensor` inherits from the groups, which know it only as a `TensorLike`, so none imports tensor.py.
Their methods take `self: T` and give T; what they compute is written on nodes, in other modules.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from lazyten.dtype import DType, Scalar
from lazyten.hooks import RemovableHandle
from lazyten.node import Node, Shape
from lazyten.ops import Op
from lazyten.storage import Storage


class TensorLike(Protocol):
    """A tensor, as far as the groups of methods know it; see tensor.py for what each does."""

    _storage: Storage
    _moves: tuple[tuple[Op, Any], ...]
    _hooked: tuple[Node, ...]
    _retains: RemovableHandle

    @staticmethod
    def _of(node: Node, device: str) -> Any: ...
    @property
    def retains_grad(self) -> bool: ...
    def retain_grad(self) -> None: ...

    @property
    def node(self) -> Node: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def device(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def is_leaf(self) -> bool: ...
    def numel(self) -> int: ...
    def stride(self) -> tuple[int, ...]: ...
    def storage_offset(self) -> int: ...
    def is_contiguous(self) -> bool: ...
    def realize(self) -> Self: ...
    def numpy(self) -> Any: ...
    def item(self) -> Scalar: ...
    def detach(self) -> Self: ...
    def _moved(self, *moves: tuple[Op, Any]) -> Self: ...
    def _reshaped(self, new: Shape) -> Self: ...
    def _unary(self, function: Callable[[Node], Node]) -> Self: ...
    def _special(self, function: Callable[[Node], Node]) -> Self: ...
    def _operand(self, value: Any, operation: str) -> Self | Scalar: ...
    def _tensor(self, value: Any, operation: str) -> Self: ...
    def _update(self, operation: str, value: Node, *others: Any) -> Self: ...
    def _collect(self, part: Node) -> Storage: ...
    def _cast(self, dtype: DType) -> Self: ...
    def _given(self, node: Node, *others: Any) -> Self: ...
    def _fresh(self, value: Any, device: str | None = None) -> Self: ...
    def _restrided(self, moves: tuple[tuple[Op, Any], ...]) -> Self: ...


T = TypeVar("T", bound=TensorLike)


class ValuesAndIndices(NamedTuple, Generic[T]):
    """Values, and where along an axis they are (int64)."""

    values: T
    indices: T


def combined(x: T, operation: str, function: Callable[..., Node], *others: Any) -> T:
    """`function` of the nodes of `x` and of other operands, tensors or numbers."""
    operands = [x._operand(other, operation) for other in others]
    nodes = [v if isinstance(v, bool | int | float) else v.node for v in operands]
    tensors = [v for v in operands if not isinstance(v, bool | int | float)]
    return x._given(function(x.node, *nodes), *tensors)


def unary(name: str, function: Callable[[Node], Node], meaning: str) -> Callable[[T], T]:
    """The method `name` that computes `function`; 16-bit floats are computed in float32."""
    def method(self: T) -> T:
        return self._special(function)
    return documented(method, name, meaning)


def binary(name: str, function: Callable[[Node, Any], Node],
           meaning: str) -> Callable[[T, Any], T]:
    """The method `name` that computes `function` of a tensor and another or a number."""
    def method(self: T, other: Any) -> T:
        return combined(self, name, function, other)
    return documented(method, name, meaning)


F = TypeVar("F", bound=Callable[..., Any])


def documented(method: F, name: str, meaning: str) -> F:
    """The same function, under the name and with the docstring of a method."""
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", meaning
    return method
