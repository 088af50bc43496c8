"""Updates in place: the results of a frame's program in memory that nobody will look at any more.

In: a frame whose program is about to run, and the storages that get its results. Out: which of the
frame's sources those may take. A parameter stays where it is that way, however often it is updated.
Python's reference counts say whether anybody else knows a source's memory: a tensor, a graph, or
another library. Another thread that asks for a value of the frame meanwhile waits
(`Frame.is_written`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lazyten.execution.segment import Owners, Segment
from lazyten.ir.node import Node
from lazyten.storage.frames import Frame
from lazyten.storage.placeholder import Source
from lazyten.storage.storage import Buffer, Storage, changing
from lazyten.support.observers import Observer

HELD = 2
"""Places where a frame holds the memory of a source."""
SMALLEST = 1 << 20
"""Bytes of the storages that are updated, from which on this is done: what is in cache in any case
is as fast in other memory, and to ask takes time."""


@dataclass(slots=True)
class Updates:
    """What a program may write over.

    own: by the number of a source the place of the result that is the next value of the same
    storage.
    """

    own: dict[int, int] = field(default_factory=dict)

    def begin(self, frame: Frame, segment: Segment, storages: Sequence[Storage]) -> None:
        """Choose sources, before the segment gets its memory: those that these storages have, which
        get its first results in this order, and those that nobody knows even now."""
        numbers = {frame.source_of(storage): place for place, storage in enumerate(storages)}
        own = {number: place for number, place in numbers.items() if number is not None}
        if frame.bytes_of(own) < SMALLEST:
            own = {}
        self.own = own
        places = {place: number for number, place in own.items()}
        segment.roots = [replace(root, written=places.get(place))
                         for place, root in enumerate(segment.roots)]
        donated = frame.unknown_sources(_read_by(segment, frame)) - own.keys() if storages else ()
        if not own and frame.bytes_of(donated) < SMALLEST:
            donated = ()
        segment.donated = donated

    def owners(self, frame: Frame, storages: Sequence[Storage]) -> Owners:
        """By the number of a source, which of these storages has it now."""
        found: list[Storage | None] = [None] * len(frame.sources)
        for number, place in self.own.items():
            if frame.source_of(storages[place]) == number:
                found[number] = storages[place]
        return found


def _read_by(segment: Segment, frame: Frame) -> list[int]:
    """The sources that a segment reads: each frame whose values it computes has them, and may have
    no others."""
    count = len(frame.sources)  # what comes after them is read again
    return [p.number for p in segment.inputs if isinstance(p, Source) and p.number < count]


def is_all(frame: Frame, due: Mapping[Storage, Node], written: Mapping[Storage, Node]) -> bool:
    """Whether nothing of a frame will be of interest once these are computed."""
    for storage in [s for s in (r() for r in frame.made) if s is not None]:
        if storage._frame is frame and (storage.keeps_graph or storage not in due) \
                and storage not in written:
            return False
    return True


def run(frame: Frame, read: Sequence[Buffer], updates: Updates, due: Mapping[Storage, Node],
        written: Mapping[Storage, Node], segment: Segment, looking: Sequence[Observer]
        ) -> list[Node]:
    """The nodes that read a segment's results: first of what is due, and of what is written. read:
    what it reads after all sources."""
    if segment.ready is None:
        updates.begin(frame, segment, [*due, *written] if is_all(frame, due, written) else ())
    if not (updates.own or segment.donated):  # it writes over nothing
        return segment.run([*frame.sources, *read], (), looking=looking)
    owners: Owners = [None] * len(frame.sources)
    unknown: frozenset[int] = frozenset()
    if is_all(frame, due, written):
        with changing:  # no other thread looks at what the frame reads, from now on
            frame.is_written = True
            unknown = frame.unknown_sources(segment.donated)
        owners = updates.owners(frame, [*due, *written])
    return segment.run([*frame.sources, *read], owners, HELD, unknown, looking)
