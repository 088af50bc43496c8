"""Regions of sizes, and the sizes that are looked at around them."""
from __future__ import annotations

import itertools

import pytest

from lazyten.execution.sizes.ahead import FACTOR, LEAST, region_of, samples
from lazyten.symbolic.formulas import Samples


def test_regions_are_all_sizes_each_in_one() -> None:
    assert [region_of(n) for n in range(LEAST)] == [(n, n) for n in range(LEAST)]
    regions = sorted({region_of(n) for n in range(LEAST, 3000)})
    assert all(low <= n <= high for n in range(3000) for low, high in [region_of(n)])
    assert all(b == (a[1] + 1, a[1] * FACTOR) for a, b in itertools.pairwise(regions))
    assert regions[0] == (LEAST, LEAST * FACTOR)


def looked_at(*regions: tuple[int, int]) -> list[tuple[int, ...]]:
    return [*dict.fromkeys(row[0] for row in samples(regions))]


@pytest.mark.parametrize("region", [(8, 32), (33, 128), (129, 512), (9, 10), (1, 3)])
def test_what_is_looked_at_makes_formulas_certain_at_all_sizes_of_a_region(
        region: tuple[int, int]) -> None:
    known = Samples(tuple(looked_at(region)))
    assert all(known.covers((n,)) for n in range(region[0], region[1] + 1))


@pytest.mark.parametrize("regions", [[(8, 32), (8, 32)], [(33, 128), (8, 32)], [(8, 32), (4, 4)]],
                         ids=str)
def test_of_two_regions_all_corners_are_looked_at(regions: list[tuple[int, int]]) -> None:
    most, least, *others = looked_at(*regions)
    assert {*itertools.product(*zip(least, most, strict=True))} - {least, most} <= {*others}


@pytest.mark.parametrize("regions", [[(8, 32), (8, 32)], [(33, 128), (8, 32)], [(3, 3), (33, 128)]],
                         ids=str)
def test_all_sizes_of_two_regions_are_certain(regions: list[tuple[int, int]]) -> None:
    known = Samples(tuple(looked_at(*regions)))
    assert all(map(known.covers, itertools.product(*(range(a, b + 1) for a, b in regions))))


def test_of_one_size_no_other_is_looked_at() -> None:
    assert {a for a, _ in looked_at((3, 3), (33, 128))} == {3}


def test_nothing_is_looked_at_where_each_size_is_a_region() -> None:
    assert samples([(4, 4)]) == samples([(4, 4), (7, 7)]) == []
