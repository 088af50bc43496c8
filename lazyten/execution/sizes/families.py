"""Graphs that differ in nothing but numbers: which of these are the sizes, and other sizes' graphs.

In: graphs of one skeleton, one after the other, as a text grows by a word or a batch is smaller.
Out: of a few of them, the sizes: numbers that tell all the others by formulas. So it is known what
the graph is at sizes that nobody has asked for. A graph is taken for one of a family only if all of
its numbers are what formulas say.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from weakref import WeakSet

from lazyten.devices.program import Program
from lazyten.execution.sizes.ahead import LEAST, Region, region_of, samples
from lazyten.execution.sizes.planned import Sizes as Computation
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, moved_or_made, toposort
from lazyten.ir.numbers import Numbers, Skeleton, put_together
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError, LazytenError
from lazyten.symbolic.formulas import Samples, Sizes

LEAST_SEEN = 4
"""Graphs that a family knows before it looks for sizes: by then they have cost as much time as it
takes to look at other sizes."""
MOST_SEEN = 12
MOST_SIZES = 2
"""With three, formulas would hardly ever be sure."""
MOST_LEFT_OVER = 2
"""Numbers beside the sizes that are small, as what strides leave of a length is: each of them is a
region, so that other formulas need not be sure of it."""
FAMILIES = 64
"""Those that were used last are kept."""
ONCE = 4096
"""Skeletons of which it is known that there was one graph."""


class Family:
    """Graphs of one skeleton, with one device and settings. computation: what its plans share."""

    def __init__(self, skeleton: Skeleton) -> None:
        self.computation = Computation()
        self._skeleton = skeleton
        self._seen: list[Numbers] = []
        self._columns: list[tuple[int, ...]] = []
        self._places: tuple[int, ...] = ()
        self._fit: Samples | None = None
        self._programs: WeakSet[Program] = WeakSet()
        self._is_served = False
        self._serves: dict[tuple[Region, ...], bool] = {}

    def note(self, numbers: Numbers, programs: Collection[Program]) -> None:
        """A graph that is not known by its sizes, and what was compiled for it. Where that serves
        all numbers, as they say where something starts, there is nothing to do."""
        self._is_served = all(p in self._programs for p in programs)
        self._programs.update(programs)
        if self._told(numbers) is not None or any(
                numbers.integers == n.integers for n in self._seen):
            return
        self._seen.append(numbers)
        del self._seen[:-MOST_SEEN]
        self._fit = None
        if len(self._seen) >= LEAST_SEEN:
            self._find_sizes()

    def _find_sizes(self) -> None:
        columns = list(zip(*(n.integers for n in self._seen), strict=True))
        found = telling(columns)
        if found is not None:
            self._columns, (self._places, self._fit) = columns, found

    def sizes_of(self, numbers: Numbers) -> Sizes | None:
        """The sizes that tell all whole numbers of a graph; None where they do not."""
        return None if self._is_served else self._told(numbers)

    def _told(self, numbers: Numbers) -> Sizes | None:
        if self._fit is None:
            return None
        sizes = tuple([numbers.integers[place] for place in self._places])
        return sizes if self._fit.values(self._columns, sizes) == numbers.integers else None

    def ahead(self, regions: tuple[Region, ...]) -> list[tuple[Sizes, Numbers, list[Node]]]:
        """The graph at sizes in and around some regions, if these are new."""
        if regions in self._serves:
            return []
        rows = [next((made for sizes in row if (made := self._at(sizes, turn)) is not None), None)
                for turn, row in enumerate(samples(regions))]
        found = [made for made in rows if made is not None]
        self._serves[regions] = len(found) == len(rows) > 0
        return found if self._serves[regions] else []

    def leave(self, regions: tuple[Region, ...]) -> None:
        """Have each size of these regions be planned by itself."""
        self._serves[regions] = False

    def serves(self, regions: tuple[Region, ...]) -> bool:
        """Whether there are graphs in and around these regions; not if a size is a position, too,
        which must be inside of something."""
        return self._serves[regions]

    def _at(self, sizes: Sizes, turn: int) -> tuple[Sizes, Numbers, list[Node]] | None:
        """The graph at some sizes; None where there is none."""
        assert self._fit is not None
        integers = self._fit.values(self._columns, sizes)
        if integers is None:
            return None
        numbers = Numbers(integers, self._floats(turn))
        try:
            return sizes, numbers, put_together(self._skeleton, iter(numbers.integers),
                                                iter(numbers.floats), moved_or_made)
        except (LazytenError, InternalError):
            return None

    def _floats(self, turn: int) -> tuple[float, ...]:
        """Floats for a graph that nobody runs. Those that differ from graph to graph differ here,
        and from each other where they did."""
        made: dict[tuple[str, ...], float] = {}
        found = []
        for column in zip(*(n.floats for n in self._seen), strict=True):
            key = tuple(map(repr, column))
            if len(set(key)) == 1:
                found.append(column[0])
                continue
            if key not in made:
                made[key] = column[turn % len(column)] * (1 + (3 * len(made) + turn + 1) / 997)
            found.append(made[key])
        return tuple(found)


class Families:
    """All families in use, by what their graphs have in common."""

    def __init__(self) -> None:
        self._families: OrderedDict[Hashable, Family] = OrderedDict()
        self._once: OrderedDict[int, None] = OrderedDict()

    def of(self, skeleton: Skeleton, options: Hashable) -> Family | None:
        """The family of a graph; None for the first one, of which nothing is kept. options: what
        its plans depend on besides."""
        key = options, skeleton
        found = self._families.get(key)
        if found is not None:
            self._families.move_to_end(key)
            return found
        code = hash(key)
        if code not in self._once:
            self._once[code] = None
            if len(self._once) > ONCE:
                self._once.popitem(last=False)
            return None
        found = self._families[key] = Family(skeleton)
        if len(self._families) > FAMILIES:
            self._families.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget all."""
        self._families.clear()
        self._once.clear()


def telling(columns: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], Samples] | None:
    """The smallest numbers that tell all others, one of them, or two, and what strides leave of
    these: their places, and formulas of them; None where there are none. columns: what each number
    was, each time."""
    left = sorted({c for c in columns if len(set(c)) > 1}, key=lambda c: (max(c), c))
    chosen: list[tuple[int, ...]] = []
    while left:
        chosen.append(left[0])
        small = sum(max(c) < LEAST for c in chosen)
        if len(chosen) - small > MOST_SIZES or small > MOST_LEFT_OVER:
            return None
        fit = Samples(tuple(zip(*chosen, strict=True)))
        left = [c for c in left if not fit.explains(c)]
    return (tuple(map(columns.index, chosen)), fit) if chosen else None


def regions_of(sizes: Sizes) -> tuple[Region, ...]:
    """The sizes that have their kernels in common with these."""
    return tuple(map(region_of, sizes))


def inputs_of(roots: Sequence[Node]) -> list[tuple[DType, int]]:
    """The type and size of each buffer that a graph over slots reads."""
    found = {n.arg.slot: (n.dtype, n.arg.size) for n in toposort(roots) if n.op is Op.BUFFER}
    return [found[slot] for slot in range(len(found))]
