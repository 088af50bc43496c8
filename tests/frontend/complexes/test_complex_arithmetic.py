"""Arithmetic and functions of complex tensors beside NumPy, and their gradients beside differences.
"""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tensor_values import complex_numbers as numbers

import lazyten as lt

Array = np.ndarray[Any, Any]
FUNCTIONS = ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tanh", "tan", "reciprocal",
             "square", "abs", "angle", "conj", "log2", "log10", "log1p", "expm1",
             "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")
EXACT = np.array([0, 1, -1, 1j, -1j, 1 + 1j, -3 + 4j, complex(-1, -0.0), 1e200 + 1e200j,
                  1e-200 - 1e-200j])


@pytest.mark.few(17)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_numpy(name: str, device: str) -> None:
    x = numbers(20)
    np.testing.assert_allclose(getattr(lt, name)(lt.tensor(x, device=device)).numpy(),
                               getattr(np, name)(x), rtol=1e-12)


@pytest.mark.parametrize("name", ("abs", "angle", "sqrt", "conj"))
def test_functions_that_neither_overflow_nor_lose_signs_of_0(name: str) -> None:
    np.testing.assert_allclose(getattr(lt, name)(lt.tensor(EXACT)).numpy(),
                               getattr(np, name)(EXACT), rtol=1e-14)


HARD = np.array([complex(*z) for z in itertools.product(
    (0.0, -0.0, 1.0, -1.0, 1 + 1e-9, -1 - 1e-9, 1e-9, -0.6, 1e19, -1e160), repeat=2)])
INFINITE = np.array([complex(*z) for z in itertools.product((np.inf, -np.inf, 2.0, -0.0), repeat=2)
                     if np.inf in map(abs, z)])
INVERSE = ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "log", "sqrt")


@pytest.mark.parametrize("name", INVERSE)
def test_inverse_functions_keep_their_digits_on_both_sides_of_cuts(name: str, device: str) -> None:
    """Near the ends of the cuts, too, where the parts are of different sizes, and far out."""
    for given in (HARD, INFINITE):
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(given)
        found = getattr(lt, name)(lt.tensor(given, device=device)).numpy()
        for part in ("real", "imag"):
            np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=1e-8,
                                       atol=1e-300)
            np.testing.assert_array_equal(np.signbit(getattr(found, part)),
                                          np.signbit(getattr(wanted, part)))


@pytest.mark.parametrize("name", ("exp", "sinh", "cosh", "sin", "cos"))
def test_a_part_that_is_0_stays_0_where_the_other_is_infinite(name: str) -> None:
    on = (-np.inf, np.inf) if name[-1] == "h" or name == "exp" else ()
    given = np.array([*(complex(x, y) for x in on for y in (0.0, -0.0)),
                      *(complex(x, y) for x in (0.0, -0.0) for y in (np.inf, -np.inf) if not on)])
    wanted = getattr(np, name)(given)
    found = getattr(lt, name)(lt.tensor(given)).numpy()
    np.testing.assert_array_equal([found.real, found.imag], [wanted.real, wanted.imag])


def test_logaddexp_is_the_logarithm_of_a_sum(device: str) -> None:
    a, b = numbers(3, 4), numbers(4, seed=1)
    one, other = (lt.tensor(x, device=device) for x in (a, b))
    np.testing.assert_allclose(lt.logaddexp(one, other).numpy(), np.log(np.exp(a) + np.exp(b)),
                               rtol=1e-12)
    np.testing.assert_allclose(lt.logaddexp(one + 800, other + 800).numpy(),
                               np.log(np.exp(a) + np.exp(b)) + 800, rtol=1e-12)


def test_truth_is_whether_both_parts_are_0(device: str) -> None:
    a, b = np.array([[0j, 1j], [2, -0.0]]), np.array([[1, 0], [0, 0j]])
    one, other = (lt.tensor(x, device=device) for x in (a, b))
    for name in ("logical_and", "logical_or", "logical_xor"):
        np.testing.assert_array_equal(getattr(lt, name)(one, other).numpy(),
                                      getattr(np, name)(a, b))
        np.testing.assert_array_equal(getattr(lt, name)(other.real, one).numpy(),
                                      getattr(np, name)(b.real, a))
    np.testing.assert_array_equal(one.logical_not().numpy(), np.logical_not(a))
    for found, wanted in ((one.any(), a.any()), (one.all(1), a.all(1)),
                          (lt.any(one, 0, keepdim=True), a.any(0, keepdims=True))):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_a_number_may_be_the_first_operand(device: str) -> None:
    x = lt.arange(1, 4, device=device)
    for name in ("add", "sub", "mul", "div", "pow"):
        found = getattr(lt, name)(2 - 1j, x)
        assert found.dtype is lt.complex64 and found.device == x.device
        wanted = {"sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
                  "add": np.add}[name](2 - 1j, x.numpy())
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
    with pytest.raises(lt.DTypeError, match="floor_divide of complex tensors is not there"):
        lt.floor_divide(1j, x)


