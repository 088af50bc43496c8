"""Accuracy of the special functions over wide ranges, in units in the last place (ulp).

The oracle is mpmath, and the points are some of those of `python -m benchmarks.ulp`, which prints
the table in docs/accuracy.md.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tensor_values import as_tensor

import lazyten as lt
from benchmarks.ulp import FUNCTIONS, errors
from lazyten import nn, special
from lazyten.ir import dtype as dt
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.operators.math.special import round_half_even

COUNT = 400  # points a function; mpmath is slow
BOUNDS: dict[str, float] = {
    "exp": 1.5, "exp2": 1, "expm1": 4, "log": 2, "log2": 2, "log10": 3, "log1p": 3, "sin": 2,
    "cos": 2, "tan": 3.5, "tanh": 2, "sigmoid": 2, "erf": 2, "x ** 1.75": 2, "sqrt": 0.5,
    "rsqrt": 1.5, "reciprocal": 0.5, "gelu": 2, "gelu, tanh": 2, "erfc": 5, "erfinv": 3,
    "lgamma": 4, "digamma": 8}
NUMPYS_OWN = {("exp", "float32"): 2.6, ("sigmoid", "float32"): 3.0}
"""Bounds of the interpreter where NumPy's own function, which it calls, is less exact."""


def test_every_measured_function_has_a_bound() -> None:
    assert set(BOUNDS) == set(FUNCTIONS)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=lambda d: d.name)
def test_errors_are_a_few_units_in_the_last_place(dtype: dt.DType, device: str) -> None:
    points = {name: function.points(dtype, COUNT) for name, function in FUNCTIONS.items()}
    results = {name: function.call(as_tensor(points[name], device))
               for name, function in FUNCTIONS.items()}
    lt.realize(*results.values())
    wrong = []
    for name, bound in BOUNDS.items():
        if device == "interpreter":
            bound = NUMPYS_OWN.get((name, dtype.name), bound)
        found = errors(name, points[name], results[name].numpy())
        worst = int(np.argmax(found))
        if not found[worst] <= bound:
            wrong.append(f"{name} {found[worst]:.2f} ulp at {points[name][worst]!r}, not {bound}")
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


@pytest.mark.parametrize("name", ["atan", "tanh", "erf"])
@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=lambda d: d.name)
def test_odd_functions_are_odd_and_exact_around_their_pieces(name: str, dtype: dt.DType,
                                                             device: str) -> None:
    edges = np.array([0, 7 / 16, 0.5, 0.55, 0.625, 11 / 16, 0.95, 1, 19 / 16, 39 / 16, 4, 9, 20,
                      1e4, 1e30], dtype.numpy)
    x = np.unique(np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 99),
                                  np.geomspace(1e-30, 30, 300, dtype=dtype.numpy), [np.inf]]))
    x = x.astype(dtype.numpy)
    found = [getattr(as_tensor(sign * x, device), name)().numpy() for sign in (1, -1)]
    np.testing.assert_array_equal(found[0], -found[1])
    assert not np.signbit(found[0]).any() and np.signbit(found[1]).all()
    function = getattr(math, name)
    exact = np.array([function(v) for v in x.tolist()])
    bound = 1.2 if name == "atan" else 2.0
    assert (np.abs(found[0] - exact) <= bound * np.spacing(exact.astype(dtype.numpy))).all()
    assert math.isnan(getattr(as_tensor(np.array([np.nan], dtype.numpy), device), name)().item())


@pytest.mark.few(2)
def test_halves_are_computed_in_float32_and_rounded_once(device: str) -> None:
    values = np.linspace(-4, 4, 200).astype(np.float16)
    x = as_tensor(values, device)
    wide = as_tensor(values.astype(np.float32), device)
    for name in ("tanh", "erf", "sigmoid", "exp", "expm1", "gelu"):
        lt.realize(found := getattr(x, name)(), exact := getattr(wide, name)())
        np.testing.assert_array_equal(found.numpy(), exact.numpy().astype(np.float16), name)


@pytest.mark.few(1)
def test_lgamma_of_every_half(device: str) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.isfinite(values) & (values <= 0) & (values == np.floor(values))
        expected = np.array([np.inf if pole else math.lgamma(v) for v, pole in zip(
            values.astype(np.float64).tolist(), whole, strict=True)]).astype(np.float16)
    found = lt.tensor(values, device=device).lgamma().numpy()
    np.testing.assert_allclose(found, expected, rtol=2.0**-10)  # rounded twice


