"""Graphs of one function at several sizes as one graph, whose numbers vary.

In: the graphs that were recorded. Out: terms, which are like nodes, but a number of an argument or
a shape is what it was at each size. Where a graph lacks a movement that another one has, as it
changes nothing at that size (the padding of an even size to an even one), it is put in.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyten.ir.dtype import DType, bool_
from lazyten.ir.kernel import Slot
from lazyten.ir.movement import is_noop
from lazyten.ir.node import Node, const, elementwise
from lazyten.ir.ops import IDENTITY_OPS, MOVEMENT, Op
from lazyten.ir.scan import Body
from lazyten.onnx.writing.varying import Number, Size, Varying, VaryingFloat, size_of
from lazyten.operators.math.scans import ReversedSums
from lazyten.storage.placeholder import Placeholder
from lazyten.support.errors import LazytenError
from lazyten.support.location import Location
from lazyten.support.trees import flatten

SUMMED = ("float32", "float64", "int32", "int64")
"""Types that runtimes know CumSum of."""
ON_AXES = (Op.PERMUTE, Op.FLIP, Op.REDUCE, Op.GATHER, Op.SCATTER)
"""Ops whose arguments are axes; those of a SHEAR come first."""
IDLE = MOVEMENT | {Op.REDUCE}
"""Ops that may change nothing, and then are not there."""
Row = tuple[Node, ...]
"""One value at each size."""


@dataclass(frozen=True, eq=False)
class Term:
    """A node at all sizes. arg: as the node's, but its numbers may vary."""

    op: Op
    dtype: DType
    src: tuple[Term, ...]
    arg: Any
    shape: tuple[Size, ...]
    where: Location | None = None

    @property
    def numel(self) -> Size:
        """How many elements it has."""
        total: Size = 1
        for n in self.shape:
            total = total * n
        return total

    @property
    def value(self) -> Number:
        """The value of a CONST."""
        found: Number = self.arg[0]
        return found

    def __str__(self) -> str:
        return f"{self.op.name}{f' at {self.where}' if self.where else ''}"


@dataclass(frozen=True)
class Bodies:
    """What each step of a SCAN computes, at all sizes. starts: where each part of a row starts."""

    outputs: tuple[Term, ...]
    xs: int
    carried: int
    length: Size
    reverse: bool
    starts: tuple[Size, ...]


class Unlike(LazytenError):
    """The graphs do something else at some sizes."""

    def __init__(self, nodes: Row, words: str = "operations differ") -> None:
        places = dict.fromkeys(f"{n.op.name}{f' at {n.where}' if n.where else ''}" for n in nodes)
        super().__init__(f"{words}, {' and '.join([*places][:2])}")


class _Step(NamedTuple):
    """A row of which the sources are known, and what is made of it."""

    nodes: Row
    sources: tuple[Row, ...]
    arg: Any
    op: Op


def alike(graphs: Sequence[Sequence[Node]]) -> list[Term]:
    """The roots of graphs as terms. Unlike where they are not alike."""
    if len({*map(len, graphs)}) > 1:
        raise Unlike(tuple(g[0] for g in graphs), "it returns more tensors, or fewer")
    return _Reader().read(list(zip(*graphs, strict=True)))


class _Reader:
    def __init__(self) -> None:
        self._done: dict[Row, Term] = {}

    def read(self, roots: Sequence[Row]) -> list[Term]:
        """Terms of rows, sources first."""
        stack: list[Row | _Step] = []
        stack.extend(roots[::-1])
        while stack:
            top = stack.pop()
            if isinstance(top, _Step):
                self._done[top.nodes] = self._made(top)
            elif top not in self._done:
                step = _step(top)
                stack.append(step._replace(nodes=top))
                stack.extend(row for row in step.sources[::-1] if row not in self._done)
        return [self._done[row] for row in roots]

    def _made(self, step: _Step) -> Term:
        first, arg = step.nodes[0], step.arg
        if isinstance(arg, Body):
            arg = self._bodies([n.arg for n in step.nodes], step.nodes)
        shapes = [n.shape for n in step.nodes]
        if len({len(s) for s in shapes}) > 1:
            raise Unlike(step.nodes, "the numbers of axes differ")
        return Term(step.op, first.dtype, tuple(self._done[row] for row in step.sources), arg,
                    tuple(map(size_of, zip(*shapes, strict=True))), first.where)

    def _bodies(self, bodies: Sequence[Body], nodes: Row) -> Bodies:
        if len({(len(b.outputs), b.xs, b.carried, b.reverse) for b in bodies}) > 1:
            raise Unlike(nodes)
        outputs = _Reader().read(list(zip(*(b.outputs for b in bodies), strict=True)))
        first = bodies[0]
        return Bodies(tuple(outputs), first.xs, first.carried,
                      size_of([b.length for b in bodies]), first.reverse,
                      tuple(map(size_of, zip(*(b.starts for b in bodies), strict=True))))


def _step(nodes: Row) -> _Step:
    """What to do with a row, where that does not depend on the size."""
    step = _operation(nodes)
    fixed = step.arg[:2] if step.op is Op.SHEAR else step.arg if step.op in ON_AXES else ()
    if any(isinstance(n, Varying) for n in flatten(fixed)[0]):
        raise Unlike(nodes, "the axes differ")
    return step


