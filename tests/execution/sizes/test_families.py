"""Families of graphs: which of their numbers are sizes, and what the graph is at other sizes."""
from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from changing_programs import anew

import lazyten as lt
from lazyten.execution.plans.graph import Graph
from lazyten.execution.sizes.families import Families, Family, regions_of
from lazyten.ir.node import Node
from lazyten.ir.numbers import Numbers, Skeleton, numbers_of

Function = Callable[[lt.Tensor], lt.Tensor]


def roots_of(x: lt.Tensor) -> tuple[Node, ...]:
    return Graph([x._storage.value], x.device).normalized()


def zeros(n: int) -> lt.Tensor:
    return lt.tensor(np.zeros((n, 5)), dtype=lt.float32)


def taken(function: Function, n: int) -> tuple[Skeleton, Numbers]:
    return numbers_of(roots_of(function(zeros(n))))


class Compiled:
    """Programs that nothing else has."""


def family_of(function: Function, sizes: Iterable[int]) -> Family:
    """A family that has seen these sizes."""
    skeletons, numbers = zip(*(taken(function, n) for n in sizes), strict=True)
    assert len(set(skeletons)) == 1
    family = Family(skeletons[0])
    for one in numbers:
        family.note(one, [Compiled()])  # type: ignore[list-item]
    return family


def scaled(x: lt.Tensor) -> lt.Tensor:
    n = x.shape[0]
    wide = x.double() * (1 / n) * (0.3 if n % 2 else 0.7)
    return (x * (1 / n) + 0.5).exp() - wide.sum(1, keepdim=True) * (0.3 if n % 2 else 0.7)


SIZES = (33, 47, 50, 61, 38)


def test_sizes_tell_all_whole_numbers_of_a_graph_or_none() -> None:
    family = family_of(scaled, SIZES)
    for n in (40, 80, 127):
        numbers = taken(scaled, n)[1]
        assert family.sizes_of(numbers) == (n,)
        for place in range(len(numbers.integers)):
            other = list(numbers.integers)
            other[place] += 1
            assert family.sizes_of(numbers._replace(integers=tuple(other))) is None, place


def test_what_strides_leave_of_a_length_is_told_beside_sizes() -> None:
    weights = lt.ones(5, 5, 3)

    def strided(x: lt.Tensor) -> lt.Tensor:
        x = lt.nn.functional.conv1d(x.T[None], weights, stride=2, padding=1).tanh()
        return lt.nn.functional.conv1d(x, weights, stride=2, padding=1)
    family = family_of(strided, (30, 41, 43, 56, 58, 61, 67, 100))
    for n in (31, 44, 65, 90):
        numbers = taken(strided, n)[1]
        sizes = family.sizes_of(numbers)
        assert sizes is not None
        regions = regions_of(sizes)
        assert family.ahead(regions) and family.serves(regions)


def test_graphs_at_other_sizes_are_what_they_would_be() -> None:
    family = family_of(scaled, SIZES)
    found = family.ahead(regions_of((40,)))
    assert len({sizes for sizes, _, _ in found}) > 4
    for (n,), numbers, roots in found:
        assert numbers.integers == taken(scaled, n)[1].integers
        assert numbers_of(roots) == (taken(scaled, n)[0], numbers)
    assert family.serves(regions_of((40,))) and not family.ahead(regions_of((40,)))


def test_floats_differ_at_other_sizes_where_they_did_and_are_equal_where_they_were() -> None:
    _, first = taken(scaled, SIZES[0])
    floats = [numbers.floats for _, numbers, _ in family_of(scaled, SIZES).ahead(((33, 128),))]
    kinds = {}
    for place, value in enumerate(first.floats):
        seen = tuple(repr(taken(scaled, n)[1].floats[place]) for n in SIZES)
        now = tuple(repr(values[place]) for values in floats)
        assert kinds.setdefault(seen, now) == now
        if len(set(seen)) == 1:
            assert set(now) == {repr(value)}
        else:
            assert len(set(now)) > len(now) // 2
    assert len(kinds) == len(set(kinds.values())) == 3


def test_a_size_that_is_a_position_is_not_served_where_there_is_no_graph() -> None:
    x = zeros(50)
    family, before = None, []
    for at in (9, 12, 17, 23, 30):
        with anew():
            skeleton, numbers = numbers_of(roots_of(x[at:at + 4].flip(1).exp()))
        family = family or Family(skeleton)
        family.note(numbers, [Compiled()])  # type: ignore[list-item]
        before.append(numbers)
    assert family is not None
    assert family.sizes_of(before[-1]) == (30,)
    assert family.ahead(((8, 32),)) and family.serves(((8, 32),))
    assert not family.ahead(((33, 128),)) and not family.serves(((33, 128),))


def test_a_family_begins_with_the_second_graph_and_has_one_device_and_settings() -> None:
    families, skeleton = Families(), taken(scaled, 33)[0]
    assert families.of(skeleton, "one") is None
    found = families.of(skeleton, "one")
    assert found is not None and families.of(skeleton, "one") is found
    assert families.of(skeleton, "other") is None
    assert families.of(skeleton, "other") not in (None, found)
