"""What layers share: how they print, and parameters with the usual initial values."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from lazyten import random
from lazyten.frontend import functions
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.nn import init
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter, parameter_of
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad

MOST_ON_HOST = 1 << 16
"""Elements of a parameter up to which its initial values take less time to work out than to compile
a kernel for."""


class Layer(Module):
    """A module that prints the attributes that `_shown` names, and inplace=True where it is."""

    _shown: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self._shown]
        if getattr(self, "inplace", False) and "inplace" not in self._shown:
            shown.append("inplace=True")
        return ", ".join(shown)

    def _parameter(self, name: str, shape: Sequence[int], device: str | None,
                   dtype: DTypeLike | None, wanted: bool = True) -> None:
        """Register a parameter whose values are still to be set; None unless `wanted`."""
        fresh = functions.empty(shape, device=device, dtype=dtype) if wanted else None
        if fresh is not None and not fresh.dtype.is_float:
            raise DTypeError(f"{type(self).__name__} of {fresh.dtype.name}: its {name} is for "
                             f"floats; leave dtype out, or give a float type")
        self.register_parameter(name, None if fresh is None else parameter_of(fresh))


def check_counts(layer: str, least: int, **counts: int) -> None:
    """ArgumentError unless all of these are whole numbers of `least` or more."""
    for name, number in counts.items():
        if shapes.as_int(number, layer, name) < least:
            raise ArgumentError(f"{layer}: {name}={number} is below {least}; give {least} or more")


def uniform_within(shape: Sequence[int], bound: float, device: str | None,
                   dtype: DTypeLike | None) -> Parameter:
    """A parameter whose values are uniform from -bound to bound."""
    parameter = parameter_of(functions.empty(shape, device=device, dtype=dtype))
    set_within(parameter, bound)
    return parameter


def set_uniform(parameter: Parameter, fan_in: int) -> None:
    """PyTorch's default for weights and biases: uniform up to 1 / sqrt(fan_in)."""
    set_within(parameter, 1 / math.sqrt(fan_in) if fan_in else 0.0)


def set_within(parameter: Parameter, bound: float) -> None:
    """Values that are uniform from -bound to bound."""
    if parameter.is_meta:
        return
    if parameter.numel() > MOST_ON_HOST or parameter.dtype is not dt.float32:
        init.uniform_(parameter, -bound, bound).detach().realize()
        return
    unit = random.host_uniform(parameter.numel()).reshape(parameter.shape)
    on_host = unit * np.float32(2 * bound) + np.float32(-bound)
    with no_grad():
        parameter.copy_(functions.tensor(on_host, device=parameter.device))


def set_constant(parameter: Tensor | None, value: float) -> None:
    """One value everywhere, of a parameter or a buffer that is there."""
    if parameter is not None:
        init.constant_(parameter, value)
        parameter._storage.occupy()
