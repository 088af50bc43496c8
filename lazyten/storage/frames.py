"""What is recorded of a step in terms that hold for every step: graphs over numbered sources.

A `Frame` numbers the memory that operations read, in the order in which they first read it. What
is recorded in it is a graph over `Source`s, a template: nodes are interned, so the next step, which
does the same, meets the very same nodes, and all that was worked out for them is found by looking
them up (frontend/recorded/: what an operation gives; execution/frame_runs.py: the program of a
step). A storage whose value is known in a frame alone is `Deferred` (deferred.py).

A frame lives as long as something was recorded in it and not computed; the next operation after
that begins another, or one that rests at its line (deferred.py). Each device has its own. Templates
of frames that begin at other lines are other nodes, so that a node belongs to a line of the user's;
so are those of other devices.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from sys import getrefcount
from threading import get_ident, local
from typing import Any, Final, Protocol, cast
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

from lazyten.autodiff import hooks
from lazyten.autodiff.twins import apart
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, bases, make, rebuild, reshape, toposort, unshaped
from lazyten.ir.ops import Op
from lazyten.storage.placeholder import NeedsValue, Source
from lazyten.storage.storage import Buffer, Piece, Storage, remember
from lazyten.support.location import Place
from lazyten.support.remembered import Remembered


class Rule(Protocol):
    """A gradient that a user's code gives, in one step."""

    def __call__(self, g: Node, node: Node, /) -> Sequence[Node | None]:
        """As of any rule for gradients, where graphs are over real memory."""
        ...

    def pulled_back(self, g: Node, inputs: Sequence[Node], as_tensor: Callable[[Node, str], Any]
                    ) -> Sequence[Any]:
        """The gradients of the inputs as tensors, or None; as_tensor: makes tensors of nodes for
        the user's code, on a device."""
        ...

    def leave(self, frame: Frame) -> None:
        """It is asked for in graphs over real memory from now on, not over templates."""
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands in a template for rule number `number` of the frame, as a Source does for memory."""

    number: int

    def __call__(self, g: Node, node: Node) -> Sequence[Node | None]:
        """What the rule of the step that is walked through gives."""
        if here.pull_back is None:
            raise NeedsValue
        return here.pull_back(node, g)


_sources: WeakValueDictionary[tuple[object, int, DType, int], Source] = WeakValueDictionary()
_numbers, _turns = itertools.count(1), itertools.count(1)
_with_hooks: WeakValueDictionary[int, Frame] = WeakValueDictionary()
_marks: set[ReferenceType[Frame]] = set()
"""Of all frames that are there."""
_templates: Remembered[list[Node]] = Remembered(64, 64)
"""Those of the sources of frames that begin at a line."""
MOST_TEMPLATES = 4096
"""Of one line."""
_IN_MEMORY = frozenset({Op.BUFFER, Op.RESHAPE})
"""What may read a source."""
_SHAPED = Op.RESHAPE
ROOM = 32
"""A list of storages that is no longer is not gone through."""


def with_hooks() -> list[Frame]:
    """Frames that have, or had, hooks of values, of all threads."""
    return [f for r in _with_hooks.valuerefs() if (f := r()) is not None]


class _Lengths:
    """How long frames are. usual: so many operations one has until what it made is computed;
    cut_off: so many were cut off from the step under way. (No attributes of Frame: where a class
    changes, Python looks up anew what it has found in its instances.)"""

    __slots__ = ("cut_off", "usual")

    def __init__(self) -> None:
        self.usual, self.cut_off = SHORTEST, 0


SHORTEST = 600
lengths: Final = _Lengths()


class Frame:
    """The memory that templates stand over, and what is known of them.

    base: the place that it begins at. sources: buffers by number. readers: the storages that these
    are of, as far as each of the first ones is of one. leaf_numbers: those of leaves, by their ids.
    made: storages that got a value in it, up to `room` until those that are gone are left out.
    realized: templates of values that keep their graph, or that others are made of, and are in
    memory. lifted: graphs over real memory and their templates. rules: those in slots. hooks: of
    gradients of values, by their templates. hooked: views over real memory that have hooks, which
    last as long as what may be made of them here, though the tensors be gone. latest: templates
    that tensors were made with that keep their graph, each with the latest that was made like it.
    copies: what templates are in another frame, which goes on with them, and that frame. mark: what
    storages have that are known in it. recorded: how many operations; limit: how many until what it
    made is computed. is_resumed: whether something of it was computed before. is_step: whether it
    is long as it is one step. is_rest: whether it goes on where a long one was cut, and nobody has
    looked since. is_freed: whether backward() has let go of a graph in it. is_pinned: whether its
    templates may be asked for though no storage in `made` has them, so that it is not to rest.
    is_written: whether sources are being written, so that no other thread is to read them.
    expected: how many sources it began with, if it has rested (deferred.py); else -1. failures: how
    often frames of its place have rested in vain.
    """

    __slots__ = ("__weakref__", "_before", "_found_in_graphs", "_given", "_leaf_ids", "_memory",
                 "_noted", "_numbers", "_real", "base", "copies", "device", "expected", "failures",
                 "hooked", "hooks", "is_freed", "is_pinned", "is_rest", "is_resumed", "is_step",
                 "is_written", "latest", "leaf_numbers", "lifted", "limit", "made", "mark",
                 "number", "readers", "realized", "recorded", "room", "rules", "sources", "thread")

    def __init__(self, device: str, base: Place | None) -> None:
        self.device, self.number, self.thread = device, next(_numbers), get_ident()
        self.mark = ref(self, _marks.discard)
        _marks.add(self.mark)
        self.base = base
        self._found_in_graphs: dict[Buffer, int] = {}
        before = _templates.get((self.base, device))
        self._before = _templates.add((self.base, device), []) if before is None else before
        self.realized: dict[Node, Buffer] = {}
        self.is_step = self.is_written = self.is_freed = False
        found = here.resting.get(base, 0)
        self.failures = found if isinstance(found, int) else 0
        self._noted = 0
        self.sources: list[Buffer] = []
        self.made: list[ReferenceType[Storage]] = []
        self._numbers: dict[Buffer, int] = {}
        self.readers: list[ReferenceType[Storage]] = []
        self.rest(-1)
        self.begin()
        self.leaf_numbers: dict[Any, int | None] = {None: None}
        self._leaf_ids: list[int] = []
        self.lifted: dict[Node, Node] = {}
        self.rules: list[Rule] = []
        self.hooks: dict[Node, dict[int, Any]] = {}
        self.hooked: set[Node] = set()
        self.latest: dict[Node, Node] = {}
        self._real: dict[Node, Node] = {}
        self._given: set[Node] = set()
        self.copies: dict[Node, tuple[Callable[[], Frame | None], Node]] = {}
        self._memory: WeakKeyDictionary[Storage, tuple[Buffer, Node]] | None = None

    def rest(self, expected: int) -> None:
        """Have nothing recorded, and no memory."""
        self.sources.clear()
        self.made.clear()
        if self._noted:
            self._numbers.clear()
            self._noted = 0
        self.expected, self.room = expected, ROOM
        self.recorded, self.is_resumed, self.is_pinned = 0, False, False

    def begin(self) -> None:
        """Be as long as frames that begin now, the rest of a long one if nobody has looked."""
        self.limit, self.is_rest = lengths.usual, here.is_cut

    @property
    def is_simple(self) -> bool:
        """Whether nothing is known of it that one which begins now would not know, but its sources:
        each is of a storage."""
        return len(self.readers) == len(self.sources) and not (
            self.realized or self.latest or self.lifted or self.rules or self.hooked or self.hooks
            or self._real or self._given or self.copies or self._found_in_graphs
            or self._memory or self.is_freed or self.is_pinned)

    def add(self, buffer: Buffer) -> int:
        """The number of a new source."""
        sources = self.sources
        number = len(sources)
        sources.append(buffer)
        return number

    def add_all(self, buffers: Sequence[Buffer]) -> int:
        """The number of the first of so many new sources."""
        first = len(self.sources)
        self.sources += buffers
        return first

    def forget_sources(self, count: int) -> None:
        """Keep so many sources."""
        for buffer in self.sources[count:self._noted]:
            self._numbers.pop(buffer, None)
        self._noted = min(self._noted, count)
        del self.sources[count:], self.readers[count:]

    def numbers(self) -> dict[Buffer, int]:
        """The numbers of sources, by their memory; noted when somebody asks, as few do."""
        sources = self.sources
        for number in range(self._noted, len(sources)):
            self._numbers[sources[number]] = number
        self._noted = len(sources)
        return self._numbers

    def source(self, buffer: Buffer, shape: Shape) -> Node:
        """The template of what a storage has in memory, which is a source of its own even if
        another has the same memory now: the next time it may have its own."""
        number = self._found_in_graphs.pop(buffer, None) if self._found_in_graphs else None
        return self.numbered(self.add(buffer) if number is None else number, shape)

    def source_in_graph(self, buffer: Buffer, shape: Shape) -> Node:
        """The template of what a graph reads, no matter which storage had it: if there is a source
        for that memory, this is it."""
        number = self.numbers().get(buffer)
        if number is None:
            number = self._found_in_graphs[buffer] = self.add(buffer)
        return self.numbered(number, shape)

    def numbered(self, number: int, shape: Shape) -> Node:
        """The template of a source: most often that of the step before."""
        before, buffer = self._before, self.sources[number]
        if number < len(before):
            found = before[number]
            if found.shape == shape and found.dtype is buffer.dtype:
                return found
            before[number] = found = self._template(number, buffer, shape)
        else:
            found = self._template(number, buffer, shape)
            if number == len(before) < MOST_TEMPLATES:
                before.append(found)
        return found

    def memory(self, storage: Storage, buffer: Buffer) -> Node:
        """The template of what a storage's memory has now, where it may have another the next time,
        or a graph that is of no interest."""
        if self._memory is None:
            self._memory = WeakKeyDictionary()
        found = self._memory.get(storage)
        if found is None or found[0] is not buffer:
            found = self._memory[storage] = buffer, self.source(buffer, storage.shape)
        return found[1]

    def leaf_number(self, leaf_id: int | None) -> int | None:
        """What LEAF has in a template, below 0: one that is made anew for each step has another id
        then."""
        numbers, leaf_id = self.leaf_numbers, hooks.one_leaf(leaf_id)
        if leaf_id is not None and leaf_id not in numbers:
            self._leaf_ids.append(leaf_id)
            numbers[leaf_id] = -len(self._leaf_ids)
        return numbers[leaf_id]

    def leaf_id(self, number: Any) -> Any:
        """The id of a leaf; what else LEAF has, as rules for gradients make it, stays."""
        return self._leaf_ids[-1 - number] if isinstance(number, int) and number < 0 else number

    def ids_of(self, numbers: Iterable[Any]) -> list[Any]:
        """leaf_id of several."""
        ids = self._leaf_ids
        return [ids[-1 - n] if isinstance(n, int) and n < 0 else n for n in numbers]

    def read_again(self, number: int, buffer: Buffer, template: Node) -> Node:
        """What reads number `number` of what is realized, after all sources."""
        return self._template(len(self.sources) + number, buffer, template.shape)

    def _template(self, number: int, buffer: Buffer, shape: Shape) -> Node:
        key = ((self.base, self.device), number, buffer.dtype, buffer.size)
        found = _sources.get(key)
        if found is None:
            found = _sources[key] = Source("source", number, buffer.dtype, buffer.size)
        return reshape(make(Op.BUFFER, found.dtype, (), found), shape)

    def buffer_of(self, template: Node) -> Buffer | None:
        """The memory that has a template's value, if any has."""
        found = self.realized.get(template)
        if found is None:
            flat = unshaped(template)
            if flat.op is Op.BUFFER:
                arg = flat.arg
                return self.sources[arg.number] if isinstance(arg, Source) else arg
        return found

    def add_rule(self, rule: Rule) -> Slot:
        """A slot that has this rule."""
        self.rules.append(rule)
        return Slot(len(self.rules) - 1)

    def hooks_of(self, template: Node) -> dict[int, Any]:
        """Where to register what is called with gradients of a value."""
        _with_hooks[self.number] = self
        table = self.hooks.setdefault(template, {})
        if any(frame.copies for frame in _of_this_thread()):
            self.real_in_all(template)
        if template in self._real:
            self._watch(template, self._hooked_elsewhere())
        elif self._is_of_real(template):
            self.real(template)
        return table

    def keep_hooked(self) -> None:
        """Keep the views that have hooks now: what is recorded from now on may read them."""
        self.hooked.update([n for n, _ in hooks.of_values() if next(bases(n), None) is not None])

    def may_read(self, node: Node) -> bool:
        """Whether something that was recorded may be computed by a value over real memory."""
        if node.op is not Op.LEAF:
            return node in self.lifted
        source = unshaped(node.src[0])
        return hooks.one_leaf(node.arg) in self.leaf_numbers \
            and (source.op is not Op.BUFFER or source.arg in self.numbers())

    def _is_of_real(self, template: Node) -> bool:
        """Whether a value is a view of one that has a graph over real memory."""
        return any(base in self._real for base in bases(template))

    def _hooked_elsewhere(self) -> set[Node]:
        """Values over real memory that hooks of no value of this frame are called for, or for what
        is a view of them."""
        own = {id(table) for table in self.hooks.values()} if hooks.were_registered() else set()
        return {[node, *bases(node)][-1] for node, table in hooks.of_values()
                if id(table) not in own and node not in self._given} - self._given

    def _watch(self, template: Node, elsewhere: Container[Node]) -> None:
        """Have a value's hooks called in its graph over real memory, too: one of its own, where
        another tensor's hooks are called in it, or in a view of it."""
        node, table = self._real[template], self.hooks.get(template)
        if node in elsewhere and node.op is not Op.LEAF:
            node = self._real[template] = apart(
                node, lambda n: n in elsewhere or hooks.is_of_value(n))
            self.lifted[node] = template
        if table is not None:
            hooks.watch(node, table)

    def own(self, template: Node) -> Node:
        """The template, or one like it where a tensor, or what it is computed by, has this one: it
        is taken from now on."""
        latest = self.latest
        found = latest.get(template)
        if found is None and not self.hooks:
            latest[template] = template
            return template
        node = apart(found or template, lambda n: n in latest or self.has_hooks(n))
        latest[template] = latest[node] = node
        return node

    def has_hooks(self, template: Node) -> bool:
        """Whether something is called with gradients of a value."""
        return bool(self.hooks.get(template))

    def real(self, template: Node) -> Node:
        """The graph over real memory, and those of its views that something is called with the
        gradients of: others make such of what is real."""
        self._make_real([template])
        views = [view for view in self.hooks if view not in self._real and self._is_of_real(view)]
        if views:
            self._make_real(views)
        return self._real[template]

    def _make_real(self, templates: Sequence[Node]) -> None:
        known, rules, elsewhere = self._real, [], self._hooked_elsewhere()
        for node in toposort(templates, known=known):
            if node in known:
                continue
            if node.op is Op.BUFFER and isinstance(node.arg, Source):
                known[node] = make(Op.BUFFER, node.dtype, (), self.sources[node.arg.number])
            elif node.op is Op.CUSTOM_GRADIENT and isinstance(node.arg, Slot):
                rule = self.rules[node.arg.number]
                known[node] = make(node.op, node.dtype, tuple([known[s] for s in node.src]), rule,
                                   node.place)
                rules.append(rule)
            else:
                sources = tuple([known[s] for s in node.src])
                known[node] = self._own_real(node, rebuild(node, sources)) \
                    if node.op is not Op.LEAF else \
                    make(Op.LEAF, node.dtype, sources, self.leaf_id(node.arg), node.place)
            self.lifted[known[node]] = node
            self._watch(node, elsewhere)
            if node in self.copies:
                self._tell(node)
            if node in self.realized:
                remember(self.device, known[node], self.realized[node])
        for rule in rules:
            rule.leave(self)

    def _own_real(self, template: Node, node: Node) -> Node:
        """A template's graph over real memory, or one like it where another template has this: what
        gradients of one tensor's value do, those of the other's do not."""
        if not node.differentiable or self.lifted.get(node, template) is template:
            return node
        return apart(node, lambda n: self.lifted.get(n, template) is not template)

    def _tell(self, template: Node) -> None:
        """Let the frame that has a copy of a template have its graph over real memory, too."""
        mark, copy = self.copies[template]
        frame = mark()
        if frame is not None:
            frame.of_memory(copy, self._real[template])
            frame.lifted.setdefault(self._real[template], copy)

    def real_in_all(self, template: Node) -> Node:
        """The graph over real memory, which is also that of frames that have copies in this one,
        and lasts as long as they do."""
        for origin in _of_this_thread():
            copied = [n for n, (mark, _) in origin.copies.items() if mark is self.mark]
            if copied:
                origin._make_real(copied)
                origin.hooked.add(self.real(template))
        return self.real(template)

    @property
    def is_bare(self) -> bool:
        """Whether nothing but this frame knows its templates: no graph over real memory, no hook.
        """
        return not self.hooks and not self._real

    def of_memory(self, template: Node, node: Node) -> None:
        """This is a template's graph over real memory, of which no other may take its place."""
        self._real.setdefault(template, node)
        self._given.add(node)
        if template in self.hooks:
            hooks.watch(node, self.hooks[template])

    def realize(self, template: Node, buffer: Buffer) -> None:
        """A value that keeps its graph, or is read again, is in this memory."""
        self.realized[template] = buffer
        if template in self._real:
            remember(self.device, self._real[template], buffer)

    def realize_all(self, templates: Sequence[Node], nodes: Sequence[Node]) -> None:
        """The same for several, in the memory that nodes read."""
        flat = [node.src[0] if node.op is _SHAPED else node for node in nodes]
        buffers = [memory_of(node) if node.src else node.arg for node in flat]
        self.realized.update(zip(templates, buffers, strict=False))
        if self._real:
            for template, buffer in zip(templates, buffers, strict=False):
                self.realize(template, buffer)

    def tidy(self) -> None:
        """Forget storages that are gone, or known by other means."""
        self.keep(self.known_storages())

    def keep(self, storages: Iterable[Storage]) -> None:
        """These got a value in this frame which is not computed, and no others."""
        self.is_pinned = True
        self.made = [*map(ref, storages)]
        self.room = max(ROOM, 2 * len(self.made))

    def source_of(self, storage: Storage) -> int | None:
        """The number of the source that a storage has in memory, for itself."""
        if storage.__class__ is not Storage or storage.shared is not None:
            return None
        flat = unshaped(storage._node)
        return self.numbers().get(flat.arg) if flat.op is Op.BUFFER else None

    def unknown_sources(self, wanted: Iterable[int]) -> frozenset[int]:
        """Those of these sources whose memory nobody else knows: no tensor, graph or library."""
        sources, none = self.sources, _REFERENCES
        self.numbers()  # which hold the memory, too
        return frozenset([n for n in wanted if getrefcount(sources[n]) == none
                          and sources[n].__class__ is not Piece])

    def bytes_of(self, numbers: Iterable[int]) -> int:
        """Bytes of these sources."""
        return sum(self.sources[n].size * self.sources[n].dtype.itemsize for n in numbers)

    def known_storages(self) -> dict[Storage, Node]:
        """Those that got a value in this frame which is not computed, and its template."""
        found: dict[Storage, Node] = {}
        mark, realized = self.mark, self.realized
        for reference in self.made:
            storage = reference()
            if storage is None:
                continue
            template = storage._template
            if storage._mark is not mark:
                continue
            assert template is not None
            if storage._frame is not self:
                is_pending = storage.buffer is None
            elif template.op in _IN_MEMORY or template in realized:
                is_pending = self.buffer_of(template) is None
            else:
                is_pending = True
            if is_pending:
                found[storage] = template
        return found


