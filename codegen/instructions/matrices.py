"""How linearize multiplies by tensor cores: the loops of a MATRIX, and what items hold of operands.

An operand that is in local memory may be there in rows of 16 aligned bytes. Then a warp reads it by
matrices of eight such rows: each of the first items gives the place of a row, and all get the words
that the instruction wants (MatrixLoad). What is anywhere else is read element by element.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import NamedTuple

from lazyten.codegen.instructions.accumulation import Level
from lazyten.codegen.instructions.congruence import congruence_of
from lazyten.codegen.instructions.instructions import Address, Value
from lazyten.codegen.instructions.local_matrices import LocalMatrices
from lazyten.codegen.instructions.scopes import Env, assignments, sorted_unrolled
from lazyten.codegen.instructions.vector_access import MOST_BYTES
from lazyten.codegen.targets.tensor_cores import BEFORE, BEHIND, TensorCore
from lazyten.ir.node import Node, index, ranges_of, substitute
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine

ROWS = 8
"""Of a matrix that is read at once."""
TOGETHER = (4, 2, 1)
"""Matrices that one instruction reads."""

Held = Callable[[Env], Sequence[Value]]
"""What an item holds of an operand for one instance of the instruction."""


class Rows(NamedTuple):
    """Where rows of matrices are: elements from one to the next, whether a matrix is wanted with
    rows and columns exchanged, and the position of the first row: terms and a constant."""

    step: int
    transposed: bool
    terms: dict[Node, int]
    offset: int


class Matrices(LocalMatrices):
    """Emits MATRIX nodes."""

    def _multiply(self, node: Node) -> None:
        """The loops of a MATRIX, with the elements of the result that an item holds carried."""
        self.done.add(node)
        if node.arg.is_local:
            self._multiply_in_local(node)
            return
        nest = self._nest(node, node.src[2 + len(node.arg.c):])
        self._multiply_in(nest, node)
        self._close_nest(nest)

    def _multiply_in(self, nest: Sequence[Level], node: Node,
                     factor: Callable[[Env], Value | None] | None = None) -> None:
        """What a MATRIX does in loops that are open. factor: of an element of the result, by which
        what is there is multiplied first."""
        parts, ranges = node.src[2:2 + len(node.arg.c)], node.src[2 + len(node.arg.c):]
        steps = assignments(r for r in sorted_unrolled(ranges)
                            if r.arg.order[0] not in (BEFORE, BEHIND))
        held = assignments(parts)
        tiles = assignments(r for r in self.unrolled[node] if r not in parts)
        sides = [self._operand(node.arg, side, {**tiles[0], **steps[0]}) for side in node.src[:2]]
        found = []
        for tile in tiles:
            def products(so_far: list[Value], tile: Env = tile) -> list[Value]:
                if factor is not None:
                    so_far = [self._scaled(value, factor(tile | own))
                              for value, own in zip(so_far, held, strict=True)]
                for step in steps:
                    a, b = (side(tile | step) for side in sides)
                    so_far = self.build.matrix(node.arg, a, b, so_far)
                return so_far
            found.append(self._carry(node.dtype, Op.ADD, nest, 1, products, len(held)))
        for tile, results in zip(tiles, found, strict=True):
            for own, result in zip(held, results, strict=True):
                env = tile | own
                self.values[node, tuple(env[r] for r in self.unrolled[node])] = result

    def _scaled(self, value: Value, factor: Value | None) -> Value:
        return value if factor is None else self.build.compute(Op.MUL, value.dtype, value, factor)

    def _operand(self, core: TensorCore, side: Node, outside: Collection[Node]) -> Held:
        """What an item holds of one operand, words or elements, for each assignment of the ranges
        `outside` the instruction."""
        own = [r for r in self.unrolled[side] if r not in outside]
        inside = [core.range(d) for d in core.word]
        rows = rows_of(core, side)
        if rows is None:
            self._need(side)
            return lambda tile: [self._value(side, tile | env) for env in assignments(own)]
        beside = [r for r in self.unrolled[side] if r in outside]
        within = [r for r in own if r not in inside]
        words = self._words(side, rows, assignments([*beside, *within]))
        each = len(assignments(within))
        first = {tuple(env.values()): i * each for i, env in enumerate(assignments(beside))}

        def held(tile: Env) -> Sequence[Value]:
            start = first[tuple(tile[r] for r in beside)]
            return words[start:start + each]
        return held

    def _words(self, load: Node, rows: Rows, instances: Sequence[Env]) -> list[Value]:
        """An item's word of the matrix of each instance."""
        for needed in (load.src[0], *(t for t in rows.terms if t in self.loaded)):
            self._need(needed)
        staged = self._value(load.src[0], {})
        width = MOST_BYTES // load.dtype.itemsize
        places = [self._sum(rows.terms, rows.offset, env) for env in instances]
        found: list[Value] = []
        while len(found) < len(instances):
            base, offset = places[len(found)]
            rest = _beside(places[len(found):])
            steps = next(steps for n in TOGETHER if (steps := _steps(rest[:n], n)) is not None)
            item = self.build.scale(self.build.item(1, ROWS), rows.step)
            for i, step in enumerate(steps):
                digit = self.build.item(ROWS << i, 2)
                item = self.build.add(item, self.build.scale(digit, step))
            start = item if base is None else self.build.add(item, base)
            address = Address(self.arrays[load.src[0]], start, offset, tuple(range(width)),
                              is_local=True)
            found += self.build.load_matrices(address, 1 << len(steps), rows.transposed, staged)
        return found


def rows_of(core: TensorCore, operand: Node) -> Rows | None:
    """The rows of 16 aligned bytes of an operand in local memory; None if it is not in such."""
    if not core.row or operand.op is not Op.LOAD or operand.src[0].op is not Op.STAGE \
            or len(operand.src) > 2:
        return None
    digits = [core.range(d) for d in (core.row, *core.word)]
    known, offset = affine(operand.src[1])
    row, *steps = (known.get(d, 0) for d in digits)
    terms = {t: factor for t, factor in known.items() if t not in digits}
    if any(d in ranges_of([t]) for t in terms for d in digits):
        return None
    along = [core.in_word, 1][:len(steps)]
    width = MOST_BYTES // operand.dtype.itemsize
    if steps == along:
        step, transposed = row, False
    elif row == 1 and steps == [n * steps[-1] for n in along] and core.in_word > 1:
        step, transposed = steps[-1], True
    else:
        return None
    start, = substitute([operand.src[1]], {d: index(0) for d in digits})
    aligned = step % width == 0 and congruence_of(start).is_multiple(width)
    return Rows(step, transposed, terms, offset) if aligned else None


def _beside(places: Sequence[tuple[Value | None, int]]) -> list[int]:
    """How far places are from the first, as long as they have its base."""
    base, offset = places[0]
    return [place - offset for _, place in takewhile(lambda place: place[0] == base, places)]


def _steps(places: Sequence[int], count: int) -> list[int] | None:
    """Of so many places, the first of which is 0, the step of each digit of their number; None
    where there are none."""
    if len(places) < count:
        return None
    steps = [places[1 << i] for i in range(count.bit_length() - 1)]
    sums = [sum(step for i, step in enumerate(steps) if n >> i & 1) for n in range(count)]
    return steps if sums == list(places) else None
