"""Rewrites of a graph: it gives the same, up to rounding, and takes less."""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import lazyten as lt
from lazyten.codegen.targets.target import Target
from lazyten.onnx.evaluation import fold
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import Operator, find, find_addition
from lazyten.onnx.values import FOLDING, Array, Constant

ML = "ai.onnx.ml"
LABELS = {"LinearClassifier": "classlabels_ints", "TreeEnsembleClassifier": "classlabels_int64s"}
"""Operators that compute labels as numbers, and their attribute for these."""
PRODUCTS = {("", "MatMulInteger"): (1, 3), ("", "QLinearMatMul"): (3, 5),
            (MICROSOFT, "MatMulIntegerToFloat"): (1, 5), (MICROSOFT, "QGemm"): (3, 5),
            (MICROSOFT, "DynamicQuantizeMatMul"): (1, 3)}
"""Products of integers, and which input is the matrix on the right, and which its zero point."""
RECURRENT = {(MICROSOFT, "DynamicQuantizeLSTM"): ((1, 8, 9), (2, 10, 11))}
"""Layers with quantized weights, and which inputs weights are, their scales and zero points."""
WEIGHTED = {"Conv": ("",), "FusedConv": (MICROSOFT,), "MatMul": ("",), "Gemm": ("",),
            "FusedMatMul": (MICROSOFT,), "FusedGemm": (MICROSOFT,)}
"""Operators that multiply their first input with weights, the second, and their domains."""
LEAST_WEIGHTS = 1 << 12
"""Fewer weights stay in the first cache, whatever their order."""
LEAST_VECTOR, CONVOLVING_VECTOR = 32, 64
"""Bytes of vectors from which on blocks of weights are worth it. With 32 two convolutions of five
took a tenth longer with blocks, the others less."""
LINE = 64
"""Bytes of a cache line, and of blocks' rows at least: with half of one products took up to a sixth
longer, of vectors of AVX2, than without blocks."""
DEEP = 256
"""So many products a sum are faster of integers: of 128, adding up the lanes takes what that saves.
"""


def rewritten(graph: Graph, target: Target | None, device: str | None) -> Graph:
    """A graph without what follows from constants alone, without batch normalizations that can be
    part of a convolution's weights, with texts as labels looked up by themselves, with products of
    integers in place of those of dequantized ones, with weights of floats in loops, and with
    weights in the order in which a target's kernels read them, where it compiles any."""
    whole = _by_columns(_joined(_folded(_with_integers(_with_numbers(graph)))))
    return _pruned(_by_blocks(_with_floats(whole), target, device))


def _fixed(graph: Graph) -> dict[str, Constant]:
    """The constants but for defaults of inputs, for which others may be given."""
    given = {x.name for x in graph.inputs}
    return {name: c for name, c in graph.constants.items() if name not in given}


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
    fixed = _fixed(graph)
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


def _with_floats(graph: Graph) -> Graph:
    """Quantized weights that recurrent layers dequantize are floats from the start."""
    fixed = _fixed(graph)
    constants = dict(graph.constants)
    return replace(graph, nodes=tuple(
        _of_floats(node, fixed, constants) if (node.domain, node.kind) in RECURRENT else node
        for node in graph.nodes), constants=constants)


def _of_floats(node: Node, fixed: Mapping[str, Constant], constants: dict[str, Constant]) -> Node:
    """The node with floats for those of its weights that are known, which join the constants."""
    inputs = list(node.inputs)
    for at, scale, zero in RECURRENT[node.domain, node.kind]:
        names = [inputs[i] for i in (at, scale, zero)]
        if not all(name in fixed for name in names):
            continue
        weight, factor, low = (fixed[name].array for name in names)
        factor, low = (x.reshape(weight.shape[0], 1, -1) for x in (factor, low))
        name = f"floats of {node.name} ({at}, {node.outputs[0]})"
        constants[name] = Constant((weight.astype(np.int32) - low).astype(np.float32) * factor)
        inputs[at], inputs[scale], inputs[zero] = name, "", ""
    return replace(node, inputs=tuple(inputs))


# ---- products of integers ------------------------------------------------------------------------

def _with_integers(graph: Graph) -> Graph:
    """Products of a quantized array and a quantized matrix that is constant, each dequantized, are
    sums of products of integers, scaled afterwards: the same up to rounding."""
    fixed = _fixed(graph)
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
    if a is None or b is None or not all(_is_plain(x, "DequantizeLinear") for x in (a, b)):
        return None
    source, scales = makers.get(a.inputs[0]), a.inputs[1:]
    turned = bool(node.attributes.get("transB"))
    if source is None or not _is_plain(source, "QuantizeLinear") or source.inputs[1:] != scales \
            or len(scales) < 2 or not all(_is_one(name, fixed) for name in scales) \
            or fixed[scales[1]].dtype.itemsize != 1 \
            or not all(name in fixed for name in b.inputs) or not _is_matrix(b, fixed, turned):
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


def _is_plain(node: Node, kind: str) -> bool:
    """Whether a node is of this kind, and not block by block."""
    return _is(node, kind) and not node.attributes.get("block_size")


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


