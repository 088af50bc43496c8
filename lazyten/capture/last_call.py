"""A call of a jitted function that is like the last one, which is known without a key.

In: the arguments of a call. Out: whether its key (call.py) would be that of the last one. To
compare what a key is made of takes a third of the time that a key takes, and most calls are like
the one before.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.capture.breaks import InPython
from lazyten.capture.call import Call
from lazyten.capture.changing import Family
from lazyten.capture.replay import Replay
from lazyten.frontend.setting_table import trace_key
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module_hooks import EVERYWHERE


class LastCall:
    """A call whose arguments are tensors, given by position, through which no gradient flows; and
    the captured call that it was, of this family."""

    __slots__ = ("_given", "_settings", "family", "replay")

    def __init__(self, given: Sequence[Tensor], family: Family, replay: Replay) -> None:
        self.family, self.replay = family, replay
        self._settings = trace_key()
        self._given = [_seen(x) for x in given]

    def is_like(self, args: Sequence[Any]) -> bool:
        """Whether a call with these arguments has the same key."""
        given = self._given
        if len(args) != len(given):
            return False
        storages = set()
        for x, seen in zip(args, given, strict=True):
            if x.__class__ is not Tensor or x._lineage is not None:
                return False
            s = x._storage
            if s.leaf_id is not None or s.keeps_graph or s.was_freed:
                return False
            node = s._node
            if (node.shape, node.dtype, s.device, x._moves) != seen:
                return False
            storages.add(s)
        return len(storages) == len(given) and not EVERYWHERE and trace_key() == self._settings


def _seen(x: Tensor) -> tuple[Any, ...]:
    storage = x._storage
    node = storage._node
    return node.shape, node.dtype, storage.device, x._moves


def last_call(call: Call, family: Family, replay: Replay | InPython) -> LastCall | None:
    """What the next call is compared with; None if it takes a key, or is not the same each time."""
    if not isinstance(replay, Replay) or not replay.checked or replay.tape is not None \
            or family.calls or call.kwargs or call.structure is not None \
            or any(type(x) is not Tensor for x in call.args):
        return None
    made = LastCall(call.args, family, replay)
    return made if made.is_like(call.args) else None
