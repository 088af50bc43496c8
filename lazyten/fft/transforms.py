"""Transforms along one axis, or several, under PyTorch's names."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from lazyten.fft.plans import plan_for
from lazyten.fft.stages import transformed
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.functions import zeros
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Axes
from lazyten.support.errors import ArgumentError, DTypeError, IndexingError, ShapeError

P = ParamSpec("P")
R = TypeVar("R")

LAST_TWO = (-2, -1)


def takes_signals(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: `checks_tensors`, and with it `out`, for what takes real and complex numbers.
    Results lie in memory in the order of their axes, so that programs can take views of them."""
    @functools.wraps(function)
    def in_order(*args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, cast(Any, function(*args, **kwargs)).contiguous())
    return checks_tensors(in_order, complex_too=True)


# ---- one axis ------------------------------------------------------------------------------------

@takes_signals
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along an axis: out[k] = sum of in[j] e^(-2 pi i jk / n).

    n: the length, to which the axis is cut, or filled with 0. norm: 'forward' divides by n, 'ortho'
    by its root, 'backward' (or None) leaves that to ifft."""
    return _along(_taken(input, "fft"), n, dim, norm, False, "fft")


@takes_signals
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """What undoes fft: e^(+2 pi i jk / n), divided by n unless norm says otherwise."""
    return _along(_taken(input, "ifft"), n, dim, norm, True, "ifft")


@takes_signals
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """fft of real numbers, of which the second half is the first one mirrored and conjugated: the
    first n // 2 + 1 numbers."""
    return _half_along(_real(input, "rfft"), n, dim, norm, False, "rfft")


@takes_signals
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """What undoes rfft: n real numbers, 2 (m - 1) of m unless n is given."""
    return _real_along(_taken(input, "irfft"), n, dim, norm, True, "irfft")


@takes_signals
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """fft of a signal of which the second half is the first one mirrored and conjugated, and is
    not given: n real numbers, 2 (m - 1) of m unless n is given."""
    return _real_along(_taken(input, "hfft"), n, dim, norm, False, "hfft")


@takes_signals
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """What undoes hfft."""
    return _half_along(_real(input, "ihfft"), n, dim, norm, True, "ihfft")


# ---- several axes --------------------------------------------------------------------------------

