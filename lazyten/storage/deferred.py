"""Storages whose value is known in a frame alone, and storages that a frame knows besides.

`Deferred` is what most operations of a known step give: it has a template (frames.py), and no node.
Whoever asks for its node gets the graph over real memory, as it would have been recorded without
frames, so nothing else needs to know of them.

A frame of which all is computed rests, without what it read; where the line that it began at is run
again it begins again, with the memory that the same storages have now as its sources.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import methodcaller
from threading import get_ident
from time import sleep
from typing import Any
from weakref import ref

from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node, unshaped
from lazyten.ir.ops import Op
from lazyten.storage import history, levels, tracing
from lazyten.storage.frames import Frame, here, template_in
from lazyten.storage.storage import NEVER, UNMARKED, Buffer, Past, Storage, changing
from lazyten.support.forking import undivided
from lazyten.support.location import Place

_SHAPED, _FLAT = Op.RESHAPE, Op.BUFFER
WAIT = 1e-4
"""Seconds after which a thread looks again whether another has computed a value."""


class Deferred(Storage):
    """A storage whose value is known in a frame: `_frame`, `_template`."""

    __slots__ = ()

    @property
    def _node(self) -> Node:
        return reveal(self)

    @_node.setter
    def _node(self, node: Node) -> None:
        settle(self, node)

    def note_before(self) -> None:
        """Note what the value is before it is written in place, if that is not noted already."""
        frame, template = self._frame, self._template
        if frame is None:  # another thread has asked for its node meanwhile
            Storage.note_before(self)
        elif self._before is None or self._before.source() is None:
            self._before = Past(ref(frame), methodcaller("real", template))
            frame.is_pinned = True

    @property
    def outline(self) -> Node:
        """What has the value's shape and type, and is a number where it is one."""
        if tracing.active is not None:
            tracing.touched(self)
        return _like(self)

    @property
    def number(self) -> Scalar | None:
        """The number that each element is known to be without computing; None if it is not."""
        node = _like(self)
        return node.value if node.op is Op.CONST else None

    @property
    def buffer(self) -> Buffer | None:
        """The memory that holds the value, or None if it is not computed yet."""
        found: Buffer | None
        with changing:  # its frame may rest in another thread meanwhile
            frame, template = self._frame, self._template
            if frame is None:  # another thread has asked for its node meanwhile
                found = _stored_buffer.__get__(self)
            else:
                assert template is not None
                found = frame.buffer_of(template)
        return found


def _like(storage: Storage) -> Node:
    """What has the value's shape and type."""
    frame, template = storage._frame, storage._template
    if frame is None:  # another thread, or a trace, has asked for its node meanwhile
        return storage._node
    assert template is not None
    return template


_stored_node, _stored_buffer = vars(Storage)["_node"], vars(Storage)["buffer"]
_new = object.__new__
_serials = levels.serials


def deferred(frame: Frame, template: Node, keeps_graph: bool, was_freed: bool = False) -> Deferred:
    """A storage with this value."""
    storage = _new(Deferred)
    storage._frame, storage._template, storage._mark = frame, template, frame.mark
    storage.device, storage.keeps_graph = frame.device, keeps_graph
    storage.leaf_id = storage.shared = storage.views = None
    storage.companions = storage.retaining = ()
    storage.was_freed, storage._before = was_freed, None
    storage.version = 0
    storage.serial = next(_serials)
    made = frame.made
    made.append(ref(storage))
    if len(made) > frame.room:
        frame.tidy()
    return storage


def deferred_all(frame: Frame, templates: Iterable[Node]) -> list[Storage]:
    """Storages with these values, through which no gradient flows."""
    mark, device, made, found = frame.mark, frame.device, frame.made, list[Storage]()
    for template in templates:
        storage = _new(Deferred)
        storage._frame, storage._template, storage._mark = frame, template, mark
        storage.device, storage.keeps_graph, storage.was_freed = device, False, False
        storage.leaf_id = storage.shared = storage.views = storage._before = None
        storage.companions = storage.retaining = ()
        storage.version = 0
        storage.serial = next(_serials)
        found.append(storage)
    made += map(ref, found)
    if len(made) > frame.room:
        frame.tidy()
    return found