def _references() -> int:
    """How many references to the memory of a source there are, if that is all it is."""
    frame = object.__new__(Frame)
    frame.sources, frame._numbers, frame._noted = [], {}, 0
    frame.add(cast(Buffer, object()))
    frame.numbers()
    return getrefcount(frame.sources[0])


_REFERENCES = _references()


class _Here(local):
    """Of each thread. current: the frame that is recorded in; others: those that other devices go
    on with; left: of each device the last that something of was computed. first_serial: while an
    operation is recorded, that of the first storage which it made. turn: a number that is another
    after each look at a value, and after each step of training; cut: the last turn in which so much
    was recorded that it was computed though nobody looked; is_cut: whether nobody has looked since.
    walks: whether the operation goes through what its operands are computed by, as gradients do.
    resting: frames that may begin again, by their places; or how often those of a place have rested
    in vain."""

    def __init__(self) -> None:
        self.current: Callable[[], Frame | None] = nothing
        self.others: dict[str, Callable[[], Frame | None]] = {}
        self.left: dict[str, Callable[[], Frame | None]] = {}
        self.first_serial: int | None = None
        self.turn, self.cut, self.is_cut = next(_turns), 0, False
        self.draws: list[Any] = []
        self.resting: dict[Place | None, Frame | int] = {}
        self.walks = False
        self.frame: Frame | None = None
        self.pull_back: Callable[[Node, Node], Sequence[Node | None]] | None = None


