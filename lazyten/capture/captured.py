"""What one call of a jitted function did, in terms that hold for all calls of its signature.

`capture.py` makes a `Captured`; `replay.py` makes a program of it.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from lazyten.capture.state.places import Place, Same, snapshot
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Storage
from lazyten.storage.tracing import Keep
from lazyten.support.errors import JitError
from lazyten.support.trees import Branch, Leaf, flatten

Array = np.ndarray[Any, Any]
Flags = tuple[bool, bool, bool]


class Donated(Placeholder):
    """Stands where the value of a tensor was until it was donated to jitted function `name`."""

    __slots__ = ("name", "shape")

    def __init__(self, value: Node, name: str) -> None:
        super().__init__("donated", 0, value.dtype, value.numel)
        self.name, self.shape = name, value.shape

    @property
    def handle(self) -> Any:
        """Asked for when a kernel is to read the value: JitError."""
        self.refuse()

    def numpy(self) -> Array:
        """Asked for when Python is to read the value: JitError."""
        self.refuse()

    def view(self) -> Array:
        """Asked for when another library is to share the memory: JitError."""
        self.refuse()

    def refuse(self) -> NoReturn:
        """JitError that says what became of the value."""
        raise JitError(f"a tensor of shape {self.shape} was donated to jitted function "
                       f"{self.name}, so it has no value any more, and neither have its views: use "
                       f"what the call gave, clone() the tensor before it, or leave it out of "
                       f"lt.jit(donate=...)")


@dataclass(frozen=True, slots=True, eq=False)
class TensorSource:
    """Where a call finds a tensor: what `place` means then, argument number `argument`, or else
    always `fixed`."""

    fixed: Tensor | None
    argument: int = -1
    place: Place | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSource) and self.fixed is other.fixed \
            and (self.argument, self.place) == (other.argument, other.place)

    def __hash__(self) -> int:
        return hash((id(self.fixed), self.argument, self.place))

    def find(self, arguments: Sequence[Tensor]) -> Tensor:
        """The tensor, in a call with these arguments."""
        if self.place is not None:
            found: Tensor = self.place.look()
            return found
        return arguments[self.argument] if self.fixed is None else self.fixed


@dataclass(frozen=True, slots=True)
class StorageSource:
    """Where a call finds a storage: always `fixed`, or that of a tensor, or that of its `.grad`.

    The flags are what requires_grad depends on; if they change, what was traced no longer holds.
    """

    fixed: Storage | None
    tensor: TensorSource | None
    gradient: bool
    flags: Flags

    def find(self, arguments: Sequence[Tensor]) -> Storage:
        """The storage, in a call with these arguments."""
        if self.fixed is not None:
            return self.fixed
        assert self.tensor is not None
        tensor = self.tensor.find(arguments)
        if self.gradient:
            assert tensor._grad is not None
            tensor = tensor._grad
        return tensor._storage


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that a call gives or leaves behind: a view of source or new storage `number`, or
    the very tensor that `same` finds."""

    kind: str  # 'source', 'new' or 'same'
    number: int
    moves: Any = ()
    detached: bool = False
    leaf: bool = False
    same: TensorSource | None = None
    is_complex: bool = False  # whether it is given as the complex tensor of what these are pairs


@dataclass(frozen=True, slots=True)
class NewStorage:
    """A value that a call makes."""

    node: Node
    device: str
    was_freed: bool


@dataclass(frozen=True, slots=True)
class HostInput:
    """A flat array that Python computes for each call."""

    number: int
    refresh: Callable[[], Array]
    dtype: DType
    size: int
    device: str


@dataclass(frozen=True, slots=True)
class Action:
    """What Python does at each call. keep: see `Observer.action`."""

    run: Callable[[], None]
    keep: Keep | None

    def __call__(self) -> Callable[[], None] | None:
        """Do it; gives what takes it back."""
        back = None if self.keep is None else self.keep()
        self.run()
        return back


@dataclass(frozen=True, slots=True)
class GradientEffect:
    """After a call, `.grad` of a tensor is this, or None. clears: whether the call makes it None
    first, so that its memory may serve."""

    tensor: TensorSource
    spec: TensorSpec | None
    clears: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """After a call, a name means this: a value with tensors in it, or nothing (MISSING). is_state:
    it was a tensor before, whichever, so calls follow each other."""

    place: Place
    leaves: tuple[TensorSpec | Leaf, ...]
    structure: Branch | None
    is_state: bool


@dataclass
class Captured:
    """What one call did, in terms that hold for every call of the same signature.

    sources: where values come from. layouts: of each `.grad` used. script: what Python does, in
    order, before the program runs. afterwards: what it does at the end. guards: what the trace
    depended on, and what it saw. written: (source, its value afterwards). new: values that are
    given or left behind. assigned: what names mean afterwards. wanted: sources that gradients are
    asked for.
    """

    sources: list[StorageSource] = field(default_factory=list)
    layouts: list[tuple[TensorSource, Hashable]] = field(default_factory=list)
    hosts: list[HostInput] = field(default_factory=list)
    script: list[HostInput | Action] = field(default_factory=list)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    guards: list[tuple[Callable[[], object], object]] = field(default_factory=list)
    written: list[tuple[int, Node]] = field(default_factory=list)
    new: list[NewStorage] = field(default_factory=list)
    gradients: list[GradientEffect] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    assigned: list[Assignment] = field(default_factory=list)
    leaves: list[TensorSpec | Leaf] = field(default_factory=list)
    structure: Branch | None = None


def flags_of(storage: Storage) -> Flags:
    """What decides whether results computed from a storage require gradients."""
    return storage.leaf_id is not None, storage.keeps_graph, storage.was_freed


def layout_of(gradient: Tensor | None) -> Hashable:
    """What the graph of an update of `.grad` depends on."""
    if gradient is None:
        return None
    storage = gradient._storage
    return storage._node.shape, storage._node.dtype, storage.device, gradient._moves


def signature(x: Tensor) -> Hashable:
    """All that a trace depends on of a tensor that it is given."""
    storage, lineage = x._storage, x._lineage
    node = storage._node
    return (node.shape, node.dtype, storage.device, x._moves,
            None if lineage is None else lineage.requires_grad,
            storage.leaf_id is not None, storage.keeps_graph, storage.was_freed)


def state_signature(x: object) -> Hashable:
    """All that a trace depends on of what a name means that it assigns, and meant a tensor."""
    if type(x) is Tensor:
        return signature(x)
    return Same(type(x))


def unread_signature(x: object) -> Hashable:
    """The same where it does not look at values, shapes and dtypes, of tensors in containers, too.
    """
    leaves, structure = flatten(x)
    return structure, tuple([(
        leaf._storage.device, leaf._detached, leaf._detached and leaf.requires_grad,
        flags_of(leaf._storage)) if type(leaf) is Tensor else (type(leaf), snapshot(leaf))
        for leaf in leaves])