def defer(storage: Storage, frame: Frame, template: Node, keeps_graph: bool,
          was_freed: bool = False) -> None:
    """Change a storage's value in place, to what is recorded in a frame."""
    with changing:
        was_pinned = frame.is_pinned
        storage.note_before()
        frame.is_pinned = was_pinned  # what is written in the frame itself is computed with it
        _set_known(storage, frame, frame, template)
        storage.keeps_graph, storage.was_freed, storage.companions = keeps_graph, was_freed, ()
        storage.version += 1
        if storage.__class__ is Storage:
            storage.__class__ = Deferred
            _stored_node.__set__(storage, None)
    frame.made.append(ref(storage))
    if len(frame.made) > frame.room:
        frame.tidy()


def kept(storage: Storage) -> Callable[[], None]:
    """What gives a storage the value back that it has now."""
    with changing:
        frame, template = storage._frame, storage._template
        if frame is None:
            return partial(storage.replace, storage._node, storage.keeps_graph)
        assert template is not None
        frame.is_pinned = True
        return partial(defer, storage, frame, template, storage.keeps_graph, storage.was_freed)


def settle(storage: Storage, node: Node) -> None:
    """The value is what this node reads; no frame has a say in it any more."""
    with changing:
        _settle(storage, node)


def _settle(storage: Storage, node: Node) -> None:
    storage._mark = UNMARKED
    _stored_node.__set__(storage, node)
    storage.__class__ = Storage
    storage._frame = None


def settle_known(frame: Frame, known: Iterable[tuple[Storage, Node, Node]]) -> None:
    """The same for several, each with its template and what it reads, if the value is still what
    the template says: another thread may have changed it meanwhile, or asked for its node."""
    with changing:
        for storage, template, node in known:
            if storage.__class__ is Deferred and storage._frame is frame \
                    and storage._template is template:
                _settle(storage, node)


def know(storage: Storage, frame: Frame, node: Node, template: Node) -> bool:
    """A storage with this value is known in a frame, too; False if another thread has changed it
    meanwhile."""
    with changing:
        if storage.__class__ is not Storage or storage._node is not node:
            return False
        _set_known(storage, None, frame, template)
    return True


def _set_known(storage: Storage, only: Frame | None, frame: Frame, template: Node) -> None:
    """Set by what a storage is known, for others that look without a lock: Python changes threads
    at calls alone, and where something is freed, so what was known before is held."""
    before = storage._frame, storage._template
    storage._frame = only
    storage._template = template
    storage._mark = frame.mark
    del before


def go_over(storage: Storage, before: tuple[Frame, Node], frame: Frame, template: Node) -> bool:
    """A storage that one frame knows alone, by a template, is known in another alone from now on;
    False if another thread has changed it, or asked for its node, meanwhile."""
    with changing:
        if storage.__class__ is not Deferred or (storage._frame, storage._template) != before:
            return False
        _set_known(storage, frame, frame, template)
    return True


def reveal(storage: Storage) -> Node:
    """The value as a graph over real memory, which it is from now on; it is still known in its
    frame."""
    while (node := _reveal(storage)) is None:
        sleep(WAIT)
    return node


@undivided
def _reveal(storage: Storage) -> Node | None:
    """The same; None while another thread computes it in place of what it is made of."""
    with changing:
        if storage.__class__ is Storage:  # another thread was quicker
            return storage._node
        frame, template = storage._frame, storage._template
        assert frame is not None and template is not None
        if frame.is_written and frame.thread != get_ident():
            return None
        node: Node = frame.real(template)
        _stored_node.__set__(storage, node)
        storage.__class__ = Storage
        storage._frame = None
    if history.note(storage) is not None and history.is_full():
        history.pending()  # forgets those that are gone
    return node


def known_template(storage: Storage, frame: Frame) -> Node | None:
    """The template of a storage in a frame of its device, in which it is made known if that can
    be."""
    found = template_in(storage, frame)
    if found is not None or storage.__class__ is not Storage or storage.keeps_graph:
        return found
    found = known_again(storage, frame)
    if found is not None:
        return found
    if storage.shared is not None:  # its memory may be another the next time
        storage.refresh()
        buffer = storage.buffer
        assert buffer is not None, "what is shared is computed"
        return frame.memory(storage, buffer)
    node = storage._node
    flat = node.src[0] if node.op is _SHAPED else node
    if flat.op is _SHAPED:
        flat = unshaped(flat)
    if flat.op is _FLAT and isinstance(flat.arg, Buffer):
        template = frame.source(flat.arg, node.shape)
        if len(frame.readers) == len(frame.sources) - 1:
            frame.readers.append(ref(storage))
    else:
        past = history.history_of(flat)
        if past.since != NEVER or past.depth < 0 or storage.version:
            return None
        template = node  # of constants alone
    return template if know(storage, frame, node, template) else None