def nothing() -> None:
    """No frame."""
    return None


def template_in(storage: Storage, frame: Frame) -> Node | None:
    """The template of a storage in a frame that knows it."""
    template, mark = storage._template, storage._mark
    return template if mark is frame.mark else None


def memory_of(node: Node) -> Buffer:
    """The memory that a node over a single source reads."""
    while node.src:
        node = node.src[0]
    buffer: Buffer = node.arg
    return buffer


here = _Here()


def under_way(device: str) -> Frame | None:
    """The frame that a device's operations are recorded in."""
    frame = here.current()
    return frame if frame is not None and frame.device == device \
        else here.others.get(device, nothing)()


def all_under_way() -> list[Frame]:
    """The frames that this thread records in, one a device."""
    found = [frame() for frame in (here.current, *here.others.values())]
    return [frame for frame in found if frame is not None]


def _of_this_thread() -> list[Frame]:
    """The frames of this thread that are there."""
    thread = get_ident()
    return [frame for mark in list(_marks) if (frame := mark()) is not None
            and frame.thread == thread]


def hooked(node: Node) -> None:
    """Hooks are registered for a value over real memory: frames that read what it is a view of, or
    may yet, keep it."""
    under_way, base = all_under_way(), [node, *bases(node)][-1]
    for frame in _of_this_thread():
        if node is not base and (frame in under_way or frame.may_read(base)):
            frame.hooked.add(node)


