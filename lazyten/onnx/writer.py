"""Nodes of a graph as ONNX's: a rule an op."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from lazyten.ir.node import Node
from lazyten.ir.ops import IDENTITY_OPS, Op, decode
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError

TYPES = {name: getattr(TensorProto, kind) for name, kind in {
    "bool": "BOOL", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT",
    "float64": "DOUBLE", **{f"{u}int{n}": f"{u.upper()}INT{n}" for u in ("", "u")
                            for n in (8, 16, 32, 64)}}.items()}
"""lazyten's types as ONNX numbers them."""
SIMPLE = {Op.NEG: "Neg", Op.EXP: "Exp", Op.SIN: "Sin", Op.COS: "Cos", Op.SQRT: "Sqrt",
          Op.RECIPROCAL: "Reciprocal", Op.ADD: "Add", Op.SUB: "Sub", Op.MUL: "Mul", Op.DIV: "Div",
          Op.POW: "Pow", Op.WHERE: "Where"}
LOGICAL = {Op.NOT: ("Not", "BitwiseNot"), Op.AND: ("And", "BitwiseAnd"), Op.OR: ("Or", "BitwiseOr"),
           Op.XOR: ("Xor", "BitwiseXor")}
REDUCED = {Op.ADD: "ReduceSum", Op.MUL: "ReduceProd", Op.MAX: "ReduceMax"}


SLICES = 16
"""So many places that a window slides by are written as a slice each."""


class Writer:
    """Writes nodes, sources first. names: of memory that is read, such as parameters."""

    def __init__(self, names: Mapping[Node, str]) -> None:
        self.parameters = names
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.known: dict[Node, str] = {}
        self._constants: dict[tuple[Any, ...], str] = {}

    def take_input(self, name: str, node: Node) -> None:
        """An input of the model: `node` is a BUFFER, or one in its shape."""
        self.known[node] = name
        if node.op is Op.RESHAPE:  # which reads the memory as it is
            source = node.src[0]
            self.known[source] = self.add("Reshape", name, self.ints([source.numel]))

    def give_output(self, name: str, node: Node) -> None:
        """An output of the model."""
        self.nodes.append(helper.make_node("Identity", [self.known[node]], [name]))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A new node; the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{name}",
                                           **attributes))
        return name

    def constant(self, array: Array, name: str = "") -> str:
        """The name of a constant; equal small ones are one."""
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes()) \
            if array.size < 4096 and not name else (id(array), name)
        if key not in self._constants:
            name = name or f"c{len(self._constants)}"
            self._constants[key] = name
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(
                array.shape), name))
        return self._constants[key]

    def ints(self, values: Any) -> str:
        """A list of integers, such as a shape."""
        return self.constant(np.array(list(values), np.int64))

    def scalar(self, value: Any, node: Node, rank: int = 0) -> str:
        """One number of a node's type, with so many axes of size 1."""
        dtype = ml_dtypes.bfloat16 if node.dtype.name == "bfloat16" else node.dtype.name
        return self.constant(np.full([1] * rank, value, dtype))

    def write(self, node: Node) -> None:
        """Write a node whose sources are written."""
        if node in self.known:
            return
        if node.dtype.name not in TYPES:
            raise ArgumentError(f"onnx.export: {node.dtype.name} values are not exported")
        rule = RULES.get(node.op) or (elementwise if node.op in ELEMENTWISE else None)
        if rule is None:
            raise ArgumentError(f"onnx.export: the op {node.op.name} is not exported")
        self.known[node] = rule(self, node)

    def of(self, node: Node) -> str:
        """The name of a node's value."""
        return self.known[node]


Rule = Callable[[Writer, Node], str]


def _same(w: Writer, node: Node) -> str:
    return w.of(node.src[0])


def _buffer(w: Writer, node: Node) -> str:
    memory = node.arg
    if not hasattr(memory, "serial"):
        raise ArgumentError("onnx.export: a value that is made in the call is read in it")
    values = decode(memory.numpy(), node.dtype)
    if node.dtype.name == "bfloat16":
        values = values.astype(ml_dtypes.bfloat16)
    elif node.dtype.name == "float16":
        values = values.astype(np.float16)
    return w.constant(values, w.parameters.get(node, f"weight{len(w.initializers)}"))


def _const(w: Writer, node: Node) -> str:
    name = w.scalar(node.value, node, len(node.shape))
    return name if node.numel == 1 else w.add("Expand", name, w.ints(node.shape))


def _iota(w: Writer, node: Node) -> str:
    return w.constant(np.arange(node.arg, dtype=node.dtype.numpy))


def _reshape(w: Writer, node: Node) -> str:
    return w.add("Reshape", w.of(node.src[0]), w.ints(node.shape), allowzero=1)


