"""From a file to a callable."""
from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto

import lazyten as lt
from lazyten.capture.arrays import ArrayCall
from lazyten.onnx.graph import Graph, Input
from lazyten.onnx.program import Program
from lazyten.onnx.reader import Reader, parse
from lazyten.onnx.tensors import NAMES, numpy_type
from lazyten.onnx.values import (
    Array,
    Constant,
    Value,
    are_maps,
    describe,
    dtype_of,
    is_plain,
    make_tensor,
    shape_of,
    to_array,
)
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

INPUT_BYTES = 1 << 24
"""Bytes of inputs whose memory is kept from call to call: of larger ones copying takes the time."""
KEPT, KEPT_BYTES = 64, 1 << 26
"""Shapes and types of inputs that calls are kept for, and bytes of all inputs; the oldest go."""


class Model:
    """A model of a file, called with its inputs: see `load`."""

    def __init__(self, graph: Graph, device: str | None, empty: Callable[[], Model]) -> None:
        """empty: makes one without a graph, for what was pickled."""
        self._graph, self._empty = graph, empty
        self._program = Program(graph, device)
        self._device = device
        self.inputs: tuple[Input, ...] = tuple(
            x for x in graph.inputs if x.name not in graph.constants)
        self.outputs: tuple[str, ...] = graph.outputs
        self._known = {x.name: x for x in graph.inputs}
        self._names = [x.name for x in self.inputs]
        self._direct = DirectCalls(self._program)

    def __deepcopy__(self, memo: object) -> Model:
        """A model with programs and memory of its own; weights, which nothing changes, are shared.
        """
        return Model(self._graph, self._device, self._empty)

    __copy__ = partialmethod(__deepcopy__, None)

    def __reduce__(self) -> tuple[Any, ...]:
        """What was read, weights too; programs are made again."""
        return self._empty, (), (self._graph, self._device, self._empty)

    def __setstate__(self, state: tuple[Graph, str | None, Callable[[], Model]]) -> None:
        Model.__init__(self, *state)

    def __repr__(self) -> str:
        names = ", ".join(f"{x.name}: {x.dtype.lower()} {list(x.shape or ())}" for x in self.inputs)
        return f"Model({names} -> {', '.join(self.outputs)})"

    def __call__(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The outputs in the model's order.

        inputs: a value for each input, by name or in order. A tensor is a NumPy array or a lazyten
        tensor, a sequence a list of these, a map a dict, an absent optional value None.
        Returns NumPy arrays, or tensors if a tensor is among the inputs.
        Raises ArgumentError for missing or unknown names, DTypeError and ShapeError for values that
        are not what the model says.
        """
        given = self._named(inputs)
        found = self._direct.run(given)
        if found is not None:
            return found
        feeds = {name: self._value(self._known[name], x) for name, x in given.items()}
        found = self._program(feeds)
        if any(isinstance(x, lt.Tensor) for x in given.values()):
            return [x.tensor(self._device) if isinstance(x, Constant) and is_plain(x) else
                    x.array if isinstance(x, Constant) else x for x in found]
        waiting = [x for x in found if isinstance(x, lt.Tensor) and x._storage.buffer is None]
        if waiting:
            lt.realize(*waiting)
        self._direct.keep(given, feeds)
        return [_result(x) for x in found]

    def _named(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        names = self._names
        if not isinstance(inputs, Mapping):
            if not isinstance(inputs, list | tuple) or len(inputs) != len(names):
                raise ArgumentError(f"a model with the inputs {names}: give a dict of these names, "
                                    f"or a list of {len(names)}")
            return dict(zip(names, inputs, strict=True))
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in self._known]
        if missing or unknown:
            raise ArgumentError(f"a model with the inputs {names}: {missing} are missing, "
                                f"{unknown} are none of it")
        return dict(inputs)

    def _value(self, wanted: Input, value: Any) -> Value:
        """A value that is given, as the program takes it; checked."""
        if value is None or isinstance(value, list | tuple) and not wanted.is_tensor:
            if wanted.is_tensor:
                raise ArgumentError(f"input {wanted.name!r} is None, and must be a tensor")
            return None if value is None else [self._tensor(x) for x in value]
        if isinstance(value, dict) and not wanted.is_tensor:
            return _map_of(wanted, value)
        found = self._tensor(value)
        if not wanted.is_tensor or not wanted.dtype:
            return found
        dtype = dtype_of(found)
        if NAMES.get(dtype, dtype.upper()) != wanted.dtype:
            raise DTypeError(f"input {wanted.name!r} is {describe(found)}, and the model wants "
                             f"{wanted.dtype.lower()}")
        shape = shape_of(found)
        if wanted.shape is not None and (len(shape) != len(wanted.shape) or any(
                isinstance(m, int) and m > 0 and n != m
                for n, m in zip(shape, wanted.shape, strict=True))):
            raise ShapeError(f"input {wanted.name!r} has shape {shape}, and the model wants "
                             f"{list(wanted.shape)}")
        return found

    def _tensor(self, value: Any) -> Value:
        if isinstance(value, lt.Tensor):
            return value
        array = np.asarray(value)
        if array.dtype.kind == "U":
            array = array.astype(object)
        if not is_plain(array):
            return array
        return make_tensor(array, self._device)


def _map_of(wanted: Input, value: dict[Any, Any]) -> Value:
    """A map whose values have the type that the model says."""
    if wanted.dtype in ("", "STRING"):
        return value
    dtype = numpy_type(TensorProto.DataType.Value(wanted.dtype))
    try:
        return {key: dtype.type(x) for key, x in value.items()}
    except (ValueError, TypeError, OverflowError) as error:
        raise DTypeError(f"input {wanted.name!r}: values of this map are no "
                         f"{wanted.dtype.lower()} ({error})") from None


def _result(value: Value) -> Any:
    """An output as arrays of its own."""
    if isinstance(value, list):
        return [*value] if are_maps(value) else [_result(x) for x in value]
    if value is None or isinstance(value, dict):
        return value
    return to_array(value) if isinstance(value, lt.Tensor) else to_array(value).copy()


class Direct(NamedTuple):
    """A program, the inputs it takes, and the model's outputs: a number of its results, the name of
    an input, or what is always the same. nbytes: of the inputs."""

    nbytes: int
    call: ArrayCall
    slots: Sequence[str]
    outputs: Sequence[int | str | Array]


class DirectCalls:
    """Those of one model, by the shapes and types of its inputs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._kept: OrderedDict[Hashable, Direct] = OrderedDict()

    def run(self, given: Mapping[str, Any]) -> list[Any] | None:
        """The outputs for these inputs; None if they are not known, or no arrays."""
        found = self._kept.get(_key(given)) if self._kept else None
        if found is None:
            return None
        results = found.call([given[name] for name in found.slots])
        if results is None:
            return None
        return [results[x] if isinstance(x, int) else
                (given[x] if isinstance(x, str) else x).copy() for x in found.outputs]

    def keep(self, given: Mapping[str, Any], feeds: Mapping[str, Value]) -> None:
        """Note what a call has run, if it can be run for arrays. feeds: the inputs as tensors."""
        if not given or any(not _is_alike(x, feeds[name]) for name, x in given.items()):
            return
        nbytes = sum(x.nbytes for x in given.values())
        if nbytes > INPUT_BYTES:
            return
        compiled = self.program.compiled(feeds)
        if compiled is None or compiled.program is None:
            return
        call = compiled.program.on_arrays([feeds[name] for name in compiled.slots])
        if call is None:
            return
        place: dict[str, int | str | Array] = {name: name for name in feeds}
        place |= {name: i for i, name in enumerate(compiled.outputs)}
        known = {**self.program.constants, **compiled.known}
        outputs = [to_array(known[x]) if x not in place else place[x]
                   for x in self.program.graph.outputs]
        self._kept[_key(given)] = Direct(nbytes, call, compiled.slots, outputs)
        while len(self._kept) > KEPT or sum(x.nbytes for x in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)


def _key(given: Mapping[str, Any]) -> Hashable:
    """Shapes and types of arrays, by name."""
    key: list[Hashable] = []
    for name, x in given.items():
        if type(x) is not np.ndarray:
            return None
        key += (name, x.shape, x.dtype)
    return tuple(key)


def _is_alike(given: Any, feed: Value) -> bool:
    """Whether an array was made a tensor of its own type."""
    return type(given) is np.ndarray and isinstance(feed, lt.Tensor) \
        and feed.dtype.numpy == given.dtype


def blank() -> Model:
    """A model without a graph."""
    return Model.__new__(Model)


def load(source: str | os.PathLike[str] | bytes | ModelProto, device: str | None,
         empty: Callable[[], Model] = blank) -> Model:
    """See `lazyten.onnx.load`, and Model."""
    folder = None
    if isinstance(source, ModelProto):
        model = source
    elif isinstance(source, bytes | bytearray | memoryview):
        model = parse(bytes(source))
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_file():
            raise ArgumentError(f"onnx.load({str(path)!r}): there is no such file")
        model, folder = parse(path.read_bytes()), path.parent
    else:
        raise ArgumentError(f"onnx.load of {type(source).__name__}: give a path, bytes or a "
                            f"ModelProto")
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        opsets[domain] = max(entry.version, opsets.get(domain, 0))
    reader = Reader(model.functions, folder)
    graph = reader.graph(model.graph, opsets, frozenset(), {})
    return Model(graph, device, empty)
