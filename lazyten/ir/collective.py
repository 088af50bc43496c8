"""Collectives: values that the ranks of a group make together, each of what it has itself.

A COLLECTIVE node is one of them, its argument a `Collective`. KINDS says of each kind what becomes
of shapes; what it means is the business of its group (lazyten/distributed/group.py), which carries
it out, and derivatives are rows of autodiff/collective_rules.py. Its serial number is the place in
the order in which it was recorded: all ranks carry collectives out in that order, each exactly
once, so no two nodes have the same one by chance.

Devices may carry collectives out themselves: `Executor.takes` says which ones a runtime would, and
`Executor.join` joins it to those of other ranks, which are `Ranks` to it. What it does not take
goes by way of the host's memory. Whoever calls these (lazyten/distributed/devices.py) has made sure
that all ranks of a group do the same.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np

from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, Shape, make
from lazyten.ir.ops import Op
from lazyten.support.location import Location

Array = np.ndarray[Any, Any]
_serials = count()


class Flight(Protocol):
    """A collective that is under way."""

    def wait(self) -> None:
        """Return when what it gives is there."""

    def progress(self) -> None:
        """Do what can be done without waiting."""


class Group(Protocol):
    """Ranks that do collectives together. (What the compiler knows of one.)"""

    @property
    def rank(self) -> int:
        """This process's number among them."""

    @property
    def size(self) -> int:
        """How many they are."""

    def agreement(self, what: Collective, device: str, dtype: DType, words: str,
                  where: Location | None) -> Any:
        """How a collective is begun, as its ranks agree: its `joined` is the device joined to those
        of the others, if that carries it out; otherwise `start` has to be called. words: what it
        is of, the same for all ranks; where: this rank's line."""

    def start(self, what: Collective, sent: Array, received: Array, agreement: Any) -> Flight:
        """Begin a collective of a flat array on the host; it is not to change before its end."""


@dataclass(frozen=True, slots=True)
class Kind:
    """takes, gives: whether the first axis of what goes in, or comes out, has an element for each
    rank of the group, or several. reduces: whether it combines the ranks' elements."""

    takes: bool = False
    gives: bool = False
    reduces: bool = False


KINDS = {
    "all_reduce": Kind(reduces=True),
    "reduce_scatter": Kind(takes=True, reduces=True),
    "all_gather": Kind(gives=True),
    "all_to_all": Kind(takes=True, gives=True),
    "all_to_all_parts": Kind(takes=True, gives=True),
    "reduce": Kind(reduces=True),
    "broadcast": Kind(),
    "exchange": Kind(),
}
REDUCTIONS = ("sum", "max", "min")


