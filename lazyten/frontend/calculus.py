"""Integrals and derivatives of functions whose values at some points are given."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.forms import is_complex, made_of_others
from lazyten.frontend.functions import cat
from lazyten.frontend.limits import result_type
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import composites, shapes
from lazyten.operators.math import elementwise as ew
from lazyten.support.errors import ArgumentError, ShapeError


def _exact(x: Tensor) -> Tensor:
    """What differences and sums of are taken, without wrapping."""
    return x if is_complex(x) else x._unary(composites.exact)


def _areas(y: Tensor, x: Tensor | None, dx: Any, dim: int, operation: str) -> tuple[Tensor, int]:
    """The area under each piece of a line, and the axis along which these are."""
    axis = shapes.axis(dim, y.ndim, operation)
    if not y.shape:
        raise ShapeError(f"{operation} of a number: it needs an axis of values")
    n = y.shape[axis]
    if not n:  # whatever x is, as in PyTorch
        return y, axis
    y, width = _exact(y), dx
    if x is not None:
        width = _exact(x).diff(dim=-1 if x.ndim == 1 else dim)
        if x.ndim == 1:
            if x.numel() != n:
                raise ShapeError(f"{operation}: x has {x.numel()} elements, but y has {n} along "
                                 f"axis {axis}")
            width = width.reshape([-1 if a == axis else 1 for a in range(y.ndim)])
    ends = y.narrow(axis, 1, n - 1) + y.narrow(axis, 0, n - 1)
    return ends * width / 2, axis


@takes_tensors
@made_of_others
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """The integral along an axis of straight lines between values y at x, or dx apart."""
    areas, axis = _areas(y, x, dx, dim, "trapezoid")
    return areas.sum(axis, dtype=areas.dtype)


trapz = trapezoid


@takes_tensors
@made_of_others
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1,
                         dim: int = -1) -> Tensor:
    """`trapezoid` up to each value but the first."""
    areas, axis = _areas(y, x, dx, dim, "cumulative_trapezoid")
    return (areas if is_complex(areas) else areas._unary(ew.as_float)).cumsum(axis)


@takes_tensors
@made_of_others
def gradient(input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None,
             edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slopes of a function of its values, along each axis of `dim`, or all: of the parabola
    through three neighbours, and at the ends of a line, or with edge_order 2 of a parabola, too.

    spacing: how far apart values are (None: 1); or a list of that for each axis, or of vectors that
    say where they are. (B. Fornberg, Math. Comp. 51, 1988.)
    """
    axes = shapes.axes(dim, input.ndim, "gradient")
    input = _exact(input)
    if dim is not None and not isinstance(dim, int):
        axes = tuple(shapes.axis(a, input.ndim, "gradient") for a in dim)
    each = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(axes)
    if edge_order not in (1, 2) or len(each) != len(axes):
        raise ArgumentError(f"gradient along {len(axes)} axes: edge_order={edge_order} is 1 or 2, "
                            f"and spacing is a number, or one or a vector for each axis")
    return tuple(_slopes(input, a, gap, edge_order) for a, gap in zip(axes, each, strict=True))


def _slopes(y: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    """The slopes along one axis; of 16-bit floats computed in float32."""
    kind = result_type(y, spacing) if isinstance(spacing, Tensor) else y.dtype
    if not kind.is_half:
        return _slopes_of_line(y, axis, spacing, edge_order)
    wide = spacing.float() if isinstance(spacing, Tensor) else spacing
    return _slopes_of_line(y.float(), axis, wide, edge_order).to(dtype=kind)


def _slopes_of_line(y: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    n = y.shape[axis] if y.shape else 0
    if n <= edge_order:
        raise ShapeError(f"gradient of shape {y.shape} along axis {axis}: with edge_order="
                         f"{edge_order} it needs {edge_order + 1} values or more")
    steps = _gaps(y, axis, spacing, n)
    rises = y.diff(dim=axis) / steps
    left, right = steps.narrow(axis, 0, n - 2), steps.narrow(axis, 1, n - 2)
    if isinstance(spacing, Tensor) and spacing.shape:
        before, after = rises.narrow(axis, 0, n - 2), rises.narrow(axis, 1, n - 2)
        inner = (before * right + after * left) / (left + right)
    else:  # without the value in the middle, which may be NaN
        inner = (y.narrow(axis, 2, n - 2) - y.narrow(axis, 0, n - 2)) / (left + right)
    first, last = rises.narrow(axis, 0, 1), rises.narrow(axis, n - 2, 1)
    if edge_order == 2:
        first = first * 2 - inner.narrow(axis, 0, 1)
        last = last * 2 - inner.narrow(axis, n - 3, 1)
    return cat([first, inner, last], axis)


def _gaps(y: Tensor, axis: int, spacing: Any, n: int) -> Tensor:
    """How far apart neighbours are, to lie beside the differences of y."""
    line = [n - 1 if a == axis else 1 for a in range(y.ndim)]
    if not isinstance(spacing, Tensor) or not spacing.shape:
        number = 1 if spacing is None else shapes.as_number(spacing, "gradient", "spacing")
        return y.new_full(line, number, dtype=y.dtype if y.dtype.is_float else dt.default_float)
    if spacing.shape != (n,):
        raise ShapeError(f"gradient: spacing of shape {spacing.shape} for the {n} values of axis "
                         f"{axis}; give their places")
    return _exact(spacing).diff().reshape(line)
