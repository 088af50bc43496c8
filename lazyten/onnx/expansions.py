"""Functions in place of operators: put in where they are called, under names of that place."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from lazyten.onnx.evaluation import named
from lazyten.onnx.graph import Expansion, Graph, Node
from lazyten.onnx.reader import Reader
from lazyten.onnx.table import find
from lazyten.onnx.tensors import NAMES
from lazyten.onnx.values import Value, dtype_of, shape_of


def renamed(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], prefix: str,
            known: Mapping[str, str] | None = None) -> list[Node]:
    """The nodes of a graph with the names of the place it is put in."""
    identity = find("", "Identity", 1)
    assert identity is not None
    names = dict(known or {})
    for position, value in enumerate(graph.inputs):
        names[value.name] = inputs[position] if position < len(inputs) else ""
    last: dict[str, str] = {}
    extra = []
    for inner, outer in zip(graph.outputs, outputs, strict=False):
        if inner in names or inner in last:
            extra.append((inner, outer))
        elif outer:
            last[inner] = outer
    names.update(last)

    def new(name: str) -> str:
        return names.setdefault(name, prefix + name) if name else ""
    nodes = [replace(node, name=prefix + node.name, inputs=tuple(map(new, node.inputs)),
                     outputs=tuple(map(new, node.outputs)), captured=tuple(map(new, node.captured)))
             for node in graph.nodes]
    for inner, outer in extra:
        if outer:
            nodes.append(Node(prefix + "output", "", "Identity", 16, (new(inner),), (outer,),
                              identity))
    return nodes


def typed_body(node: Node, values: Sequence[Value]) -> Graph:
    """The standard's function of an operator, for the types of these inputs."""
    assert isinstance(node.meaning, Expansion)
    proto = onnx.NodeProto.FromString(node.meaning.proto)
    schema: Any = onnx.defs.get_schema(node.kind, node.opset, node.domain)
    types = []
    for name, value in zip(node.inputs, values, strict=False):
        kind = onnx.TypeProto()
        if name:
            first = (value or [np.zeros(0, np.float32)])[0] if isinstance(value, list) else value
            dtype = dtype_of(first)
            element = onnx.TensorProto.DataType.Value(NAMES.get(dtype, dtype.upper()))
            kind = onnx.helper.make_tensor_type_proto(
                element, None if isinstance(value, list) else shape_of(value))
            if isinstance(value, list):
                kind = onnx.helper.make_sequence_type_proto(kind)
        types.append(kind.SerializeToString())
    versions = sorted(schema.context_dependent_function_opset_versions)
    version = max((v for v in versions if v <= node.opset), default=versions[0])
    with named(node):
        function = onnx.FunctionProto.FromString(
            schema.get_context_dependent_function_with_opset_version(
                version, proto.SerializeToString(), types))
        given = {key: value.default_value for key, value in schema.attributes.items()
                 if value.default_value.type} | {a.name: a for a in proto.attribute}
        return Reader().function(function, given, node, node.meaning.opsets)
