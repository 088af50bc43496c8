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

    blocks: for each array that is neither given nor an output, the number of the memory block it
    lives in; block_sizes: their bytes. decisions: why each of the steps' values is stored, for
    explain().
    """

    arrays: tuple[tuple[DType, int], ...]
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    blocks: dict[int, int]
    block_sizes: tuple[int, ...]
    decisions: tuple[Decision, ...]


def schedule(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]]) -> Schedule:
    """Steps that compute `roots`, whose leaves are BUFFER(Slot(i)) for input i."""
    roots = split_reductions(roots)
    decisions = stored_values(roots)
    arrays = list(inputs)
    place: dict[Node, int] = {}
    for decision in decisions:
        place[decision.node] = len(arrays)
        arrays.append((decision.node.dtype, decision.node.numel))
    names = _Names()
    steps = [_step(d.node, place, names) for d in decisions if d.node.numel]
    outputs = tuple(place[r] if r in place else _leaf_slot(r) for r in roots)
    blocks, sizes = _plan_memory(arrays, len(inputs), steps, outputs)
    return Schedule(tuple(arrays), len(inputs), tuple(steps), outputs, blocks, sizes,
                    tuple(d for d in decisions if d.node.numel))


def _leaf_slot(node: Node) -> int:
    while node.op is Op.RESHAPE:
        node = node.src[0]
    slot: int = node.arg.slot
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
            kind = "scatter" if output.op is Op.SCATTER else "reduce" if reduced else "map"
            name = "_".join([kind, *(str(n) for n in sizes if n != 1)])
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
                 outputs: Sequence[int]) -> tuple[dict[int, int], tuple[int, ...]]:
    """Blocks for the arrays between inputs and outputs."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for array in step.args:
            first.setdefault(array, number)
            last[array] = number
    between = [a for a in range(inputs, len(arrays)) if a not in outputs and a in first]
    lifetimes = [Lifetime(arrays[a][0].itemsize * arrays[a][1], first[a], last[a]) for a in between]
    chosen, sizes = share(lifetimes)
    return dict(zip(between, chosen, strict=True)), tuple(sizes)


