"""STAGE: copy an operand to scratch memory in a layout of its own, once, before the kernel's loops.

A load whose lanes are far apart (its vector axis has another stride than 1) costs a memory access
a lane, each time. Where it is repeated often, optimize has it packed: every element once, the
vector axis innermost, so that a vector of lanes is one access. Packing is a function of its own in
the program; its loops are optimized like any other's.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lazyten import dtype as dt
from lazyten.affine import affine
from lazyten.node import Node, Param, Range, elementwise, index, make, rewrite, substitute
from lazyten.ops import Op
from lazyten.simplify import simplify


@dataclass(frozen=True, slots=True)
class Staged:
    """What is to be packed: `load`, with `vector` innermost."""

    load: Node
    vector: Node


def is_packable(load: Node) -> bool:
    """Whether a LOAD reads no element twice as its ranges run: packing then copies each once."""
    terms, _ = affine(load.src[1])
    if len(load.src) > 2 or not terms or any(t.op is not Op.RANGE for t in terms):
        return False
    reach = 1
    for r, stride in sorted(terms.items(), key=lambda t: abs(t[1])):
        if abs(stride) < reach:
            return False
        reach = abs(stride) * r.arg.extent
    return True


def packed_size(load: Node) -> int:
    """How many elements a packable load reads."""
    size = 1
    for r in affine(load.src[1])[0]:
        size *= r.arg.extent
    return size


def stage(sink: Node, staged: Sequence[Staged], first_slot: int) -> tuple[list[Node], Node]:
    """(a SINK for each operand that fills its scratch array, the kernel's SINK reading those).

    Scratch arrays are the arguments `first_slot` onwards.
    """
    fills: list[Node] = []
    packed: dict[Node, Node] = {}
    for number, s in enumerate(staged):
        terms = affine(s.load.src[1])[0]
        ranges = sorted((r for r in terms if r is not s.vector), key=lambda r: r.arg.order)
        ranges.append(s.vector)
        scratch = make(Op.PARAM, s.load.dtype, (), Param(first_slot + number, packed_size(s.load)))
        packed[s.load] = make(Op.LOAD, s.load.dtype, (scratch, _position(ranges)))
        fresh = {r: make(Op.RANGE, dt.INDEX, (), Range((i,), r.arg.extent, "loop"))
                 for i, r in enumerate(ranges)}
        source, = substitute([s.load], fresh)
        position = _position([fresh[r] for r in ranges])
        fills.append(make(Op.SINK, dt.bool_, (make(Op.STORE, dt.bool_,
                                                   (scratch, position, source)),)))
    return fills, rewrite([sink], lambda n: None, packed)[0] if packed else sink


def _position(ranges: Sequence[Node]) -> Node:
    """The row-major position of loop variables."""
    position = index(0)
    for r in ranges:
        scaled = elementwise(Op.MUL, position, index(r.arg.extent))
        position = elementwise(Op.ADD, scaled, r)
    return simplify(position)
