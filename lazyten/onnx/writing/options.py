"""What `torch.onnx.export` is given, in its names and ways, as what `lazyten.onnx.export` takes.

In: a call's arguments. Out: a function, its tensors, and which sizes vary.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, NamedTuple

import lazyten as lt
from lazyten.support.errors import ArgumentError

OTHER_NAMES = {"model": "function", "args": "inputs", "f": "path"}
"""PyTorch's names of arguments that `export` has, too."""
PYTORCHS = frozenset({
    "artifacts_dir", "autograd_inlining", "custom_opsets", "custom_translation_table",
    "do_constant_folding", "dump_exported_program", "dynamo", "export_modules_as_functions",
    "export_params", "external_data", "fallback", "keep_initializers_as_inputs", "kwargs",
    "dynamic_shapes", "operator_export_types", "opset_version", "optimize", "profile", "report",
    "training", "verbose", "verify"})
"""Options of PyTorch's that `export` takes: those that are read below, and the others, by which it
writes what it always writes."""


class Given(NamedTuple):
    """What is exported. model: the function, or the module, that the user has given."""

    model: Any
    function: Callable[..., Any]
    inputs: Any
    path: str | os.PathLike[str] | None
    input_names: Sequence[str] | None
    dynamic: Any


def given(arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Given:
    """The arguments `function`, `inputs`, `path`, `input_names` and `dynamic`, with what options
    say of them. ArgumentError for options that are none, and for what is given twice or not at all.
    """
    found = dict(arguments)
    for name, value in options.items():
        same = OTHER_NAMES.get(name)
        if same is None and name not in PYTORCHS:
            raise ArgumentError(f"onnx.export: there is no option {name}; there are input_names, "
                                f"output_names, dynamic, dynamic_axes and torch.onnx.export's")
        if same is not None:
            if found[same] is not None:
                raise ArgumentError(f"onnx.export: {name} and {same} are the same; give one")
            found[same] = value
    if found["function"] is None or found["inputs"] is None and not options.get("kwargs"):
        raise ArgumentError("onnx.export: give a function or a module, and its tensors")
    inputs = () if found["inputs"] is None else found["inputs"]
    inputs = inputs if isinstance(inputs, list | tuple) else (inputs,)
    named = dict(options.get("kwargs") or {})
    if inputs and isinstance(inputs[-1], Mapping):
        inputs, named = inputs[:-1], {**inputs[-1], **named}
    if options.get("dynamic_shapes") is not None:
        if found["dynamic"] is not None:
            raise ArgumentError("onnx.export: dynamic_shapes and dynamic say the same; give one")
        found["dynamic"] = _varying(found["function"], options["dynamic_shapes"], inputs, named)
    return _by_position(found, list(inputs), named)


def _by_position(found: Mapping[str, Any], inputs: list[Any], named: Mapping[str, Any]) -> Given:
    """The same with all inputs in order: those by name come after the others, tensors alone, and
    what else is among the arguments is what it is."""
    function, names = found["function"], found["input_names"]
    tensors = [i for i, x in enumerate(inputs) if isinstance(x, lt.Tensor)]
    named_tensors = [name for name, x in named.items() if isinstance(x, lt.Tensor)]
    if not named and len(tensors) == len(inputs):
        return Given(function, function, inputs, found["path"], names, found["dynamic"])
    if any(isinstance(x, list | tuple | Mapping) for x in (*inputs, *named.values())):
        raise ArgumentError("onnx.export: tensors within lists are no inputs of a file; export a "
                            "function that takes them one by one")

    def called(*given: Any) -> Any:
        args = list(inputs)
        for place, x in zip(tensors, given, strict=False):
            args[place] = x
        return function(*args, **{**named, **dict(zip(named_tensors, given[len(tensors):],
                                                      strict=True))})

    called.__name__ = called.__qualname__ = getattr(function, "__name__", type(function).__name__)
    called.__dict__["__wrapped__"] = function
    if names is None and named_tensors:
        known = _arguments(function)
        names = [*(known[i] for i in tensors if i < len(known)), *named_tensors]
        names = names if len({*names}) == len(tensors) + len(named_tensors) else None
    return Given(function, called, [*(inputs[i] for i in tensors),
                                    *(named[name] for name in named_tensors)],
                 found["path"], names, found["dynamic"])


def _arguments(function: Any) -> list[str]:
    """The names of a function's, or a module's, arguments."""
    called = function.forward if isinstance(function, lt.nn.Module) else function
    return list(signature(called).parameters)


def _varying(function: Any, shapes: Any, inputs: Sequence[Any], named: Mapping[str, Any]
             ) -> dict[Any, Any]:
    """PyTorch's `dynamic_shapes`, by arguments' names or in their order, as `dynamic`: by the
    number of the tensor, without those and axes that are None, and with numbers of axes where there
    is a list. ArgumentError for names of no tensor."""
    given = [*zip(_arguments(function), inputs, strict=False), *named.items()]
    places = {name: place for place, name in enumerate(
        name for name, x in given if isinstance(x, lt.Tensor))}
    order = [name for name in _arguments(function) if name in dict(given)]
    rows = shapes.items() if isinstance(shapes, Mapping) else zip(order, shapes, strict=False)
    found = {}
    for name, axes in rows:
        if axes is None:
            continue
        if not isinstance(axes, Mapping | Sequence):
            raise ArgumentError(f"onnx.export: dynamic_shapes has {axes!r:.60} for {name!r}; give "
                                f"a dict of axes and their names, or a list with a place an axis")
        pairs = axes.items() if isinstance(axes, Mapping) else enumerate(axes)
        chosen = {axis: dim for axis, dim in pairs if dim is not None}
        if chosen and name not in places:
            raise ArgumentError(f"onnx.export: dynamic_shapes has sizes of {name!r}; the tensors "
                                f"given are {', '.join(places)}")
        if chosen:
            found[places[name]] = chosen
    return found


@contextmanager
def mode_of(function: Any, options: Mapping[str, Any]) -> Iterator[None]:
    """Within this block a module is in the mode that PyTorch's older exporter (dynamo=False) puts
    it in: that of evaluation, unless `training` says otherwise."""
    asked = getattr(options.get("training"), "name", "EVAL")
    if options.get("dynamo") is not False or asked == "PRESERVE" \
            or not isinstance(function, lt.nn.Module):
        yield
        return
    before = {module: module.training for module in function.modules()}
    function.train(asked == "TRAINING")
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training
