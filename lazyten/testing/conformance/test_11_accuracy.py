"""Stage 11: the errors of functions in units in the last place, beside their bounds."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import make
from lazyten.ir.ops import SPECS, Op
from lazyten.support.errors import DTypeError
from lazyten.testing.conformance.values import WIDE, computed, leaf
from lazyten.testing.diagnosis import Array, Nonconformance, errors_in_ulp, expect, is_subnormal
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

COUNT = 20_000
Points = Callable[[Any, float], Array]


def spread(rng: Any, most: float) -> Array:
    """Points of all magnitudes, most of them around 1."""
    near, far = rng.uniform(-8, 8, COUNT // 2), 10 ** rng.uniform(-most, most, COUNT // 2)
    return np.concatenate([near, far * rng.choice([-1, 1], COUNT // 2)])


def positive(rng: Any, most: float) -> Array:
    """The same without their signs."""
    return np.abs(spread(rng, most))


def exponents(rng: Any, most: float) -> Array:
    """Points whose exponentials are normal numbers."""
    return np.asarray(rng.uniform(-most * 2.2, most * 2.2, COUNT))


def angles(rng: Any, most: float) -> Array:
    """Points that NumPy's reference can take."""
    return np.concatenate([rng.uniform(-10, 10, COUNT // 2),
                           10 ** rng.uniform(-5, min(most, 4), COUNT // 2)])


FUNCTIONS: dict[Op, tuple[Points, ...]] = {
    Op.EXP: (exponents,), Op.EXP2: (exponents,), Op.LOG2: (positive,), Op.SIN: (angles,),
    Op.COS: (angles,), Op.SQRT: (positive,), Op.RECIPROCAL: (spread,), Op.DIV: (spread, spread),
    Op.ADD: (spread, spread), Op.MUL: (spread, spread), Op.POW: (positive, angles)}
MAGNITUDE = {"float16": 2.0, "bfloat16": 18.0, "float32": 18.0, "float64": 150.0}
"""Powers of ten that products of two such numbers stay inside of."""
INEXACT = 0.1
"""What the reference itself may be off by, in ulp."""


@advice("A function is less accurate than its bound: it is written with the simple ops, so one of "
        "them is not correctly rounded. Compile without -ffast-math, with IEEE division and square "
        "root, and let nothing but MULACC be contracted.")
@pytest.mark.parametrize("dtype", dt.FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_functions_keep_their_bounds(device: str, card: Scorecard, op: Op, dtype: DType) -> None:
    if dtype not in card.dtypes:
        pytest.skip("the device does not claim it")
    rng, wide = np.random.default_rng(11), WIDE[dtype.name]
    arguments = [ops.round_to(points(rng, MAGNITUDE[dtype.name]).astype(dtype.compute), dtype)
                 for points in FUNCTIONS[op]]
    try:
        got, = computed([make(op, dtype, tuple(leaf(a, dtype, device) for a in arguments))], device)
    except DTypeError as error:
        if dt.float64 in card.dtypes:
            raise
        pytest.skip(str(error))
    with np.errstate(all="ignore"):
        exact = SPECS[op].numpy(*[a.astype(wide) for a in arguments])
    errors = errors_in_ulp(got, exact, dtype)
    usable = ~is_subnormal(exact, dtype) & ~is_subnormal(got, dtype)
    errors = np.where(usable & ~any_subnormal(arguments, dtype), errors, 0)
    worst, bound = int(np.argmax(errors)), SPECS[op].ulp + 0.5 * dtype.is_half
    card.ulp.setdefault(op.name, {})[dtype.name] = float(errors[worst])
    card.bounds[op.name] = SPECS[op].ulp
    if errors[worst] > bound + INEXACT:
        at = ", ".join(repr(a[worst]) for a in arguments)
        raise Nonconformance(f"{op.name} of {dtype.name} {at} is {got[worst]!r}, not "
                             f"{exact[worst]!r}: off by {errors[worst]:.2f} ulp of at most {bound}")


def any_subnormal(arguments: list[Array], dtype: DType) -> Array:
    """Where an argument is."""
    found: Array = np.logical_or.reduce([is_subnormal(a, dtype) for a in arguments])
    return found


@advice("Subnormal numbers are taken for 0: switch flushing to zero off, by the compiler's options "
        "and in the processor's control register.")
@pytest.mark.parametrize("dtype", dt.FLOATS, ids=lambda d: d.name)
def test_subnormal_numbers_are_kept(device: str, card: Scorecard, dtype: DType) -> None:
    if dtype not in card.dtypes:
        pytest.skip("the device does not claim it")
    least = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149,
             "float64": 5e-324}[dtype.name]
    values = np.array([1, 3, 5, -7], dtype.compute) * dtype.compute.type(least)
    x = leaf(values, dtype, device)
    total, twice = computed([make(Op.ADD, dtype, (x, x)),
                             make(Op.MUL, dtype, (x, leaf(np.full(4, 2, dtype.compute), dtype,
                                                          device)))], device)
    expect(total, values * 2, f"the sum of the smallest numbers of {dtype.name}")
    expect(twice, values * 2, f"twice the smallest numbers of {dtype.name}")
