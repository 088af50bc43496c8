"""Collectives that were recorded and not carried out yet, which every rank does in this order.

One that a value is computed from is carried out with all that were recorded before it, and none is
left out because nobody looks at what it gives: another rank may. history.py notes them;
realization.py asks what is due.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from lazyten.ir.collective import collectives
from lazyten.ir.node import Node

_waiting: dict[Node, None] = {}
MOST = 64
"""So many may wait for somebody to look."""


def note(node: Node) -> None:
    """A COLLECTIVE was recorded over real memory."""
    _waiting[node] = None


def waiting() -> list[Node]:
    """All that are to be carried out, in order."""
    return collectives(_waiting)


def are_many() -> bool:
    """Whether it is time to carry them out though nobody looks."""
    return len(_waiting) >= MOST


def due(wanted: Sequence[Node]) -> list[Node]:
    """What is to be carried out where these are wanted: they, and all recorded before the last."""
    if not wanted:
        return []
    last = max(n.arg.serial for n in wanted)
    return collectives(dict.fromkeys([*wanted, *(n for n in _waiting if n.arg.serial <= last)]))


def done(nodes: Iterable[Node]) -> None:
    """These were carried out."""
    for node in nodes:
        _waiting.pop(node, None)


def give_up() -> None:
    """Nothing will be carried out any more."""
    _waiting.clear()
