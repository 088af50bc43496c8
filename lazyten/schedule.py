"""The scheduler: the kernels that compute a graph, and the memory they share.

In: a graph whose BUFFER leaves have Slot arguments (realization.py numbers them). Out: a
`Schedule`, whose steps are kernels over numbered arrays. Which values are stored is the cost
model's decision (cost.py), as is which of them one kernel computes (fusion.py). Everything is
deterministic: same graph, same steps, same names.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lazyten.blocks import hold_blocks
from lazyten.cost import Decision, stored_values
from lazyten.deciding import in_several_places
from lazyten.device import Argument
from lazyten.dtype import DType
from lazyten.fusion import Group, merge_kernels
from lazyten.kernel import Kernel, Slot
from lazyten.launches import Work, launches
from lazyten.location import Location
from lazyten.memory import Lifetime, share
from lazyten.node import Node, make, reshape, rewrite, toposort, unshaped
from lazyten.offsets import without_offsets
from lazyten.ops import Op
from lazyten.partial import split_reductions
from lazyten.step_order import Use, ordered


@dataclass(frozen=True, slots=True)
class Step:
    """Run `kernel` on arrays `args`, outputs first. offsets: how many bytes of each come before the
    element that the kernel takes for its first."""

    kernel: Kernel
    args: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Arrays 0..inputs-1 are given; the steps make the rest, `outputs` among them.

    guests: for each array that lives in the memory of an output, as it is gone before that is
    written, the output. blocks: for each other array that is neither given nor an output, the
    number of the memory block it lives in; block_sizes: their bytes. launches: how many of the
    steps each launch runs; those of one need nothing of each other. For explain(), decisions: why
    each of the steps' values is stored; saved: what each step saves against a kernel for each of
    its values.
    """

    arrays: tuple[tuple[DType, int], ...]
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    guests: dict[int, int]
    blocks: dict[int, int]
    block_sizes: tuple[int, ...]
    launches: tuple[int, ...]
    decisions: tuple[Decision, ...]
    saved: tuple[float, ...]

    def describe(self, array: int) -> str:
        """An array in words: its type, shape and bytes, and the kernel that computes it."""
        dtype, size = self.arrays[array]
        stored = iter(self.decisions)
        for step in self.steps:
            count = len(step.kernel.outputs)
            for number, decision in zip(step.args[:count], islice(stored, count), strict=True):
                if number == array:
                    shape, nbytes = list(decision.node.shape), dtype.itemsize * size
                    return (f"{dtype.name}{shape}, {nbytes:,} bytes, "
                            f"which kernel {step.kernel.name} computes")
        return f"{dtype.name}[{size}]"

    def memory_of(self, step: Step) -> list[int]:
        """For each argument of a step, the array whose memory it is: its own, or its host's."""
        return [self.guests.get(a, a) for a in step.args]

    def arguments_of(self, step: Step) -> list[Argument]:
        """What a step is launched on, by the numbers of the arrays whose memory it is."""
        return list(map(Argument, self.memory_of(step), step.offsets))

    def largest_in(self, block: int) -> int:
        """The largest array of those that share a block, which decides its size."""
        return max((a for a, b in self.blocks.items() if b == block),
                   key=lambda a: self.arrays[a][0].itemsize * self.arrays[a][1])