def _pad(w: Writer, node: Node) -> str:
    pads = w.ints([b for b, _ in node.arg] + [a for _, a in node.arg])
    source = w.of(node.src[0])
    if node.dtype.kind != "b":
        return w.add("Pad", source, pads)
    wide = w.add("Pad", w.add("Cast", source, to=TensorProto.INT32), pads)
    return w.add("Cast", wide, to=TensorProto.BOOL)


def _shrink(w: Writer, node: Node) -> str:
    axes = [i for i, (s, e) in enumerate(node.arg) if (s, e) != (0, node.src[0].shape[i])]
    starts, ends = ([node.arg[i][k] for i in axes] for k in (0, 1))
    return w.add("Slice", w.of(node.src[0]), w.ints(starts), w.ints(ends), w.ints(axes))


def _flip(w: Writer, node: Node) -> str:
    count = len(node.arg)
    return w.add("Slice", w.of(node.src[0]), w.ints([-1] * count), w.ints([-(1 << 62)] * count),
                 w.ints(node.arg), w.ints([-1] * count))


def _shear(w: Writer, node: Node) -> str:
    """A slice for each place on the axis that it slides by; where that is long, the two axes in
    one, of which the places that are read are taken."""
    axis, by, factor, offset, size = node.arg
    shape = node.src[0].shape
    if shape[by] <= SLICES:
        starts = [(factor * k + offset, k) for k in range(shape[by])]
        parts = [w.add("Slice", w.of(node.src[0]), w.ints(start), w.ints(
            [start[0] + size, start[1] + 1]), w.ints([axis, by])) for start in starts]
        return w.add("Concat", *parts, axis=by)
    rest = [i for i in range(len(shape)) if i not in (axis, by)]
    order = [*rest, axis, by]
    moved = w.add("Transpose", w.of(node.src[0]), perm=order)
    outer = [shape[i] for i in rest]
    flat = w.add("Reshape", moved, w.ints([*outer, shape[axis] * shape[by]]), allowzero=1)
    k = np.arange(shape[by])
    places = (np.arange(size)[:, None] + factor * k + offset) * shape[by] + k
    taken = w.add("Gather", flat, w.constant(places.ravel()), axis=len(rest))
    wide = w.add("Reshape", taken, w.ints([*outer, size, shape[by]]), allowzero=1)
    return w.add("Transpose", wide, perm=[order.index(i) for i in range(len(order))])


def _reduce(w: Writer, node: Node) -> str:
    combiner, axes = node.arg
    source = node.src[0]
    product = _product(w, node) if combiner is Op.ADD else None
    if product is not None:
        return product
    if node.dtype.kind != "b":
        return w.add(REDUCED[combiner], w.of(source), w.ints(axes), keepdims=1)
    whole = w.add("Cast", w.of(source), to=TensorProto.INT32)
    found = w.add(REDUCED[combiner], whole, w.ints(axes), keepdims=1)
    return w.add("Cast", found, to=TensorProto.BOOL)


def _product(w: Writer, node: Node) -> str | None:
    """A sum of products of two arrays that are repeated along some axes, as Einsum; else None."""
    source = node.src[0]
    if source.op is not Op.MUL or not node.dtype.is_float or len(source.shape) > 26:
        return None
    terms, operands = [], []
    for x in source.src:
        inner = x.src[0] if x.op is Op.EXPAND else x
        kept = [i for i, n in enumerate(inner.shape) if n != 1 or source.shape[i] == 1]
        terms.append("".join(chr(97 + i) for i in kept))
        operands.append(w.add("Reshape", w.of(inner), w.ints(inner.shape[i] for i in kept),
                              allowzero=1))
    if {*terms[0], *terms[1]} != {chr(97 + i) for i in range(len(source.shape))}:
        return None
    kept = [i for i in range(len(source.shape)) if i not in node.arg[1]]
    equation = f"{','.join(terms)}->{''.join(chr(97 + i) for i in kept)}"
    found = w.add("Einsum", *operands, equation=equation)
    return w.add("Reshape", found, w.ints(node.shape), allowzero=1)


def _inside(w: Writer, index: Node, size: int) -> tuple[str, str]:
    """Where an index is one, and the index brought there."""
    name = w.of(index)
    zero, last = (w.scalar(v, index, len(index.shape)) for v in (0, max(size - 1, 0)))
    low = w.add("Not", w.add("Less", name, zero))
    inside = w.add("And", low, w.add("Not", w.add("Greater", name, last)))
    return inside, w.add("Where", inside, name, zero)


def _wide(w: Writer, index: Node, name: str) -> str:
    return name if index.dtype.name in ("int32", "int64") else w.add("Cast", name,
                                                                    to=TensorProto.INT64)


def _gather(w: Writer, node: Node) -> str:
    source, index = node.src
    inside, place = _inside(w, index, source.shape[node.arg])
    found = w.add("GatherElements", w.of(source), _wide(w, index, place), axis=node.arg)
    return w.add("Where", inside, found, w.scalar(0, node, len(node.shape)))


