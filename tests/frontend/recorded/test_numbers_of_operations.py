"""Operations of numbers that differ from step to step: what a number gives that has not varied."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import assert_same, counted_plans

import lazyten as lt
import lazyten.nn.functional as F
from lazyten.frontend.recorded import lookup
from lazyten.ir.number_tape import Tape

DATA = (np.arange(24, dtype=np.float32).reshape(6, 4) - 9.5) / 7
DATA[1] = [0.0, -0.0, 1.0, -1.0]
EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -1.5, 2.5], np.float32)
INTEGERS = np.array([-3, -1, 0, 1, 2, 7])
Case = Callable[[Any, Any], Any]


def _numpys(s: Any, floats: Any = np.float32) -> Any:
    """A number of NumPy's."""
    with np.errstate(all="ignore"):
        return np.int64(s) if isinstance(s, int) else floats(s)


CASES: dict[str, Case] = {
    "full": lambda x, s: lt.full((6, 4), s),
    "full of integers": lambda x, s: lt.full((3,), s, dtype=lt.int64),
    "full of halves": lambda x, s: lt.full((3,), s, dtype=lt.float16) * 3,
    "full, divided in place": lambda x, s: lt.full((6, 4), s).div_(x + 3),
    "full_like": lambda x, s: lt.full_like(x, s),
    "full_like, to limits": lambda x, s: lt.full_like(x, s).div_(x + 3).clamp_(0.1, 0.9).mul_(x),
    "new_full": lambda x, s: x.new_full((4,), s) + x,
    "fill_": lambda x, s: (x + 0).fill_(s),
    "fill_diagonal_": lambda x, s: (x + 0).fill_diagonal_(s),
    "ones": lambda x, s: lt.ones(3) * s,
    "power": lambda x, s: x.abs() ** s,
    "power, of negative ones": lambda x, s: x ** s,
    "power of a number": lambda x, s: s ** x,
    "power by name": lambda x, s: lt.pow(s, x),
    "float_power": lambda x, s: lt.float_power(x.abs(), s),
    "softplus": lambda x, s: F.softplus(x, beta=s),
    "softplus, limit": lambda x, s: F.softplus(x, threshold=s),
    "leaky_relu": lambda x, s: F.leaky_relu(x, s),
    "elu": lambda x, s: F.elu(x, s),
    "celu": lambda x, s: F.celu(x, s),
    "hardshrink": lambda x, s: F.hardshrink(x, s),
    "softshrink": lambda x, s: F.softshrink(x, s),
    "hardtanh": lambda x, s: F.hardtanh(x, -s, s),
    "threshold": lambda x, s: F.threshold(x, s, s + 1),
    "nan_to_num": lambda x, s: lt.nan_to_num(lt.tensor(EDGES), s),
    "nan_to_num, infinities": lambda x, s: lt.nan_to_num(lt.tensor(EDGES), None, s, -s),
    "linspace": lambda x, s: lt.linspace(0, s, 7),
    "linspace from": lambda x, s: lt.linspace(s, 3.0, 7, dtype=lt.float64),
    "logspace": lambda x, s: lt.logspace(0, s, 5),
    "arange": lambda x, s: lt.arange(s, s + 5),
    "arange by": lambda x, s: lt.arange(0, 5 * s, s),
    "arange to": lambda x, s: lt.arange(min(abs(s), 5) * 10),
    "arange of integers": lambda x, s: lt.arange(s, s + 5, dtype=lt.int64),
    "clamp": lambda x, s: x.clamp(-s, s),
    "lerp": lambda x, s: lt.lerp(x, x * x, s),
    "addcmul": lambda x, s: lt.addcmul(x, x, x + 1, value=s),
    "addcdiv": lambda x, s: lt.addcdiv(x, x, x + 3, value=s),
    "add": lambda x, s: x.add(x, alpha=s),
    "where": lambda x, s: lt.where(x > 0, x, s),
    "pad": lambda x, s: F.pad(x, (1, 1), value=s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
    "scatter": lambda x, s: x.scatter(0, lt.tensor([[1, 2, 0]]), s),
    "logit": lambda x, s: x.sigmoid().logit(eps=s),
    "fmod": lambda x, s: x.fmod(s),
    "floor_divide": lambda x, s: x // s,
    "equal": lambda x, s: x == s,
    "halves": lambda x, s: x.half() * s + s,
    "bfloat16": lambda x, s: x.bfloat16() * s + s,
    "float64": lambda x, s: x.double() / s,
    "of NumPy": lambda x, s: x * _numpys(s) + 1,
    "of NumPy, on the left": lambda x, s: _numpys(s) * x,
    "of NumPy, with halves": lambda x, s: x.half() * _numpys(s),
    "of NumPy, with integers": lambda x, s: lt.tensor(INTEGERS) * _numpys(s),
    "of NumPy, full": lambda x, s: lt.full((3,), _numpys(s)),
    "of NumPy, by name": lambda x, s: x.add(x, alpha=_numpys(s)),
    "of NumPy, limits": lambda x, s: x.clamp(-_numpys(s), max=_numpys(s)),
    "of NumPy, 16 bits": lambda x, s: x - _numpys(s, np.float16),
    "of NumPy, an array": lambda x, s: lt.where(x > 0, x, lt.tensor(_numpys(s))),
    "of NumPy, new": lambda x, s: x.new_tensor(_numpys(s)),
    "integers": lambda x, s: lt.tensor(INTEGERS) * s,
    "bytes": lambda x, s: lt.tensor(INTEGERS).to(lt.uint8) + s,
    "small integers, compared": lambda x, s: lt.tensor(INTEGERS).to(lt.int8) < s,
    "integers to a power": lambda x, s: lt.tensor(INTEGERS) ** s,
    "integers to limits": lambda x, s: lt.tensor(INTEGERS).clamp(s, s + 2),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1.5, float("inf"), float("nan"), -float("inf"),
           1e-40, 1e39, 65519.99, 70000.0, 0, 1, -1, 2, 3, 300, -7, 1 << 40]
"""Where results, their types, or kernels may be others."""


def _numbers(seed: int) -> list[Any]:
    rng = random.Random(seed)
    ordinary = [rng.random() * 3 + 0.01 for _ in range(6)]
    whole = [rng.randrange(2, 9) for _ in range(4)]
    return [*ordinary, *whole, *rng.sample([*SPECIAL, *ordinary[:2], rng.random(), rng.random()],
                                           len(SPECIAL) + 4)]


def _found(run: Case, s: Any) -> Any:
    """What an operation gives, with its gradient; or the error."""
    x = lt.tensor(DATA, requires_grad=True)
    try:
        result = run(x, s)
        if result.requires_grad:
            (result.float() * 0.5).sum().backward()
        return result.detach(), x.grad
    except (lt.LazytenError, ZeroDivisionError) as error:
        return type(error), str(error)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
def test_a_number_that_varies_gives_what_it_gives_alone(name: str) -> None:
    expected = []
    for s in _numbers(1):
        lookup.forget()
        expected.append(_found(CASES[name], s))
    lookup.forget()
    for s, (value, gradient) in zip(_numbers(1), expected, strict=True):
        found, slope = _found(CASES[name], s)
        if isinstance(value, type):
            assert (found, slope) == (value, gradient), s
            continue
        assert found.dtype is value.dtype, s
        assert_same(found.float().numpy() if value.dtype is lt.bfloat16 else found.numpy(),
                    value.float().numpy() if value.dtype is lt.bfloat16 else value.numpy(), f"{s}")
        assert (slope is None) == (gradient is None), s
        if slope is not None:
            np.testing.assert_allclose(slope.numpy(), gradient.numpy(), rtol=2e-6, err_msg=f"{s}")


WHOLE = {"bytes", "integers to limits", "small integers, compared"}
"""Cases for whole numbers."""
BY_SIZE = {"arange to", "integers to a power"}
"""Each size, and each whole exponent, has kernels of its own."""


@pytest.mark.few(11)
@pytest.mark.parametrize("name", sorted({*CASES} - BY_SIZE))
def test_an_operation_of_a_number_that_varies_compiles_nothing(name: str) -> None:
    lookup.forget()
    rng = random.Random(2)
    for step in range(10):
        s = rng.randrange(1, 90) if name in WHOLE else rng.random() + 1e-3
        with counted_plans() as made:
            value, slope = _found(CASES[name], s)
            lt.realize(*[x for x in (value, slope) if x is not None])
        assert not (step > 6 and made), step


def test_what_a_user_computes_of_a_number_decides_and_stays() -> None:
    x = lt.tensor(DATA)
    for step in range(12):
        rate = 0.1 / (1 + step)
        expected = np.clip(np.float32(rate) / (np.abs(DATA) + 1), 0.01, 0.03) * DATA
        found = lt.full_like(x, rate).div_(x.abs() + 1).clamp_(0.01, 0.03).mul_(x)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_full_tensor_that_is_a_parameter_is_its_own() -> None:
    for step in range(8):
        w = lt.full((3,), step / 4, requires_grad=True)
        (w * w).sum().backward()
        assert w.grad is not None
        assert w.grad.tolist() == [step / 2] * 3
        with lt.no_grad():
            w.fill_(step / 8).add_(1)
        assert w.tolist() == [1 + step / 8] * 3


def test_full_tensors_of_one_number_are_apart() -> None:
    for step in range(8):
        a, b = [lt.full((2, 2), step + 0.5) for _ in range(2)]
        a += 1
        a[0] = 7.0
        assert b.tolist() == [[step + 0.5] * 2] * 2
        assert a.tolist() == [[7.0] * 2, [step + 1.5] * 2]


def test_zeros_of_numpy_are_told_apart_by_their_signs() -> None:
    tape = Tape()
    number = tape.given(np.float32(0.0), 0)
    assert np.copysign(1.0, np.asarray(number)) == 1  # looked at, which fixes it
    assert tape.holds([np.float32(0.0)])
    assert not tape.holds([np.float32(-0.0)])
