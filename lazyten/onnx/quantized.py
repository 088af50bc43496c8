"""Products of integers in graphs of floats: rewrites of what computes with quantized weights.

In: a graph, before what follows from constants is computed. Out: one in which products of
dequantized matrices are those of the integers; and one in which these lie as they are read.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import Operator, find_addition
from lazyten.onnx.values import Array, Constant

PRODUCTS = {("", "MatMulInteger"): (1, 3), ("", "QLinearMatMul"): (3, 5),
            (MICROSOFT, "MatMulIntegerToFloat"): (1, 5), (MICROSOFT, "QGemm"): (3, 5),
            (MICROSOFT, "DynamicQuantizeMatMul"): (1, 3)}
"""Products of integers, and which input is the matrix on the right, and which its zero point."""
DEEP = 256
"""So many products a sum are faster of integers: of 128, adding up the lanes takes what that saves.
"""


def with_integers(graph: Graph) -> Graph:
    """Products of a quantized array and a quantized matrix that is constant, each dequantized, are
    sums of products of integers, scaled afterwards: the same up to rounding."""
    fixed = {name: c for name, c in graph.constants.items()
             if name not in {x.name for x in graph.inputs}}
    makers = {name: node for node in graph.nodes for name in node.outputs}
    constants = dict(graph.constants)
    nodes = tuple(_of_integers(node, makers, fixed, constants) or node for node in graph.nodes)
    return replace(graph, nodes=nodes, constants=constants)


def _of_integers(node: Node, makers: Mapping[str, Node], fixed: Mapping[str, Constant],
                 constants: dict[str, Constant]) -> Node | None:
    """The product of integers in a product's place, whose matrix joins the constants; None if it is
    no such one."""
    if not _is_product(node):
        return None
    a, b = (makers.get(name) for name in node.inputs[:2])
    if a is None or b is None or not _is(a, "DequantizeLinear") or not _is(b, "DequantizeLinear"):
        return None
    source = makers.get(a.inputs[0])
    turned = bool(node.attributes.get("transB"))
    if source is None or not _is(source, "QuantizeLinear") or source.inputs[1:] != a.inputs[1:] \
            or not all(_is_one(name, fixed) for name in a.inputs[1:]) or not all(
                name in fixed for name in b.inputs) or not _is_matrix(b, fixed, turned) \
            or len(a.inputs) < 3 or fixed[a.inputs[2]].dtype.itemsize != 1:
        return None
    weight = fixed[b.inputs[0]].array
    name = f"weight of {node.name} ({node.outputs[0]})"
    constants[name] = Constant(np.ascontiguousarray(weight.T) if turned else weight)
    meaning = find_addition(MICROSOFT, "MatMulIntegerToFloat")
    assert meaning is not None
    zero = b.inputs[2] if len(b.inputs) > 2 else ""
    return Node(node.name, MICROSOFT, "MatMulIntegerToFloat", 1,
                (a.inputs[0], name, a.inputs[1], b.inputs[1], a.inputs[2], zero, *node.inputs[2:]),
                node.outputs, meaning)


def _is_product(node: Node) -> bool:
    """Whether a node multiplies two matrices, and does nothing else but add a third array."""
    given = node.attributes
    return _is(node, "MatMul") or _is(node, "Gemm") and not given.get("transA") and all(
        given.get(name, 1.0) == 1.0 for name in ("alpha", "beta"))


def _is(node: Node, kind: str) -> bool:
    return node.kind == kind and not node.domain and not node.attributes.get("block_size")


def _is_one(name: str, fixed: Mapping[str, Constant]) -> bool:
    """Whether a name is that of one number, of float32 if of a float."""
    known = fixed.get(name)
    return known is not None and known.shape in ((), (1,)) and (
        known.dtype == np.float32 or known.dtype.kind in "iu")


def _is_matrix(node: Node, fixed: Mapping[str, Constant], turned: bool) -> bool:
    """Whether a node dequantizes a matrix of 8 bits, whole or column by column, that many products
    a sum are made with."""
    weight, scale, *zero = (fixed[name] for name in node.inputs)
    if len(weight.shape) != 2 or weight.dtype.itemsize != 1 or weight.dtype.kind not in "iu" \
            or scale.dtype != np.float32 or any(z.dtype != weight.dtype for z in zero):
        return False
    across = 0 if turned else 1
    if weight.shape[1 - across] < DEEP:
        return False
    by_column = node.attributes.get("axis", 1) % 2 == across
    return all(x.shape in ((), (1,)) or by_column and x.shape == (weight.shape[across],)
               for x in (scale, *zero))


def by_columns(graph: Graph) -> Graph:
    """Weights of integers that are multiplied from the right lie in memory column by column, less
    their zero points: neighbours, whose products are added, are read at once."""
    fixed = graph.constants.keys() - {x.name for x in graph.inputs}
    constants = dict(graph.constants)
    nodes = []
    for node in graph.nodes:
        at, zero = PRODUCTS.get((node.domain, node.kind), (0, 0))
        names = [name for name in node.inputs[at:at + 1] + node.inputs[zero:zero + 1] if name]
        columns = _columns(bool(node.attributes.get("transB")), *(
            constants[name].array for name in names)) if at and fixed.issuperset(names) else None
        if columns is not None:
            name = f"columns of {node.name} ({node.outputs[0]})"
            constants[name] = Constant(columns)
            nodes.append(_turned(node, at, zero, name))
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _columns(turned: bool, weight: Array, zero: Array | None = None) -> Array | None:
    """The columns of a matrix of 8 bits, which may be its rows already, less zero points, of which
    there is one, or one a column; None of others."""
    weight = weight if turned else weight.T
    if weight.ndim != 2 or weight.dtype.itemsize != 1 or weight.dtype.kind not in "iu" or \
            zero is not None and (zero.dtype != weight.dtype or zero.size != 1
                                  and zero.shape != weight.shape[:1]):
        return None
    if zero is not None and zero.any():
        weight = weight.astype(np.int16) - zero.astype(np.int16).reshape(-1, 1)
    return np.ascontiguousarray(weight)


def _turned(node: Node, at: int, zero: int, columns: str) -> Node:
    """A product with the columns of its matrix, which have no zero point."""
    inputs = list(node.inputs)
    inputs[at], inputs[zero:zero + 1] = columns, [""] * (zero < len(inputs))
    if node.kind == "QGemm":
        return replace(node, inputs=tuple(inputs), attributes={**node.attributes, "transB": 1})
    row = node.meaning
    assert isinstance(row, Operator)
    return replace(node, inputs=tuple(inputs), meaning=replace(
        row, function=partial(_of_columns, row.function, at)))


def _of_columns(function: Callable[..., Any], at: int, *inputs: Any, **options: Any) -> Any:
    """An operator's function of inputs of which one is given by columns."""
    return function(*inputs[:at], inputs[at].mT, *inputs[at + 1:], **options)
