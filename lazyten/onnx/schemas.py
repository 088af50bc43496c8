"""What the standard says of operators: which there are, what they take, their functions; and what
is known of those that only onnxruntime has."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import FunctionProto

from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.table import TABLE, Operator, find, find_addition
from lazyten.support.errors import ArgumentError

MICROSOFT = "com.microsoft"
"""The domain of operators that onnxruntime adds, and puts in place of others in models that it
optimizes."""
LAYOUTS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
"""Domains of operators whose arrays lie as one processor likes them, which a file does not tell."""


def addition(node: Node) -> Operator | None:
    """The row of an operator that the standard lacks, in the opset of the model; None if it has it.

    Raises ArgumentError for what lazyten lacks of onnxruntime's domain, and for more than an
    operator can do here.
    """
    if node.domain != MICROSOFT and onnx.defs.has(node.kind, node.opset, node.domain):
        return None
    row = find_addition(node.domain, node.kind)
    if row is not None and node.opset > 0:
        _check_addition(node, row)
        return row
    if node.domain == MICROSOFT and node.opset > 0:
        known = sorted(name for domain, name in TABLE if domain == MICROSOFT)
        raise ArgumentError(f"{node.title}: of this domain lazyten has {', '.join(known)}")
    if node.domain in LAYOUTS:
        raise ArgumentError(f"{node.title}: onnxruntime wrote this model with the layout of one "
                            f"processor, for which there is no standard; save it with the "
                            f"optimization level ORT_ENABLE_EXTENDED, or take the model it is of")
    return None


def _check_addition(node: Node, row: Operator) -> None:
    """That a node has inputs and outputs as its operator takes them."""
    most = len(node.inputs) if row.variadic else len(row.inputs)
    if not row.required <= len(node.inputs) <= most or not 1 <= len(node.outputs) <= row.gives:
        raise ArgumentError(f"{node.title} has {len(node.inputs)} inputs and {len(node.outputs)} "
                            f"outputs: {row.required} to {most} and 1 to {row.gives} are supported")
    for name, given in zip(row.inputs, node.inputs, strict=False):
        if given and name in row.absent:
            raise ArgumentError(f"{node.title} has the input {name!r}, which is not supported")


def addition_attributes(node: Node, row: Operator, attributes: Mapping[str, Any]
                        ) -> dict[str, Any]:
    """The attributes of an operator that the standard lacks, checked, without those that can have
    one value alone."""
    for name, value in attributes.items():
        if name in row.fixed:
            if value != row.fixed[name]:
                raise ArgumentError(f"{node.title}: the attribute {name!r} is {value!r:.60}, and "
                                    f"only {row.fixed[name]!r} is supported")
        elif name not in row.attributes:
            raise ArgumentError(f"{node.title} has the attribute {name!r}, and only these are "
                                f"supported: {sorted(row.attributes)}")
        elif not _is_of_kind(value, row.kinds[name].removesuffix(" | None")):
            raise ArgumentError(f"{node.title}: the attribute {name!r} is {value!r:.60}, and "
                                f"should be {row.kinds[name].removesuffix(' | None')}")
    for name in sorted(row.needed - {*attributes}):
        raise ArgumentError(f"{node.title} needs the attribute {name!r}")
    return {name: value for name, value in attributes.items() if name not in row.fixed}


def _is_of_kind(value: object, kind: str) -> bool:
    """Whether a value is what an annotation says: a number, a text, or a list of these."""
    if kind.startswith("list["):
        return isinstance(value, list) and all(_is_of_kind(x, kind[5:-1]) for x in value)
    return type(value).__name__ == kind


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
    row = find(node.domain, node.kind, schema.since_version)
    if schema.deprecated and (row is None or row.since < schema.since_version):
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
    for wanted, name in zip(schema.inputs, node.inputs, strict=False):
        if not name and wanted.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise ArgumentError(f"{node.title}: the input {wanted.name!r} is left out, and it must "
                                f"be there")


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
