"""Rewrites of a graph: it gives the same, up to rounding, and takes less."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lazyten.onnx.evaluation import fold
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.quantized import by_columns, with_integers
from lazyten.onnx.table import Operator, find
from lazyten.onnx.values import Array, Constant

ML = "ai.onnx.ml"
LABELS = {"LinearClassifier": "classlabels_ints", "TreeEnsembleClassifier": "classlabels_int64s"}
"""Operators that compute labels as numbers, and their attribute for these."""


def rewritten(graph: Graph) -> Graph:
    """A graph without what follows from constants alone, without batch normalizations that can be
    part of a convolution's weights, with texts as labels looked up by themselves, and with
    products of integers (quantized.py)."""
    return _pruned(by_columns(_joined(_folded(with_integers(_with_numbers(graph))))))


def _with_numbers(graph: Graph) -> Graph:
    """Labels that are texts are numbers first, which operators on the host turn into texts."""
    used = {*graph.constants, *(x.name for x in graph.inputs), *graph.free,
            *(name for node in graph.nodes for name in node.outputs)}
    return replace(graph, nodes=tuple(part for node in graph.nodes for part in (
        _in_two(node, used) if node.domain == ML and node.kind in LABELS else (node,))))


def _in_two(node: Node, used: set[str]) -> tuple[Node, ...]:
    """A classifier that gives numbers, and a node that looks up its texts; itself if it has
    none."""
    texts = node.attributes.get("classlabels_strings") or []
    if len(texts) < 2:
        return (node,)
    number = f"number of {node.outputs[0]}"
    while number in used:
        number += "'"
    used.add(number)
    places = [*range(len(texts))]
    kept = {k: v for k, v in node.attributes.items() if k != "classlabels_strings"}
    mapper = find(ML, "CategoryMapper", 1)
    assert mapper is not None
    return (replace(node, outputs=(number, *node.outputs[1:]),
                    attributes={**kept, LABELS[node.kind]: places}),
            Node(node.name, ML, "CategoryMapper", node.opset, (number,), node.outputs[:1], mapper,
                 {"cats_int64s": places, "cats_strings": texts}))


def _folded(graph: Graph) -> Graph:
    """What follows from constants alone is a constant."""
    overridable = {x.name for x in graph.inputs}
    constants = dict(graph.constants)
    left = []
    for node in graph.nodes:
        known = all(name in constants and name not in overridable for name in node.inputs if name)
        if known and isinstance(node.meaning, Operator) and not node.captured and (
                found := fold(node, [constants.get(name) for name in node.inputs])) is not None:
            constants.update(zip(node.outputs, found, strict=True))
        else:
            left.append(node)
    return replace(graph, nodes=tuple(left), constants=constants)


def _joined(graph: Graph) -> Graph:
    """Batch normalizations behind convolutions are part of the weights of these."""
    uses = Counter(name for node in graph.nodes for name in node.reads)
    uses.update(graph.outputs)
    fixed = {name: c for name, c in graph.constants.items()
             if name not in {x.name for x in graph.inputs}}
    makers = {node.outputs[0]: node for node in graph.nodes if _is(node, "Conv")}
    constants = dict(graph.constants)
    changed: dict[Node, Node | None] = {}
    for node in graph.nodes:
        conv = makers.get(node.inputs[0]) if _is(node, "BatchNormalization") else None
        if conv is None or uses[node.inputs[0]] > 1 or not _is_fixed(node, conv, fixed):
            continue
        names = tuple(f"{part} of {node.name} ({node.outputs[0]})" for part in ("weight", "bias"))
        constants.update(zip(names, map(Constant, _weights(node, conv, fixed)), strict=True))
        changed[conv] = None
        changed[node] = replace(conv, inputs=(conv.inputs[0], *names), outputs=node.outputs[:1])
    nodes = tuple(new for node in graph.nodes if (new := changed.get(node, node)) is not None)
    return replace(graph, nodes=nodes, constants=constants)


def _pruned(graph: Graph) -> Graph:
    """Constants that nothing reads any more are gone."""
    read = {*graph.outputs, *(name for node in graph.nodes for name in node.reads),
            *(x.name for x in graph.inputs)}
    return replace(graph, constants={n: c for n, c in graph.constants.items() if n in read})


def _is(node: Node, kind: str) -> bool:
    return node.kind == kind and not node.domain


def _is_fixed(norm: Node, conv: Node, fixed: Mapping[str, Constant]) -> bool:
    """Whether all numbers are known, of one type that is wide enough, and nothing is trained."""
    names = [name for name in (*conv.inputs[1:], *norm.inputs[1:]) if name]
    if not all(name in fixed for name in names) or norm.attributes.get("training_mode", 0) \
            or not norm.attributes.get("spatial", 1) or any(norm.outputs[1:]):
        return False
    arrays = [fixed[name].array for name in names]
    channels = arrays[0].shape[:1]
    return {x.dtype for x in arrays} in ({np.dtype(np.float32)}, {np.dtype(np.float64)}) \
        and all(x.shape == channels for x in arrays[1:])


def _weights(norm: Node, conv: Node, fixed: Mapping[str, Constant]) -> tuple[Array, Array]:
    """Weights and biases of the convolution and the normalization in one."""
    weight = fixed[conv.inputs[1]].array
    scale, shift, mean, var = (fixed[name].array.astype(np.float64) for name in norm.inputs[1:5])
    bias = fixed[conv.inputs[2]].array if len(conv.inputs) > 2 and conv.inputs[2] else 0.0
    factor = scale / np.sqrt(var + norm.attributes.get("epsilon", 1e-5))
    wide = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    return wide.astype(weight.dtype), ((bias - mean) * factor + shift).astype(weight.dtype)
