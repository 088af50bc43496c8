"""EXP, EXP2, LOG2, SIN, COS and POW keep the error bounds of the op table, against exact values.

Each formula is checked compiled, where multiply-adds are fused if the machine can, and with NumPy
doing the decomposed ops one by one, where they never are; those of float32 also in the form for a
device without float64.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from graphs import compute, leaf

import lazyten as lt
from lazyten.codegen.numerics.decompose import decompose
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.arguments import Param
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, cast, elementwise, index, make, toposort
from lazyten.ir.ops import SPECS, Op
from lazyten.runtimes.cpu.cpu import CpuRuntime

Array = np.ndarray[Any, Any]
Runner = Callable[..., Array]


def compiled(op: Op, dtype: DType, *values: Array) -> Array:
    """One op on the cpu."""
    return compute(elementwise(op, *(leaf(v, dtype, "cpu") for v in values)), "cpu")


def one_by_one(op: Op, dtype: DType, *values: Array, target: Target = AVX2) -> Array:
    """The op's decomposition, each simple op by its NumPy meaning."""
    zero = index(0)
    params = [make(Op.PARAM, dtype, (), Param(i, 1)) for i in range(len(values) + 1)]
    loads = [make(Op.LOAD, dtype, (p, zero)) for p in params[1:]]
    store = make(Op.STORE, dt.bool_, (params[0], zero, elementwise(op, *loads)))
    root = decompose([store], target)[0].src[2]
    found: dict[Node, Array] = dict(zip(loads, values, strict=True))
    with np.errstate(all="ignore"):
        for node in toposort([root], lambda n: () if n in found else n.src):
            if node.op is Op.CONST:
                found[node] = np.asarray(node.value, node.dtype.compute)
            elif node not in found:
                meaning = Op.WHERE if node.op is Op.RARELY else node.op
                found[node] = ops.evaluate(meaning, node.dtype, [found[s] for s in node.src],
                                           [s.dtype for s in node.src])
    return found[root]


NARROW = replace(AVX2, dtypes=AVX2.dtypes - {dt.float64})


def without_float64(op: Op, dtype: DType, *values: Array) -> Array:
    """The decomposition for a device without float64, one by one."""
    return one_by_one(op, dtype, *values, target=NARROW)


RUNNERS = pytest.mark.parametrize("run", [compiled, one_by_one])
RUNNERS32 = pytest.mark.parametrize("run", [compiled, one_by_one, without_float64])


def errors_in_ulp(got: Array, exact: Array) -> Array:
    """|got - exact| in units of `got`'s last place; inf where only one is finite or NaN.

    exact: of a wider type. What rounds to infinity may as well be the largest number: half an ulp.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        same = (rounded == got) | np.isnan(rounded) & np.isnan(got)
        finite = np.isfinite(rounded) & np.isfinite(got)
        spacing = np.spacing(np.abs(np.where(finite, rounded, 1))).astype(exact.dtype)
        distance = np.abs(got.astype(exact.dtype) - exact) / spacing
    return np.where(finite, distance, np.where(same, 0.0, np.inf))


def assert_within(ulp: float, got: Array, exact: Array, *arguments: Array) -> None:
    errors = errors_in_ulp(got, exact)
    worst = int(np.argmax(errors))
    at = [a[worst] for a in arguments]
    assert errors[worst] <= ulp, f"{errors[worst]} ulp at {at}: {got[worst]}, not {exact[worst]}"


# ---- float32: the reference is NumPy's wider types -----------------------------------------------

def float32_arguments() -> Array:
    """Random bit patterns, neighbourhoods of where a formula changes, and special values."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = [0.5, 1, 2, 2**20, 2**-126, 2**-149, 2**0.5, 0.5**0.5, 128, 126, 125, 149, 150, 151,
             *(np.pi / 2 * np.arange(1, 60)), *(np.arange(-10, 11) + 0.5)]
    middle = np.array([*edges, *np.negative(edges)], np.float32).view(np.int32)
    near = (middle[:, None] + np.arange(-40, 41)).astype(np.int32).view(np.float32).ravel()
    dense = [rng.uniform(low, high, 50_000) for low, high in ((-151, 129), (-1, 2), (-7, 7))]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    return np.concatenate([patterns, near, *dense, special], dtype=np.float32, casting="unsafe")


