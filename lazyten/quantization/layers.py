"""Layers whose weight is kept as integers.

A layer keeps its class, with one of its own in front of it: `weight` is computed whenever the layer
asks for it, and everything else is as it was. What the layer computes from it, and its gradients
for inputs and bias, follow.
"""
from __future__ import annotations

from typing import Any, NoReturn

from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.modules.conv import _ConvNd
from lazyten.nn.modules.linear import Linear
from lazyten.nn.modules.sparse import Embedding, EmbeddingBag
from lazyten.nn.parameter import UninitializedParameter
from lazyten.nn.utils.computed import computed
from lazyten.nn.utils.parametrizations import axis_of_outputs
from lazyten.quantization.weights import QuantizedWeight, Scheme
from lazyten.support.errors import ArgumentError

KINDS = Linear, _ConvNd, Embedding, EmbeddingBag
"""Layers with a weight that can be integers."""


class IntegerWeight(Module):
    """In front of a layer's class: its weight is that of `integers`."""

    integers: QuantizedWeight

    @property
    def weight(self) -> Tensor:
        """The floats that the integers stand for."""
        made: Tensor = self.integers()
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight":
            self._refuse("weight is kept as integers, and is not assigned")
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        """ArgumentError: integers are made of a weight that is there."""
        self._refuse("reset_parameters(): integers are not drawn anew")

    def _refuse(self, what: str) -> NoReturn:
        raise ArgumentError(f"{type(self).__name__}: {what}; quantize a model that has the weight "
                            f"as floats")

    def __repr__(self) -> str:
        scheme = self.integers.scheme
        return f"{self._get_name()}({self.extra_repr()}, weights={scheme})"


def is_quantized(module: Module) -> bool:
    """Whether a layer's weight is kept as integers."""
    return isinstance(module, IntegerWeight)


def quantizable(module: Module) -> bool:
    """Whether a layer has a weight that can become integers."""
    return isinstance(module, KINDS) and not is_quantized(module)


def put_in_front(front: type[Module], layer: Module, prefix: str = "") -> None:
    """Give a layer a class of its own, `front` before the one it has."""
    base = type(layer)
    layer.__class__ = type(f"{prefix}{base.__name__}", (front, base),
                           {"__module__": base.__module__})


def take_from_front(layer: Module) -> None:
    """Give a layer the class back that it had before put_in_front()."""
    layer.__class__ = type(layer).__bases__[1]


def keep_as_integers(layer: Module, scheme: Scheme, where: str,
                     front: type[IntegerWeight] = IntegerWeight) -> None:
    """Have a layer's weight be integers, in place. where: how errors name the layer."""
    check(layer, where)
    weight = layer.weight
    assert isinstance(weight, Tensor)
    integers = QuantizedWeight(weight, scheme, axis_of_outputs(layer, None), where)
    del layer.weight
    put_in_front(front, layer, "Quantized")
    layer.integers = integers.train(layer.training)


def check(layer: Module, where: str) -> None:
    """ArgumentError for a layer that does more with its weight than read it."""
    weight = layer._parameters.get("weight")
    if isinstance(weight, UninitializedParameter):
        raise ArgumentError(f"{where}: the layer has no sizes yet; call the model once before")
    if weight is None or computed(layer):
        raise ArgumentError(f"{where}: the weight is no parameter, but computed from others; "
                            f"remove its parametrizations before, or leave it out with skip=[...]")
    if getattr(layer, "max_norm", None) is not None:
        raise ArgumentError(f"{where}: max_norm={layer.max_norm} writes to rows of the weight as "
                            f"they are looked up, which integers do not take; make it None, or "
                            f"leave the layer out with skip=[...]")
