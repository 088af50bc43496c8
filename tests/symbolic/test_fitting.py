"""Numbers that were seen at some sizes, as expressions: right at all other sizes, too, or none."""
from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyten.symbolic.fitting import Fit, Sizes

RUN = [(n,) for n in (*range(2, 21), 31, 64, 100, 257, 1021)]
MANY = [(n,) for n in range(1, 400)]
PAIRS = [(2 + 7 * i % 19, 2 + 5 * i % 23) for i in range(40)]


@pytest.mark.parametrize(("function", "text"), [
    (lambda n: n, "n"), (lambda n: 2 * n + 1, "2*n + 1"), (lambda n: 3 - n, "-n + 3"),
    (lambda n: n // 2, "n // 2"), (lambda n: (n + 2) // 3, "(n + 2) // 3"),
    (lambda n: n * (n + 1) // 2, "(n + n*n) // 2"), (lambda n: min(n, 8), "min(n, 8)"),
    (lambda n: max(n - 8, 0), "max(n - 8, 0)"), (lambda n: n % 4, None),
    (lambda n: (n - 1) // 15 + 1, "(n + 14) // 15"),
    (lambda n: 2 * (n // 2) - 1, "2*(n // 2) - 1"),
    (lambda n: min(n, 50) // 3 + 1, "min((n // 3) + 1, 17)"),
    (lambda n: max(n // 3, 5), "max(n // 3, 5)"),
    (lambda n: min(2 * n + 1, 30), "min(2*n + 1, 30)")])
def test_a_number_is_written_as_one_would(function: Callable[[int], int], text: str | None) -> None:
    fit = Fit(RUN, MANY, whole=False)
    found = fit.expression(tuple(function(n) for n, in RUN))
    assert found is not None
    assert text is None or found.text(["n"]) == text
    assert all(found.at(s) == function(*s) for s in MANY if s[0] >= 2)


@pytest.mark.parametrize("function", [
    lambda n: n.bit_length(), lambda n: 2 if n == 257 else 3, lambda n: math.isqrt(n),
    lambda n: n if n < 100 else 2 * n, lambda n: n ** 5, lambda n: 60 // n])
def test_what_follows_no_such_rule_has_no_expression(function: Callable[[int], int]) -> None:
    assert Fit(RUN, MANY, whole=False).expression(tuple(function(n) for n, in RUN)) is None


def test_a_number_may_follow_one_rule_below_a_guard_and_another_from_there_on() -> None:
    samples = [*RUN[:-4], (63,), (64,), (65,), *RUN[-3:]]
    seen = tuple(n // 2 if n <= 64 else n + 3 for n, in samples)
    assert Fit(samples, MANY, whole=False).expression(seen) is None
    found = Fit(samples, MANY, whole=False, guards={64}).expression(seen)
    assert found is not None and found.text(["n"]) == "n // 2 if n < 65 else n + 3"


def test_a_border_that_nobody_looked_at_is_none() -> None:
    seen = tuple(1 if n < 64 else 2 for n, in RUN)
    assert Fit(RUN, MANY, whole=False, guards={64}).expression(seen) is None


def test_too_few_samples_say_nothing_unless_there_are_no_other_sizes() -> None:
    assert Fit([(2,), (3,)], [], whole=False).expression((4, 6)) is None
    found = Fit([(2,), (3,)], [], whole=True).expression((4, 6))
    assert found is not None and found.text(["n"]) == "2*n"


def test_samples_of_odd_sizes_do_not_say_what_even_ones_have() -> None:
    odd = [(n,) for n in range(3, 40, 2)]
    assert Fit(odd, MANY, whole=False).expression(tuple((n + 1) // 2 for n, in odd)) is None
    found = Fit(odd, MANY, whole=False).expression(tuple(n + 1 for n, in odd))
    assert found is not None and found.text(["n"]) == "n + 1"


def test_samples_that_are_not_ordinary_may_be_missed() -> None:
    fit = Fit([*RUN, (1,)], MANY, whole=False, ordinary=len(RUN))
    found = fit.expression((*(n + 1 for n, in RUN), 7))
    assert found is not None and found.text(["n"]) == "n + 1"
    assert fit.missed == {(1,)}


factors = st.integers(-3, 3)


@st.composite
def functions(draw: st.DrawFn) -> Callable[[Sizes], int]:
    """A polynomial of two sizes and the floor of a quotient of one."""
    a, b, c, d, e = (draw(factors) for _ in range(5))
    plus, by, which = draw(st.integers(0, 4)), draw(st.integers(2, 5)), draw(st.integers(0, 1))
    return lambda s: a + b * s[0] + c * s[1] + d * s[0] * s[1] + e * ((s[which] + plus) // by)


@given(functions())
def test_an_expression_holds_at_sizes_that_were_not_seen(function: Callable[[Sizes], int]) -> None:
    found = Fit(PAIRS, [], whole=False).expression(tuple(map(function, PAIRS)))
    if found is not None:
        assert all(found.at((n, m)) == function((n, m))
                   for n in range(2, 40) for m in range(2, 40, 3))