EXACT32 = {Op.EXP: lambda x: np.exp(x.astype(np.longdouble)),
           Op.EXP2: lambda x: np.exp2(x.astype(np.longdouble)),
           Op.LOG2: lambda x: np.log2(x.astype(np.longdouble)),
           Op.SIN: lambda x: np.sin(x.astype(np.float64)),
           Op.COS: lambda x: np.cos(x.astype(np.float64))}


@pytest.mark.few(3)
@RUNNERS32
@pytest.mark.parametrize("op", EXACT32, ids=lambda op: op.name)
def test_float32_functions_keep_their_bound_everywhere(op: Op, run: Runner) -> None:
    x = float32_arguments()
    with np.errstate(all="ignore"):
        exact = EXACT32[op](x)
    assert_within(SPECS[op].ulp, run(op, dt.float32, x), exact, x)


@RUNNERS32
def test_float32_power_keeps_its_bound(run: Runner) -> None:
    rng = np.random.default_rng(1)
    a = float32_arguments()
    with np.errstate(all="ignore"):
        inside = rng.uniform(-150, 129, a.size) / np.log2(np.abs(a))
        whole = rng.integers(-40, 40, a.size)
        b = np.where(rng.random(a.size) < 0.5, whole, inside).astype(np.float32)
        exact = np.power(a.astype(np.longdouble), b.astype(np.longdouble))
    assert_within(SPECS[Op.POW].ulp, run(Op.POW, dt.float32, a, b), exact, a, b)


# ---- float64: the reference is mpmath ------------------------------------------------------------

def assert_within_of_mpmath(ulp: float, got: Array, function: Callable[..., mpmath.mpf],
                            *arguments: Array) -> None:
    """For finite arguments. 1,300 bits hold x/pi for every float64 x."""
    limit = mpmath.mpf(2)**1024
    with mpmath.workprec(1300):
        for result, *at in zip(got.tolist(), *(a.tolist() for a in arguments), strict=True):
            exact = function(*map(mpmath.mpf, at))
            if abs(exact) >= limit * (1 - mpmath.mpf(2)**-54):
                assert result == np.copysign(np.inf, float(mpmath.sign(exact))), (at, result)
            else:
                error = abs(mpmath.mpf(result) - exact) / mpmath.mpf(np.spacing(abs(float(exact))))
                assert error <= ulp, (at, result, exact)


@RUNNERS
@pytest.mark.parametrize("op", [Op.SIN, Op.COS], ids=lambda op: op.name)
def test_float64_sines_are_exact_around_quarter_turns(op: Op, run: Runner) -> None:
    """Where what is left of an argument cancels, up to where the other formula begins."""
    turns = np.random.default_rng(2).integers(0, int(2**20 / (np.pi / 2)), 300)
    with mpmath.workprec(200):
        near = np.array([float(int(n) * mpmath.pi / 2) for n in [*range(30), *turns]])
    x = np.concatenate([near, np.nextafter(near, 9e9), near + 1e-9, near + 0.1])
    function = {Op.SIN: mpmath.sin, Op.COS: mpmath.cos}[op]
    assert_within_of_mpmath(0.9, run(op, dt.float64, x), function, x)


