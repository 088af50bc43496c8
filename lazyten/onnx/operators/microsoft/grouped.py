"""Attention with caches of fixed size, and rotary embeddings.

In the shapes: b batch, n heads, s places that ask, t places of the cache, h numbers of a head.
"""
from __future__ import annotations

import math

import lazyten as lt
from lazyten.onnx.operators.attention import rotary_embedding
from lazyten.onnx.operators.microsoft.attention import joined_heads, split_heads
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size

T = lt.Tensor


def _turned(x: T, places: T, cos: T, sin: T, interleaved: int) -> T:
    """Heads [b, n, s, h] turned by the angles of places [b, s]."""
    found: T = rotary_embedding(x, cos, sin, places, interleaved=interleaved,
                                rotary_embedding_dim=2 * cos.shape[1])
    return found


@operator("RotaryEmbedding", domain=MICROSOFT, gives=1, fixed={"is_packed_batching": 0,
                                                               "scale": 1.0})
def rotary(x: T, position_ids: T, cos: T, sin: T, *, interleaved: int = 0, num_heads: int = 0,
           rotary_embedding_dim: int = 0) -> T:
    """Pairs of numbers turned by the angles of their places: one for each, or that of the first."""
    places = position_ids
    if places.ndim == 1:
        length = x.shape[-2]
        places = (places + lt.arange(length, device=x.device)).expand(x.shape[0], length)
    if x.ndim == 4:
        return _turned(x, places, cos, sin, interleaved)
    count = num_heads or x.shape[2] // (2 * cos.shape[1])
    return joined_heads(_turned(split_heads(x, count), places, cos, sin, interleaved))


def _cache(past: T | None, new: T, before: T, size: int) -> T:
    """What was there, then the new rows behind as many as each row of the batch had: [b, n, t, h].
    before: how many these are, [b]."""
    length = new.shape[2]
    place = lt.arange(size, device=new.device) - before[:, None]
    is_new = ((place >= 0) & (place < length))[:, None, :, None]
    at = place.clamp(0, length - 1)[:, None, :, None]
    shape = (*new.shape[:2], size, new.shape[3])
    moved = new.gather(2, at.expand(shape))
    old: T | float = 0.0
    if past is not None and past.shape[2]:
        old = lt.nn.functional.pad(past, (0, 0, 0, size - past.shape[2]))
    found: T = lt.where(is_new, moved, old)
    return found.to(new.dtype)


@operator("GroupQueryAttention", domain=MICROSOFT, gives=3, host="total_sequence_length",
          fixed={"qk_output": 0, "k_quant_type": "NONE", "v_quant_type": "NONE", "causal": 1,
                 "kv_cache_bit_width": 0, "sliding_window_cache": 0})
def grouped(query: T, key: T | None, value: T | None, past_key: T | None, past_value: T | None,
            seqlens_k: T, total_sequence_length: Array, cos_cache: T | None = None,
            sin_cache: T | None = None, position_ids: T | None = None,
            attention_bias: T | None = None, head_sink: T | None = None, *, num_heads: int,
            kv_num_heads: int, do_rotary: int = 0, local_window_size: int = -1,
            rotary_interleaved: int = 0, scale: float = 0.0, smooth_softmax: int = 0,
            softcap: float = 0.0) -> tuple[T, T, T]:
    """Causal attention where heads share keys and values; keys and values with the new ones.

    seqlens_k: how many places each row of the batch has, less one, the new ones counted; the caches
    have as many places as the longest, or more.
    """
    if key is None or value is None:
        size = query.shape[2] // (num_heads + 2 * kv_num_heads)
        query, key, value = query.split(
            [num_heads * size, kv_num_heads * size, kv_num_heads * size], -1)
    q, k, v = (split_heads(x, n) for x, n in (
        (query, num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    length, total = q.shape[2], int(total_sequence_length.item())
    room = max(total, 0 if past_key is None else past_key.shape[2])
    check_size((*k.shape[:2], room, k.shape[3]), "a cache of keys")
    counts = seqlens_k.reshape(-1).to(lt.int64) + 1
    before = lt.zeros_like(counts) if length == total else counts - length
    places = before[:, None] + lt.arange(length, device=q.device)
    if do_rotary and cos_cache is not None and sin_cache is not None:
        angles = places if position_ids is None else position_ids
        q, k = (_turned(x, angles, cos_cache, sin_cache, rotary_interleaved) for x in (q, k))
    k, v = _cache(past_key, k, before, room), _cache(past_value, v, before, room)
    y = _shared(q, k, v, places, attention_bias, head_sink, local_window_size,
                scale or 1 / math.sqrt(q.shape[-1]), smooth_softmax == 1, softcap)
    return joined_heads(y), k, v


def _shared(q: T, k: T, v: T, places: T, bias: T | None, sink: T | None, window: int,
            scale: float, smooth: bool, softcap: float) -> T:
    """Attention of [b, n, s, h] to the places up to its own, [b, s], of fewer heads k and v."""
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (x.to(lt.float32).repeat_interleave(groups, dim=1) for x in (k, v))
    scores = q.to(lt.float32) @ wide_k.mT * scale
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    at, own = lt.arange(k.shape[2], device=q.device), places[:, None, :, None]
    if bias is not None:
        lacking = k.shape[2] - bias.shape[3]
        scores = scores + lt.nn.functional.pad(bias.to(lt.float32), (0, lacking))
    hidden = at > own
    if window >= 0:
        hidden = hidden | (at <= own - window)
    scores = lt.where(hidden, -math.inf, scores)
    if smooth or sink is not None:
        start = lt.zeros(q.shape[1], device=q.device) if sink is None else sink.to(lt.float32)
        start = start.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = lt.cat([start, scores], -1).softmax(-1)[..., 1:]
    else:
        weights = scores.softmax(-1)
    return (weights @ wide_v).to(q.dtype)
