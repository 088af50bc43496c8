"""What the work items of a group do together: their digits, and STAGE in local memory.

A group's items are numbered 0, 1, ... Each 'local' range is a digit of that number: those of the
outputs come first, the last of them fastest, then that of a reduction, or in their place if the
reduction does not depend on them. What differs in an unused digit computes the same.
Called by optimize once ranges are split.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial, reduce

from lazyten.codegen.instructions.congruence import congruence_of
from lazyten.codegen.instructions.vector_access import (
    LEAST_COPY,
    MOST_BYTES,
    copy_widths,
    vector_widths,
    whole_accesses,
)
from lazyten.codegen.loops.packing import Staged
from lazyten.codegen.loops.ranges import free_ranges, minimum
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import LocalArray, Param, Range
from lazyten.ir.node import Node, elementwise, index, make, ranges_of, rewrite, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine
from lazyten.symbolic.index_moves import flatten
from lazyten.symbolic.simplify import simplify

LOCAL_SLOT = 1 << 20
"""From here on are the argument numbers of operands that are going to be in local memory."""
MOST_COPIES = 32
"""Instructions by which an item copies a part of an operand."""
SWIZZLED = (128, 64, 32)
"""Bytes of rows whose lines of 16 bytes change places, for tensor cores that read local memory."""
COPIES = 1 << 21
"""What the order of the ranges that copy to local memory begins with."""


@dataclass(frozen=True, slots=True)
class Group:
    """size: work items of a group, 0 where none needs another. strides: of each 'local' range, for
    linearize."""

    size: int = 0
    strides: Mapping[Node, int] = field(default_factory=dict)


def strides_of(sink: Node, local: Sequence[tuple[Node, int]], first: int = 1) -> dict[Node, int]:
    """The stride of the digit of each range that is in `local`, before anything is split; `first`:
    the least of them."""
    free = free_ranges(sink)
    found: dict[Node, int] = {}
    stride = first
    for r, n in reversed(local):
        if r in free[sink]:
            found[r] = stride
            stride *= n
    chosen = dict(local)
    for node in free:
        if node.op is Op.ACCUMULATE:
            depends = any(r in found and r.arg.kind != "reduce" for r in free[node])
            found.update({r: stride if depends else 1 for r in node.src[1:] if r in chosen})
    return found


def group_size(strides: Mapping[Node, int], local: Iterable[tuple[Node, int]]) -> int:
    """The work items of a group; 0 for no local ranges."""
    return max((strides[r] * n for r, n in local), default=0)


def group_of(sink: Node, strides: Mapping[Node, int], size: int,
             copying: Sequence[Node] = ()) -> Group:
    """The strides of the 'local' ranges that the ranges in `strides` were split for."""
    by_order = {r.arg.order: stride for r, stride in strides.items()}
    found = [r for r in ranges_of([sink]) if r.arg.kind == "local"]
    split = {r: strides.get(r) or by_order[r.arg.order[:-1]] for r in found if r not in copying}
    return Group(size, {**split, **dict.fromkeys(copying, 1)})


def marked(sink: Node, staged: Sequence[Staged]) -> Node:
    """The SINK with the operands that are going to be in local memory under other arguments."""
    others: dict[Node, Node] = {}
    for number, s in enumerate(staged):
        param = s.load.src[0]
        other = make(Op.PARAM, param.dtype, (), Param(LOCAL_SLOT + number, param.arg.size))
        others[s.load] = make(Op.LOAD, param.dtype, (other, *s.load.src[1:]))
    return rewrite([sink], lambda n: None, others)[0] if others else sink


def stage_in_local(sink: Node, staged: Sequence[Staged], inside: Set[Node], size: int,
                   swizzled: bool = False) -> tuple[Node, list[Node]]:
    """(the SINK reading what was `marked` from STAGEs, the ranges that copy).

    A STAGE holds what a group of `size` reads while all ranges stand still but for the 'local',
    'unroll' and 'vector' ones and the reduction's ranges `inside`. swizzled: it is in rows as
    tensor cores want them that read local memory by themselves.
    """
    found: dict[Node, Node] = {}
    copying: list[Node] = []
    nests = _nests(sink)
    for load in toposort([sink]):
        number = load.src[0].arg.slot - LOCAL_SLOT if load.op is Op.LOAD else -1
        if number >= 0:
            chosen = staged[number]
            ahead = _loop_around(load, inside, nests) if chosen.buffers > 1 else None
            layout = _Layout.of(load, inside, ahead is not None, nests, swizzled)
            source = make(Op.LOAD, load.dtype, (chosen.load.src[0], *load.src[1:]))
            stage, item = layout.filled(source, number, size)
            copying.append(item)
            place = layout.place()
            if ahead is not None:
                stage, place = in_turns(stage, place, ahead, chosen.buffers)
            found[load] = make(Op.LOAD, load.dtype, (stage, place))
    return (rewrite([sink], lambda n: None, found)[0] if found else sink), copying


def is_read_in_parts(load: Node, group: Sequence[tuple[Node, int]], sink: Node) -> bool:
    """Whether a group that takes so much of reductions at a time reads other parts by `load` as
    the loops of one of them run."""
    parts, nests = dict(group), _nests(sink)
    loops = {r for r in ranges_of(load.src[1:]) if any(r in nest for nest in nests)}
    return (any(loops <= nest for nest in nests)
            and any(parts.get(r, 1) < r.arg.extent for r in loops))


def _nests(sink: Node) -> list[frozenset[Node]]:
    """The ranges of each reduction."""
    return [frozenset(n.src[1:]) for n in toposort([sink]) if n.op is Op.ACCUMULATE]


def _loop_around(load: Node, inside: Set[Node], nests: Sequence[Set[Node]]) -> Node | None:
    """The range of the innermost loop in whose iterations a group reads other parts by `load`,
    if its loops are those of one reduction."""
    loops = {r for r in ranges_of(load.src[1:])
             if r.arg.kind in ("reduce", "block") and r not in inside}
    if not any(loops <= nest for nest in nests):
        return None
    return max(loops, key=lambda r: r.arg.order, default=None)


def in_turns(stage: Node, place: Node, ahead: Node, buffers: int) -> tuple[Node, Node]:
    """(the STAGE with an array for each of so many iterations of `ahead`, where the elements at
    `place` are in those).

    That is software pipelining: what an iteration reads is copied `buffers` - 1 iterations before;
    or all of it before the loop, if there are arrays for all iterations.
    """
    extent = ahead.arg.extent
    buffers = buffers if buffers < extent else extent + 1
    value, filled, *own = stage.src
    size = whole_accesses(stage.arg.size)

    def turn(number: Node) -> Node:
        return elementwise(Op.MUL, elementwise(Op.MOD, number, index(buffers)), index(size))

    def at(iteration: Node) -> list[Node]:
        pair = substitute([value, elementwise(Op.ADD, filled, turn(ahead))], {ahead: iteration})
        return [simplify(node) for node in pair]
    first = [node for i in range(buffers - 1) for node in at(index(i))]
    later = at(elementwise(Op.ADD, ahead, index(buffers - 1)))
    arg = stage.arg._replace(size=min(buffers, extent) * size, buffers=buffers)
    made = make(Op.STAGE, stage.dtype, (*first, *later, *own), arg)
    return made, simplify(elementwise(Op.ADD, place, turn(ahead)))


def _neighbours(by_source: Sequence[Node], steps: Mapping[Node, int],
                others: Sequence[Node]) -> int:
    """How many ranges, the last ones, are over neighbours in the operand. Not one of `others`: then
    the rows of a matrix that are all beside each other there are rows here, too."""
    row, run = 0, 1
    while row < len(by_source) and by_source[-1 - row] not in others \
            and steps[by_source[-1 - row]] == run:
        run *= by_source[-1 - row].arg.extent
        row += 1
    return row


def most_copies(itemsize: int) -> int:
    """How many elements of an operand an item may copy at a time: each is an instruction, but of
    16-bit ones several are copied at once."""
    return MOST_COPIES * 2 if itemsize == 2 else MOST_COPIES


def array_sizes(sink: Node, size: int) -> list[tuple[int, int, int]]:
    """For each array that a group of `size` has: the elements that an item stores, how many it
    may, and bytes."""
    order = toposort([sink])
    found = [(math.prod(r.arg.extent for r in n.src[2 * n.arg.buffers:]) // size,
              most_copies(n.dtype.itemsize), whole_accesses(n.arg.size * n.dtype.itemsize))
             for n in order if n.op is Op.STAGE]
    shared = {n.dtype for n in order if n.op is Op.ACCUMULATE
              and any(r.arg.kind == "local" for r in n.src[1:])}
    return found + [(1, 1, size * max(dtype.itemsize, 4)) for dtype in shared]


def _times(node: Node, factor: int) -> Node:
    return elementwise(Op.MUL, node, index(factor))


def _digit(node: Node, step: int, count: int) -> Node:
    """node // step % count."""
    return elementwise(Op.MOD, elementwise(Op.IDIV, node, index(step)), index(count))


