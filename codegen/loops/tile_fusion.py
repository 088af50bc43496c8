"""Kernels that hold values a block of rows at a time, instead of storing all of them.

In: a kernel whose expression has CONTIGUOUS nodes with an argument (axes, rows): `rows` steps of
the last of so many leading axes (not counting those of size 1), which all its values and outputs
have in common, are a block. Out: a SINK for each such value, which fills its scratch array for one
block, and one for the outputs. The ranges of the blocks are 'parallel' from the start, and equal in
all of them: no part makes vectors or tiles of them, and one function runs all parts for a block.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from lazyten.codegen.loops.lower import Lowering
from lazyten.codegen.loops.ranges import OUTERMOST, minimum, replace_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.kernel import Kernel, held_values
from lazyten.ir.node import Node, elementwise, index, make
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.index_moves import flatten
from lazyten.symbolic.simplify import simplify, simplify_all


class Blocks(NamedTuple):
    """A kernel in parts, in the order to run them for each block.

    ranges: the loops over blocks; number: of blocks. held: bytes of each value's scratch array for
    one block, in the order of their arguments.
    """

    parts: tuple[Node, ...]
    ranges: tuple[Node, ...]
    number: int
    held: tuple[int, ...]


def lower_blocks(kernel: Kernel, scratch: int) -> Blocks:
    """The parts of a kernel that holds values, in arguments `scratch` and so on."""
    held = held_values(kernel.outputs)
    axes = min(n.arg[0] for n in held)
    rows = min(n.arg[1] for n in held)
    sizes = _long(kernel.outputs[0].shape)[:axes]
    row = _range((axes - 1,), sizes[-1], "loop")
    outer = [_range((OUTERMOST, a), n, "parallel") for a, n in enumerate(sizes[:-1])]
    block = _range((OUTERMOST, axes - 1), -(-sizes[-1] // rows), "parallel")
    inner = _range((axes - 1,), rows, "loop")
    lowering = _Blocked(held, scratch, (*outer, row), inner)
    sinks = [lowering.part([lowering.hold(n)]) for n in held]
    sinks.append(lowering.part([lowering.store(slot, n) for slot, n in enumerate(kernel.outputs)]))
    start = elementwise(Op.MUL, block, index(rows))
    if sizes[-1] % rows:
        start = minimum(start, index(sizes[-1] - rows))
    here = {row: simplify(elementwise(Op.ADD, start, inner))}
    return Blocks(tuple(replace_ranges(s, here, {}) for s in sinks),
                  tuple(r for r in (*outer, block) if r.op is Op.RANGE),
                  math.prod(sizes[:-1]) * -(-sizes[-1] // rows),
                  tuple(n.dtype.itemsize * lowering.size(n) for n in held))


class _Blocked(Lowering):
    """Lowers a part: a value that another part holds is read from its scratch array.

    shared: the ranges of the axes in common; the last of them is that of the rows, of which
    `inner` counts those of a block.
    """

    def __init__(self, held: Sequence[Node], scratch: int, shared: tuple[Node, ...],
                 inner: Node) -> None:
        super().__init__()
        self.slots = {n: scratch + i for i, n in enumerate(held)}
        self.shared, self.inner = shared, inner

    def part(self, stores: Sequence[Node]) -> Node:
        """The SINK of these stores."""
        return make(Op.SINK, dt.bool_, tuple(simplify_all(stores)))

    def hold(self, node: Node) -> Node:
        """The STORE of a held value's block."""
        indices = self._indices(node)
        value = self.value((node.src[0], indices, None))
        return make(Op.STORE, dt.bool_, (self._param(node), self._place(node, indices), value))

    def store(self, slot: int, node: Node) -> Node:
        """The STORE of an output."""
        indices = self._indices(node)
        param = make(Op.PARAM, node.dtype, (), Param(slot, node.numel))
        place = flatten(node.shape, indices)
        return make(Op.STORE, dt.bool_, (param, place, self.value((node, indices, None))))

    def size(self, node: Node) -> int:
        """Elements of a held value in one block."""
        rows: int = self.inner.arg.extent if self.inner.op is Op.RANGE else 1
        return rows * math.prod(_long(node.shape)[len(self.shared):])

    def leaf(self, node: Node, indices: tuple[Node, ...]) -> Node | None:
        """A LOAD of a held value; None for other nodes."""
        if node not in self.slots:
            return None
        return make(Op.LOAD, node.dtype, (self._param(node), self._place(node, indices)))

    def _param(self, node: Node) -> Node:
        return make(Op.PARAM, node.dtype, (), Param(self.slots[node], self.size(node), held=True))

    def _indices(self, node: Node) -> tuple[Node, ...]:
        axes = [a for a, n in enumerate(node.shape) if n != 1]
        own = dict(zip(axes, self.shared, strict=False))
        own |= {a: _range((len(self.shared) + a,), node.shape[a], "loop")
                for a in axes[len(self.shared):]}
        return tuple(own.get(a, index(0)) for a in range(len(node.shape)))

    def _place(self, node: Node, indices: tuple[Node, ...]) -> Node:
        """The position in a block of a held value."""
        kept = [(n, i) for n, i in zip(node.shape, simplify_all(indices), strict=True) if n != 1]
        count = len(self.shared)
        if [i for _, i in kept[:count]] != list(self.shared):
            raise InternalError(f"{node} is read at other rows than those of a block")
        sizes, inside = zip((self.size(node), self.inner), *kept[count:], strict=True)
        return flatten(sizes, inside)


def _range(order: tuple[int, ...], extent: int, kind: str) -> Node:
    return index(0) if extent == 1 else make(Op.RANGE, dt.INDEX, (), Range(order, extent, kind))


def _long(shape: Sequence[int]) -> list[int]:
    return [n for n in shape if n != 1]
