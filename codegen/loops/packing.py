"""STAGE: copy an operand to scratch memory in a layout of its own, once, before the kernel's loops.

A load whose lanes are far apart (its vector axis has another stride than 1) costs a memory access
a lane, each time; one whose rows are far apart may miss the cache each time. Where that is repeated
often, optimize has the operand packed: every element once, in the order in which the kernel's
loops read them. Packing is a function of its own in the program; its loops are optimized like any
other's.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.node import Node, index, make, ranges_of, rewrite, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine
from lazyten.symbolic.index_moves import flatten
from lazyten.symbolic.simplify import simplify, simplify_all


@dataclass(frozen=True, slots=True)
class Staged:
    """What is to be packed: `load`, whose lanes run along `vector` if it is a vector at all.

    number: which of the packable loads of its argument it is, 0 for the only one. local: put the
    part that a group of work items reads in its local memory instead, each time. buffers: arrays
    that take turns there, so that parts are copied while those before are worked on.
    """

    load: Node
    vector: Node | None
    number: int = 0
    local: bool = False
    buffers: int = 1


def is_packable(load: Node) -> bool:
    """Whether a LOAD reads no element twice as its ranges run: packing then copies each once."""
    if load.src[0].op is Op.PARAM and load.src[0].arg.held:
        return False  # it is not there before the loops
    if len(load.src) > 2 or is_computed(load):
        return False
    ranges = list(ranges_of(load.src[1:]))
    steps = [_steps(load.src[1], r) for r in ranges]
    reach = 0
    for found in sorted(s for s in steps if s is not None):
        if found[0] <= reach:
            return False
        reach += found[1]
    return bool(ranges) and None not in steps


def is_computed(load: Node) -> bool:
    """Whether a LOAD's position is known only in its loop nest: it is read, or it is combined over
    ranges of its own, which are none that the load depends on."""
    return any(n.op in (Op.LOAD, Op.ACCUMULATE) for n in toposort(load.src[1:]))


MOST_EVALUATED = 16
"""Extent of a range up to which an index that divides it is worked out at every step."""


def _steps(position: Node, r: Node) -> tuple[int, int] | None:
    """The least distance between two positions as `r` alone runs, and the greatest; None if that
    depends on other ranges, or is not known."""
    terms = [(t, f) for t, f in affine(position)[0].items() if r in ranges_of([t])]
    if [t for t, _ in terms] == [r]:
        stride = abs(terms[0][1])
        return stride, stride * (r.arg.extent - 1)
    if r.arg.extent > MOST_EVALUATED or any(list(ranges_of([t])) != [r] for t, _ in terms):
        return None
    at = []
    for i in range(r.arg.extent):
        values = [simplify(v) for v in substitute([t for t, _ in terms], {r: index(i)})]
        if any(v.op is not Op.CONST for v in values):  # computed of floats, which are not folded
            return None
        at.append(sum(f * int(v.value) for v, (_, f) in zip(values, terms, strict=True)))
    at.sort()
    return min(b - a for a, b in pairwise(at)), at[-1] - at[0]


def packable_loads(sink: Node) -> dict[int, list[Node]]:
    """The loads that can be packed, in visit order, by the number of the argument they read."""
    found: dict[int, list[Node]] = {}
    for node in toposort([sink]):
        if node.op is Op.LOAD and is_packable(node):
            found.setdefault(node.src[0].arg.slot, []).append(node)
    return found


def local_loads(sink: Node) -> dict[int, list[Node]]:
    """The loads that local memory can hold, in visit order, by the number of the argument."""
    found: dict[int, list[Node]] = {}
    for node in toposort([sink]):
        if node.op is Op.LOAD and not is_computed(node):
            if any(True for _ in ranges_of(node.src[1:])):
                found.setdefault(node.src[0].arg.slot, []).append(node)
    return found


def packed_size(load: Node) -> int:
    """How many elements a packable load reads."""
    return math.prod(r.arg.extent for r in ranges_of(load.src[1:]))


def mark(sink: Node, staged: Sequence[Staged], first_slot: int) -> Node:
    """The kernel's SINK reading argument `first_slot` and so on instead of what is staged.

    Positions are still those of the operand: `fill` changes them, once the loops are split.
    """
    marked: dict[Node, Node] = {}
    for number, s in enumerate(staged):
        param = s.load.src[0]
        scratch = make(Op.PARAM, param.dtype, (), Param(first_slot + number, param.arg.size))
        marked[s.load] = make(Op.LOAD, param.dtype, (scratch, *s.load.src[1:]))
    return rewrite([sink], lambda n: None, marked)[0] if marked else sink


def fill(sink: Node, staged: Sequence[Staged], first_slot: int) -> tuple[list[Node], Node]:
    """(a SINK for each operand that fills its scratch array, the kernel's SINK reading those).

    A scratch array holds the elements in the order in which the loops of the marked kernel read
    them, and 0 where a load is masked off, so that the kernel's loads need no mask.
    """
    fills: list[Node] = []
    packed: dict[Node, Node] = {}
    for load in [n for n in toposort([sink]) if n.op is Op.LOAD]:
        number = load.src[0].arg.slot - first_slot
        if not 0 <= number < len(staged):
            continue
        ranges = sorted(ranges_of(load.src[1:]), key=reading_order)
        size = math.prod(r.arg.extent for r in ranges)
        scratch = make(Op.PARAM, load.dtype, (), Param(first_slot + number, size))
        packed[load] = make(Op.LOAD, load.dtype, (scratch, position(ranges)))
        fresh = {r: make(Op.RANGE, dt.INDEX, (), Range((i,), r.arg.extent, "loop"))
                 for i, r in enumerate(ranges)}
        source = make(Op.LOAD, load.dtype, (staged[number].load.src[0], *load.src[1:]))
        value, = substitute([source], dict(fresh))
        place = position([fresh[r] for r in ranges])
        store = make(Op.STORE, dt.bool_, (scratch, place, value))
        fills.append(make(Op.SINK, dt.bool_, tuple(simplify_all([store]))))
    return fills, rewrite([sink], lambda n: None, packed)[0] if packed else sink


_INNER = {"loop": 0, "apart": 0, "parallel": 0, "serial": 0, "block": 0, "reduce": 0, "unroll": 1,
          "local": 2, "vector": 3}


def reading_order(r: Node) -> tuple[int, tuple[int, ...]]:
    """Loops from the outermost inwards, then what one iteration reads."""
    return _INNER[r.arg.kind], r.arg.order


def position(ranges: Sequence[Node]) -> Node:
    """The row-major position of loop variables."""
    return simplify(flatten([r.arg.extent for r in ranges], ranges))
