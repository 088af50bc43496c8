"""Tensor cores: a table of the instructions, and the rewrite that puts one in the place of a tile.

A row says how a warp's items hold the three matrices: `fragment` layouts, as digits of the row and
of the column of each element, slowest first. The layouts are those of NVIDIA's PTX ISA, "Matrix
multiply-accumulate operation using mma instruction". In: a SINK whose rows, columns and reduction
have 'vector' ranges as long as the instruction's. Out: MATRIX nodes over what one item holds.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lazyten import dtype as dt
from lazyten.dtype import DType
from lazyten.index_moves import flatten
from lazyten.node import Node, Range, make, ranges_of, rewrite, substitute, toposort
from lazyten.ops import Op
from lazyten.simplify import simplify, simplify_all

FRAGMENT = 1 << 22
"""What the orders of the ranges over fragments and over a warp's items begin with."""
WARP = 32

Digits = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorCore:
    """One instruction, `c += a @ b` of (m, k) @ (k, n), by the items of a warp.

    sizes: of each digit; 'g' and 't' are those of the item's number in its warp, 4 * g + t, the
    others number the elements that an item holds. rows, columns, inner: the digits of m, n and k in
    a and b; own_rows, own_columns: of m and n in c. a, b: the digits of an item's elements. takes:
    the type of a and b. ptx: the instruction.
    """

    name: str
    takes: DType
    sizes: tuple[tuple[str, int], ...]
    rows: Digits
    columns: Digits
    own_rows: Digits
    own_columns: Digits
    inner: Digits
    a: Digits
    b: Digits
    ptx: str

    def size(self, digits: Digits) -> int:
        """The extent of an axis that has these digits."""
        extent = 1
        for d in digits:
            extent *= dict(self.sizes)[d]
        return extent

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k."""
        return self.size(self.own_rows), self.size(self.own_columns), self.size(self.inner)

    def at(self, digits: Digits) -> Node:
        """The position on an axis, over the ranges of its digits."""
        return simplify(flatten([dict(self.sizes)[d] for d in digits],
                                [self.range(d) for d in digits]))

    def range(self, digit: str) -> Node:
        """The range of a digit: 'local' for those of the item's number, or else 'unroll'."""
        names = [name for name, _ in self.sizes]
        kind = "local" if digit in STRIDES else "unroll"
        arg = Range((FRAGMENT, names.index(digit)), dict(self.sizes)[digit], kind)
        return make(Op.RANGE, dt.INDEX, (), arg)


STRIDES = {"g": 4, "t": 1}
"""Of the digits of an item's number in its warp."""

_SIZES_16 = (("g", 8), ("t", 4), ("kh", 2), ("ah", 2), ("ch", 2), ("kl", 2), ("cl", 2))


