"""From a function of tensors to a model in the ONNX format: its graph, an operator for each op.

In: a function or module, and tensors like those it will be given. Out: a ModelProto, or a file.
Where sizes vary the function is recorded at many of them (varied.py).
"""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import unwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnx import ModelProto, helper
from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors

import lazyten as lt
from lazyten.ir.node import Node, rewrite, toposort
from lazyten.ir.ops import Op
from lazyten.ir.scan import unrolled
from lazyten.onnx.writing.alike import Term, alike, sources_first
from lazyten.onnx.writing.comparing import Comparison
from lazyten.onnx.writing.dynamic import Axes
from lazyten.onnx.writing.recording import record
from lazyten.onnx.writing.rules import write
from lazyten.onnx.writing.sizes import Sizes
from lazyten.onnx.writing.varied import HELP, varied
from lazyten.onnx.writing.varying import Size, Varying, size_of
from lazyten.onnx.writing.writer import TYPES, Writer
from lazyten.support.errors import ArgumentError
from lazyten.support.paths import path_of, write_files, writing

MOST_BYTES = (1 << 31) - (1 << 24)
"""Weights of more bytes stand in a file of their own: a message has less than 2 GiB."""
OPSET = 18


def export(function: Callable[..., Any], inputs: Any, path: str | os.PathLike[str] | None,
           input_names: Sequence[str] | None, output_names: Sequence[str] | None,
           dynamic: Mapping[Any, Any] | None,
           dynamic_axes: Mapping[Any, Any] | None) -> ModelProto:
    """See `lazyten.onnx.export`."""
    if dynamic_axes is not None:
        if dynamic is not None:
            raise ArgumentError("onnx.export: dynamic and dynamic_axes say the same; give one")
        dynamic = _of_inputs(dynamic_axes, output_names)
    given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if not callable(function) or not all(isinstance(x, lt.Tensor) for x in given):
        raise ArgumentError(f"onnx.export of {type(function).__name__} with "
                            f"{[type(x).__name__ for x in given]}: give a function or a module, "
                            f"and tensors")
    target = None if path is None else path_of(path, "onnx.export")
    model = model_of(function, given, input_names, output_names, dynamic)
    if sum(len(x.raw_data) for x in model.graph.initializer) > MOST_BYTES:
        return _write_apart(model, target)
    onnx.checker.check_model(model)
    if target is not None:
        write_files({target: model.SerializeToString()}, "onnx.export")
    return model


def _write_apart(model: ModelProto, target: Path | None) -> ModelProto:
    """Write a model that is too large for one message, with its weights in a file beside it."""
    if target is None:
        raise ArgumentError(f"onnx.export: weights of more than {MOST_BYTES} bytes do not fit a "
                            f"message; give a path, beside which they have a file of their own")
    beside = target.name + ".data"
    convert_model_to_external_data(model, location=beside)
    with writing(target, "onnx.export"), TemporaryDirectory(dir=target.parent) as folder:
        whole = Path(folder, target.name)
        whole.write_bytes(write_external_data_tensors(model, folder).SerializeToString())
        onnx.checker.check_model(str(whole))
        whole.with_name(beside).replace(target.with_name(beside))
        whole.replace(target)
    return model


def model_of(function: Callable[..., Any], inputs: Sequence[lt.Tensor],
             input_names: Sequence[str] | None, output_names: Sequence[str] | None,
             dynamic: Mapping[Any, Any] | None) -> ModelProto:
    """A function as a message."""
    names = _names(input_names, len(inputs), "input")
    parameters = _parameters(function)
    if dynamic is None:
        roots = record(function, inputs, [tuple(x.shape) for x in inputs])
        plain = rewrite(roots, lambda n: unrolled(n) if n.op is Op.SCAN else None)
        given = [(name, tuple(x.shape)) for name, x in zip(names, inputs, strict=True)]
        return _message(function, inputs, Writer(given, parameters, Sizes()), alike([plain]),
                        output_names)
    axes = Axes(function, inputs, names, dynamic)
    found = varied(function, inputs, axes)
    shapes = [tuple(map(size_of, zip(*seen, strict=True)))
              for seen in zip(*found.shapes, strict=True)]
    places = {dim: (names[number], axis) for number, dims in enumerate(axes.places())
              for axis, dim in enumerate(dims) if dim is not None}
    writer = Writer(list(zip(names, shapes, strict=True)), parameters,
                    Sizes(axes.names, places, found.fit, [
                        n.seen for term in sources_first(found.roots) for n in term.shape
                        if isinstance(n, Varying)]))
    model = _message(function, inputs, writer, found.roots, output_names)
    missed = [(sizes, f"where {axes.words(sizes)} the function has other numbers than elsewhere; "
                      f"{HELP}") for sizes in found.fit.missed]
    if found.others or missed:
        comparison, differ = Comparison(model, inputs), dict[str, list[Any]]()
        for sizes, difference in (*found.others, *missed):
            differ.setdefault(difference, []).append((found.graphs[sizes], axes.shapes(sizes)))
        for difference, graphs in differ.items():
            comparison.check(graphs, difference)
    return model


def _message(function: Callable[..., Any], inputs: Sequence[lt.Tensor], writer: Writer,
             roots: Sequence[Term], output_names: Sequence[str] | None) -> ModelProto:
    """A graph as a message."""
    for term in sources_first(roots):
        write(writer, term)
    ends = _names(output_names, len(roots), "output")
    for name, root in zip(ends, roots, strict=True):
        writer.give_output(name, root)
    nodes, initializers = writer.needed(ends)
    graph = helper.make_graph(
        nodes, getattr(function, "__name__", type(function).__name__),
        [_value(writer, name, x.dtype.name, shape)
         for (name, shape), x in zip(writer.inputs, inputs, strict=True)],
        [_value(writer, name, x.dtype.name, x.shape) for name, x in zip(ends, roots, strict=True)],
        initializer=initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                             producer_name="lazyten", ir_version=8)


def _of_inputs(dynamic_axes: Any, output_names: Sequence[str] | None) -> Any:
    """Without the axes of outputs, which follow from those of inputs."""
    if not isinstance(dynamic_axes, Mapping):
        return dynamic_axes
    return {key: axes for key, axes in dynamic_axes.items()
            if key not in (output_names or ()) and not re.fullmatch(r"output_\d+", str(key))}


def _names(given: Sequence[str] | None, count: int, what: str) -> list[str]:
    names = [f"{what}_{i}" for i in range(count)] if given is None else list(given)
    if len(names) != count or len({*names}) != count:
        raise ArgumentError(f"onnx.export: {what}_names={names}, and there are {count} {what}s; "
                            f"each needs a name of its own")
    return names


def _value(writer: Writer, name: str, dtype: str, shape: Sequence[Size]) -> Any:
    return helper.make_tensor_value_info(name, TYPES[dtype],
                                         [writer.sizes.text(n, writer) for n in shape])


def _parameters(function: Any) -> dict[Node, str]:
    """Names of a module's parameters and buffers, by the memory that they are read from."""
    found: dict[Node, str] = {}
    function = unwrap(function)
    if isinstance(function, lt.nn.Module):
        for named in (function.named_parameters, function.named_buffers):
            for name, tensor in named():
                tensor.realize()
                with lt.no_grad():
                    node = tensor.node
                for inner in toposort([node]):
                    if inner.op is Op.BUFFER and inner.numel == tensor.numel():
                        found.setdefault(inner, name)
    return found
