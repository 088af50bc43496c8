"""Methods from functions of nodes: of a tensor, of several operands, and what gives two tensors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from lazyten.frontend.core.mixed_precision import casting
from lazyten.frontend.core.operands import on_one_device
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.ir.node import Node
from lazyten.storage.placement import has_values
from lazyten.support.errors import ArgumentError

RETURNED: dict[str, type[Any]] = {}
"""The tuples that functions give which give several tensors, by the names of these functions."""
N = TypeVar("N", bound=type[Any])


def returned_by(*names: str) -> Callable[[N], N]:
    """A decorator: this tuple is what these functions give, where there are several each one a kind
    of it, which `lazyten.return_types` has by the function's name."""
    def named(whole: N) -> N:
        for name in names:
            kind: Any = whole if len(names) == 1 else type(
                name, (whole,), {"__slots__": (), "__doc__": whole.__doc__})
            kind.__name__ = kind.__qualname__ = name
            kind.__module__, kind.__repr__ = "lazyten.return_types", _in_lines
            RETURNED[name] = kind
        return whole
    return named


def _in_lines(found: Any) -> str:
    """The name of the function, and each tensor by its name."""
    parts = ",\n".join(f"{name}={x!r}" for name, x in zip(found._fields, found, strict=True))
    return f"{type(found).__module__}.{type(found).__name__}(\n{parts})"


@returned_by("max", "min", "cummax", "cummin", "sort", "topk", "kthvalue", "median", "nanmedian",
             "mode")
class ValuesAndIndices(NamedTuple, Generic[Tensor]):
    """Values, and where along an axis they are (int64)."""

    values: Tensor
    indices: Tensor


def combined(x: TensorCore[Tensor], operation: str, function: Callable[..., Node],
             *others: Any) -> Tensor:
    """`function` of the nodes of `x` and of other operands, tensors or numbers."""
    x, *given = on_one_device(x, *others)
    operands = [x._operand(other, operation) for other in given]
    nodes = [v if isinstance(v, bool | int | float) else v.node for v in operands]
    tensors = [v for v in operands if not isinstance(v, bool | int | float)]
    return x._given(function(x.node, *nodes), *tensors)


def check_divisor(x: TensorCore[Tensor], other: Any, operation: str) -> None:
    """ArgumentError for integers that are divided by the number 0, if there are any."""
    if isinstance(other, int | np.integer | np.bool_) and not other and not x.dtype.is_float \
            and x.numel() and has_values(x.device):
        raise ArgumentError(f"{operation} of {x.dtype.name} by 0: integers have no infinity; "
                            f"divide by another number, or convert with .float()")


def unary(name: str, function: Callable[[Node], Node], meaning: str,
          row: str | None = None) -> Callable[[Tensor], Tensor]:
    """The method `name` that computes `function`; 16-bit floats are computed in float32. row: what
    autocast does with it."""
    def method(self: Tensor) -> Tensor:
        result: Tensor = self._special(function)
        return result
    named = documented(method, name, meaning)
    return named if row is None else casting(row)(named)


def binary(name: str, function: Callable[[Node, Any], Node],
           meaning: str) -> Callable[[Tensor, Any], Tensor]:
    """The method `name` that computes `function` of a tensor and another or a number."""
    def method(self: Tensor, other: Any) -> Tensor:
        result: Tensor = combined(self, name, function, other)
        return result
    return documented(method, name, meaning)


F = TypeVar("F", bound=Callable[..., Any])


def documented(method: F, name: str, meaning: str) -> F:
    """The same function, under the name and with the docstring of a method."""
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", meaning
    return method
