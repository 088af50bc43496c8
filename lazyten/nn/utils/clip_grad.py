"""Gradients held to a norm or to limits, in place. Nothing is read, so they may be jitted."""
from __future__ import annotations

from collections.abc import Iterable

from lazyten.distributed.functional import all_gather
from lazyten.distributed.group import Group
from lazyten.frontend import functions
from lazyten.frontend.core.forms import in_floats, is_sparse
from lazyten.frontend.recorded.lookup import as_one
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functions.distances import vector_norm
from lazyten.nn.sharded_parameter import shared_out
from lazyten.operators.math import shapes
from lazyten.support.errors import DTypeError, GradientError, not_sparse
from lazyten.support.grad_mode import no_grad

Tensors = Tensor | Iterable[Tensor]


def tensors_listed(tensors: Tensors, name: str) -> list[Tensor]:
    """The tensors of an argument. DTypeError for what is none."""
    if not isinstance(tensors, Iterable):
        raise DTypeError(f"{name}: {type(tensors).__name__} {tensors!r:.40} is no tensors; give "
                         f"model.parameters()")
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for t in found:
        if not isinstance(t, Tensor):
            raise DTypeError(f"{name}: {type(t).__name__} {t!r:.40} is not a tensor; give "
                             f"model.parameters()")
    return found


def _gradients(parameters: Tensors, name: str) -> list[Tensor]:
    found = [grad for p in tensors_listed(parameters, name) if (grad := p.grad) is not None]
    if any(map(is_sparse, found)):
        raise not_sparse(f"{name} of gradients")
    return found


@no_grad()
def get_total_norm(tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
    """The norm of all elements of the tensors, as of one vector, on the first one's device: a
    zero-dim tensor. norm_type may be infinite. (foreach has no effect.)

    error_if_nonfinite: GradientError for NaN or infinity, for which the norm is read.
    """
    given = tensors_listed(tensors, "get_total_norm")
    return _total_norm([(None, given)], norm_type, error_if_nonfinite)


@no_grad()
def _total_norm(given: list[tuple[Group | None, list[Tensor]]], norm_type: float,
                error_if_nonfinite: bool) -> Tensor:
    """get_total_norm of tensors, and of parts that the ranks of groups have."""
    order = shapes.as_number(norm_type, "get_total_norm", "norm_type")
    totals: list[Tensor] = []
    for group, tensors in given:
        if tensors:
            total = _norm(tensors, order)
            totals.append(total if group is None else _norm([all_gather(total, group)], order))
    if not totals:
        return functions.tensor(0.0)
    total = totals[0] if len(totals) == 1 else _norm(totals, order)
    if error_if_nonfinite and not total.isfinite().item():
        raise GradientError(f"get_total_norm: the norm of order {norm_type} of the gradients is "
                            f"{total.item()}, so they cannot be clipped; look for what makes it "
                            f"so, or leave error_if_nonfinite out")
    return total


@as_one
def _norm(parts: list[Tensor], order: float) -> Tensor:
    """The norm of tensors, as of one vector, on the first one's device."""
    norms = [vector_norm(t.reshape(-1), order, 0, "get_total_norm").to(device=parts[0].device)
             for t in parts]
    return vector_norm(functions.cat(norms), order, 0, "get_total_norm").reshape(())


@no_grad()
def clip_grads_with_norm_(parameters: Tensors, max_norm: float, total_norm: Tensor,
                          foreach: bool | None = None) -> None:
    """Scale gradients in place so that a norm of `total_norm` becomes max_norm at most."""
    most = shapes.as_number(max_norm, "clip_grads_with_norm_", "max_norm")
    _scale(_gradients(parameters, "clip_grads_with_norm_"), most, total_norm)


@as_one
def _scale(gradients: list[Tensor], most: float, norm: Tensor) -> None:
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.to(device=gradient.device))


def clip_grad_norm_(parameters: Tensors, max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scale the gradients of parameters in place so that their norm, as of one vector, is max_norm
    at most; gives the norm that they had, as get_total_norm() does. Of parameters that are shared
    out (fully_shard, parallelize_module) it is that of all ranks' parts, which all call this."""
    given = tensors_listed(parameters, "clip_grad_norm_")
    parts = [(group, _gradients(own, "clip_grad_norm_")) for group, own in shared_out(given)]
    total = _total_norm(parts, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


clip_grad_norm = clip_grad_norm_
"""An older name of PyTorch's."""


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Hold each element of the gradients of parameters between -clip_value and clip_value, in
    place. (foreach has no effect.)"""
    limit = shapes.as_number(clip_value, "clip_grad_value_", "clip_value")
    _clamp([*map(in_floats, _gradients(parameters, "clip_grad_value_"))], limit)


@as_one
def _clamp(gradients: list[Tensor], limit: float) -> None:
    for gradient in gradients:
        gradient.clamp_(-limit, limit)