def finite_patterns(count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    return x[np.isfinite(x)]


HARDEST_SINE = 6381956970095103 * 2.0**797
"""The float64 that is nearest to a multiple of pi/2, relatively."""


@pytest.mark.few(1)
@RUNNERS
@pytest.mark.parametrize(("op", "exact"), [(Op.SIN, mpmath.sin), (Op.COS, mpmath.cos)],
                         ids=["SIN", "COS"])
def test_float64_sine_and_cosine_keep_their_bound_everywhere(
        op: Op, exact: Callable[[mpmath.mpf], mpmath.mpf], run: Runner) -> None:
    rng = np.random.default_rng(2)
    near = [np.nextafter(k * np.pi / 2, side) for k in range(1, 40) for side in (0, k * 2)]
    x = np.concatenate([finite_patterns(700, 3), rng.uniform(-8, 8, 700), rng.uniform(-1, 1, 300),
                        np.pi / 2 * np.arange(1, 200), near, [0.5, -0.5, HARDEST_SINE]])
    assert_within_of_mpmath(SPECS[op].ulp, run(op, dt.float64, x), exact, x)


@pytest.mark.few(1)
@RUNNERS
@pytest.mark.parametrize(("op", "base"), [(Op.EXP2, 2), (Op.EXP, mpmath.e)], ids=["EXP2", "EXP"])
def test_float64_exponentials_keep_their_bound_everywhere(op: Op, base: mpmath.mpf,
                                                          run: Runner) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-1080, 1024, 1000), rng.uniform(-1, 1, 1000),
                        rng.uniform(-1076, -1020, 500), [-1022.0, -1074.0, 1023.999, 1e-300]])
    if op is Op.EXP:
        x = x * np.log(2)
    got = run(op, dt.float64, x)
    assert_within_of_mpmath(SPECS[op].ulp, got, lambda v: mpmath.power(base, v), x)


@pytest.mark.slow
@RUNNERS
def test_float64_logarithm_keeps_its_bound_everywhere(run: Runner) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([np.abs(finite_patterns(1000, 6)), rng.uniform(0.5, 2, 1000),
                        1 + rng.uniform(-1e-9, 1e-9, 200), [5e-324, 2.0**-1022]])
    x = x[x > 0]
    got = run(Op.LOG2, dt.float64, x)
    assert_within_of_mpmath(SPECS[Op.LOG2].ulp, got, lambda v: mpmath.log(v, 2), x)


@pytest.mark.few(1)
@RUNNERS
def test_float64_power_keeps_its_bound_everywhere(run: Runner) -> None:
    rng = np.random.default_rng(7)
    a = np.concatenate([np.abs(finite_patterns(500, 8)), rng.uniform(0.5, 2, 500),
                        1 + rng.uniform(-1e-6, 1e-6, 200)])
    a = a[(a > 0) & (a != 1)]
    b = rng.uniform(-1080, 1030, a.size) / np.log2(a)
    got = run(Op.POW, dt.float64, a, b)
    assert_within_of_mpmath(SPECS[Op.POW].ulp, got, mpmath.power, a, b)


# ---- special values: exactly what NumPy says, signs of zero included -----------------------------

def same_value_and_sign(a: Array, b: Array) -> Array:
    return np.isnan(a) & np.isnan(b) | (a == b) & (np.signbit(a) == np.signbit(b))


@RUNNERS32
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("op", EXACT32, ids=lambda op: op.name)
def test_zeros_infinities_and_nan_give_what_numpy_says(op: Op, dtype: DType, run: Runner) -> None:
    more = {Op.EXP: [2000.0, -2000.0], Op.EXP2: [1.0, 2000.0, -2000.0], Op.LOG2: [1.0, -1.0]}
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, *more.get(op, [])], dtype.compute)
    got, expected = run(op, dtype, x), SPECS[op].numpy(x)
    assert same_value_and_sign(got, expected).all(), (x, got, expected)


POWERS = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, 1e30, 9007199254740991.0, 4503599627370497.0, 1e-40, np.inf]


@RUNNERS32
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
def test_special_powers_follow_numpy(dtype: DType, run: Runner) -> None:
    values = np.array([*POWERS, *np.negative(POWERS), np.nan]).astype(dtype.compute)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    got, expected = run(Op.POW, dtype, a, b), SPECS[Op.POW].numpy(a, b)
    finite = np.isfinite(expected) & (expected != 0)
    np.testing.assert_allclose(got[finite], expected[finite],
                               rtol=4 * float(np.finfo(dtype.compute).eps))
    wrong = ~finite & ~same_value_and_sign(got, expected)
    assert not wrong.any(), list(zip(a[wrong], b[wrong], got[wrong], expected[wrong], strict=True))


# ---- exact ---------------------------------------------------------------------------------------

