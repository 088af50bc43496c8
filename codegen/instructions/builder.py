"""Builds instructions, each placed in the outermost block where its operands are known.

Placing by operands is loop-invariant code motion for free, and since equal instructions on equal
operands are made once, so is common subexpression elimination.
"""
from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from lazyten.codegen.instructions.instructions import (
    Across,
    Address,
    Block,
    Compute,
    Constant,
    Horizontal,
    Lanes,
    Load,
    Matrix,
    MatrixDescriptor,
    MatrixLoad,
    Shuffle,
    Splat,
    Store,
    Value,
    WorkItem,
)
from lazyten.codegen.targets.tensor_cores import TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op

GROUP = 16
"""Bytes within which lanes of a vector change places most easily; wider vectors have several."""


class Builder:
    """Makes values; `root` is the function's body."""

    def __init__(self) -> None:
        self.root = Block()
        self.home: dict[Value, Block] = {}
        self.arrays: list[tuple[DType, int]] = []
        self._across: dict[DType, int] = {}
        self._made: dict[Hashable, Value] = {}
        self._ids = itertools.count()

    def value(self, dtype: DType, lanes: int, home: Block) -> Value:
        """A value that some instruction of `home` is going to define."""
        made = Value(next(self._ids), dtype, lanes)
        self.home[made] = home
        return made

    def deepest(self, values: Sequence[Value]) -> Block:
        """The innermost block among those that define `values`."""
        block = self.root
        for v in values:
            if self.home[v].depth > block.depth:
                block = self.home[v]
        return block

    def constant(self, value: Scalar, dtype: DType, lanes: int = 1) -> Value:
        key = ("constant", repr(value), dtype, lanes)
        if key not in self._made:
            self._made[key] = self.value(dtype, lanes, self.root)
            self.root.items.append(Constant(self._made[key], value))
        return self._made[key]

    def lanes(self, values: tuple[int, ...], dtype: DType) -> Value:
        """A constant for each lane."""
        key = ("lanes", values, dtype)
        if key not in self._made:
            self._made[key] = self.value(dtype, len(values), self.root)
            self.root.items.append(Lanes(self._made[key], values))
        return self._made[key]

    def splat(self, source: Value, lanes: int) -> Value:
        """`source` in every lane; itself if it has them already."""
        if source.lanes == lanes:
            return source
        key = ("splat", source, lanes)
        if key not in self._made:
            out = self._made[key] = self.value(source.dtype, lanes, self.home[source])
            self.home[source].items.append(Splat(out, source))
        return self._made[key]

    def compute(self, op: Op, dtype: DType, *args: Value) -> Value:
        """An elementwise op; scalars among vectors are splat."""
        key = (op, dtype, args)
        if key not in self._made:
            lanes = max(a.lanes for a in args)
            wide = tuple(self.splat(a, lanes) for a in args)
            block = self.deepest(wide)
            out = self._made[key] = self.value(dtype, lanes, block)
            block.items.append(Compute(out, op, wide))
        return self._made[key]

    def array(self, dtype: DType, size: int) -> int:
        """The number of a new array in the local memory of a group."""
        self.arrays.append((dtype, size))
        return len(self.arrays) - 1

    def item(self, stride: int, extent: int) -> Value:
        """A digit of the work item's number in its group; see WorkItem."""
        key = ("item", stride, extent)
        if key not in self._made:
            out = self._made[key] = self.value(dt.INDEX, 1, self.root)
            self.root.items.append(WorkItem(out, stride, extent))
        return self._made[key]

    def load(self, dtype: DType, lanes: int, address: Address, mask: Value | None,
             filled: Value | None = None) -> Value:
        """Read memory that the kernel does not write, or, once it is `filled`, local memory."""
        key = ("load", dtype, lanes, address, mask)
        if key not in self._made:
            block = self.deepest([v for v in (address.base, address.vector, mask, filled)
                                  if v is not None])
            out = self._made[key] = self.value(dtype, lanes, block)
            block.items.append(Load(out, address, mask))
        return self._made[key]

    def store(self, block: Block, store: Store) -> None:
        block.items.append(store)

    def horizontal(self, combiner: Op, source: Value) -> Value:
        """Combine the lanes."""
        block = self.home[source]
        out = self.value(source.dtype, 1, block)
        block.items.append(Horizontal(out, combiner, source))
        return out

    def across(self, combiner: Op, source: Value, stride: int, extent: int, group: int) -> Value:
        """Combine what the items of a group have; see Across. All use one array for each type."""
        if source.dtype not in self._across:
            self._across[source.dtype] = self.array(source.dtype, group)
        block, array = self.home[source], self._across[source.dtype]
        out = self.value(source.dtype, 1, block)
        block.items.append(Across(out, combiner, source, stride, extent, array))
        return out

    def matrix(self, core: TensorCore, a: Sequence[Value], b: Sequence[Value],
               c: Sequence[Value], transposed: Sequence[bool] = ()) -> list[Value]:
        """c + a @ b; see Matrix."""
        block = self.deepest([*a, *b, *c])
        outs = [self.value(v.dtype, 1, block) for v in c]
        block.items.append(
            Matrix(tuple(outs), core, tuple(a), tuple(b), tuple(c), tuple(transposed)))
        return outs

    def matrix_descriptor(self, address: Address, width: int, apart: int, filled: Value) -> Value:
        """Where a matrix is in local memory, once it is `filled`; see MatrixDescriptor."""
        block = self.deepest([filled] if address.base is None else [filled, address.base])
        out = self.value(dt.uint64, 1, block)
        block.items.append(MatrixDescriptor(out, address, width, apart))
        return out

    def load_matrices(self, address: Address, count: int, transposed: bool,
                      filled: Value) -> list[Value]:
        """An item's words of so many matrices in local memory, once it is `filled`; see
        MatrixLoad."""
        block = self.deepest([filled] if address.base is None else [filled, address.base])
        outs = [self.value(dt.uint32, 1, block) for _ in range(count)]
        block.items.append(MatrixLoad(tuple(outs), address, transposed))
        return outs

    def shuffle(self, first: Value, second: Value, order: tuple[int, ...]) -> Value:
        """A vector of lanes of two others; see Shuffle."""
        key = ("shuffle", first, second, order)
        if key not in self._made:
            block = self.deepest([first, second])
            out = self._made[key] = self.value(first.dtype, len(order), block)
            block.items.append(Shuffle(out, first, second, order))
        return self._made[key]

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """Vector i of lane j from vector j of lane i; as many vectors as lanes, a power of two.

        Within groups of 16 bytes lanes of two vectors take turns; then the groups are sorted. Each
        step is one instruction where vectors are one or several such groups.
        """
        n = len(rows)
        size = min(max(GROUP // rows[0].dtype.itemsize, 1), n)
        blocks = [self._zipped(rows[i:i + size], 1, size) for i in range(0, n, size)]
        columns = [self._sorted(column, size) for column in zip(*blocks, strict=True)]
        return [column[i] for i in range(n // size) for column in columns]

    def interleave(self, rows: Sequence[Value]) -> list[Value]:
        """Vectors that together have the first lanes of all rows, then the second ones, and so on.
        There are 1, 2, 4, .. rows."""
        if len(rows) == 1:
            return list(rows)
        lanes = rows[0].lanes
        pairs = list(zip(self.interleave(rows[::2]), self.interleave(rows[1::2]), strict=True))
        order = tuple(i // 2 + i % 2 * lanes for i in range(2 * lanes))
        return [self.shuffle(a, b, half) for a, b in pairs for half in (order[:lanes],
                                                                       order[lanes:])]

    def concatenate(self, parts: Sequence[Value]) -> Value:
        """The lanes of vectors, one vector after the other; as many as a power of two."""
        while len(parts) > 1:
            parts = self._of_pairs(parts, range(2 * parts[0].lanes))
        return parts[0]

    def _zipped(self, rows: Sequence[Value], unit: int, size: int) -> list[Value]:
        """For each lane of a group of `size`: that lane of all rows, group by group. `unit` lanes
        are there for each row."""
        if len(rows) == 1:
            return list(rows)
        n = rows[0].lanes
        low = [group + i // 2 * unit + lane + i % 2 * n for group in range(0, n, size)
               for i in range(size // unit) for lane in range(unit)]
        high = [i + size // 2 for i in low]
        return [lane for order in (low, high)
                for lane in self._zipped(self._of_pairs(rows, order), 2 * unit, size)]

    def _sorted(self, rows: Sequence[Value], size: int) -> list[Value]:
        """Vector i of group j from vector j of group i; groups have `size` lanes."""
        if len(rows) == 1:
            return list(rows)
        even = [i + lane for i in range(0, 2 * rows[0].lanes, 2 * size) for lane in range(size)]
        odd = [i + size for i in even]
        halves = [self._sorted(self._of_pairs(rows, order), size) for order in (even, odd)]
        return [row for both in zip(*halves, strict=True) for row in both]

    def _of_pairs(self, rows: Sequence[Value], order: Sequence[int]) -> list[Value]:
        """A shuffle of each two that follow each other."""
        return [self.shuffle(a, b, tuple(order))
                for a, b in zip(rows[::2], rows[1::2], strict=True)]

    def add(self, a: Value | None, b: Value) -> Value:
        """Index addition where None is 0."""
        return b if a is None else self.compute(Op.ADD, dt.INDEX, a, b)

    def scale(self, a: Value, factor: int) -> Value:
        """Index multiplication by a constant."""
        if factor == 1:
            return a
        return self.compute(Op.MUL, dt.INDEX, a, self.constant(factor, dt.INDEX, a.lanes))
