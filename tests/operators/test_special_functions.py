"""Bessel's, Airy's and zeta functions, and those of the normal distribution, beside mpmath: values
in both float types, and derivatives."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from slow_rows import slow_but

import lazyten as lt

Array = np.ndarray[Any, Any]
COUNT = 8


def above(high: float) -> Array:
    """Points from 0 to high, evenly spread and of all magnitudes."""
    rng = np.random.default_rng(5)
    return np.concatenate([rng.uniform(1e-3, high, COUNT), 10 ** rng.uniform(-8, np.log10(high),
                                                                             COUNT)])


def both(high: float) -> Array:
    x = above(high)
    return x * np.where(np.arange(x.size) % 2, 1, -1)


def order(function: Callable[..., Any], n: int) -> Callable[[Any], Any]:
    return lambda x: function(n, x)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Array]] = {
    "i0": (order(mpmath.besseli, 0), both(40)), "i1": (order(mpmath.besseli, 1), both(40)),
    "i0e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), both(1e4)),
    "i1e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), both(1e4)),
    "modified_bessel_k0": (order(mpmath.besselk, 0), above(40)),
    "modified_bessel_k1": (order(mpmath.besselk, 1), above(40)),
    "scaled_modified_bessel_k0": (lambda x: mpmath.exp(x) * mpmath.besselk(0, x), above(1e3)),
    "scaled_modified_bessel_k1": (lambda x: mpmath.exp(x) * mpmath.besselk(1, x), above(1e3)),
    "bessel_j0": (order(mpmath.besselj, 0), both(100)),
    "bessel_j1": (order(mpmath.besselj, 1), both(100)),
    "bessel_y0": (order(mpmath.bessely, 0), above(100)),
    "bessel_y1": (order(mpmath.bessely, 1), above(100)),
    "spherical_bessel_j0": (mpmath.sinc, both(100)), "airy_ai": (mpmath.airyai, both(20)),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), np.append(above(1e4), [-5, -0.3, -9])),
    "ndtri": (lambda p: -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p), above(1) * 0.999),
    "log_ndtr": (lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2), both(20)),
    **{f"polygamma {n}": (order(mpmath.polygamma, n), np.append(above(30), [-0.3, -7.6, -40.2]))
       for n in (1, 2, 3, 6)},
}
SWINGING = {"bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0", "airy_ai",
            "log_ndtr"}
"""What has zeros, or is the logarithm of what is near 1: its errors are beside 1."""


def called(name: str, x: lt.Tensor) -> lt.Tensor:
    short, _, n = name.partition(" ")
    return lt.special.polygamma(int(n), x) if n else getattr(lt.special, short)(x)


def exact(name: str, points: Array, slope: bool = False) -> Array:
    function = FUNCTIONS[name][0]
    with mpmath.workdps(40):
        return np.array([float(mpmath.diff(function, mpmath.mpf(float(x))) if slope else function(
            mpmath.mpf(float(x)))) for x in points])


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["float64", "float32"], "float64"))
def test_values_are_mpmaths(kind: str, device: str) -> None:
    points = {name: x.astype(kind) for name, (_, x) in FUNCTIONS.items()}
    found = {name: called(name, lt.tensor(x, device=device)) for name, x in points.items()}
    lt.realize(*found.values())
    for name, result in found.items():
        near = 1e-14 if name in SWINGING else 0
        exacts = exact(name, points[name])
        with np.errstate(over="ignore"):
            wanted = exacts.astype(kind)
        np.testing.assert_allclose(result.numpy(), wanted, 1e-14 if kind == "float64" else 1e-7,
                                   near, err_msg=name)


@pytest.mark.slow
def test_derivatives_are_mpmaths() -> None:
    for name in set(FUNCTIONS) - {"airy_ai"}:
        points = FUNCTIONS[name][1][::3]
        x = lt.tensor(points, requires_grad=True, device="interpreter")
        called(name, x).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), exact(name, points, True), 1e-11, 1e-13, name)


def test_the_incomplete_gamma_functions_are_mpmaths() -> None:
    a, x = (v.ravel() for v in np.meshgrid(
        [1e-6, 0.01, 0.5, 1.0, 3.7, 19.9, 20.0, 33.3, 200.0, 1e4],
        [1e-9, 0.01, 0.999, 1.0, 3.7, 20.0, 33.0, 130.0, 500.0, 1e4]))
    below = np.vectorize(lambda a, x: float(mpmath.gammainc(a, 0, x, regularized=True)))(a, x)
    above = np.vectorize(lambda a, x: float(mpmath.gammainc(a, x, regularized=True)))(a, x)
    wide = lt.tensor(a), lt.tensor(x)
    np.testing.assert_allclose(lt.special.gammainc(*wide).numpy(), below, 1e-11, 1e-300)
    np.testing.assert_allclose(lt.igammac(*wide).numpy(), above, 1e-11, 3e-15)
    single = [v.float() for v in wide]
    np.testing.assert_allclose(lt.igamma(*single).numpy(), below, 1e-5, 1e-38)


def test_the_ends_of_the_incomplete_gamma_functions() -> None:
    inf, nan = np.inf, np.nan
    a = lt.tensor([0.0, 0, 2, 2, inf, inf, -1, 2, nan, 2, 0])
    x = lt.tensor([0.0, 1, 0, inf, 3, inf, 2, -1, 2, nan, inf])
    below = np.array([nan, 1, 0, 1, 0, nan, nan, nan, nan, nan, 1])
    np.testing.assert_array_equal(lt.special.gammainc(a, x).numpy(), below)
    np.testing.assert_array_equal(lt.special.gammaincc(a, x).numpy(), 1 - below)


@pytest.mark.slow
def test_gradients_of_the_incomplete_gamma_functions_are_differences() -> None:
    rng = np.random.default_rng(0)
    for function in (lt.igamma, lt.igammac):
        given = [lt.tensor(rng.uniform(0.1, 30, 12), requires_grad=True) for _ in range(2)]
        assert lt.autograd.gradcheck(function, given)


@pytest.mark.slow
def test_zeta_of_all_kinds_of_arguments() -> None:
    x, q = np.meshgrid([1.01, 2.0, 3.0, 7.5, 30.0, 120.0], [1e-3, 0.5, 1.0, 2.25, 40.0])
    found = lt.special.zeta(lt.tensor(x), lt.tensor(q)).numpy()
    with mpmath.workdps(60):
        wanted = np.vectorize(lambda a, b: float(mpmath.zeta(a, b)))(x, q)
    np.testing.assert_allclose(found, wanted, 1e-13)
    below = lt.special.zeta(lt.tensor([2.0, 3.0, 2.0, 2.5, 1.0, 0.5]),
                            lt.tensor([-0.25, -1.5, -3.0, -0.5, 2.0, 2.0])).tolist()
    assert below[0] == pytest.approx(float(mpmath.zeta(2, 0.75)) + 16)
    assert below[1] == pytest.approx(float(mpmath.zeta(3, 0.5)) - 8 - 1 / 1.5**3, rel=1e-5)
    assert below[2] == below[4] == np.inf and np.isnan(below[3]) and np.isnan(below[5])


def test_zeta_of_large_exponents_and_offsets_is_its_sum() -> None:
    x, q = np.meshgrid([30.5, 99.0, 100.0, 111.25, 150.0], [25.0, 63.5, 127.0, 433.0])
    found = lt.special.zeta(lt.tensor(x), lt.tensor(q)).numpy()
    with mpmath.workdps(60):  # whose own zeta has half the digits here
        wanted = [float(sum((mpmath.mpf(b) + k) ** -mpmath.mpf(a) for k in range(int(20 * b))))
                  for a, b in zip(x.flat, q.flat, strict=True)]
    np.testing.assert_allclose(found.ravel(), wanted, 1e-13)
    ends = lt.special.zeta(lt.tensor([2.0, np.inf, np.inf]), lt.tensor([np.inf, 1.0, 0.5]))
    assert ends.tolist() == [0.0, 1.0, np.inf]


def test_a_polynomial_is_refused_where_it_would_be_a_kernel_without_end() -> None:
    with pytest.raises(lt.ArgumentError, match="degrees are 500 at most"):
        lt.special.hermite_polynomial_h(lt.ones(2), 10**6)
    with pytest.raises(lt.DTypeError, match="must be a tensor"):
        lt.special.legendre_polynomial_p(0.5, 2)


@pytest.mark.parametrize("q", (-1e-10, -2.0000001, -0.999, -5.25))
@pytest.mark.parametrize("x", (2.0, 3.0, 30.0))
def test_zeta_keeps_its_digits_beside_its_poles(x: float, q: float) -> None:
    found = lt.special.zeta(lt.tensor(x, dtype=lt.float64), lt.tensor(q, dtype=lt.float64)).item()
    with mpmath.workdps(60):
        steps = math.ceil(-q)
        wanted = mpmath.zeta(x, mpmath.mpf(q) + steps) \
            + sum((mpmath.mpf(q) + k) ** -int(x) for k in range(steps))
    assert found == pytest.approx(float(wanted), rel=1e-13)


def test_lgamma_keeps_its_digits_where_it_is_0(device: str) -> None:
    gaps = np.concatenate([2.0**-np.arange(1, 50, 4), -2.0**-np.arange(2, 50, 4)])
    points = np.concatenate([1 + gaps, 2 + gaps])
    found = lt.tensor(points, device=device).lgamma().numpy()
    with mpmath.workdps(60):
        wanted = [float(mpmath.loggamma(mpmath.mpf(x))) for x in points.tolist()]
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize("name", ("bessel_y0", "bessel_y1", "modified_bessel_k0",
                                  "modified_bessel_k1", "scaled_modified_bessel_k0"))
def test_functions_that_are_infinite_at_0_are_right_down_to_the_least_number(
        name: str, device: str) -> None:
    points = np.array([5e-324, 1e-315, 1e-303, 3e-301, 1e-299])
    found = getattr(lt.special, name)(lt.tensor(points, device=device)).numpy()
    np.testing.assert_allclose(found, exact(name, points), rtol=1e-15)


@pytest.mark.parametrize("dtype", (lt.float32, lt.float64), ids=str)
@pytest.mark.parametrize("name", ("elu", "celu", "selu", "expm1"))
def test_slopes_that_vanish_keep_their_digits(name: str, dtype: lt.DType, device: str) -> None:
    points = np.array([-40.0, -20.0, -10.0, -1.0])
    x = lt.tensor(points, dtype=dtype, device=device, requires_grad=True)
    value = x.expm1() if name == "expm1" else getattr(lt.nn.functional, name)(x)
    (slope,) = lt.autograd.grad(value.sum(), x)
    scale = 1.0507009873554805 * 1.6732632423543772 if name == "selu" else 1.0
    np.testing.assert_allclose(slope.numpy(), scale * np.exp(points),
                               rtol=1e-6 if dtype is lt.float32 else 1e-14)


@pytest.mark.parametrize("eps", [0.2, 0.5, 0.7])
def test_logit_holds_x_at_eps_first(eps: float, device: str) -> None:
    x = np.array([0.1, 0.3, 0.5, 0.9, 0.0, 1.0, np.nan], np.float32)
    held = np.where(x < eps, eps, np.where(x > 1 - eps, 1 - eps, x))
    t = lt.tensor(x, device=device, requires_grad=True)
    y = t.logit(eps)
    np.testing.assert_allclose(y.detach().numpy(), np.log(held / (1 - held)), rtol=1e-5, atol=1e-6)
    y[:-1].sum().backward()
    assert t.grad is not None
    inside = (held == x)[:-1]
    expected = np.where(inside, 1 / (x * (1 - x))[:-1].clip(1e-9), 0)
    np.testing.assert_allclose(t.grad.numpy()[:-1], expected, rtol=1e-5)


def test_logit_of_whole_numbers_is_held_as_floats() -> None:
    np.testing.assert_allclose(lt.tensor([0, 1]).logit(0.7).numpy(), [0.8472978, -0.8472978],
                               rtol=1e-6)
