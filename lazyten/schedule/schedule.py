"""The scheduler: the kernels that compute a graph, and the memory they share.

In: a graph whose BUFFER leaves have Slot arguments (realization.py numbers them). Out: a
`Schedule`, whose steps are kernels over numbered arrays. Which values are stored is the cost
model's choice (cost.py), as is which of them one kernel computes (fusion.py). Everything is
deterministic: same graph, same steps, same names. PASSES is the whole way, and
lazyten/support/passes.py says in a line what each pass is for.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lazyten.devices.program import Argument
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, toposort, unshaped
from lazyten.schedule.choices import Choices, Unlike, choices_of, chosen
from lazyten.schedule.cost import StoredValue, stored_values
from lazyten.schedule.deciding import in_several_places
from lazyten.schedule.draft import Draft, Limits, Memory, describe, verify_draft
from lazyten.schedule.fusion import FusedKernel, merge_kernels
from lazyten.schedule.launches import Work, launches
from lazyten.schedule.memory import Lifetime, Use, ordered, share
from lazyten.schedule.scans import CUTS, Sections, fits, without_scans
from lazyten.schedule.split_reductions import split_reductions
from lazyten.schedule.steps import Names, Repeat, Step, make_step
from lazyten.schedule.streaming import in_one_pass
from lazyten.schedule.tile_fusion import hold_blocks
from lazyten.sharding.partition import partitioned
from lazyten.support.passes import Driver, Pass, always, is_verifying
from lazyten.symbolic.narrow_moves import move_narrow_integers, moves_integers


@dataclass(frozen=True, slots=True)
class Schedule:
    """Arrays 0..inputs-1 are given; the steps make the rest, `outputs` among them.

    aliases: for each array that lives in the memory of an output, as it is gone before that is
    written, the output. blocks: for each other array that is neither given nor an output, the
    number of the memory block it lives in; block_sizes: their bytes. launches: how many of the
    steps each launch runs; those of one need nothing of each other. For explain(), stored: why
    each of the steps' values is stored; saved: what each step saves against a kernel for each of
    its values. repeats: which of the steps are the rounds of a scan.
    """

    arrays: tuple[tuple[DType, int], ...]
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    aliases: dict[int, int]
    blocks: dict[int, int]
    block_sizes: tuple[int, ...]
    launches: tuple[int, ...]
    stored: Sequence[StoredValue]
    saved: Sequence[float]
    repeats: tuple[Repeat, ...] = ()

    def describe(self, array: int) -> str:
        """An array in words: its type, shape and bytes, and the kernel that computes it."""
        dtype, size = self.arrays[array]
        stored = iter(self.stored)
        for step in self.steps:
            count = len(step.kernel.outputs)
            for number, value in zip(step.args[:count], islice(stored, count), strict=True):
                if number == array:
                    shape, nbytes = list(value.node.shape), dtype.itemsize * size
                    return (f"{dtype.name}{shape}, {nbytes:,} bytes, "
                            f"which kernel {step.kernel.name} computes")
        return f"{dtype.name}[{size}]"

    def memory_of(self, step: Step) -> list[int]:
        """For each argument of a step, the array whose memory it is: its own, or its owner's."""
        return [self.aliases.get(a, a) for a in step.args]

    def arguments_of(self, step: Step) -> list[Argument]:
        """What a step is launched on, by the numbers of the arrays whose memory it is."""
        return list(map(Argument, self.memory_of(step), step.offsets))

    def largest_in(self, block: int) -> int:
        """The largest array of those that share a block, which decides its size."""
        return max((a for a, b in self.blocks.items() if b == block),
                   key=lambda a: self.arrays[a][0].itemsize * self.arrays[a][1])


