"""Numbers that change from call to call: after two values they are inputs of one program, and give
what they give without jit, whatever the function looks at."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyten as lt
from lazyten import nn

NUMBERS = st.one_of(st.integers(-4, 12), st.sampled_from(
    [0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 1e30, 1e300, float("inf"), float("nan"), 1 << 40, 1 << 70]),
    st.booleans())
STATEMENTS = st.tuples(st.sampled_from(
    ["add", "subtract", "divide", "power", "rest", "whole", "compare", "least", "cosine", "shape",
     "count", "scale", "shift", "raise", "base", "full", "choose", "round", "text", "equal",
     "clamp", "tensor", "remember"]), st.integers(0, 2), st.integers(0, 2))


class State:
    """Numbers that a function finds by name."""

    def __init__(self) -> None:
        self.count, self.last = 0, 1.0


def perform(state: State, x: lt.Tensor, n: list[Any], kind: str, i: int, j: int) -> lt.Tensor:
    """One statement of a random function, on numbers and a tensor."""
    a, b = n[i], n[j]
    match kind:
        case "add" | "subtract":
            n[i] = a + b if kind == "add" else 2 - a
        case "divide" if b != 0:
            n[i] = a / b
        case "power" if -4 <= a <= 4 and a:
            n[i] = 0.9 ** a
        case "rest" | "whole" if abs(b) > 0.1 and abs(a) < 100:
            n[i] = a % b if kind == "rest" else a // b
        case "compare" if a > b:
            n[i] = b
        case "least":
            n[i] = min(a, 3)
        case "cosine" if math.isfinite(a):
            n[i] = math.cos(a)
        case "shape" if isinstance(a, int) and 0 < a < 3:
            return x[:a].sum() + x
        case "count":
            state.count += 1
            n[i] = state.count
        case "scale":
            return x * a
        case "shift":
            return a - x + b
        case "raise":
            return x ** (a if abs(a) < 4 else 1)
        case "base" if 0 < a < 4:
            return a ** x.clamp(-2, 2)
        case "full" if abs(a) < 1e30:
            return x + lt.full((3,), float(a))
        case "choose":
            return lt.where(x > a, x, b)
        case "round" if abs(a) < 1e9:
            n[i] = round(a)
        case "text":
            n[i] = len(f"{a}")
        case "equal" if a == 2 or isinstance(b, float):
            return x + 1
        case "clamp" if not math.isnan(a):
            return x.clamp(min=-1 if a > 5 else a)
        case "tensor" if abs(a) < 1 << 30:
            return x + lt.tensor(a)
        case "remember":
            state.last = a
            n[i] = -state.last
    return x


def seen(result: tuple[lt.Tensor, list[Any]], state: State) -> str:
    x, n = result
    return repr((x.dtype, x.tolist(), n, state.count, state.last, *map(type, [*n, state.last])))


def outcome(call: Callable[..., Any], state: State, *given_: Any) -> str:
    try:
        return seen(call(lt.tensor([1.0, -2.0, 3.0]), *given_), state)
    except (lt.LazytenError, ArithmeticError, ValueError) as error:
        return type(error).__name__


@pytest.mark.slow
@settings(max_examples=80)
@given(st.lists(STATEMENTS, max_size=6), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=6,
                                                  max_size=8))
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_random_functions_of_numbers_give_what_they_give_without_jit(
        code: list[tuple[str, int, int]], values: list[tuple[Any, Any]]) -> None:
    plain, jitted = State(), State()

    def run(state: State, x: lt.Tensor, a: Any, b: Any) -> Any:
        n = [a, b, state.last]
        for statement in code:
            x = perform(state, x, n, *statement)
        return x, n

    call = lt.jit(lambda x, a, b: run(jitted, x, a, b))
    with lt.device("interpreter"):
        for a, b in values:
            expected = outcome(lambda *given_: run(plain, *given_), plain, a, b)
            found = outcome(call, jitted, a, b)
            assert found == expected
            if "Error" in expected:  # what a call that fails has counted is taken back
                return


class Decaying(nn.Module):
    """A count of steps, and a rate that follows from it."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        self.step += 1
        return x * (0.5 * 0.9 ** self.step) + (self.step % 4 == 0)


def test_a_count_of_steps_is_an_input_after_two_values() -> None:
    plain, jitted = Decaying(), Decaying()
    call, sizes = lt.jit(jitted), []
    for k in range(12):
        x = lt.full((3,), float(k))
        np.testing.assert_allclose(call(x).numpy(), plain(x).numpy(), rtol=1e-6)
        assert jitted.step == plain.step and type(jitted.step) is int
        sizes.append(call.cache_size)
    assert sizes[2] < sizes[3] == sizes[-1]  # another program where the comparison is another


def test_arguments_that_are_numbers_are_inputs_with_their_own_types() -> None:
    @lt.jit
    def call(x: lt.Tensor, by: float, *, plus: float = 0) -> Any:
        return x * by + plus, by / 2

    for dtype in (lt.float32, lt.float64, lt.int64):
        before = call.cache_size
        x = lt.tensor([1, 2, 3], dtype=dtype)
        for by, plus in ((2, 1), (3, 2), (4, 3), (-7, 4), (2.5, 5), (0.1, 6), (1 << 40, 7)):
            found, half = call(x, by, plus=plus)
            expected = x * by + plus
            assert found.dtype is expected.dtype and half == by / 2
            assert found.tolist() == expected.tolist()
        assert call.cache_size - before <= 7


def test_numbers_that_shapes_depend_on_are_traced_up_to_a_bound(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", "1")

    @lt.jit
    def call(x: lt.Tensor, n: int) -> lt.Tensor:
        return x[:n] * math.sqrt(n)

    x = lt.ones(40)
    for n in range(1, 30):
        assert call(x, n).tolist() == pytest.approx([math.sqrt(n)] * n)
    said = [text for text in capsys.readouterr().out.split("\n") if text.startswith("jit:")]
    assert len(said) == 1 and "16 calls of jitted function" in said[0]
    assert call.cache_size <= 20
    assert call(x, 3).shape == (3,)


def test_a_function_that_looks_at_types_is_traced_for_each_number() -> None:
    @lt.jit
    def call(x: lt.Tensor, n: float) -> lt.Tensor:
        return x * n if type(n) is float else x

    for n in (1.0, 2.0, 3.0, 4, 5.0):
        assert call(lt.ones(1), n).item() == n if type(n) is float else 1


def test_a_number_may_become_one_of_another_type() -> None:
    for powers in ((1, 2, 3, -1, 4, -2, 0), (-1, -2, -3, 1, -1, 2)):
        call = lt.jit(lambda x, n: x * 2 ** n)
        for n in powers:
            assert call(lt.tensor([8]), n).tolist() == [8 * 2 ** n]
            assert call(lt.tensor([8]), n).dtype is (lt.int64 if n >= 0 else lt.float32)


def test_a_power_is_what_it_is_without_jit_bit_for_bit() -> None:
    call, x = lt.jit(lambda x, n: x ** n), lt.rand(64, generator=lt.Generator(1)) + 0.5
    for n in (3, 4, 5, 2, -1, 0.5, 6, 1.5):
        assert call(x, n).tolist() == (x ** n).tolist()


def test_a_number_that_did_not_differ_before_is_not_taken_for_another() -> None:
    call = lt.jit(lambda x, a, b: (x * b, a))
    for a, b in ((1, 0), (1, 1), (1, 2), (0, 0), (0, 3), (2, 5), (3, 7), (1, 9)):
        found, given_ = call(lt.ones(1), a, b)
        assert (found.item(), given_) == (b, a)
