"""Windows: what a part of a signal is multiplied with before its spectrum is taken.

Each has M values, which depend on nothing else and are computed at once, in float64. sym=False: the
first M of a window of M + 1, which repeats with a period of M. (F. Harris, Proc. IEEE 66, 1978.)
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.core.keywords import making
from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, KindError

Array = np.ndarray[Any, Any]


def _window(M: int, sym: bool, values: Callable[[Array, int], Array], operation: str,
            dtype: DTypeLike | None, device: str | None, requires_grad: bool) -> Tensor:
    """`values` of the places 0 .. M - 1 and of the last place of the window that they belong to; 1
    for a single one."""
    count = shapes.as_int(M, operation, "M")
    kind = dt.default_float if dtype is None else dt.as_dtype(dtype)
    if count < 0:
        raise ArgumentError(f"{operation}: M={count}; give 0 or more")
    if kind not in (dt.float32, dt.float64):
        raise KindError(f"{operation} of {kind.name}: a window is of float32 or float64; convert "
                        f"it afterwards")
    shapes.allocatable(count, operation)
    found = np.ones(count) if count < 2 else values(np.arange(count), count - bool(sym))
    return tensor(found, kind, device, requires_grad)


def _number(value: Any, operation: str, what: str, least: float = -math.inf) -> float:
    number = float(shapes.as_number(value, operation, what))
    if not number > least:
        raise ArgumentError(f"{operation}: {what}={number}; give a number above {least:g}")
    return number


def _cosines(weights: Sequence[float]) -> Callable[[Array, int], Array]:
    """Cosines of 0, 1, 2, .. periods, with these weights and signs in turn."""
    return lambda n, last: sum(((-1) ** k * w * np.cos(2 * math.pi * k * n / last)
                                for k, w in enumerate(weights)), np.zeros(len(n)))


@making
def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, dtype: DTypeLike | None = None,
                   device: str | None = None, requires_grad: bool = False) -> Tensor:
    """a[0] - a[1] cos(t) + a[2] cos(2 t) - .. over a period."""
    weights = [_number(w, "general_cosine", "a weight") for w in shapes.listed(
        a, "general_cosine", "the weights")]
    if not weights:
        raise ArgumentError("general_cosine: a is empty; give a weight or more")
    return _window(M, sym, _cosines(weights), "general_cosine", dtype, device, requires_grad)


@making
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True,
                    dtype: DTypeLike | None = None, device: str | None = None,
                    requires_grad: bool = False) -> Tensor:
    """alpha - (1 - alpha) cos(t)."""
    weight = _number(alpha, "general_hamming", "alpha")
    return _window(M, sym, _cosines((weight, 1 - weight)), "general_hamming", dtype, device,
                   requires_grad)


def _fixed(name: str, values: Callable[[Array, int], Array], meaning: str) -> Callable[..., Tensor]:
    """The window of values that nothing but their places tell."""
    @making
    def window(M: int, *, sym: bool = True, dtype: DTypeLike | None = None,
               device: str | None = None, requires_grad: bool = False) -> Tensor:
        return _window(M, sym, values, name, dtype, device, requires_grad)
    window.__name__, window.__qualname__, window.__doc__ = name, name, meaning
    return window


hamming = _fixed("hamming", _cosines((0.54, 0.46)), "0.54 - 0.46 cos(t).")
hann = _fixed("hann", _cosines((0.5, 0.5)), "0.5 - 0.5 cos(t).")
blackman = _fixed("blackman", _cosines((0.42, 0.5, 0.08)), "0.42 - 0.5 cos(t) + 0.08 cos(2 t).")
nuttall = _fixed("nuttall", _cosines((0.3635819, 0.4891775, 0.1365995, 0.0106411)),
                 "Four cosines (A. Nuttall, IEEE Trans. ASSP 29, 1981).")
bartlett = _fixed("bartlett", lambda n, last: 1 - np.abs(2 * n / last - 1),
                  "A triangle from 0 to 1 and back.")
cosine = _fixed("cosine", lambda n, last: np.sin(math.pi * (n + 0.5) / (last + 1)),
                "Half a period of a sine.")


@making
def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
                dtype: DTypeLike | None = None, device: str | None = None,
                requires_grad: bool = False) -> Tensor:
    """e to the power of -|n - center| / tau; a center may be given if sym is False."""
    if sym and center is not None:
        raise ArgumentError(f"exponential: center={center} with sym=True; the center of a window "
                            f"that is symmetric is its middle")
    width = _number(tau, "exponential", "tau", 0)
    middle = None if center is None else _number(center, "exponential", "center")
    return _window(M, sym, lambda n, last: np.exp(
        -np.abs(n - (last / 2 if middle is None else middle)) / width), "exponential", dtype,
        device, requires_grad)


@making
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: DTypeLike | None = None,
             device: str | None = None, requires_grad: bool = False) -> Tensor:
    """The normal curve of this standard deviation, 1 in the middle."""
    spread = _number(std, "gaussian", "std", 0)
    return _window(M, sym, lambda n, last: np.exp(-0.5 * ((n - last / 2) / spread) ** 2),
                   "gaussian", dtype, device, requires_grad)


@making
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: DTypeLike | None = None,
           device: str | None = None, requires_grad: bool = False) -> Tensor:
    """I0(beta sqrt(1 - t**2)) / I0(beta), with t from -1 to 1."""
    shape = _number(beta, "kaiser", "beta")
    if shape < 0:
        raise ArgumentError(f"kaiser: beta={shape}; give 0 or more")
    return _window(M, sym, lambda n, last: np.i0(
        shape * np.sqrt(np.maximum(1 - (2 * n / last - 1) ** 2, 0))) / np.i0(shape), "kaiser",
        dtype, device, requires_grad)


# ---- with a period, under older names ------------------------------------------------------------

def _periodic(name: str, window: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @making
    def made(window_length: int, periodic: bool = True, dtype: DTypeLike | None = None,
             device: str | None = None, requires_grad: bool = False) -> Tensor:
        return window(window_length, sym=not periodic, dtype=dtype, device=device,
                      requires_grad=requires_grad)
    made.__name__, made.__qualname__ = name, name
    made.__doc__ = f"`signal.windows.{window.__name__}`, unless said otherwise with a period."
    return made


hann_window = _periodic("hann_window", hann)
bartlett_window = _periodic("bartlett_window", bartlett)
blackman_window = _periodic("blackman_window", blackman)


@making
def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54,
                   beta: float = 0.46, dtype: DTypeLike | None = None, device: str | None = None,
                   requires_grad: bool = False) -> Tensor:
    """alpha - beta cos(t), unless said otherwise with a period."""
    return general_cosine(window_length, a=(alpha, beta), sym=not periodic, dtype=dtype,
                          device=device, requires_grad=requires_grad)


@making
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0,
                  dtype: DTypeLike | None = None, device: str | None = None,
                  requires_grad: bool = False) -> Tensor:
    """`signal.windows.kaiser`, unless said otherwise with a period."""
    return kaiser(window_length, beta=beta, sym=not periodic, dtype=dtype, device=device,
                  requires_grad=requires_grad)
