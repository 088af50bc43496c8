"""From a ModelProto to a graph: names resolved, operators found, attributes decoded, all checked.

In: bytes or messages of others, which may say anything. Out: `Graph`, or an ArgumentError that
names the place. Nothing is run.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from lazyten.onnx.graph import Expansion, Graph, Input, Node, in_order
from lazyten.onnx.schemas import (
    MICROSOFT,
    addition,
    addition_attributes,
    check_attributes,
    check_counts,
    schema_of,
    standard_function,
)
from lazyten.onnx.table import Operator, find
from lazyten.onnx.tensors import check_texts, read_sparse, read_tensor, type_name
from lazyten.onnx.values import Constant
from lazyten.support.errors import ArgumentError

NODE_LIMIT = 1 << 18
"""Nodes of a model, with those of functions wherever they are called."""
DEPTH_LIMIT = 64
"""Graphs and functions inside each other."""
KINDS = {AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s",
         AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints",
         AttributeProto.STRINGS: "strings"}


def parse(data: bytes) -> ModelProto:
    """A file's message. Raises ArgumentError for what is none."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ArgumentError(f"onnx.load of {len(data)} bytes: they are no ONNX model, or a part "
                            f"of one ({error})") from None
    if not model.HasField("graph"):
        raise ArgumentError(f"onnx.load of {len(data)} bytes: there is no graph in them, so they "
                            f"are no ONNX model")
    return model


