"""This rank's part of each node, and the collectives between parts and wholes."""
from __future__ import annotations

from dataclasses import dataclass, field

from lazyten.ir.collective import Collective, Group
from lazyten.ir.node import Node, cast, expand, make, move, rebuild, reshape
from lazyten.ir.ops import Op
from lazyten.sharding.choosing import Splits
from lazyten.sharding.splits import Split

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
        if split is None:
            self.wholes[node] = rebuild(node, tuple([self.whole(s) for s in node.src]))
            return
        made = split.local([self.whole(s) if axis is None or i == split.base
                            else self._part(s, axis)
                            for i, (s, axis) in enumerate(zip(node.src, split.takes, strict=True))])
        if split.combiner is None:
            self.parts[node] = made
        else:
            self.wholes[node] = self._summed(node, split, made)

    def whole(self, node: Node) -> Node:
        """All of a node."""
        if node not in self.wholes:
            self.wholes[node] = self._joined(node)
        return self.wholes[node]

    def _part(self, node: Node, axis: int) -> Node:
        """This rank's part of an axis."""
        split = self.splits.get(node)
        if split is not None and split.axis == axis:
            return self.parts[node]
        length = node.shape[axis] // self.group.size
        if node.op is Op.EXPAND and node.src[0].shape[axis] == 1:
            shape = tuple(length if i == axis else n for i, n in enumerate(node.shape))
            return expand(self.whole(node.src[0]), shape)
        first = self.group.rank * length
        bounds = tuple((first, first + length) if i == axis else (0, n)
                       for i, n in enumerate(node.shape))
        return move(Op.SHRINK, self.whole(node), bounds, node.place)

    def _joined(self, node: Node) -> Node:
        """The parts of all ranks; of what is whole before, that."""
        if node.op is Op.SHARD:
            return self.whole(node.src[0])
        if node.op is Op.EXPAND:
            return expand(self.whole(node.src[0]), node.shape)
        axis, part = self.splits[node].axis, self.parts[node]
        assert axis is not None
        rows = self._collective("all_gather", part, node)
        order = list(range(1, len(rows.shape)))
        order.insert(axis, 0)
        return reshape(move(Op.PERMUTE, rows, tuple(order)), node.shape)

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
