"""What the standard says of operators: which there are, what they take, their functions."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import FunctionProto

from lazyten.onnx.graph import Graph, Node
from lazyten.support.errors import ArgumentError


def schema_of(node: Node) -> Any:
    """What the standard says of a node's operator. Raises ArgumentError if it has none such."""
    if node.opset <= 0:
        raise ArgumentError(f"{node.title}: the model imports no opset of the domain "
                            f"{node.domain or 'ai.onnx'!r}")
    newest = onnx.defs.onnx_opset_version()
    if node.opset > (1 << 20 if node.domain else newest):
        raise ArgumentError(f"{node.title}: the installed package onnx knows opsets up to {newest}")
    try:
        schema = onnx.defs.get_schema(node.kind, node.opset, node.domain)
    except onnx.defs.SchemaError:
        raise ArgumentError(f"{node.title}: the standard has no such operator, and the model no "
                            f"such function") from None
    if schema.deprecated:
        raise ArgumentError(f"{node.title}: the operator was taken back by then")
    return schema


def check_counts(node: Node, schema: Any) -> None:
    """That a node has as many inputs and outputs as its operator may have."""
    for what, names, least, most in (
            ("inputs", node.inputs, schema.min_input, schema.max_input),
            ("outputs", node.outputs, schema.min_output, schema.max_output)):
        if not least <= len(names) <= most:
            raise ArgumentError(f"{node.title} has {len(names)} {what}: {least} to {most} are "
                                f"allowed")


def check_attributes(node: Node, attributes: Mapping[str, Any], allowed: frozenset[str],
                      needed: frozenset[str], schema: Any) -> None:
    """That attributes are those of the operator and of their types."""
    for name, value in attributes.items():
        if name not in allowed or name not in schema.attributes:
            raise ArgumentError(f"{node.title} has the attribute {name!r}, and only these are "
                                f"supported: {sorted(allowed)}")
        kind = schema.attributes[name].type.name
        wanted = {"FLOAT": float, "INT": int, "STRING": str, "GRAPH": Graph, "FLOATS": list,
                  "INTS": list, "STRINGS": list}.get(kind)
        part = {"FLOATS": float, "INTS": int, "STRINGS": str}.get(kind)
        if wanted and not (isinstance(value, wanted) and (not part or not isinstance(value, list)
                                                          or all(isinstance(x, part)
                                                                 for x in value))):
            raise ArgumentError(f"{node.title}: the attribute {name!r} is {value!r:.60}, and "
                                f"should be {kind}")
    for name in sorted(needed - {*attributes}):
        raise ArgumentError(f"{node.title} needs the attribute {name!r}")


def standard_function(schema: Any, opset: int) -> FunctionProto:
    """The standard's body of an operator, in the words of an opset."""
    versions = sorted(schema.function_opset_versions)
    version = max((v for v in versions if v <= opset), default=versions[0])
    function = FunctionProto()
    function.ParseFromString(schema.get_function_with_opset_version(version))
    return function
