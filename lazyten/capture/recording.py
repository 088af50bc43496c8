"""What is known of a call while it is recorded: what `capture.py` fills, and others end.

Nothing is done here: conclusion.py makes a `Captured` of it, breaks.py goes on without one.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from lazyten.capture.captured import Captured, TensorSource
from lazyten.capture.state.environment import Environment
from lazyten.capture.state.places import Change, Place
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.shared_memory import SharedMemory
from lazyten.storage.storage import Storage
from lazyten.storage.tracing import Observer

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Before:
    """A storage's state before the trace, to go back to."""

    source: int
    stand_in: Node
    node: Node
    keeps_graph: bool
    leaf_id: int | None
    companions: Any
    was_freed: bool
    version: int
    shared: SharedMemory | None

    def give_back(self, storage: Storage) -> None:
        """Put the storage back as it was."""
        storage._node, storage.keeps_graph, storage.leaf_id = \
            self.node, self.keeps_graph, self.leaf_id
        storage.companions, storage.was_freed = self.companions, self.was_freed
        storage.version, storage.shared = self.version, self.shared


@dataclass(slots=True)
class Used:
    """A tensor whose `.grad` was used: what it was, and what stands in for it (nothing, if the
    function replaced it before it read it). cleared: whether it was replaced by None."""

    tensor: Tensor
    source: TensorSource
    before: Tensor | None
    stand_in: Tensor | None
    replaced: bool
    cleared: bool


class Recording(Observer):
    """A call of a function with stand-ins (shadows) for its arguments.

    before: every storage that reads as a placeholder. real: what a storage made for the trace
    stands for. hosts: what Python computes for each call. fresh: storages made inside. gradients:
    tensors whose `.grad` was used, by id. sharing: storages that are to share an array's memory.
    collectives: storages of what collectives give.
    owners: on whose behalf something is done at the end; changed_later: by that, by id.
    """

    def __init__(self, arguments: Sequence[Tensor], environment: Environment) -> None:
        super().__init__()
        self.captured, self.environment = Captured(), environment
        self.before: dict[Storage, Before] = {}
        self.real: dict[Storage, Storage] = {}  # what a storage that the trace made stands for
        self.hosts: list[Placeholder] = []
        self.fresh: WeakSet[Storage] = WeakSet()
        self.assigned: list[Change] = []
        self.sharing: dict[Storage, Array] = {}
        self.means: dict[Place, Callable[[Any], Hashable]] = {}
        self.modules: set[int] = set()
        self.kept: list[object] = []  # so that no id in `modules` is used again
        self.collectives: list[Storage] = []
        self.undos: list[Callable[[], None]] = []
        self.gradients: dict[int, Used] = {}
        self.owners: list[object] = []  # of what is done at the end of a call
        self.changed_later: dict[int, object] = {}  # tensors and storages, by id
        self.arguments = list(arguments)
        self.shadows: list[Tensor] = []
        self.numbers: dict[int, int] = {}  # of arguments, by the id of what stands for them
