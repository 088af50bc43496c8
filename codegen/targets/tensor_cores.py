"""The tensor cores that there are: a row for each instruction.

A row says how a warp's items hold the three matrices: `fragment` layouts, as digits of the row and
of the column of each element, slowest first, and the text of the instruction. NVIDIA's are those
of its PTX ISA, "Matrix multiply-accumulate operation using mma instruction"; another maker's are
other rows. gpu/tensor_tiles.py puts one in the place of a tile.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from lazyten.codegen.targets import wgmma
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.symbolic.index_moves import flatten
from lazyten.symbolic.simplify import simplify

FRAGMENT = 1 << 22
"""What the orders of the ranges over fragments and over a warp's items begin with."""

BEFORE, BEHIND = FRAGMENT - 1, FRAGMENT + 1
"""The same for digits of results that are passed on: in the order in which the factor has them."""

WGMMA_UNITS = 0.4
"""A column of 64 rows; the rows themselves take as long as 12 columns."""

Digits = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorCore:
    """One instruction, `c += a @ b` of (m, k) @ (k, n), by the items of a warp.

    sizes: of each digit. strides: of those of the item's number in its warp, 'g' and 't' for
    4 * g + t; the others number the elements that an item holds. rows, columns, inner: the digits
    of m, n and k in a and b; own_rows, own_columns: of m and n in c. a, b, c: the digits of an
    item's elements, in the order in which the function takes them. takes: the type of a and b.
    in_word: how many of those a word of 32 bits has. row, word: where a warp reads matrices of
    local memory at once (ldmatrix.py), the digit that is a matrix's row, and those of an item's
    word in it and of an element in that; else empty. is_local: whether the instruction reads a and
    b from local memory by itself, while the items go on (wgmma.py): there they are in swizzled
    rows, and items have nothing of a and b; the last digits of rows, columns and inner have as
    many steps as 16 bytes have elements. units: what it takes of a warp, in the estimate's units.
    function: the text of `lazyten_mma_NAME`, which takes an item's elements of c, to write to, then
    its words of a, then of b, or the places of both in local memory.
    """

    name: str
    takes: DType
    sizes: tuple[tuple[str, int], ...]
    strides: tuple[tuple[str, int], ...]
    rows: Digits
    columns: Digits
    own_rows: Digits
    own_columns: Digits
    inner: Digits
    a: Digits
    b: Digits
    c: Digits
    in_word: int = 1
    row: str = ""
    word: Digits = ()
    is_local: bool = False
    units: float = 4.0
    function: str = ""

    def __str__(self) -> str:
        return self.name

    def size(self, digits: Digits) -> int:
        """The extent of an axis that has these digits."""
        extent = 1
        for d in digits:
            extent *= dict(self.sizes)[d]
        return extent

    @property
    def warp(self) -> int:
        """How many work items compute it together."""
        return self.size(tuple(digit for digit, _ in self.strides))

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
        return self._range(digit, FRAGMENT)

    def passed(self, digit: str) -> Node:
        """The range of a digit of a result that is a factor of another product: its columns are
        those of the reduction there. Of that the slowest digit counts results beside each other."""
        return self._range(digit, BEFORE if digit == self.inner[0] else BEHIND)

    def _range(self, digit: str, first: int) -> Node:
        names = [name for name, _ in self.sizes]
        kind = "local" if digit in dict(self.strides) else "unroll"
        arg = Range((first, names.index(digit)), dict(self.sizes)[digit], kind)
        return make(Op.RANGE, dt.INDEX, (), arg)


# ---- NVIDIA's ------------------------------------------------------------------------------------

def _mma(name: str, takes: DType, kind: str, inner: int) -> TensorCore:
    """A warp's product of 16 rows and 8 columns, of as many elements a word as fit."""
    low = ("kl",) if takes.is_half else ()
    core = TensorCore(
        name, takes, sizes=(("g", 8), ("t", 4), ("kh", 2), ("ah", 2), ("ch", 2), ("kl", 2),
                            ("cl", 2)), strides=(("g", 4), ("t", 1)),
        rows=("ah", "g"), columns=("g",), own_rows=("ch", "g"), own_columns=("t", "cl"),
        inner=("kh", "t", *low), a=("kh", "ah", *low), b=("kh", *low), c=("ch", "cl"),
        in_word=2 if takes.is_half else 1, row="g", word=("t", *low))
    return replace(core, function=_function(
        core, f"mma.sync.aligned.m16n8k{inner}.row.col.f32.{kind}.{kind}.f32"))


def _function(core: TensorCore, ptx: str) -> str:
    """The text in CUDA C++; a test may define another."""
    held = core.size(core.c)
    counts = [core.size(digits) // core.in_word for digits in (core.a, core.b)]
    results = [f"c{i}" for i in range(held)]
    inputs = [f"{x}{i}" for x, count in zip("ab", counts, strict=True) for i in range(count)]
    places = [f"%{i}" for i in range(held + len(inputs))]
    groups = (places[:held], places[held:held + counts[0]], places[held + counts[0]:],
              places[:held])
    text = ", ".join("{" + ", ".join(g) + "}" for g in groups)
    params = ", ".join([*(f"float &{c}" for c in results), *(f"uint {x}" for x in inputs)])
    rounded = "" if core.takes.is_half else "".join(
        f'  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"({x}) : "f"(as_float({x})));\n' for x in inputs)
    outs, ins = (", ".join(f'"{kind}"({x})' for x in names)
                 for kind, names in (("+f", results), ("r", inputs)))
    return (f"#ifndef LAZYTEN_ON_CPU\nstatic __device__ inline void lazyten_mma_{core.name}("
            f'{params}) {{\n{rounded}  asm volatile("{ptx} {text};" : {outs} : {ins});\n}}\n'
            "#endif")


def _wgmma(takes: DType, kind: str, columns: int) -> TensorCore:
    """The product of 64 rows and so many columns by four warps; a multiple of 8, up to 256."""
    name = f"m64n{columns}k16_{kind}"
    return TensorCore(
        name, takes, sizes=(("w", 4), ("g", 8), ("t", 4), ("ch", 2), ("cg", columns // 8),
                            ("cl", 2), ("rg", 8), ("r", 8), ("kg", 2), ("k", 8)),
        strides=(("w", 32), ("g", 4), ("t", 1)), rows=("rg", "r"), columns=("cg", "r"),
        own_rows=("w", "ch", "g"), own_columns=("cg", "t", "cl"), inner=("kg", "k"), a=(), b=(),
        c=("cg", "ch", "cl"), in_word=2, is_local=True, units=(columns + 12) * WGMMA_UNITS,
        function=wgmma.multiply(name, f"m64n{columns}k16.f32.{kind}.{kind}", columns // 2))


TABLE: dict[str, TensorCore] = {core.name: core for core in (
    _mma("m16n8k16_f16", dt.float16, "f16", 16), _mma("m16n8k16_bf16", dt.bfloat16, "bf16", 16),
    _mma("m16n8k8_tf32", dt.float32, "tf32", 8),
    *(_wgmma(takes, kind, columns) for takes, kind in ((dt.float16, "f16"), (dt.bfloat16, "bf16"))
      for columns in (64, 128, 256)))}
"""By name. All give, and add to, float32: (m, n) with c as own_rows by own_columns."""
