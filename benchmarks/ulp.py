"""Measures the errors of the elementary and special functions: `python -m benchmarks.ulp`.

The reference is mpmath, at 40 digits or as many as an argument needs. An error is in units in the
last place (ulp) of the exact result; 0.5 is correctly rounded. tests/operators/test_special.py
holds the functions to their bounds at a few of the same points; docs/accuracy.md shows the table.
"""
from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import lazyten as lt
from lazyten import DType

Array = np.ndarray[Any, Any]
Exact = Callable[[Any], Any]
"""A function of an mpmath number."""


@dataclass(frozen=True)
class Function:
    """What is measured where: `points` gives about as many as asked for, of a dtype.

    absolute: errors are in ulp of 1, or of the result where that is larger, because the result
    cancels.
    """

    call: Callable[[lt.Tensor], lt.Tensor]
    exact: Exact
    points: Callable[[DType, int], Array]
    absolute: bool = False


def spread(low: float, high: float, dtype: DType, count: int) -> Array:
    """Random points, evenly spread from low to high."""
    return np.random.default_rng(7).uniform(low, high, count).astype(dtype.numpy)


def magnitudes(least: float, most: float, dtype: DType, count: int, signed: bool = True) -> Array:
    """Random points of all magnitudes between two powers of ten."""
    rng = np.random.default_rng(8)
    points = 10 ** rng.uniform(least, most, count)
    return (points * rng.choice([-1, 1], count) if signed else points).astype(dtype.numpy)


def both(low: float, high: float, least: float = -6) -> Callable[[DType, int], Array]:
    """Points evenly spread, and small ones of all magnitudes down to 10 ** least."""
    top = np.log10(max(abs(low), abs(high)))

    def points(dtype: DType, count: int) -> Array:
        small = np.clip(magnitudes(least, top, dtype, count), low, high)
        return np.concatenate([spread(low, high, dtype, count), small])
    return points


def in_exponent(low: float, high: float) -> Callable[[DType, int], Array]:
    """As `both`, up to arguments of an exponential function whose results are normal numbers;
    float64 has eight times as many exponents."""
    def points(dtype: DType, count: int) -> Array:
        scale = 1.0 if dtype is lt.float32 else 8.0
        return both(low * scale, high * scale)(dtype, count)
    return points


def everywhere(dtype: DType, count: int) -> Array:
    """Points of all magnitudes, of which many are around 1."""
    most = 38.0 if dtype is lt.float32 else 300.0
    return np.concatenate([magnitudes(-6, most, dtype, count), spread(-100, 100, dtype, count)])


def positive(dtype: DType, count: int) -> Array:
    """Positive normal numbers of all magnitudes, and those around 1."""
    most = 37.0 if dtype is lt.float32 else 300.0
    wide = magnitudes(-most, most, dtype, count, signed=False)
    return np.concatenate([wide, spread(0.5, 2.0, dtype, count)])


def below_one(dtype: DType, count: int) -> Array:
    """Points between -1 and 1, of which many are close to these."""
    near = 1 - magnitudes(-6 if dtype is lt.float32 else -14, 0, dtype, count, signed=False)
    return np.concatenate([spread(-0.999, 0.999, dtype, count), near])


def from_least(least: float, high: float) -> Callable[[DType, int], Array]:
    """Positive points evenly spread up to high, and of all magnitudes from 10 ** least."""
    def points(dtype: DType, count: int) -> Array:
        small = magnitudes(least, np.log10(high), dtype, count, signed=False)
        return np.concatenate([spread(0.01, high, dtype, count), small])
    return points


def mp_gelu_tanh(x: Any) -> Any:
    """gelu by Hendrycks and Gimpel's formula."""
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * inner))