@takes_signals
def fftn(input: Tensor, s: Axes = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """fft along several axes, or all; s: their lengths."""
    return _along_all(_taken(input, "fftn"), s, dim, norm, False, "fftn")


@takes_signals
def ifftn(input: Tensor, s: Axes = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """ifft along several axes, or all; s: their lengths."""
    return _along_all(_taken(input, "ifftn"), s, dim, norm, True, "ifftn")


@takes_signals
def rfftn(input: Tensor, s: Axes = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """rfft along the last of several axes, and fft along the others."""
    return _halved(input, s, dim, norm, False, "rfftn")


@takes_signals
def irfftn(input: Tensor, s: Axes = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """ifft along all of several axes but the last, and irfft along that."""
    return _made_real(input, s, dim, norm, True, "irfftn")


@takes_signals
def hfftn(input: Tensor, s: Axes = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """fft along all of several axes but the last, and hfft along that."""
    return _made_real(input, s, dim, norm, False, "hfftn")


@takes_signals
def ihfftn(input: Tensor, s: Axes = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """ihfft along the last of several axes, and ifft along the others."""
    return _halved(input, s, dim, norm, True, "ihfftn")


@takes_signals
def fft2(input: Tensor, s: Axes = None, dim: Axes = LAST_TWO,
         norm: str | None = None) -> Tensor:
    """fftn along the last two axes."""
    return fftn(input, s, dim, norm)


@takes_signals
def ifft2(input: Tensor, s: Axes = None, dim: Axes = LAST_TWO,
          norm: str | None = None) -> Tensor:
    """ifftn along the last two axes."""
    return ifftn(input, s, dim, norm)


@takes_signals
def rfft2(input: Tensor, s: Axes = None, dim: Axes = LAST_TWO,
          norm: str | None = None) -> Tensor:
    """rfftn along the last two axes."""
    return rfftn(input, s, dim, norm)


@takes_signals
def irfft2(input: Tensor, s: Axes = None, dim: Axes = LAST_TWO,
           norm: str | None = None) -> Tensor:
    """irfftn along the last two axes."""
    return irfftn(input, s, dim, norm)


@takes_signals
def hfft2(input: Tensor, s: Axes = None, dim: Axes = LAST_TWO,
          norm: str | None = None) -> Tensor:
    """hfftn along the last two axes."""
    return hfftn(input, s, dim, norm)


@takes_signals
def ihfft2(input: Tensor, s: Axes = None, dim: Axes = LAST_TWO,
           norm: str | None = None) -> Tensor:
    """ihfftn along the last two axes."""
    return ihfftn(input, s, dim, norm)


# ---- arguments -----------------------------------------------------------------------------------

def _taken(x: Tensor, operation: str) -> Tensor:
    """What is transformed: complex, or real of a float type. DTypeError for what cannot be."""
    if not x.dtype.is_float and not x.dtype.is_complex:
        x = x.to(dtype=dt.default_float)
    if x.dtype.component not in dt.COMPLEX:
        raise DTypeError(f"{operation} of {x.dtype.name}: transforms are computed in float32 or "
                         f"float64; convert with .float()")
    return x


def _real(x: Tensor, operation: str) -> Tensor:
    found = _taken(x, operation)
    if found.dtype.is_complex:
        raise DTypeError(f"{operation} of {found.dtype.name}: it takes real numbers; use "
                         f"{operation.replace('r', '').replace('h', '')}")
    return found


def _length(n: int | None, default: int, operation: str) -> int:
    length = default if n is None else shapes.as_int(n, operation, "n")
    if length < 1:
        raise ArgumentError(f"{operation}: a length of {length}; give 1 or more")
    return length


def _scale(norm: str | None, n: int, inverse: bool, operation: str) -> float:
    if norm not in (None, "backward", "forward", "ortho"):
        raise ArgumentError(f"{operation}: norm={norm!r} is not 'forward', 'backward' or 'ortho'")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm != "forward") else 1.0


def _axes(x: Tensor, s: Axes, dim: Any, operation: str) -> list[tuple[int, int | None]]:
    """The axes of a transform, each with its length, None for what it has."""
    if isinstance(dim, int):
        dim = (dim,)
    if isinstance(s, int):
        s = (s,)
    if dim is None:
        rank = x.ndim if s is None else len(s)
        if rank > x.ndim:
            raise ShapeError(f"{operation}: s={tuple(s or ())} has {rank} lengths, and the tensor "
                             f"of shape {x.shape} has {x.ndim} axes")
        dim = tuple(range(x.ndim - rank, x.ndim))
    axes = [shapes.axis(a, x.ndim, operation) for a in dim]
    if len(set(axes)) < len(axes):
        raise IndexingError(f"{operation}: dim={tuple(dim)} names an axis twice")
    if s is not None and len(s) != len(axes):
        raise ShapeError(f"{operation}: s={tuple(s)} and dim={tuple(dim)}: give a length for each "
                         f"axis")
    lengths: Sequence[int | None] = (None,) * len(axes) if s is None else [
        None if n == -1 else n for n in s]
    return list(zip(axes, lengths, strict=True))


# ---- computing -----------------------------------------------------------------------------------

def _along(x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool,
           operation: str) -> Tensor:
    axis, there = shapes.sized_axis(dim, x.shape, operation)
    n = _length(n, there, operation)
    found: Tensor = _done(x, n, axis, n, inverse, _scale(norm, n, inverse, operation))
    return found


def _done(x: Tensor, n: int, axis: int, wanted: int, inverse: bool, scale: float,
          whole: bool = True) -> Any:
    """The first numbers of the transform of length n along an axis, which is cut to n, or goes on
    with 0; only the real parts unless `whole`."""
    x = x.narrow(axis, 0, n) if x.shape[axis] > n else x
    real, parts = not isinstance(x, ComplexTensor), in_floats(x)
    if 0 in x.shape:
        shape = (*x.shape[:axis], wanted, *x.shape[axis + 1:])
        return zeros(shape, dtype=dt.complex_of(parts.dtype) if whole else parts.dtype,
                     device=x.device)
    plan = plan_for(n, inverse, scale, x.shape[axis], wanted, real, whole, parts.dtype,
                    parts.device)
    found = transformed(parts, axis, plan)
    return of_parts(found) if whole else found


def _half_along(x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool,
                operation: str) -> Tensor:
    axis, there = shapes.sized_axis(dim, x.shape, operation)
    n = _length(n, there, operation)
    scale = _scale(norm, n, inverse, operation)
    found: Tensor = _done(x, n, axis, n // 2 + 1, inverse, scale)
    return found


def _real_along(x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool,
                operation: str) -> Tensor:
    axis, there = shapes.sized_axis(dim, x.shape, operation)
    n = _length(n, 2 * (there - 1), operation)
    x = x.narrow(axis, 0, min(there, n // 2 + 1))
    found: Tensor = _done(x, n, axis, n, inverse, _scale(norm, n, inverse, operation), False)
    return found


def _along_all(x: Tensor, s: Axes, dim: Axes, norm: str | None, inverse: bool,
               operation: str) -> Tensor:
    for axis, n in reversed(_axes(x, s, dim, operation)):
        x = _along(x, n, axis, norm, inverse, operation)
    return x if x.dtype.is_complex else x.to(dtype=dt.complex_of(x.dtype))


def _halved(input: Tensor, s: Axes, dim: Axes, norm: str | None, inverse: bool,
            operation: str) -> Tensor:
    x = _real(input, operation)
    *others, (last, n) = _several(x, s, dim, operation)
    x = _half_along(x, n, last, norm, inverse, operation)
    for axis, n in reversed(others):
        x = _along(x, n, axis, norm, inverse, operation)
    return x


def _made_real(input: Tensor, s: Axes, dim: Axes, norm: str | None, inverse: bool,
               operation: str) -> Tensor:
    x = _taken(input, operation)
    *others, (last, n) = _several(x, s, dim, operation)
    for axis, size in others:
        x = _along(x, size, axis, norm, inverse, operation)
    return _real_along(x, n, last, norm, inverse, operation)


def _several(x: Tensor, s: Axes, dim: Axes, operation: str) -> list[tuple[int, int | None]]:
    axes = _axes(x, s, dim, operation)
    if not axes:
        raise ArgumentError(f"{operation} of shape {x.shape} along no axes: name at least one")
    return axes

