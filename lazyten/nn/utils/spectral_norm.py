"""`spectral_norm` with the older names of its parts: name_orig, name_u and name_v: see
parametrizations.py."""
from __future__ import annotations

from typing import Any, TypeVar

from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.nn.utils import computed
from lazyten.nn.utils.parametrizations import (
    as_rows,
    axis_of_outputs,
    check_iterations,
    first_vectors,
    over_sigma,
    power_method,
    tensor_named,
)
from lazyten.support.errors import ArgumentError
from lazyten.support.grad_mode import no_grad

M = TypeVar("M", bound=Module)


def spectral_norm(module: M, name: str = "weight", n_power_iterations: int = 1,
                  eps: float = 1e-12, dim: int | None = None) -> M:
    """module.name as name_orig over its greatest singular value, which each call while training
    comes nearer to by the power method on name_u and name_v; gives the module."""
    check_iterations(n_power_iterations)
    weight = tensor_named(module, name, "spectral_norm")
    if f"{name}_orig" in module._parameters:
        raise ArgumentError(f"spectral_norm: {name!r} of {type(module).__name__} has it already")
    axis = axis_of_outputs(module, dim)
    u, v = first_vectors(as_rows(weight.detach(), axis), eps)

    def value(self: Any) -> Any:
        original = getattr(self, f"{name}_orig")
        return over_sigma(original, as_rows(original, axis), getattr(self, f"{name}_u"),
                          getattr(self, f"{name}_v"))

    def step(self: Any, args: Any) -> None:
        if self.training:  # v is first here, so it is u for what comes from the other side
            columns = as_rows(getattr(self, f"{name}_orig"), axis).T
            power_method(columns, getattr(self, f"{name}_v"), getattr(self, f"{name}_u"),
                         n_power_iterations, eps)
    computed.compute(module, name, value)
    module.register_parameter(f"{name}_orig", weight if isinstance(weight, Parameter)
                              else Parameter(weight))
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.__dict__[f"_spectral_norm_of_{name}"] = module.register_forward_pre_hook(step)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Have module.name be a parameter with its value of now; gives the module."""
    handle = module.__dict__.pop(f"_spectral_norm_of_{name}", None)
    if handle is None:
        raise ArgumentError(f"remove_spectral_norm: {name!r} of {type(module).__name__} has no "
                            f"spectral_norm")
    handle.remove()
    with no_grad():
        value = getattr(module, name).detach().clone()
    computed.keep(module, name)
    for part in ("_u", "_v", "_orig"):
        delattr(module, name + part)
    module.register_parameter(name, Parameter(value))
    return module
