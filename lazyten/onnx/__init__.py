"""`lazyten.onnx`: models in the ONNX format, run by lazyten. It needs the package onnx.

In: a file, bytes or a ModelProto. Out: a callable (`load`); and a file of a
function of tensors (`export`). Files, in reading order:

- table.py: the table of operators, a function each.
- values.py: what a value is while a model runs.
- graph.py: a model as frozen records, and an order in which nodes can run.
- tensors.py: tensors of a file as arrays.
- schemas.py: what the standard says of operators.
- reader.py: from a message to a graph, all of it checked.
- expansions.py: functions in place of operators.
- rewrites.py: rewrites of a graph.
- listening.py: what listens while nodes are recorded.
- evaluation.py: one node run.
- segment.py: nodes that are compiled together.
- segments.py: loops that reduce segments of rows, as one program.
- repeating.py: a subgraph as a function, and several steps of it as one program.
- scanning.py: loops as part of the program around them, where their steps are known.
- program.py: a graph as steps: compiled segments, and what stands alone.
- model.py: `load`, and the callable.

The operators are in `operators/`, and `export` in `writing/`. Importing this imports nothing of
onnx: `load` does.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lazyten.pytorch.modules import later as _later
from lazyten.support.errors import LazytenError
from lazyten.support.paths import path_of, write_files

if TYPE_CHECKING:
    from onnx import ModelProto

    from lazyten.frontend.tensor import Tensor
    from lazyten.onnx.model import Model

__all__ = ["export", "is_in_onnx_export", "load", "register_custom_op_symbolic"]
__getattr__ = _later("lazyten.onnx")


class TrainingMode(Enum):
    """In which mode a module is when it is exported, if dynamo=False is given."""

    EVAL, PRESERVE, TRAINING = range(3)


def load(source: str | os.PathLike[str] | bytes | ModelProto, *,
         device: str | None = None) -> Model:
    """A model of an ONNX file, as a callable of NumPy arrays or lazyten tensors.

    source: a path, a file's bytes, or an onnx.ModelProto. External data are read from the folder
    that a path names, and from nowhere else. device: where it computes, lazyten's default if None.
    The file is checked as a whole, and what follows from constants alone is computed, before this
    returns; nothing in it is run as code. The result takes a dict or a list of inputs, and gives a
    list of outputs: see `lazyten.onnx.model.Model`.
    Raises ArgumentError for what is no model, an unknown operator, a graph that makes no sense;
    LazytenError where the package onnx is not installed.
    """
    _empty()  # and all operators are in the table
    from lazyten.onnx.model import load as read
    return read(source, device, _empty)


def _empty() -> Model:
    """A model without a graph, which what was pickled becomes: its operators are looked up."""
    _needs_onnx()
    from lazyten.onnx import operators as _operators  # noqa: F401
    from lazyten.onnx.model import blank
    from lazyten.onnx.operators import microsoft as _microsoft  # noqa: F401
    from lazyten.onnx.operators import special as _special  # noqa: F401
    return blank()


def export(function: Callable[..., Any] | None = None,
           inputs: Tensor | Sequence[Any] | None = None,
           path: str | os.PathLike[str] | None = None, *,
           input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None,
           dynamic: Mapping[Any, Any] | None = None,
           dynamic_axes: Mapping[Any, Any] | None = None, **options: Any) -> Any:
    """Write a function of tensors, or a module, as a model of opset 18.

    inputs: tensors of the shapes and types that the model will take; their values do not matter.
    path: of the file, or None. input_names, output_names: one each, input_0, .. and output_0, .. if
    left out; outputs are the tensors that the function returns, in their order. Returns the message
    that was written. Parameters of a module keep their names where they are read as they are.

    dynamic: axes whose sizes vary, as `lazyten.jit` takes them: {"x": {0: lazyten.Dim("batch", 1,
    512)}}, where inputs are named as in input_names, as the function's arguments, or by position,
    and a word is a Dim of that name of any size. All other sizes of the file are those of the
    inputs. The function is recorded at many sizes of the ranges, without computing; its numbers
    must follow from sizes by expressions, which the file computes of its inputs' shapes.
    dynamic_axes: the same under PyTorch's name; axes of outputs in it follow by themselves.
    options: those of `torch.onnx.export`: model, args and f are function, inputs and path;
    kwargs, inputs by name; dynamic_shapes, which is `dynamic`; dynamo=False has a module export in
    the mode of evaluation, unless `training` says otherwise. The others change nothing; what is
    written is of opset 18 whatever opset_version is.
    Gives the onnx.ModelProto; with dynamo=True an `ONNXProgram` of it.

    Raises ArgumentError for a function that looks at values, draws random numbers, or writes to
    tensors that it has not made, for types that the format lacks, and for what differs from size to
    size other than by numbers; LazytenError where the package onnx is not installed.
    """
    _needs_onnx()
    from lazyten.onnx.writing.exporting import export as write
    from lazyten.onnx.writing.options import given, mode_of
    what = given({"function": function, "inputs": inputs, "path": path,
                  "input_names": input_names, "dynamic": dynamic}, options)
    with mode_of(what.model, options):
        model = write(what.function, what.inputs, what.path, what.input_names, output_names,
                      what.dynamic, dynamic_axes)
    return ONNXProgram(model) if options.get("dynamo") else model


class ONNXProgram:
    """A model as `export` gives it with dynamo=True. model_proto: the onnx.ModelProto.

    Called with tensors it computes a tuple of outputs, as `load` does."""

    def __init__(self, model_proto: ModelProto) -> None:
        self.model_proto = model_proto

    def save(self, destination: str | os.PathLike[str], **options: Any) -> None:
        """Write it to a file. ArgumentError if that fails; then what was there still is."""
        write_files({path_of(destination, "ONNXProgram.save"):
                     self.model_proto.SerializeToString()}, "ONNXProgram.save")

    def optimize(self) -> None:
        """Nothing: it is as small as it becomes."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return tuple(load(self.model_proto)(list(inputs)))


def is_in_onnx_export() -> bool:
    """False: `export` writes what a function records, which does as it always does."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any],
                                opset_version: int) -> None:
    """Nothing: `export` writes the operations that an operator of the user's is made of."""


def _needs_onnx() -> None:
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:  # a folder of that name is none
        raise LazytenError("lazyten.onnx needs the package onnx: pip install 'lazyten[onnx]'")
