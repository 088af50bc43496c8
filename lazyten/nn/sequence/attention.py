"""`MultiheadAttention`: the weights of several heads, and options kept."""
from __future__ import annotations

import math

from lazyten.frontend import functions
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn import init
from lazyten.nn.functions.dropout import check_probability
from lazyten.nn.functions.multi_head_attention import each_of
from lazyten.nn.module import Module
from lazyten.nn.modules.base import uniform_within
from lazyten.nn.modules.linear import Linear
from lazyten.nn.parameter import Parameter, parameter_of
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError


class NonDynamicallyQuantizableLinear(Linear):
    """Linear by the name that PyTorch prints for the projection of an attention's result."""


class MultiheadAttention(Module):
    """functional.multi_head_attention_forward with its weights: (output, weights or None).

    kdim, vdim: features of keys and values where they are not embed_dim; then three weights
    q_proj_weight, k_proj_weight and v_proj_weight take the place of in_proj_weight. add_bias_kv:
    one more key and value, which are learned; add_zero_attn: one more of zeros. batch_first: the
    batch is axis 0 of inputs and output, not axis 1.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__()
        name = f"MultiheadAttention({embed_dim}, {num_heads})"
        self.kdim, self.vdim = (embed_dim if n is None else n for n in (kdim, vdim))
        for number in (embed_dim, num_heads, self.kdim, self.vdim):
            if shapes.as_int(number, name, "a number of features or heads") < 1:
                raise ArgumentError(f"{name}: features and heads must be 1 or more, not {number}")
        if embed_dim % num_heads:
            raise ArgumentError(f"{name}: {num_heads} heads cannot share {embed_dim} features "
                                f"evenly")
        check_probability(dropout, name)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self._make_projections(bias, device, dtype)
        self.bias_k: Parameter | None = None
        self.bias_v: Parameter | None = None
        if add_bias_kv:
            self.bias_k, self.bias_v = (parameter_of(init.xavier_normal_(functions.empty(
                (1, 1, embed_dim), device=device, dtype=dtype)).realize()) for _ in range(2))

    def _make_projections(self, bias: bool, device: str | None, dtype: DTypeLike | None) -> None:
        """Weights as init.xavier_uniform_ makes them, biases of zeros."""
        size, same = self.embed_dim, self._qkv_same_embed_dim
        inputs = {"q_proj_weight": size, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        sizes = {"in_proj_weight": (3 * size, size), **{n: (size, k) for n, k in inputs.items()}}
        for name, shape in sizes.items():
            wanted = same == (name == "in_proj_weight")
            self.register_parameter(name, uniform_within(
                shape, math.sqrt(6 / sum(shape)), device, dtype) if wanted else None)
        self.register_parameter("in_proj_bias", parameter_of(functions.zeros(
            3 * size, device=device, dtype=dtype)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(size, size, bias, device, dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def _reset_parameters(self) -> None:
        """Draw parameters anew, but for the weight of `out_proj`: PyTorch's name, which packages
        call."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight,
                       self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(self, query: Tensor, key: Tensor, value: Tensor,
                key_padding_mask: Tensor | None = None, need_weights: bool = True,
                attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        swapped = self.batch_first and query.ndim == 3
        given = each_of((query, key, value), lambda x: x.transpose(0, 1)) if swapped else \
            (query, key, value)
        output, weights = F.multi_head_attention_forward(
            *given, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight,
            self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask,
            not self._qkv_same_embed_dim, self.q_proj_weight, self.k_proj_weight,
            self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return output.transpose(0, 1) if swapped else output, weights
