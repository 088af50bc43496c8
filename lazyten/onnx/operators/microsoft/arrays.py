"""What moves, finds and compares elements, often older forms of what the standard has by now."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

import lazyten as lt
from lazyten.onnx.operators.image import grid_sample, pad
from lazyten.onnx.operators.indexing import gather_nd, unique
from lazyten.onnx.operators.shapes import arange
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor

operator("GatherND", domain=MICROSOFT, gives=1, moves=True, fixed={"batch_dims": 0})(gather_nd)
operator("GridSample", domain=MICROSOFT, gives=1)(grid_sample)


@operator("Pad", domain=MICROSOFT, gives=1, host="pads")
def padded(data: T, pads: Array, value: T | None = None, *, mode: str = "constant") -> T:
    """More, or less, before and behind axes."""
    return pad(data, pads.reshape(-1), value, mode=mode)  # type: ignore[no-any-return]


@operator("Range", domain=MICROSOFT, gives=1, host="start limit delta", shapes=True)
def numbers(start: Array, limit: Array, delta: Array | None = None) -> Array:
    """Numbers from start to before limit in steps of delta, or of 1."""
    step = np.ones((), start.dtype) if delta is None else delta
    return arange(start, limit, step)  # type: ignore[no-any-return]


@operator("ExpandDims", domain=MICROSOFT, gives=1, host="axis", moves=True)
def expand_dims(x: T, axis: Array) -> T:
    """A new axis of size 1."""
    return x.unsqueeze(int(axis.item()))


@operator("Unique", domain=MICROSOFT, gives=3, eager=True, host="*")
def first_ones(x: Array) -> tuple[Array, ...]:
    """Different elements in their order, which of them each one is, and how often there is each."""
    if x.ndim != 1:
        raise ShapeError(f"elements of shape {x.shape}: give one axis")
    values, _, places, counts = unique(x, sorted=0)
    return values, places, counts


@operator("Inverse", domain=MICROSOFT, gives=1, eager=True, host="*")
def inverse(x: Array) -> Array:
    """Inverses of matrices."""
    wide: Array = np.linalg.inv(x.astype(np.float64))
    return wide.astype(x.dtype)


@operator("CDist", domain=MICROSOFT, gives=1)
def distances(a: T, b: T, *, metric: str = "sqeuclidean") -> T:
    """How far each row of a is from each of b: [rows of a, rows of b]."""
    squares = ((a[:, None] - b[None]) ** 2).sum(-1)
    if metric not in ("sqeuclidean", "euclidean"):
        raise ArgumentError(f"metric {metric!r}: sqeuclidean and euclidean are supported")
    return squares if metric == "sqeuclidean" else squares.sqrt()


@operator("TorchEmbedding", domain=MICROSOFT, gives=1)
def embedding(weight: T, indices: T, padding_idx: T | None = None,
              scale_grad_by_freq: T | None = None) -> T:
    """Rows of a table; the last two inputs are about its gradient."""
    return weight[indices.to(lt.int64)]


@operator("IsAllFinite", domain=MICROSOFT, gives=1)
def all_finite(*inputs: T, isinf_only: int = 0, isnan_only: int = 0) -> T:
    """Whether all elements are finite, or not infinite, or not NaN."""
    looks = lt.isinf if isinf_only else lt.isnan if isnan_only else lambda x: ~lt.isfinite(x)
    return ~lt.stack([looks(x).any() for x in inputs]).any()


@operator("NGramRepeatBlock", domain=MICROSOFT, gives=1)
def block_repeats(ids: T, scores: T, *, ngram_size: int) -> T:
    """Scores of words, -inf for those that would end a run of words that was there before:
    [batch, words]."""
    if ngram_size <= 0:
        raise ArgumentError(f"ngram_size {ngram_size}: it must be above 0")
    if ids.shape[1] < ngram_size:
        return scores
    runs = ids.to(lt.int64).unfold(1, ngram_size, 1)
    last = ids[:, ids.shape[1] - ngram_size + 1:][:, None]
    same = (runs[..., :-1] == last).all(-1)
    found = lt.zeros(scores.shape, dtype=lt.int32, device=scores.device).scatter_add(
        1, runs[..., -1], same.to(lt.int32))
    blocked: T = lt.where(found > 0, -math.inf, scores)
    return blocked


def _hash(data: bytes, seed: int) -> int:
    """MurmurHash3 of 32 bits, by Austin Appleby, who put it into the public domain."""
    def mixed(word: int) -> int:
        word = word * 0xcc9e2d51 & 0xffffffff
        return ((word << 15 | word >> 17) & 0xffffffff) * 0x1b873593 & 0xffffffff
    found, whole = seed, len(data) // 4 * 4
    for at in range(0, whole, 4):
        found ^= mixed(int.from_bytes(data[at:at + 4], "little"))
        found = (found << 13 | found >> 19) & 0xffffffff
        found = (found * 5 + 0xe6546b64) & 0xffffffff
    found ^= mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    for shift, factor in ((16, 0x85ebca6b), (13, 0xc2b2ae35), (16, 1)):
        found = (found ^ found >> shift) * factor & 0xffffffff
    return found


@operator("MurmurHash3", domain=MICROSOFT, gives=1, eager=True, host="*")
def murmur(x: Array, *, positive: int = 1, seed: int = 0) -> Array:
    """A number of 32 bits for each element, of its bytes."""
    values: list[Any] = x.ravel().tolist() if x.dtype == object else list(x.ravel())
    found = np.array([_hash(v.encode() if isinstance(v, str) else v.tobytes(), seed)
                      for v in values], np.uint32).reshape(x.shape)
    return found if positive else found.view(np.int32)
