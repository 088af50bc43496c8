"""lower: a kernel's GRAPH expressions become stores of LOOP expressions over loop variables.

In: a Kernel. Out: a SINK of STOREs. A movement op disappears into index expressions, a PAD also
into the validity of the loads under it, and a REDUCE becomes an ACCUMULATE over ranges of its own.
A GATHER reads its source at an index expression with a LOAD in it, clamped so that it is inside. A
SCATTER, always the whole of a kernel, is two STOREs: its base, then its values, one by one along
its axis. Along other axes values go to places of their own, so lanes and threads may take those
loops, which are 'apart'; both STOREs share the ones before the axis.

Each (node, indices, validity) is lowered once, in two iterative steps: top-down, which index
expressions every node is read at; bottom-up, the values. The positions of a GATHER are lowered
before it says where its source is read.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.codegen.loops.ranges import minimum
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, cast, const, elementwise, index, make, toposort
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, MOVEMENT, Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.index_moves import both, every, flatten, inside, source_indices
from lazyten.symbolic.simplify import simplify, simplify_all

Reading = tuple[Node, tuple[Node, ...], Node | None]
"""A GRAPH node, an index expression an axis, and when it is read (None: always)."""

FIRST_UPDATE = 500
"""Where the numbers of a SCATTER's loops over its values start."""

FIRST_REDUCE = 1000
"""Where the numbers of reduction ranges start: they sort after every output axis."""


def lower(kernel: Kernel) -> Node:
    """The SINK node that computes and stores one element of every output of `kernel`."""
    stores = []
    lowering = Lowering()
    for slot, output in enumerate(kernel.outputs):
        base, before = (output.src[0], output.arg[0]) if output.op is Op.SCATTER else (output, 0)
        indices = tuple(output_range(axis, n, "apart" if axis < before else "loop")
                        for axis, n in enumerate(output.shape))
        value = lowering.value((base, indices, None))
        param = make(Op.PARAM, output.dtype, (), Param(slot, output.numel))
        stores.append(make(Op.STORE, dt.bool_, (param, flatten(output.shape, indices), value)))
        if output.op is Op.SCATTER:
            stores.append(lowering.update(output, param))
    return make(Op.SINK, dt.bool_, tuple(simplify_all(stores)))


def output_range(axis: int, extent: int, kind: str = "loop") -> Node:
    """The loop variable of an output axis; 0 where there is nothing to loop over."""
    if extent == 1:
        return index(0)
    return make(Op.RANGE, dt.INDEX, (), Range((axis,), extent, kind))


