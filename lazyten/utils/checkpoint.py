"""`checkpoint`: activations that are computed again rather than kept."""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

from lazyten.autograd.checkpointing import checkpoint
from lazyten.nn.containers import Sequential
from lazyten.support.errors import ArgumentError

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint_sequential(functions: Any, segments: int, input: Any, **options: Any) -> Any:
    """Call functions (a Sequential, or a sequence of them) one after another, in so many segments
    of equal length; the last has the rest. Each but the last is a `checkpoint`, which takes the
    options. ArgumentError for fewer functions than segments."""
    layers: Sequence[Any] = list(functions.children()) if isinstance(functions, Sequential) \
        else list(functions)
    if not 1 <= segments <= len(layers):
        raise ArgumentError(f"checkpoint_sequential: {segments} segments of {len(layers)} "
                            f"functions; take from 1 to {len(layers)}")
    length = len(layers) // segments
    for start in range(0, length * (segments - 1), length):
        input = checkpoint(partial(_run, layers[start:start + length]), input, **options)
    return _run(layers[length * (segments - 1):], input)


def _run(layers: Sequence[Any], input: Any) -> Any:
    return reduce(lambda x, layer: layer(x), layers, input)
