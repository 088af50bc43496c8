"""Attention and rotary embeddings."""
from __future__ import annotations

import math

import lazyten as lt
from lazyten.onnx.operators.normalization import Floats
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError

T = lt.Tensor


def _heads(x: T, count: int | None) -> T:
    """[batch, heads, length, size], from that or from [batch, length, heads * size]."""
    if x.ndim == 4:
        return x
    if not count:
        raise ArgumentError("inputs of 3 axes need q_num_heads and kv_num_heads")
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _bias(mask: T | None, scores: T, causal: int, past: int, lengths: T | None,
          left: int, right: int) -> T | None:
    """What is added to scores: the mask's numbers, and -inf where nothing is to be seen."""
    rows, columns = scores.shape[-2:]
    device, dtype = scores.device, scores.dtype
    bias: T | None = None
    hidden: T | None = None
    if mask is not None:
        lacking = columns - mask.shape[-1]
        if mask.dtype is lt.bool_:
            hidden = ~lt.nn.functional.pad(mask, (0, lacking)) if lacking else ~mask
        else:
            bias = lt.nn.functional.pad(mask, (0, lacking), value=-math.inf) if lacking else mask
            bias = bias.to(dtype)
    i = lt.arange(rows, device=device)[:, None] + past
    j = lt.arange(columns, device=device)
    if lengths is not None:
        ends = lengths.to(lt.int64)[:, None, None, None]
        beyond = j >= ends
        hidden = beyond if hidden is None else hidden | beyond
        if causal or left >= 0 or right >= 0:
            i = i + (ends - rows)
    for unseen in ([j > i] if causal else []) + ([j < i - left] if left >= 0 else []) + (
            [j > i + right] if right >= 0 else []):
        hidden = unseen if hidden is None else hidden | unseen
    if hidden is None:
        return bias
    wall: T = lt.where(hidden, -math.inf, 0.0).to(dtype)
    return wall if bias is None else bias + wall


@operator("Attention")
def attention(q: T, k: T, v: T, mask: T | None = None, past_k: T | None = None,
              past_v: T | None = None, lengths: T | None = None, *, is_causal: int = 0,
              kv_num_heads: int | None = None, q_num_heads: int | None = None,
              qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
              softmax_precision: int | None = None, left_window_size: int = -1,
              right_window_size: int = -1, outputs: int = 1) -> tuple[T | None, ...]:
    """softmax(q k^T scale + mask) v for each head; several heads of q may share one of k and v."""
    flat = q.ndim == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0
    if past_k is not None and past_v is not None:
        past = past_k.shape[2]
        k, v = lt.cat([past_k, k], 2), lt.cat([past_v, v], 2)
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (x if groups == 1 else x.repeat_interleave(groups, dim=1) for x in (k, v))
    factor = lt.tensor(math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale),
                       device=q.device).to(q.dtype)
    scores = (q * factor) @ (wide_k * factor).mT
    shown = scores
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    capped = scores
    bias = _bias(mask, scores, is_causal, past, lengths, left_window_size, right_window_size)
    if bias is not None:
        scores = scores + bias
    wide = scores.to(Floats[softmax_precision]) if softmax_precision else scores
    weights = wide.softmax(-1)
    if bias is not None:  # a row that sees nothing gives nothing
        weights = lt.where(wide.amax(-1, keepdim=True) == -math.inf, 0.0, weights)
    weights = weights.to(q.dtype)
    y = weights @ wide_v
    if flat:
        y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
    seen = {0: shown, 1: capped, 2: scores, 3: weights}[qk_matmul_output_mode]
    return y, k, v, seen


@operator("RotaryEmbedding", since=23)
def rotary_embedding(x: T, cos: T, sin: T, places: T | None = None, *, interleaved: int = 0,
                     num_heads: int = 0, rotary_embedding_dim: int = 0) -> T:
    """Pairs of numbers turned by angles that depend on the place in the sequence."""
    shape = x.shape
    rows = x.transpose(1, 2) if x.ndim == 4 else x.reshape(
        shape[0], shape[1], num_heads, -1)  # [batch, length, heads, size]
    turned = rotary_embedding_dim or rows.shape[-1]
    part, rest = rows[..., :turned], rows[..., turned:]
    if places is not None:
        cos, sin = (table[places.to(lt.int64)] for table in (cos, sin))
    cos, sin = cos[..., :turned // 2].unsqueeze(2), sin[..., :turned // 2].unsqueeze(2)
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
    else:
        a, b = part[..., :turned // 2], part[..., turned // 2:]
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        part = lt.stack([real, imaginary], -1).reshape(part.shape)
    else:
        part = lt.cat([real, imaginary], -1)
    found = lt.cat([part, rest], -1) if rest.shape[-1] else part
    return found.transpose(1, 2) if x.ndim == 4 else found.reshape(shape)
