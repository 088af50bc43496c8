"""What a function did with numbers of Python holds for those of which it would see the same."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.number_tape import Tape, exactly, in_memory


def taped(function: Callable[..., Any], *numbers: int | float) -> tuple[Tape, Any]:
    """A tape of what a function did with these, and what it gave."""
    tape = Tape()
    return tape, function(*(tape.given(x, n) for n, x in enumerate(numbers)))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "**": lambda a, b: a ** b}


@pytest.mark.parametrize("name", OPERATORS)
def test_arithmetic_is_done_again_with_other_numbers(name: str) -> None:
    does = OPERATORS[name]
    for function in (does, lambda a, b: does(5, b) + a * 0, lambda a, b: does(a, 3) + b * 0,
                     lambda a, b: does(-a, abs(b))):
        tape, found = taped(function, 7, 2)
        place = tape.position_of(found, dt.float32)
        assert place is not None and tape.values[place] == function(7, 2)
        for numbers in ((9, 2), (2, 5), (8, 1)):
            assert tape.holds(numbers)
            assert tape.values[place] == function(*numbers)
            assert type(tape.values[place]) is type(function(*numbers))


@pytest.mark.parametrize(("function", "numbers", "holds", "others"), [
    (lambda a: 1 / a, [4], [[3], [-2]], [[0]]),
    (lambda a: 2.0 ** a, [4.0], [[3.0]], [[1e9]]),
    (lambda a: 2 ** a, [4], [[3], [0]], [[-1]]),  # a float, where it was whole
    (lambda a: a * 2, [4], [[3]], [[3.0]]),
    (lambda a: a if a > 2 else -a, [4], [[3]], [[1]]),
    (lambda a: a and 1, [0.0], [[-0.0]], [[1.0], [math.nan]]),
    (lambda a: math.copysign(1, a), [0.0], [[0.0]], [[-0.0], [1.0]]),
    (lambda a: int(a) * a, [2.5], [[2.25]], [[3.5]]),
    (lambda a: a == a, [1.0], [[2.0]], [[math.nan]]),
])
def test_a_tape_holds_for_numbers_of_which_the_same_is_seen(
        function: Callable[..., Any], numbers: list[Any], holds: list[list[Any]],
        others: list[list[Any]]) -> None:
    tape, _ = taped(function, *numbers)
    assert tape.holds(numbers) and all(map(tape.holds, holds))
    assert not any(map(tape.holds, others))
    assert tape.holds(numbers)


@pytest.mark.parametrize(("dtype", "inside", "outside"), [
    (dt.float32, [1e38, -3.4e38, 7], [1e39, -1e39, math.inf, math.nan, 10**40]),
    (dt.float16, [65504.0, -65504], [65505.0, 1e6, -math.inf]),
    (dt.bfloat16, [3e38], [3.4e38]),
    (dt.float64, [1e308, 10**300], [math.inf, 10**309]),
    (dt.int8, [127, -128, 0], [128, -129, 1.0]),
    (dt.uint8, [255, 0], [256, -1, 2.0]),
    (dt.uint64, [2**64 - 1], [2**64, -1]),
    (dt.bool_, [], [1, 0, 1.0]),
], ids=lambda x: x.name if isinstance(x, DType) else "")
def test_an_input_of_a_program_fits_its_type(dtype: DType, inside: list[Any],
                                             outside: list[Any]) -> None:
    for numbers, others in ((inside, outside), (outside, inside)):
        for number in numbers:
            tape, given = taped(lambda x: x, number)
            assert (tape.position_of(given, dtype) is not None) is (numbers is inside)
            assert not any(tape.holds([x]) for x in others)
    for number in inside:
        held = in_memory(number, dtype)
        assert held.dtype == dtype.numpy and np.isfinite(held.astype(np.float64)).all()


def test_numbers_that_mean_the_same_are_equal_bit_by_bit() -> None:
    assert exactly(math.nan) == exactly(math.nan)
    groups = [0.0, -0.0, 0, False, np.float32(0), np.float32(-0.0), np.int8(0), 0j, -0j, (0.0,),
              (-0.0,), "0", None]
    assert len({*map(exactly, groups)}) == len(groups)