@dataclass(frozen=True, slots=True)
class Collective:
    """Argument of a COLLECTIVE node.

    kind: of KINDS. group: who takes part. device: where its values are. reduction: of REDUCTIONS,
    for a kind that reduces. ranks: of a broadcast the one whose values all get; of a reduce the one
    that gets a result, and the others 0; of an exchange those to send to and to receive from, -1
    for none; of all_to_all_parts no ranks, but how many rows go to each, and how many come from
    each, the last first, so that the opposite is the opposite way. is_end: in a kernel's
    expression, whether it is waited for there, and not begun. label: what it is for, in words that
    errors show and that all who take part have the same.
    """

    kind: str
    group: Group
    device: str
    reduction: str = ""
    ranks: tuple[int, ...] = ()
    serial: int = field(default_factory=lambda: next(_serials))
    is_end: bool = False
    label: str = ""

    def shape(self, sources: Sequence[Shape]) -> Shape:
        """That of the result: several sources are one flat array, one after the other."""
        if len(sources) > 1:
            return (sum(int(np.prod(s)) for s in sources),)
        kind, (shape,) = KINDS[self.kind], sources
        if self.kind == "all_to_all_parts":
            return (sum(self.ranks[self.group.size:]), *shape[1:])
        shape = shape[1:] if kind.takes else shape
        return (self.group.size, *shape) if kind.gives else shape

    @property
    def rows(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of all_to_all_parts: how many rows each rank gets from this one, and how many come from
        each."""
        return self.ranks[:self.group.size], self.ranks[self.group.size:][::-1]

    def again(self, kind: str = "", reduction: str | None = None,
              ranks: tuple[int, ...] | None = None) -> Collective:
        """Another one of the group, recorded now; as this one but for what is given."""
        return Collective(kind or self.kind, self.group, self.device,
                          self.reduction if reduction is None else reduction,
                          self.ranks if ranks is None else ranks)

    def words_of(self, sources: Sequence[Node]) -> str:
        """What it is of, the same for all ranks."""
        shown = [f"[{', '.join(['..', *map(str, s.shape[1:])])}]" if self.kind == "all_to_all_parts"
                 else str(list(s.shape)) for s in sources]
        return f"{self} of " + ", ".join(f"{s.dtype.name}{own}" for s, own in zip(
            sources, shown, strict=True))

    def numbered(self, serial: int) -> Collective:
        """The same under another number."""
        return replace(self, serial=serial)

    def ended(self) -> Collective:
        """The end of this one."""
        return replace(self, is_end=True)

    def __str__(self) -> str:
        words = f"{self.kind}{f' {self.reduction}' if self.reduction else ''}"
        return f"{words} ({self.label})" if self.label else words


@dataclass(frozen=True, slots=True)
class Sharding:
    """Argument of SHARD, JOINED and OWN: the ranks of `group` share a value out along `axis`, each
    an interval, in their order; None, of JOINED and OWN, where each has all of it. device: where it
    is. mesh: groups of one are lines of a grid of ranks, along different axes of it. number: tells
    an OWN from others, as what one rank still has of an earlier one another may have dropped.
    length: that of the axis of the whole. All parts have one length; where their sum is more, what
    is behind the end is anything. None: it is their sum."""

    group: Group
    axis: int | None
    device: str
    mesh: object = None
    number: int = 0
    length: int | None = None

    def plain(self) -> Sharding:
        """The same without a number of its own."""
        return replace(self, number=0) if self.number else self

    def joined(self, shape: Shape) -> Shape:
        """That of all ranks' parts of this shape."""
        length = self.length
        return tuple([(n * self.group.size if length is None else length) if i == self.axis else n
                      for i, n in enumerate(shape)])

    def own(self, shape: Shape) -> Shape:
        """That of a rank's part."""
        return divided(shape, self.axis, self.group.size)


def divided(shape: Shape, axis: int | None, ranks: int) -> Shape:
    """That of the part of each of some ranks."""
    return tuple([-(-n // ranks) if i == axis else n for i, n in enumerate(shape)])


def collective(what: Collective, *sources: Node) -> Node:
    """What a collective gives. Several sources, of one type, travel together: a flat array."""
    return make(Op.COLLECTIVE, sources[0].dtype, sources, what)


def collectives(order: Iterable[Node]) -> list[Node]:
    """The COLLECTIVEs among nodes, as they were recorded."""
    found = [n for n in order if n.op is Op.COLLECTIVE]
    return sorted(found, key=lambda n: n.arg.serial)


def collective_of(kernel: Kernel) -> Collective | None:
    """The collective that a step of a schedule is, if it is one and no kernel of a device."""
    root = kernel.outputs[0]
    return root.arg if root.op is Op.COLLECTIVE else None


# ---- devices that carry collectives out themselves -----------------------------------------------

class Ranks(Protocol):
    """Processes that join their devices, each with a number from 0 on."""

    @property
    def rank(self) -> int:
        """This process's number."""

    @property
    def size(self) -> int:
        """How many they are."""

    def gathered(self, own: bytes) -> list[bytes]:
        """What each of them gives, as many bytes everywhere; all call it, in one order."""

    def wait(self, done: Callable[[], bool], place: str) -> None:
        """Return once `done()`. DistributedError at the end of the time limit, with the place: what
        is waited for, and where."""

    def failed(self, text: str) -> Exception:
        """The error to raise: nothing is done together any more, for this reason."""


class Part(NamedTuple):
    """Device memory of so many elements."""

    handle: Any
    size: int


class Joined(ABC):
    """A device joined to those of other ranks. name: by what, for people."""

    name: str

    @abstractmethod
    def begin(self, what: Collective, dtype: DType, sent: Sequence[Part], received: Part,
              place: str) -> Callable[[], None]:
        """Queue a collective, after all launches before; the parts that are sent are one array,
        one after the other. Gives a function that lets later launches come after it: until that is
        called they may run beside it, and the memory is in use. place: what it is, for errors."""

    @abstractmethod
    def leave(self) -> None:
        """No more collectives: all have ended, on all ranks."""

    @abstractmethod
    def abort(self) -> None:
        """Nothing is done together any more; what is queued ends somehow. Raises nothing."""


class Refused(NamedTuple):
    """Ranks that cannot join their devices, though their runtime could: why, in words."""

    reason: str
