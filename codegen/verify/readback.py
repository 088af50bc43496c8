"""Integers and conditions of instructions, read back as index expressions.

In: a Function of linearize. Out: for a Value, an expression over a RANGE for each loop, digit of
the item's number and lane. Widths are forgotten where bounds show that nothing wraps; what is
loaded or computed of floats is a leaf that may have any value of its type. Called by
accesses.py, which proves with it that accesses are inside.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from lazyten.codegen.instructions.instructions import (
    Across,
    Carried,
    Compute,
    Constant,
    Function,
    Horizontal,
    Instruction,
    Lanes,
    Loop,
    Splat,
    Value,
    WorkItem,
    instructions_of,
)
from lazyten.codegen.loops.coverage import grid, values
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.node import Node, const, elementwise, index, make, ranges_of, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine, interval
from lazyten.symbolic.bounds import Interval, limits

LANE, DIGIT, COUNTER, LEAF = range(4)
"""What the orders of ranges begin with: over lanes, over a digit of items, of a loop, of what is
combined."""
INDICES = (dt.int32, dt.uint32, dt.int64, dt.uint64)

INTEGER = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.NOT, Op.IDIV, Op.MOD, Op.MAX, Op.AND, Op.OR,
                     Op.XOR, Op.SHL, Op.SHR, Op.WHERE, Op.CAST, Op.CMPLT, Op.CMPNE})

TRUNCATED = {Op.QUOTIENT: Op.IDIV, Op.REMAINDER: Op.MOD}
"""What machines have for divisions of what is not negative."""

MOST_STEPS = 1 << 16
"""Steps of ranges at which a mask is looked at."""

Part = tuple[Value, tuple[Node, ...]]
"""What is combined, and the ranges over which it is."""


class Reader:
    """Expressions of a Function's values, each made once."""

    def __init__(self, function: Function) -> None:
        self.makers: dict[Value, Instruction] = {}
        self.nodes: dict[Value, Node] = {}
        self.finals: dict[Value, tuple[Carried, Node]] = {}
        self.phis: set[Value] = set()
        for item in instructions_of(function.body):
            if isinstance(item, Loop):
                counter = _range((COUNTER, item.counter.id), item.extent)
                self.nodes[item.counter] = counter
                self.finals.update((c.final, (c, counter)) for c in item.carried)
                self.phis.update(c.phi for c in item.carried)
            elif isinstance(item, Compute | Constant | Lanes | Splat | WorkItem | Horizontal
                            | Across):
                self.makers[item.out] = item

    def node(self, value: Value) -> Node:
        """The expression of an integer or bool."""
        stack = [value]
        while stack:
            v = stack[-1]
            missing = [o for o in self._operands(v) if o not in self.nodes]
            stack += missing
            if not missing:
                self.nodes[stack.pop()] = self._made(v)
        return self.nodes[value]

    def _operands(self, value: Value) -> tuple[Value, ...]:
        item = None if value in self.nodes else self.makers.get(value)
        if isinstance(item, Splat):
            return (item.source,)
        if isinstance(item, Compute) and not any(a.dtype.is_float for a in item.args):
            return item.args
        if value.dtype in INDICES and value not in self.nodes:
            return tuple(v for v, _ in self._combined(value)[1])
        return ()

    def _made(self, value: Value) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        item = self.makers.get(value)
        if isinstance(item, Splat):
            return self.nodes[item.source]
        if isinstance(item, WorkItem):
            return _digit(item)
        if isinstance(item, Lanes):
            return lanes(item.values)
        if isinstance(item, Constant):
            return index(int(item.value)) if value.dtype in INDICES else \
                const(item.value, value.dtype)
        if isinstance(item, Compute):
            return self._operands(value) and self._computed(item) or _unknown(value)
        return self._reduced(value) or _unknown(value)

    def _reduced(self, value: Value) -> Node | None:
        """An integer that is a sum or the greatest of others, by their bounds."""
        combiner, parts = self._combined(value) if value.dtype in INDICES else (None, [])
        if not parts:
            return None
        if combiner is Op.ADD:
            found = [_sum_of(self.nodes[v], over) for v, over in parts]
            low, high = sum(i[0] for i in found), sum(i[1] for i in found)
        else:
            found = [interval(*affine(self.nodes[v])) for v, _ in parts]
            low, high = max(i[0] for i in found), max(i[1] for i in found)
        least, greatest = limits(value.dtype)
        if low < least or high > greatest:
            return None
        return elementwise(Op.ADD, _range((LEAF, value.id), high - low + 1), index(low))

    def _combined(self, value: Value) -> tuple[Op | None, list[Part]]:
        """By which op loops, lanes or items make `value`, of what."""
        item = self.makers.get(value)
        if isinstance(item, Horizontal):
            return _known(item.combiner, self._parts(item.source, item.combiner,
                                                     (_lane(item.source.lanes),)))
        if isinstance(item, Across):
            return _known(item.combiner, self._parts(item.source, item.combiner,
                                                     (_digit(item),)))
        last = value
        made: Instruction | None = item
        while last in self.finals or isinstance(made, Splat):
            last = made.source if isinstance(made, Splat) else self.finals[last][0].next
            made = self.makers.get(last)
        if value not in self.finals or not isinstance(made, Compute):
            return None, []
        return _known(made.op, self._parts(value, made.op, ()))

    def _parts(self, value: Value, combiner: Op, over: tuple[Node, ...]) -> list[Part]:
        """What loops combine, and `over` which ranges. What they carry counts where they begin."""
        parts: list[Part] = []
        stack: list[Part] = [(value, over)]
        carried = set[Value]()
        while stack:
            v, over = stack.pop()
            item = self.makers.get(v)
            if v in self.finals:
                c, counter = self.finals[v]
                stack += [(c.initial, over), (c.next, (*over, counter))]
            elif isinstance(item, Splat):
                stack.append((item.source, over))
            elif isinstance(item, Compute) and item.op is combiner:
                stack += [(a, over) for a in item.args]
            elif v not in self.phis:
                parts.append((v, over))
            elif v in carried:
                return []
            else:
                carried.add(v)
        return parts

    def _computed(self, item: Compute) -> Node | None:
        """None where it may wrap, or for an op that no index has."""
        args, op = [self.nodes[a] for a in item.args], item.op
        if op in TRUNCATED and all(interval(*affine(a))[0] >= 0 for a in args):
            op = TRUNCATED[op]
        if op not in INTEGER:
            return None
        if item.out.dtype not in INDICES:
            return make(op, item.out.dtype, tuple(args))
        if op is Op.CAST and args[0].dtype is dt.INDEX:
            made = args[0]
        elif op is Op.CAST or args[-1].dtype is dt.INDEX:
            made = make(op, dt.INDEX, tuple(args))
        else:
            return None
        low, high = interval(*affine(made))
        least, greatest = limits(item.out.dtype)
        return made if least <= low and high <= greatest else None


