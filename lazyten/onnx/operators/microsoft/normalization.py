"""Normalizations of sums, and of embeddings."""
from __future__ import annotations

import lazyten as lt
from lazyten.nn import functional as F
from lazyten.onnx.operators.normalization import Floats, layer_normalization
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError

T = lt.Tensor

operator("LayerNormalization", gives=3)(layer_normalization)


@operator("SimplifiedLayerNormalization", gives=2)
@operator("SimplifiedLayerNormalization", domain=MICROSOFT, gives=2)
def simplified(x: T, scale: T, *, axis: int = -1, epsilon: float = 1e-5,
               stash_type: int = 1) -> tuple[T, T]:
    """All axes from one on divided by the root of their mean square; and 1 / these roots."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.to(Floats[stash_type])
    factor = ((wide * wide).mean(axes, keepdim=True) + epsilon).rsqrt()
    return (wide * factor * scale.to(wide.dtype)).to(x.dtype), factor


@operator("GatedRMSNorm", domain=MICROSOFT, gives=1)
def gated_norm(x: T, scale: T, gate: T, *, activation: str = "silu",
               epsilon: float = 1e-5) -> T:
    """Groups of as many elements as the scale divided by the root of their mean square, times the
    activation of a gate; in 32 bits."""
    if activation not in ("silu", "swish", "sigmoid"):
        raise ArgumentError(f"activation {activation!r}: silu, swish and sigmoid are there")
    wide = x.to(lt.float32).unflatten(-1, (-1, scale.shape[0]))
    rooted = wide * ((wide * wide).mean(-1, keepdim=True) + epsilon).rsqrt()
    factor = gate.to(lt.float32)
    factor = factor.sigmoid() * (1.0 if activation == "sigmoid" else factor)
    return ((rooted * scale.to(lt.float32)).flatten(-2) * factor).to(x.dtype)


def _sum(x: T, skip: T, bias: T | None) -> T:
    found = x + skip
    return found if bias is None else found + bias


@operator("SkipLayerNormalization", domain=MICROSOFT, gives=4)
def skip_normalization(x: T, skip: T, gamma: T, beta: T | None = None, bias: T | None = None, *,
                       epsilon: float = 1e-12) -> tuple[T, ...]:
    """x + skip + bias normalized along the last axis; means, 1 / deviations, and that sum."""
    total = _sum(x, skip, bias)
    return (*layer_normalization(total, gamma, beta, epsilon=epsilon), total)


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT, gives=4)
def skip_simplified(x: T, skip: T, gamma: T, bias: T | None = None, *,
                    epsilon: float = 1e-12) -> tuple[T | None, ...]:
    """x + skip + bias divided by the root of its mean square; nothing, 1 / the roots, that sum."""
    total = _sum(x, skip, bias)
    found, factor = simplified(total, gamma, epsilon=epsilon)
    return found, None, factor, total


@operator("EmbedLayerNormalization", domain=MICROSOFT, gives=3)
def embedded(ids: T, segments: T | None, words: T, positions: T, kinds: T | None, gamma: T,
             beta: T, mask: T | None = None, places: T | None = None, *, epsilon: float = 1e-12,
             mask_index_type: int = 1) -> tuple[T, T, T]:
    """The sum of the embeddings of words, places and segments, normalized; how many places the
    mask shows, and that sum."""
    batch, length = ids.shape
    at = lt.arange(length, device=ids.device)[None] if places is None else places.to(lt.int64)
    total = words[ids.to(lt.int64)] + positions[at]
    if segments is not None and kinds is not None:
        total = total + kinds[segments.to(lt.int64)]
    shown = lt.zeros(batch, dtype=lt.int32, device=ids.device) if mask is None else \
        (mask == 1).sum(1).to(lt.int32)
    return layer_normalization(total, gamma, beta, epsilon=epsilon)[0], shown, total


@operator("GroupNorm", domain=MICROSOFT, gives=1)
def group_norm(x: T, gamma: T, beta: T, *, activation: int, channels_last: int = 1,
               epsilon: float = 1e-5, groups: int) -> T:
    """Groups of channels, which may be the last axis, normalized each; then silu, if asked."""
    if activation not in (0, 1):
        raise ArgumentError(f"activation {activation}: 0 for none, 1 for silu")
    wide = (x.movedim(-1, 1) if channels_last else x).to(lt.float32)
    found = F.group_norm(wide, groups, gamma.to(lt.float32), beta.to(lt.float32), epsilon)
    found = (F.silu(found) if activation else found).to(x.dtype)
    return found.movedim(1, -1) if channels_last else found


@operator("SkipGroupNorm", domain=MICROSOFT, gives=2)
def skip_group_norm(x: T, gamma: T, beta: T, skip: T, bias: T | None = None, *, activation: int,
                    channels_last: int = 1, epsilon: float = 1e-5, groups: int) -> tuple[T, T]:
    """The same of x + skip + bias; and that sum."""
    ones = [1] * (x.ndim - 2)
    if skip.ndim == 2:
        skip = skip.reshape(skip.shape[0], *ones, -1) if channels_last else \
            skip.reshape(*skip.shape, *ones)
    total = x + skip
    if bias is not None:
        total = total + (bias if channels_last else bias.reshape(-1, *ones))
    return group_norm(total, gamma, beta, activation=activation, channels_last=channels_last,
                      epsilon=epsilon, groups=groups), total