def _by_columns(graph: Graph) -> Graph:
    """Weights of integers that are multiplied from the right lie in memory column by column, less
    their zero points: neighbours, whose products are added, are read at once."""
    fixed = _fixed(graph)
    constants = dict(graph.constants)
    nodes = []
    for node in graph.nodes:
        at, zero = PRODUCTS.get((node.domain, node.kind), (0, 0))
        names = [name for name in node.inputs[at:at + 1] + node.inputs[zero:zero + 1] if name]
        columns = _columns(bool(node.attributes.get("transB")), *(
            fixed[name].array for name in names)) if at and fixed.keys() >= {*names} else None
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


# ---- weights in the order in which they are read -------------------------------------------------

def _by_blocks(graph: Graph, target: Target | None, device: str | None) -> Graph:
    """Weights of products and convolutions lie in memory as vectors of outputs: all that one vector
    of neighbouring outputs is summed of, then what the next one is. Kernels would else make a copy
    in such an order at each call, or read lines that are far apart."""
    if target is None:
        return graph
    fixed = _fixed(graph)
    blocks = {node: found for node in graph.nodes
              if (found := _blocks_of(node, fixed, target, device)) is not None}
    uses = Counter(name for node in graph.nodes for name in node.reads)
    uses.update(graph.outputs)
    uses.subtract(node.inputs[1] for node in blocks)
    nodes = tuple(_with_blocks(node, blocks[node])
                  if node in blocks and not uses[node.inputs[1]] else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


class Blocks(NamedTuple):
    """Weights in blocks of `width` along the axis that outputs have, too; `lanes` fit a vector.
    device: of the model, whatever its inputs are on."""

    weights: Constant
    axis: int
    width: int
    lanes: int
    device: str | None

    def tensor(self, x: lt.Tensor) -> lt.Tensor:
        """The weights as they are, read from blocks. x: what they are multiplied with."""
        if x.device == FOLDING:
            return self.as_given(x)
        rows = self.weights.blocks(self.axis, self.width).tensor(self.device).movedim(0, -2)
        return rows.reshape(*rows.shape[:-2], -1).movedim(-1, self.axis)

    def as_given(self, x: lt.Tensor) -> lt.Tensor:
        """The weights, read as the file has them."""
        return self.weights.tensor(FOLDING if x.device == FOLDING else self.device)


def _blocks_of(node: Node, fixed: Mapping[str, Constant], target: Target,
               device: str | None) -> Blocks | None:
    """How a node's weights are to lie in memory; None where they stay as they are."""
    if node.domain not in WEIGHTED.get(node.kind, ()) or node.inputs[1] not in fixed:
        return None
    weights, given = fixed[node.inputs[1]], node.attributes
    rank, elements = len(weights.shape), math.prod(weights.shape)
    is_convolution = node.kind.endswith("Conv")
    if weights.dtype != np.float32 or elements < LEAST_WEIGHTS or target.vector_bytes < (
            CONVOLVING_VECTOR if is_convolution else LEAST_VECTOR):
        return None
    if rank < 4 or given.get("group", 1) != 1 if is_convolution else \
            rank != 2 or given.get("transBatchB"):
        return None
    axis = 0 if is_convolution or given.get("transB") else 1
    lanes = target.vector_bytes // weights.dtype.itemsize
    # With two vectors OpenCL's convolutions take half as long again as without blocks.
    stays = is_convolution and target.language == "llvm" and \
        2 * elements * weights.dtype.itemsize <= target.l2_bytes
    least = max(lanes, LINE // weights.dtype.itemsize)
    return next((Blocks(weights, axis, n, lanes, device) for n in (2 * least, least)[not stays:]
                 if weights.shape[axis] % n == 0), None)


def _with_blocks(node: Node, blocks: Blocks) -> Node:
    """A node that has its weights by itself."""
    row = node.meaning
    assert isinstance(row, Operator)
    function = _convolved if node.kind.endswith("Conv") else _multiplied
    return replace(node, inputs=(node.inputs[0], "", *node.inputs[2:]), meaning=replace(
        row, function=partial(function, row.function, blocks), arrays=None))


def unblocked(node: Node) -> Node:
    """The node with its weights as the file has them, if they lie in blocks: NumPy multiplies with
    nothing else."""
    row = node.meaning
    if not isinstance(row, Operator) or not isinstance(row.function, partial) \
            or row.function.func not in (_multiplied, _convolved):
        return node
    return replace(node, meaning=replace(row, function=partial(_as_given, *row.function.args)))


def _as_given(function: Callable[..., Any], blocks: Blocks, x: Any, *inputs: Any,
              **options: Any) -> Any:
    """An operator's function with its weights as the file has them."""
    return function(x, blocks.as_given(x), *inputs[1:], **options)


def _multiplied(function: Callable[..., Any], blocks: Blocks, x: Any, *inputs: Any,
                **options: Any) -> Any:
    """An operator's function with its weights in blocks."""
    return function(x, blocks.tensor(x), *inputs[1:], **options)


def _convolved(function: Callable[..., Any], blocks: Blocks, x: Any, *inputs: Any,
               **options: Any) -> Any:
    """The same, but where whole vectors of neighbouring pixels are computed of single ones: these
    read weights one by one. Windows of neighbours would begin anywhere in a cache's line."""
    window = *blocks.weights.shape[2:], *(options.get("strides") or ())
    is_whole = all(n == 1 for n in window) and math.prod(x.shape[2:]) % blocks.lanes == 0
    return function(x, blocks.as_given(x) if is_whole else blocks.tensor(x), *inputs[1:], **options)
