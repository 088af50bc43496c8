"""How what stands for an argument of a transform lies in memory.

`lazyten.func` gives a function stand-ins, whose storages hold an argument's elements and nothing
else, in row-major order. Strides, and what as_strided shows, are those of the argument itself: its
`Layout` is noted here where it is another (differentiation.py, mapping.py), and asked for by the
core of Tensor (handle.py).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, Shape
from lazyten.storage import levels
from lazyten.storage.storage import Storage


@dataclass(slots=True)
class Layout:
    """Memory of `shape`, of which `moves` show what is stood for. memory: makes its value."""

    shape: Shape
    moves: Moves
    memory: Callable[[], Node]
    made: Storage | None = None

    def storage(self, stand_in: Storage) -> Storage:
        """The memory, which is written no more than the stand-in is."""
        if self.made is None:
            self.made = Storage(self.memory(), stand_in.device, stand_in.keeps_graph)
            self.made.serial = stand_in.serial
        return self.made


_layouts: WeakKeyDictionary[Storage, Layout] = WeakKeyDictionary()


def lies(stand_in: Storage, layout: Layout) -> None:
    """Note how what a storage stands for lies in memory."""
    _layouts[stand_in] = layout


def layout_of(storage: Storage) -> Layout | None:
    """How what a storage stands for lies in memory; None where that is as the storage says."""
    return _layouts.get(storage) if levels.under_way() else None