class Reader:
    """Reads one model: its opsets, its functions, where its external data lie."""

    def __init__(self, functions: Sequence[FunctionProto] = (), folder: Path | None = None) -> None:
        self.folder = folder
        self.nodes = 0
        self.within: list[str] = []
        self.functions = {(_domain(f.domain), f.name, f.overload): f for f in functions}

    def graph(self, proto: GraphProto, opsets: Mapping[str, int], outer: frozenset[str],
              values: Mapping[str, AttributeProto]) -> Graph:
        """A graph whose nodes may read the names `outer`; `values` are the attributes of the
        function it stands in."""
        check_texts(f"graph {proto.name!r:.60}", proto.name, *(
            x.name for part in (proto.initializer, proto.input, proto.output) for x in part),
            *(x.values.name for x in proto.sparse_initializer))
        constants: dict[str, Constant] = {}
        for tensor in proto.initializer:
            constants[tensor.name] = Constant(read_tensor(tensor, self.folder))
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = Constant(read_sparse(sparse, self.folder))
        inputs = tuple(_input(value) for value in proto.input)
        names = [x.name for x in inputs]
        if len({*names}) < len(names) or "" in names:
            raise ArgumentError(f"graph {proto.name!r} has inputs without a name of their own: "
                                f"{names}")
        nodes = self._nodes(proto.node, opsets, frozenset({*names, *constants}), outer, values)
        made = {*names, *constants, *(name for node in nodes for name in node.outputs)}
        outputs = tuple(value.name for value in proto.output)
        for name in outputs:
            if not name or name not in made | outer:
                raise ArgumentError(f"graph {proto.name!r} has the output {name!r}, which nothing "
                                    f"in it makes")
        reads = [*(name for node in nodes for name in node.reads), *outputs]
        free = tuple(dict.fromkeys(name for name in reads if name not in made))
        return Graph(proto.name, inputs, outputs, nodes, constants, free,
                     tuple(map(_input, proto.output)))

    def _nodes(self, protos: Sequence[NodeProto], opsets: Mapping[str, int], given: frozenset[str],
               outer: frozenset[str], values: Mapping[str, AttributeProto]) -> tuple[Node, ...]:
        """Nodes in an order in which they can run."""
        if len(self.within) > DEPTH_LIMIT:
            raise ArgumentError(f"graphs and functions inside each other, more than {DEPTH_LIMIT}: "
                                f"{self.within[:4]}..")
        made = [name for proto in protos for name in proto.output if name]
        known = outer | given | {*made}
        if len({*made}) < len(made) or given & {*made}:
            twice = sorted(name for name in known if made.count(name) + (name in given) > 1)
            raise ArgumentError(f"values that are made twice: {', '.join(map(repr, twice[:5]))}")
        nodes = []
        for number, proto in enumerate(protos):
            self.nodes += 1
            if self.nodes > NODE_LIMIT:
                raise ArgumentError(f"a model of more than {NODE_LIMIT} nodes, those of functions "
                                    f"counted at each call")
            nodes.append(self.node(proto, number, opsets, known, values))
        return in_order(nodes, known - {*made})

    def node(self, proto: NodeProto, number: int, opsets: Mapping[str, int],
             known: frozenset[str], values: Mapping[str, AttributeProto]) -> Node:
        """A node whose inputs and subgraphs may read the names `known`."""
        check_texts(f"node {proto.name!r:.60}", proto.name, proto.op_type, proto.domain,
                    proto.overload, *proto.input, *proto.output,
                    *(x for a in proto.attribute for x in (a.name, a.ref_attr_name)))
        domain, name = _domain(proto.domain), proto.name or f"{proto.op_type}_{number}"
        # onnxruntime's optimizer leaves its own domain out, and onnxruntime takes what it wrote
        opset = opsets.get(domain, 1 if domain == MICROSOFT else 0)
        start = Node(name, domain, proto.op_type, opset, tuple(proto.input), tuple(proto.output),
                     Expansion(None))
        for read in proto.input:
            if read and read not in known:
                raise ArgumentError(f"{start.title} reads {read!r}, which nothing makes")
        self.within.append(name)
        given = _given(proto, values)
        attributes = {key: self._attribute(start, value, opsets, known, values)
                      for key, value in given.items()}
        meaning = self._meaning(start, proto, given, attributes, opsets)
        if isinstance(meaning, Operator) and meaning.gives:
            attributes = addition_attributes(start, meaning, attributes)
        self.within.pop()
        graphs = [attributes[key] for key in sorted(attributes)
                  if isinstance(attributes[key], Graph)]
        captured = tuple(name for graph in graphs for name in graph.free)
        return Node(name, domain, proto.op_type, opset, start.inputs, start.outputs, meaning,
                    attributes, captured)

    def _meaning(self, node: Node, proto: NodeProto, given: Mapping[str, AttributeProto],
                 attributes: Mapping[str, Any], opsets: Mapping[str, int]) -> Any:
        """The row of the table, or the function, that a node means."""
        function = self.functions.get((node.domain, node.kind, proto.overload))
        if function is not None:
            return Expansion(self.function(function, given, node))
        row = addition(node)
        if row is not None:
            return row
        schema = schema_of(node)
        check_counts(node, schema)
        row = find(node.domain, node.kind, schema.since_version)
        if row is not None:
            check_attributes(node, attributes, row.attributes, row.needed, schema)
            return row
        if schema.has_context_dependent_function:
            whole = NodeProto()
            whole.CopyFrom(proto)
            del whole.attribute[:]
            whole.attribute.extend(given.values())
            return Expansion(None, whole.SerializeToString(), dict(opsets))
        if not schema.has_function:
            raise ArgumentError(f"{node.title}: lazyten does not have this operator")
        defaults = {key: value.default_value for key, value in schema.attributes.items()
                    if value.default_value.type}
        return Expansion(self.function(standard_function(schema, node.opset),
                                       {**defaults, **given}, node))

    def function(self, proto: FunctionProto, given: Mapping[str, AttributeProto],
                 node: Node, outer: Mapping[str, int] | None = None) -> Graph:
        """The body of a function for one call. Raises ArgumentError if it calls itself."""
        check_texts(f"function {proto.name!r:.60}", proto.name, proto.domain, *proto.input,
                    *proto.output, *(a.name for a in proto.attribute_proto))
        place = f"function {_domain(proto.domain)}.{proto.name}"
        if place in self.within:
            raise ArgumentError(f"{node.title}: this {place} calls itself")
        self.within.append(place)
        values = {value.name: value for value in proto.attribute_proto} | dict(given)
        opsets = {**(outer or {}), **{_domain(x.domain): x.version for x in proto.opset_import}}
        inputs = tuple(Input(name, "", None) for name in proto.input)
        nodes = self._nodes(proto.node, opsets, frozenset(proto.input), frozenset(), values)
        made = {*proto.input, *(name for n in nodes for name in n.outputs)}
        for name in proto.output[:len(node.outputs)]:
            if name not in made:
                raise ArgumentError(f"{place} has the output {name!r}, which nothing in it makes")
        if len(node.inputs) > len(inputs) or len(node.outputs) > len(proto.output):
            raise ArgumentError(f"{node.title}: {place} takes {len(inputs)} inputs and gives "
                                f"{len(proto.output)} outputs")
        self.within.pop()
        return Graph(place, inputs, tuple(proto.output[:len(node.outputs)]), nodes, {})

    def _attribute(self, node: Node, proto: AttributeProto, opsets: Mapping[str, int],
                   known: frozenset[str], values: Mapping[str, AttributeProto]) -> Any:
        """An attribute's value: numbers, strings, arrays, graphs, or lists of numbers or
        strings."""
        try:
            if proto.type == AttributeProto.TENSOR:
                return read_tensor(proto.t, self.folder)
            if proto.type == AttributeProto.SPARSE_TENSOR:
                return read_sparse(proto.sparse_tensor, self.folder)
            if proto.type == AttributeProto.GRAPH:
                return self.graph(proto.g, opsets, known, values)
            if proto.type in (AttributeProto.TYPE_PROTO, AttributeProto.TENSORS):
                return proto.tp if proto.type == AttributeProto.TYPE_PROTO else [
                    read_tensor(t, self.folder) for t in proto.tensors]
            if proto.type not in KINDS:
                raise ArgumentError(f"type {proto.type} is not supported")
            value = getattr(proto, KINDS[proto.type])
            if isinstance(value, bytes):
                return value.decode()
            if proto.type == AttributeProto.STRINGS:
                return [x.decode() for x in value]
            return value if isinstance(value, int | float) else list(value)
        except (ArgumentError, UnicodeDecodeError) as error:
            if node.title in str(error):
                raise
            raise ArgumentError(f"{node.title}, attribute {proto.name!r}: {error}") from error


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _given(proto: NodeProto, values: Mapping[str, AttributeProto]) -> dict[str, AttributeProto]:
    """A node's attributes by name; those that refer to attributes of a function as these are."""
    found = {}
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in values:
                continue
            value = AttributeProto()
            value.CopyFrom(values[attribute.ref_attr_name])
            value.name = attribute.name
            attribute = value
        found[attribute.name] = attribute
    return found


def _input(proto: onnx.ValueInfoProto) -> Input:
    """What a file says of an input, or an output."""
    kind = proto.type.WhichOneof("value")
    if kind == "map_type":
        values = proto.type.map_type.value_type.tensor_type.elem_type
        return Input(proto.name, type_name(values), None, False)
    if kind != "tensor_type":
        return Input(proto.name, "", None, kind is None)
    tensor = proto.type.tensor_type
    if not tensor.HasField("shape"):
        return Input(proto.name, type_name(tensor.elem_type), None)
    sizes: list[int | str | None] = []
    for dim in tensor.shape.dim:
        named = dim.WhichOneof("value")
        sizes.append(getattr(dim, named) if named else None)
    return Input(proto.name, type_name(tensor.elem_type), tuple(sizes))
