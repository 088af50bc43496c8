"""Sizes as tuples, for layers of one's own: `torch.nn.modules.utils`."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """What makes a tuple of n equal values of one value, and of several a tuple of them."""
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Each element n times, the last first: padding of layers as functional.pad takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take `prefix`, such as 'module.' of DataParallel, off the names in a state, in place."""
    for name in list(state_dict):
        if name.startswith(prefix):
            state_dict[name[len(prefix):]] = state_dict.pop(name)
