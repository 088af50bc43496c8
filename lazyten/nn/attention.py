"""`lt.nn.attention`: PyTorch's choice among its implementations of attention. lazyten has one,
which is compiled for what it is given; so the choice changes nothing."""
from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lazyten.support.errors import ArgumentError

__path__: list[str] = []  # so that flex_attention below it can be imported, and refused
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