def schedule(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]],
             offsets: bool = True, block_bytes: int = 0, items: int = 0,
             alignment: int = 1) -> Schedule:
    """Steps that compute `roots`, whose leaves are BUFFER(Slot(i)) for input i.

    offsets: whether a kernel may be launched on memory from a later byte on. block_bytes: what the
    values that a kernel holds may take, a block of them; 0 where it cannot hold any. items: see
    Executor. alignment: bytes; inputs that start at no multiple of it are `unaligned` in their
    kernel.
    """
    roots = split_reductions(roots, items)
    arrays = list(inputs)
    place: dict[Node, int] = {}
    decisions, groups = _stored(roots, items > 0)
    for decision in (d for g in groups for d in g.decisions):
        place |= dict.fromkeys((d.node for d in decisions[unshaped(decision.node)]), len(arrays))
        arrays.append((decision.node.dtype, decision.node.numel))
    names = _Names()
    groups = [g for g in groups if g.decisions[0].node.numel]
    outputs = tuple(place[r] if r in place else _leaf_slot(r) for r in roots)
    groups = hold_blocks(groups, place, outputs, block_bytes)
    steps = [_step(g, place, names, offsets, alignment) for g in groups]
    order = ordered([Use(s.args[:len(s.kernel.outputs)], s.args[len(s.kernel.outputs):])
                     for s in steps], [dtype.itemsize * size for dtype, size in arrays],
                    frozenset((*range(len(inputs)), *outputs)))
    groups, steps = [groups[n] for n in order], [steps[n] for n in order]
    together = launches([_work(g, s) for g, s in zip(groups, steps, strict=True)])
    order = [number for launch in together for number in launch]
    groups, steps = [groups[n] for n in order], [steps[n] for n in order]
    counts = tuple(map(len, together))
    guests, blocks, sizes = _plan_memory(arrays, len(inputs), steps, counts, outputs)
    return Schedule(tuple(arrays), len(inputs), tuple(steps), outputs, guests, blocks, sizes,
                    counts, tuple(d for g in groups for d in g.decisions),
                    tuple(g.saved for g in groups))


def _stored(roots: Sequence[Node],
            by_items: bool) -> tuple[dict[Node, list[Decision]], list[Group]]:
    """What to store, by which kernels, once nothing that decides is computed in two places."""
    order = toposort(roots)
    needed: list[Node] = []
    while True:
        decisions = _distinct(stored_values(roots, by_items, needed))
        kept = [decisions[unshaped(r)][0].node if unshaped(r) in decisions else r for r in roots]
        groups = merge_kernels([same[0] for same in decisions.values()], kept)
        kernels = {same.node: number for number, group in enumerate(groups)
                   for d in group.decisions for same in decisions[unshaped(d.node)]}
        several = [n for n in in_several_places(order, kernels) if n not in needed]
        if not several:
            return decisions, groups
        needed += several


def replan(made: Schedule, replacing: Collection[tuple[int, int]],
           taken: Collection[int]) -> Schedule:
    """The same steps with other memory: the first array of a pair `replacing` may have that of the
    second, and outputs `taken` have memory that is in use from the start."""
    guests, blocks, sizes = _plan_memory(made.arrays, made.inputs, made.steps, made.launches,
                                         made.outputs, replacing, taken)
    return replace(made, guests=guests, blocks=blocks, block_sizes=sizes)


def _work(group: Group, step: Step) -> Work:
    """What launches.py wants to know of a kernel."""
    count = len(step.kernel.outputs)
    elements = sum(d.node.numel for d in group.decisions) + sum(n for _, n in step.kernel.inputs)
    return Work(step.args[:count], step.args[count:], elements,
                sum(d.own_cost for d in group.decisions))


def _distinct(decisions: Sequence[Decision]) -> dict[Node, list[Decision]]:
    """Decisions to store the same elements in the same order: they need one array."""
    found: dict[Node, list[Decision]] = {}
    for decision in decisions:
        found.setdefault(unshaped(decision.node), []).append(decision)
    return found


def _leaf_slot(node: Node) -> int:
    slot: int = unshaped(node).arg.slot
    return slot


