"""Layers that train for what integers will leave of their weights and inputs.

Forward they compute what the quantized layer will, in floats; gradients flow straight through to
the weights, which stay floats, and to inputs where they were not held to the limits.
"""
from __future__ import annotations

from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.utils import parametrize
from lazyten.nn.utils.parametrizations import axis_of_outputs
from lazyten.quantization import layers
from lazyten.quantization.affine import from_integers, straight_through
from lazyten.quantization.observers import Observer
from lazyten.quantization.weights import Scheme, as_rows, integers_of


class FakeQuantizedWeight(Module):
    """A parametrization: what integers leave of a weight. The scales follow the weight, so that
    none is held, and all of it has the gradient of the result."""

    def __init__(self, scheme: Scheme, axis: int, where: str) -> None:
        super().__init__()
        self.scheme, self.axis, self.where = scheme, axis, where

    def forward(self, weight: Tensor) -> Tensor:
        found = integers_of(as_rows(weight.detach(), self.axis), self.scheme, self.where)
        moved = weight.movedim(self.axis, 0)
        left = from_integers(found.values, found.scale, found.zero_point).to(weight.dtype)
        return straight_through(weight, left.reshape(moved.shape).movedim(0, self.axis))

    def extra_repr(self) -> str:
        return str(self.scheme)


class FakedInput(Module):
    """In front of a layer's class: it computes with what integers leave of its input."""

    input_range: Observer

    def forward(self, input: Tensor, *args: Any) -> Any:
        """What the layer gives for that."""
        return super().forward(self.input_range(input), *args)


def train_for(layer: Module, scheme: Scheme, observer: Observer | None, where: str) -> None:
    """Have a layer compute with what integers leave of its weight and, if there is an observer, of
    its input, in place."""
    layers.check(layer, where)
    if observer is not None:
        layers.put_in_front(FakedInput, layer)
        layer.input_range = observer.train(layer.training)
    fake = FakeQuantizedWeight(scheme, axis_of_outputs(layer, None), where)
    parametrize.register_parametrization(layer, "weight", fake)


def scheme_of(module: Module) -> Scheme | None:
    """What a layer trains for; None for one that train_for() has not changed."""
    held = getattr(module, "parametrizations", {})
    found = list(held["weight"]) if "weight" in held else []
    return found[0].scheme if found and isinstance(found[0], FakeQuantizedWeight) else None


def trained(layer: Any) -> Observer | None:
    """Take away what train_for() added, in place; the weight is the floats that were trained. Gives
    the observer, if there is one."""
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    if not isinstance(layer, FakedInput):
        return None
    observer = layer.input_range
    del layer.input_range
    layers.take_from_front(layer)
    return observer
