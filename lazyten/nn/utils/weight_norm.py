"""`weight_norm` with the older names of its parts, name_g and name_v: see parametrizations.py."""
from __future__ import annotations

from typing import TypeVar

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.nn.utils import computed
from lazyten.nn.utils.parametrizations import lengths, tensor_named
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError
from lazyten.support.grad_mode import no_grad

M = TypeVar("M", bound=Module)


@takes_tensors
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms, sums of |v|**pow to 1/pow, of what lies along all axes but `dim`, which keep size
    1; dim -1: one of all, zero-dim."""
    if dim == -1:
        return v.norm(pow)
    at = shapes.axis(dim, v.ndim, "norm_except_dim")
    axes = [a for a in range(v.ndim) if a != at]
    return v.norm(pow, axes, keepdim=True) if axes else v.abs()


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """module.name as name_g, lengths, times the directions of name_v: one length for each place of
    axis `dim`, one of all if it is None; gives the module."""
    weight = tensor_named(module, name, "weight_norm")
    if f"{name}_g" in module._parameters:
        raise ArgumentError(f"weight_norm: {name!r} of {type(module).__name__} has it already")
    axis = -1 if dim is None else dim
    with no_grad():
        g, v = Parameter(lengths(weight.detach(), axis)), Parameter(weight.detach())

    def value(self: Module) -> object:
        direction = getattr(self, f"{name}_v")
        return direction * (getattr(self, f"{name}_g") / lengths(direction, axis))
    computed.compute(module, name, value)
    module.register_parameter(f"{name}_g", g)
    module.register_parameter(f"{name}_v", v)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Have module.name be a parameter with its value of now; gives the module."""
    if name not in computed.computed(module) or f"{name}_g" not in module._parameters:
        raise ArgumentError(f"remove_weight_norm: {name!r} of {type(module).__name__} has no "
                            f"weight_norm")
    return _remove(module, name, "_g", "_v")


def _remove(module: M, name: str, *parts: str) -> M:
    with no_grad():
        value = getattr(module, name).detach().clone()
    computed.keep(module, name)
    for part in parts:
        delattr(module, name + part)
    module.register_parameter(name, Parameter(value))
    return module
