"""A graph that is about to be computed: what it is besides the memory that it reads, and that.

In: the nodes that somebody wants. Out: the structure of all that they are computed of, buffers
numbered in visit order, so that graphs of one structure have one plan.
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from lazyten.execution.plans.checks import index_checks, reach
from lazyten.execution.plans.narrowing import check_narrows, narrow, storable
from lazyten.ir import collective as ir_collective
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, is_alias, make, rebuild, toposort
from lazyten.ir.ops import SHARING_OPS, STEERING_OPS, Op
from lazyten.ir.scan import plain
from lazyten.schedule.deciding import read_again
from lazyten.storage.device import executor
from lazyten.storage.storage import REALIZED, Buffer

NO_KERNELS = SHARING_OPS | {Op.COPY, Op.COLLECTIVE}
"""What no kernel computes."""


class Graph:
    """A graph about to be computed: its structural key and the buffers it reads, in visit order.

    copies: what it reads from other devices and is not here yet; there is no key until it is.
    collectives: those that are to be carried out, in order; numbered: their arguments here.
    is_joint: whether ranks compute it together, by collectives or as they share it out. The
    nodes that only steer gradients are passed over, and a node whose value is in memory is replaced
    by a read of it (unless a graph is wanted that does not depend on what was computed before).
    checked: more roots, after the others, tell how far out the index of each of `checks` reaches.
    reading: the nodes that are not made of constants alone.
    """

    def __init__(self, roots: Sequence[Node], device: str, use_realized: bool = True,
                 checked: bool = False) -> None:
        self.roots, self.device = roots, device
        self.realized: Mapping[Node, Node] = REALIZED[device] if use_realized else {}
        self.passed: dict[Node, Node] = {}
        seen: set[Node] = set()
        self.order = toposort(roots, self._sources, seen)
        self.checks = index_checks(self.order) if checked else []
        if self.checks:
            looked_at = list(map(reach, self.checks))
            self.roots = [*roots, *looked_at]
            self.order += toposort(looked_at, self._sources, seen)
        outside = [n for n in self.order if n.op in NO_KERNELS and n not in self.passed]
        self.copies = [n for n in outside if n.op is Op.COPY]
        self.collectives = ir_collective.collectives(outside)
        self.numbered = {n: n.arg.numbered(i) for i, n in enumerate(self.collectives)}
        self.is_joint = any(n.op is not Op.COPY for n in outside)
        self.buffers: list[Buffer] = []
        self.reading: set[Node] = set()
        self.key: Hashable = None if self.copies else self._structure()

    def _structure(self) -> Hashable:
        """What is equal for graphs that differ in nothing but which buffers they read."""
        numbers: dict[Node, int] = {}
        entries: list[Hashable] = []
        passed, reading, buffer, constant = self.passed, self.reading, Op.BUFFER, Op.CONST
        for node in self.order:
            if node in passed:
                numbers[node] = numbers[passed[node]]
                if passed[node] in reading:
                    reading.add(node)
                continue
            numbers[node] = len(entries)
            op, arg = node.op, node.arg
            if op is buffer or not reading.isdisjoint(node.src):
                reading.add(node)
            if op is buffer:
                self.buffers.append(arg)
                arg = (len(self.buffers), arg.size)
            elif op is constant:
                arg = (repr(node.value), node.shape)
            elif op is Op.COLLECTIVE:
                arg = self.numbered[node]
            elif op is Op.OWN:
                arg = arg.plain()
            entries.append((op, node.dtype, arg, tuple([numbers[s] for s in node.src])))
        return tuple(entries), tuple([numbers[r] for r in self.roots])

    def _sources(self, node: Node) -> tuple[Node, ...]:
        """What a node reads; notes the node that is read in its place, if one is."""
        if node.op is Op.BUFFER:
            return ()
        if node.op is Op.JOINED:  # another rank may have dropped the whole: all make it again
            return node.src
        found = self.realized.get(node)
        if found is None and (node.op in STEERING_OPS or is_alias(node)):
            found = node.src[0]
        if found is None or found is node:
            return () if node.op is Op.COPY else node.src
        self.passed[node] = found
        return (found,)

    def read_again(self) -> list[Node]:
        """What must be stored as a later graph may read it, and must find the same bits."""
        known = self.passed, self.passed.values(), self.reading, self.checks
        return storable(read_again(self.order, self.roots, known), self.device)

    @property
    def inputs(self) -> list[tuple[DType, int]]:
        """The type and size of each buffer."""
        return [(b.dtype, b.size) for b in self.buffers]

    def normalized(self) -> list[Node]:
        """The roots over BUFFER(Slot) leaves, without the nodes that were passed over; without
        float64 where the device has none. DTypeError where it takes float64."""
        memo: dict[Node, Node] = {}
        anew = rebuild
        if dt.float64 not in executor(self.device).dtypes:
            check_narrows([n for n in self.order if n not in self.passed], self.device)
            anew = narrow
        count = 0
        for node in self.order:
            if node in self.passed:
                memo[node] = memo[self.passed[node]]
            elif node.op is Op.BUFFER:
                memo[node] = make(Op.BUFFER, node.dtype, (), Slot(count, node.arg.size))
                count += 1
            elif node.op is Op.SCAN:
                memo[node] = make(Op.SCAN, node.dtype, tuple(memo[s] for s in node.src),
                                  plain(node.arg), node.place)
            elif node.op is Op.COLLECTIVE:
                memo[node] = make(Op.COLLECTIVE, node.dtype, tuple(memo[s] for s in node.src),
                                  self.numbered[node], node.place)
            elif node.op is Op.OWN:
                memo[node] = make(Op.OWN, node.dtype, tuple(memo[s] for s in node.src),
                                  node.arg.plain(), node.place)
            else:
                memo[node] = anew(node, tuple(memo[s] for s in node.src))
        return [memo[r] for r in self.roots]
