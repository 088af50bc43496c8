"""Formulas of graphs at many sizes: which sizes are alike, and what floats follow from."""
from __future__ import annotations

import pytest

from lazyten.capture.sizes.graph_formulas import Graph, GraphFormulas
from lazyten.ir import dtype as dt
from lazyten.ir.node import const
from lazyten.ir.numbers import Numbers, numbers_of
from lazyten.symbolic.formulas import Samples

SKELETON = numbers_of([const(1, dt.int64, ())])[0]


def at(n: int) -> Graph:
    """A graph of numbers that a size gives, where the function computed n + 1."""
    return Graph(SKELETON, Numbers((n, 4 * n, 7), (1 / n, 0.5)), (n + 1,))


def formulas(*known: int) -> GraphFormulas:
    return GraphFormulas({(n,): at(n) for n in (7, 13, 18, 25, 37)}, known)


def test_a_graph_is_what_formulas_say_or_it_is_another() -> None:
    made = formulas()
    assert made.are_sure and made.has((20,), at(20))
    assert not made.has((20,), at(21))
    assert not made.has((20,), at(20)._replace(told=(20,)))
    assert not made.has((20,), at(20)._replace(numbers=Numbers((20, 80, 7), (0.05, 0.25))))


def test_sizes_are_alike_if_all_comparisons_have_the_same_outcome() -> None:
    made = formulas(21)
    below, equal_after, equal, above = map(made.outcome, [(19,), (20,), (21,), (22,)])
    assert below == made.outcome((9,)) and above == made.outcome((36,))
    assert len({below, equal_after, equal, above}) == 4  # n + 1 is 21, then n is


def test_numbers_that_no_formula_says_are_not_sure() -> None:
    graphs = {(n,): at(n)._replace(told=(n * n % 11,)) for n in (7, 13, 18, 25, 37)}
    assert not GraphFormulas(graphs, ()).are_sure


@pytest.mark.parametrize("number", [lambda n: 1 / n, float, lambda n: 1.5, lambda n: 1 / (2 * n)])
def test_floats_follow_from_sizes_as_whole_numbers_and_shares(number: object) -> None:
    assert callable(number)
    fit = Samples(((7,), (13,), (18,), (25,)))
    seen = tuple([number(n) for (n,) in fit.sizes])
    assert fit.float_value(seen, (20,)) == number(20)


def test_floats_that_follow_in_another_way_are_unknown() -> None:
    fit = Samples(((7,), (13,), (18,), (25,)))
    assert fit.float_value(tuple([n ** 0.5 for (n,) in fit.sizes]), (20,)) is None