def schedule(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]],
             offsets: bool = True, block_bytes: int = 0, items: int = 0,
             alignment: int = 1,
             streams: Callable[[Kernel], bool] | None = None) -> Schedule:
    """Steps that compute `roots`, whose leaves are BUFFER(Slot(i)) for input i, within `Limits`."""
    return _in_sections(roots, inputs, Limits(offsets, block_bytes, items, alignment, streams),
                        _plain)


def choose(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]],
           limits: Limits) -> tuple[Choices, ...]:
    """What is chosen for each section of a graph, for others that differ from it in sizes."""
    found: list[Choices] = []

    def noting(draft: Draft) -> Draft:
        made = _plain(draft)
        found.append(choices_of(made))
        return made
    _in_sections(roots, inputs, limits, noting)
    return tuple(found)


def schedule_by(choices: Sequence[Choices], roots: Sequence[Node],
                inputs: Sequence[tuple[DType, int]], limits: Limits) -> Schedule | None:
    """Steps that compute a graph by choices that another had; None where they do not fit."""
    left = iter(choices)

    def as_chosen(draft: Draft) -> Draft:
        section = next(left, None)
        if section is None:
            raise Unlike
        return DRIVER.run(CHOSEN, chosen(DRIVER.run(BEFORE, draft), section))
    try:
        return _in_sections(roots, inputs, limits, as_chosen)
    except Unlike:
        return None


def _in_sections(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]], limits: Limits,
                 made: Callable[[Draft], Draft]) -> Schedule:
    """The schedule of a graph, of which `made` schedules the parts between cuts."""
    roots = without_scans(partitioned(roots),
                          lambda body: limits.offsets and fits(body, limits.alignment))

    def part(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]], *,
             needed: tuple[Node, ...] = (), loose: frozenset[int] = frozenset()) -> Schedule:
        draft = made(Draft(tuple(roots), len(inputs), limits, tuple(inputs), loose, needed))
        return Schedule(draft.arrays, draft.inputs, draft.steps, draft.outputs, *draft.memory,
                        draft.launches, tuple(d for g in draft.groups for d in g.stored),
                        tuple(g.saved for g in draft.groups))
    if all(n.op not in CUTS for n in toposort(roots)):
        return part(roots, inputs)
    sections = Sections(part, limits.alignment, list(inputs))
    outputs = sections.run(roots)
    whole = Draft(tuple(roots), len(inputs), limits, tuple(sections.arrays), outputs=outputs,
                  steps=tuple(sections.steps), launches=tuple(sections.launches))
    memory = _plan_memory(whole.arrays, whole.inputs, whole.steps, whole.launches, outputs)
    if is_verifying():
        verify_draft(replace(whole, steps=()), replace(whole, memory=memory))
    return Schedule(whole.arrays, whole.inputs, whole.steps, outputs, *memory, whole.launches,
                    tuple(sections.stored), tuple(sections.saved), tuple(sections.repeats))


def _plain(draft: Draft) -> Draft:
    return DRIVER.run(PASSES, draft)


# ---- the passes ----------------------------------------------------------------------------------

def _split_reductions(draft: Draft) -> Draft:
    return replace(draft, roots=tuple(split_reductions(draft.roots, draft.limits.items)))


def _store(draft: Draft) -> Draft:
    return replace(draft, groups=(), stored=_distinct(
        stored_values(draft.roots, draft.limits.items > 0, draft.needed)))


def _fuse(draft: Draft) -> Draft:
    stored = draft.stored
    kept = [stored[unshaped(r)][0].node if unshaped(r) in stored else r for r in draft.roots]
    groups = merge_kernels([same[0] for same in stored.values()], kept)
    return replace(draft, groups=tuple(groups))


def _settle(draft: Draft) -> Draft:
    """The same, or what the passes before make of it if more is stored: until nothing that decides
    is computed in two places."""
    kernels = {same.node: number for number, group in enumerate(draft.groups)
               for d in group.stored for same in draft.stored[unshaped(d.node)]}
    several = [n for n in in_several_places(toposort(draft.roots), kernels)
               if n not in draft.needed]
    if not several:
        return draft
    return DRIVER.run(TO_GROUPS, replace(draft, needed=(*draft.needed, *several)))


