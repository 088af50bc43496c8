"""A graph on its way to a schedule: what the passes of schedule.py take and give."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from lazyten.ir.dtype import DType
from lazyten.ir.inspection import dump, verify
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node
from lazyten.schedule.cost import StoredValue
from lazyten.schedule.fusion import FusedKernel
from lazyten.schedule.steps import Step
from lazyten.support.errors import InternalError


class Limits(NamedTuple):
    """Of a device.

    offsets: whether a kernel may be launched on memory from a later byte on. block_bytes: what the
    values that a kernel holds may take, a block of them; 0 where it cannot hold any. items: see
    Executor. alignment: bytes; inputs that start at no multiple of it are `unaligned` in their
    kernel. streams: whether it runs a kernel in one pass, see Executor; None: none.
    """

    offsets: bool
    block_bytes: int
    items: int
    alignment: int
    streams: Callable[[Kernel], bool] | None = None


class Memory(NamedTuple):
    """Where arrays live, as a Schedule has it."""

    aliases: dict[int, int]
    blocks: dict[int, int]
    block_sizes: tuple[int, ...]


NOWHERE = Memory({}, {}, ())


@dataclass(frozen=True, slots=True)
class Draft:
    """A graph on its way to a schedule, whose fields have their values from some pass on.

    arrays: the inputs, then what is stored. loose: inputs that may start at any element. needed:
    what is stored in any case. stored: by value without its shape, why it is stored, which
    need one array. groups: kernels to be. place: the array of each stored value. steps: one for
    each of the groups. launches: how many steps each runs.
    """

    roots: tuple[Node, ...]
    inputs: int
    limits: Limits
    arrays: tuple[tuple[DType, int], ...]
    loose: frozenset[int] = frozenset()
    needed: tuple[Node, ...] = ()
    stored: Mapping[Node, Sequence[StoredValue]] = field(default_factory=dict)
    groups: tuple[FusedKernel, ...] = ()
    place: Mapping[Node, int] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    launches: tuple[int, ...] = ()
    memory: Memory = NOWHERE

    def in_order(self, order: Sequence[int]) -> Draft:
        """With groups and steps in another order."""
        return replace(self, groups=tuple(self.groups[n] for n in order),
                       steps=tuple(self.steps[n] for n in order))


# ---- proofs --------------------------------------------------------------------------------------

def verify_draft(old: Draft, new: Draft) -> None:
    """Raise InternalError unless what a pass has made is well-formed: every step reads what is
    there, and no launch what it writes; no two arrays are in one memory at a time."""
    if new.roots is not old.roots:
        verify(new.roots, "graph")
    if new.steps is not old.steps or new.launches is not old.launches:
        _verify_order(new)
    if new.memory is not old.memory:
        _verify_memory(new, new.memory)


def _launches(draft: Draft) -> list[Sequence[Step]]:
    """The steps of each launch; before that is decided each step alone."""
    steps = iter(draft.steps)
    return [tuple(islice(steps, n)) for n in draft.launches or (1,) * len(draft.steps)]


def _verify_order(draft: Draft) -> None:
    there = set(range(draft.inputs))
    for steps in _launches(draft):
        for step in steps:
            if early := {a for a in step.reads if draft.arrays[a][1]} - there:
                raise InternalError(f"{step.kernel.name} reads arrays {sorted(early)} before they "
                                    f"are there:\n{describe(draft)}")
        there.update(a for step in steps for a in step.writes)
    if missing := {a for a in draft.outputs if draft.arrays[a][1]} - there:
        raise InternalError(f"no kernel makes arrays {sorted(missing)}:\n{describe(draft)}")


def _verify_memory(draft: Draft, memory: Memory) -> None:
    lives: dict[int, tuple[int, int]] = {}
    for number, steps in enumerate(_launches(draft)):
        for a in (a for step in steps for a in step.args):
            lives[a] = lives.get(a, (number, 0))[0], number
    lives |= {a: (lives[a][0], len(draft.steps)) for a in draft.outputs if a in lives}
    nbytes = [dtype.itemsize * size for dtype, size in draft.arrays]
    places = {b: ("the memory of array", b, nbytes[b]) for b in memory.aliases.values()}
    places |= {a: ("the memory of array", b, nbytes[b]) for a, b in memory.aliases.items()}
    places |= {a: ("block", b, memory.block_sizes[b]) for a, b in memory.blocks.items()}
    last: dict[tuple[str, int, int], int] = {}
    for a, place in sorted(places.items(), key=lambda item: lives[item[0]]):
        if lives[a][0] <= last.get(place, -1) or nbytes[a] > place[2]:
            raise InternalError(f"array {a} is not alone in {place[0]} {place[1]}, or larger:\n"
                                f"{describe(draft)}")
        last[place] = lives[a][1]


# ---- text ----------------------------------------------------------------------------------------

def describe(draft: Draft) -> str:
    """What is known so far: the graph, what is stored, kernels, or launches and memory."""
    if draft.steps:
        return "\n".join(f"launch {number}: {_step(draft, step)}"
                         for number, steps in enumerate(_launches(draft)) for step in steps)
    if draft.groups:
        return "\n".join(f"kernel {n}: {_group(g)}" for n, g in enumerate(draft.groups))
    if draft.stored:
        return "\n".join(map(_stored_value, (same[0] for same in draft.stored.values())))
    return dump(draft.roots)


def _stored_value(value: StoredValue) -> str:
    node = value.node
    text = f"{node.op.name} {node.dtype.name}{list(node.shape)}: {value.reason}"
    if value.was_weighed:
        text += (f"; stored costs {value.stored_cost:,.0f}, computed again at each read "
                 f"{value.inline_cost:,.0f}")
    return text


def _group(group: FusedKernel) -> str:
    held = "".join(f"\n  holds {d.node.dtype.name}{list(d.node.shape)}, {group.block[1]} rows of "
                   f"axis {group.block[0] - 1} at a time" for d in group.held)
    return "\n  and ".join(map(_stored_value, group.stored)) + held


def _step(draft: Draft, step: Step) -> str:
    """A kernel, and the arrays that it writes and reads, each with its memory if that is known."""
    aliases, blocks, _ = draft.memory

    def array(a: int) -> str:
        where = f" (block {blocks[a]})" if a in blocks else \
            f" (of {aliases[a]})" if a in aliases else ""
        return f"{a}{where}"
    return (f"{step.kernel.name} writes {', '.join(map(array, step.writes))}, reads "
            f"{', '.join(map(array, step.reads)) or 'nothing'}")
