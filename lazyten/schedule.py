"""The scheduler: the kernels that compute a graph, and the memory they share.

In: a graph whose BUFFER leaves have Slot arguments (realization.py numbers them). Out: a
`Schedule`, whose steps are kernels over numbered arrays. Which values are stored is the cost
model's decision (cost.py), as is which of them one kernel computes (fusion.py). Everything is
deterministic: same graph, same steps, same names.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyten.cost import Decision, stored_values
from lazyten.dtype import DType
from lazyten.fusion import merge_kernels
from lazyten.kernel import Kernel, Slot
from lazyten.location import Location
from lazyten.memory import Lifetime, share
from lazyten.node import Node, make, reshape, rewrite, toposort
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
    lives in; block_sizes: their bytes. For explain(), decisions: why each of the steps' values is
    stored; saved: what each step saves against a kernel for each of its values.
    """

    arrays: tuple[tuple[DType, int], ...]
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    blocks: dict[int, int]
    block_sizes: tuple[int, ...]
    decisions: tuple[Decision, ...]
    saved: tuple[float, ...]


def schedule(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]]) -> Schedule:
    """Steps that compute `roots`, whose leaves are BUFFER(Slot(i)) for input i."""
    roots = split_reductions(roots)
    groups = merge_kernels(stored_values(roots), roots)
    arrays = list(inputs)
    place: dict[Node, int] = {}
    for decision in (d for g in groups for d in g.decisions):
        place[decision.node] = len(arrays)
        arrays.append((decision.node.dtype, decision.node.numel))
    names = _Names()
    groups = [g for g in groups if g.decisions[0].node.numel]
    steps = [_step([d.node for d in g.decisions], place, names) for g in groups]
    outputs = tuple(place[r] if r in place else _leaf_slot(r) for r in roots)
    blocks, sizes = _plan_memory(arrays, len(inputs), steps, outputs)
    return Schedule(tuple(arrays), len(inputs), tuple(steps), outputs, blocks, sizes,
                    tuple(d for g in groups for d in g.decisions), tuple(g.saved for g in groups))


def _leaf_slot(node: Node) -> int:
    while node.op is Op.RESHAPE:
        node = node.src[0]
    slot: int = node.arg.slot
    return slot


class _Names:
    """Kernel names: what the kernel does and its (first output's) sizes, numbered where that
    repeats."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[tuple[Node, ...], tuple[tuple[DType, int], ...]], Kernel] = {}
        self.taken: dict[str, int] = {}

    def kernel(self, outputs: tuple[Node, ...], inputs: tuple[tuple[DType, int], ...],
               where: Location | None) -> Kernel:
        """The kernel of these expressions; equal expressions over equal inputs share one."""
        key = (outputs, inputs)
        if key not in self.kernels:
            reduced = [n for n in toposort(outputs) if n.op is Op.REDUCE]
            sizes = [*outputs[0].shape]
            sizes += [r.src[0].shape[a] for r in reduced[-1:] for a in r.arg[1]]
            name = "_".join(["reduce" if reduced else "map", *(str(n) for n in sizes if n != 1)])
            count = self.taken[name] = self.taken.get(name, 0) + 1
            name = name if count == 1 else f"{name}_n{count}"
            self.kernels[key] = Kernel(name, outputs, inputs, where)
        return self.kernels[key]


def _step(nodes: Sequence[Node], place: dict[Node, int], names: _Names) -> Step:
    """The step that computes some stored nodes from inputs and other stored nodes.

    What one of them reads of another is that one's expression, so no kernel reads what it writes.
    """
    slots: dict[int, int] = {}
    types: list[tuple[DType, int]] = []

    def argument(array: int, leaf: Node) -> Node:
        if array not in slots:
            slots[array] = len(nodes) + len(slots)
            types.append((leaf.dtype, leaf.numel))
        return make(Op.BUFFER, leaf.dtype, (), Slot(slots[array], leaf.numel))

    read = place.keys() - set(nodes)
    memo: dict[Node, Node] = {}
    for n in toposort(nodes, lambda n: () if n in read else n.src):
        if n in read:
            flat = argument(place[n], n)
            memo[n] = make(Op.RESHAPE, n.dtype, (flat,), n.shape) if n.shape != flat.shape else flat
        elif n.op is Op.BUFFER:
            memo[n] = argument(n.arg.slot, n)
    bodies = [n.src[0] if n.op is Op.CONTIGUOUS else n for n in nodes]
    outputs = [reshape(n, nodes[0].shape) for n in rewrite(bodies, lambda n: None, memo)]
    kernel = names.kernel(tuple(outputs), tuple(types), nodes[0].where)
    return Step(kernel, (*(place[n] for n in nodes), *slots))


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


