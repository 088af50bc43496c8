"""How ops that compute are written, and the table of all of them."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from lazyten.ir.ops import IDENTITY_OPS, Op
from lazyten.onnx.writing import bits, movements, scans, wider
from lazyten.onnx.writing.alike import Term
from lazyten.onnx.writing.varying import Size, at_least
from lazyten.onnx.writing.writer import TYPES, Writer
from lazyten.operators.math.scans import ReversedSums
from lazyten.support.errors import ArgumentError

SIMPLE = {Op.EXP: "Exp", Op.SIN: "Sin", Op.COS: "Cos", Op.SQRT: "Sqrt", Op.POW: "Pow",
          Op.RECIPROCAL: "Reciprocal", Op.ADD: "Add", Op.SUB: "Sub", Op.MUL: "Mul", Op.DIV: "Div"}
LOGICAL = {Op.NOT: ("Not", "BitwiseNot"), Op.AND: ("And", "BitwiseAnd"), Op.OR: ("Or", "BitwiseOr"),
           Op.XOR: ("Xor", "BitwiseXor")}
REDUCED = {Op.ADD: "ReduceSum", Op.MUL: "ReduceProd", Op.MAX: "ReduceMax"}


def write(w: Writer, term: Term) -> None:
    """Write a term whose sources are written."""
    if term.dtype.name not in TYPES:
        raise ArgumentError(f"onnx.export: {term.dtype.name} values are not exported")
    rule = RULES.get(term.op) or (elementwise if term.op in ELEMENTWISE else None)
    if rule is None:
        raise ArgumentError(f"onnx.export: the op {term.op.name} is not exported")
    w.at = term
    w.known[term] = rule(w, term)


def _reduce(w: Writer, term: Term) -> str:
    combiner, axes = term.arg
    source = term.src[0]
    product = _product(w, term) if combiner is Op.ADD else None
    if product is not None:
        return product
    return wider.add(w, REDUCED[combiner], term.dtype, w.of(source), w.ints(axes), keepdims=1)


def _product(w: Writer, term: Term) -> str | None:
    """A sum of products of two arrays that are repeated along some axes, as Einsum; else None."""
    source = term.src[0]
    if source.op is not Op.MUL or not term.dtype.is_float or len(source.shape) > 26:
        return None
    terms, operands = [], []
    for x in source.src:
        inner = x.src[0] if x.op is Op.EXPAND else x
        kept = [i for i, n in enumerate(inner.shape) if n != 1 or source.shape[i] == 1]
        terms.append("".join(chr(97 + i) for i in kept))
        shape = movements.shape_for(w, tuple(inner.shape[i] for i in kept))
        operands.append(w.add("Reshape", w.of(inner), shape, allowzero=1))
    if {*terms[0], *terms[1]} != {chr(97 + i) for i in range(len(source.shape))}:
        return None
    kept = [i for i in range(len(source.shape)) if i not in term.arg[1]]
    equation = f"{','.join(terms)}->{''.join(chr(97 + i) for i in kept)}"
    found = w.add("Einsum", *operands, equation=equation)
    return w.add("Reshape", found, movements.shape_for(w, term.shape), allowzero=1)


def _inside(w: Writer, index: Term, size: Size) -> tuple[str, str]:
    """Where an index is one, and the index brought there."""
    name = w.of(index)
    zero, last = (w.scalar(v, index, len(index.shape)) for v in (0, at_least(0, size - 1)))
    low = w.add("Not", w.add("Less", name, zero))
    inside = w.add("And", low, w.add("Not", w.add("Greater", name, last)))
    return inside, wider.add(w, "Where", index.dtype, inside, name, zero)


def _wide(w: Writer, index: Term, name: str) -> str:
    return name if index.dtype.name in ("int32", "int64") else w.add("Cast", name,
                                                                    to=TensorProto.INT64)


def _gather(w: Writer, term: Term) -> str:
    source, index = term.src
    inside, place = _inside(w, index, source.shape[term.arg])
    found = w.add("GatherElements", w.of(source), _wide(w, index, place), axis=term.arg)
    return wider.add(w, "Where", term.dtype, inside, found, w.scalar(0, term, len(term.shape)))


def _scatter(w: Writer, term: Term) -> str:
    """With one place more, for what falls outside."""
    base, index, values = term.src
    axis, combiner = term.arg
    size, rank = base.shape[axis], len(base.shape)
    inside, place = _inside(w, index, size)
    place = wider.add(w, "Where", index.dtype, inside, place, w.scalar(size, index, rank))
    extra = [0] * (2 * rank)
    extra[rank + axis] = 1
    wide = wider.add(w, "Pad", term.dtype, w.of(base), w.ints(extra))
    reduction = {None: "none", Op.ADD: "add", Op.MUL: "mul", Op.MAX: "max"}[combiner]
    found = wider.add(w, "ScatterElements", term.dtype, wide, _wide(w, index, place), w.of(values),
                      axis=axis, reduction=reduction)
    return w.add("Slice", found, w.ints([0]), w.ints([size]), w.ints([axis]))


def _operands(w: Writer, term: Term) -> list[str]:
    """Names of the sources of an elementwise op, without what ONNX repeats by itself."""
    found = []
    shapes: list[tuple[Size, ...]] = []
    for x in term.src:
        if x.op is Op.CONST:
            found.append(w.scalar(x.value, x, len(x.shape)))
            shapes.append((1,) * len(x.shape))
        else:
            inner = x.src[0] if x.op is Op.EXPAND else x
            found.append(w.of(inner))
            shapes.append(inner.shape)
    whole = all(any(shape[i] == n for shape in shapes) for i, n in enumerate(term.shape))
    return found if whole else [w.of(x) for x in term.src]


def elementwise(w: Writer, term: Term) -> str:
    """An op that gives an element for an element of each source."""
    op, names = term.op, _operands(w, term)
    source = term.src[-1]
    if op in SIMPLE:
        return w.add(SIMPLE[op], *names)
    if op in LOGICAL:
        return w.add(LOGICAL[op][term.dtype.kind != "b"], *names)
    if op is Op.MULACC:
        return w.add("Add", w.add("Mul", *names[:2]), names[2])
    if op is Op.CMPNE:
        return w.add("Not", w.add("Equal", *names))
    if op is Op.BITCAST:
        return bits.bitcast(w, term, names[0])
    if op is Op.CAST:
        return w.add("Cast", names[0], to=TYPES[term.dtype.name])
    if op is Op.EXP2:
        return w.add("Pow", w.scalar(2, term, len(term.shape)), names[0])
    if op is Op.LOG2:
        per_two = w.scalar(1 / math.log(2), term, len(term.shape))
        return w.add("Mul", w.add("Log", names[0]), per_two)
    if op in (Op.WHERE, Op.MAX):
        return wider.add(w, "Where" if op is Op.WHERE else "Max", term.dtype, *names)
    if op is Op.NEG:
        signed = term.dtype.kind != "u"
        return w.add("Neg", *names) if signed else w.add(
            "Sub", w.scalar(0, term, len(term.shape)), *names)
    if op is Op.CMPLT:
        if source.dtype.kind == "b":
            names = [w.add("Cast", name, to=TensorProto.INT32) for name in names]
        return w.add("Less", *names)
    if op in (Op.IDIV, Op.MOD):
        return _divided(w, term, names)
    if op in (Op.SHL, Op.SHR) and term.dtype.kind == "u":
        return w.add("BitShift", *names, direction="LEFT" if op is Op.SHL else "RIGHT")
    if op in (Op.SHL, Op.SHR) and source.op is Op.CONST and isinstance(source.value, int) \
            and source.value < 8 * term.dtype.itemsize - 1:
        power = w.scalar(1 << source.value, term, len(term.shape))
        return w.add("Mul", names[0], power) if op is Op.SHL else _floor(w, names[0], power)
    raise ArgumentError(f"onnx.export: {op.name} of {source.dtype.name} is not exported")


def _divided(w: Writer, term: Term, names: list[str]) -> str:
    """Floor division, and what it leaves; 0 where an integer is divided by 0."""
    a, b = names
    rank = len(term.shape)
    if term.dtype.is_float:
        return _divided_floats(w, term, a, b)
    zero, one = w.scalar(0, term, rank), w.scalar(1, term, rank)
    none = w.add("Equal", b, zero)
    safe = wider.add(w, "Where", term.dtype, none, one, b)
    found = w.add("Mod", a, safe) if term.op is Op.MOD else _floor(w, a, safe)
    return wider.add(w, "Where", term.dtype, none, zero, found)


def _divided_floats(w: Writer, term: Term, a: str, b: str) -> str:
    """The same of floats, as NumPy has it: of the exact rest towards 0, and what that lacks to have
    the divisor's sign."""
    rank, divisor = len(term.shape), term.src[1]
    zero = w.scalar(0, term, rank)
    if term.op is Op.IDIV and divisor.op is Op.CONST and divisor.value == 1:
        return w.add("Add", w.add("Floor", a), w.add("Mul", a, zero))  # NaN for what is infinite
    rest = w.add("Mod", a, b, fmod=1)
    signs = w.add("Xor", w.add("Less", rest, zero), w.add("Less", b, zero))
    lacks = w.add("And", signs, w.add("Not", w.add("Equal", rest, zero)))
    if term.op is Op.MOD:
        return w.add("Where", lacks, w.add("Add", rest, b), rest)
    whole = w.add("Div", w.add("Sub", a, rest), b)
    below = w.add("Where", lacks, w.add("Sub", whole, w.scalar(1, term, rank)), whole)
    by_zero = w.add("Equal", b, zero)
    return w.add("Where", by_zero, w.add("Div", a, b), w.add("Round", below))


