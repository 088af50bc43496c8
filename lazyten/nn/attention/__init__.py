"""`lt.nn.attention`: attention with functions of a user's own, under PyTorch's names.

In: queries, keys, values, and functions that change a score or say what is seen. Out: attention.
PyTorch's choice among its implementations (`sdpa_kernel`) changes nothing: lazyten has one, which
is compiled for what it is given.

Files, in reading order:

- bias.py: Causal masks, for functional.scaled_dot_product_attention.
- block_mask.py: `BlockMask`: what each query sees, as a function, and which blocks of it are empty.
- flex_attention.py: Attention whose scores and mask are functions of positions.
"""
from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lazyten.pytorch.modules import later
from lazyten.support.errors import ArgumentError

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's implementations of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend],
                set_priority: bool = False) -> Iterator[None]:
    """A block in which attention is computed as outside of it. ArgumentError unless backends are
    members of SDPBackend."""
    given = list(backends) if isinstance(backends, list | tuple) else [backends]
    for backend in given:
        if not isinstance(backend, SDPBackend):
            raise ArgumentError(f"sdpa_kernel: {backend!r:.40} is no SDPBackend")
    yield


__getattr__ = later("lazyten.nn.attention", "bias", "flex_attention")
