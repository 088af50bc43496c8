"""Calls of a function of tensors with one size after the other, at sizes that were never recorded.

In: calls whose tensors differ in nothing but sizes, as a text or a cache grows. Out: their results,
by launches whose numbers formulas say (execution/sized.py): neither the function's Python runs, nor
is a schedule or code made. That is for functions which do nothing but operations of tensors, as
loaded models do: what they do follows from sizes alone.

Of a few calls it follows which axes vary together. Then, for a region of sizes, the function is
recorded at some sizes in and around it. Its graphs must be of one form, and so must what is
launched; formulas must say all numbers of both. A size in between is believed only where each of
the graph's numbers is to every other, and to those that the function is said to know, as it is at
some size that was recorded: equal, less or more. What a function does otherwise at a size, it does
as something is compared; so one size is recorded for each outcome.
"""
from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lazyten.capture.arrays import only_computes
from lazyten.capture.breaks import InPython
from lazyten.capture.call import Call
from lazyten.capture.capture import record
from lazyten.capture.captured import Captured, TensorSpec
from lazyten.capture.dims import like, look
from lazyten.capture.replay import Replay, buffers_of
from lazyten.capture.state.environment import Environment
from lazyten.capture.state.purity import trusted
from lazyten.execution.segment import graph_of
from lazyten.execution.sized import Launched, Sample, Sized, sample_of
from lazyten.execution.sizes.ahead import Region, samples
from lazyten.execution.sizes.families import LEAST_SEEN, MOST_SEEN, regions_of, telling
from lazyten.execution.sizes.planned import Sizes as Computation
from lazyten.frontend.tensor import Tensor
from lazyten.ir.numbers import Numbers, Skeleton, numbers_of
from lazyten.storage import tracing
from lazyten.storage.storage import Storage
from lazyten.symbolic.formulas import Samples, Sizes

Function = Callable[..., list[Tensor]]
IN_REGION = 3
"""Sizes of a region that come before it is looked at."""
MOST_LOOKED = 48
"""Sizes of a region that are looked at."""
KEPT = 32
"""Sizes whose launches are kept; the oldest go."""


class SizedCalls:
    """A function, which must do nothing but operations of tensors, for tensors of certain types and
    numbers of axes. known: numbers that it may compare sizes with."""

    def __init__(self, function: Function, known: Sequence[int], told: list[int]) -> None:
        """told: where the function puts, in each call, the numbers that it computes of sizes."""
        self._function = trusted(function)
        self._known, self._told = known, told
        self._seen: dict[tuple[int, ...], None] = {}
        self._places: tuple[int, ...] = ()
        self._columns: list[tuple[int, ...]] = []
        self._fit: Samples | None = None
        self._came: dict[tuple[Region, ...], set[Sizes]] = {}
        self._regions: dict[tuple[Region, ...], _Looked | None] = {}

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """What the function gives; None where that takes a graph."""
        axes = tuple([n for x in tensors for n in x.shape])
        sizes = self._sizes(axes)
        if sizes is None:
            return None
        regions = regions_of(sizes)
        if regions not in self._regions:
            came = self._came.setdefault(regions, set())
            came.add(sizes)
            if len(came) < IN_REGION:
                return None
            self._regions[regions] = self._look(regions, tensors)
        looked = self._regions[regions]
        return None if looked is None else looked.run(sizes, tensors)

    def _sizes(self, axes: tuple[int, ...]) -> Sizes | None:
        """The sizes that tell those of all axes; None where they are not known yet."""
        if self._fit is not None:
            sizes = tuple([axes[place] for place in self._places])
            if self._fit.values(self._columns, sizes) == axes:
                return sizes
        self._seen[axes] = None
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        for count in [n for n in (LEAST_SEEN, MOST_SEEN) if len(self._seen) >= LEAST_SEEN]:
            columns = list(zip(*[*self._seen][-count:], strict=True))
            found = telling(columns)
            if found is not None:
                self._columns, (self._places, self._fit) = columns, found
                break
        return None

    def _look(self, regions: tuple[Region, ...], tensors: Sequence[Tensor]) -> _Looked | None:
        """What is known of a region; None if it is nothing that formulas say."""
        looked = _Looked(self._function, (self._known, self._told), regions,
                         partial(self._like, tensors))
        return looked if looked.is_certain else None

    def _like(self, tensors: Sequence[Tensor], sizes: Sizes) -> list[Tensor] | None:
        """Tensors like those of a call, of other sizes."""
        assert self._fit is not None
        axes = self._fit.values(self._columns, sizes)
        if axes is None:
            return None
        left = iter(axes)
        return [like(x, tuple([next(left) for _ in x.shape])) for x in tensors]


class _Graph(NamedTuple):
    """What a function records at some sizes, and the numbers that it computes of these."""

    skeleton: Skeleton
    numbers: Numbers
    told: tuple[int, ...]

    @property
    def integers(self) -> tuple[int, ...]:
        """All whole numbers."""
        return self.numbers.integers + self.told


class _Form(NamedTuple):
    """What calls of several sizes have in common. replay: one of them."""

    replay: Replay
    sized: Sized


