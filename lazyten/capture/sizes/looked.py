"""What is known of a function of tensors at the sizes of a region, and calls of such sizes.

In: the function, and tensors for it of any sizes. Out: its results at a size at which it was never
recorded, where that is certain. It is recorded at some sizes in and around the region, whose graphs
formulas must say (graph_formulas.py), and planned there, so that formulas say what is launched
(launches.py). Of sizes whose launches are of different forms, as one has a loop that the
other writes out, those between are looked at until the size that is asked for is known.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from lazyten.capture.arrays import only_computes
from lazyten.capture.breaks import InPython
from lazyten.capture.call import Call
from lazyten.capture.capture import record
from lazyten.capture.captured import Captured, TensorSpec
from lazyten.capture.dims import look
from lazyten.capture.replay import Replay, buffers_of
from lazyten.capture.sizes.graph_formulas import Graph, GraphFormulas
from lazyten.capture.sizes.launches import Launched, Sized, sample_of
from lazyten.capture.state.environment import Environment
from lazyten.execution.segment import graph_of
from lazyten.execution.sizes.ahead import Region, samples
from lazyten.execution.sizes.planned import Sizes as Computation
from lazyten.frontend.tensor import Tensor
from lazyten.ir.numbers import numbers_of
from lazyten.storage import tracing
from lazyten.storage.storage import Storage
from lazyten.support.errors import ArgumentError, InternalError
from lazyten.support.passes import is_verifying
from lazyten.symbolic.formulas import Sizes

MOST_LOOKED = 48
"""Sizes of a region that are looked at."""
KEPT = 32
"""Sizes whose launches are kept; the oldest go."""


class Function(NamedTuple):
    """A function that does nothing but operations of tensors. known: numbers that it may compare
    sizes with; told: where it puts, in each call, those that it computes of sizes."""

    run: Callable[..., list[Tensor]]
    known: Sequence[int]
    told: list[int]


class _Recorded(NamedTuple):
    """A call that was recorded, its arguments, and the numbers that it computed of sizes."""

    told: tuple[int, ...]
    made: Captured
    environment: Environment
    tensors: Sequence[Tensor]


class _Form(NamedTuple):
    """What calls of several sizes have in common. replay: one of them."""

    replay: Replay
    sized: Sized


class Looked:
    """A function at sizes of a region. is_certain: whether anything can be known of it."""

    def __init__(self, function: Function, regions: tuple[Region, ...],
                 resized: Callable[[Sizes], list[Tensor] | None]) -> None:
        """resized: tensors for it, of some sizes; None if there are none."""
        self._function, self._regions, self._resized = function, regions, resized
        self._computation = Computation()
        self._calls: dict[Sizes, _Recorded] = {}
        self._launched: OrderedDict[Sizes, tuple[Replay, Launched] | None] = OrderedDict()
        self._found: dict[Sizes, Hashable] = {}
        self._forms: dict[Hashable, _Form] = {}
        self.is_certain = self._sample()
        self._calls.clear()

    def at(self, sizes: Sizes) -> tuple[Replay, Launched] | None:
        """What is launched at these sizes, as in a call that was recorded; None where that is not
        certain, however often one looks."""
        if sizes not in self._launched:
            self._launched[sizes] = self._certain(sizes)
            self._calls.clear()
            if len(self._launched) > KEPT:
                self._launched.popitem(last=False)
        return self._launched[sizes]

    def _certain(self, sizes: Sizes) -> tuple[Replay, Launched] | None:
        if not self._is_as_known(sizes):
            return None
        while True:
            for form in self._forms.values():
                found = form.sized.at(sizes)
                if found is not None:
                    if is_verifying():
                        self._verify(form, sizes)
                    return form.replay, found
            further = self._further(sizes)
            if further is None or not (self._look_at(further) and self._add(further)):
                return None

    def _verify(self, known: _Form, sizes: Sizes) -> None:
        """InternalError if it is not what is planned at these sizes."""
        planned = self._planned(sizes) if self._look_at(sizes) else None
        sample = None if planned is None else sample_of(planned.segments[0])
        if sample is None or not known.sized.has(sizes, sample):
            raise InternalError(f"formulas say other launches at sizes {sizes} than are planned "
                                f"there, by what was planned at {[*known.sized.samples]}")

    # ---- which sizes -----------------------------------------------------------------------------

    def _sample(self) -> bool:
        """Look at some sizes; whether the graph is one, and formulas say its numbers."""
        rows = samples(self._regions)
        first = [next((s for s in row if self._graph_at(s) is not None), None) for row in rows]
        if not first or not self._fits_graphs([s for s in first if s is not None]):
            return False
        sizes = [next((s for s in map(self._uneven, row) if self._look_at(s)), None)
                 for row in rows]
        return all(s is not None and self._add(s) for s in dict.fromkeys(sizes))

    def _fits_graphs(self, sizes: Iterable[Sizes]) -> bool:
        """Whether the graph is one but for numbers, of which there are formulas."""
        graphs = {s: graph for s in sizes if (graph := self._graph_at(s)) is not None}
        if len({(g.skeleton, len(g.told)) for g in graphs.values()}) != 1:
            return False
        self._graphs = GraphFormulas(graphs, self._function.known)
        self._are_known = {self._graphs.outcome(s): True for s in graphs}
        return self._graphs.are_sure

    def _uneven(self, sizes: Sizes) -> Sizes:
        """Those near some sizes at which the graph's numbers are least even. They are not further
        inside of the regions, and each is odd where it was."""
        steps = [[0] if low == high else [0, -2, -4] if n < low else [0, 2, 4] if n > high else
                 [0, 2, -2] for n, (low, high) in zip(sizes, self._regions, strict=True)]
        near = [tuple([n + step for n, step in zip(sizes, some, strict=True)])
                for some in product(*steps)]
        return min([s for s in near if min(s) > 0], key=self._graphs.evenness)

    def _further(self, sizes: Sizes) -> Sizes | None:
        """Sizes to look at next so that these are known: those themselves, where several vary. Of
        one those in the middle of what is known around it, if these are of different forms."""
        if sizes in self._found or len(self._found) >= MOST_LOOKED:
            return None
        at, *others = [i for i, (low, high) in enumerate(self._regions) if low < high]
        below = max((s for s in self._found if s[at] < sizes[at]), default=sizes)
        above = min((s for s in self._found if s[at] > sizes[at]), default=sizes)
        if others or sizes in (below, above) or self._found[below] == self._found[above]:
            return sizes
        middle = (below[at] + above[at]) // 2
        near = [m for m in (middle, middle + 1, middle - 1) if below[at] < m < above[at]]
        return min([(*sizes[:at], m, *sizes[at + 1:]) for m in near], key=self._graphs.evenness)

    def _is_as_known(self, sizes: Sizes) -> bool:
        """Whether the graph at these sizes is what formulas say, as it was at sizes that are alike.
        """
        outcome = self._graphs.outcome(sizes)
        if outcome is not None and outcome not in self._are_known:
            graph = self._graph_at(sizes)
            self._are_known[outcome] = graph is not None and self._graphs.has(sizes, graph)
        return outcome is not None and self._are_known[outcome]

    # ---- the function at some sizes --------------------------------------------------------------

    def _graph_at(self, sizes: Sizes) -> Graph | None:
        """What the function records at some sizes; None if it has no such call."""
        try:
            call = self._call_at(sizes)
            new = call.made.new
            graph, _ = graph_of([n.node for n in new], new[0].device)
            return Graph(*numbers_of(graph.normalized()), call.told)
        except Exception:  # nobody has asked for these sizes, or the call itself tells
            return None

    def _look_at(self, sizes: Sizes) -> bool:
        """Have kernels be known at some sizes; whether there is such a call."""
        try:
            call = self._call_at(sizes)
            with self._computation.planning(sizes, self._regions):
                look(call.made, call.tensors)
        except Exception:  # nobody has asked for these sizes, or the call itself tells
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

    def _planned(self, sizes: Sizes) -> Replay | None:
        """A call of some sizes, ready to run; None if it does not only compute."""
        call = self._call_at(sizes)
        with self._computation.planning(sizes, self._regions):
            replay = Replay(call.made, call.environment, call.tensors, (), "sized")
        is_plain = all(x.kind == "new" and not x.moves and not x.detached for x in _specs(replay))
        return replay if is_plain and only_computes(replay) and len(replay.segments) == 1 else None

    def _call_at(self, sizes: Sizes) -> _Recorded:
        """A call of some sizes, recorded. ArgumentError if it has none."""
        if sizes not in self._calls:
            tensors = self._resized(sizes)
            if tensors is None:
                raise ArgumentError(f"no formula says all sizes where these are {sizes}")
            call, function = Call(tuple(tensors), {}), self._function
            function.told.clear()
            with tracing.turn:
                environment = Environment(function.run, call.leaves)
                made = record(call.tensors, partial(call.apply, function.run), environment,
                              "sized", True, (), function.run)
            assert not isinstance(made, InPython)
            self._calls[sizes] = _Recorded(
                tuple(function.told), made, environment, tensors)
        return self._calls[sizes]


def launch(replay: Replay, launched: Launched, tensors: Sequence[Tensor]) -> list[Tensor] | None:
    """What a call of these tensors gives; None if an index is outside. replay: of a call of other
    sizes."""
    storages: list[Any] = list(replay.storages)
    for number, argument in replay.given:
        storages[number] = tensors[argument]._storage
    nodes = launched.run(buffers_of(storages))
    if nodes is None:
        return None
    new = [Storage(nodes[place], device) for place, device, _ in replay.new]
    return [Tensor._view(new[x.number], (), None) for x in _specs(replay)]


def _specs(replay: Replay) -> list[TensorSpec]:
    """The results of a call."""
    return [x for x in replay.captured.leaves if isinstance(x, TensorSpec)]