FUNCTIONS: dict[str, Function] = {
    "exp": Function(lt.Tensor.exp, mpmath.exp, in_exponent(-87, 88)),
    "exp2": Function(lt.Tensor.exp2, lambda x: mpmath.mpf(2) ** x, in_exponent(-126, 127)),
    "expm1": Function(lt.Tensor.expm1, mpmath.expm1, both(-20, 20)),
    "log": Function(lt.Tensor.log, mpmath.log, positive),
    "log2": Function(lt.Tensor.log2, lambda x: mpmath.log(x, 2), positive),
    "log10": Function(lt.Tensor.log10, mpmath.log10, positive),
    "log1p": Function(lt.Tensor.log1p, mpmath.log1p, both(-0.9, 30)),
    "sin": Function(lt.Tensor.sin, mpmath.sin, everywhere),
    "cos": Function(lt.Tensor.cos, mpmath.cos, everywhere),
    "tan": Function(lt.Tensor.tan, mpmath.tan, everywhere),
    "tanh": Function(lt.Tensor.tanh, mpmath.tanh, both(-10, 10)),
    "sigmoid": Function(lt.Tensor.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)),
                        in_exponent(-87, 88)),
    "erf": Function(lt.Tensor.erf, mpmath.erf, both(-4, 4)),
    "erfc": Function(lt.Tensor.erfc, mpmath.erfc, both(-6, 9)),
    "erfinv": Function(lt.Tensor.erfinv, mpmath.erfinv, below_one),
    "lgamma": Function(lt.Tensor.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))),
                       from_least(-6, 1000), absolute=True),
    "digamma": Function(lt.Tensor.digamma, mpmath.digamma, from_least(-6, 100), absolute=True),
    "x ** 1.75": Function(lambda x: x ** 1.75, lambda x: x ** mpmath.mpf(1.75),
                          lambda dtype, count: np.sqrt(positive(dtype, count))),
    "sqrt": Function(lt.Tensor.sqrt, mpmath.sqrt, positive),
    "rsqrt": Function(lt.Tensor.rsqrt, lambda x: 1 / mpmath.sqrt(x), positive),
    "reciprocal": Function(lt.Tensor.reciprocal, lambda x: 1 / x, positive),
    "gelu": Function(lt.Tensor.gelu, lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
                     both(-6, 6), absolute=True),
    "gelu, tanh": Function(lambda x: x.gelu("tanh"), mp_gelu_tanh, both(-6, 6), absolute=True),
}


def errors(name: str, points: Array, found: Array) -> Array:
    """The error at each point, in ulp."""
    function = FUNCTIONS[name]
    result = np.empty(len(points))
    with mpmath.workdps(40):
        for i, (x, y) in enumerate(zip(points.tolist(), found.tolist(), strict=True)):
            exact = function.exact(mpmath.mpf(x))
            size = max(1.0, abs(exact)) if function.absolute else exact
            unit = float(np.spacing(np.abs(found.dtype.type(float(size)))))
            result[i] = float(abs(mpmath.mpf(y) - exact) / mpmath.mpf(unit))
    return result


def worst(name: str, dtype: DType, device: str, count: int) -> tuple[float, float]:
    """The largest error of a function at about 2 * count points, and where that is."""
    points = FUNCTIONS[name].points(dtype, count)
    found = FUNCTIONS[name].call(lt.tensor(points, device=device)).numpy()
    measured = errors(name, points, found)
    at = int(np.argmax(measured))
    return float(measured[at]), float(points[at])


def main() -> None:
    """Print a table of the worst errors."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ulp", description=main.__doc__)
    parser.add_argument("--points", type=int, default=10_000, metavar="N",
                        help="about half the points a function is measured at (10000)")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    os.environ["LAZYTEN_INTERPRET"] = "never"  # kernels are measured, not NumPy's functions
    print("| function | float32 | at | float64 | at |\n|---|---|---|---|---|", flush=True)
    for name, function in FUNCTIONS.items():
        cells = [name + (", in ulp of 1" if function.absolute else "")]
        for dtype in (lt.float32, lt.float64):
            error, at = worst(name, dtype, options.device, options.points)
            cells += [f"{error:.2f}", f"{at:.9g}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
