"""The scheduler: which values of a graph are stored to memory, and the kernels that compute them.

In: a graph whose BUFFER leaves have Slot arguments (realize.py numbers them). Out: a `Schedule`, whose
steps are kernels over numbered arrays. Everything is deterministic: same graph, same steps, same names.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyten.dtype import DType
from lazyten.kernel import Kernel, Slot
from lazyten.node import Node, make, rewrite, toposort
from lazyten.ops import Op


@dataclass(frozen=True, slots=True)
class Step:
    """Run `kernel` on arrays `args` (outputs first); or copy args[1] to args[0] if there is none."""

    kernel: Kernel | None
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Arrays 0..inputs-1 are given; the steps make the rest, `outputs` among them."""

    arrays: tuple[tuple[DType, int], ...]
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


def schedule(roots: Sequence[Node], inputs: Sequence[tuple[DType, int]]) -> Schedule:
    """Steps that compute `roots`, whose leaves are BUFFER(Slot(i)) for input i."""
    stored = _stored(roots)
    arrays = list(inputs)
    place: dict[Node, int] = {}
    for node in stored:
        place[node] = len(arrays)
        arrays.append((node.dtype, node.numel))
    steps = [_step(node, place, i) for i, node in enumerate(stored)]
    outputs = tuple(place[r] if r in place else _leaf(r).arg.slot for r in roots)
    return Schedule(tuple(arrays), len(inputs), tuple(steps), outputs)


def _leaf(node: Node) -> Node:
    """The BUFFER that a node merely reshapes, or the node."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node


def _stored(roots: Sequence[Node]) -> list[Node]:
    wanted = set(roots)
    for node in toposort(roots):
        if node.op is Op.CONTIGUOUS:
            wanted.add(node)
    return [n for n in toposort(roots) if n in wanted and _leaf(n).op is not Op.BUFFER]


def _step(node: Node, place: dict[Node, int], number: int) -> Step:
    """The kernel that computes one stored node from inputs and other stored nodes."""
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
            memo[n] = make(Op.RESHAPE, n.dtype, (argument(place[n], n),), n.shape)
        elif n.op is Op.BUFFER:
            memo[n] = argument(n.arg.slot, n)
    body = node.src[0] if node.op is Op.CONTIGUOUS else node
    output = rewrite([body], lambda n: None, memo)[0]
    kernel = Kernel(f"k{number}", (output,), tuple(types), node.where)
    return Step(kernel, (place[node], *slots))