def _floor(w: Writer, a: str, b: str) -> str:
    """Floor division of integers."""
    return w.add("Div", w.add("Sub", a, w.add("Mod", a, b)), b)


def _same(w: Writer, term: Term) -> str:
    """What it reads; or the sums of all elements up to each."""
    source = term.src[0]
    if not isinstance(term.arg, ReversedSums):
        return w.known[source]
    return w.add("CumSum", w.of(source), w.constant(np.array(term.arg.axis)))


Rule = Callable[[Writer, Term], str]
ELEMENTWISE = {*SIMPLE, *LOGICAL, Op.NEG, Op.WHERE, Op.MULACC, Op.CMPNE, Op.CMPLT, Op.CAST,
               Op.EXP2, Op.LOG2, Op.MAX, Op.IDIV, Op.MOD, Op.SHL, Op.SHR, Op.BITCAST}
RULES: dict[Op, Rule] = {
    **dict.fromkeys((*IDENTITY_OPS, Op.CONTIGUOUS, Op.COPY), _same),
    Op.BUFFER: movements.buffer, Op.CONST: movements.const, Op.IOTA: movements.iota,
    Op.RESHAPE: movements.reshape, Op.PERMUTE: movements.permute, Op.EXPAND: movements.expand,
    Op.PAD: movements.pad, Op.SHRINK: movements.shrink, Op.FLIP: movements.flip,
    Op.SHEAR: movements.shear, Op.REDUCE: _reduce,
    Op.SCAN: lambda w, term: scans.scan(w, term, write), Op.GATHER: _gather, Op.SCATTER: _scatter}
