"""`checkpoint`: activations that are computed again rather than kept.

What PyTorch has to choose which of them are kept, and to look into that, changes nothing here: what
is kept is decided when a gradient is scheduled, by what computing it again would cost.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from functools import partial, reduce
from typing import Any

from lazyten.autograd.checkpointing import checkpoint
from lazyten.nn.containers import Sequential
from lazyten.support.errors import ArgumentError

__all__ = ["CheckpointError", "CheckpointPolicy", "checkpoint", "checkpoint_sequential",
           "create_selective_checkpoint_contexts", "get_device_states", "noop_context_fn",
           "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states"]


class CheckpointError(RuntimeError):
    """What PyTorch raises where a second computation differs from the first; never raised."""


class CheckpointPolicy(Enum):
    """What PyTorch is told of an operation: whether its result is kept."""

    MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE, PREFER_RECOMPUTE, MUST_CPU_OFFLOAD = range(5)


Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def noop_context_fn() -> Contexts:
    """Two contexts that change nothing: what `checkpoint` takes as `context_fn`."""
    return nullcontext(), nullcontext()


def create_selective_checkpoint_contexts(
        policy_fn_or_list: Callable[..., Any] | Sequence[Any],
        allow_cache_entry_mutation: bool = False) -> Contexts:
    """Two contexts for `context_fn`, which change nothing: numbers are the same whatever is kept.
    """
    if not callable(policy_fn_or_list) and not isinstance(policy_fn_or_list, Sequence):
        raise ArgumentError(f"create_selective_checkpoint_contexts: {policy_fn_or_list!r:.40} is "
                            f"neither a function of operations nor a list of them")
    return noop_context_fn()


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """For `with`; nothing, as only what a gradient reads is computed again."""
    return nullcontext()


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """For `with`; nothing: LAZYTEN_PRINT_AFTER and lt.explain show what is computed again."""
    return nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """No devices, and no states of theirs: the random numbers of all devices come from one
    generator, whose state is that of lt.get_rng_state()."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Any], **options: Any) -> None:
    """Nothing, for what `get_device_states` gives."""


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
