"""The order of steps by memory: an order to compute them in, that never needs more."""
from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from lazyten.schedule import memory
from lazyten.schedule.memory import Use, ordered


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Use], list[int], frozenset[int]]:
    """Steps that read what earlier ones wrote, the sizes of all arrays, and which of them stay."""
    inputs, count = draw(st.integers(1, 3)), draw(st.integers(1, 14))
    uses, arrays = [], inputs
    for _ in range(count):
        reads = draw(st.lists(st.integers(0, arrays - 1), max_size=4, unique=True))
        more = draw(st.integers(1, 2))
        uses.append(Use(tuple(range(arrays, arrays + more)), tuple(reads)))
        arrays += more
    sizes = draw(st.lists(st.integers(0, 9), min_size=arrays, max_size=arrays))
    results = draw(st.sets(st.integers(inputs, arrays - 1), max_size=3))
    return uses, sizes, frozenset(range(inputs)) | results


@given(graph=graphs())
def test_every_step_comes_once_after_what_it_reads_and_the_peak_is_no_higher(
        graph: tuple[list[Use], list[int], frozenset[int]]) -> None:
    uses, sizes, kept = graph
    with mock.patch.object(memory, "LARGE", 0):
        order = ordered(uses, sizes, kept)
    assert sorted(order) == list(range(len(uses)))
    greedy = memory._greedy(uses, sizes, kept)
    for found in (order, greedy):
        written = {a for use in uses for a in use.writes}
        for number in found:
            assert not written.intersection(uses[number].reads)
            written.difference_update(uses[number].writes)
    peak = memory._peak(uses, order, sizes, kept)
    assert peak <= memory._peak(uses, list(range(len(uses))), sizes, kept)


def test_small_graphs_keep_their_order() -> None:
    uses = [Use((1,), (0,)), Use((2,), (0,)), Use((3,), (1,)), Use((4,), (2, 3))]
    assert ordered(uses, [5] * 5, frozenset({0, 4})) == [0, 1, 2, 3]


def test_of_two_chains_one_is_finished_first() -> None:
    big, small = memory.LARGE, 8
    uses = [Use((1,), (0,)), Use((2,), (0,)), Use((3,), (1,)), Use((4,), (2,))]
    assert ordered(uses, [small, big, big, small, small], frozenset({0, 3, 4})) == [0, 2, 1, 3]
