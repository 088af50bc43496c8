"""A transform along one axis, by a plan: products with matrices, and twiddles."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from lazyten.fft.plans import Plan
from lazyten.frontend.functions import stack
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor


def transformed(x: Tensor, axis: int, plan: Plan) -> Tensor:
    """The transform along an axis of pairs (.., 2), or of real numbers if the plan is for these;
    gives pairs, or if the plan's whole is not wanted, real numbers."""
    return _along(x, axis, _shape_of(plan), plan.tables)


def _shape_of(plan: Plan) -> tuple[Any, ...]:
    """What a plan is but for its tensors, as a key."""
    return (plan.n, plan.factors, plan.given, plan.wanted, plan.real, plan.whole,
            tuple([_shape_of(p) for p in plan.convolution]))


@recorded
def _along(x: Tensor, axis: int, shape: tuple[Any, ...], tables: list[Tensor]) -> Tensor:
    """The transform along an axis, by the parts of a plan."""
    _, _, given, wanted, real, whole, _ = shape
    moved = x.movedim(axis, -1) if real else x.movedim((axis, -1), (-1, -2))
    batch = moved.shape[:-1] if real else moved.shape[:-2]
    planes, each = moved.reshape(math.prod(batch), 1 if real else 2, given), iter(tables)
    found = _planes(planes if whole else planes * next(each), shape, each)
    if not whole:
        return found.reshape(*batch, wanted).movedim(-1, axis)
    return found.reshape(*batch, wanted, 2).movedim(-2, axis)


def _planes(x: Tensor, shape: tuple[Any, ...], tables: Iterator[Tensor]) -> Tensor:
    """Planes (batch, 1 or 2, given) to pairs (batch, wanted, 2), or (batch, wanted, 1)."""
    n, factors, given, wanted, _, whole, convolution = shape
    if convolution:
        return _convolved(x, shape, tables)
    matrices = [next(tables) for _ in factors]
    twiddles = [next(tables) for _ in factors[1:]]
    batch, lead = x.shape[0], x.shape[0]
    rest = n // factors[0]
    x = x.pad((0, -given % rest)).contiguous()
    for a, matrix, twiddle in zip(factors, matrices, twiddles, strict=False):
        n //= a
        y = matrix.matmul(x.reshape(lead, -1, n)).reshape(lead, 2, a, n)
        c, s = twiddle[0], twiddle[1]
        turned = [y[:, 0] * c - y[:, 1] * s, y[:, 0] * s + y[:, 1] * c]
        lead *= a
        x = stack(turned, 2).reshape(lead, 2, n).contiguous()
    y = x.reshape(lead, -1).matmul(matrices[-1].T)
    count = 2 if whole else 1
    y = y.reshape(batch, *factors[:-1], count, -1)
    before = len(factors) - 1
    order = (0, before + 2, *range(before, 0, -1), before + 1)
    return y.permute(order).reshape(batch, -1, count)[:, :wanted]


def _convolved(x: Tensor, shape: tuple[Any, ...], tables: Iterator[Tensor]) -> Tensor:
    """Planes to pairs by a convolution of a greater length."""
    n, _, given, wanted, real, whole, (forth, back) = shape
    chirp, spectrum, last = next(tables), next(tables), next(tables)
    first = chirp[:, :given]
    x = stack([x[:, 0] * first[0], x[:, 0] * first[1]], 1) if real else _times(x, first)
    wide = _planes(x.pad((0, n - given)), forth, tables).permute(0, 2, 1)
    around = _planes(_times(wide, spectrum), back, tables).permute(0, 2, 1)[..., :wanted]
    last = last[:, :wanted]
    if not whole:
        return (around[:, 0] * last[0] - around[:, 1] * last[1]).unsqueeze(-1)
    return _times(around, last).permute(0, 2, 1)


def _times(x: Tensor, y: Tensor) -> Tensor:
    """Planes (batch, 2, n) times those of as many numbers."""
    return stack([x[:, 0] * y[0] - x[:, 1] * y[1], x[:, 0] * y[1] + x[:, 1] * y[0]], 1)
