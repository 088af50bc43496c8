"""Attention with its projections, masks and past keys.

In the shapes: b batch, n heads, s places that ask, t places that are seen, h numbers of a head.
"""
from __future__ import annotations

import math

import lazyten as lt
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.support.errors import ShapeError

T = lt.Tensor
UNUSED = {"do_rotary": 0, "past_present_share_buffer": 0}


def split_heads(x: T, count: int) -> T:
    """[b, n, s, h] of [b, s, n * h]."""
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def joined_heads(x: T) -> T:
    """[b, s, n * h] of [b, n, s, h]."""
    return x.transpose(1, 2).flatten(2)


def _mask(mask: T | None, batch: int, t: int, hidden: float) -> T | None:
    """What a mask adds to scores: 0 for what is seen, `hidden` for what is not. mask: 1 for what is
    seen, [b, t] or [b, s, t], or where each row ends and, behind that, begins."""
    if mask is None:
        return None
    if mask.ndim == 1:
        at = lt.arange(t, device=mask.device)
        seen = at < mask[:batch, None]
        if mask.shape[0] == 2 * batch:
            seen = seen & (at >= mask[batch:, None])
        elif mask.shape[0] != batch:
            raise ShapeError(f"a mask of shape {tuple(mask.shape)} for a batch of {batch}: an end "
                             f"for each, or ends and then beginnings")
    elif mask.ndim in (2, 3):
        seen = mask != 0
    else:
        raise ShapeError(f"a mask of shape {tuple(mask.shape)}: one of 1 to 3 axes is supported")
    while seen.ndim < 4:
        seen = seen.unsqueeze(1)
    added: T = lt.where(seen, 0.0, hidden)
    return added


def _attended(q: T, k: T, v: T, mask: T | None, bias: T | None, scale: float, hidden: float,
              first: int | None) -> tuple[T, T]:
    """softmax(q k^T scale + mask + bias) v, [b, n, s, h]; and the scores before their softmax.
    first: the last place that the first of several queries sees, None if all see all; the last of
    them sees all."""
    s, t = q.shape[2], k.shape[2]
    scores = q.to(lt.float32) @ k.to(lt.float32).mT * (scale or 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        scores = scores + bias.to(lt.float32)
    added = _mask(mask, q.shape[0], t, hidden)
    if added is not None:
        scores = scores + added
    if first is not None and s > 1:
        last = lt.tensor([*range(first, first + s - 1), t], device=q.device)
        later = lt.arange(t, device=q.device) > last[:, None]
        scores = lt.where(later, lt.finfo(lt.float32).min, scores)
    return (scores.softmax(-1) @ v.to(lt.float32)).to(q.dtype), scores


@operator("Attention", domain=MICROSOFT, gives=2, fixed=UNUSED, absent="past_sequence_length")
def attention(x: T, weights: T, bias: T | None = None, mask_index: T | None = None,
              past: T | None = None, attention_bias: T | None = None,
              past_sequence_length: T | None = None, *, num_heads: int,
              mask_filter_value: float = -10000.0, qkv_hidden_sizes: list[int] | None = None,
              scale: float = 0.0, unidirectional: int = 0) -> tuple[T, T]:
    """Queries, keys and values by one product, and their attention; all keys and values."""
    found = x @ weights
    return attend_projected(found if bias is None else found + bias, mask_index, past,
                            attention_bias, num_heads, mask_filter_value, qkv_hidden_sizes, scale,
                            unidirectional)


def attend_projected(found: T, mask: T | None, past: T | None, bias: T | None, heads: int,
                     hidden: float, sizes: list[int] | None, scale: float,
                     causal: int) -> tuple[T, T]:
    """Attention of queries, keys and values beside each other; all keys and values, where these
    have heads of one size."""
    widths = sizes or [found.shape[-1] // 3] * 3
    q, k, v = (split_heads(part, heads) for part in found.split(widths, -1))
    before = 0 if past is None else past.shape[3]
    if past is not None:
        k, v = lt.cat([past[0], k], 2), lt.cat([past[1], v], 2)
    y, _ = _attended(q, k, v, mask, bias, scale, hidden, before if causal else None)
    return joined_heads(y), lt.stack([k, v]) if k.shape == v.shape else k


def _unpacked(query: T, key: T | None, value: T | None, heads: int) -> tuple[T, T, T]:
    """Queries, keys and values as [b, n, ., h], from any of the forms they come in."""
    if key is None:  # [b, s, n, 3, h]
        q, k, v = query.permute(3, 0, 2, 1, 4).unbind(0)
        return q, k, v
    q = split_heads(query, heads)
    if value is None:  # [b, t, n, 2, h]
        k, v = key.permute(3, 0, 2, 1, 4).unbind(0)
        return q, k, v
    k, v = (x if x.ndim == 4 else split_heads(x, heads) for x in (key, value))
    return q, k, v


@operator("MultiHeadAttention", domain=MICROSOFT, gives=4,
          absent="past_sequence_length cache_indirection")
def multi_head(query: T, key: T | None = None, value: T | None = None, bias: T | None = None,
               key_padding_mask: T | None = None, attention_bias: T | None = None,
               past_key: T | None = None, past_value: T | None = None,
               past_sequence_length: T | None = None, cache_indirection: T | None = None, *,
               num_heads: int, mask_filter_value: float = -10000.0, scale: float = 0.0,
               unidirectional: int = 0) -> tuple[T, T, T, T]:
    """Attention of queries, keys and values; all keys, all values, and the scores."""
    q, k, v = _unpacked(query, key, value, num_heads)
    if bias is not None:
        wide = q.shape[1] * q.shape[3]
        parts = bias.split([wide, wide, bias.shape[0] - 2 * wide])
        q, k, v = (x if x is key or x is value else x + part.reshape(1, num_heads, 1, -1)
                   for x, part in zip((q, k, v), parts, strict=True))
    before = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        k, v = lt.cat([past_key, k], 2), lt.cat([past_value, v], 2)
    y, scores = _attended(q, k, v, key_padding_mask, attention_bias, scale, mask_filter_value,
                          before if unidirectional else None)
    return joined_heads(y), k, v, scores