@pytest.mark.few(12)
@pytest.mark.parametrize("a", [numbers(3, 4), numbers(4), np.arange(1.0, 5), 2.5, 1 - 2j, 3])
@pytest.mark.parametrize("name", ("add", "subtract", "multiply", "divide", "power"))
def test_operators_take_complex_and_real_operands(a: Any, name: str, device: str) -> None:
    operator = {"add": "__add__", "subtract": "__sub__", "multiply": "__mul__",
                "divide": "__truediv__", "power": "__pow__"}[name]
    b = numbers(3, 4, seed=1)
    left, right = [lt.tensor(x, device=device) if isinstance(x, np.ndarray) else x for x in (a, b)]
    wanted = getattr(np, name)(a, b), getattr(np, name)(b, a)
    found = [getattr(lt.Tensor, operator)(x, y) if isinstance(x, lt.Tensor)
             else getattr(y, operator.replace("__", "__r", 1))(x)
             for x, y in ((left, right), (right, left))]
    for given, value in zip(found, wanted, strict=True):
        assert given.dtype is lt.complex128
        np.testing.assert_allclose(given.numpy(), value, rtol=1e-12)


def test_powers_of_0_and_quotients_by_infinities(device: str) -> None:
    x = np.array([0, 0, 0, 0, 2 + 1j, 3])
    y = np.array([0, 2, 1.5, 1 + 1j, 0, 0])
    one, other = lt.tensor(x, device=device), lt.tensor(y, device=device)
    for base, exponent in ((one, other), (one, other.real), (one.real, other)):
        np.testing.assert_allclose((base ** exponent).numpy(),
                                   base.numpy() ** exponent.numpy(), rtol=1e-12)
    assert (0 ** other).tolist() == [1, 0, 0, 0, 1, 1] == (0j ** other).tolist()
    assert (one ** 0).tolist() == [1] * 6
    for below in (complex(np.inf, 0), complex(0, -np.inf), complex(np.inf, np.inf)):
        assert (lt.tensor([1 + 2j, -3j], device=device) / lt.tensor(below)
                .to(device)).tolist() == [0, 0]


def test_a_quotient_neither_overflows_nor_underflows() -> None:
    for size in (1e200, 1e-200):
        x = np.array([3 + 4j, -1 + 2j]) * size
        np.testing.assert_allclose((lt.tensor(x) / lt.tensor(x[::-1].copy())).numpy(), x / x[::-1])


@pytest.mark.parametrize(("a", "b", "wanted"), [
    (lt.complex64, lt.float64, lt.complex128), (lt.complex64, lt.int64, lt.complex64),
    (lt.complex128, lt.complex64, lt.complex128), (lt.float32, lt.complex64, lt.complex64)])
def test_types_promote_as_in_pytorch(a: lt.DType, b: lt.DType, wanted: lt.DType) -> None:
    assert (lt.ones(2, dtype=a) * lt.ones(2, dtype=b)).dtype is wanted
    assert lt.promote_types(a, b) is wanted


def test_tensors_without_axes_and_numbers_do_not_widen() -> None:
    x = lt.ones(2, dtype=lt.complex64)
    assert (x * lt.tensor(2.0, dtype=lt.float64)).dtype is lt.complex64
    assert (lt.ones(2) * lt.tensor(1j, dtype=lt.complex128)).dtype is lt.complex64
    assert (lt.arange(2) * 1j).dtype is lt.complex64


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_functions_are_differences(name: str) -> None:
    x = lt.view_as_real(lt.tensor(numbers(4, seed=2))).detach().requires_grad_()

    def parts(pairs: Any) -> Any:
        given = getattr(lt, name)(lt.view_as_complex(pairs))
        return lt.view_as_real(given) if given.is_complex() else given

    assert lt.autograd.gradcheck(parts, (x,))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ("__mul__", "__truediv__", "__pow__", "__matmul__"))
def test_gradients_of_products_and_quotients_are_differences(name: str) -> None:
    x, y = [lt.view_as_real(lt.tensor(numbers(2, 2, seed=n))).detach().requires_grad_()
            for n in (3, 4)]

    def parts(a: Any, b: Any) -> Any:
        return lt.view_as_real(getattr(lt.view_as_complex(a), name)(lt.view_as_complex(b)))

    assert lt.autograd.gradcheck(parts, (x, y))


def test_the_gradient_of_the_length_is_the_unit_and_0_at_0() -> None:
    x = lt.tensor([3 + 4j, 0j], requires_grad=True)
    x.abs().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.6 + 0.8j, 0], rtol=1e-6)


@pytest.mark.parametrize("equation", ("ij,jk->ik", "ij,kj", "ij,jk,kl->il", "ii->i", "ij->", "ii"))
def test_einsum_is_that_of_numpy(equation: str) -> None:
    given = [numbers(3, 3, seed=n) for n in range(equation.count(",") + 1)]
    np.testing.assert_allclose(lt.einsum(equation, *map(lt.tensor, given)).numpy(),
                               np.einsum(equation, *given), rtol=1e-10)


