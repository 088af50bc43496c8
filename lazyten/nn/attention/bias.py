"""Causal masks, for functional.scaled_dot_product_attention.

In: numbers of queries and keys. Out: a tensor of bools, True where a query may see a key, which
knows what mask it is.
"""
from __future__ import annotations

import enum
import warnings

from lazyten.frontend.functions import ones
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.support.errors import ArgumentError

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of the mask the diagonal ends in."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask of (queries, keys), bool, on the default device.

    UPPER_LEFT: query i sees keys 0 to i. LOWER_RIGHT: the last query sees all keys, and each one
    before it a key less. ArgumentError for another variant.
    """

    __slots__ = ("seq_len_kv", "seq_len_q", "variant")

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise ArgumentError(f"CausalBias: variant {variant!r:.40} is no CausalVariant")
        is_right = variant is CausalVariant.LOWER_RIGHT
        if is_right and seq_len_q > seq_len_kv:
            warnings.warn(f"causal_lower_right({seq_len_q}, {seq_len_kv}): the first "
                          f"{seq_len_q - seq_len_kv} queries see no key, and their attention is 0",
                          UserWarning, stacklevel=3)
        mask = ones(seq_len_q, seq_len_kv, dtype=dt.bool_).tril(
            seq_len_kv - seq_len_q if is_right else 0)
        self._hold(mask._storage, mask._moves)
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of (queries, keys) in which query i sees keys 0 to i. ArgumentError unless size is
    two numbers."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_two("causal_upper_left", size))


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of (queries, keys) in which the last query sees all keys, and each one before it a
    key less. ArgumentError unless size is two numbers."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two("causal_lower_right", size))


def _two(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise ArgumentError(f"{name}{size}: give the numbers of queries and of keys")
    return size
