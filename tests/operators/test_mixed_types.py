"""Operations of several operands of different types: computed in the type of the result, beside
PyTorch; and bounds and numbers that a type does not hold."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_if_there import torch

import lazyten as lt


def tensor(m: Any, values: Any, dtype: str) -> Any:
    return lt.tensor(values, dtype=dtype) if m is lt else torch.tensor(
        values, dtype=getattr(torch, dtype))


def small(m: Any) -> Any:
    return tensor(m, [200, 100], "uint8")


def half(m: Any, *values: float) -> Any:
    return tensor(m, list(values), "float16")


def double(m: Any) -> Any:
    return tensor(m, [1.0, 2.0], "float64")


def single(m: Any) -> Any:
    return tensor(m, [1.0, 2.0], "float32")


CHECKS: dict[str, Callable[[Any], Any]] = {
    "addcmul of uint8": lambda m: single(m).addcmul(small(m), small(m)),
    "addcmul_ of uint8": lambda m: single(m).addcmul_(small(m), small(m), value=2),
    "addcmul of float16": lambda m: double(m).addcmul(half(m, 0.1, 0.3), half(m, 0.7, 0.9)),
    "addcmul of float16 that overflows": lambda m: half(m, -6e4, 0.0).addcmul(
        half(m, 300.0, 1.0), half(m, 300.0, 1.0)),
    "addcmul of zero-dim float64, bool and zero-dim bfloat16": lambda m: tensor(
        m, 0.1, "float64").addcmul(tensor(m, [True, False], "bool"), tensor(m, 0.3, "bfloat16")),
    "addcdiv of uint8": lambda m: single(m).addcdiv(single(m), small(m), value=3),
    "addcdiv of float16": lambda m: half(m, 1.0, 2.0).addcdiv(
        half(m, 65504.0, 1.0), half(m, 2.0, 3.0), value=2),
    "addcdiv of float64": lambda m: double(m).addcdiv(half(m, 0.1, 0.3), half(m, 0.7, 0.9)),
    "lerp of float16": lambda m: half(m, 65504.0).lerp(half(m, -65504.0), 0.3),
    "lerp of float16 by a tensor": lambda m: half(m, 65504.0).lerp(
        half(m, -65504.0), half(m, 0.75)),
    "add with alpha": lambda m: single(m).add(small(m), alpha=2),
    "add_ with alpha": lambda m: single(m).add_(small(m), alpha=2),
    "sub with alpha": lambda m: single(m).sub(small(m), alpha=2),
    "sub_ with alpha": lambda m: single(m).sub_(small(m), alpha=2),
    "rsub with alpha": lambda m: m.rsub(small(m), single(m), alpha=2),
    "subtract with alpha": lambda m: m.subtract(single(m), small(m), alpha=2),
    "add of int64 and int8 with alpha": lambda m: tensor(m, [1000, 2], "int64").add(
        tensor(m, [100, 100], "int8"), alpha=2),
    "add of float64 and float16 with alpha": lambda m: double(m).add(half(m, 0.1, 0.3), alpha=0.5),
    "add of bools with alpha": lambda m: tensor(m, [True, False], "bool").add(
        tensor(m, [True, False], "bool"), alpha=True),
    "addr of uint8": lambda m: m.addr(m.ones(2, 2), small(m), small(m)),
    "addr of uint8 into int64": lambda m: m.addr(m.ones(2, 2, dtype=m.int64), small(m), small(m)),
    "addmm of float16": lambda m: m.addmm(
        half(m, -60000.0).reshape(1, 1), half(m, *[200.0] * 4).reshape(1, 4),
        half(m, *[200.0] * 4).reshape(4, 1)),
    "addmm of float16 with alpha": lambda m: m.addmm(
        half(m, 1.0).reshape(1, 1), half(m, *[200.0] * 4).reshape(1, 4),
        half(m, *[200.0] * 4).reshape(4, 1), alpha=0.25),
    "baddbmm of float16": lambda m: m.baddbmm(
        half(m, -60000.0).reshape(1, 1, 1), half(m, *[200.0] * 4).reshape(1, 1, 4),
        half(m, *[200.0] * 4).reshape(1, 4, 1)),
    "addmv of float16": lambda m: m.addmv(
        half(m, -60000.0), half(m, *[200.0] * 4).reshape(1, 4), half(m, *[200.0] * 4)),
    "std of float16": lambda m: half(m, 0.0, 60000.0).std(),
    "logaddexp2 of float16": lambda m: half(m, -1.0).logaddexp2(half(m, -1.0)),
    "clamp of uint8 from an integer to a float": lambda m: tensor(
        m, [0, 5], "uint8").clamp(-1, 0.5),
    "clamp of uint8 by tensors": lambda m: tensor(m, [0, 5], "uint8").clamp(
        tensor(m, [-1, -1], "int64"), tensor(m, [0.5, 0.5], "float32")),
    "clamp of int8 between a zero-dim float and an int64": lambda m: tensor(
        m, [100, -100], "int8").clamp(tensor(m, -0.5, "float64"), tensor(m, [1000, 3], "int64")),
    "clamp_min of uint8 by a float": lambda m: tensor(m, [0, 5], "uint8").clamp_min(1.5),
    "clip of int32 between floats": lambda m: tensor(m, [0, 5], "int32").clip(-0.5, 0.5),
    "clamp of bools": lambda m: tensor(m, [True, False], "bool").clamp(0, 5),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", CHECKS)
def test_operands_are_converted_before_they_are_combined(name: str, device: str,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", device)
    found, expected = (CHECKS[name](m) for m in (lt, torch))
    assert str(found.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    tolerance = 1e-12 if expected.dtype is torch.float64 else 1e-6
    np.testing.assert_allclose(found.double().numpy(), expected.double().numpy(), rtol=tolerance)


def test_numbers_that_an_integer_type_does_not_hold_are_compared_as_they_are(device: str) -> None:
    values = np.array([0, 5, 255], np.uint8)
    x = lt.tensor(values, device=device)
    wide = values.astype(np.int64)
    for number in (-1, 256, 300, -(2**40), 2**63 + 5):
        for function in (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b,
                         lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
                         lambda a, b: b < a):
            expected = [function(int(v), number) for v in wide]
            assert function(x, number).tolist() == expected, number
    assert (lt.tensor([2**62], device=device) < 2**63).tolist() == [True]


@pytest.mark.parametrize("other", ["int8", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_integers_of_two_types_are_compared_as_they_are(dtype: str, other: str,
                                                        device: str) -> None:
    """Also where no type holds both, and where axes decide on one that does not hold a number."""
    a, b = (np.array([v for v in (-2**63, -128, -2, 0, 44, 127, 128, 300, 2**63, 2**64 - 2)
                      if np.iinfo(t).min <= v <= np.iinfo(t).max], t) for t in (dtype, other))
    x = lt.tensor(a, device=device)
    row, numbers = lt.tensor(b, device=device), [lt.tensor(v, device=device) for v in b]
    for function in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        expected = [[function(int(p), int(q)) for p in a] for q in b]
        assert function(x, row[:, None]).tolist() == expected
        assert [function(x, number).tolist() for number in numbers] == expected


def test_a_bound_beyond_an_integer_type_holds_nothing_back(device: str) -> None:
    x = lt.tensor([0, 5, 255], dtype="uint8", device=device)
    assert x.clamp(-1, 3).tolist() == [0, 3, 3]
    assert x.clamp(2, 300).tolist() == [2, 5, 255]
    assert x.clamp_min(-7).tolist() == x.clamp_max(1000).tolist() == [0, 5, 255]
    for low, high in ((256, None), (None, -1)):
        with pytest.raises(lt.ArgumentError, match=r"clamp of uint8.*wider type"):
            x.clamp(low, high)


def test_a_choice_of_a_number_that_does_not_fit_is_refused(device: str) -> None:
    x = lt.tensor([1, 2], dtype="uint8", device=device)
    mask = lt.tensor([True, False], device=device)
    for call in (lambda: lt.where(mask, x, 300), lambda: lt.where(mask, -256, x),
                 lambda: x.where(mask, 256)):
        with pytest.raises(lt.ArgumentError, match=r"where.*uint8"):
            call()
    assert lt.where(mask, x, 255).tolist() == [1, 255] == lt.where(mask, x, -1).tolist()
    assert lt.where(mask, x, 0.5).tolist() == [1.0, 0.5]


TYPES = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64"]
operands = st.tuples(st.sampled_from(TYPES), st.booleans())
CHAINS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "a + b * c": lambda m, a, b, c: a + b * c,
    "a * b - c.exp()": lambda m, a, b, c: a * b - c.exp(),
    "where": lambda m, a, b, c: m.where(a == a, b, c) + a,
    "maximum": lambda m, a, b, c: m.maximum(m.maximum(a, b), c),
    "addcmul": lambda m, a, b, c: m.addcmul(a, b, c),
    "clamp": lambda m, a, b, c: a.clamp(b, c),
    "in place": lambda m, a, b, c: (a * 1.0).add_(b).mul_(c),
    "of a view": lambda m, a, b, c: (a + b).sum() * c,
    "result_type": lambda m, a, b, c: m.ones((1,), dtype=m.result_type(a * b, c)),
}


@pytest.mark.torch
@given(chain=st.sampled_from(sorted(CHAINS)), a=operands, b=operands, c=operands)
def test_chains_of_tensors_with_and_without_axes_have_pytorchs_types(
        chain: str, a: tuple[str, bool], b: tuple[str, bool], c: tuple[str, bool]) -> None:
    def result(m: Any) -> str:
        values = [tensor(m, [1, 1] if axes else 1, name) for name, axes in (a, b, c)]
        return str(CHAINS[chain](m, *values).dtype).rpartition(".")[2]
    try:
        expected = result(torch)
    except RuntimeError:
        return
    assert result(lt) == expected


@pytest.mark.parametrize("factor", [0.1, 1e10, 1e-9, 70000, 1 / 3])
def test_a_number_is_not_rounded_to_16_bits_before_a_product(factor: float, device: str) -> None:
    values = np.concatenate([np.linspace(-3, 3, 50), [0.0, 6e4, 1e-6]]).astype(np.float16)
    wide, exact = values.astype(np.float32), np.float32(factor)
    x = lt.tensor(values, device=device, requires_grad=True)
    with np.errstate(over="ignore"):
        product, quotient = (wide * exact).astype("f2"), (wide / exact).astype("f2")
    for number in (factor, lt.tensor(factor, device=device)):
        np.testing.assert_array_equal((x * number).detach().numpy(), product)
        np.testing.assert_array_equal((number * x).detach().numpy(), product)
        np.testing.assert_array_equal((x / number).detach().numpy(), quotient)
    np.testing.assert_array_equal(x.detach().clone().mul_(factor).numpy(), product)
    (x * factor).backward(lt.tensor(values, device=device))
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), product)


def test_a_quotient_is_rounded_to_16_bits_after_its_fraction_is_gone(device: str) -> None:
    x = lt.tensor([13.75, -13.75], dtype=lt.bfloat16, device=device)
    assert x.div(0.1, rounding_mode="trunc").tolist() == [137.0, -137.0]
    assert x.div(0.1, rounding_mode="floor").tolist() == [137.0, -138.0]
    tenth = lt.tensor([0.10009765625] * 2, dtype=lt.bfloat16, device=device)
    assert x.div(tenth, rounding_mode="trunc").tolist() == [137.0, -137.0]
    assert (lt.zeros(1, dtype=lt.float16, device=device) // 1e-9).tolist() == [0.0]


@pytest.mark.parametrize("spacing", [0.3, [0.0, 0.7, 1.1, 2.5, 2.6]], ids=["number", "places"])
def test_slopes_of_halves_are_rounded_once(spacing: Any, device: str) -> None:
    y = lt.tensor([1.3, 1.1, 0.2, -0.9, 4.7], dtype=lt.float16, device=device)
    gaps = spacing if isinstance(spacing, float) else [
        lt.tensor(spacing, dtype=lt.float16, device=device)]
    wide = gaps if isinstance(gaps, float) else [gaps[0].float()]
    found, = lt.gradient(y, spacing=gaps)
    exact, = lt.gradient(y.float(), spacing=wide)
    assert found.dtype is lt.float16
    np.testing.assert_array_equal(found.numpy(), exact.numpy().astype(np.float16))
