"""What positions add to the scores of attention.

In the shapes: b batch, n heads, s and t places, h numbers of a head.
"""
from __future__ import annotations

import math

import numpy as np

import lazyten as lt
from lazyten.onnx.operators.microsoft.attention import split_heads
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ArgumentError

T = lt.Tensor


@operator("RelativePositionBias", domain=MICROSOFT, gives=1, host="query_length key_length")
def relative_bias(table: T, query_length: Array, key_length: Array, *, is_bidirectional: int = 0,
                  max_distance: int) -> T:
    """What a table has for the distance of each two places: [1, n, s, t]. Its shape is
    [buckets, n], and its elements lie in memory as those of [n, buckets].

    Near distances have a bucket each, those further on share one by their logarithm (C. Raffel et
    al., 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer).
    """
    s, t = check_size((query_length.item(), key_length.item()), "distances")
    buckets = table.shape[0] // (2 if is_bidirectional else 1)
    near = buckets // 2
    if near < 1 or max_distance <= near:
        raise ArgumentError(f"{table.shape[0]} buckets for distances up to {max_distance}")
    ahead = np.arange(t)[None] - np.arange(s)[:, None]
    distance = np.abs(ahead) if is_bidirectional else np.maximum(-ahead, 0)
    share = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(near)) / np.float32(
        math.log(max_distance / near))
    far = near + (share * np.float32(buckets - near)).astype(np.int64)
    bucket = np.where(distance < near, distance, np.minimum(far, buckets - 1))
    if is_bidirectional:
        bucket = bucket + np.where(ahead > 0, buckets, 0)
    rows: T = table.reshape(table.shape[1], table.shape[0])
    return rows[:, lt.tensor(bucket, device=table.device)].unsqueeze(0)


@operator("GatedRelativePositionBias", domain=MICROSOFT, gives=1, absent="token_offset")
def gated_bias(query: T, query_bias: T, rel_pos: T, weight: T, bias: T, eco_a: T,
               token_offset: T | None = None, *, num_heads: int) -> T:
    """rel_pos [1, n, s, s] times a gate of each query [b, s, n * h]."""
    wide = split_heads(query + query_bias, num_heads) @ weight + bias
    sums = wide.reshape(*wide.shape[:3], 2, -1).sum(-1).sigmoid()
    gate = sums[..., :1] * (sums[..., 1:] * eco_a - 1.0) + 2.0
    return gate * rel_pos