def _of_halves(name: str, dtype: DType, kind: str) -> TensorCore:
    return TensorCore(
        name, dtype, _SIZES_16, rows=("ah", "g"), columns=("g",), own_rows=("ch", "g"),
        own_columns=("t", "cl"), inner=("kh", "t", "kl"), a=("kh", "ah", "kl"), b=("kh", "kl"),
        ptx=f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32")


TABLE: dict[str, TensorCore] = {core.name: core for core in (
    _of_halves("m16n8k16_f16", dt.float16, "f16"),
    _of_halves("m16n8k16_bf16", dt.bfloat16, "bf16"),
    TensorCore("m16n8k8_tf32", dt.float32, _SIZES_16, rows=("ah", "g"), columns=("g",),
               own_rows=("ch", "g"), own_columns=("t", "cl"), inner=("kh", "t"),
               a=("kh", "ah"), b=("kh",),
               ptx="mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"))}
"""By name. All give, and add to, float32: (m, n) with c as own_rows by own_columns."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """A decision: `core` for the output ranges `row` and `column` and the reduction's `inner`."""

    core: TensorCore
    row: Node
    column: Node
    inner: Node

    def widths(self) -> dict[Node, int]:
        """How many steps of each range one instruction takes."""
        return dict(zip((self.row, self.column, self.inner), self.core.shape, strict=True))

    def strides(self) -> dict[Node, int]:
        """Of the digits of an item's number in its warp."""
        return {self.core.range(digit): stride for digit, stride in STRIDES.items()}


def operands(total: Node) -> tuple[Node, Node] | None:
    """The factors that an ACCUMULATE adds up products of, without casts of 16-bit floats; None if
    it does something else."""
    value = total.src[0]
    if total.op is not Op.ACCUMULATE or total.arg is not Op.ADD or value.op is not Op.MUL:
        return None
    a, b = (s.src[0] if s.op is Op.CAST and s.src[0].dtype.is_half else s for s in value.src)
    return (a, b) if a.dtype is b.dtype else None


def core_for(total: Node, names: Sequence[str]) -> TensorCore | None:
    """The first instruction of these names that takes the factors of a sum of products."""
    factors = operands(total)
    if factors is None or total.dtype not in (factors[0].dtype, dt.float32):
        return None
    return next((TABLE[n] for n in names if TABLE[n].takes is factors[0].dtype), None)


def divides(total: Node, tensors: Tensors, free: Mapping[Node, frozenset[Node]]) -> bool:
    """Whether one factor has the rows, the other the columns, and both the reduction."""
    factors = operands(total)
    if factors is None or tensors.inner not in total.src[1:]:
        return False
    has = [(tensors.row in free[f], tensors.column in free[f], tensors.inner in free[f])
           for f in factors]
    return sorted(has) == [(False, True, True), (True, False, True)]


def with_matrices(sink: Node, tensors: Tensors) -> Node:
    """The SINK with a MATRIX in the place of its ACCUMULATE; rows, columns and the reduction have
    'vector' ranges of the instruction's extents."""
    core = tensors.core
    row, column, inner = (
        next(n for n in ranges_of([sink]) if n.arg.kind == "vector"
             and n.arg.order[:len(r.arg.order)] == r.arg.order)
        for r in (tensors.row, tensors.column, tensors.inner))
    total = next(n for n in toposort([sink]) if n.op is Op.ACCUMULATE and inner in n.src[1:])
    factors = operands(total)
    assert factors is not None
    a, b = factors if row in ranges_of([factors[0]]) else factors[::-1]
    between = {inner: core.at(core.inner)}
    a, = substitute([a], {row: core.at(core.rows), **between})
    b, = substitute([b], {column: core.at(core.columns), **between})
    loops = (r for r in total.src[1:] if r is not inner)
    own = (core.range(d) for d in ("ch", "cl"))
    matrix = make(Op.MATRIX, total.dtype, (*simplify_all([a, b]), *own, *loops), core)
    stores = rewrite([sink], lambda n: None,
                     {total: matrix, row: core.at(core.own_rows),
                      column: core.at(core.own_columns)})[0].src
    return make(Op.SINK, dt.bool_, tuple(simplify_all(stores)))


def definition(core: TensorCore) -> str:
    """The function of CUDA C++ that is the instruction; a test may define another."""
    words = 2 if core.takes.is_half else 1
    counts = [core.size(digits) // words for digits in (core.a, core.b)]
    results = [f"c{i}" for i in range(4)]
    inputs = [f"{x}{i}" for x, count in zip("ab", counts, strict=True) for i in range(count)]
    places = [f"%{i}" for i in range(4 + len(inputs))]
    groups = (places[:4], places[4:4 + counts[0]], places[4 + counts[0]:], places[:4])
    text = ", ".join("{" + ", ".join(g) + "}" for g in groups)
    params = ", ".join([*(f"float &{c}" for c in results), *(f"uint {x}" for x in inputs)])
    rounded = "" if core.takes.is_half else "".join(
        f'  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"({x}) : "f"(as_float({x})));\n' for x in inputs)
    outs, ins = (", ".join(f'"{kind}"({x})' for x in names)
                 for kind, names in (("+f", results), ("r", inputs)))
    return (f"#ifndef LAZYTEN_ON_CPU\nstatic __device__ inline void lazyten_mma_{core.name}("
            f'{params}) {{\n{rounded}  asm volatile("{core.ptx} {text};" : {outs} : {ins});\n}}\n'
            "#endif")
