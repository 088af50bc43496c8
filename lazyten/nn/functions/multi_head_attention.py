"""Attention of several heads: what projects to queries, keys and values, and back, around
scaled_dot_product_attention (A. Vaswani and others, "Attention is all you need", 2017).

`lazyten.nn.functional` offers it, and `lazyten.nn.MultiheadAttention` keeps its weights.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.nn.functions.attention import scaled_dot_product_attention
from lazyten.nn.functions.dropout import check_probability, dropout
from lazyten.nn.functions.linear import linear
from lazyten.nn.functions.padding import pad
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

NAME = "multi_head_attention_forward"
Three = tuple[Tensor, Tensor, Tensor]


class _Heads(NamedTuple):
    """How features are shared out: of `batch` examples each has `number` heads of `features`."""

    batch: int
    number: int
    features: int


@takes_tensors
def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
        in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
        bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
        out_proj_bias: Tensor | None, training: bool = True,
        key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
        v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
        static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False
        ) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads, each of E / num_heads features: (output, weights or None).

    query (L, N, E), key (S, N, .) and value (S, N, .), or all without N; the output is (L, N, E).
    in_proj_weight (3E, E) projects all three, or, with use_separate_proj_weight, q_, k_ and
    v_proj_weight one each; in_proj_bias (3E,). bias_k and bias_v (1, 1, E): one more key and value
    to see; add_zero_attn: another, of zeros. static_k and static_v (N * num_heads, S, E /
    num_heads) take the place of what is projected.

    attn_mask (L, S) or (N * num_heads, L, S), and key_padding_mask (N, S): bools, True for what is
    not seen, or floats to add to the scores. is_causal says that attn_mask hides what comes later,
    and is given beside one. dropout_p: while training, weights are 0 with this probability.
    need_weights: give the weights, too, (N, L, S), or (N, num_heads, L, S) unless
    average_attn_weights; a query that sees nothing is then NaN, and 0 without, as in PyTorch.
    """
    check_probability(dropout_p, NAME)
    _check_ranks((query, key, value), key_padding_mask, attn_mask)
    if batched := query.ndim == 3:
        given = query, key, value
    else:
        given = each_of((query, key, value), lambda x: x.unsqueeze(1))
    heads = _check_sizes(given, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if is_causal and attn_mask is None:
        raise ArgumentError(f"{NAME}: is_causal=True says that attn_mask is causal, and there is "
                            f"none; give nn.Transformer.generate_square_subsequent_mask(length)")
    is_causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if is_causal else _joined(attn_mask, key_padding_mask, given, heads)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else \
        (in_proj_weight,)
    q, k, v = _projected(given, weights, in_proj_bias)
    if (bias_k is None) != (bias_v is None):
        raise ArgumentError(f"{NAME}: only one of bias_k and bias_v is given; give both or none")
    q = _by_heads(q, heads)
    k = _keys(k, bias_k, static_k, add_zero_attn, heads, "k")
    v = _keys(v, bias_v, static_v, add_zero_attn, heads, "v")
    if mask is not None:
        mask = pad(mask, (0, (bias_k is not None) + bool(add_zero_attn)))
    seen, weight = _attended(q, k, v, mask, dropout_p if training else 0.0, need_weights, is_causal)
    _check_projection("out_proj", [out_proj_weight], out_proj_bias)
    output = linear(seen.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias)
    if weight is not None and average_attn_weights:
        weight = weight.mean(1)
    if not batched:
        output, weight = output.squeeze(1), None if weight is None else weight.squeeze(0)
    return output, weight


def each_of(tensors: Three, change: Callable[[Tensor], Tensor]) -> Three:
    """The three changed, such that what is one tensor stays one."""
    query, key, value = tensors
    found = change(query)
    other = found if key is query else change(key)
    return found, other, found if value is query else other if value is key else change(value)


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float,
              need_weights: bool, is_causal: bool) -> tuple[Tensor, Tensor | None]:
    """What each query (N, heads, L, features) sees, and how much of each key, if that is needed."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores = q * math.sqrt(1 / q.shape[-1]) @ k.mT
    weights = dropout((scores if mask is None else scores + mask).softmax(-1), dropout_p)
    return weights @ v, weights


# ---- projections ---------------------------------------------------------------------------------

def _projected(given: Three, weights: Sequence[Tensor | None], bias: Tensor | None) -> Three:
    """Queries, keys and values: by one weight for all three, or by one each."""
    query, key, value = given
    there = [w for w in weights if w is not None]
    if len(there) < len(weights):
        raise ArgumentError(f"{NAME}: a weight to project with is None; give in_proj_weight, or, "
                            f"with use_separate_proj_weight=True, q_, k_ and v_proj_weight")
    _check_projection("in_proj", there, bias)
    if len(there) == 1 and query is key is value:  # one product does it
        q, k, v = linear(query, there[0], bias).chunk(3, -1)
        return q, k, v
    parts = there[0].chunk(3) if len(there) == 1 else there
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    q, k, v = (linear(x, w, b) for x, w, b in zip(given, parts, biases, strict=True))
    return q, k, v


def _by_heads(x: Tensor, heads: _Heads) -> Tensor:
    """(length, N, E) as (N, heads, length, features)."""
    return x.reshape(x.shape[0], *heads).permute(1, 2, 0, 3)


def _keys(x: Tensor, bias: Tensor | None, fixed: Tensor | None, add_zero: bool, heads: _Heads,
          name: str) -> Tensor:
    """Keys or values by heads: those that are fixed, or what was projected, with a row that is
    learned; and a row of zeros."""
    if bias is not None:
        if fixed is not None:
            raise ArgumentError(f"{NAME}: bias_{name} and static_{name} are both given; what is "
                                f"static takes no bias, so give only one")
        x = functions.cat([x, bias.expand(1, heads.batch, -1)])
    wanted = heads.batch * heads.number, heads.features
    if fixed is not None and (fixed.ndim != 3 or fixed.shape[::2] != wanted):
        raise ShapeError(f"{NAME}: static_{name} has shape {fixed.shape}; it needs ({wanted[0]}, "
                         f"length, {wanted[1]}): batch times heads, length, features of a head")
    by_heads = _by_heads(x, heads) if fixed is None else \
        fixed.reshape(heads.batch, heads.number, *fixed.shape[1:])
    return pad(by_heads, (0, 0, 0, 1)) if add_zero else by_heads


# ---- masks ---------------------------------------------------------------------------------------

def _added(mask: Tensor, name: str, dtype: DType) -> Tensor:
    """A mask as what is added to scores."""
    if mask.dtype.is_float:
        return mask
    if mask.dtype is not dt.bool_:
        raise DTypeError(f"{NAME}: {name} is {mask.dtype.name}; it must be bool, True for what is "
                         f"not seen, or floats that are added to the scores")
    nothing = functions.zeros(mask.shape, dtype=dtype, device=mask.device)
    return nothing.masked_fill(mask, -math.inf)


def _joined(mask: Tensor | None, padding: Tensor | None, given: Three, heads: _Heads
            ) -> Tensor | None:
    """Both masks as one to add to scores (N, heads, L, S), of axes of size 1 where all have the
    same."""
    query, key, _ = given
    scores = query.shape[0], key.shape[0]
    if mask is not None:
        several = heads.batch * heads.number, *scores
        if mask.shape not in (scores, several):
            raise ShapeError(f"{NAME}: attn_mask has shape {mask.shape}; it needs {scores}, or "
                             f"{several} for one an example and head")
        mask = _added(mask, "attn_mask", query.dtype)
        mask = mask.reshape(*heads[:2] if mask.ndim == 3 else (1, 1), *scores)
    if padding is None:
        return mask
    if padding.shape[-2:] not in ((heads.batch, scores[1]), (scores[1],)):
        raise ShapeError(f"{NAME}: key_padding_mask has shape {padding.shape}; it needs "
                         f"({heads.batch}, {scores[1]}): batch, keys")
    padding = _added(padding, "key_padding_mask", query.dtype)
    padding = padding.reshape(heads.batch, 1, 1, scores[1])
    return padding if mask is None else mask + padding


# ---- checks --------------------------------------------------------------------------------------

def _check_projection(name: str, weights: Sequence[Tensor], bias: Tensor | None) -> None:
    for weight in weights:
        if weight.ndim != 2:
            raise ShapeError(f"{NAME}: a weight of {name} has shape {weight.shape}; it needs (out, "
                             f"in)")
    rows = sum(w.shape[0] for w in weights)
    if bias is not None and bias.shape != (rows,):
        raise ShapeError(f"{NAME}: {name}_bias has shape {bias.shape}; it needs ({rows},)")


def _check_ranks(given: Three, padding: Tensor | None, mask: Tensor | None) -> None:
    rank = given[0].ndim
    if rank not in (2, 3) or any(x.ndim != rank for x in given):
        raise ShapeError(f"{NAME}: query {given[0].shape}, key {given[1].shape}, value "
                         f"{given[2].shape}: all need the axes (length, batch, features), or all "
                         f"(length, features)")
    if padding is not None and padding.ndim != rank - 1:
        raise ShapeError(f"{NAME}: key_padding_mask has shape {padding.shape}; beside a query "
                         f"{given[0].shape} it needs {rank - 1} axes: "
                         f"{'(batch, keys)' if rank == 3 else '(keys,)'}")
    if mask is not None and mask.ndim not in (2, 3):
        raise ShapeError(f"{NAME}: attn_mask has shape {mask.shape}; it needs (queries, keys) or "
                         f"(batch * heads, queries, keys)")


def _check_sizes(given: Three, features: int, number: int, apart: bool) -> _Heads:
    query, key, value = given
    if query.shape[2] != features:
        raise ShapeError(f"{NAME}: the query has {query.shape[2]} features (shape {query.shape}), "
                         f"and embed_dim is {features}")
    number = shapes.as_int(number, NAME, "num_heads")
    if number < 1 or features % number:
        raise ArgumentError(f"{NAME}: {number} heads cannot share {features} features evenly")
    axes = slice(2) if apart else slice(3)
    if key.shape[axes] != value.shape[axes] or key.shape[1] != query.shape[1]:
        raise ShapeError(f"{NAME}: query {query.shape}, key {key.shape}, value {value.shape}: "
                         f"axis 1, the batch, must be the same for all, and axis 0"
                         f"{'' if apart else ' and 2'} for key and value")
    return _Heads(query.shape[1], number, features // number)
