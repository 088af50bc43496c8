"""A function of tensors, traced once: a graph over named arrays.

In: a function or module, and the arguments of one call. Out: a `Traced`. Nothing has changed when
this returns. What a program without Python cannot do is an ArgumentError that says what to do.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lazyten.ahead.naming import argument_names, chosen, identifiers, known_names, options
from lazyten.ahead.program import Array, Kept, Source, Traced
from lazyten.capture.capture import Capture
from lazyten.capture.captured import Captured, HostInput, StorageSource, TensorSpec
from lazyten.capture.conclusion import check_unchanged, conclude
from lazyten.capture.jitted import Jitted
from lazyten.capture.state.environment import Environment
from lazyten.capture.state.purity import pure
from lazyten.execution.realization import realize
from lazyten.frontend.core.keywords import contiguous_format
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.storage.tracing import Keep, listening
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.trees import Branch, flatten, unflatten


class _Listener(Capture):
    """Listens as for `lt.jit`, but no call will run any Python."""

    without_python = True

    def __init__(self, arguments: Sequence[Tensor], environment: Environment) -> None:
        super().__init__(arguments, environment, whole=True)
        self.number_names: list[str] = []
        self.names: dict[Storage, str] = {}
        self.options: set[Storage] = set()

    def host_input(self, refresh: Callable[[], np.ndarray[Any, Any]], dtype: DType, size: int,
                   device: str, name: str = "") -> Node:
        if not name:
            raise JitError("the function draws random numbers: export a model after eval(), or "
                           "give what is drawn as an argument")
        self.number_names.append(name)
        return super().host_input(refresh, dtype, size, device, name)

    def action(self, run: Callable[[], None], keep: Keep | None = None) -> None:
        raise JitError("the function changes what Python keeps from call to call (a scheduler's "
                       "step, a GradScaler's stage): leave that out, and change numbers such as "
                       "the learning rate in the state between calls")

    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
        raise JitError(f"{type(owner).__name__}.step() runs in Python: use one of lazyten's own "
                       f"optimizers, such as SGD or Adam, whose steps are compiled")


def traced(function: Callable[..., Any], example: Any, name: str,
           input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> Traced:
    """The graph of a function for arguments like those of the example."""
    if isinstance(function, Jitted):
        function = function.function
    if not callable(function):
        raise ArgumentError(f"export of {type(function).__name__} {function!r:.40}: it is for "
                            f"functions of tensors, and modules")
    args, kwargs = _arguments(example)
    leaves, structure = flatten((args, kwargs))
    names = argument_names(function, args, kwargs)
    made = [n for n, x in zip(names, leaves, strict=True) if isinstance(x, Tensor)]
    given = [_copy(x) for x in leaves if isinstance(x, Tensor)]
    try:
        listener = _captured(function, leaves, structure, given)
        listener.check_nothing_leaked()
    except JitError as error:
        words = str(error).replace("a jitted function", "the function")
        words = words.replace("jitted function", "function").replace("a replay", "the program")
        raise ArgumentError(f"export: what the function does cannot be done without Python: "
                            f"{words}") from error
    outputs = [x for x in listener.captured.leaves if isinstance(x, TensorSpec)]
    if not outputs and not listener.captured.written:
        raise ArgumentError("export: the function gives no tensor and changes none, so there is "
                            "nothing to compute: return what it computes")
    results = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    inputs = [Array(n, x.dtype, tuple(x.shape)) for n, x in
              zip(chosen(input_names, made, "input"), given, strict=True)]
    ends = chosen(output_names, results, "output")
    all_names = [name, *(a.name for a in inputs), *ends]
    if len({n.upper() for n in all_names}) < len(all_names):
        raise ArgumentError(f"export: function {name}, inputs {[a.name for a in inputs]} and "
                            f"outputs {list(ends)} have a name in common: give others by name, "
                            f"input_names and output_names")
    return _Graphs(listener, given, inputs).traced(name, ends)


def _arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, dict):
        return (), example
    args = tuple(example) if type(example) in (list, tuple) else (example,)
    for x in flatten(args)[0]:
        if isinstance(x, np.ndarray):
            raise ArgumentError(f"export: the example has a NumPy array of shape {x.shape}; give "
                                f"lazyten.tensor(array)")
        if isinstance(x, Tensor) and x.is_complex():
            raise ArgumentError(f"export: the example has a complex tensor of shape "
                                f"{tuple(x.shape)}; give its parts, lazyten.view_as_real(x), and "
                                f"have the function take view_as_complex of them")
    return args, {}


def _copy(x: Tensor) -> Tensor:
    """A tensor like one of the example's, in memory of its own, as C will give it."""
    made = x.detach().clone(memory_format=contiguous_format)
    realize([made._storage])
    return made.requires_grad_() if x.requires_grad else made


def _captured(function: Callable[..., Any], leaves: Sequence[Any], structure: Branch | None,
              given: Sequence[Tensor]) -> _Listener:
    """What a call of the function does."""
    environment = Environment(function, [x for x in leaves if not isinstance(x, Tensor)])
    listener = _Listener(given, environment)
    try:
        with listening(listener), pure(listener):
            shadows = iter(listener.shadows)
            args, kwargs = unflatten(
                (next(shadows) if isinstance(x, Tensor) else x for x in leaves), structure)
            found, shape = flatten(function(*args, **kwargs))
            results = [x.detach().clone(memory_format=contiguous_format)
                       if isinstance(x, Tensor) else x for x in found]
            conclude(listener, unflatten(iter(results), shape))
            listener.names = known_names(function, environment)
            listener.options = {storage for storage, _ in options(environment)}
            check_unchanged(listener, getattr(function, "__name__", "given"))
            _check_kept(listener.captured)
    finally:
        listener.restore(True)
    return listener


