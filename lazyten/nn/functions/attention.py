"""Attention: softmax(query @ key.T) @ value, as a composite of tensor operations.

`lazyten.nn.functional` offers it; gradients follow from the parts.
"""
from __future__ import annotations

import math

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.functions import combined
from lazyten.frontend.core.mixed_precision import LOW, casting
from lazyten.frontend.functions import arange
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import cast
from lazyten.nn.functions.dropout import check_probability, dropout
from lazyten.operators.arrays import windows
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.support.errors import DTypeError, ShapeError


@takes_tensors
@casting(LOW)
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor,
                                 attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Scalar | None = None,
                                 enable_gqa: bool = False) -> Tensor:
    """For each query (.., L, E) the values (.., S, V) averaged by how well their keys (.., S, E)
    match it: weights are softmax(query @ key.T * scale) over S; (.., L, V).

    attn_mask (broadcast to (.., L, S)): bool, True where a query may see a key, or floats that are
    added to the scores, float32 or of the query's type. dropout_p: weights are 0 with this
    probability. is_causal: query i sees keys 0 to i only, of these what a mask shows, as PyTorch's
    kernel for processors has it. scale: 1/sqrt(E) unless given.
    enable_gqa: each head of key and value (axis -3) serves several neighbouring heads of the query.
    A query that sees nothing gives 0, as in PyTorch.
    """
    check_probability(dropout_p, "scaled_dot_product_attention")
    if enable_gqa:
        key, value = (_for_heads(x, query) for x in (key, value))
    _check(query, key, value, attn_mask)
    factor = _default_scale(query) if scale is None else \
        shapes.as_number(scale, "scaled_dot_product_attention", "scale")
    scores = _scores(query, key, factor)
    hidden = _causal(scores) if is_causal else None
    if attn_mask is not None:
        if attn_mask.dtype is dt.bool_:
            masked = ~attn_mask
        else:
            scores, masked = scores + attn_mask, attn_mask == -math.inf
        hidden = masked if hidden is None else hidden | masked
    if hidden is None:
        return dropout(scores.softmax(-1).to(value.dtype), dropout_p) @ value
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    weights = weights.masked_fill(hidden, 0.0)  # NaN where all of a row is hidden
    return dropout(weights.to(value.dtype), dropout_p) @ value


def _scores(query: Tensor, key: Tensor, factor: float) -> Tensor:
    """query @ key.T * factor; of 16-bit floats in float32, in which they are summed and softmax is
    computed: rounded in between they may be infinite."""
    if not query.dtype.is_half:
        return query * factor @ key.mT
    return combined(query, "scaled_dot_product_attention", lambda q, k: ew.mul(windows.matmul(
        cast(q, dt.float32), cast(k, dt.float32)), factor), key.mT)


def _for_heads(x: Tensor, query: Tensor) -> Tensor:
    """Each head of x as often as the query has heads for it."""
    heads, own = (t.shape[-3] if t.ndim > 2 else 0 for t in (query, x))
    if not own or heads % own:
        raise ShapeError(f"scaled_dot_product_attention, enable_gqa: the query {query.shape} has "
                         f"{heads} heads on axis -3, and a key or value {x.shape} has {own}; its "
                         f"number must divide the query's")
    return x if heads == own else x.repeat_interleave(heads // own, -3)


def _default_scale(query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0


def _causal(scores: Tensor) -> Tensor:
    """Where a key comes after the query, (L, S)."""
    queries, keys = (arange(n, device=scores.device) for n in scores.shape[-2:])
    return keys > queries.unsqueeze(1)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    name = "scaled_dot_product_attention"
    given = [("query", query), ("key", key), ("value", value)]
    for what, x in given:
        if x.ndim < 2:
            raise ShapeError(f"{name}: the {what} has shape {x.shape}; it needs at least 2 axes")
        if not x.dtype.is_float or x.dtype is not query.dtype:
            raise DTypeError(f"{name}: the {what} is {x.dtype.name}; query, key and value must be "
                             f"of one float type; convert with .to(...)")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{name}: query {query.shape}, key {key.shape}, value {value.shape}: the "
                         f"last axes of query and key must be equal, and axis -2 of key and value")
    if mask is None:
        return
    if mask.dtype not in (dt.bool_, dt.float32, query.dtype):
        raise DTypeError(f"{name}: the mask is {mask.dtype.name}; it must be bool, float32 or "
                         f"{query.dtype.name}")
    scores = (*query.shape[:-1], key.shape[-2])
    allowed = mask.ndim <= max(query.ndim, key.ndim) and all(
        m in (1, n) for m, n in zip(mask.shape[-2:][::-1], scores[::-1], strict=False))
    if not allowed:
        raise ShapeError(f"{name}: the mask {mask.shape} does not broadcast to the scores, whose "
                         f"last axes are {scores[-2:]}")
