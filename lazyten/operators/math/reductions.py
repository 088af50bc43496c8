"""Reductions as users know them: sums, extremes, statistics, positions of extremes.

In: a GRAPH node and sorted axes (`shapes.axes`). Out: a GRAPH node without those axes, or with size
1 for them if `keepdim`. Sums of bools and integers are int64, as in PyTorch; 16-bit floats are
summed in float32 and rounded once.
"""
from __future__ import annotations

import builtins
import math
from dataclasses import dataclass
from typing import Any

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, cast, const, elementwise, iota, make, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes, special
from lazyten.operators.math.elementwise import as_float, broadcast_to
from lazyten.operators.math.gradients import flat_in, with_gradient
from lazyten.support.errors import DTypeError, EmptyAxisError

Axes = tuple[int, ...]


def squeezed(x: Node, axes: Axes, keepdim: bool) -> Node:
    """x, whose `axes` have size 1, without them unless `keepdim`."""
    if keepdim:
        return x
    return reshape(x, tuple([n for a, n in enumerate(x.shape) if a not in axes]))


def count(shape: Shape, axes: Axes) -> int:
    """How many elements are combined into one."""
    return math.prod(shape[a] for a in axes)


def need_elements(x: Node, axes: Axes, operation: str) -> None:
    """EmptyAxisError if `operation`, which has no value for no elements, would get none."""
    empty = [a for a in axes if x.shape[a] == 0]
    if empty:
        raise EmptyAxisError(f"{operation} of shape {x.shape}: axis {empty[0]} has size 0, and "
                         f"{operation} of no elements is undefined; check the size first")


def sum_type(dtype: DType) -> DType:
    """What integers and bools are summed in."""
    return dtype if dtype.is_float else dt.int64


def sum(x: Node, axes: Axes, keepdim: bool = False, dtype: DType | None = None) -> Node:
    """The sum; 0 of no elements."""
    x = cast(x, dtype or sum_type(x.dtype))
    if x.dtype is dt.bool_:
        return any(x, axes, keepdim)
    return squeezed(reduce(x, Op.ADD, axes), axes, keepdim)


def prod(x: Node, axes: Axes, keepdim: bool = False, dtype: DType | None = None) -> Node:
    """The product; 1 of no elements."""
    x = cast(x, dtype or sum_type(x.dtype))
    if x.dtype is dt.bool_:
        return all(x, axes, keepdim)
    return squeezed(reduce(x, Op.MUL, axes), axes, keepdim)


def mean(x: Node, axes: Axes, keepdim: bool = False) -> Node:
    """The sum over the count; NaN of no elements. Floats only."""
    if not x.dtype.is_float:
        raise DTypeError(f"mean of {x.dtype.name}: a mean is a float; convert first with "
                         f".float()")
    wide = ew.wide(x)
    total = sum(wide, axes, keepdim)
    n = count(x.shape, axes)
    value = ew.mul(total, 1.0 / n) if _is_power_of_two(n) else ew.true_divide(total, float(n))
    return cast(value, x.dtype)


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def centred(x: Node, axes: Axes) -> tuple[Node, Node]:
    """The mean, with its axes, and x without it. Of what x is more than its first element: where
    all are much larger than they differ, that has digits which the mean itself loses."""
    first = move(Op.SHRINK, x, tuple((0, builtins.min(n, 1) if a in axes else n)
                                     for a, n in enumerate(x.shape)))
    first = make(Op.DETACH, x.dtype, (first,))  # it cancels
    rest = ew.sub(x, first)
    further = mean(rest, axes, keepdim=True)
    return ew.add(sum(first, axes, keepdim=True), further), ew.sub(rest, further)


def amax(x: Node, axes: Axes, keepdim: bool = False) -> Node:
    """The greatest; NaN if any is. The gradient is shared evenly by equal ones."""
    need_elements(x, axes, "max")
    return squeezed(reduce(x, Op.MAX, axes), axes, keepdim)


def amin(x: Node, axes: Axes, keepdim: bool = False) -> Node:
    """The least; NaN if any is. The gradient is shared evenly by equal ones."""
    need_elements(x, axes, "min")
    return ew.inverted(squeezed(reduce(ew.inverted(x), Op.MAX, axes), axes, keepdim))


def any(x: Node, axes: Axes, keepdim: bool = False) -> Node:
    """Whether any is not 0; False of no elements."""
    return squeezed(reduce(ew.as_bool(x), Op.MAX, axes), axes, keepdim)


def all(x: Node, axes: Axes, keepdim: bool = False) -> Node:
    """Whether all are not 0; True of no elements."""
    return ew.invert(any(ew.invert(ew.as_bool(x)), axes, keepdim))