class Lowering:
    """The readings met so far, their values, and a count of the reduction ranges made."""

    def __init__(self) -> None:
        self.values: dict[Reading, Node] = {}
        self.reductions = 0

    def value(self, root: Reading) -> Node:
        """The LOOP expression of one reading."""
        plans: dict[Reading, tuple[list[Reading], Any]] = {}
        stack: list[tuple[Reading, bool]] = [(root, False)]
        while stack:
            reading, ready = stack.pop()
            if ready:
                below, extra = plans[reading]
                self.values[reading] = self._build(reading, [self.values[b] for b in below], extra)
            elif reading not in plans and reading not in self.values:
                positions = _positions(reading)
                if positions is not None and positions not in self.values:
                    stack += [(reading, False), (positions, False)]
                    continue
                plans[reading] = self._read(reading)
                stack.append((reading, True))
                stack.extend((b, False) for b in reversed(plans[reading][0]))
        return self.values[root]

    def update(self, node: Node, param: Node) -> Node:
        """The STORE that puts the values of a SCATTER in their places, those along its axis one
        after the other. What no loop tells apart, neither place nor value, is combined first: a
        STORE is in the loops of what it depends on."""
        base, positions, values = node.src
        axis, combiner = node.arg
        indices = tuple(output_range(a if a < axis else FIRST_UPDATE + a, n,
                                     "serial" if a == axis else "apart")
                        for a, n in enumerate(values.shape))
        position = self.value((positions, indices, None))
        position = simplify(cast(position, dt.INDEX))
        valid = every(inside(position, 0, base.shape[axis]))
        if valid is not None:
            position = elementwise(Op.WHERE, valid, position, index(0))
        place = flatten(base.shape, (*indices[:axis], position, *indices[axis + 1:]))
        value = self.value((values, indices, None))
        place, value, *gate = simplify_all((place, value, *(() if valid is None else (valid,))))
        known = set(toposort((place, value, *gate)))
        same = [r for r in indices if r.op is Op.RANGE and r not in known]
        if same and combiner in (Op.ADD, Op.MUL):
            value = self._repeated(value, same, combiner)
        return make(Op.STORE, dt.bool_, (param, place, value, *gate), combiner)

    def _repeated(self, value: Node, loops: Sequence[Node], combiner: Op) -> Node:
        """`value` combined with itself, once for each step of these loops."""
        number = FIRST_REDUCE + self.reductions
        self.reductions += 1
        ranges = [make(Op.RANGE, dt.INDEX, (), Range((number, axis), r.arg.extent, "reduce"))
                  for axis, r in enumerate(loops)]
        return make(Op.ACCUMULATE, value.dtype, (value, *ranges), combiner)

    def leaf(self, node: Node, indices: tuple[Node, ...]) -> Node | None:
        """The element of `node` at `indices`, if it is there already."""
        return None

    def _read(self, reading: Reading) -> tuple[list[Reading], Any]:
        """What a reading reads in turn, and what `_build` needs besides their values."""
        node, indices, valid = reading
        if node.numel == 0:
            return [], None  # only padding around it is ever read
        if (found := self.leaf(node, indices)) is not None:
            return [], found
        if node.op in MOVEMENT:
            return self._read_movement(reading)
        if node.op is Op.REDUCE:
            ranges = self._reduce_ranges(node)
            inner = tuple(ranges.get(axis, i) for axis, i in enumerate(indices))
            return [(node.src[0], inner, valid)], tuple(ranges.values())
        if node.op is Op.GATHER:
            return self._read_gather(reading)
        if node.op in IDENTITY_OPS or node.op is Op.CONTIGUOUS:
            return [(node.src[0], indices, valid)], None
        return [(s, indices, valid) for s in node.src], None

    def _read_movement(self, reading: Reading) -> tuple[list[Reading], Node | None]:
        """Where a movement reads its source. What is valid nowhere, as each but one of the pieces
        that joins of joins have at a place, is not followed: there are twice as many with each."""
        node, indices, valid = reading
        below, within = source_indices(node.op, node.src[0].shape, node.arg, indices)
        met = both(valid, within)
        if met is not None and met.op is Op.CONST:
            return [], const(0, node.dtype)
        return [(node.src[0], below, met)], within

    def _read_gather(self, reading: Reading) -> tuple[list[Reading], Node | None]:
        """Where a GATHER reads its source: always inside it. And the condition that it should."""
        node, indices, valid = reading
        axis = node.arg
        position = self.values[node.src[1], indices, valid]
        clamped, within = _clamped(position, node.src[0].shape[axis])
        below = (*indices[:axis], clamped, *indices[axis + 1:])
        return [(node.src[0], below, valid)], within

    def _reduce_ranges(self, node: Node) -> dict[int, Node]:
        number = FIRST_REDUCE + self.reductions
        self.reductions += 1
        sizes = node.src[0].shape
        return {axis: make(Op.RANGE, dt.INDEX, (), Range((number, axis), sizes[axis], "reduce"))
                for axis in node.arg[1]}

    def _build(self, reading: Reading, below: list[Node], extra: Any) -> Node:
        node, indices, valid = reading
        if node.numel == 0:
            return const(0, node.dtype)
        if not below and isinstance(extra, Node):
            return extra
        if node.op in ELEMENTWISE:
            return make(node.op, node.dtype, tuple(below))
        if node.op is Op.CONST:
            return const(node.value, node.dtype)
        if node.op is Op.IOTA:
            return cast(indices[0], node.dtype)
        if node.op is Op.BUFFER:
            param = make(Op.PARAM, node.dtype, (), Param(node.arg.slot, node.arg.size))
            gate = () if valid is None else (valid,)
            return make(Op.LOAD, node.dtype, (param, indices[0], *gate))
        if node.op is Op.REDUCE:
            return make(Op.ACCUMULATE, node.dtype, (below[0], *extra), node.arg[0])
        if node.op is Op.GATHER:
            zero = const(0, node.dtype)
            return below[0] if extra is None else elementwise(Op.WHERE, extra, below[0], zero)
        if node.op is Op.PAD and extra is not None and below[0].op is not Op.LOAD:
            return elementwise(Op.WHERE, extra, below[0], const(0, node.dtype))
        if node.op in MOVEMENT or node.op in IDENTITY_OPS or node.op is Op.CONTIGUOUS:
            return below[0]
        raise InternalError(f"{node.op.name} cannot be lowered")


def _clamped(position: Node, n: int) -> tuple[Node, Node | None]:
    """A computed position on an axis of size `n` as an index that is always inside, and whether it
    was (None: always)."""
    position = simplify(cast(position, dt.INDEX))
    clamped = minimum(elementwise(Op.MAX, position, index(0)), index(max(n - 1, 0)))
    return simplify(clamped), every(inside(position, 0, n))


def _positions(reading: Reading) -> Reading | None:
    """The reading of a GATHER's positions, which must be lowered first; None for other nodes."""
    node, indices, valid = reading
    return (node.src[1], indices, valid) if node.op is Op.GATHER and node.numel else None