def _known(combiner: Op, parts: list[Part]) -> tuple[Op | None, list[Part]]:
    return (combiner, parts) if combiner in (Op.ADD, Op.MAX) else (None, [])


def _sum_of(node: Node, over: Sequence[Node]) -> Interval:
    """The interval of a sum over ranges, past the ends of which a mask may leave nothing."""
    count = math.prod(r.arg.extent for r in over)
    if node.op is Op.WHERE and node.src[2] is index(0):
        most = _most_true(node.src[0], over, count)
        low, high = interval(*affine(node.src[1]))
        return min(low * most, 0), max(high * most, 0)
    low, high = interval(*affine(node))
    return low * count, high * count


def _most_true(mask: Node, over: Sequence[Node], count: int) -> int:
    """At how many of `count` steps of ranges a mask is true at most, wherever others are."""
    if any(n.op is Op.LOAD for n in toposort([mask])):
        return count
    ranges = list(ranges_of([mask]))
    own = [r for r in ranges if r in over]
    others = [r for r in ranges if r not in over]
    steps: int = math.prod(r.arg.extent for r in own)
    if steps * math.prod(r.arg.extent for r in others) > MOST_STEPS:
        return count
    true = values(mask, grid([*others, *own])).reshape(-1, steps)
    return int(true.sum(1).max()) * (count // steps)


def _lane(count: int) -> Node:
    return _range((LANE, count), count)


def _digit(item: WorkItem | Across) -> Node:
    return _range((DIGIT, item.stride, item.extent), item.extent)


def lanes(found: tuple[int, ...]) -> Node:
    """Integers by lane."""
    lane, step = _lane(len(found)), found[1] - found[0]
    if all(b - a == step for a, b in pairwise(found)):
        return elementwise(Op.ADD, elementwise(Op.MUL, lane, index(step)), index(found[0]))
    node = index(found[-1])
    for i, value in reversed(list(enumerate(found[:-1]))):
        node = elementwise(Op.WHERE, elementwise(Op.CMPLT, lane, index(i + 1)), index(value), node)
    return node


def _range(order: tuple[int, ...], extent: int) -> Node:
    return make(Op.RANGE, dt.INDEX, (), Range(order, extent, "loop"))


def _unknown(value: Value) -> Node:
    """A leaf for any value of a type, of its own for each Value."""
    if value.dtype is dt.uint32:
        return _range((LEAF, value.id), int(dt.uint32.max) + 1)
    dtype = dt.INDEX if value.dtype in INDICES else value.dtype
    param = make(Op.PARAM, dtype, (), Param(value.id, 1))
    return make(Op.LOAD, dtype, (param, index(0)))