def freedom(dim: Any, correction: float | None, unbiased: bool | None,
            operation: str) -> tuple[Any, float]:
    """The axes and the correction of a variance. A bool, in place of the axes or as `unbiased`,
    says whether the correction is 1."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = unbiased
    number = 1 if correction is None else shapes.as_number(correction, operation, "correction")
    return dim, number


def var(x: Node, axes: Axes, keepdim: bool = False, correction: float = 1) -> Node:
    """The mean squared distance from the mean, over count - correction. Floats only."""
    return cast(_wide_var(x, axes, keepdim, correction, "var"), x.dtype)


def std(x: Node, axes: Axes, keepdim: bool = False, correction: float = 1) -> Node:
    """The square root of the variance; its gradient at 0 is 0. Floats only."""
    variance = _wide_var(x, axes, keepdim, correction, "std")
    root = with_gradient(special.sqrt(variance), (variance,), _root_gradient)
    return cast(root, x.dtype)


def _root_gradient(g: Node, node: Node) -> tuple[Node]:
    none = ew.equal(node, 0.0)
    return (ew.where(none, 0.0, ew.true_divide(g, ew.mul(ew.where(none, 1.0, node), 2.0))),)


def _wide_var(x: Node, axes: Axes, keepdim: bool, correction: float, operation: str) -> Node:
    """The variance in float64, whose squares neither overflow nor vanish for narrower floats."""
    if not x.dtype.is_float:
        raise DTypeError(f"{operation} of {x.dtype.name}: a variance is a float; convert first "
                         f"with .float()")
    wide = cast(x, dt.float64)
    left = centred(x, axes)[1] if x.dtype is wide.dtype else ew.sub(wide, mean(wide, axes, True))
    total = sum(special.square(left), axes, keepdim)
    freedom = max(count(x.shape, axes) - correction, 0.0)
    return ew.true_divide(total, float(freedom))


def logsumexp(x: Node, axes: Axes, keepdim: bool = False) -> Node:
    """log(sum(e ** x)), safe for large x."""
    x = as_float(x)
    if count(x.shape, axes) == 0:
        return ew.sub(sum(x, axes, keepdim), math.inf)
    top = finite_max(x, axes)
    total = sum(special.exp(ew.sub(x, top)), axes, keepdim=True)
    return squeezed(ew.add(special.log(total), top), axes, keepdim)


def detached_max(x: Node, axes: Axes) -> Node:
    """The greatest along `axes` (kept): what softmax subtracts. No gradient flows through it, since
    it cancels."""
    return make(Op.DETACH, x.dtype, (reduce(x, Op.MAX, axes),))


def finite_max(x: Node, axes: Axes) -> Node:
    """`detached_max`, with 0 for an infinite one: what logsumexp subtracts and adds again."""
    top = detached_max(x, axes)
    return ew.where(ew.equal(ew.absolute(top), math.inf), 0.0, top)


# ---- positions -----------------------------------------------------------------------------------

def positions(shape: Shape, axis: int, dtype: DType) -> Node:
    """Each element's index along `axis`."""
    n = shape[axis]
    line = cast(iota(n), dtype)
    return broadcast_to(reshape(line, (n,) + (1,) * (len(shape) - axis - 1)), shape)


def place_type(n: int) -> DType:
    """The narrowest type of positions in an axis of n elements, and of n itself: more lanes of a
    vector hold an int32."""
    return dt.int32 if n <= dt.int32.max else dt.INDEX


def first_where(found: Node, axis: int) -> Node:
    """The first index along `axis` (kept) where `found` holds; the axis' size if nowhere."""
    n = found.shape[axis]
    where = positions(found.shape, axis, place_type(n))
    none = const(n, place_type(n), found.shape)
    return amin(elementwise(Op.WHERE, found, where, none), (axis,), keepdim=True)


def arg_extreme(x: Node, axis: int | None, keepdim: bool, least: bool) -> Node:
    """The index of the first greatest (or least) element, int64; a NaN counts as the greatest.

    Over axis None: the index into the elements in row-major order, all axes gone (or of size 1).
    """
    name = "argmin" if least else "argmax"
    rank = len(x.shape)
    if axis is None or rank == 0:
        need_elements(x, tuple(range(rank)), name)
        flat = reshape(x, (x.numel,))
        index = arg_extreme(flat, 0, False, least) if rank else const(0, dt.int64)
        return reshape(index, (1,) * rank if keepdim else ())
    need_elements(x, (axis,), name)
    extreme = amin(x, (axis,), True) if least else amax(x, (axis,), True)
    index = cast(first_where(_is_extreme(x, extreme), axis), dt.int64)
    return squeezed(index, (axis,), keepdim)


def _is_extreme(x: Node, extreme: Node) -> Node:
    found = ew.equal(x, extreme)
    return ew.bitwise_or(found, ew.not_equal(x, x)) if x.dtype.is_float else found


@dataclass(frozen=True, slots=True)
class _FirstExtreme:
    """The gradient of max and min along one axis: all of it goes to the first extreme element."""

    axis: int

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        x = node.src[1]
        first = first_where(_is_extreme(x, broadcast_to(node, x.shape)), self.axis)
        chosen = ew.equal(positions(x.shape, self.axis, first.dtype), first)
        return (flat_in(x, ew.where(chosen, broadcast_to(g, x.shape), 0.0)),)


def extreme_along(x: Node, axis: int, keepdim: bool, least: bool) -> Node:
    """The greatest (or least) along one axis; its gradient goes to the first such element."""
    value = amin(x, (axis,), True) if least else amax(x, (axis,), True)
    if x.dtype.is_float:
        value = with_gradient(value, (x,), _FirstExtreme(axis))
    return squeezed(value, (axis,), keepdim)
