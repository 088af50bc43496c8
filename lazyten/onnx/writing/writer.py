"""A graph's operators in the ONNX format: nodes, constants, and their names."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from lazyten.ir.node import Node
from lazyten.onnx.values import Array
from lazyten.onnx.writing.alike import Term
from lazyten.onnx.writing.sizes import Sizes
from lazyten.onnx.writing.varying import Size, Varying, VaryingFloat
from lazyten.storage.placeholder import Placeholder
from lazyten.support.errors import ArgumentError

TYPES = {name: getattr(TensorProto, kind) for name, kind in {
    "bool": "BOOL", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT",
    "float64": "DOUBLE", **{f"{u}int{n}": f"{u.upper()}INT{n}" for u in ("", "u")
                            for n in (8, 16, 32, 64)}}.items()}
"""lazyten's types as ONNX numbers them."""


class Writer:
    """Writes operators. inputs: names of the model's inputs, with their shapes. parameters: names
    of memory that is read, by the node that reads it. sizes: what is known of sizes that vary.
    slots: names of a body's arguments. parts: of a SCAN."""

    def __init__(self, inputs: Sequence[tuple[str, tuple[Size, ...]]],
                 parameters: Mapping[Node, str], sizes: Sizes) -> None:
        self.inputs, self.sizes = inputs, sizes
        self.parameters = {node.arg: name for node, name in parameters.items()}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.known: dict[Term, str] = {}
        self.at: Term | None = None
        self.slots: list[str] = []
        self.parts: dict[Term, Sequence[str]] = {}
        self._around: Writer | None = None
        self._prefix = ""
        self._constants: dict[tuple[Any, ...], str] = {}
        self._made: dict[Any, str] = {}

    def inner(self, arguments: int) -> Writer:
        """A writer of a body, which reads constants and sizes of the graph around it."""
        found = Writer(self.inputs, {}, self.sizes)
        found._around = self
        found._prefix = f"{self._prefix}b{len(self.nodes)}_"
        found.slots = [f"{found._prefix}x{i}" for i in range(arguments)]
        return found

    def give_output(self, name: str, term: Term) -> None:
        """An output of the model."""
        self.nodes.append(helper.make_node("Identity", [self.known[term]], [name]))

    def input_of(self, term: Term) -> tuple[str, tuple[Size, ...]] | None:
        """The input whose memory a BUFFER is; None for other memory."""
        return self.inputs[term.arg.number] if isinstance(term.arg, Placeholder) else None

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A new node; the name of its output."""
        return self.add_many(kind, 1, *inputs, **attributes)[0]

    def add_many(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """A new node; the names of its outputs."""
        name = f"{self._prefix}v{len(self.nodes)}"
        names = [name if count == 1 else f"{name}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"{kind}_{name}",
                                           **attributes))
        return names

    def constant(self, array: Array, name: str = "") -> str:
        """The name of a constant; equal small ones are one."""
        if self._around is not None:
            return self._around.constant(array, name)
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes()) \
            if array.size < 4096 and not name else (id(array), name)
        if key not in self._constants:
            name = name or f"c{len(self._constants)}"
            self._constants[key] = name
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(
                array.shape), name))
        return self._constants[key]

    def ints(self, values: Iterable[Size]) -> str:
        """A list of integers, such as a shape: a constant, or computed of the sizes of inputs."""
        key = tuple(values)
        if self._around is not None:
            return self._around.ints(key)
        if all(isinstance(n, int) for n in key):
            return self.constant(np.array(key, np.int64))
        if key not in self._made:
            parts = [self.size(n) if isinstance(n, Varying) else self.ints([n]) for n in key]
            self._made[key] = parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)
        return self._made[key]

    def size(self, number: Varying) -> str:
        """A size that varies, as a list of one."""
        if self._around is not None:
            return self._around.size(number)
        if number not in self._made:
            self._made[number] = self.sizes.write(self, number)
        return self._made[number]

    def scalar(self, value: Any, term: Term, rank: int = 0) -> str:
        """One number of a term's type, with so many axes of size 1."""
        if not isinstance(value, Varying | VaryingFloat):
            dtype = ml_dtypes.bfloat16 if term.dtype.name == "bfloat16" else term.dtype.name
            return self.constant(np.full([1] * rank, value, dtype))
        if self._around is not None:
            return self._around.scalar(value, term, rank)
        key = value, term.dtype.name, rank
        if key not in self._made:
            flat = self.size(value) if isinstance(value, Varying) \
                else self.sizes.write_float(self, value, term.dtype)
            shaped = flat if rank == 1 else self.add("Reshape", flat, self.ints([1] * rank))
            self._made[key] = self.add("Cast", shaped, to=TYPES[term.dtype.name])
        return self._made[key]

    def span(self, count: Size) -> str:
        """0, 1, .. count - 1."""
        if isinstance(count, int):
            return self.constant(np.arange(count))
        zero, one = (self.constant(np.array(n)) for n in (0, 1))
        return self.add("Range", zero, self.add("Squeeze", self.size(count)), one)

    def needed(self, outputs: Iterable[str]) -> tuple[list[Any], list[Any]]:
        """Nodes and constants that these outputs follow from."""
        read, kept = {*outputs}, []
        for node in self.nodes[::-1]:
            if read.intersection(node.output):
                read.update(_reads(node))
                kept.append(node)
        return kept[::-1], [x for x in self.initializers if x.name in read]

    def of(self, term: Term) -> str:
        """The name of a term's value."""
        name = self.known[term]
        if not name:
            raise ArgumentError(f"onnx.export(dynamic=...): all rows of {term} are read at once; "
                                f"leave the axis out of dynamic")
        return name


def _reads(node: Any) -> Iterator[str]:
    """What a node reads, and its body, too."""
    yield from node.input
    for attribute in node.attribute:
        for inside in attribute.g.node:
            yield from _reads(inside)
