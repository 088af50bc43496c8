"""Mixtures of experts: networks of two layers, some of which are chosen for each token.

In the shapes: e experts, t tokens, h numbers of a token, i numbers inside of an expert.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import lazyten as lt
from lazyten.nn import functional as F
from lazyten.onnx.operators.microsoft.packed import unpacked
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
ACTIVATIONS: dict[str, Callable[[T], T]] = {
    "relu": F.relu, "silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "identity": lambda x: x}


class Layer(NamedTuple):
    """Of each expert a matrix [e, to, from], and what is added."""

    weight: T
    bias: T | None

    def __call__(self, x: T, chosen: T | None) -> T:
        """Of x [e or 1, t, from] the products [e, t, to] of all experts; or of x [t, k or 1, from]
        those [t, k, to] of the chosen ones, [t, k]."""
        if chosen is None:
            found = x @ self.weight.mT
            return found if self.bias is None else found + self.bias.unsqueeze(1)
        found = (self.weight[chosen] @ x.unsqueeze(-1)).squeeze(-1)
        return found if self.bias is None else found + self.bias[chosen]


class Activation(NamedTuple):
    """What is between the layers. fusion: 1 if gates and values alternate, 2 if all gates come
    first; alpha, beta, limit: of the gates of swiglu."""

    name: str
    fusion: int
    alpha: float
    beta: float
    limit: float

    def __call__(self, first: T, third: T | None) -> T:
        """Of what the first layer gave, and the third."""
        if self.name != "swiglu":
            if self.name not in ACTIVATIONS:
                raise ArgumentError(f"activation_type {self.name!r}: swiglu and "
                                    f"{sorted(ACTIVATIONS)} are there")
            found = ACTIVATIONS[self.name](first)
            return found if third is None else found * third
        gate, value = self._parts(first, third)
        if math.isfinite(self.limit):
            gate, value = gate.clamp(max=self.limit), value.clamp(-self.limit, self.limit)
        return gate * (gate * self.alpha).sigmoid() * (value + self.beta)

    def _parts(self, first: T, third: T | None) -> tuple[T, T]:
        if self.fusion == 1:
            return first[..., 0::2], first[..., 1::2]
        if self.fusion == 2:
            gate, value = first.chunk(2, -1)
            return gate, value
        if third is None:
            raise ArgumentError("swiglu_fusion 0 needs the weights of a third layer")
        return first, third


def _mixed(x: T, scores: T, count: int, weights: T | None, normalized: int,
           layers: tuple[Layer, Layer, Layer | None], act: Activation) -> T:
    """The sum of what the best experts of each token give, by weight.

    All experts are asked about all tokens, unless there are fewer choices than experts.
    """
    tokens, experts = x.reshape(-1, x.shape[-1]), scores.shape[-1]
    if not 1 <= count <= experts or scores.shape[0] != tokens.shape[0]:
        raise ShapeError(f"{count} of {experts} experts for scores of shape {tuple(scores.shape)} "
                         f"and tokens of shape {tuple(x.shape)}")
    chosen = scores.topk(count, -1)[1]
    share = (scores.softmax(-1) if weights is None else weights).gather(1, chosen)
    if normalized:
        share = share / share.sum(-1, keepdim=True)
    first, second, third = layers
    if tokens.shape[0] * count <= experts:
        rows = tokens.unsqueeze(1)
        inner = act(first(rows, chosen), None if third is None else third(rows, chosen))
        found = (second(inner, chosen) * share.unsqueeze(-1)).sum(1)
    else:
        inner = act(first(tokens, None), None if third is None else third(tokens, None))
        spread = lt.zeros_like(scores).scatter(1, chosen, share)
        found = (second(inner, None) * spread.T.unsqueeze(-1)).sum(0)
    return found.reshape(x.shape).to(x.dtype)


@operator("MoE", domain=MICROSOFT, gives=1, fixed={"use_sparse_mixer": 0,
                                                   "swiglu_limit_after_activation": 0})
def mixture(x: T, router_probs: T, fc1: T, fc1_bias: T | None, fc2: T, fc2_bias: T | None = None,
            fc3: T | None = None, fc3_bias: T | None = None, *, activation_alpha: float = 1.0,
            activation_beta: float = 0.0, activation_type: str = "relu", k: int = 1,
            normalize_routing_weights: int = 0, swiglu_fusion: int = 0,
            swiglu_limit: float = math.inf) -> T:
    """A mixture of experts."""
    third = None if fc3 is None else Layer(fc3, fc3_bias)
    act = Activation(activation_type, swiglu_fusion, activation_alpha, activation_beta,
                     swiglu_limit)
    return _mixed(x, router_probs, k, None, normalize_routing_weights,
                  (Layer(fc1, fc1_bias), Layer(fc2, fc2_bias), third), act)


@operator("QMoE", domain=MICROSOFT, gives=1,
          fixed={"use_sparse_mixer": 0, "swiglu_limit_after_activation": 0, "quant_type": "int",
                 "weights_prepacked": 0})
def quantized_mixture(
        x: T, router_probs: T, fc1: T, fc1_scales: T, fc1_bias: T | None, fc2: T, fc2_scales: T,
        fc2_bias: T | None = None, fc3: T | None = None, fc3_scales: T | None = None,
        fc3_bias: T | None = None, fc1_zero: T | None = None, fc2_zero: T | None = None,
        fc3_zero: T | None = None, router_weights: T | None = None, *, accuracy_level: int = 0,
        activation_alpha: float = 1.0, activation_beta: float = 0.0,
        activation_type: str = "relu", block_size: int = 0, expert_weight_bits: int = 4, k: int = 1,
        fc1_expert_weight_bits: int = 0, fc2_expert_weight_bits: int = 0,
        fc3_expert_weight_bits: int = 0, normalize_routing_weights: int = 0,
        swiglu_fusion: int = 0, swiglu_limit: float = math.inf) -> T:
    """A mixture of experts whose weights are integers of few bits."""
    bits = [n or expert_weight_bits for n in (
        fc1_expert_weight_bits, fc2_expert_weight_bits, fc3_expert_weight_bits)]
    third = None if fc3 is None or fc3_scales is None else Layer(
        _dequantized(fc3, fc3_scales, fc3_zero, bits[2], x.dtype), fc3_bias)
    layers = (Layer(_dequantized(fc1, fc1_scales, fc1_zero, bits[0], x.dtype), fc1_bias),
              Layer(_dequantized(fc2, fc2_scales, fc2_zero, bits[1], x.dtype), fc2_bias), third)
    act = Activation(activation_type, swiglu_fusion, activation_alpha, activation_beta,
                     swiglu_limit)
    return _mixed(x, router_probs, k, router_weights, normalize_routing_weights, layers, act)


def _dequantized(packed: T, scales: T, zero: T | None, bits: int, dtype: lt.DType) -> T:
    """Matrices [e, to, from] of integers, several to a byte, whose rows, or blocks of rows, have a
    scale and a zero point."""
    if bits not in (2, 4, 8):
        raise ArgumentError(f"weights of {bits} bits: 2, 4 and 8 are supported")
    whole = unpacked(packed, bits).to(dtype)
    factor = (scales if scales.ndim == 3 else scales.unsqueeze(-1)).to(dtype)
    blocks = whole.reshape(*whole.shape[:2], factor.shape[2], -1)
    low: T | float = 2.0 ** (bits - 1)
    if zero is not None:
        count = factor.shape[1] if zero.ndim == 2 else factor.shape[2]
        low = unpacked(zero, bits)[..., :count].reshape(factor.shape).unsqueeze(-1).to(dtype)
    return ((blocks - low) * factor.unsqueeze(-1)).reshape(whole.shape)