def _check_kept(captured: Captured) -> None:
    """JitError for what each call would find otherwise than the one before left it."""
    for assignment in captured.assigned:
        raise JitError(f"the function assigns {assignment.place.name!r}: return the value, or "
                       f"keep it in a tensor that is changed in place")
    read = dict(captured.layouts)
    for effect in captured.gradients:
        if read.get(effect.tensor) is not None or effect.tensor in read and effect.spec is not None:
            raise JitError("gradients add up from call to call: have the function call "
                           "optimizer.zero_grad() (or set .grad to None) before backward(), and "
                           "again before exporting it")


class _Graphs:
    """From what was captured to arrays with names."""

    def __init__(self, listener: _Listener, given: Sequence[Tensor],
                 inputs: Sequence[Array]) -> None:
        self.captured, self.names = listener.captured, listener.names
        self.options = listener.options
        self.number_names = listener.number_names
        self.inputs, self.given = tuple(inputs), given
        self.written = [number for number, _ in self.captured.written]
        self.roots = [self.captured.new[x.number].node for x in self.captured.leaves
                      if isinstance(x, TensorSpec)]
        self.outputs = len(self.roots)
        self.roots += [node for _, node in self.captured.written]
        read = [n.arg for n in toposort(self.roots) if n.op is Op.BUFFER]
        self.stands = {p.number: p for p in read
                       if isinstance(p, Placeholder) and p.kind == "source"}
        self.used = list(dict.fromkeys([*read, *map(self._memory, self.written)]))

    def _memory(self, number: int) -> Any:
        """The stand-in of a source, where the graph reads it; else its number."""
        return self.stands.get(number, number)

    def traced(self, name: str, ends: Sequence[str]) -> Traced:
        """The whole of it."""
        device = self._device()
        states: list[tuple[str, Any]] = []
        constants: list[tuple[str, Any]] = []
        reads: dict[Any, Source] = {}
        written = set(self.written)
        for memory in self.used:
            number, source = self._source(memory)
            if source is not None and self._argument(source) is not None:
                reads[memory] = Source("input", self._argument(source) or 0)
            elif number in written or isinstance(memory, Placeholder) \
                    and memory.kind == "host" or source is not None \
                    and self._storage(source) in self.options:
                reads[memory] = Source("state", len(states))
                states.append((self._name(memory, source), self._contents(memory, source)))
            else:
                reads[memory] = Source("constant", len(constants))
                constants.append((self._name(memory, source), self._contents(memory, source)))
        outputs = [Array(n, root.dtype, root.shape)
                   for n, root in zip(ends, self.roots, strict=False)]
        return Traced(name, device, self.inputs, tuple(outputs), _named(states),
                      _named(constants), tuple(self.roots), reads,
                      tuple(reads[self._memory(n)] for n in self.written))

    def _device(self) -> str:
        found = {self.captured.new[x.number].device for x in self.captured.leaves
                 if isinstance(x, TensorSpec)}
        found |= {self._storage(self.captured.sources[n]).device for n in self.written}
        found |= {x.device for x in self.given}
        copies = [n for n in toposort(self.roots) if n.op is Op.COPY]
        if len(found) > 1 or copies:
            devices = sorted({*found, *(d for n in copies for d in n.arg)})
            raise ArgumentError(f"export: the function computes on {', '.join(devices)}: a program "
                                f"is for one device; move the model and the example to one")
        return found.pop()

    def _source(self, memory: Any) -> tuple[int, StorageSource | None]:
        if isinstance(memory, int):
            return memory, self.captured.sources[memory]
        if isinstance(memory, Placeholder) and memory.kind == "source":
            return memory.number, self.captured.sources[memory.number]
        return -1, None

    def _argument(self, source: StorageSource) -> int | None:
        """The number of the argument that a source is."""
        if source.fixed is not None or source.gradient or source.tensor is None \
                or source.tensor.argument < 0:
            return None
        return source.tensor.argument

    def _storage(self, source: StorageSource) -> Storage:
        return source.find(self.given)

    def _name(self, memory: Any, source: StorageSource | None) -> str:
        if source is not None:
            if source.gradient and source.tensor is not None:
                owner = source.tensor.find(self.given)
                return f"{self.names.get(owner._storage, 'value')}.grad"
            return self.names.get(self._storage(source), "value")
        if isinstance(memory, Placeholder):
            return self.number_names[memory.number]
        return "value"

    def _contents(self, memory: Any, source: StorageSource | None) -> Buffer | HostInput | Storage:
        if source is not None:
            return self._storage(source)
        if isinstance(memory, Placeholder):
            return self.captured.hosts[memory.number]
        buffer: Buffer = memory
        return buffer


def _named(found: Sequence[tuple[str, Any]]) -> tuple[Kept, ...]:
    return tuple(_kept(name, memory) for name, (_, memory) in
                 zip(identifiers(n for n, _ in found), found, strict=True))


def _kept(name: str, memory: Buffer | HostInput | Storage) -> Kept:
    """The array, with what it holds now."""
    if isinstance(memory, HostInput):
        values = np.asarray(memory.refresh(), memory.dtype.numpy).reshape(-1)
        return Kept(Array(name, memory.dtype, (memory.size,)), values)
    if isinstance(memory, Buffer):
        return Kept(Array(name, memory.dtype, (memory.size,)), memory.numpy())
    realize([memory])
    node, buffer = memory._node, memory.buffer
    assert buffer is not None
    return Kept(Array(name, node.dtype, tuple(node.shape)), buffer.numpy())