def _specs(replay: Replay) -> list[TensorSpec]:
    """The results of a call."""
    return [x for x in replay.captured.leaves if isinstance(x, TensorSpec)]


class _Looked:
    """What is known of a function at sizes of a region. resized: tensors for it, of some sizes."""

    def __init__(self, function: Function, numbers: tuple[Sequence[int], list[int]],
                 regions: tuple[Region, ...], resized: Callable[[Sizes], list[Tensor] | None],
                 ) -> None:
        self._function, self._resized = function, resized
        self._known, self._told = numbers
        self._regions, self._computation = regions, Computation()
        self._graphs: dict[Sizes, _Graph | None] = {}
        self._launched: OrderedDict[Sizes, tuple[Replay, Launched] | None] = OrderedDict()
        self._found: dict[Sizes, Hashable] = {}
        self._forms: dict[Hashable, _Form] = {}
        self.is_certain = self._sample()

    def _sample(self) -> bool:
        """Look at some sizes; whether the graph is one, and formulas say its numbers."""
        rows = samples(self._regions)
        if not self._fits_graphs([there for row in rows if (there := self._first(row)) is not None]):
            return False
        sizes = [next((s for s in self._uneven(row) if self._look_at(s)), None) for row in rows]
        if None in sizes or not sizes:
            return False
        for there in dict.fromkeys(sizes):
            assert there is not None
            if not self._add(there):
                return False
        return True

    def _add(self, sizes: Sizes) -> bool:
        """Plan at some sizes, for formulas of what is launched there; whether that can be."""
        replay = self._planned(sizes)
        sample = None if replay is None else sample_of(replay.segments[0])
        self._found[sizes] = None
        if replay is None or sample is None:
            return False
        form = self._found[sizes] = (
            sample.form, tuple(map(id, replay.storages)), tuple(replay.given), tuple(replay.new),
            tuple([x.number for x in _specs(replay)]))
        several = self._forms[form].sized.samples if form in self._forms else {}
        self._forms[form] = _Form(replay, Sized(replay.segments[0], {**several, sizes: sample}))
        return True

    def _further(self, sizes: Sizes) -> Sizes | None:
        """Sizes to look at next so that these are known: those themselves, where there are several.
        Of one size those in the middle of what is known around it, if these are of different forms.
        """
        if sizes in self._found or len(self._found) == MOST_LOOKED:
            return None
        at = next((i for i, (low, high) in enumerate(self._regions) if low < high), None)
        if at is None or sum(low < high for low, high in self._regions) > 1:
            return sizes
        (n,), order = sizes[at:at + 1], sorted(self._found)
        below = max((s for s in order if s[at] < n), default=None)
        above = min((s for s in order if s[at] > n), default=None)
        if below is None or above is None or self._found[below] == self._found[above]:
            return sizes
        middle = (below[at] + above[at]) // 2
        near = [m for m in (middle, middle + 1, middle - 1) if below[at] < m < above[at]]
        return min(((*sizes[:at], m, *sizes[at + 1:]) for m in near), key=self._evenness)

    def _first(self, row: Sequence[Sizes]) -> Sizes | None:
        """The first sizes at which the function can be recorded."""
        return next((sizes for sizes in row if self._graph_at(sizes) is not None), None)

    def _fits_graphs(self, sizes: Iterable[Sizes]) -> bool:
        """Find formulas for all numbers of the graph; whether it is one but for whole numbers."""
        graphs = {s: found for s in dict.fromkeys(sizes) if (found := self._graph_at(s))}
        if len({(g.skeleton, len(g.told)) for g in graphs.values()}) != 1:
            return False
        self._graph, *_ = graphs.values()
        self._samples = Samples(tuple(graphs))
        self._columns = list(zip(*(g.integers for g in graphs.values()), strict=True))
        self._floats = list(zip(*(g.numbers.floats for g in graphs.values()), strict=True))
        varying = {c for c in self._columns if len(set(c)) > 1}
        told = {c for c in zip(*(g.told for g in graphs.values()), strict=True) if len({*c}) > 1}
        self._compared = list({_primitive(c) for c in varying} | told)
        constants = {-1, 0, 1, *self._graph.told, *self._known}
        self._constants = np.array(sorted(constants))
        self._is_known = {self._outcome(s): True for s in graphs}
        return all(map(self._samples.explains, varying | told)) and all(
            self._samples.float_value(c, s) is not None for s in graphs for c in {*self._floats})

    def _uneven(self, row: Sequence[Sizes]) -> list[Sizes]:
        """For each of some sizes others near it, of which what the graph has for numbers is least
        divisible by two: most sizes fill no vectors or tiles."""
        return [min(self._near(sizes), key=self._evenness) for sizes in row]

    def _near(self, sizes: Sizes) -> list[Sizes]:
        """Sizes that are not further inside of the regions, each odd where it was."""
        steps = [[0] if low == high else [0, -2, -4] if n < low else [0, 2, 4] if n > high else
                 [0, 2, -2] for n, (low, high) in zip(sizes, self._regions, strict=True)]
        moved = [tuple([n + step for n, step in zip(sizes, some, strict=True)])
                 for some in product(*steps)]
        return [sizes, *(m for m in moved if min(m) > 0)]

    def _evenness(self, sizes: Sizes) -> int:
        """By which powers of two numbers of the graph are divisible, beside what they always are.
        """
        values = self._samples.values(self._compared, sizes)
        if values is None:
            return 0
        return sum(map(_twos, values))

    def _look_at(self, sizes: Sizes) -> bool:
        """Have kernels be known at some sizes; whether there is such a call."""
        try:
            tensors = self._resized(sizes)
            if tensors is None:
                return False
            made = self._recorded(tensors)[0]
            with self._computation.planning(sizes, self._regions):
                look(made, tensors)
        except Exception:  # nobody has asked for these sizes
            return False
        return True

    def _planned(self, sizes: Sizes) -> Replay | None:
        tensors = self._resized(sizes)
        assert tensors is not None
        made, environment = self._recorded(tensors)
        with self._computation.planning(sizes, self._regions):
            replay = Replay(made, environment, tensors, (), self._function.__name__)
        is_plain = all(x.kind == "new" and not x.moves and not x.detached for x in _specs(replay))
        return replay if is_plain and only_computes(replay) and len(replay.segments) == 1 else None

    def _recorded(self, tensors: Sequence[Tensor]) -> tuple[Captured, Environment]:
        call = Call(tuple(tensors), {})
        self._told.clear()
        with tracing.turn:
            environment = Environment(self._function, call.leaves)
            made = record(call.tensors, partial(call.apply, self._function), environment,
                          self._function.__name__, True, (), self._function)
        assert not isinstance(made, InPython)
        return made, environment

    def _graph_at(self, sizes: Sizes) -> _Graph | None:
        """What the function records at some sizes; None if it has no such call."""
        if sizes not in self._graphs:
            self._graphs[sizes] = None
            try:
                tensors = self._resized(sizes)
                if tensors is not None:
                    made = self._recorded(tensors)[0]
                    graph, _ = graph_of([n.node for n in made.new], made.new[0].device)
                    skeleton, numbers = numbers_of(graph.normalized())
                    self._graphs[sizes] = _Graph(skeleton, numbers, tuple(self._told))
            except Exception:  # nobody has asked for these sizes
                pass
        return self._graphs[sizes]

    # ---- calls -----------------------------------------------------------------------------------

    def run(self, sizes: Sizes, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """What the function gives; None where that is not certain, or an index is outside."""
        if sizes not in self._launched:
            self._launched[sizes] = self._at(sizes) if self._is_as_known(sizes) else None
            if len(self._launched) > KEPT:
                self._launched.popitem(last=False)
        known = self._launched[sizes]
        if known is None:
            return None
        replay, launched = known
        storages: list[Any] = list(replay.storages)
        for number, argument in replay.given:
            storages[number] = tensors[argument]._storage
        nodes = launched.run(buffers_of(storages))
        if nodes is None:
            return None
        new = [Storage(nodes[place], device) for place, device, _ in replay.new]
        return [Tensor._view(new[x.number], x.moves, None) for x in _specs(replay)]

    def _at(self, sizes: Sizes) -> tuple[Replay, Launched] | None:
        """What is launched, as in this replay; None where that is not certain, however often one
        looks."""
        while True:
            for form in self._forms.values():
                found = form.sized.at(sizes)
                if found is not None:
                    return form.replay, found
            further = self._further(sizes)
            if further is None or not (self._look_at(further) and self._add(further)):
                return None

    def _is_as_known(self, sizes: Sizes) -> bool:
        """Whether the graph at these sizes is what formulas say, as it was at sizes where all
        comparisons of its numbers have the same outcome."""
        outcome = self._outcome(sizes)
        if outcome is None:
            return False
        if outcome not in self._is_known:
            self._is_known[outcome] = self._is_like_others(sizes)
        return self._is_known[outcome]

    def _outcome(self, sizes: Sizes) -> bytes | None:
        """How the graph's numbers are to each other and to constants: equal, less or more."""
        values = self._samples.values(self._compared, sizes)
        if values is None:
            return None
        now = np.array([*sizes, *values])
        others = np.concatenate([now, self._constants])
        return np.sign(now[:, None] - others).astype(np.int8).tobytes()

    def _is_like_others(self, sizes: Sizes) -> bool:
        """Whether the function records at these sizes what formulas say."""
        found = self._graph_at(sizes)
        return found is not None and found.skeleton == self._graph.skeleton \
            and all(repr(self._samples.float_value(c, sizes)) == repr(x) for c, x in zip(
                self._floats, found.numbers.floats, strict=True)) and found.integers == self._samples.values(self._columns, sizes)


def _primitive(column: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers without the factor that they have in common, as those of flat arrays have."""
    return tuple([n // math.gcd(*column) for n in column])


def _twos(number: int) -> int:
    """How often it can be halved."""
    return (number & -number).bit_length() - 1 if number else 0
