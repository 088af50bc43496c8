"""Padding of tensors in four modes, as views joined together."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.forms import made_of_others
from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import Scalar
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError

MODES = ("constant", "reflect", "replicate", "circular")


@takes_tensors
@made_of_others
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant",
        value: Scalar | None = None) -> Tensor:
    """More elements around the last axes: (before, after) of the last axis, then of the one before,
    and so on; negative numbers cut.

    mode: 'constant' (`value`, 0 unless given), 'reflect' (mirrored at the edge, which is not
    repeated), 'replicate' (the edge again) or 'circular' (from the other end).
    """
    if mode == "constant":
        return input.pad(pad, 0 if value is None else value)
    if mode not in MODES:
        raise ArgumentError(f"pad: mode {mode!r} is not one of {', '.join(MODES)}")
    if value:
        raise ArgumentError(f"pad: value={value} is for mode 'constant'; mode {mode!r} takes its "
                            f"elements from the input")
    given = shapes.sizes([pad], "pad")
    if len(given) % 2 or not 0 < len(given) // 2 < input.ndim:
        raise ShapeError(f"pad {given} of shape {input.shape} in mode {mode!r}: give (before, "
                         f"after) for the last axis, then for the one before, and leave at least "
                         f"the first axis as it is")
    for i in range(0, len(given), 2):
        input = _padded(input, input.ndim - 1 - i // 2, given[i], given[i + 1], mode)
    return input


def _padded(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    n = x.shape[axis]
    most = {"reflect": n - 1, "replicate": n and max(before, after), "circular": n}[mode]
    if max(before, after) > most:
        raise ShapeError(f"pad ({before}, {after}) of shape {x.shape} in mode {mode!r}: axis "
                         f"{axis} has size {n}, and at most {max(most, 0)} elements can be added "
                         f"at an end")
    if n + before + after < 0:
        raise ShapeError(f"pad ({before}, {after}) of shape {x.shape}: axis {axis} has size {n}, "
                         f"and {-before - after} elements cannot be cut")
    if mode == "circular":
        x = _cut(x, axis, before, after)
        before, after = max(before, 0), max(after, 0)
        first, last = _last(x, axis, before, 0), x.narrow(axis, 0, after)
    else:
        first = _edge(x.flip(axis), axis, max(before, 0), mode).flip(axis)
        last = _edge(x, axis, max(after, 0), mode)
    joined = cat([part for part in (first, x, last) if part.shape[axis]] or [x], axis)
    return joined if mode == "circular" else _cut(joined, axis, before, after)


def _edge(x: Tensor, axis: int, count: int, mode: str) -> Tensor:
    """What comes after the end of `axis`."""
    if not count:
        return x.narrow(axis, 0, 0)
    if mode == "reflect":
        return _last(x, axis, count, 1).flip(axis)
    return _last(x, axis, 1, 0).expand(*(count if a == axis else n for a, n in enumerate(x.shape)))


def _last(x: Tensor, axis: int, count: int, but: int) -> Tensor:
    """The last `count` elements of `axis` but the very last `but`."""
    return x.narrow(axis, x.shape[axis] - but - count, count)


def _cut(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Without as many elements at each end as a negative number says."""
    start = max(-before, 0)
    return x.narrow(axis, start, x.shape[axis] - start - max(-after, 0))