def known_again(storage: Storage, frame: Frame) -> Node | None:
    """Make what is simply in memory known by the template of the next source of a frame, if there
    was one of its shape and type in the step before; gives that template."""
    sources, before = frame.sources, frame._before
    number = len(sources)
    if number >= len(before) or storage.__class__ is not Storage or storage.keeps_graph \
            or storage.shared is not None or storage.was_freed or storage.retaining \
            or storage.device != frame.device or frame._found_in_graphs:
        return None
    template, node = before[number], storage._node
    flat = node.src[0] if node.op is _SHAPED else node
    buffer = flat.arg
    if flat.op is not _FLAT or node.shape != template.shape \
            or not isinstance(buffer, Buffer) or template.dtype is not buffer.dtype:
        return None
    sources.append(buffer)
    if len(frame.readers) == number:
        frame.readers.append(ref(storage))
    with changing:
        if storage.__class__ is not Storage or storage._node is not node:
            return None
        earlier = storage._template
        storage._template = template
        storage._mark = frame.mark
    del earlier
    return template


# ---- frames that rest ----------------------------------------------------------------------------

FEW = 16
"""A frame that reads more memory does not rest: what is computed then takes longer than to begin
another."""
RESTING = 64
"""So many frames rest in a thread."""
IN_VAIN = 3
"""A place's frames rest no more when that was in vain so often."""


def rest(frame: Frame) -> bool:
    """Let a frame of which all is computed begin again where the place that it began at is run
    again: what it reads is most often the same storages. It keeps none of them, nor their memory.
    Gives whether it rests."""
    count, resting = len(frame.sources), here.resting
    if count > FEW or not frame.is_simple:
        return False
    for reference in frame.made:
        storage = reference()
        if storage is not None and storage._frame is frame:  # one of what it has in memory
            return False
    if count != frame.expected and frame.expected >= 0:  # it reads another each time
        frame.failures += 1
    if len(resting) >= RESTING:
        for place in [*resting][:RESTING // 2]:
            del resting[place]
    if frame.failures == IN_VAIN:
        resting[frame.base] = IN_VAIN
        return False
    frame.rest(count)
    resting[frame.base] = frame
    return True


def rested(place: Place | None, operands: Iterable[object], kind: type[Any]) -> Frame | None:
    """The frame that rests at a place, begun again, if all that it has read is in memory, with
    whatever value, and these operands, of which some are tensors, of this kind, are among that."""
    frame = here.resting.get(place)
    if not isinstance(frame, Frame) or here.others:
        return None
    del here.resting[place]
    if _reads_again(frame) and _are_known(frame, operands, kind):
        frame.begin()
        return frame
    here.resting[place] = frame.failures + 1
    return None


def _are_known(frame: Frame, operands: Iterable[object], kind: type[Any]) -> bool:
    """Whether there are tensors, of this kind, among these, and a frame knows them all. (One that
    has lists goes on where they may be of another.)"""
    found, mark = False, frame.mark
    for x in operands:
        if isinstance(x, kind):
            found = x._storage._mark is mark
            if not found:
                return False
        elif x.__class__ is list or x.__class__ is tuple:
            return False
    return found


def _reads_again(frame: Frame) -> bool:
    """Make all that a frame read before it rested known in it, as the same sources; False if that
    cannot be, or it was told of more meanwhile."""
    if frame.realized:
        return False
    mark, sources = frame.mark, frame.sources
    with changing:  # no other thread gives a storage another value meanwhile
        for reader in frame.readers:
            storage = reader()
            if storage is None:
                return False
            if storage._mark is mark:
                node = storage._node
                while node.src:
                    node = node.src[0]
                sources.append(node.arg)
            elif known_again(storage, frame) is None:
                return False
    return True
