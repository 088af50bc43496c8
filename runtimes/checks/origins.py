"""Where in a kernel's expression a NaN, an infinity or an overflow is made, by evaluating it.

In: a kernel and the contents of its inputs. Out: for the interpreter, what a checked kernel would
report; for an error, the op that made a value. A mark on an element is followed forward: a WHERE
passes on only that of the value it takes, so that what a program guards against is not blamed.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyten.codegen.checks.check_values import WRAPPING
from lazyten.codegen.checks.report import Finding
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate_all, gather, move, scatter
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, MOVEMENT, Op

Array = np.ndarray[Any, Any]
Values = Mapping[Node, Array]


class Origin(NamedTuple):
    """The op that made a value, the element, and what it was made from (of elementwise ops)."""

    node: Node
    place: tuple[int, ...]
    operands: tuple[Any, ...]


def findings(kernel: Kernel, leaves: Mapping[int, Array]) -> dict[str, Finding]:
    """For each kind of check but bounds, the first element at fault of the first output that has
    one. leaves: the inputs' contents, by slot."""
    values = evaluate_all(kernel.outputs, leaves)
    found: dict[str, Finding] = {}
    marked = spread(values, {n: made_here(n, values, "overflow") for n in values})
    for slot, output in enumerate(kernel.outputs):
        flags = {"overflow": marked[output]}
        if output.dtype.is_float:
            flags |= {"nan": np.isnan(values[output]), "inf": np.isinf(values[output])}
        for kind, flag in flags.items():
            if kind in kernel.checks and kind not in found and flag.any():
                found[kind] = Finding(slot, int(flag.reshape(-1).argmax()))
    return found


def origin(kernel: Kernel, kind: str, finding: Finding,
           leaves: Mapping[int, Array]) -> Origin | None:
    """The first op, in the order of evaluation, that made what reached this element of an output;
    None if it is not to be seen."""
    values = evaluate_all(kernel.outputs, leaves)
    output = kernel.outputs[finding.site]

    def reaches(node: Node, marks: Array) -> bool:
        return bool(spread(values, {node: marks})[output].reshape(-1)[finding.position])

    for node in values:
        marks = made_here(node, values, kind)
        if marks.any() and reaches(node, marks):
            return _first(node, marks, values, reaches)
    return None


def _first(node: Node, marks: Array, values: Values, reaches: Any) -> Origin:
    """One element that reaches the output, by halving."""
    positions = np.flatnonzero(marks)
    while len(positions) > 1:
        half = positions[:len(positions) // 2]
        some = np.zeros(marks.size, np.bool_)
        some[half] = True
        positions = half if reaches(node, some.reshape(marks.shape)) else positions[len(half):]
    index = tuple(int(i) for i in np.unravel_index(int(positions[0]), node.shape))
    operands = tuple(values[s][index].item() for s in node.src) if node.op in ELEMENTWISE else ()
    return Origin(node, index, operands)


# ---- marks ---------------------------------------------------------------------------------------

def made_here(node: Node, values: Values, kind: str) -> Array:
    """The elements of a node that are NaN, infinite or out of range because of its op itself."""
    value = values[node]
    if kind == "overflow":
        return _overflows(node, values)
    moves = node.op in MOVEMENT or node.op in IDENTITY_OPS or \
        node.op in (Op.BUFFER, Op.CONST, Op.GATHER, Op.CONTIGUOUS)
    if moves or not node.dtype.is_float:
        return np.zeros(node.shape, np.bool_)
    at_fault = np.isnan if kind == "nan" else np.isinf
    marks: Array = at_fault(value)
    for source in (s for s in node.src if s.dtype.is_float):
        given = np.isnan(values[source]) if kind == "nan" else ~np.isfinite(values[source])
        marks = marks & ~(given if node.op in ELEMENTWISE else np.asarray(given.any()))
    return marks


def _overflows(node: Node, values: Values) -> Array:
    """As check_values.overflows, of arrays."""
    never = np.zeros(node.shape, np.bool_)
    args = [values[s] for s in node.src]
    if node.op is Op.CAST and node.src[0].dtype.is_float and node.dtype.is_int:
        return ~_fits(args[0], node.dtype)
    if node.dtype.kind != "i":
        return never
    wide = [a.astype(np.float64) for a in args]
    if node.op in WRAPPING:
        exact = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply,
                 Op.NEG: np.negative}[node.op](*wide)
    elif node.op is Op.REDUCE and node.arg[0] in WRAPPING:
        combine: Any = np.add if node.arg[0] is Op.ADD else np.multiply
        exact = combine.reduce(wide[0], axis=node.arg[1], keepdims=True)
    else:
        return never
    distance = np.abs(exact - values[node].astype(np.float64))
    flags: Array = distance > 2.0 ** (node.dtype.bits - 2)
    return flags


def _fits(x: Array, target: DType) -> Array:
    x = x.astype(np.float64)
    return np.asarray((x > float(int(target.min) - 1)) & (x < float(int(target.max) + 1))
                      | (x == float(target.min)))


def spread(values: Values, own: Mapping[Node, Array]) -> dict[Node, Array]:
    """For each node, the elements that depend on a marked one. own: marks of nodes."""
    marked: dict[Node, Array] = {}
    for node in values:
        passed = _passed_on(node, [marked[s] for s in node.src], values)
        marked[node] = passed | own[node] if node in own else passed
    return marked


def _passed_on(node: Node, args: Sequence[Array], values: Values) -> Array:
    if not args:
        return np.zeros(node.shape, np.bool_)
    if node.op is Op.WHERE:
        return np.asarray(args[0] | np.where(values[node.src[0]], args[1], args[2]))
    if node.op in ELEMENTWISE:
        return np.asarray(np.logical_or.reduce(args))
    if node.op is Op.REDUCE:
        return np.asarray(np.logical_or.reduce(args[0], axis=node.arg[1], keepdims=True))
    if node.op is Op.GATHER:
        return np.asarray(gather(args[0], node.arg, values[node.src[1]]) | args[1])
    if node.op is Op.SCATTER:
        placed = scatter(args[0], node.arg[0], Op.MAX, values[node.src[1]], args[2])
        return np.asarray(placed | args[1].any())
    return move(node.op, args[0], node.arg) if node.op in MOVEMENT else args[0]
