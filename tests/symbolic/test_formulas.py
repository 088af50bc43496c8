"""Formulas of sizes: right wherever they are sure, and unsure where samples do not tell."""
from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyten.codegen.templates import smaller, without_sizes
from lazyten.symbolic.formulas import Samples

ONE = ((33,), (63,), (82,), (95,), (129,))
TWO = ((3, 9), (3, 33), (15, 9), (15, 33), (6, 18), (7, 20), (11, 14))


@pytest.mark.parametrize("number", [
    lambda n: 5, lambda n: 20 * n - 7, lambda n: n * n + 3, lambda n: -n, lambda n: 3 * n * n])
def test_polynomials_of_a_size_are_found(number: Callable[[int], int]) -> None:
    samples = Samples(ONE)
    seen = tuple(number(n) for n, in ONE)
    assert all(samples.value(seen, (n,)) == number(n) for n in range(33, 130))


@pytest.mark.parametrize("number", [
    lambda a, b: a * b, lambda a, b: 4 * a * b + 1, lambda a, b: b * b * a, lambda a, b: a - 2,
    lambda a, b: (a + 2) * (3 * b + 1)])
def test_polynomials_of_two_sizes_are_found(number: Callable[[int, int], int]) -> None:
    samples = Samples(TWO)
    seen = tuple(number(a, b) for a, b in TWO)
    assert all(samples.value(seen, (a, b)) == number(a, b)
               for a in range(3, 16) for b in range(9, 34))


def test_sums_of_three_sizes_are_found() -> None:
    samples = Samples(tuple((a, b, 10 + 7 * a + 5 * b + a * b + more)
                            for a in (0, 1) for b in (0, 1)
                            for more in (0, 3)))
    seen = tuple(4 * n + 2 * b + a for a, b, n in samples.sizes)
    assert samples.value(seen, (1, 0, 18)) == 73


@given(st.integers(1, 40), st.integers(2, 64), st.integers(33, 129))
def test_a_number_of_blocks_is_right_or_unsure(factor: int, steps: int, n: int) -> None:
    samples = Samples(ONE)
    blocks = samples.blocks(samples.extent(tuple(factor * s for s, in ONE)), steps)
    found = samples.value(blocks.seen, (n,), [blocks])
    assert found in (None, -(-factor * n // steps))
    assert blocks.at((n,)) == -(-factor * n // steps)


def test_formulas_that_hold_so_far_and_differ_now_give_no_number() -> None:
    samples = Samples(((1,), (2,), (4,)))
    extent = samples.extent((10, 20, 40))
    quantities = [samples.blocks(extent, 20), samples.blocks(samples.extent((9, 18, 36)), 18)]
    assert quantities[0].seen == quantities[1].seen == (1, 1, 2)
    assert samples.value((1, 1, 2), (3,), quantities) == 2
    unlike = [*quantities, samples.blocks(samples.extent((11, 21, 41)), 24)]
    assert unlike[2].seen == (1, 1, 2)
    other = Samples(((2,), (4,), (8,)))
    steep = [other.blocks(other.extent((2, 4, 8)), 4), other.blocks(other.extent((2, 4, 8)), 5)]
    assert steep[0].seen == steep[1].seen == (1, 1, 2)
    assert other.value((1, 1, 2), (5,), steep) is None


def test_a_formula_that_as_many_samples_determine_is_not_believed() -> None:
    assert Samples(((3,), (7,))).value((5, 20), (5,)) is None
    assert not Samples(((3,), (7,))).explains((5, 20))
    assert Samples(((3,), (7,), (9,))).value((5, 13, 17), (5,)) == 9
    assert Samples(((3,), (7,), (9,))).value((5, 13, 18), (5,)) is None


def test_halves_are_numbers_where_they_are_whole() -> None:
    samples = Samples(((33,), (63,), (95,), (129,)))
    seen = tuple(n // 2 for n, in samples.sizes)
    assert [samples.value(seen, (n,)) for n in range(40, 46)] == [None, 20, None, 21, None, 22]


def test_sizes_are_covered_that_leave_the_same_remainders_as_the_samples() -> None:
    odd = Samples(((33,), (63,), (95,), (129,)))
    assert [n for n in range(30, 140) if odd.covers((n,))] == list(range(33, 130, 2))
    assert [n for n in range(30, 140) if Samples(ONE).covers((n,))] == list(range(33, 130))
    assert not Samples(((4, 9), (8, 9))).covers((6, 9))


def test_of_two_sizes_all_corners_must_be_known() -> None:
    assert Samples(TWO).covers((4, 10)) and Samples(TWO).covers((15, 9))
    assert not Samples(TWO[1:]).covers((4, 10))
    assert not Samples(TWO).covers((16, 10))
    even = Samples(((2, 2), (2, 6), (6, 2), (6, 6), (4, 4)))
    assert even.covers((4, 2)) is False and even.covers((4, 4)) and not even.covers((3, 3))


def test_a_sample_beside_a_box_leaves_it_one() -> None:
    assert Samples((*TWO, (15, 41))).covers((4, 10))
    assert not Samples((*TWO, (15, 41))).covers((4, 36))
    assert Samples((*TWO, (15, 41))).covers((15, 36))


def test_decisions_are_made_smaller_part_by_part() -> None:
    found = list(smaller("tile(i2:7, i3:3) vector(i3:16) parallel(i0*i2:7)"))
    assert found == ["tile(i3:3) vector(i3:16) parallel(i0*i2:7)",
                     "tile(i2:7) vector(i3:16) parallel(i0*i2:7)",
                     "vector(i3:16) parallel(i0*i2:7)"]
    assert list(smaller("vector(i1:8)")) == []
    assert without_sizes("reduce_4_97_n2") == "reduce_any" and without_sizes("map") == "map_any"