class _Names:
    """Kernel names: what the kernel does and its (first output's) sizes, numbered where that
    repeats."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[tuple[Node, ...], tuple[tuple[DType, int], ...],
                                 tuple[int, ...]], Kernel] = {}
        self.taken: dict[str, int] = {}

    def kernel(self, outputs: tuple[Node, ...], inputs: tuple[tuple[DType, int], ...],
               where: Location | None, unaligned: tuple[int, ...]) -> Kernel:
        """The kernel of these expressions; equal expressions over equal inputs share one."""
        key = (outputs, inputs, unaligned)
        if key not in self.kernels:
            reduced = [n for n in toposort(outputs) if n.op is Op.REDUCE]
            sizes = [*outputs[0].shape]
            sizes += [r.src[0].shape[a] for r in reduced[-1:] for a in r.arg[1]]
            scattered = outputs[0].op is Op.SCATTER
            kind = "scatter" if scattered else "reduce" if reduced else "map"
            name = "_".join([kind, *(str(n) for n in sizes if n != 1)])
            count = self.taken[name] = self.taken.get(name, 0) + 1
            name = name if count == 1 else f"{name}_n{count}"
            self.kernels[key] = Kernel(name, outputs, inputs, where, unaligned=unaligned)
        return self.kernels[key]


def _step(group: Group, place: dict[Node, int], names: _Names, offsets: bool,
          alignment: int) -> Step:
    """The step that computes some stored nodes from inputs and other stored nodes.

    What one of them reads of another is that one's expression, so no kernel reads what it writes.
    What it holds is a CONTIGUOUS in its expression.
    """
    nodes = [d.node for d in group.decisions]
    slots: dict[int, int] = {}
    types: list[tuple[DType, int]] = []

    def argument(array: int, leaf: Node) -> Node:
        if array not in slots:
            slots[array] = len(nodes) + len(slots)
            types.append((leaf.dtype, leaf.numel))
        return make(Op.BUFFER, leaf.dtype, (), Slot(slots[array], leaf.numel))

    own = {place[n] for n in nodes}
    held = {place[d.node]: d.node for d in group.held}
    read = {n for n, array in place.items() if array not in own and array not in held}
    memo: dict[Node, Node] = {}
    for n in toposort(nodes, lambda n: () if n in read else n.src):
        if n in read:
            flat = argument(place[n], n)
            memo[n] = make(Op.RESHAPE, n.dtype, (flat,), n.shape) if n.shape != flat.shape else flat
        elif n.op is Op.BUFFER:
            memo[n] = argument(n.arg.slot, n)
    for array, node in held.items():
        value, = rewrite([node], lambda n: None, dict(memo))
        value = make(Op.CONTIGUOUS, node.dtype, (value,), group.block)
        memo |= {n: reshape(value, n.shape) for n, found in place.items() if found == array}
    bodies = [n.src[0] if n.op is Op.CONTIGUOUS else n for n in nodes]
    outputs = [reshape(n, nodes[0].shape) for n in rewrite(bodies, lambda n: None, memo)]
    starts: dict[int, int] = {}
    if offsets:
        outputs, starts = without_offsets(outputs)
    later = [starts.get(slot, 0) * dtype.itemsize for slot, (dtype, _) in
             enumerate(types, len(nodes))]
    unaligned = tuple(slot for slot, start in enumerate(later, len(nodes)) if start % alignment)
    kernel = names.kernel(tuple(outputs), tuple(types), nodes[0].where, unaligned)
    return Step(kernel, (*(place[n] for n in nodes), *slots), (*(0 for _ in nodes), *later))


def _plan_memory(arrays: Sequence[tuple[DType, int]], inputs: int, steps: Sequence[Step],
                 counts: Sequence[int], outputs: Sequence[int],
                 replacing: Collection[tuple[int, int]] = (), taken: Collection[int] = ()) -> tuple[
                     dict[int, int], dict[int, int], tuple[int, ...]]:
    """Memory for the arrays between inputs and outputs: guests, blocks and block_sizes. What the
    steps of one launch read and write is there at the same time. replacing, taken: see replan."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    launch_of = [number for number, count in enumerate(counts) for _ in range(count)]
    for number, step in zip(launch_of, steps, strict=True):
        for array in step.args:
            first.setdefault(array, number)
            last[array] = number
    between = [a for a in range(inputs, len(arrays)) if a not in outputs and a in first]
    hosts = [a for a in dict.fromkeys(outputs) if a >= inputs and a in first]
    last |= dict.fromkeys(hosts, len(counts))  # for ever
    first |= dict.fromkeys(taken, 0)
    lifetimes = [Lifetime(arrays[a][0].itemsize * arrays[a][1], first[a], last[a])
                 for a in (*hosts, *between)]
    places = {a: n for n, a in enumerate((*hosts, *between))}
    pairs = [(places[a], places[b]) for a, b in replacing
             if a in places and b in places and a not in taken]
    chosen, sizes = share(lifetimes[len(hosts):], lifetimes[:len(hosts)], pairs)
    places = dict(zip(between, chosen, strict=True))
    guests = {a: hosts[b] for a, b in places.items() if b < len(hosts)}
    blocks = {a: b - len(hosts) for a, b in places.items() if b >= len(hosts)}
    return guests, blocks, tuple(sizes[len(hosts):])


