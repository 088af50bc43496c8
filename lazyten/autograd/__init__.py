"""Derivatives: `grad` and `backward` as functions, hand-written gradients, checks of gradients.

Files, in reading order:

- variable.py: PyTorch's old name of a tensor that knows its gradient.
- anomaly.py: Finding the operation whose gradient is the first to become NaN.
- for_examples.py: A Function under vmap that computes all examples at once: by its vmap(), or as it
  takes batches.
- saving.py: What is kept for gradients, replaced while it is recorded: hooks that pack and unpack
  it.
- graph.py: Hooks of what is recorded for gradients, under PyTorch's names.
- function_context.py: What the forward() of a hand-written operation leaves for its backward(): a
  context.
- custom_function.py: Operations whose gradient the user writes: `autograd.Function`.
- custom_operators.py: Operators that programs name themselves: `lt.library` and `lt.ops`, under
  PyTorch's names.
- mixed_precision.py: Mixed precision in hand-written gradients: which types forward() and
  backward() compute in.
- gradcheck.py: Gradients compared with differences of values: tests for hand-written ones.
- checkpointing.py: Checkpoints: what a function computes is not kept for the gradient, but
  computed again for it.
- recomputing.py: Values that a function reads in its backward pass, too, and that are made again
  for it.
"""
from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from lazyten.autodiff import gradient as _gradient
from lazyten.autodiff import hooks
from lazyten.autograd.anomaly import detect_anomaly, set_detect_anomaly
from lazyten.autograd.custom_function import Function as Function
from lazyten.autograd.custom_function import InplaceFunction as InplaceFunction
from lazyten.autograd.custom_function import once_differentiable
from lazyten.autograd.function_context import FunctionContext
from lazyten.autograd.gradcheck import gradcheck, gradgradcheck
from lazyten.autograd.variable import Variable
from lazyten.execution import frame_runs
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.core.forms import handles_of, in_floats
from lazyten.frontend.core.handle import held_as_rows
from lazyten.frontend.functions import stack
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.recorded.slots import are_watched
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, alias, const, make
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.operators.math.gradients import before_writes
from lazyten.pytorch.modules import later
from lazyten.storage import tracing
from lazyten.storage.frames import here
from lazyten.support.errors import ArgumentError, DTypeError, GradientError
from lazyten.support.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "FunctionContext", "Variable", "backward", "detect_anomaly", "enable_grad",
           "grad", "gradcheck", "gradgradcheck", "inference_mode", "no_grad", "once_differentiable",
           "set_detect_anomaly", "set_grad_enabled"]

FunctionCtx = FunctionContext
Given = Tensor | Iterable[Tensor]


