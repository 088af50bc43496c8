"""Elementwise operations of tensors beside NumPy's, on values at the limits of every dtype."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import NUMPY_TYPES, as_tensor, assert_same, computed, edges, pairs

import lazyten as lt
from lazyten.ir import dtype as dt

INTS = dt.INTS
NUMBERS = [d for d in NUMPY_TYPES if d is not dt.bool_]
FLOATS = [d for d in NUMPY_TYPES if d.is_float]


def ids(dtype: dt.DType) -> str:
    return dtype.name


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne}
ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum,
              "minimum": np.minimum}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or,
         "logical_xor": np.logical_xor}
BITS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=ids)
def test_comparisons_and_logic_match_numpy(dtype: dt.DType, device: str) -> None:
    a, b = pairs(dtype)
    x, y = as_tensor(a, device, dtype), as_tensor(b, device, dtype)
    functions = COMPARISONS | LOGIC
    found = computed({n: getattr(x, n)(y) for n in functions} | {"not": x.logical_not()})
    for name, function in functions.items():
        assert_same(found[name], function(a, b), f"{name} of {dtype.name}")
    assert_same(found["not"], np.logical_not(a))


@pytest.mark.parametrize("dtype", NUMBERS, ids=ids)
def test_arithmetic_matches_numpy(dtype: dt.DType, device: str) -> None:
    a, b = pairs(dtype)
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    x, y = as_tensor(a, device, dtype), as_tensor(b, device, dtype)
    found = computed({n: getattr(x, n)(y) for n in ARITHMETIC}
                     | {"neg": -x, "abs": abs(x), "square": x.square(), "sign": x.sign()})
    with np.errstate(all="ignore"):
        for name, function in ARITHMETIC.items():
            expected = function(a, b)
            if name in ("maximum", "minimum") and dtype.is_float:  # which zero is not promised
                np.testing.assert_array_equal(found[name], expected)
            else:
                assert_same(found[name], expected, f"{name} of {dtype.name}")
        assert_same(found["neg"], -a)
        assert_same(found["abs"], abs(a))
        assert_same(found["square"], a * a)
        np.testing.assert_array_equal(found["sign"], np.sign(a))


@pytest.mark.parametrize("dtype", INTS, ids=ids)
def test_integer_division_and_bits_match_numpy(dtype: dt.DType, device: str) -> None:
    a, b = pairs(dtype)
    x, y = as_tensor(a, device), as_tensor(b, device)
    counts = np.arange(dtype.bits + 2, dtype=dtype.numpy)[None, :]
    shifts = as_tensor(counts, device)
    found = computed({n: f(x, y) for n, f in BITS.items()} | {
        "floordiv": x // y, "mod": x % y, "invert": ~x, "shl": x << shifts, "shr": x >> shifts,
        "div": x / y})
    with np.errstate(all="ignore"):
        for name, function in BITS.items():
            assert_same(found[name], function(a, b), name)
        assert_same(found["floordiv"], a // b, "//")
        assert_same(found["mod"], a % b, "%")
        assert_same(found["invert"], ~a, "~")
        assert_same(found["shl"], a << counts, "<<")
        assert_same(found["shr"], a >> counts, ">>")
        assert_same(found["div"], a.astype(np.float32) / b.astype(np.float32), "/")


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_float_division_matches_numpy(dtype: dt.DType, device: str) -> None:
    values = edges(dtype)
    finite = values[np.isfinite(values)].astype(dtype.numpy)
    a, b = finite[:, None], finite[None, finite != 0]
    wide_a, wide_b = (v.astype(dtype.numpy) for v in pairs(dtype))
    found = computed({
        "floordiv": as_tensor(a, device) // as_tensor(b, device),
        "mod": as_tensor(a, device) % as_tensor(b, device),
        "div": as_tensor(wide_a, device) / as_tensor(wide_b, device)})
    with np.errstate(all="ignore"):
        assert_same(found["div"], wide_a / wide_b)
        np.testing.assert_array_equal(found["floordiv"], a // b)
        np.testing.assert_allclose(found["mod"], a % b, rtol=2e-3 if dtype.is_half else 1e-6)


def test_division_of_integers_has_pythons_signs(device: str) -> None:
    cases = [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (1, -5)]
    for dtype in (lt.int32, lt.float32):
        a = lt.tensor([p[0] for p in cases], dtype=dtype, device=device)
        b = lt.tensor([p[1] for p in cases], dtype=dtype, device=device)
        lt.realize(quotient := a // b, rest := a % b)
        assert quotient.tolist() == [p[0] // p[1] for p in cases]
        assert rest.tolist() == [p[0] % p[1] for p in cases]


@pytest.mark.parametrize("dtype", INTS, ids=ids)
def test_integer_powers_wrap_as_numpys_do(dtype: dt.DType, device: str) -> None:
    bases = edges(dtype)[:, None]
    exponents = np.arange(10, dtype=dtype.numpy)[None, :]
    found = (as_tensor(bases, device) ** as_tensor(exponents, device)).numpy()
    with np.errstate(all="ignore"):
        assert_same(found, bases ** exponents)


def test_a_negative_integer_power_is_zero_but_for_one_and_minus_one(device: str) -> None:
    bases = lt.tensor([1, -1, 2, -3], dtype=lt.int32, device=device)
    lt.realize(odd := bases ** lt.full_like(bases, -3), even := bases ** lt.full_like(bases, -2))
    assert odd.tolist() == [1, -1, 0, 0]
    assert even.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=ids)
def test_float_powers_match_numpy(dtype: dt.DType, device: str) -> None:
    a, b = pairs(dtype)
    x = as_tensor(a, device)
    found = computed({"pow": x ** as_tensor(b, device), "square": x ** 2, "root": x ** 0.5,
                      "inverse": x ** -1, "exponent": 2 ** x})
    with np.errstate(all="ignore"):
        root = np.where(a == -np.inf, np.inf, np.sqrt(a))  # IEEE 754's pow; NumPy's ** takes sqrt
        expected = {"pow": a ** b, "square": a * a, "root": root, "inverse": 1 / a,
                    "exponent": dtype.compute.type(2) ** a}
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, err_msg=name)


UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "reciprocal": np.reciprocal,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite}
EXACT = ("sqrt", "reciprocal", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite")


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_functions_of_floats_match_numpy(dtype: dt.DType, device: str) -> None:
    values = edges(dtype).astype(dtype.numpy)
    x = as_tensor(values, device, dtype)
    found = computed({name: getattr(x, name)() for name in UNARY})
    for name, function in UNARY.items():
        with np.errstate(all="ignore"):
            expected = function(values.astype(np.float64)).astype(found[name].dtype)
        if name in EXACT:
            assert_same(found[name], expected, name)
        else:
            tolerance = {16: 1e-3, 32: 2e-6, 64: 1e-12}[dtype.bits]
            np.testing.assert_allclose(found[name], expected, rtol=tolerance, atol=tolerance,
                                       err_msg=name)


def test_functions_keep_the_sign_of_zero(device: str) -> None:
    x = as_tensor(np.float32([-0.0, 0.0]), device)
    names = ["sqrt", "sin", "tan", "tanh", "expm1", "log1p", "erf", "floor", "ceil", "trunc",
             "round", "silu", "gelu"]
    for name, values in computed({n: getattr(x, n)() for n in names}).items():
        assert_same(values, np.float32([-0.0, 0.0]), name)


def test_functions_of_integers_and_bools_are_of_the_default_float(device: str) -> None:
    for values in (np.array([0, 1, 4], np.int32), np.array([True, False])):
        x = as_tensor(values, device)
        found = computed({"sqrt": x.sqrt(), "exp": x.exp(), "sin": x.sin(), "tanh": x.tanh()})
        for name, result in found.items():
            assert result.dtype == np.float32, name
            expected = getattr(np, name)(values.astype(np.float32))
            np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rounding_of_integers_changes_nothing(device: str) -> None:
    x = as_tensor(np.array([-3, 0, 7], np.int16), device)
    for values in computed({n: getattr(x, n)() for n in ("floor", "ceil", "trunc", "round")}
                           ).values():
        assert_same(values, np.array([-3, 0, 7], np.int16))


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_rounding_is_exact_around_halves_and_for_large_numbers(dtype: dt.DType,
                                                              device: str) -> None:
    halves = np.arange(-6, 6.5, 0.5)
    values = np.concatenate([halves, [0.49999997, -0.49999997, 1023.5, -1023.5, 2.0**15, -2.0**15]])
    if not dtype.is_half:
        values = np.concatenate([values, [2.0**23 - 0.5, 2.0**23 + 1, 2.0**60, -2.0**60]])
    values = values.astype(dtype.numpy)
    x = as_tensor(values, device)
    found = computed({n: getattr(x, n)() for n in ("floor", "ceil", "trunc", "round")})
    for name, result in found.items():
        assert_same(result, getattr(np, name)(values), name)


def test_operators_take_numbers_and_arrays_on_either_side(device: str) -> None:
    values = np.array([[1.5, -2.0, 4.0]], np.float32)
    x, array = as_tensor(values, device), np.array([[2.0], [3.0]], np.float32)
    operators = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
                 operator.mod]
    results, expected = {}, {}
    for f in operators:
        for name, left, right in (("t-s", x, 2), ("s-t", 3, x), ("t-a", x, array),
                                  ("a-t", array, x)):
            results[f.__name__ + name] = f(left, right)
            plain = [values if v is x else v for v in (left, right)]
            expected[f.__name__ + name] = f(*plain)
    for name, found in computed(results).items():
        assert_same(found, expected[name], name)


def test_bits_operators_take_numbers_on_either_side(device: str) -> None:
    values = np.array([5, 6, -7], np.int32)
    x = as_tensor(values, device)
    found = computed({"and": x & 3, "rand": 3 & x, "or": x | 8, "ror": 8 | x, "xor": x ^ 1,
                      "rxor": 1 ^ x, "shl": x << 2, "shr": x >> 1})
    expected = {"and": values & 3, "rand": values & 3, "or": values | 8, "ror": values | 8,
                "xor": values ^ 1, "rxor": values ^ 1, "shl": values << 2, "shr": values >> 1}
    for name, result in found.items():
        assert_same(result, expected[name], name)


def test_shapes_broadcast_as_numpys_do(device: str) -> None:
    shapes = [((3, 1, 5), (4, 1)), ((), (2, 3)), ((1,), (0,)), ((2, 3), (3,)), ((2, 0), (1, 1)),
              ((1, 1, 1), (2,))]
    rng = np.random.default_rng(0)
    for first, second in shapes:
        a = np.asarray(rng.normal(size=first), np.float32)
        b = np.asarray(rng.normal(size=second), np.float32)
        found = (as_tensor(a, device) * as_tensor(b, device)).numpy()
        assert_same(found, np.asarray(a * b))


def test_where_clamp_and_masked_fill_match_numpy(device: str) -> None:
    values = edges(lt.float32)
    mask = np.arange(len(values)) % 2 == 0
    x, m = as_tensor(values, device), as_tensor(mask, device)
    low = as_tensor(np.float32([-1]), device)
    found = computed({
        "where": lt.where(m, x, 7.0), "clamp": x.clamp(-1, 2), "min": x.clamp(min=0.5),
        "max": x.clamp(max=0.5), "tensor": x.clamp(low, low + 2), "fill": x.masked_fill(m, -9)})
    assert_same(found["where"], np.where(mask, values, np.float32(7)))
    assert_same(found["fill"], np.where(mask, np.float32(-9), values))
    np.testing.assert_array_equal(found["clamp"], np.clip(values, -1, 2))
    np.testing.assert_array_equal(found["min"], np.clip(values, 0.5, None))
    np.testing.assert_array_equal(found["max"], np.clip(values, None, 0.5))
    np.testing.assert_array_equal(found["tensor"], np.clip(values, -1, 1))
    nan = as_tensor(np.float32([np.nan]), device)
    assert np.isnan(x.clamp(max=nan).numpy()).all()
    assert np.isnan(x.clamp(float("nan")).numpy()).all()


@pytest.mark.parametrize(("dtype", "outside", "inside", "kind"), [
    (lt.int8, 128, 127, lt.int64), (lt.int8, -129, -128, lt.int16), (lt.int8, 200, 7, lt.uint8),
    (lt.uint8, 256, 255, lt.int32), (lt.uint8, -256, 0, lt.int64),
    (lt.int64, 1 << 63, (1 << 63) - 1, lt.uint64)], ids=str)
def test_elements_are_set_to_integers_that_fit(dtype: lt.DType, outside: int, inside: int,
                                               kind: lt.DType, device: str) -> None:
    """They were what is left of a wider integer."""
    x = lt.zeros(3, dtype=dtype, device=device)
    mask, at = x == 0, lt.tensor([1], device=device)

    def assigned(number: lt.Tensor) -> lt.Tensor:
        y = x.clone()
        y[mask] = number
        return y
    for fill in (lambda n: x.masked_fill(mask, n), lambda n: x.index_fill(0, at, n), assigned):
        assert fill(lt.full((), inside, dtype=kind, device=device))[1].item() == inside
        with pytest.raises(lt.ArgumentError, match=f"the value does not fit in {dtype.name}"):
            fill(lt.full((), outside, dtype=kind, device=device)).numpy()


@pytest.mark.parametrize("source", NUMPY_TYPES, ids=ids)
def test_conversions_match_numpy_and_saturate_floats(source: dt.DType, device: str) -> None:
    values = edges(source).astype(source.numpy)
    x = as_tensor(values, device, source)
    found = computed({t.name: x.to(t) for t in NUMPY_TYPES})
    for target in NUMPY_TYPES:
        if source.is_float and target.is_int:
            whole = np.trunc(np.nan_to_num(values.astype(np.float64), posinf=1e300, neginf=-1e300))
            limits = int(target.min), int(target.max)
            expected = np.array([min(max(int(v), limits[0]), limits[1]) for v in whole.tolist()],
                                target.numpy)
        else:
            with np.errstate(all="ignore"):
                expected = values.astype(target.numpy)
        assert_same(found[target.name], expected, f"{source.name} -> {target.name}")


def test_in_place_operators_match_numpy(device: str) -> None:
    values = np.float32([1.0, -2.0, 0.5])
    x, view = as_tensor(values, device), None
    view = x[1:]
    x += 2
    x *= 3
    x -= np.float32([1, 1, 1])
    x /= 2
    x.pow_(2)
    x.clamp_(1, 30)
    expected = np.clip((((values + 2) * 3 - 1) / 2) ** 2, 1, 30)
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(view.numpy(), expected[1:])


def test_bitcast_shows_the_same_bits(device: str) -> None:
    values = np.float32([1.0, -0.0, np.inf, 1e-45])
    x = as_tensor(values, device)
    assert_same(x.bitcast(lt.int32).numpy(), values.view(np.int32))
    assert_same(x.bitcast(lt.uint32).bitcast(lt.float32).numpy(), values)
    with pytest.raises(lt.DTypeError, match="same number of bits"):
        x.bitcast(lt.int64)


def test_matmul_matches_numpy(device: str) -> None:
    rng = np.random.default_rng(1)
    shapes = [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)),
              ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)),
              ((1, 1), (1, 1)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((17, 33), (33, 19))]
    results, expected = {}, {}
    for first, second in shapes:
        a, b = rng.normal(size=first), rng.normal(size=second)
        results[f"{first}@{second}"] = as_tensor(a, device) @ as_tensor(b, device)
        expected[f"{first}@{second}"] = a @ b
    for name, found in computed(results).items():
        assert found.shape == np.shape(expected[name]), name
        np.testing.assert_allclose(found, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_integers_multiply_as_matrices_and_wrap(device: str) -> None:
    a = np.array([[100, 100], [-3, 7]], np.int8)
    assert_same((as_tensor(a, device) @ as_tensor(a, device)).numpy(), a @ a)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda x: x + lt.ones(4, device=x.device), lt.ShapeError, ["add", "(2, 3)", "(4,)", "axis"]),
    (lambda x: x + "a", lt.DTypeError, ["add", "str"]),
    (lambda x: x & x, lt.DTypeError, ["bitwise_and", "float32"]),
    (lambda x: ~x, lt.DTypeError, ["bitwise_not"]),
    (lambda x: x << 1, lt.DTypeError, ["bitwise_left_shift"]),
    (lambda x: x.bool() - x.bool(), lt.DTypeError, ["sub", "bool"]),
    (lambda x: -x.bool(), lt.DTypeError, ["neg", "bool"]),
    (lambda x: x @ x, lt.ShapeError, ["matmul", "(2, 3)"]),
    (lambda x: x @ 3, lt.DTypeError, ["matmul"]),
    (lambda x: x @ x.double().T, lt.DTypeError, ["matmul", "float32", "float64"]),
    (lambda x: x.bool() @ x.bool().T, lt.DTypeError, ["matmul", "bool"]),
    (lambda x: lt.where(x, 1, 2), lt.DTypeError, ["where", "bool"]),
    (lambda x: x.clamp(), lt.ArgumentError, ["clamp"]),
    (lambda x: bool(x), lt.ShapeError, ["ambiguous"]),
    (lambda x: x.item(), lt.ShapeError, ["item", "(2, 3)"]),
    (lambda x: x.long().add_(0.5), lt.DTypeError, ["add_", "float32"]),
    (lambda x: x[0].add_(x), lt.ShapeError, ["add_", "(2, 3)"]),
    (lambda x: x + lt.ones(2, 3, device="interpreter"), lt.DeviceError, ["interpreter", "cpu"]),
    (lambda x: x.gelu("fast"), lt.ArgumentError, ["gelu", "fast"]),
    (lambda x: range(x), lt.LazytenError, []),
])
def test_mistakes_are_explained(call: Callable[[lt.Tensor], object], error: type[Exception],
                                words: list[str]) -> None:
    x = lt.ones(2, 3, device="cpu")
    with pytest.raises(error) as info:
        call(x)
    for word in words:
        assert word in str(info.value)


def test_numbers_of_python_and_numpy_are_made_into_tensors() -> None:
    assert lt.tensor(3).dtype is lt.int64 and lt.tensor(3.0).dtype is lt.float32
    assert lt.tensor(True).dtype is lt.bool_ and lt.tensor([[1, 2], [3, 4]]).shape == (2, 2)
    assert lt.tensor(np.float64(3)).dtype is lt.float64
    assert lt.tensor([]).dtype is lt.float32
    assert (lt.tensor([1.0, 2.0]) + np.float64(1)).dtype is lt.float32
    assert lt.tensor([1, 2.5]).tolist() == [1.0, 2.5]
    assert lt.tensor(0.1, dtype=lt.float64).item() == 0.1
    assert lt.tensor([[0.1]], dtype=lt.float64).tolist() == [[0.1]]
    with pytest.raises(lt.ShapeError, match="rectangle"):
        lt.tensor([[1, 2], [3]])
    with pytest.raises(lt.DTypeError):
        lt.tensor("hello")
    with pytest.raises(lt.DTypeError):
        lt.tensor([1 << 70])


def test_tensors_make_python_numbers() -> None:
    x = lt.tensor([2.5])
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and x.item() == 2.5
    assert [10, 20, 30][lt.tensor(1)] == 20
    assert len(lt.ones(4, 2)) == 4 and [r.item() for r in lt.arange(3)] == [0, 1, 2]
    with pytest.raises(lt.DTypeError):
        [1, 2][x]


def test_alpha_multiplies_the_elements_of_a_list(device: str) -> None:
    x = lt.ones(4, device=device)
    assert x.add([1, 2, 3, 4], alpha=2).tolist() == [3, 5, 7, 9]
    assert x.sub((1, 2, 3, 4), alpha=2).tolist() == [-1, -3, -5, -7]
    assert x.add_([1, 2, 3, 4], alpha=2).sub_([0, 1, 0, 1], alpha=3).tolist() == [3, 2, 7, 6]


def test_a_sum_of_bools_stays_bool_whatever_the_factor() -> None:
    x, y = lt.tensor([True, False, False]), lt.tensor([True, True, False])
    assert (x.add(y, alpha=2).tolist(), x.add(y, alpha=0).tolist()) == (
        [True, True, False], [True, False, False])
    assert x.add(y, alpha=2).dtype is x.add(True, alpha=3).dtype is lt.bool
    assert x.add(1, alpha=2).tolist() == [3, 2, 2]


def test_a_power_in_float64_is_written_to_float64_alone() -> None:
    assert lt.tensor([4.0], dtype=lt.float64).float_power_(0.5).tolist() == [2.0]
    with pytest.raises(lt.DTypeError, match=r"float_power_ of float32: .* use pow_"):
        lt.tensor([4.0]).float_power_(0.5)


def test_lines_without_elements_are_not_told_apart() -> None:
    for shape, dim in (((0, 3), 1), ((3, 0), 0)):
        with pytest.raises(lt.ShapeError, match=rf"along axis {dim} of shape"):
            lt.zeros(shape).unique(dim=dim)
    assert lt.zeros(0, 3).unique(dim=0).shape == (0, 3)


def test_a_mask_that_holds_nowhere_takes_no_elements() -> None:
    x, none = lt.arange(4.0), lt.zeros(4, dtype=lt.bool)
    source = lt.zeros(0, requires_grad=True)
    assert x.masked_scatter(none, source).tolist() == [0, 1, 2, 3]
    x.masked_scatter(none, source).sum().backward()
    assert source.grad is not None and source.grad.shape == (0,)
    x.masked_scatter_(none, x[none])
    assert x.tolist() == [0, 1, 2, 3]
    with pytest.raises(IndexError):
        x.masked_scatter(x > 2, lt.zeros(0)).tolist()


@pytest.mark.parametrize("zero", [0, np.int64(0)])
def test_nothing_is_divided_by_the_number_0_without_an_error(zero: Any) -> None:
    for name in ("floor_divide", "remainder", "fmod"):
        assert getattr(lt.zeros(0, dtype=lt.int64), name)(zero).shape == (0,)
        assert getattr(lt.zeros(3, dtype=lt.int64, device="meta"), name)(zero).shape == (3,)
        assert not getattr(lt.ones(3), name)(zero).isfinite().any()
