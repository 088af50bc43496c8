"""Decisions for a device of many work items: which of them share what, and what is in local memory.

In: the model of a kernel. Out: the candidate that gpu_model.py expects to take the fewest units. A
candidate is a grid over the outputs that every reduction and store depends on, and

- nothing more: an item for each output, or for a few that are neighbours, along one axis;
- a reduction, or a row, that the items of a group share; some reductions beside each other;
- a register tile for each item, and operands that a group reads often in local memory;
- tensor cores for the tiles of a warp (gpu_tensor.py).
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

from lazyten.codegen.gpu.gpu_model import GpuModel
from lazyten.codegen.gpu.gpu_tensor import BUFFERS, buffered, tensor_candidates
from lazyten.codegen.gpu.local_memory import most_copies
from lazyten.codegen.instructions.vector_access import WIDTHS
from lazyten.codegen.loops.packing import Staged, local_loads
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions, Sharing
from lazyten.codegen.model.loop_bodies import Body, Chosen
from lazyten.ir.node import Node
from lazyten.ir.ops import Op

SHAPES = ((8, 8), (4, 16), (16, 4), (8, 16), (16, 8), (16, 16), (8, 32), (32, 8), (4, 32))
"""Work items along two axes, neighbours along the second."""
STEPS = (1, 2, 4, 8)
MOST_TOGETHER = 32
"""Elements of a reduction that a group has in local memory at a time."""
MOST_BUFFERED = 8
"""Blocks that are considered with several buffers."""
ACCUMULATORS = (1, 4)
MOST_HELD = 64
"""Elements of a row that an item keeps in registers."""


def decide_grid(model: Model) -> Decisions:
    """The best candidate; the first of equals."""
    return grid_candidates(model)[0]


def grid_candidates(model: Model) -> list[Decisions]:
    """All candidates, without repetition, those first that the estimate expects to be fastest."""
    work = _Candidates(model)
    if model.updates or any(store.arg is not None or len(store.src) > 3
                            for store in model.sink.src):
        return [work.gridded(Decisions())]
    units = {decisions: work.estimate.units(decisions) for decisions in work.all()}
    if model.target.tensor_cores and not work.rest and work.most > 1:
        units |= tensor_candidates(model, work.rows, work.numbers)
    return sorted(units, key=units.__getitem__)


class _Candidates:
    """rows: output ranges that may be the grid, as no reduction is done outside them. rest: other
    output ranges."""

    def __init__(self, model: Model) -> None:
        self.model, self.estimate = model, GpuModel(model)
        self.numbers = {load: i for loads in local_loads(model.sink).values()
                        for i, load in enumerate(loads)}
        self.rows = [r for r in model.shared_outputs if all(
            any(r in other.free for other in (body, *self._around(body)))
            for body in model.reductions)]
        self.rest = [r for r in model.outputs if r not in self.rows]
        self.most = model.target.work_group if model.target.local_memory else 1

    def _around(self, body: Body) -> list[Body]:
        """The reductions in each step of which another is done again."""
        return [other for other in self.model.reductions
                if other is not body and set(other.own) & body.free]

    def gridded(self, decisions: Decisions, last: Node | None = None) -> Decisions:
        """With a grid over the blocks of the rows; `last`: the axis of neighbours."""
        taken = dict(decisions.tile), dict(decisions.local), dict(decisions.lanes)
        ranges = [r for r in self.rows
                  if r.arg.extent > math.prod(chosen.get(r, 1) for chosen in taken)]
        ranges.sort(key=lambda r: r is last)
        return replace(decisions, parallel=Sharing(tuple(ranges), 1 if ranges else 0))

    def all(self) -> Iterator[Decisions]:
        """Every candidate."""
        for last in (None, *self.rows):
            yield self.gridded(Decisions(), last)
            if last is not None:
                yield from (self.gridded(Decisions(lanes=((last, n),)), last)
                            for n in WIDTHS if last.arg.extent % n == 0)
        yield from self._shared_reductions()
        if not self.rest:
            yield from self._tiles()

    # ---- reductions and rows that a group shares ----

    def _shared_reductions(self) -> Iterator[Decisions]:
        """Groups of a power of two of items, and how many outputs are beside each other in one."""
        if not self.model.reductions:
            return
        for size in _powers(self.most, 8):
            if self.rest:
                inner = max(self.rest, key=lambda r: (r.arg.extent, r.arg.order))
                own = ((inner, size),) if inner.arg.extent >= size else ()
                yield from self._with_reductions(own, size)
                continue
            yield from self._with_reductions((), size)
            for r in self.rows:
                for beside in _powers(min(size // 2, r.arg.extent), 4):
                    yield from self._with_reductions(((r, beside),), size // beside)

    def _with_reductions(self, outputs: Chosen, most: int) -> Iterator[Decisions]:
        """The reductions that have so many elements shared by `most` items, once with one
        accumulator an item, once with several, and with neighbours where nothing is read again."""
        local, longest = list(outputs), 0
        inner = {r for r, _ in outputs if r in self.rest}
        for body in self.model.reductions:
            if inner & body.free or most < 2 or self._is_nested(body):
                continue
            r = max(body.own, key=lambda r: (self._is_dense(r), r.arg.extent), default=None)
            if r is not None and r.arg.extent >= most:
                local.append((r, most))
                longest = max(longest, r.arg.extent)
        if longest == 0:
            return
        for count in ACCUMULATORS:
            unroll = tuple((r, count) for r, n in local[len(outputs):]
                           if count > 1 and r.arg.extent >= 2 * count * n)
            if unroll or count == 1:
                yield self.gridded(Decisions(local=tuple(local), unroll=unroll))
        for count in () if self.model.reused_outputs else WIDTHS:
            lanes = tuple((r, count) for r, n in local
                          if r.arg.extent % (n * count) == 0 and self._is_vector(r, count))
            if lanes:
                yield self.gridded(Decisions(local=tuple(local), lanes=lanes))
        yield from self._held(local, len(outputs))

    def _held(self, local: Sequence[tuple[Node, int]], outputs: int) -> Iterator[Decisions]:
        """The same without loops over rows: items keep all of them in registers, so what several
        reductions and stores read and compute is read and computed once. The first `outputs` of
        `local` are no reduction's."""
        rows = [(r, n) for r, n in local if r not in self.rows]
        for width in (*WIDTHS, 1):
            counts = {r: r.arg.extent // (n * width) for r, n in rows}
            if len(rows) < 2 or width * max(counts.values()) > MOST_HELD or any(
                    r.arg.extent % (n * width) for r, n in rows):
                continue
            copies = tuple((r, count) for r, count in counts.items() if count > 1)
            reduced = {r for r, _ in local[outputs:]}
            yield self.gridded(Decisions(
                local=tuple(local), lanes=tuple((r, width) for r in counts) if width > 1 else (),
                tile=tuple((r, n) for r, n in copies if r not in reduced),
                unroll=tuple((r, n) for r, n in copies if r in reduced)))

    def _is_vector(self, r: Node, n: int) -> bool:
        """Whether some operand can be read by `n` neighbours along `r` at a time."""
        return any(access.node.op is Op.LOAD and access.together({r: n}) > 1
                   for access in self.estimate.accesses)

    def _is_nested(self, body: Body) -> bool:
        """Whether a reduction is inside another, or has another inside."""
        return bool(self._around(body)) or any(
            body is outer for other in self.model.reductions for outer in self._around(other))

    def _is_dense(self, r: Node) -> bool:
        """Whether some operand has neighbours along `r`."""
        return any(access.strides.get(r) == 1 for access in self.estimate.accesses)

    # ---- register tiles and local memory ----

    def _tiles(self) -> Iterator[Decisions]:
        """Blocks of two axes for each group, and in them a block for each item; what a group reads
        more often than it has elements is in local memory."""
        reads_again = self.model.reused_outputs
        for a, b in combinations(self.rows, 2):
            if not self.model.reductions:
                if self._is_transposed(a, b):
                    yield from self._blocks(a, b)
            elif a in reads_again or b in reads_again:
                dense = [r for r in (a, b) if self._is_dense(r)] or [b]
                for fast in dense:
                    yield from self._blocks(b if fast is a else a, fast)

    def _is_transposed(self, a: Node, b: Node) -> bool:
        """Whether some accesses have neighbours along `a`, others along `b`."""
        return self._is_dense(a) and self._is_dense(b)

    def _blocks(self, slow: Node, fast: Node) -> Iterator[Decisions]:
        """The best shapes of a group with square tiles; then other tiles for the best of those,
        with blocks of a tile between items, or with an item's neighbours in it. The best of
        them with several buffers, too, where those are filled by themselves, and with shorter parts
        of the reduction, which leave room for them."""
        made = list(self._tiled(slow, fast))
        yield from made
        best = sorted((d for d in made if d.staged), key=self.estimate.units)[:MOST_BUFFERED]
        for decisions in best if self.model.target.async_copies else ():
            halves = tuple((r, n // 2) for r, n in decisions.group if n > 2)
            for group, buffers in product((decisions.group, halves), BUFFERS):
                yield buffered(replace(decisions, group=group), buffers, self.model.sink)

    def _tiled(self, slow: Node, fast: Node) -> Iterator[Decisions]:
        """These with one buffer."""
        square = [(shape, (k, k)) for shape in SHAPES for k in STEPS]
        first = [d for d in (self._block(slow, fast, *s) for s in square) if d is not None]
        yield from first
        if first:
            best = min(first, key=self.estimate.units)
            shape = dict(best.local)[slow], dict(best.local)[fast]
            for tile in product(STEPS, STEPS):
                made = self._block(slow, fast, shape, tile)
                if made is not None:
                    yield made
                    yield from self._with_neighbours(made)

    def _block(self, slow: Node, fast: Node, shape: tuple[int, int],
               tile: tuple[int, int]) -> Decisions | None:
        """Groups of this shape, with this tile an item; None if the ranges are too short."""
        (m, n), (p, q) = shape, tile
        if m * n > self.most or m * p > slow.arg.extent or n * q > fast.arg.extent:
            return None
        return self._staged(((slow, m), (fast, n)),
                            tuple((r, k) for r, k in ((slow, p), (fast, q)) if k > 1))

    def _with_neighbours(self, decisions: Decisions) -> Iterator[Decisions]:
        """The same with vectors in the tile, if that has room for them."""
        for width in WIDTHS:
            wide = {r: width for r, n in decisions.tile if n % width == 0}
            if wide:
                tile = ((r, n // wide.get(r, 1)) for r, n in decisions.tile)
                yield replace(decisions, lanes=tuple(wide.items()),
                              tile=tuple((r, n) for r, n in tile if n > 1))

    def _staged(self, local: Chosen, tile: Chosen) -> Decisions:
        """With what is worth it in local memory."""
        group = self._together()
        plain = self.gridded(Decisions(local=local, tile=tile, group=group))
        block = {r: n * dict(tile).get(r, 1) for r, n in local}
        size = math.prod(n for _, n in local)
        staged = []
        for access in self.estimate.accesses:
            if access.node not in self.numbers:
                continue
            inside = math.prod(block.get(r, 1) * dict(group).get(r, 1) for r in access.strides)
            again = any(r not in access.strides for r in block)
            most = most_copies(access.itemsize) * size
            if (again or not self.model.reductions) and 1 < inside <= most:
                staged.append(Staged(access.node, None, self.numbers[access.node], True))
        return replace(plain, staged=tuple(staged)) if staged else replace(plain, group=())

    def _together(self) -> Chosen:
        """How many elements of a reduction a group has in local memory at a time: whole ranges from
        the innermost outwards, as far as there is room, then a part of one."""
        if len(self.model.reductions) != 1:
            return ()
        found, room = [], MOST_TOGETHER
        for r in reversed(self.model.reductions[0].own):
            count = min(r.arg.extent, room)
            whole = [n for n in range(2, count + 1) if r.arg.extent % n == 0]
            if whole and 2 * whole[-1] > count:
                count = whole[-1]
            if count > 1:
                found.append((r, count))
            room //= count
            if count < r.arg.extent:
                break
        return tuple(found)


def _powers(most: int, least: int) -> list[int]:
    """Powers of two from `least` to `most`."""
    return [1 << i for i in range(most.bit_length()) if least <= 1 << i <= most]
