"""Steps of a schedule: each kernel's expression over its own arguments, and its name.

In: a group of values that one kernel computes (fusion.py), and the array of each stored value. Out:
a `Step`. schedule.py calls this.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, make, reshape, rewrite, toposort
from lazyten.ir.ops import Op
from lazyten.schedule.fusion import FusedKernel
from lazyten.schedule.offsets import without_offsets
from lazyten.support.location import Location


@dataclass(frozen=True, slots=True)
class Step:
    """Run `kernel` on arrays `args`, outputs first. offsets: how many bytes of each come before the
    element that the kernel takes for its first."""

    kernel: Kernel
    args: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def writes(self) -> tuple[int, ...]:
        """The arrays that it makes."""
        return self.args[:len(self.kernel.outputs)]

    @property
    def reads(self) -> tuple[int, ...]:
        """The arrays that must be there before."""
        return self.args[len(self.kernel.outputs):]


class Repeat(NamedTuple):
    """Rounds of steps, alike but for their offsets, each of which grows by as much in each round:
    `steps` of them from the step of number `step` on, in `launches` from `launch` on."""

    step: int
    steps: int
    launch: int
    launches: int
    rounds: int


class Names:
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


def make_step(group: FusedKernel, place: Mapping[Node, int], names: Names, offsets: bool,
              alignment: int, loose: Collection[int] = ()) -> Step:
    """The step that computes some stored nodes from inputs and other stored nodes. loose: arrays
    that may start at any element.

    What one of them reads of another is that one's expression, so no kernel reads what it writes.
    What it holds is a CONTIGUOUS in its expression.
    """
    nodes = [d.node for d in group.stored]
    slots: dict[int, int] = {}
    types: list[tuple[DType, int]] = []

    def argument(array: int, leaf: Node) -> Node:
        if array not in slots:
            slots[array] = len(nodes) + len(slots)
            types.append((leaf.dtype, leaf.numel))
        return make(Op.BUFFER, leaf.dtype, (), Slot(slots[array], leaf.numel))

    own = {place[n] for n in nodes}
    held = {place[d.node]: d.node for d in group.held}

    def is_read(n: Node) -> bool:
        array = place.get(n)
        return array is not None and array not in own and array not in held
    memo: dict[Node, Node] = {}
    for n in toposort(nodes, lambda n: () if is_read(n) else n.src):
        if is_read(n):
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
    unaligned = tuple(slot for array, (slot, start) in zip(
        slots, enumerate(later, len(nodes)), strict=True) if start % alignment or array in loose)
    kernel = names.kernel(tuple(outputs), tuple(types), nodes[0].where, unaligned)
    return Step(kernel, (*(place[n] for n in nodes), *slots), (*(0 for _ in nodes), *later))
