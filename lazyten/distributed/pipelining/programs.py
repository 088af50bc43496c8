"""What each stage does in a step, in which order: computing, and passing on what was computed.

Of a micro-batch a stage computes what it gives, 'forward', and later its gradients, 'backward'.
GPipe (Huang et al., 2019, https://arxiv.org/abs/1811.06965) has all of the first kind before any
of the second. 1F1B (Narayanan et al., 2021, https://arxiv.org/abs/2104.04473) has as few before as
keep all stages busy, and then one of each in turns: a stage keeps what at most as many micro-
batches need as there are stages from it on, however many there are in all.

Where both of two stages pass something to the other between the same two computations, that is one
exchange. So no two of them wait for each other, even where MPI sends nothing before somebody
receives it.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True)
class Compute:
    """Something that a stage computes. kind: FORWARD, whose results the next stage needs, or
    BACKWARD, whose results the stage before needs; batch: the micro-batch."""

    kind: str
    batch: int


@dataclass(frozen=True, slots=True)
class Pass:
    """An exchange with the next stage, or the one before (peer: 1 or -1). sent: whose results go
    there; received: whose come from there. None for nothing."""

    peer: int
    sent: Compute | None
    received: Compute | None


Program = list[Compute | Pass]


def gpipe(stage: int, stages: int, batches: int) -> list[Compute]:
    """What a stage computes: forward for all micro-batches, then backward for all."""
    return forwards(stage, stages, batches) + [Compute(BACKWARD, i) for i in range(batches)]


def one_forward_one_backward(stage: int, stages: int, batches: int) -> list[Compute]:
    """What a stage computes: once all stages after it have something to do, both kinds in turns."""
    first = min(batches, stages - stage - 1)
    found = [Compute(FORWARD, i) for i in range(first)]
    for number in range(batches):
        if first + number < batches:
            found.append(Compute(FORWARD, first + number))
        found.append(Compute(BACKWARD, number))
    return found


def forwards(stage: int, stages: int, batches: int) -> list[Compute]:
    """What a stage computes where nobody asks for gradients."""
    return [Compute(FORWARD, i) for i in range(batches)]


def with_passes(orders: Sequence[Sequence[Compute]], stage: int) -> Program:
    """A stage's program. orders: what each stage computes."""
    own, stages = orders[stage], len(orders)
    pairs = {peer: set(zip(orders[stage + peer], orders[stage + peer][1:], strict=False))
             for peer in (-1, 1) if 0 <= stage + peer < stages}
    found: Program = []
    passed: Compute | None = None
    for number, now in enumerate(own):
        source, target = (-1, 1) if now.kind == FORWARD else (1, -1)
        if source in pairs and now is not passed:
            found.append(Pass(source, None, now))
        found.append(now)
        if target in pairs:
            after = own[number + 1] if number + 1 < len(own) else None
            passed = after if after is not None and (after, now) in pairs[target] else None
            found.append(Pass(target, now, passed))
    return found