def _one_pass(draft: Draft) -> Draft:
    """Kernels that the device runs in one pass are one; what they made for each other is not
    stored."""
    streams = draft.limits.streams
    nodes = {d.node: same[0].node for same in draft.stored.values() for d in same}
    leaves = {same[0].node: number for number, same in enumerate(draft.stored.values())}

    def runs(group: FusedKernel, inside: Collection[Node]) -> bool:
        place = {n: leaves[first] + draft.inputs for n, first in nodes.items()
                 if first not in inside}
        assert streams is not None
        return streams(make_step(group, place, Names(), draft.limits.offsets,
                                 draft.limits.alignment, draft.loose).kernel)
    kept = {nodes[n] for n in (*draft.roots, *draft.needed) if n in nodes}
    groups = in_one_pass(draft.groups, lambda n: nodes.get(n, n), kept, runs)
    gone = {unshaped(d.node) for g in draft.groups for d in g.stored} \
        - {unshaped(d.node) for g in groups for d in g.stored}
    return replace(draft, groups=tuple(groups),
                   stored={n: same for n, same in draft.stored.items() if n not in gone})


def _number(draft: Draft) -> Draft:
    """An array for each stored value; kernels of no elements are left out."""
    arrays = list(draft.arrays)
    place: dict[Node, int] = {}
    for value in (d for g in draft.groups for d in g.stored):
        same = draft.stored[unshaped(value.node)]
        place |= dict.fromkeys((d.node for d in same), len(arrays))
        arrays.append((value.node.dtype, value.node.numel))
    return replace(draft, arrays=tuple(arrays), place=place,
                   groups=tuple(g for g in draft.groups if g.stored[0].node.numel),
                   outputs=tuple(place[r] if r in place else _leaf_slot(r) for r in draft.roots))


def _hold(draft: Draft) -> Draft:
    return replace(draft, groups=tuple(hold_blocks(draft.groups, draft.place, draft.outputs,
                                                   draft.limits.block_bytes)))


def _build(draft: Draft) -> Draft:
    names, limits = Names(), draft.limits
    return replace(draft, steps=tuple(
        make_step(g, draft.place, names, limits.offsets, limits.alignment, draft.loose)
        for g in draft.groups))


def _order(draft: Draft) -> Draft:
    kept = frozenset((*range(draft.inputs), *draft.outputs))
    return draft.in_order(ordered([Use(s.writes, s.reads) for s in draft.steps],
                                  [dtype.itemsize * size for dtype, size in draft.arrays], kept))


def _launch(draft: Draft) -> Draft:
    together = launches(list(map(_work, draft.groups, draft.steps)))
    return replace(draft.in_order([number for launch in together for number in launch]),
                   launches=tuple(map(len, together)))


def _work(group: FusedKernel, step: Step) -> Work:
    """What launches.py wants to know of a kernel."""
    elements = sum(d.node.numel for d in group.stored) + sum(n for _, n in step.kernel.inputs)
    return Work(step.writes, step.reads, elements, sum(d.own_cost for d in group.stored))


def _share_memory(draft: Draft) -> Draft:
    return replace(draft, memory=_plan_memory(draft.arrays, draft.inputs, draft.steps,
                                              draft.launches, draft.outputs))


def _move_narrow_integers(draft: Draft) -> Draft:
    made = move_narrow_integers((*draft.roots, *draft.needed))
    count = len(draft.roots)
    return replace(draft, roots=tuple(made[:count]), needed=tuple(made[count:]))


TO_GROUPS = (
    Pass("store", always, _store),
    Pass("fuse", always, _fuse),
    Pass("settle", always, _settle),
)
"""Those that are run again where something more must be stored."""