def go_on(frame: Frame) -> None:
    """Record in this frame from now on; that of another device waits."""
    current = here.current()
    if current is not frame:
        if current is not None and current.device != frame.device:
            here.others[current.device] = here.current
        here.others.pop(frame.device, None)
        here.current = frame.mark
        if hooks.were_registered():
            frame.keep_hooked()


def looked() -> None:
    """Somebody has looked at a value, or a step has ended."""
    here.turn, here.is_cut = next(_turns), False


def end(frame: Frame) -> None:
    """Record no more in this frame, if that was so."""
    here.left[frame.device] = frame.mark
    if here.current() is frame:
        here.current = nothing
    elif here.others.get(frame.device, nothing)() is frame:
        del here.others[frame.device]


def refuse_values() -> None:
    """Have an operation that is being recorded run on the tensors themselves instead."""
    if here.first_serial is not None:
        raise NeedsValue


class _Reserved:
    """Stands in a frame where a buffer will be."""

    def __init__(self, dtype: DType, size: int) -> None:
        self.dtype, self.size = dtype, size


def drawn(make_array: Callable[[], Any], dtype: DType, size: int) -> Node:
    """A source for what the host computes, once the operation under way is recorded."""
    frame = here.frame
    assert frame is not None
    here.draws.append((make_array, dtype))
    return frame.source(cast(Buffer, _Reserved(dtype, size)), (size,))
