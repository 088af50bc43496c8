"""What each rank does in a step, in which order: computing, and passing on what was computed.

Of a micro-batch a stage computes what it gives, 'forward', and later its gradients, 'backward'.
GPipe (Huang et al., 2019, https://arxiv.org/abs/1811.06965) has all of the first kind before any
of the second. 1F1B (Narayanan et al., 2021, https://arxiv.org/abs/2104.04473) has as few before as
keep all stages busy, and then one of each in turns: a stage keeps what at most as many micro-
batches need as there are stages from it on, however many there are in all. Interleaved 1F1B, of the
same paper, is that for several stages a rank, which go round: stage s is rank s % ranks'.

Passes have an order that all ranks know: that in which they would be due if everything took equally
long, and of those that are due at once the lowest stages' first. Each rank's program has its own
ones in that order. So no ranks wait for each other, even where MPI sends nothing before somebody
receives it: of what is not done yet the first has both of its ranks there.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lazyten.support.errors import ArgumentError

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True)
class Compute:
    """Something that a stage computes. kind: FORWARD, whose results the next stage needs, or
    BACKWARD, whose results the stage before needs; batch: the micro-batch."""

    kind: str
    batch: int
    stage: int

    @property
    def source(self) -> Compute:
        """What another stage computes before, and passes on; that stage may not be there."""
        return Compute(self.kind, self.batch, self.stage + (-1 if self.kind == FORWARD else 1))

    @property
    def reader(self) -> Compute:
        """What another stage computes of this; that stage may not be there."""
        return Compute(self.kind, self.batch, self.stage + (1 if self.kind == FORWARD else -1))

    @property
    def wire(self) -> int:
        """The lower one of the two stages between which the results travel."""
        return self.stage if self.kind == FORWARD else self.stage - 1


@dataclass(frozen=True, slots=True)
class Pass:
    """What travels at once between a stage and the next: to rank `peer` the results of `sent`, and
    from there those of `received`; None for nothing. Where one rank has both stages, peer is that
    rank, and what it passes on to itself is both."""

    peer: int
    sent: Compute | None
    received: Compute | None

    @property
    def wire(self) -> int:
        """The lower one of the two stages."""
        what = self.sent or self.received
        assert what is not None
        return what.wire


Program = list[Compute | Pass]


def gpipe(rank: int, ranks: int, chunks: int, batches: int) -> list[Compute]:
    """What a rank of `chunks` stages computes: forward for all micro-batches, a stage after the
    other, then backward for all. With several stages that is the breadth-first schedule (Lamy-
    Poirier, 2022, https://arxiv.org/abs/2211.05953)."""
    own = range(rank, ranks * chunks, ranks)
    return [Compute(kind, i, stage) for kind, stages in ((FORWARD, own), (BACKWARD, own[::-1]))
            for stage in stages for i in range(batches)]


def one_forward_one_backward(rank: int, ranks: int, chunks: int, batches: int) -> list[Compute]:
    """What the one stage of a rank computes: once all stages after it have something to do, both
    kinds in turns."""
    assert chunks == 1
    return _in_turns(gpipe(rank, ranks, 1, batches), ranks - rank - 1)


def interleaved(rank: int, ranks: int, chunks: int, batches: int) -> list[Compute]:
    """What a rank of `chunks` stages computes: rounds of micro-batches, as many as there are ranks
    or a few more; of a round all stages one after the other, forward and backward in turns once
    all ranks have something to do.

    ArgumentError unless all rounds have as many micro-batches, as in PyTorch's.
    """
    rounds = max(1, batches // ranks)
    size = batches // rounds
    if batches % rounds:
        raise ArgumentError(f"ScheduleInterleaved1F1B: n_microbatches={batches} on {ranks} ranks "
                            f"makes {rounds} rounds, which must have as many each; give a multiple "
                            f"of {rounds}, as {ranks * rounds} is")
    both = [gpipe(rank, ranks, chunks, size)[i * chunks * size:][:chunks * size] for i in (0, 1)]
    found = [Compute(what.kind, number * size + what.batch, what.stage)
             for order in both for number in range(rounds) for what in order]
    return _in_turns(found, (chunks - 1) * size + 2 * (ranks - rank - 1))


def _in_turns(order: Sequence[Compute], first: int) -> list[Compute]:
    """Of all forward, then all backward: `first` forward, then one more and one backward in
    turns."""
    count = len(order) // 2
    first = min(first, count)
    found = list(order[:first])
    for number in range(count):
        found += order[first + number:count][:1]
        found.append(order[count + number])
    return found


def forwards(order: Sequence[Compute]) -> list[Compute]:
    """What a rank computes where nobody asks for gradients."""
    return [what for what in order if what.kind == FORWARD]


def with_passes(orders: Sequence[Sequence[Compute]]) -> list[Program]:
    """All ranks' programs. orders: what each computes. What one stage needs of another is passed
    on as late as possible, and together with what goes the other way between them then."""
    times = ticks(orders)
    owner = {what.stage: rank for rank, order in enumerate(orders) for what in order}
    due: dict[int, list[Compute]] = defaultdict(list)
    computed: dict[int, list[Compute]] = defaultdict(list)
    for what, tick in times.items():
        computed[tick].append(what)
        if what.source in times:
            due[tick].append(what.source)
    found: list[Program] = [[] for _ in orders]
    for tick in range(len(computed)):
        for wire in sorted({what.wire for what in due[tick]}):
            up, down = (next((x for x in due[tick] if x.wire == wire and x.kind == kind), None)
                        for kind in (FORWARD, BACKWARD))
            lower, upper = owner[wire], owner[wire + 1]
            if lower == upper:
                found[lower] += [Pass(lower, x, x) for x in (up, down) if x is not None]
            else:
                found[lower].append(Pass(upper, up, down))
                found[upper].append(Pass(lower, down, up))
        for what in computed[tick]:
            found[owner[what.stage]].append(what)
    return found


def ticks(orders: Sequence[Sequence[Compute]]) -> dict[Compute, int]:
    """When each thing is computed if all take equally long."""
    every = {what for order in orders for what in order}
    found: dict[Compute, int] = {}
    left = [list(reversed(order)) for order in orders]
    for tick in range(len(every)):
        ready = [order for order in left if order and (
            order[-1].source not in every or order[-1].source in found)]
        found.update([(what, tick) for what in [order.pop() for order in ready]])
    assert len(found) == len(every), "ranks wait for each other"
    return found
