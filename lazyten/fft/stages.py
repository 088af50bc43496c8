"""A transform along one axis, by a plan: products with matrices, and twiddles."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from lazyten.fft.plans import Plan
from lazyten.frontend.functions import cat
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor


def transformed(x: Tensor, axis: int, plan: Plan) -> Tensor:
    """The transform along an axis of pairs (.., 2), or of real numbers if the plan is for these;
    gives pairs, or if the plan's whole is not wanted, real numbers."""
    return _along(x, axis, _shape_of(plan), plan.tables)


def _shape_of(plan: Plan) -> tuple[Any, ...]:
    """What a plan is but for its tensors, as a key."""
    return (plan.n, plan.factors, plan.given, plan.wanted, plan.real, plan.whole,
            tuple([_shape_of(p) for p in plan.half]),
            tuple([_shape_of(p) for p in plan.convolution]))


@recorded
def _along(x: Tensor, axis: int, shape: tuple[Any, ...], tables: list[Tensor]) -> Tensor:
    """The transform along an axis, by the parts of a plan."""
    _, _, given, wanted, real, whole, _, _ = shape
    axes = x.shape if real else x.shape[:-1]
    before, after = axes[:axis], axes[axis + 1:]
    flat = x.reshape(math.prod(before), given, math.prod(after), 1 if real else 2)
    found = _planes(flat.permute(0, 3, 1, 2), shape, iter(tables)).permute(0, 2, 3, 1)
    return found.reshape(*before, wanted, *after, *((2,) if whole else ()))


def _planes(x: Tensor, shape: tuple[Any, ...], tables: Iterator[Tensor]) -> Tensor:
    """Planes (batch, 1 or 2, given, others) to planes (batch, 1 or 2, wanted, others). What is
    done for each of the batch, and the others, is the same."""
    n, factors, given, wanted, real, whole, half, convolution = shape
    if half:
        return (_of_real if real else _to_real)(x, shape, tables)
    if not whole:
        x = x * next(tables).reshape(given, 1)
    if convolution:
        return _convolved(x, shape, tables)
    matrices = [next(tables) for _ in factors]
    twiddles = [next(tables) for _ in factors[1:]]
    batch, planes, _, others = x.shape
    m = n // factors[0]
    x = x.pad((0, 0, 0, -given % m)).reshape(batch, planes, -1, m, others)
    for a, matrix, twiddle in zip(factors[1:], matrices, twiddles, strict=False):
        y = _product(matrix, x)
        x = y[:, :1] * twiddle[0].unsqueeze(-1) + y[:, 1:] * twiddle[1].unsqueeze(-1)
        m //= a
        x = x.reshape(batch, 2, a, m, -1)
    return _product(matrices[-1], x).reshape(batch, 2 if whole else 1, -1, others)[:, :, :wanted]


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    """The matrix (c, k, d, j) times each column (d, j) of x (batch, d, j, m, others): a tensor of
    shape (batch, c, m, k, others)."""
    c, k, d, j = matrix.shape
    batch, _, _, m, others = x.shape
    columns = x.permute(0, 3, 4, 1, 2).reshape(batch, 1, m, 1, others, d, j)
    return (matrix.reshape(1, c, 1, k, 1, d, j) * columns).sum((-2, -1))


def _of_real(x: Tensor, shape: tuple[Any, ...], tables: Iterator[Tensor]) -> Tensor:
    """Half of the spectrum of a real signal, by that of its pairs."""
    n, _, given, wanted, _, _, (half,), _ = shape
    (c, s), (batch, _, _, others) = next(tables).unsqueeze(-1), x.shape
    pairs = x.pad((0, 0, 0, n - given)).reshape(batch, n // 2, 2, others).permute(0, 2, 1, 3)
    z = _planes(pairs, half, tables)
    back = z.flip(2)
    (e, p), (q, f) = _both(z + back), _both(z - back)
    return cat([e + c * p + s * q, f - c * q + s * p], 1)[:, :, :wanted]


def _to_real(x: Tensor, shape: tuple[Any, ...], tables: Iterator[Tensor]) -> Tensor:
    """The real signal of which half of the spectrum is given, by the spectrum of its pairs. The
    imaginary parts of the first and last number, which such a spectrum has not, do not count."""
    n, _, given, wanted, _, _, (half,), _ = shape
    (c, s), last = next(tables).unsqueeze(-1)[:, :-1], n // 2
    x = x.pad((0, 0, 0, last + 1 - given))
    re, im = _both(x)
    im = im[:, :, 1:last].pad((0, 0, 1, 1))
    ahead, back = re[:, :, :last], re[:, :, 1:].flip(2)
    e, q = ahead + back, ahead - back
    ahead, back = im[:, :, :last], im[:, :, 1:].flip(2)
    p, f = ahead + back, ahead - back
    z = _planes(cat([e - c * p - s * q, f + c * q - s * p], 1).contiguous(), half, tables)
    return z.permute(0, 2, 1, 3).reshape(x.shape[0], 1, n, x.shape[3])[:, :, :wanted]


def _both(x: Tensor) -> tuple[Tensor, Tensor]:
    """The real parts and the others, a plane each."""
    return x[:, :1], x[:, 1:]


def _convolved(x: Tensor, shape: tuple[Any, ...], tables: Iterator[Tensor]) -> Tensor:
    """Planes to planes by a convolution of a greater length."""
    n, _, given, wanted, real, whole, _, (forth, back) = shape
    chirp, spectrum, last = [next(tables).unsqueeze(-1) for _ in range(3)]
    x = x * chirp[:, :given] if real else _times(x, chirp[:, :given])
    wide = _planes(x.pad((0, 0, 0, n - given)), forth, tables)
    around = _times(_planes(_times(wide, spectrum), back, tables)[:, :, :wanted],
                    last[:, :wanted])
    return around if whole else around[:, :1]


def _times(x: Tensor, y: Tensor) -> Tensor:
    """Planes (batch, 2, n, others) times those of as many numbers, (2, n, 1)."""
    (a, b), (c, s) = _both(x), y
    return cat([a * c - b * s, a * s + b * c], 1)