def _operation(nodes: Row) -> _Step:
    """One operation, that of all nodes of a row, or the one that only some have as it changes
    nothing in the others."""
    if len({n.dtype for n in nodes}) > 1:
        raise Unlike(nodes, "the types differ")
    ops = {n.op for n in nodes}
    if ops == {Op.MUL, Op.DIV}:
        nodes = tuple(map(_divided, nodes))
        ops = {n.op for n in nodes}
    if len(ops) == 1 and nodes[0].op in IDENTITY_OPS:
        return _same(nodes)
    if len(ops) == 1:
        if len({len(n.src) for n in nodes}) > 1:
            raise Unlike(nodes)
        sources = tuple(zip(*(n.src for n in nodes), strict=True))
        return _Step(nodes, sources, _argument([n.arg for n in nodes], nodes), nodes[0].op)
    fit = [(op, args) for op in dict.fromkeys(n.op for n in nodes) if op in IDLE
           and None not in (args := [_at_rest(op, n, nodes) for n in nodes])]
    if not fit:
        return _chosen(nodes)
    op, args = min(fit, key=lambda f: (len({_below(n, f[0]).op for n in nodes}), f[0].name))
    return _Step(nodes, (tuple(_below(n, op) for n in nodes),), _argument(args, nodes), op)


def _divided(node: Node) -> Node:
    """A product with a power of two, whose inverse is exact, as the quotient that it was."""
    factor = node.src[1]
    if node.op is not Op.MUL or factor.op is not Op.CONST or math.frexp(factor.value)[0] != 0.5:
        return node
    inverse = const(1 / factor.value, node.dtype, node.shape)
    return elementwise(Op.DIV, node.src[0], inverse)


def _same(nodes: Row) -> _Step:
    """Nodes that are what they read; or sums of all elements up to each, as which these are known
    by their gradient."""
    rules = [n.arg for n in nodes]
    sums = nodes[0].dtype.name in SUMMED and all(isinstance(r, ReversedSums) for r in rules) \
        and len({*rules}) == 1
    return _Step(nodes, (tuple(n.src[1 if sums else 0] for n in nodes),),
                 rules[0] if sums else None, nodes[0].op)


def _chosen(nodes: Row) -> _Step:
    """Where some nodes choose between something and a constant, such as what is padded by, and in
    the others nothing is padded: these choose it everywhere."""
    first = next((n for n in nodes if n.op is Op.WHERE), None)
    if first is None or first.src[2].op is not Op.CONST:
        raise Unlike(nodes)
    value = first.src[2].value
    sources = [n.src if n.op is Op.WHERE else (const(True, bool_, n.shape), n, const(
        value, n.dtype, n.shape)) for n in nodes]
    return _Step(nodes, tuple(zip(*sources, strict=True)), None, Op.WHERE)


def _below(node: Node, op: Op) -> Node:
    return node.src[0] if node.op is op else node


def _at_rest(op: Op, node: Node, nodes: Row) -> Any:
    """The argument of an operation, with which it changes nothing if the node has none such; None
    where it cannot."""
    if node.op is op:
        return node.arg
    other = next(n for n in nodes if n.op is op)
    if len(other.src[0].shape) != len(node.shape):
        return None
    arg = other.arg
    if op is Op.REDUCE:
        return arg if all(node.shape[axis] == 1 for axis in arg[1]) else None
    if op in (Op.RESHAPE, Op.EXPAND):
        arg = node.shape
    elif op is Op.PAD:
        arg = tuple((0, 0) for _ in node.shape)
    elif op is Op.SHRINK:
        arg = tuple((0, n) for n in node.shape)
    elif op is Op.SHEAR:
        arg = (*arg[:4], node.shape[arg[0]])
    return arg if is_noop(op, node.shape, arg) else None


def _argument(args: Sequence[Any], nodes: Row) -> Any:
    """The arguments as one, with numbers that may vary."""
    first = args[0]
    if all(a is first for a in args) or isinstance(first, bool | Op) and len({*args}) == 1:
        return first
    if len({type(a) for a in args}) > 1 or isinstance(first, bool):
        raise Unlike(nodes)
    if isinstance(first, int):
        return size_of(args)
    if isinstance(first, float):
        return first if len({*map(repr, args)}) == 1 else VaryingFloat(tuple(args))
    if isinstance(first, Slot):
        return Slot(first.slot, 0) if len({a.slot for a in args}) == 1 else _differ(nodes)
    if isinstance(first, tuple):
        if len({len(a) for a in args}) > 1:
            raise Unlike(nodes)
        parts = [_argument(part, nodes) for part in zip(*args, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if isinstance(first, Body):
        return first
    return _memory(args, nodes)


def _memory(args: Sequence[Any], nodes: Row) -> Any:
    """Inputs of one number, or memory that has the same values."""
    first = args[0]
    if isinstance(first, Placeholder):
        return first if len({a.number for a in args}) == 1 else _differ(nodes)
    if nodes[0].op is Op.BUFFER:
        if len({n.shape for n in nodes}) > 1 or not all(hasattr(a, "serial") for a in args) \
                or not all(np.array_equal(first.numpy(), a.numpy()) for a in args[1:]):
            raise Unlike(nodes, "a tensor is made of other values at each size")
        return first
    return first if len({*args}) == 1 else _differ(nodes)


def _differ(nodes: Row) -> Any:
    raise Unlike(nodes)


def sources_first(roots: Sequence[Term]) -> Iterator[Term]:
    """All terms, each behind what it reads."""
    seen: set[Term] = set()
    stack = [(root, False) for root in roots[::-1]]
    while stack:
        term, ready = stack.pop()
        if ready:
            yield term
        elif term not in seen:
            seen.add(term)
            stack.append((term, True))
            stack += [(source, False) for source in term.src[::-1]]