def _scatter(w: Writer, node: Node) -> str:
    """With one place more, for what falls outside."""
    base, index, values = node.src
    axis, combiner = node.arg
    size, rank = base.shape[axis], len(base.shape)
    inside, place = _inside(w, index, size)
    place = w.add("Where", inside, place, w.scalar(size, index, rank))
    extra = [0] * (2 * rank)
    extra[rank + axis] = 1
    wide = w.add("Pad", w.of(base), w.ints(extra))
    reduction = {None: "none", Op.ADD: "add", Op.MUL: "mul", Op.MAX: "max"}[combiner]
    found = w.add("ScatterElements", wide, _wide(w, index, place), w.of(values), axis=axis,
                  reduction=reduction)
    return w.add("Slice", found, w.ints([0]), w.ints([size]), w.ints([axis]))


def _operands(w: Writer, node: Node) -> list[str]:
    """Names of the sources of an elementwise op, without what ONNX repeats by itself."""
    found, shapes = [], []
    for x in node.src:
        if x.op is Op.CONST:
            found.append(w.scalar(x.value, x, len(x.shape)))
            shapes.append((1,) * len(x.shape))
        else:
            inner = x.src[0] if x.op is Op.EXPAND else x
            found.append(w.of(inner))
            shapes.append(inner.shape)
    whole = np.broadcast_shapes(*shapes) == node.shape
    return found if whole else [w.of(x) for x in node.src]


def elementwise(w: Writer, node: Node) -> str:
    """An op that gives an element for an element of each source."""
    op, names = node.op, _operands(w, node)
    source = node.src[-1]
    if op in SIMPLE:
        return w.add(SIMPLE[op], *names)
    if op in LOGICAL:
        return w.add(LOGICAL[op][node.dtype.kind != "b"], *names)
    if op is Op.MULACC:
        return w.add("Add", w.add("Mul", *names[:2]), names[2])
    if op is Op.CMPNE:
        return w.add("Not", w.add("Equal", *names))
    if op is Op.CAST:
        return w.add("Cast", names[0], to=TYPES[node.dtype.name])
    if op is Op.EXP2:
        return w.add("Pow", w.scalar(2, node, len(node.shape)), names[0])
    if op is Op.LOG2:
        per_two = w.scalar(1 / math.log(2), node, len(node.shape))
        return w.add("Mul", w.add("Log", names[0]), per_two)
    if source.dtype.kind == "b":  # MAX, CMPLT
        names = [w.add("Cast", name, to=TensorProto.INT32) for name in names]
    if op is Op.CMPLT:
        return w.add("Less", *names)
    if op is Op.MAX:
        found = w.add("Max", *names)
        return found if source.dtype.kind != "b" else w.add("Cast", found, to=TensorProto.BOOL)
    if op in (Op.IDIV, Op.MOD):
        return _divided(w, node, names)
    if op in (Op.SHL, Op.SHR) and node.dtype.kind == "u":
        return w.add("BitShift", *names, direction="LEFT" if op is Op.SHL else "RIGHT")
    raise ArgumentError(f"onnx.export: {op.name} of {source.dtype.name} is not exported")


def _divided(w: Writer, node: Node, names: list[str]) -> str:
    """Floor division, and what it leaves; 0 where an integer is divided by 0."""
    a, b = names
    rank = len(node.shape)
    if node.dtype.is_float:
        whole = w.add("Floor", w.add("Div", a, b))
        return whole if node.op is Op.IDIV else w.add("Sub", a, w.add("Mul", whole, b))
    zero, one = w.scalar(0, node, rank), w.scalar(1, node, rank)
    none = w.add("Equal", b, zero)
    safe = w.add("Where", none, one, b)
    left = w.add("Mod", a, safe)
    found = left if node.op is Op.MOD else w.add("Div", w.add("Sub", a, left), safe)
    return w.add("Where", none, zero, found)


ELEMENTWISE = {*SIMPLE, *LOGICAL, Op.MULACC, Op.CMPNE, Op.CMPLT, Op.CAST, Op.EXP2, Op.LOG2, Op.MAX,
               Op.IDIV, Op.MOD, Op.SHL, Op.SHR, Op.BITCAST}
RULES: dict[Op, Rule] = {
    **dict.fromkeys((*IDENTITY_OPS, Op.CONTIGUOUS, Op.COPY), _same),
    Op.BUFFER: _buffer, Op.CONST: _const, Op.IOTA: _iota, Op.RESHAPE: _reshape,
    Op.PERMUTE: lambda w, n: w.add("Transpose", w.of(n.src[0]), perm=list(n.arg)),
    Op.EXPAND: lambda w, n: w.add("Expand", w.of(n.src[0]), w.ints(n.shape)),
    Op.PAD: _pad, Op.SHRINK: _shrink, Op.FLIP: _flip, Op.SHEAR: _shear, Op.REDUCE: _reduce,
    Op.GATHER: _gather, Op.SCATTER: _scatter}
