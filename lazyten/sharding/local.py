"""This rank's part of each node, and the collectives between parts and wholes."""
from __future__ import annotations

from dataclasses import dataclass, field

from lazyten.ir.collective import Collective, Group, divided
from lazyten.ir.node import Node, cast, const, expand, make, move, rebuild, reshape
from lazyten.ir.ops import SHARING_OPS, Op
from lazyten.ir.scan import packed, part
from lazyten.sharding.choosing import Splits
from lazyten.sharding.splits import Cut, Split

LABEL = "for lt.shard, whose values all ranks look at alike"
_REDUCTIONS = {Op.ADD: "sum", Op.MAX: "max"}


@dataclass(slots=True)
class Local:
    """What a rank of a group computes for nodes of a graph. device: where; serial: the number of
    the next collective. parts, wholes: what is made so far, by the graph's nodes."""

    group: Group
    splits: Splits
    device: str
    serial: int
    parts: dict[Node, Node] = field(default_factory=dict)
    wholes: dict[Node, Node] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        """Make a node, whose sources are made."""
        split = self.splits.get(node)
        if split is None and node.op in SHARING_OPS and node.arg.group == self.group:
            self.wholes[node] = self._said(node)
            return
        if split is None:
            self.wholes[node] = rebuild(node, tuple([self.whole(s) for s in node.src]))
            return
        made = split.local([self.whole(s) if cut is None else self._part(s, cut)
                            for s, cut in zip(node.src, split.takes, strict=True)])
        if split.combiner is None:
            self.parts[node] = made
        else:
            self.wholes[node] = self._summed(node, split, made)

    def _said(self, node: Node) -> Node:
        """Of a node that says how these ranks share a value out, and that they do not compute
        apart: what it stands for."""
        if node.op is Op.SHARD or node.arg.axis is None:
            return self.whole(node.src[0])
        cut = Cut(node.arg.axis)
        return self._part(node.src[0], cut) if node.op is Op.OWN else \
            self._gathered(self.whole(node.src[0]), cut, node, node.shape[cut.axis])

    def whole(self, node: Node) -> Node:
        """All of a node."""
        if node not in self.wholes:
            self.wholes[node] = self._joined(node)
        return self.wholes[node]

    def _part(self, node: Node, cut: Cut) -> Node:
        """This rank's part."""
        split = self.splits.get(node)
        if split is not None and split.cut == cut:
            return self.parts[node]
        outer, n = node.shape[:cut.axis], node.shape[cut.axis]
        own_shape = divided(node.shape, cut.axis, self.group.size)
        if node.op is Op.EXPAND and node.src[0].shape[cut.axis] == 1:
            return expand(self.whole(node.src[0]), own_shape)
        if node.op is Op.CONST:
            return const(node.value, node.dtype, own_shape)
        if not cut.divides(node.shape, self.group.size):
            return self._uneven_part(node, cut.axis)
        shape = (*outer, cut.before, n // cut.before, *node.shape[cut.axis + 1:])
        length = n // cut.before // self.group.size
        first = self.group.rank * length
        bounds = tuple((first, first + length) if i == cut.axis + 1 else (0, n)
                       for i, n in enumerate(shape))
        own = move(Op.SHRINK, reshape(self.whole(node), shape), bounds, node.place)
        return reshape(own, own_shape)

    def _uneven_part(self, node: Node, axis: int) -> Node:
        """This rank's part of an axis that is no multiple of the ranks. Where that is nothing, it
        is made of what is there, so that all ranks need the same of each other."""
        n, own = node.shape[axis], divided(node.shape, axis, self.group.size)
        first = self.group.rank * own[axis] if self.group.rank * own[axis] < n else 0
        end = min(first + own[axis], n)
        cut = move(Op.SHRINK, self.whole(node), tuple(
            [(first, end) if i == axis else (0, m) for i, m in enumerate(node.shape)]), node.place)
        return move(Op.PAD, cut, tuple([(0, m - k) for m, k in zip(own, cut.shape, strict=True)]),
                    node.place)

    def _joined(self, node: Node) -> Node:
        """The parts of all ranks; of what is whole before, that."""
        if node.op is Op.SHARD:
            return self.whole(node.src[0])
        if node.op is Op.EXPAND:
            return expand(self.whole(node.src[0]), node.shape)
        cut, own = self.splits[node].cut, self.parts[node]
        assert cut is not None
        if node.op is Op.SCAN:
            return packed([self._gathered(part(own, own.arg, i, (n.numel,)), Cut(1), node,
                                          n.numel * self.group.size)
                           for i, n in enumerate(own.arg.outputs)], node.arg)
        return self._gathered(own, cut, node, node.shape[cut.axis])

    def _gathered(self, own: Node, cut: Cut, of: Node, length: int) -> Node:
        """The parts of all ranks, joined, up to a length."""
        rows, ranks = self._collective("all_gather", own, of), self.group.size
        outer, n, inner = own.shape[:cut.axis], own.shape[cut.axis], own.shape[cut.axis + 1:]
        apart = reshape(rows, (ranks, *outer, cut.before, n // cut.before, *inner))
        order = list(range(1, len(apart.shape)))
        order.insert(cut.axis + 1, 0)
        every = reshape(move(Op.PERMUTE, apart, tuple(order)), (*outer, n * ranks, *inner))
        if length == n * ranks:
            return every
        return move(Op.SHRINK, every, tuple([
            (0, length) if i == cut.axis else (0, m) for i, m in enumerate(every.shape)]), of.place)

    def _summed(self, node: Node, split: Split, made: Node) -> Node:
        """What the ranks' summands are together, and with what they are to be combined with."""
        assert split.combiner is not None
        total = cast(self._collective("all_reduce", made, node, _REDUCTIONS[split.combiner]),
                     node.dtype)
        if split.base is None:
            return total
        return make(split.combiner, node.dtype, (self.whole(node.src[split.base]), total),
                    place=node.place)

    def _collective(self, kind: str, x: Node, of: Node, reduction: str = "") -> Node:
        what = Collective(kind, self.group, self.device, reduction, serial=self.serial, label=LABEL)
        self.serial += 1
        return make(Op.COLLECTIVE, x.dtype, (x,), what, of.place)
