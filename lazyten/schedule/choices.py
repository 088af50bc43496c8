"""What a scheduler chose for a graph by its sizes, for graphs that differ in nothing but sizes.

In: a draft that has come all the way. Out: its `Choices`, by positions of nodes, and a draft of
another graph by the same choices: what is stored, which kernels compute it, in which order, and
which run together. All of this is right at any size; at which size it is quick is the cost model's.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from lazyten.ir.node import toposort, unshaped
from lazyten.ir.numbers import Skeleton, numbers_of
from lazyten.schedule.cost import StoredValue
from lazyten.schedule.draft import Draft
from lazyten.schedule.fusion import FusedKernel


@dataclass(frozen=True)
class Choices:
    """same: stored values that need one array. groups: what each kernel stores, in order; launches:
    how many kernels each runs. Nodes are their positions in the graph, whose `skeleton` that is.
    is_whole: whether nothing that is stored is without elements, as such is not computed."""

    skeleton: Skeleton
    same: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    launches: tuple[int, ...]
    is_whole: bool


def choices_of(draft: Draft) -> Choices:
    """The choices of a draft."""
    order = toposort(draft.roots)
    number = {node: i for i, node in enumerate(order)}
    return Choices(numbers_of(draft.roots)[0], tuple(tuple(number[d.node] for d in same)
                                     for same in draft.stored.values()),
                   tuple(tuple(number[d.node] for d in group.stored) for group in draft.groups),
                   draft.launches, all(d.node.numel for same in draft.stored.values()
                                       for d in same))


class Unlike(Exception):
    """A graph differs in more than sizes from the one for which something was chosen."""


def chosen(draft: Draft, choices: Choices) -> Draft:
    """The draft of another graph with these choices; Unlike where it is not like the first."""
    order = toposort(draft.roots)
    if numbers_of(draft.roots)[0] != choices.skeleton:
        raise Unlike

    def value(number: int) -> StoredValue:
        return StoredValue(order[number], CHOSEN, 0.0, 0.0, 0.0)
    stored = {unshaped(order[same[0]]): list(map(value, same)) for same in choices.same}
    groups = tuple(FusedKernel(tuple(map(value, group)), 0.0) for group in choices.groups)
    if not all(d.node.numel for group in groups for d in group.stored):
        raise Unlike
    return replace(draft, stored=stored, groups=groups, launches=choices.launches)


CHOSEN = "stored at other sizes"
