"""How linearize multiplies by tensor cores that read local memory by themselves, while items go on.

An iteration waits for what it reads, begins its products, starts to copy for a later iteration, and
waits for the products: they have read then what the next iteration's copies take the place of.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lazyten.codegen.instructions.accumulation import Accumulation
from lazyten.codegen.instructions.congruence import congruence_of
from lazyten.codegen.instructions.instructions import (
    Address,
    Block,
    Commit,
    Copy,
    MatrixFence,
    MatrixWait,
    Value,
)
from lazyten.codegen.instructions.memory import Memory
from lazyten.codegen.instructions.scopes import Env, assignments, sorted_unrolled
from lazyten.codegen.instructions.vector_access import MOST_BYTES
from lazyten.codegen.targets.tensor_cores import Digits, TensorCore
from lazyten.ir.arguments import LocalArray
from lazyten.ir.node import Node, index, substitute
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.affine import affine
from lazyten.symbolic.simplify import simplify


class Lines(NamedTuple):
    """Where the lines of a matrix are: elements of a swizzled row of them, and from those to the
    next ones of the same lines, whether they are along rows or columns instead of the reduction,
    the position of the first element, and how far behind it the last is."""

    width: int
    apart: int
    transposed: bool
    start: Node
    last: int


class LocalMatrices(Memory, Accumulation):
    """Emits MATRIX nodes of such tensor cores."""

    def _multiply_in_local(self, node: Node) -> None:
        """The loops of a MATRIX, with what an item holds of the result carried."""
        core: TensorCore = node.arg
        own, ranges = node.src[2:2 + len(core.c)], node.src[2 + len(core.c):]
        nest = self._nest(node, ranges)
        held, steps = assignments(own), assignments(sorted_unrolled(ranges))
        tiles = assignments(r for r in self.unrolled[node] if r not in own)
        sides = [self._descriptors(core, side, digits) for side, digits in (
            (node.src[0], core.rows), (node.src[1], core.columns))]
        transposed = [is_transposed for is_transposed, _ in sides]
        stages = [self._value(side.src[0], {}) for side in node.src[:2]]
        block = self.build.deepest(stages)
        block.items.append(MatrixFence())
        begin = len(block.items)
        found = []
        for tile in tiles:
            def products(so_far: list[Value], tile: Env = tile) -> list[Value]:
                for step in steps:
                    a, b = ([descriptor(tile | step)] for _, descriptor in sides)
                    so_far = self.build.matrix(core, a, b, so_far, transposed)
                return so_far
            found.append(self._carry(node.dtype, Op.ADD, nest, 1, products, len(held)))
        _copy_behind(block, begin)
        block.items.append(MatrixWait())
        self._close_nest(nest)
        for tile, results in zip(tiles, found, strict=True):
            for env, result in zip(held, results, strict=True):
                instance = tile | env
                self.values[node, tuple(instance[r] for r in self.unrolled[node])] = result

    def _descriptors(self, core: TensorCore, side: Node,
                     digits: Digits) -> tuple[bool, Callable[[Env], Value]]:
        """Whether an operand is transposed, and the descriptor of the matrix of an instance."""
        lines = lines_of(core, side, digits)
        if lines is None:
            raise InternalError(f"{core} reads an operand that is not in lines in local memory")
        stage = side.src[0]
        self._need(stage)
        numbers = {core.range(d) for d in (*digits, *core.inner)}
        ranges = [r for r in self.unrolled[side] if r not in numbers]
        found = {}
        for env in assignments(ranges):  # in which row a step is, is only then a sum of ranges
            start, = substitute([lines.start], {r: index(value) for r, value in env.items()})
            base, offset = self._sum(*affine(simplify(start)), env)
            address = Address(self.arrays[stage], base, offset, (0, lines.last), is_local=True)
            size = core.takes.itemsize
            found[tuple(env.values())] = self.build.matrix_descriptor(
                address, lines.width * size, lines.apart * size, self._value(stage, {}))
        return lines.transposed, lambda env: found[tuple(env[r] for r in ranges)]


def lines_of(core: TensorCore, operand: Node, digits: Digits) -> Lines | None:
    """Where an operand is that has these digits besides those of the reduction; None if it is not
    in lines in local memory."""
    if operand.op is not Op.LOAD or operand.src[0].op is not Op.STAGE or len(operand.src) > 2:
        return None
    array: LocalArray = operand.src[0].arg
    ranges = [core.range(d) for d in (*digits, *core.inner)]
    known, _ = affine(operand.src[1])
    transposed = known.get(ranges[1]) == 1
    start = simplify(substitute([operand.src[1]], {r: index(0) for r in ranges})[0])
    if not array.width or not transposed and known.get(ranges[3]) != 1 \
            or not congruence_of(start).is_multiple(MOST_BYTES // core.takes.itemsize):
        return None
    rows, depth = core.size(digits), core.size(core.inner)
    last = (rows - 1) // array.width * array.apart + (depth - 1) * array.width \
        if transposed else (rows - 1) * array.width + depth - 1
    return Lines(array.width, array.apart, transposed, start, last)


def _copy_behind(block: Block, begin: int) -> None:
    """Put the copies of a block behind the products that have begun, which do not need them."""
    late = [item for item in block.items[:begin] if isinstance(item, Copy | Commit)]
    block.items[:begin] = [item for item in block.items[:begin]
                           if not isinstance(item, Copy | Commit)]
    block.items += late