@dataclass(frozen=True, slots=True)
class _Layout:
    """dims: the ranges of a tile, slowest first, as its array has them. by_source: the same, as
    they are in the operand: the last are neighbours there. row: how many of dims, the last ones,
    are a row. copied: whether it is copied without going through registers. gap: bytes between
    rows. swizzled: it is in swizzled rows, for tensor cores that read local memory."""

    dims: tuple[Node, ...]
    by_source: tuple[Node, ...]
    itemsize: int
    row: int
    copied: bool
    gap: int = MOST_BYTES
    swizzled: bool = False

    @staticmethod
    def of(load: Node, inside: Set[Node], copied: bool, nests: Sequence[Set[Node]],
           swizzled: bool) -> _Layout:
        """How the tile that `load` reads is laid out. Elements that are too small to be `copied`
        one by one are in the operand's order, and so are a tensor core's: items that read words
        of its matrices have neighbours along a row, and of a few rows of the reduction."""
        dims = [r for r in ranges_of(load.src[1:])
                if r.arg.kind in ("local", "unroll", "vector") or r in inside]
        kinds = {"reduce": 0, "unroll": 1, "local": 2, "vector": 3}
        dims.sort(key=lambda r: (kinds[r.arg.kind], r.arg.order))
        terms, _ = affine(load.src[1])
        steps = {r: abs(terms.get(r, 0)) or load.src[0].arg.size for r in dims}
        by_source = sorted(dims, key=lambda r: (-steps[r], r.arg.order))
        if swizzled:
            return _Layout.of_swizzled(by_source, steps, load.dtype.itemsize, copied)
        sides = [r for r in by_source if r.arg.kind == "vector"]  # of a tensor core's matrix
        if len(sides) > 1 or copied and load.dtype.itemsize < LEAST_COPY:
            row = _neighbours(by_source, steps, sides[:-1])
            words = load.dtype.itemsize > 2 and not any(by_source[-1] in nest for nest in nests)
            return _Layout(tuple(by_source), tuple(by_source), load.dtype.itemsize, row, copied,
                           2 * MOST_BYTES if words else MOST_BYTES)
        apart = dims.index(by_source[-1]) + 1 if dims else 0
        return _Layout(tuple(dims), tuple(by_source), load.dtype.itemsize, len(dims) - apart,
                       copied)

    @staticmethod
    def of_swizzled(by_source: Sequence[Node], steps: Mapping[Node, int], itemsize: int,
                    copied: bool) -> _Layout:
        """The layout of a tensor core that reads local memory by itself. Rows are neighbours in the
        operand, if there are such, along one side of the instruction's matrix; the other side is
        that of neighbouring lines."""
        other, last = (r for r in by_source if r.arg.kind == "vector")
        row = _neighbours(by_source, steps, [other])
        line = by_source[len(by_source) - row:] if row and by_source[-1] is last else [last]
        rest = [r for r in by_source if r is not other and r not in line]
        return _Layout((*rest, other, *line), tuple(by_source), itemsize, len(line), copied,
                       swizzled=True)

    def place(self) -> Node:
        """The position in the array, over the dims. Rows that neighbours in the operand are in are
        padded, to an odd number of elements or vectors, so that they are in different banks."""
        if not self.dims:  # one element
            return index(0)
        if self.swizzled:
            return self._swizzled_place()
        apart = len(self.dims) - self.row
        row = math.prod(r.arg.extent for r in self.dims[apart:])
        lanes = self.dims[-1].arg.extent if self.dims[-1].arg.kind == "vector" else 1
        if self.copied and self.dims[-1] is self.by_source[-1]:
            lanes = row
        gap = math.gcd(lanes, max(self.gap // self.itemsize, 1))
        if row // gap % 2 or row == 1:
            return simplify(flatten([r.arg.extent for r in self.dims], self.dims))
        sizes, parts = [r.arg.extent for r in self.dims], list(self.dims)
        rows = flatten(sizes[:apart], parts[:apart])
        columns = flatten(sizes[apart:], parts[apart:])
        return simplify(elementwise(Op.ADD, elementwise(Op.MUL, rows, index(row + gap)), columns))

    def _swizzled_rows(self) -> tuple[int, int]:
        """(elements of a row that stays together: the most of 128, 64 and 32 bytes, lines)."""
        apart = len(self.dims) - self.row
        lines, elements = (math.prod(r.arg.extent for r in part)
                           for part in (self.dims[:apart], self.dims[apart:]))
        width = next(n for n in SWIZZLED if elements * self.itemsize % n == 0) // self.itemsize
        return width, lines

    def _swizzled_place(self) -> Node:
        """The same in rows of 128, 64 or 32 bytes, one of each line, then their next ones. Lines
        of 16 bytes in a row change places by the number of the 128 bytes that it is in, as the
        tensor core has it: bits 4 to 6 of an address are those and bits 7 to 9, without carry."""
        apart = len(self.dims) - self.row
        sizes, parts = [r.arg.extent for r in self.dims], list(self.dims)
        line, element = (flatten(sizes[part], parts[part])
                         for part in (slice(apart), slice(apart, None)))
        width, lines = self._swizzled_rows()
        chunk = MOST_BYTES // self.itemsize
        count = width // chunk
        number = _digit(element, chunk, count)
        turn = _digit(line, SWIZZLED[0] // (width * self.itemsize), count)
        swapped = [_times(_digit(elementwise(
            Op.ADD, _digit(number, 1 << bit, 2), _digit(turn, 1 << bit, 2)), 1, 2), chunk << bit)
            for bit in range(count.bit_length() - 1)]
        terms = [_times(elementwise(Op.IDIV, element, index(width)), width * lines),
                 _times(line, width), *swapped, elementwise(Op.MOD, element, index(chunk))]
        return simplify(reduce(partial(elementwise, Op.ADD), terms))

    def filled(self, source: Node, number: int, size: int) -> tuple[Node, Node]:
        """(a STAGE that all items of a group fill, neighbours in the operand by neighbours, the
        range over the items). Where that is one access, each item copies several neighbours."""
        width = self._together(source, size)
        total = math.prod(r.arg.extent for r in self.dims) // width
        count = -(-total // size)
        item = make(Op.RANGE, dt.INDEX, (), Range((COPIES, number, 1), size, "local"))
        copy = make(Op.RANGE, dt.INDEX, (), Range((COPIES, number, 0), count, "unroll"))
        own = [copy, item] if count > 1 else [item]
        element = flatten([r.arg.extent for r in own], own)
        if total % size:
            element = minimum(element, index(total - 1))
        if width > 1:
            lane = make(Op.RANGE, dt.INDEX, (), Range((COPIES, number, 2), width, "unroll"))
            element = elementwise(Op.ADD, elementwise(Op.MUL, element, index(width)), lane)
            own.append(lane)
        digits: dict[Node, Node] = {}
        for r in reversed(self.by_source):
            digits[r] = simplify(elementwise(Op.MOD, element, index(r.arg.extent)))
            element = simplify(elementwise(Op.IDIV, element, index(r.arg.extent)))
        value, place = substitute([source, self.place()], digits)
        last, = substitute([self.place()], {r: index(r.arg.extent - 1) for r in self.dims})
        arg = LocalArray(number, int(simplify(last).value) + 1)
        if self.swizzled:
            wide, lines = self._swizzled_rows()
            size = math.prod(r.arg.extent for r in self.dims)
            arg = LocalArray(number, size, width=wide, apart=wide * lines)
        sources = (simplify(value), simplify(place), *own)
        return make(Op.STAGE, value.dtype, sources, arg), item

    def _together(self, source: Node, size: int) -> int:
        """How many neighbours in the operand one access can have, with work for all items."""
        if not self.dims:
            return 1
        position, last = source.src[1], self.by_source[-1]
        if self.copied and last is not self.dims[-1]:
            return 1
        terms, _ = affine(position)
        if len(source.src) > 2 or terms.get(last) != 1 or any(
                last in ranges_of([t]) for t in terms if t is not last):
            return 1
        start = congruence_of(substitute([position], {last: index(0)})[0])
        total = math.prod(r.arg.extent for r in self.dims)
        widths = copy_widths(self.itemsize) if self.copied else vector_widths(self.itemsize)
        return next((n for n in widths if last.arg.extent % n == 0
                     and total >= n * size and start.is_multiple(n)), 1)