def grad(outputs: Given, inputs: Given,
         grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True,
         allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs`, weighted with `grad_outputs`, for each of `inputs`;
    `.grad` is left alone.

    create_graph: they can be differentiated again. retain_graph: keep what is needed to ask again.
    is_grads_batched: the weights have one more axis, the first, and so have the gradients: those
    for each entry along it. only_inputs means nothing, as in PyTorch. GradientError for an input
    that no output depends on, unless allow_unused (it gets None) or materialize_grads (zeros).
    """
    if not only_inputs:
        warnings.warn("grad: only_inputs means nothing any more; use autograd.backward for the "
                      "gradients of other leaves", FutureWarning, stacklevel=2)
    roots, wanted = _tensors(outputs, "outputs"), _tensors(inputs, "inputs")
    if not wanted:
        raise ArgumentError("grad: inputs is empty; give the tensors whose gradients are wanted")
    if materialize_grads and allow_unused is False:
        raise ArgumentError("grad: materialize_grads=True gives zeros for what no output depends "
                            "on, and allow_unused=False refuses it; leave one of them out")
    if is_grads_batched:
        weights = _weights(grad_outputs, len(roots))
        count = _batch_size(weights)
        rows = [grad(roots, wanted, [None if w is None else w[i] for w in weights],
                     True if i + 1 < count else retain_graph, create_graph,
                     allow_unused=allow_unused, materialize_grads=materialize_grads)
                for i in range(count)]
        return tuple(stack([g for g in column if g is not None]) if column[0] is not None else None
                     for column in zip(*rows, strict=True))
    _check_inputs(wanted)
    tracing.differentiated(wanted)
    given = zip(roots, _weights(grad_outputs, len(roots)), strict=True)
    weights = [root._weight(w) if isinstance(root, ComplexTensor) else w for root, w in given]
    roots = list(map(in_floats, roots))
    unused = "zeros" if materialize_grads else "None" if allow_unused else "refused"
    is_watched = are_watched(roots) or _gradient.observer is not None or bool(held_as_rows)
    with enable_grad():  # where nothing is recorded, a tensor is read without its graph
        found = (_gradients if is_watched else _looked_up)(
            roots, weights, list(map(in_floats, wanted)), create_graph, unused)
    if not create_graph:
        frame_runs.join([handles_of(t)[-1]._storage for t in found if t is not None])
    if not (create_graph if retain_graph is None else retain_graph):
        for root in roots:
            root._free_graph()
    return tuple([of_parts(g) if g is not None and isinstance(t, ComplexTensor) else g
                  for t, g in zip(wanted, found, strict=True)])


def _check_inputs(wanted: Sequence[Tensor]) -> None:
    """GradientError for a tensor that no gradients are collected for."""
    for number, t in enumerate(wanted):
        if not t.requires_grad:
            raise GradientError(f"grad: input {number}, of shape {t.shape}, does not require "
                                f"gradients; set requires_grad before the outputs are computed "
                                f"from it")


def _gradients(roots: Sequence[Tensor], weights: Sequence[Tensor | None], wanted: Sequence[Tensor],
               create_graph: bool, unused: str) -> tuple[Tensor | None, ...]:
    cotangents = [root._cotangent(w, create_graph) for root, w in zip(roots, weights, strict=True)]
    nodes, leaves = [r.node for r in roots], [before_writes(t.node) for t in wanted]
    with hooks.users_walk(create_graph):
        parts = _gradient.gradients_for(nodes, cotangents, leaves)
    here.walks = True
    return tuple([_result(number, t, part, create_graph, unused)
                  for number, (t, part) in enumerate(zip(wanted, parts, strict=True))])


_looked_up = recorded(_gradients)


def _batch_size(weights: Sequence[Tensor | None]) -> int:
    """The size that the first axes of these weights share."""
    shapes = [w.shape for w in weights if w is not None]
    if len({shape[:1] for shape in shapes}) != 1 or not all(shape and shape[0] for shape in shapes):
        raise ArgumentError(f"grad: is_grads_batched takes grad_outputs whose first axes have the "
                            f"same size, 1 or more; these have shapes {shapes}")
    return int(shapes[0][0])


def _result(number: int, t: Tensor, part: Node | None, create_graph: bool,
            unused: str) -> Tensor | None:
    if part is None and unused == "zeros":
        zeros = Tensor._of(const(0, t.dtype, t.shape), t.device)
        return zeros.requires_grad_() if create_graph else zeros
    if part is None:
        if unused == "None":
            return None
        raise GradientError(f"grad: no output depends on input {number}, of shape {t.shape}; leave "
                            f"it out, or pass allow_unused=True to get None for it")
    if not create_graph:
        known: Any = t  # whose method is loaded when it is asked for
        rows: Tensor | None = known._rows_of_gradient(part) \
            if t._leaf_id in held_as_rows else None
        if rows is not None:
            return rows
        part = make(Op.DETACH, part.dtype, (part,))
    elif part.op in MOVEMENT:
        part = alias(part)
    return Tensor._of(part, t.device, create_graph, one_of=True)


def backward(tensors: Given, grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
             retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Tensor | Sequence[Tensor | None] | None = None,
             inputs: Given | None = None) -> None:
    """backward() of each of these tensors. grad_variables: the old name of grad_tensors."""
    roots = _tensors(tensors, "tensors")
    weights = _weights(grad_variables if grad_tensors is None else grad_tensors, len(roots))
    wanted = None if inputs is None else _tensors(inputs, "inputs")
    for root, weight in zip(roots, weights, strict=True):
        root.backward(weight, True, create_graph, wanted)
    if not (create_graph if retain_graph is None else retain_graph):
        for root in roots:
            in_floats(root)._free_graph()


def _tensors(given: Given, what: str) -> list[Tensor]:
    is_one = isinstance(given, Tensor) or not isinstance(given, Iterable)
    found: list[Any] = [given] if is_one else list(given)
    for t in found:
        if not isinstance(t, Tensor):
            raise DTypeError(f"grad: {what} holds {type(t).__name__} {t!r:.40}; give tensors")
    return found


def _weights(given: Tensor | Sequence[Tensor | None] | None,
             count: int) -> Sequence[Tensor | None]:
    weights: Sequence[Tensor | None] = [None] * count
    if given is not None:
        weights = [given] if isinstance(given, Tensor) else list(given)
    if len(weights) != count:
        raise ArgumentError(f"grad: {len(weights)} weights for {count} outputs; give one for each, "
                            f"None for 1")
    return weights


_elsewhere = later("lazyten.autograd", "graph")


def __getattr__(name: str) -> Any:
    if name == "functional":  # made of what stands above this room, so not imported with it
        return import_module("lazyten.autograd.functional")
    return _elsewhere(name)