PASSES = (
    Pass("integers", lambda draft: moves_integers(draft.roots), _move_narrow_integers),
    Pass("split_reductions", always, _split_reductions),
    *TO_GROUPS,
    Pass("one_pass", lambda draft: draft.limits.streams is not None, _one_pass),
    Pass("number", always, _number),
    Pass("hold", lambda draft: draft.limits.block_bytes > 0, _hold),
    Pass("build", always, _build),
    Pass("order", always, _order),
    Pass("launch", always, _launch),
    Pass("share_memory", always, _share_memory),
)
"""What becomes of a graph, in this order; of each pass, when it is needed and what it does."""

BEFORE = PASSES[:2]
"""What is done before anything is chosen."""

CHOSEN = tuple(p for p in PASSES if p.name in ("number", "build", "share_memory"))
"""What is left to do where others have chosen."""

DRIVER = Driver(verify_draft, describe, lambda draft:
                f"{len(draft.roots)} results of {draft.inputs} inputs")


def _distinct(values: Sequence[StoredValue]) -> dict[Node, list[StoredValue]]:
    """Decisions to store the same elements in the same order: they need one array."""
    found: dict[Node, list[StoredValue]] = {}
    for value in values:
        found.setdefault(unshaped(value.node), []).append(value)
    return found


def _leaf_slot(node: Node) -> int:
    slot: int = unshaped(node).arg.slot
    return slot


def replan(made: Schedule, replacing: Collection[tuple[int, int]],
           taken: Collection[int]) -> Schedule:
    """The same steps with other memory: the first array of a pair `replacing` may have that of the
    second, and outputs `taken` have memory that is in use from the start."""
    memory = _plan_memory(made.arrays, made.inputs, made.steps, made.launches, made.outputs,
                          replacing, taken)
    return replace(made, **memory._asdict())


def with_memory(arrays: tuple[tuple[DType, int], ...], inputs: int, steps: tuple[Step, ...],
                outputs: tuple[int, ...], launches: tuple[int, ...]) -> Schedule:
    """A schedule of steps that are known, for which memory is to be found; without reasons."""
    memory = _plan_memory(arrays, inputs, steps, launches, outputs)
    return Schedule(arrays, inputs, steps, outputs, *memory, launches, (), ())


def _plan_memory(arrays: Sequence[tuple[DType, int]], inputs: int, steps: Sequence[Step],
                 counts: Sequence[int], outputs: Sequence[int],
                 replacing: Collection[tuple[int, int]] = (),
                 taken: Collection[int] = ()) -> Memory:
    """Memory for the arrays between inputs and outputs. What the steps of one launch read and write
    is there at the same time. replacing, taken: see replan."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    launch_of = [number for number, count in enumerate(counts) for _ in range(count)]
    for number, step in zip(launch_of, steps, strict=True):
        for array in step.args:
            first.setdefault(array, number)
            last[array] = number
    between = [a for a in range(inputs, len(arrays)) if a not in outputs and a in first]
    owners = [a for a in dict.fromkeys(outputs) if a >= inputs and a in first]
    last |= dict.fromkeys(owners, len(counts))  # for ever
    first |= dict.fromkeys(taken, 0)
    lifetimes = [Lifetime(arrays[a][0].itemsize * arrays[a][1], first[a], last[a])
                 for a in (*owners, *between)]
    places = {a: n for n, a in enumerate((*owners, *between))}
    pairs = [(places[a], places[b]) for a, b in replacing
             if a in places and b in places and a not in taken]
    chosen, sizes = share(lifetimes[len(owners):], lifetimes[:len(owners)], pairs)
    places = dict(zip(between, chosen, strict=True))
    aliases = {a: owners[b] for a, b in places.items() if b < len(owners)}
    blocks = {a: b - len(owners) for a, b in places.items() if b >= len(owners)}
    return Memory(aliases, blocks, tuple(sizes[len(owners):]))


