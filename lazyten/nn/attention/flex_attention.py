"""Attention whose scores and mask are functions of positions.

In: queries, keys and values; a function of a score and its position; a BlockMask. Out: attention,
and what it was normalized by. The functions are called once, for one position, and mapped to all:
what they are made of fuses with the rest, and tensors that they read have gradients.
"""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn.attention.block_mask import BLOCK, MaskMod, over_positions
from lazyten.nn.attention.block_mask import BlockMask as BlockMask
from lazyten.nn.attention.block_mask import and_masks as and_masks
from lazyten.nn.attention.block_mask import create_block_mask as create_block_mask
from lazyten.nn.attention.block_mask import create_mask as create_mask
from lazyten.nn.attention.block_mask import noop_mask as noop_mask
from lazyten.nn.attention.block_mask import or_masks as or_masks
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_score_mod_signature = ScoreMod
_mask_mod_signature = MaskMod
_DEFAULT_SPARSE_BLOCK_SIZE = BLOCK


class AuxRequest(NamedTuple):
    """What `flex_attention` is to give beside its output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What `flex_attention` was asked for, a number a query (.., L): the logarithm of the sum of
    exp(score), and the largest score; None for what was not."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options: Any = None, *, return_aux: AuxRequest | None = None) -> Any:
    """For each query (B, H, L, E) the values (B, H, S, V) averaged by softmax of the scores of
    their keys (B, H, S, E), (B, H, L, V).

    score_mod(score, batch, head, query, key): another score for query @ key.T * scale, a number
    of a number and its position. block_mask: what each query sees; one that sees nothing gives 0.
    scale: 1/sqrt(E) unless given. enable_gqa: each head of key and value serves several heads of
    the query. return_lse: gives (output, lse); return_aux: (output, AuxOutput), as AuxRequest
    says. kernel_options are PyTorch's, and change nothing. ShapeError where shapes do not fit,
    DTypeError for types that do not.
    """
    if return_lse and return_aux is not None:
        raise ArgumentError("flex_attention: give return_lse or return_aux, not both")
    _check(query, key, value, enable_gqa, block_mask)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    scores = _scores(query, key, 1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    shape = (scores.shape[0], scores.shape[1], scores.shape[2], scores.shape[3])
    if score_mod is not None:
        scores = over_positions(score_mod, shape, query.device, scores)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.visible(shape[0], shape[1]), -math.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.unsqueeze(-1)).exp()
    weights = weights.masked_fill((lse == -math.inf).unsqueeze(-1), 0.0)
    output = (weights.to(value.dtype) @ value).to(query.dtype)
    if return_lse:
        warnings.warn("flex_attention: return_lse is an old option; use return_aux=AuxRequest("
                      "lse=True)", FutureWarning, stacklevel=2)
        return output, lse
    if return_aux is None:
        return output
    return output, AuxOutput(lse if return_aux.lse else None,
                             scores.amax(-1) if return_aux.max_scores else None)


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """query @ key.T * scale, in float32 at least."""
    if query.dtype.is_half:
        query, key = query.to(dt.float32), key.to(dt.float32)
    return query @ key.mT * scale


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool,
           mask: BlockMask | None) -> None:
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise ShapeError(f"flex_attention: {shapes}: each needs axes of batches, heads, positions "
                         f"and features")
    if not (query.dtype is key.dtype is value.dtype and query.dtype.is_float):
        raise DTypeError(f"flex_attention: query {query.dtype.name}, key {key.dtype.name}, value "
                         f"{value.dtype.name}: all must be of one float type; convert with .to()")
    if query.shape[-1] != key.shape[-1] or key.shape[:3] != value.shape[:3] or \
            key.shape[0] not in (1, query.shape[0]):
        raise ShapeError(f"flex_attention: {shapes}: query and key must have equal last axes, key "
                         f"and value equal others, and batches be as many or 1")
    heads, own = query.shape[1], key.shape[1]
    if heads != own and (not enable_gqa or not own or heads % own):
        raise ShapeError(f"flex_attention: {heads} heads of the query and {own} of the key: give "
                         f"as many, or a multiple with enable_gqa=True")
    if mask is not None and tuple(mask.seq_lengths) != (query.shape[2], key.shape[2]):
        raise ShapeError(f"flex_attention: a block_mask of {mask.seq_lengths[0]} queries and "
                         f"{mask.seq_lengths[1]} keys, of {query.shape[2]} and {key.shape[2]}: "
                         f"make another by create_block_mask")