@pytest.mark.parametrize("dtype", [lt.float16, lt.float32, lt.float64], ids=lambda d: d.name)
def test_ldexp_is_rounded_once_however_large_its_power_is(dtype: dt.DType, device: str) -> None:
    rng = np.random.default_rng(3)
    info: Any = np.finfo(dtype.name)
    reach = int(info.maxexp - np.log2(float(info.smallest_subnormal)))
    values = np.concatenate([[0.0, -0.0, 1e-3, np.inf], rng.normal(size=20) * 2.0**rng.integers(
        int(info.minexp), int(info.maxexp), 20)]).astype(dtype.numpy)
    powers = rng.integers(-reach, reach, values.size)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(values, powers)
    found = lt.tensor(values, device=device).ldexp(lt.tensor(powers, device=device))
    loose = 4 * float(info.eps) if device == "interpreter" else 0.0  # NumPy's exp2(3) may not be 8
    np.testing.assert_allclose(found.numpy(), expected, rtol=loose, atol=0)


def test_xlog1py_has_a_slope_where_x_is_0(device: str) -> None:
    x = lt.tensor([0.0, 0.0, -0.0, 2.0], device=device, requires_grad=True)
    y = lt.tensor([3.0, -1.0, -7.0, 1.0], device=device, requires_grad=True)
    found = special.xlog1py(x, y)
    found.sum().backward()
    assert found.tolist() == [0.0, 0.0, 0.0, pytest.approx(2 * math.log(2))]
    assert x.grad is not None and y.grad is not None
    assert x.grad.tolist() == pytest.approx([math.log(4), 0.0, 0.0, math.log(2)])
    assert y.grad[[0, 3]].tolist() == [0.0, 1.0]
    assert special.xlog1py(x.half(), lt.arange(4, device=device)).dtype is lt.float16


def test_parts_of_a_product_that_fits_do(device: str) -> None:
    x = lt.tensor([1e20, -3e20], device=device)
    assert lt.zeros(2, device=device).addcmul(x, x, value=1e-20).tolist() == pytest.approx(
        [1e20, 9e20])


def test_the_slope_of_a_cross_entropy_for_its_label_keeps_small_logits(device: str) -> None:
    x = lt.tensor([1e-12, -1e-12, 0.0, math.inf, -math.inf, 2.0, -2.0], device=device)
    expected = {1.0: (-x).tolist(), 3.0: (3 * nn.functional.softplus(-x)
                                          - nn.functional.softplus(x)).tolist()}
    for factor, slopes in expected.items():
        label = lt.full((7,), 0.25, device=device, requires_grad=True)
        nn.functional.binary_cross_entropy_with_logits(
            x, label, reduction="sum", pos_weight=lt.tensor(factor, device=device)).backward()
        assert label.grad is not None
        assert label.grad.tolist() == pytest.approx(slopes, rel=1e-6, abs=0)


@pytest.mark.parametrize(("dtype", "within"), [(lt.bfloat16, 2.0**-8), (lt.float32, 1e-6)],
                         ids=["bfloat16", "float32"])
def test_ndtr_is_computed_in_more_digits_than_it_has(dtype: dt.DType, within: float,
                                                     device: str) -> None:
    x = lt.tensor([-12.0, -5.03125, -3.234375, 3.234375], dtype=dtype, device=device,
                  requires_grad=True)
    found = special.ndtr(x)
    found.sum().backward()
    points = [float(v) for v in x.tolist()]
    assert x.grad is not None
    assert found.tolist() == pytest.approx(
        [math.erfc(-v / math.sqrt(2)) / 2 for v in points], rel=within, abs=0)
    density = [math.exp(-v * v / 2) / math.sqrt(2 * math.pi) for v in points]
    assert x.grad.tolist() == pytest.approx(density, rel=2 * within + 1e-5, abs=0)


def test_rounding_is_two_sums_and_no_division() -> None:
    """A floor and a remainder, each a division by its own rules, took four times as long."""
    ops = {n.op for n in toposort([round_half_even(lt.tensor([0.5, 1.5]).node)])}
    assert not ops & {Op.IDIV, Op.MOD}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_halves_are_rounded_to_the_even_one_and_zeros_keep_their_sign(dtype: str) -> None:
    x = lt.tensor([0.5, -0.5, 1.5, -2.5, 0.25, -0.25, 127.5, 0.0, -0.0, math.inf, -math.inf,
                   math.nan], dtype=getattr(lt, dtype))
    wanted = np.rint(x.double().numpy())
    found = x.round().double().numpy()
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(wanted[:-1]))


def test_whole_numbers_too_large_for_a_fraction_are_as_they_are() -> None:
    x = np.array([8388607.5, -8388607.5, 8388609, 16777215, -1e30], np.float32)
    np.testing.assert_array_equal(lt.tensor(x).round().numpy(), np.rint(x))
