"""The scheduler: the kernels that compute a graph, and the memory they share.

In: a graph whose BUFFER leaves have Slot arguments (realization.py numbers them). Out: a
`Schedule`, whose steps are kernels over numbered arrays. Which values are stored is the cost
model's decision (cost.py). Everything is deterministic: same graph, same steps, same names.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyten.cost import Decision, stored_values
from lazyten.dtype import DType
from lazyten.kernel import Kernel, Slot
from lazyten.memory import Lifetime, share
from lazyten.node import Node, make, rewrite, toposort
from lazyten.ops import Op
from lazyten.partial import split_reductions


@dataclass(frozen=True, slots=True)
class Step:
    """Run `kernel` on arrays `args`, outputs first."""

    kernel: Kernel
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Arrays 0..inputs-1 are given; the steps make the rest, `outputs` among them.

    guests: for each array that lives in the memory of an output, as it is gone before that is
    written, the output. blocks: for each other array that is neither given nor an output, the
    number of the memory block it lives in; block_sizes: their bytes. decisions: why each of the
    steps' values is stored, for explain().
    """

    arrays: tuple[tuple[DType, int], ...]
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    guests: dict[int, int]
    blocks: dict[int, int]
    block_sizes: tuple[int, ...]
    decisions: tuple[Decision, ...]

    def describe(self, array: int) -> str:
        """An array in words: its type, shape and bytes, and the kernel that computes it."""
        dtype, size = self.arrays[array]
        for step, decision in zip(self.steps, self.decisions, strict=True):
            if step.args[0] == array:
                shape, nbytes = list(decision.node.shape), dtype.itemsize * size
                return (f"{dtype.name}{shape}, {nbytes:,} bytes, "
                        f"which kernel {step.kernel.name} computes")
        return f"{dtype.name}[{size}]"

    def memory_of(self, step: Step) -> list[int]:
        """For each argument of a step, the array whose memory it is: its own, or its host's."""
        return [self.guests.get(a, a) for a in step.args]

    def largest_in(self, block: int) -> int:
        """The largest array of those that share a block, which decides its size."""
        return max((a for a, b in self.blocks.items() if b == block),
                   key=lambda a: self.arrays[a][0].itemsize * self.arrays[a][1])


def schedule(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]]) -> Schedule:
    """Steps that compute `roots`, whose leaves are BUFFER(Slot(i)) for input i."""
    roots = split_reductions(roots)
    arrays = list(inputs)
    place: dict[Node, int] = {}
    arrays_of: dict[Node, int] = {}
    decisions = []
    for decision in stored_values(roots):
        node = _unshaped(decision.node)
        if node not in arrays_of:
            arrays_of[node] = len(arrays)
            arrays.append((node.dtype, node.numel))
            decisions.append(decision)
        place[decision.node] = arrays_of[node]
    names = _Names()
    steps = [_step(d.node, place, names) for d in decisions if d.node.numel]
    outputs = tuple(place[r] if r in place else _leaf_slot(r) for r in roots)
    guests, blocks, sizes = _plan_memory(arrays, len(inputs), steps, outputs)
    return Schedule(tuple(arrays), len(inputs), tuple(steps), outputs, guests, blocks, sizes,
                    tuple(d for d in decisions if d.node.numel))


def _unshaped(node: Node) -> Node:
    """The value that a node is in another shape: the same elements in the same order."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node


def _leaf_slot(node: Node) -> int:
    slot: int = _unshaped(node).arg.slot
    return slot


class _Names:
    """Kernel names: what the kernel does and its sizes, numbered where that repeats."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[Node, tuple[tuple[DType, int], ...]], Kernel] = {}
        self.taken: dict[str, int] = {}

    def kernel(self, output: Node, inputs: tuple[tuple[DType, int], ...], stored: Node) -> Kernel:
        """The kernel of this expression; equal expressions over equal inputs share one."""
        key = (output, inputs)
        if key not in self.kernels:
            reduced = [n for n in toposort([output]) if n.op is Op.REDUCE]
            sizes = [*output.shape] + [r.src[0].shape[a] for r in reduced[-1:] for a in r.arg[1]]
            name = "_".join(["reduce" if reduced else "map", *(str(n) for n in sizes if n != 1)])
            count = self.taken[name] = self.taken.get(name, 0) + 1
            name = name if count == 1 else f"{name}_n{count}"
            self.kernels[key] = Kernel(name, (output,), inputs, stored.where)
        return self.kernels[key]


def _step(node: Node, place: dict[Node, int], names: _Names) -> Step:
    """The step that computes one stored node from inputs and other stored nodes."""
    slots: dict[int, int] = {}
    types: list[tuple[DType, int]] = []

    def argument(array: int, leaf: Node) -> Node:
        if array not in slots:
            slots[array] = 1 + len(slots)
            types.append((leaf.dtype, leaf.numel))
        return make(Op.BUFFER, leaf.dtype, (), Slot(slots[array], leaf.numel))

    memo: dict[Node, Node] = {}
    for n in toposort([node], lambda n: () if n in place and n is not node else n.src):
        if n in place and n is not node:
            flat = argument(place[n], n)
            memo[n] = make(Op.RESHAPE, n.dtype, (flat,), n.shape) if n.shape != flat.shape else flat
        elif n.op is Op.BUFFER:
            memo[n] = argument(n.arg.slot, n)
    body = node.src[0] if node.op is Op.CONTIGUOUS else node
    output = rewrite([body], lambda n: None, memo)[0]
    return Step(names.kernel(output, tuple(types), node), (place[node], *slots))


def _plan_memory(arrays: Sequence[tuple[DType, int]], inputs: int, steps: Sequence[Step],
                 outputs: Sequence[int]) -> tuple[
                     dict[int, int], dict[int, int], tuple[int, ...]]:
    """Memory for the arrays between inputs and outputs: guests, blocks and block_sizes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for array in step.args:
            first.setdefault(array, number)
            last[array] = number
    between = [a for a in range(inputs, len(arrays)) if a not in outputs and a in first]
    hosts = [a for a in dict.fromkeys(outputs) if a >= inputs and a in first]
    last |= dict.fromkeys(hosts, len(steps))  # for ever
    lifetimes = [Lifetime(arrays[a][0].itemsize * arrays[a][1], first[a], last[a])
                 for a in (*hosts, *between)]
    chosen, sizes = share(lifetimes[len(hosts):], lifetimes[:len(hosts)])
    places = dict(zip(between, chosen, strict=True))
    guests = {a: hosts[b] for a, b in places.items() if b < len(hosts)}
    blocks = {a: b - len(hosts) for a, b in places.items() if b >= len(hosts)}
    return guests, blocks, tuple(sizes[len(hosts):])


