"""Accuracy of the special functions over wide ranges, in units in the last place (ulp).

The oracle is mpmath, at 40 digits. docs/accuracy.md states the bounds of BOUNDS; run this file with
LAZYTEN_ACCURACY_POINTS=20000 and -s for the errors measured at many more points.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from tensor_values import Array, as_tensor

import lazyten as lt
from lazyten import dtype as dt

COUNT = int(os.environ.get("LAZYTEN_ACCURACY_POINTS", "400"))  # a function; mpmath is slow


def spread(low: float, high: float, dtype: dt.DType) -> Array:
    """Random points, evenly spread from low to high."""
    points = np.random.default_rng(7).uniform(low, high, COUNT)
    return points.astype(dtype.numpy)


def magnitudes(least: float, most: float, dtype: dt.DType, signed: bool = True) -> Array:
    """Random points of all magnitudes between two powers of ten."""
    rng = np.random.default_rng(8)
    points = 10 ** rng.uniform(least, most, COUNT)
    return (points * rng.choice([-1, 1], COUNT) if signed else points).astype(dtype.numpy)


def both(low: float, high: float, least: float) -> Callable[[dt.DType], Array]:
    """Points evenly spread, and small ones of all magnitudes down to 10 ** least."""
    top = np.log10(max(abs(low), abs(high)))
    return lambda dtype: np.concatenate([
        spread(low, high, dtype), np.clip(magnitudes(least, top, dtype), low, high)])


def positive(least32: float, most32: float) -> Callable[[dt.DType], Array]:
    """Positive normal numbers of all magnitudes, and those around 1."""
    def points(dtype: dt.DType) -> Array:
        scale = 1.0 if dtype is lt.float32 else 8.0
        wide = magnitudes(least32 * scale, most32 * scale, dtype, signed=False)
        return np.concatenate([wide, spread(0.5, 2.0, dtype)])
    return points


def mp_sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def mp_gelu(x: Any) -> Any:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def mp_gelu_tanh(x: Any) -> Any:
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * inner))


Row = tuple[Callable[[dt.DType], Array], Callable[[Any], Any], float, float]
BOUNDS: dict[str, Row] = {  # points, oracle, bound in float32, bound in float64
    "exp": (both(-80, 80, -6), mpmath.exp, 1.5, 1.5),
    "exp2": (both(-120, 120, -6), lambda x: mpmath.mpf(2) ** x, 1.5, 1.5),
    "expm1": (both(-20, 20, -6), mpmath.expm1, 4, 4),
    "log": (positive(-37, 38), mpmath.log, 2, 2),
    "log2": (positive(-37, 38), lambda x: mpmath.log(x, 2), 2, 2),
    "log10": (positive(-37, 38), mpmath.log10, 3, 3),
    "log1p": (both(-0.9, 30, -6), mpmath.log1p, 3, 3),
    "sin": (both(-100, 100, -6), mpmath.sin, 2, 2),
    "cos": (both(-100, 100, -6), mpmath.cos, 2, 2),
    "tanh": (both(-10, 10, -6), mpmath.tanh, 2, 2),
    "sigmoid": (both(-80, 80, -6), mp_sigmoid, 2, 2),
    "erf": (both(-4, 4, -6), mpmath.erf, 4, 4),
    "sqrt": (positive(-37, 38), mpmath.sqrt, 0.5, 0.5),
    "rsqrt": (positive(-37, 38), lambda x: 1 / mpmath.sqrt(x), 1.5, 1.5),
    "reciprocal": (positive(-37, 37), lambda x: 1 / x, 0.5, 0.5),
}
ABSOLUTE: dict[str, Row] = {  # errors in ulp of 1 (of x if that is larger): these cancel near zeros
    "gelu": (both(-6, 6, -6), mp_gelu, 2, 2),
    "gelu_tanh": (both(-6, 6, -6), mp_gelu_tanh, 2, 2),
}
NUMPYS_OWN = {("exp", "float32"): 2.6, ("sigmoid", "float32"): 3.0}
"""Bounds of the interpreter where NumPy's own function, which it calls, is less exact."""
METHODS: dict[str, Callable[[lt.Tensor], lt.Tensor]] = {
    "gelu_tanh": lambda x: x.gelu("tanh")}


def ulp_errors(found: Array, points: Array, oracle: Callable[[Any], Any],
               absolute: bool) -> Array:
    """Errors in ulp of the exact result, or of max(1, |x|) if `absolute`."""
    errors = np.empty(len(points))
    with mpmath.workdps(40):
        for i, (x, y) in enumerate(zip(points.tolist(), found.tolist(), strict=True)):
            exact = oracle(mpmath.mpf(x))
            size = max(1.0, abs(x)) if absolute else float(exact)
            unit = np.spacing(np.abs(found.dtype.type(size)))
            errors[i] = float(abs(mpmath.mpf(y) - exact) / mpmath.mpf(float(unit)))
    return errors


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=lambda d: d.name)
def test_errors_are_a_few_units_in_the_last_place(dtype: dt.DType, device: str) -> None:
    names = list(BOUNDS | ABSOLUTE)
    points = {n: (BOUNDS | ABSOLUTE)[n][0](dtype) for n in names}
    results = {n: METHODS.get(n, getattr(lt.Tensor, n, None))(as_tensor(points[n], device))
               for n in names}
    lt.realize(*results.values())
    wrong = []
    for name in names:
        _, oracle, bound32, bound64 = (BOUNDS | ABSOLUTE)[name]
        bound = bound32 if dtype is lt.float32 else bound64
        if device == "interpreter":
            bound = NUMPYS_OWN.get((name, dtype.name), bound)
        errors = ulp_errors(results[name].numpy(), points[name], oracle, name in ABSOLUTE)
        worst = int(np.argmax(errors))
        line = (f"{name:11} {dtype.name} {device:11} {errors[worst]:6.2f} ulp at "
                f"{points[name][worst]!r}, bound {bound}")
        if "LAZYTEN_ACCURACY_POINTS" in os.environ:
            print(line)
        if not errors[worst] <= bound:
            wrong.append(line)
    assert not wrong, "\n".join(wrong)


def test_functions_saturate_at_infinity(device: str) -> None:
    x = as_tensor(np.float32([-np.inf, -1e30, -200, 200, 1e30, np.inf]), device)
    found = {n: getattr(x, n)() for n in ("exp", "expm1", "tanh", "sigmoid", "erf", "silu")}
    found["gelu"], found["gelu_tanh"] = x.gelu(), x.gelu("tanh")
    lt.realize(*found.values())
    step = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert found["exp"].tolist() == [0, 0, 0, np.inf, np.inf, np.inf]
    assert found["expm1"].tolist() == [-1, -1, -1, np.inf, np.inf, np.inf]
    assert found["tanh"].tolist() == found["erf"].tolist() == [-1, -1, -1, 1, 1, 1]
    assert found["sigmoid"].tolist() == step
    for name in ("gelu", "gelu_tanh", "silu"):
        assert found[name].numpy()[2:].tolist() == [0, 200, np.float32(1e30), np.inf], name


def test_halves_are_computed_in_float32_and_rounded_once(device: str) -> None:
    values = np.linspace(-4, 4, 200).astype(np.float16)
    x = as_tensor(values, device)
    wide = as_tensor(values.astype(np.float32), device)
    for name in ("tanh", "erf", "sigmoid", "exp", "expm1", "gelu"):
        lt.realize(found := getattr(x, name)(), exact := getattr(wide, name)())
        np.testing.assert_array_equal(found.numpy(), exact.numpy().astype(np.float16), name)
