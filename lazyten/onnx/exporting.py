"""From a function of tensors to a model in the ONNX format: its graph, an operator for each op.

In: a function or module, and tensors like those it will be given. Out: a ModelProto, or a file. The
function is called once with stand-ins that have no values, so what it does must follow from shapes.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import onnx
from onnx import ModelProto, helper

import lazyten as lt
from lazyten.ir.node import Node, rewrite, toposort
from lazyten.ir.ops import Op
from lazyten.ir.scan import unrolled
from lazyten.onnx.listening import Listener
from lazyten.onnx.writer import TYPES, Writer
from lazyten.storage import tracing
from lazyten.storage.placeholder import Placeholder
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.trees import flatten

OPSET = 18


class _Listener(Listener):
    """What a file cannot do is an error; nothing else matters."""

    without_bits = True

    def __init__(self) -> None:
        super().__init__()
        self.fresh: WeakSet[Any] = WeakSet()

    def refused(self, error: JitError) -> None:
        """What happens next cannot be part of a graph."""
        raise error

    def host_input(self, refresh: Callable[[], Any], dtype: Any, size: int, device: str,
                   name: str = "") -> Node:
        """Random numbers, and counters of optimizers."""
        raise ArgumentError("onnx.export: the function draws random numbers, or takes a step of an "
                            "optimizer; export model.eval()")

    def action(self, run: Callable[[], None]) -> None:
        """Something Python has to do at each call."""
        raise ArgumentError("onnx.export: the function draws random numbers, or changes what is "
                            "not a tensor; export model.eval()")

    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
        """Something Python has to do behind each call."""
        raise ArgumentError("onnx.export: the function takes a step of an optimizer")

    def to_be_written(self, storage: Any) -> None:
        """A storage is about to be written: a model's own would hold what has no value."""
        if storage not in self.fresh:
            raise ArgumentError("onnx.export: the function writes to a tensor that it has not made "
                                "(statistics of a layer that trains, perhaps: export model.eval())")

    def created(self, storage: Any) -> None:
        """A storage was made."""
        self.fresh.add(storage)


@contextmanager
def _stand_ins(tensors: Sequence[lt.Tensor]) -> Iterator[list[Node]]:
    """Within the block the tensors have no values, but are the nodes given."""
    nodes = [Placeholder("source", i, x.dtype, x.numel()).node(tuple(x.shape))
             for i, x in enumerate(tensors)]
    for tensor, node in zip(tensors, nodes, strict=True):
        tensor._storage._node = node
    with tracing.turn, lt.no_grad(), tracing.listening(_Listener()):
        yield nodes


def export(function: Callable[..., Any], inputs: Any, path: str | os.PathLike[str] | None,
           input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> ModelProto:
    """See `lazyten.onnx.export`."""
    given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if not callable(function) or not all(isinstance(x, lt.Tensor) for x in given):
        raise ArgumentError(f"onnx.export of {type(function).__name__} with "
                            f"{[type(x).__name__ for x in given]}: give a function or a module, "
                            f"and tensors")
    model = model_of(function, given, input_names, output_names)
    onnx.checker.check_model(model)
    if path is not None:
        target = Path(path)
        part = target.with_name(target.name + ".part")
        part.write_bytes(model.SerializeToString())
        part.replace(target)
    return model


def model_of(function: Callable[..., Any], inputs: Sequence[lt.Tensor],
             input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> ModelProto:
    """A function as a message."""
    names = _names(input_names, len(inputs), "input")
    parameters = _parameters(function)
    copies = [lt.empty_like(x, requires_grad=False).contiguous().realize() for x in inputs]
    with _stand_ins(copies) as given:
        try:
            found = function(*copies)
        except JitError as error:
            raise ArgumentError(f"onnx.export: the function looks at a value, or changes what a "
                                f"file cannot: {error}") from error
        outputs = [x for x in flatten(found)[0] if isinstance(x, lt.Tensor)]
        roots = [x.node for x in outputs]
    if not outputs:
        raise ArgumentError("onnx.export: the function returns no tensor")
    roots = list(rewrite(roots, lambda n: unrolled(n) if n.op is Op.SCAN else None))
    writer = Writer(parameters)
    for name, node in zip(names, given, strict=True):
        writer.take_input(name, node)
    for node in toposort(roots):
        writer.write(node)
    ends = _names(output_names, len(roots), "output")
    for name, root in zip(ends, roots, strict=True):
        writer.give_output(name, root)
    graph = helper.make_graph(
        writer.nodes, getattr(function, "__name__", type(function).__name__),
        [_value(name, x) for name, x in zip(names, given, strict=True)],
        [_value(name, x) for name, x in zip(ends, roots, strict=True)],
        initializer=writer.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                             producer_name="lazyten", ir_version=8)


def _names(given: Sequence[str] | None, count: int, what: str) -> list[str]:
    names = [f"{what}_{i}" for i in range(count)] if given is None else list(given)
    if len(names) != count or len({*names}) != count:
        raise ArgumentError(f"onnx.export: {what}_names={names}, and there are {count} {what}s; "
                            f"each needs a name of its own")
    return names


def _value(name: str, node: Node) -> Any:
    return helper.make_tensor_value_info(name, TYPES[node.dtype.name], node.shape)


def _parameters(function: Any) -> dict[Node, str]:
    """Names of a module's parameters and buffers, by the memory that they are read from."""
    found: dict[Node, str] = {}
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