def test_products_are_those_of_numpy(device: str) -> None:
    a, b, v = numbers(2, 3, 4), numbers(4, 5, seed=1), numbers(4, seed=2)
    one, two, three = [lt.tensor(x, device=device) for x in (a, b, v)]
    for given, wanted in ((one @ two, a @ b), (one @ three, a @ v), (two.T @ three, b.T @ v),
                          (lt.vdot(three, three), np.vdot(v, v)), (lt.outer(three, three),
                                                                   np.outer(v, v)),
                          (one @ two.real, a @ b.real), (one.real @ two, a.real @ b),
                          (two.mH @ three, b.conj().T @ v),
                          (lt.nn.functional.linear(one, two.T), a @ b)):
        np.testing.assert_allclose(given.numpy(), wanted, rtol=1e-10)


def test_reductions_are_those_of_numpy(device: str) -> None:
    x = numbers(3, 4)
    t = lt.tensor(x, device=device)
    for given, wanted in ((t.sum(), x.sum()), (t.sum(0), x.sum(0)), (t.mean(-1), x.mean(-1)),
                          (t.sum((0, 1), keepdim=True), x.sum((0, 1), keepdims=True)),
                          (t.cumsum(1), x.cumsum(1)), (t.prod(1), x.prod(1)),
                          (t.cumprod(1), x.cumprod(1)), (t.cumprod(0), x.cumprod(0)),
                          (t.prod(), x.prod()), (t.norm(), np.linalg.norm(x)),
                          (lt.linalg.norm(t), np.linalg.norm(x)), (t.prod(0), x.prod(0)),
                          (t[0, 0].prod(0), x[0, 0]), (t[0, 0].prod(-1, True), x[0, 0]),
                          (t.var(0, correction=0), x.var(0)), (t.var(), x.var(ddof=1)),
                          (t.std(1), x.std(1, ddof=1)), (t.std(correction=0), x.std()),
                          (lt.linalg.vector_norm(t, 1, 1), np.abs(x).sum(1))):
        np.testing.assert_allclose(given.numpy(), wanted, rtol=1e-12)


def test_numbers_that_are_close_are_those_of_numpy(device: str) -> None:
    inf, nan = np.inf, np.nan
    some = [0, 1 + 2j, 1 + 2j + 1e-6, 1 + 2j + 1e-3j, complex(inf, 0), complex(-inf, 0),
            complex(0, inf), complex(inf, inf), complex(nan, 0), complex(inf, nan), 1e-9j]
    x, y = np.meshgrid(some, some)
    one, other = lt.tensor(x, device=device), lt.tensor(y, device=device)
    for equal_nan in (False, True):
        np.testing.assert_array_equal(lt.isclose(one, other, equal_nan=equal_nan).numpy(),
                                      np.isclose(x, y, equal_nan=equal_nan))


def test_comparisons_look_at_both_parts() -> None:
    x = lt.tensor([1 + 2j, 1 - 2j, complex(np.nan, 0), complex(0, np.inf)])
    assert (x == x.conj()).tolist() == [False, False, False, False]
    assert (x != 1 + 2j).tolist() == [False, True, True, True]
    assert x.isnan().tolist() == [False, False, True, False]
    assert x.isinf().tolist() == [False, False, False, True]
    assert x.isfinite().tolist() == [True, True, False, False]
    assert lt.allclose(x[:2], x[:2] * (1 + 1e-7)) and not lt.equal(x[:1], x[1:2])


@pytest.mark.parametrize("named", [{}, {"correction": 0}, {"fweights": [1, 2, 3]},
                                   {"aweights": [1.0, 0.5, 2.0]}])
def test_covariances_of_complex_numbers_are_numpys(named: dict[str, Any]) -> None:
    z = np.array([[1 + 1j, 2, 3 - 2j], [3, 5j, 1]])
    given = {key: lt.tensor(x) if isinstance(x, list) else x for key, x in named.items()}
    expected = np.cov(z, **{{"correction": "ddof"}.get(k, k): x for k, x in named.items()})
    np.testing.assert_allclose(lt.cov(lt.tensor(z), **given).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(lt.tensor(z[1]).cov(**given).numpy(), expected[1, 1], atol=1e-12)
    np.testing.assert_allclose(lt.tensor(z).corrcoef().numpy(), np.corrcoef(z), atol=1e-12)


def test_what_is_not_finite_of_complex_numbers_is_replaced_in_each_part() -> None:
    z = lt.tensor([complex(math.nan, 1), complex(math.inf, math.nan), complex(2, -math.inf)])
    assert z.nan_to_num(1.0, 2.0, 3.0).tolist() == [1 + 1j, 2 + 1j, 2 + 3j]
    assert z.nan_to_num_(nan=5.0, posinf=0, neginf=-1.0) is z
    assert z.tolist() == [5 + 1j, 5j, 2 - 1j]