def dividends_and_divisors(dtype: DType) -> tuple[Array, Array]:
    """Any bits; quotients near whole numbers and near 2**24 and 2**53; what is no number, 0 and
    subnormal."""
    rng = np.random.default_rng(1)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    any_bits = rng.integers(0, 1 << dtype.bits, (2, 4001), unsigned, False).view(dtype.numpy)
    divisors = rng.uniform(0.01, 9, 4001).astype(dtype.numpy)
    whole = np.round(2 ** rng.uniform(0, 56, 4001)).astype(dtype.numpy) * divisors
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 0.7, float(dtype.max),
                    *np.array([1, 3, 1 << 10], unsigned).view(dtype.numpy)], dtype.numpy)
    pairs = np.stack(np.meshgrid(odd, odd)).reshape(2, -1)
    near = [np.nextafter(whole, np.array(end, dtype.numpy)) for end in (-np.inf, np.inf)]
    a = np.concatenate([any_bits[0], whole, *near, pairs[0]])
    b = np.concatenate([any_bits[1], divisors, -divisors, divisors, pairs[1]])
    with np.errstate(all="ignore"):
        order = np.argsort(np.abs(a / b))  # so that the lanes of a vector have quotients alike
    return a[order], b[order]


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_have_the_bits_of_numpys(name: str, dtype: DType) -> None:
    a, b = dividends_and_divisors(dtype)
    for divisor in (b, np.full_like(a, 0.7), np.full_like(a, 3.0)):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a, divisor)
        found = getattr(lt, name)(lt.tensor(a, device="cpu"), lt.tensor(divisor, device="cpu"))
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(np.signbit(found.numpy()[expected == 0]),
                                      np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
def test_remainders_are_worked_out_in_vectors(dtype: DType) -> None:
    """Only what large quotients leave is worked out lane by lane."""
    a, b = (make(Op.BUFFER, dtype, (), Slot(i, 64)) for i in (1, 2))
    kernel = Kernel("kernel", (elementwise(Op.MOD, a, b),), ((dtype, 64),) * 2)
    made = generate(kernel, AVX2)
    assert f"@lazyten_remainder.v{AVX2.vector_bytes // dtype.itemsize}f{dtype.bits}(" in made.source
    assert any("@llvm.fma." in line for line in made.declares)
    made = generate(kernel, replace(AVX2, fuses=False))  # where that would be a call for each
    assert ("@lazyten_remainder." in made.source) is (dtype is dt.float32)
    assert not any("@llvm.fma." in line for line in made.declares)


@pytest.mark.parametrize("name", ["x86-64-v3", "host"])
def test_float16_has_the_bits_of_numpys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By formulas, and by instructions where this processor has them: all patterns; what rounds,
    ties, overflows, is subnormal and no number."""
    monkeypatch.setenv("LAZYTEN_TARGET", name)
    runtime = CpuRuntime()
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = patterns.astype(np.float32)
    finite = halves[np.isfinite(halves)]
    near = [np.nextafter(finite, np.float32(end)) for end in (-np.inf, np.inf)]
    between = (np.sort(finite)[1:] + np.sort(finite)[:-1]) / 2
    near += [between, *(np.nextafter(between, np.float32(end)) for end in (-np.inf, np.inf))]
    large = np.array([65504.1, 65519.9, 65520.0, 1e30], np.float32)
    numbers = np.concatenate([halves, *near, large])
    for given, *types in ((patterns, dt.float32), (numbers, dt.float16),
                          (numbers, dt.float16, dt.float32)):  # where it is not stored between
        node = source_node = leaf_of(given.size, dt.float16 if given is patterns else dt.float32)
        expected = given
        for target in types:
            node = cast(node, target)
            with np.errstate(over="ignore"):
                expected = expected.astype(target.numpy)
        kernel = Kernel("converted", (node,), ((source_node.dtype, given.size),))
        program, = runtime.build([kernel])
        out, source = (runtime.alloc(given.nbytes * 2) for _ in range(2))
        runtime.copy_in(source, given)
        program.launch([out, source])
        found = np.empty(given.size, target.numpy)
        runtime.copy_out(found, out)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def leaf_of(size: int, dtype: DType) -> Node:
    return make(Op.BUFFER, dtype, (), Slot(1, size))
