"""`lt.export.export`: a module as a program of its own, called, saved and loaded (torch.export).

In: a module, and the arguments of a call. Out: an `ExportedProgram`, whose operations are a model
of `lazyten.onnx`, which needs the package onnx; nothing of the module's code is left in it. Not
here: `lt.export(function, example, path)`, which writes programs that run without Python (ahead/).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, NoReturn

from lazyten import onnx
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.saving import saving
from lazyten.support.errors import ArgumentError, NotDefinedError
from lazyten.support.trees import flatten, unflatten

_FORMAT = "lazyten.export 1"
_NO_GRAPH = ("its operations are a model of ONNX, program.model_proto; "
             "lazyten.fx.symbolic_trace(module) has a graph to walk over")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ExportedProgram:
    """What `export` gives. `module()` computes it.

    model_proto: its operations, an onnx.ModelProto. example_inputs: the (args, kwargs) that it was
    made for. state_dict: the module's parameters and buffers as they were.
    """

    def __init__(self, model_proto: Any, example_inputs: Arguments, outputs: tuple[Any, list[Any]],
                 state_dict: dict[str, Tensor]) -> None:
        """outputs: the result's nesting, with numbers as its leaves, and for each of these whether
        it is a tensor, or in a list what it is."""
        self.model_proto, self.example_inputs = model_proto, example_inputs
        self._outputs, self.state_dict = outputs, state_dict

    def module(self, check_guards: bool = True) -> Module:
        """A module that computes it, for tensors of these shapes (but for sizes that vary) and
        types, nested alike. It has no parameters: its weights are constants."""
        return _Exported(self.model_proto, self.example_inputs, self._outputs)

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """Itself: there are no other operations to make of its own."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotDefinedError("an ExportedProgram is not called itself; call "
                              "program.module()(...)")

    def __getattr__(self, name: str) -> NoReturn:
        why = f": {_NO_GRAPH}" if name.startswith("graph") else ""
        raise AttributeError(f"ExportedProgram has no {name!r}{why}", name=name)


class _Exported(Module):
    """An exported program as a module."""

    def __init__(self, model: Any, examples: Arguments, outputs: tuple[Any, list[Any]]) -> None:
        super().__init__()
        self._compute = onnx.load(model)
        self._examples, self._outputs = examples, outputs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gave. ArgumentError for arguments that are nested in another way, or are
        other values where they are no tensors."""
        known, structure = flatten(self._examples)
        named = {name: kwargs[name] for name in self._examples[1] if name in kwargs}
        given, nesting = flatten((args, named if len(named) == len(kwargs) else kwargs))
        if nesting != structure or not all(map(_alike, given, known)):
            raise ArgumentError(f"an exported program was given {_shown(args, kwargs)}; it was "
                                f"exported for {_shown(*self._examples)}, and takes the same "
                                f"but for values of tensors: export it for other arguments, too")
        found = iter(self._compute([x for x in given if isinstance(x, Tensor)]))
        nested, leaves = self._outputs
        _, structure = flatten(nested)
        return unflatten((next(found) if leaf is True else leaf[0] for leaf in leaves), structure)


def _alike(given: Any, known: Any) -> bool:
    """Whether an argument may be in the place of another."""
    if isinstance(known, Tensor) or isinstance(given, Tensor):
        return isinstance(given, Tensor) and isinstance(known, Tensor)
    return type(given) is type(known) and bool(given == known)


def _shown(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    parts = [*map(_kind, args), *(f"{name}={_kind(x)}" for name, x in kwargs.items())]
    return f"({', '.join(parts)})"


def _kind(x: Any) -> str:
    return f"{x.dtype.name}{list(x.shape)}" if isinstance(x, Tensor) else f"{x!r:.40}"


def export(mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *,
           dynamic_shapes: Any = None, strict: bool = False,
           preserve_module_call_signature: Sequence[str] = ()) -> ExportedProgram:
    """A module as a program: what it does for these arguments, in the mode that it is in.

    args, kwargs: of one call: tensors, in lists, tuples and dicts; other values are constants.
    dynamic_shapes: sizes that vary, for each argument by its name or in order: {axis: Dim("batch")}
    or a list with a Dim or None an axis, nested as the argument. The other options change nothing.
    Raises ArgumentError for what lazyten.onnx.export refuses, such as functions that look at values
    and random numbers (a dropout in training), and for results other than tensors and constants.
    """
    if not isinstance(mod, Module):
        raise ArgumentError(f"export.export of {type(mod).__name__} {mod!r:.40}: it takes a "
                            f"module; lazyten.jit compiles functions")
    if not isinstance(args, tuple):
        raise ArgumentError(f"export.export: args is {type(args).__name__} {args!r:.40}; give a "
                            f"tuple, such as (x,)")
    examples: Arguments = (args, dict(kwargs or {}))
    leaves, structure = flatten(examples)
    found: list[Any] = []

    def called(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = iter(tensors)
        positional, named = unflatten(
            (next(given) if isinstance(x, Tensor) else x for x in leaves), structure)
        found[:] = flatten(mod(*positional, **named))
        return tuple(x for x in found[0] if isinstance(x, Tensor))

    called.__dict__["__wrapped__"] = mod  # whose parameters have names
    given = [x for x in leaves if isinstance(x, Tensor)]
    model = onnx.export(called, given, dynamic=_varying(mod, examples, dynamic_shapes) or None)
    results, nesting = found
    kept = [_constant(x) for x in results]
    state = {name: x.detach().clone() for name, x in mod.state_dict().items()}
    return ExportedProgram(model, examples, (unflatten(iter(range(len(kept))), nesting), kept),
                           state)


def _constant(x: Any) -> Any:
    """True for a tensor, and a constant as a list of it."""
    if isinstance(x, Tensor):
        return True
    if x is None or isinstance(x, bool | int | float | str):
        return [x]
    raise ArgumentError(f"export.export: the module gives {type(x).__name__} {x!r:.40}; have it "
                        f"give tensors and constants in lists, tuples and dicts")


def _varying(mod: Module, examples: Arguments, shapes: Any) -> dict[int, dict[int, Any]]:
    """The axes that vary of each tensor, by the numbers of both."""
    names = list(signature(mod.forward).parameters)
    args, kwargs = examples
    arguments = [*zip([*names, *range(len(names), len(args))], args, strict=False),
                 *kwargs.items()]
    if isinstance(shapes, Mapping):
        unknown = shapes.keys() - {name for name, _ in arguments}
        if unknown:
            raise ArgumentError(f"export.export: dynamic_shapes has sizes of "
                                f"{', '.join(map(repr, unknown))}; the arguments are "
                                f"{', '.join(str(name) for name, _ in arguments)}")
        rows = [shapes.get(name) for name, _ in arguments]
    else:
        rows = list(shapes or ())
        rows += [None] * (len(arguments) - len(rows))
    pairs = [pair for (_, x), row in zip(arguments, rows, strict=False) for pair in _sizes(x, row)]
    return {number: axes for number, (_, axes) in enumerate(
        (x, axes) for x, axes in pairs if isinstance(x, Tensor)) if axes}


def _sizes(x: Any, row: Any) -> Iterator[tuple[Any, dict[int, Any]]]:
    """The leaves of an argument, in order, and the axes of each that vary."""
    if isinstance(x, list | tuple | dict):
        items = list(x.values()) if isinstance(x, dict) else list(x)
        below = [row.get(key) for key in x] if isinstance(row, Mapping) and isinstance(x, dict) \
            else list(row or ()) + [None] * (len(items) - len(row or ()))
        for item, part in zip(items, below, strict=False):
            yield from _sizes(item, part)
    else:
        pairs = row.items() if isinstance(row, Mapping) else enumerate(row or ())
        yield x, {axis: dim for axis, dim in pairs if dim is not None}


def save(ep: ExportedProgram, f: Any, **options: Any) -> None:
    """Write a program to a file, or to an open binary one, as lazyten.save does. Options change
    nothing."""
    saving.save({"format": _FORMAT, "model": ep.model_proto.SerializeToString(),
                 "examples": ep.example_inputs, "outputs": ep._outputs,
                 "state": ep.state_dict}, f)


def load(f: Any, **options: Any) -> ExportedProgram:
    """What `save` wrote; nothing in it is run as code. ArgumentError for other files, PyTorch's
    among them."""
    found = saving.load(f)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ArgumentError("export.load: the file is none that lazyten.export.save wrote; export "
                            "the module again")
    from onnx import ModelProto
    return ExportedProgram(ModelProto.FromString(found["model"]), found["examples"],
                           found["outputs"], found["state"])
