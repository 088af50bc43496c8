"""Computing what was recorded in a frame: programs that are found by what they compute.

In: a frame (storage/frames.py) and storages that somebody looks at. Out: the same, in memory. Which
program that takes follows from their templates alone, so from the second step on it is looked up.
What was written in place, and what came out of the same backward pass, is computed with it.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any
from weakref import WeakSet, ref

from lazyten.execution import background, frame_updates, realization
from lazyten.execution.frame_updates import Updates
from lazyten.execution.interpreted import by_nobody
from lazyten.execution.plans.making import PLAN_LIMIT
from lazyten.execution.plans.narrowing import storable
from lazyten.execution.plans.plan import settings
from lazyten.execution.segment import Owners, Ready, Root, Segment
from lazyten.ir.node import Node, substitute, toposort
from lazyten.schedule.deciding import read_by
from lazyten.storage import history, tracing
from lazyten.storage.deferred import Deferred, rest, settle_known
from lazyten.storage.frames import (
    SHORTEST,
    Frame,
    end,
    here,
    lengths,
    looked,
    memory_of,
    template_in,
)
from lazyten.storage.history import HEAVY
from lazyten.storage.storage import UNMARKED, Buffer, Storage
from lazyten.support import observers
from lazyten.support.collecting import collecting_later
from lazyten.support.errors import IndexingError, LazytenError
from lazyten.support.location import user_place
from lazyten.support.remembered import Remembered

WITH_MEMORY, SMALL, SMALL_ONES = 8, 1 << 20, 128
"""So many programs keep memory for their results, once they were run TRIALS times; and so many that
need no more bytes than SMALL."""
TRIALS = 3
_NOTHING: dict[Any, Any] = {}
NO_OWNERS: tuple[Owners, int, Collection[int]] = (), 0, ()
BATCH = 256
"""So many values are computed by one program, where nobody asks for them."""
LONG = 2_500
"""So many nodes a program counts as at most."""
PATIENCE, ONE_STEP = 4, 16
"""So many times longer a frame may get where something keeps its graph; and where gradients
flow through much of what was recorded, which is a step of training then, and no loop."""


class Program:
    """A segment; what it reads of the values that its frame has in memory, after all sources; which
    of its results are wanted again, how often it was run, and what it writes over."""

    __slots__ = ("again", "reads", "runs", "segment", "updates")

    def __init__(self, segment: Segment, reads: Sequence[Node], again: Sequence[Node]) -> None:
        self.segment, self.reads, self.again, self.runs = segment, reads, again, 0
        self.updates = Updates()

    @property
    def reading(self) -> Ready | None:
        """With its memory, if it has that, writes over nothing, and looks at no index."""
        segment = self.segment
        return None if self.updates.own or segment.donated or segment.checks else segment.up_to_date

    def note_run(self) -> None:
        """Note that its line asks for it once more."""
        self.runs += 1
        if self.segment.graph is None:
            self.segment.line.came_again(self.runs)


_programs: Remembered[Program] = Remembered(PLAN_LIMIT, 40_000)
"""Those that did not come again up to so many nodes."""
_in_frames: Remembered[Program] = Remembered(PLAN_LIMIT, 40_000)
"""The same by what else their frames know: found without a look at what they read."""
_wanted: WeakSet[Node] = WeakSet()
"""Templates of values that were read after the step in which they were not asked for, such as a
model's output: the next time they are computed with the step, and not once more."""
_large: OrderedDict[Program, None] = OrderedDict()
_small: OrderedDict[Program, None] = OrderedDict()
"""Those that keep memory, the one that was run last at the end."""


def realize(storages: Sequence[Storage]) -> bool:
    """Compute these storages, if a frame of this thread knows them all."""
    frame: Frame | None = None
    is_step = False  # of training
    for storage in storages:
        if storage.__class__ is not Deferred or frame is not None and frame is not storage._frame:
            return False
        frame = storage._frame
        is_step = is_step or bool(storage.companions) or storage.leaf_id is not None
    if frame is None or frame.thread != get_ident():
        return False
    if is_step:
        note_step(frame)
    compute(frame, storages)
    return True


def look(storage: Storage) -> Buffer | None:
    """Compute a value that somebody looks at, alone (see realization.realize); gives its memory."""
    if tracing.active is None and here.first_serial is None:
        found = _looked_at(storage)
        if found is not None:
            return found
    realization.realize([storage])
    return storage.buffer


def _looked_at(storage: Storage) -> Buffer | None:
    """Compute a value of this thread's, and what is due with it, by a program that only reads: what
    realize() comes to then. None where there is more to it, or no such program is known."""
    frame: Frame | None = storage._frame
    if frame is None:
        buffer = storage.buffer
        if buffer is not None:
            looked()
        return buffer
    template = storage._template
    if template is None or storage.companions or storage.leaf_id is not None \
            or frame.thread != get_ident():
        return None
    due, others = {storage: template}, _others(frame, storage)
    if others:
        due |= {s: t for s, t in others.items() if _is_due(s, t, ())}
        if len(due) > 1:
            others = {s: t for s, t in others.items() if s not in due}
    realized = frame.realized.copy() if frame.realized else _NOTHING
    program = _in_frames.again.get(
        _key(frame, (*due.values(),), (*others.values(),), realized))
    ready = None if program is None else program.reading
    if program is None or ready is None or observers.present():
        return None
    looked()
    program.note_run()
    sources = [*frame.sources, *[realized[n] for n in program.reads]] if realized else frame.sources
    nodes = ready.run(sources, NO_OWNERS, ())
    _keep_memory(program, ready)
    if others or storage.keeps_graph or program.again or len(due) > 1:
        _settle(frame, program, due, nodes, others)
    else:
        settle_known(frame, ((storage, template, nodes[0]),))
    _end(frame, others)
    return memory_of(nodes[0])


def _others(frame: Frame, storage: Storage) -> Mapping[Storage, Node]:
    """What else is known in a frame that knows a value, and not computed."""
    for reference in frame.made:
        other = reference()
        if other is not None and other is not storage:
            known = frame.known_storages()
            known.pop(storage, None)
            return known
    return _NOTHING


def compute(frame: Frame, asked: Sequence[Storage]) -> None:
    """Compute storages that are known in a frame, and what is due with them; if that is not
    possible, them alone: what is wrong with the others comes up where they are asked for."""
    known = frame.known_storages()
    if len(known) == len(asked) == 1 and asked[0] in known:
        due = alone = known  # as most often
    else:
        alone = _pending(frame, known, asked)
        due = _due(known, asked, alone)
    try:
        _compute_if_possible(frame, known, (due, alone), {})
    except IndexingError:
        realization.undo_writes(known)
        raise
    for storage in asked:
        storage.companions = ()


def write(frame: Frame, written: Mapping[Storage, Node], asked: Sequence[Storage],
          mark: Callable[[], Any] = UNMARKED) -> None:
    """Change some storages to what is recorded in a frame, and compute that, and those that are
    asked for, with what is due. Nothing is changed where that cannot be computed. mark: what those
    that are written have until somebody else reads or changes them."""
    known = frame.known_storages()
    alone = _pending(frame, known, asked)
    if not known.keys().isdisjoint(written):
        known = {s: t for s, t in known.items() if s not in written}
        alone = {s: t for s, t in alone.items() if s not in written}
    due = _due(known, asked, alone)
    _compute_if_possible(frame, known, (due, alone), written, mark)
    for storage in asked:
        storage.companions = ()


def _compute_if_possible(frame: Frame, known: Mapping[Storage, Node],
                         choices: tuple[Mapping[Storage, Node], Mapping[Storage, Node]],
                         written: Mapping[Storage, Node],
                         mark: Callable[[], Any] = UNMARKED) -> None:
    """Compute the first of two choices, or if that is not possible, the second, which is less."""
    due, alone = choices
    try:
        _compute(frame, known, due, written, mark)
    except LazytenError:
        if len(alone) == len(due):
            raise
        _compute(frame, known, alone, written, mark)


def _compute(frame: Frame, known: Mapping[Storage, Node], due: Mapping[Storage, Node],
             written: Mapping[Storage, Node], mark: Callable[[], Any]) -> None:
    """Compute what is due, and what storages are changed to."""
    others = {} if len(due) == len(known) else {s: t for s, t in known.items() if s not in due}
    realized = frame.realized.copy()  # other threads add to it
    if due or written:
        templates = (*due.values(), *written.values())
        program = _program(frame, realized, templates, tuple(others.values()))
        try:
            nodes = _run(frame, realized, program, due, written)
            _settle(frame, program, due, nodes, others, written)
            if written:
                Storage.store(zip(written, nodes[len(due):len(templates)], strict=True), mark)
        finally:
            frame.is_written = False
    _end(frame, others)


def _settle(frame: Frame, program: Program, due: Mapping[Storage, Node], nodes: Sequence[Node],
            others: Collection[Storage], written: Mapping[Storage, Node] | None = None) -> None:
    """Let storages have what a program gave, before what is written; and the frame what is read
    again, where others are not computed."""
    results = [*zip(due, due.values(), nodes, strict=False)]
    if others:  # what is made of these reads their bits
        frame.realize_all((*due.values(), *(written or {}).values()), nodes)
    else:
        for storage, template, node in results:
            if storage.keeps_graph:
                frame.realize(template, memory_of(node))
    settle_known(frame, [r for r in results if not r[0].keeps_graph])
    if program.again:
        frame.realize_all(program.again, nodes[len(due) + len(written or ()):])


def _end(frame: Frame, others: Collection[Storage]) -> None:
    """Something of a frame is computed, and these are not."""
    end(frame)
    if others or not rest(frame):
        frame.keep(others)
        frame.is_resumed = True


def join(storages: Sequence[Storage]) -> None:
    """What came out of one backward pass is computed together, where a frame knows it."""
    storages = [s for s in storages if s._frame is not None]
    group = tuple(map(ref, storages))
    for storage in storages:
        storage.companions = group


def is_cut(frame: Frame) -> bool:
    """Whether a long frame ends before the operation that is about to be recorded: one at the line
    that the frame began with, so that pieces of a loop are alike, or any if none comes for as long
    again."""
    if frame.recorded < frame.limit + lengths.usual and user_place() != frame.base:
        return False
    _bound(frame)
    return here.current() is not frame


def _bound(frame: Frame) -> None:
    """Compute what a long frame has made, so that memory and the work to come stay bounded. What
    keeps its graph stays, and the rest with it for longer: gradients of all of it may be asked for,
    and it is to be one program with them."""
    turn = here.turn
    looked()
    frame.limit += lengths.usual
    known = frame.known_storages()
    pending = [s for s in known if not s.keeps_graph]
    kept = [t for s, t in known.items() if s.keeps_graph]
    if background.is_paused() or kept and not (is_over(frame) and _is_loop(frame, kept)):
        return
    with by_nobody():
        for first in range(0, len(pending), BATCH):
            compute(frame, pending[first:first + BATCH])
    end(frame)
    here.cut, here.is_cut = turn, True
    lengths.cut_off += lengths.usual


def is_over(frame: Frame) -> bool:
    """Whether it has got as long as any may."""
    return frame.recorded >= (ONE_STEP if frame.is_step else PATIENCE) * lengths.usual


def _is_loop(frame: Frame, kept: Sequence[Node]) -> bool:
    """Whether gradients flow through little of what a long frame has recorded. If they flow through
    much, it is one step, and over where it is far longer."""
    nodes = toposort(kept, lambda node: [s for s in node.src if s.differentiable])
    weight = sum([1 + HEAVY.get(n.op, 1) for n in nodes]) // 4  # as recording.py counts
    frame.is_step = 3 * weight >= frame.recorded
    return is_over(frame)


def note_step(frame: Frame) -> None:
    """A step of training is one unit, however long: from now on only what is twice as long is cut
    where nobody looks. (What was cut may have been more than the step, so that it counts for no
    more than makes the limit fourfold.)"""
    looked()
    length = frame.recorded + min(lengths.cut_off, lengths.usual)
    lengths.usual, lengths.cut_off = max(SHORTEST, 2 * length), 0


def forget() -> None:
    """Forget all programs."""
    lengths.usual, lengths.cut_off = SHORTEST, 0
    history.forget_steps()
    _wanted.clear()
    here.resting.clear()
    _in_frames.clear()
    _programs.clear()
    _large.clear()
    _small.clear()


def _due(known: dict[Storage, Node], asked: Iterable[Storage],
         alone: dict[Storage, Node]) -> dict[Storage, Node]:
    """What is computed alone, and of what else is known in a frame, what came out of the same
    backward passes as what is asked for, what was written in place, and what is wanted after the
    step."""
    if len(alone) == len(known):
        return alone
    passes = {id(s.companions) for s in asked if s.companions}
    return alone | {s: template for s, template in known.items()
                    if s not in alone and _is_due(s, template, passes)}


def _is_due(storage: Storage, template: Node, passes: Container[int]) -> bool:
    """Whether what a frame knows is computed with what is asked for, of these backward passes."""
    return storage.__class__ is Deferred and (
        storage.version > 0 or id(storage.companions) in passes or template in _wanted)


def _pending(frame: Frame, known: Mapping[Storage, Node],
             asked: Iterable[Storage]) -> dict[Storage, Node]:
    """What of this is to be computed in a frame."""
    found: dict[Storage, Node] = {}
    for storage in asked:
        if storage.__class__ is not Deferred:
            continue
        template = known.get(storage)
        if template is not None:
            found[storage] = template
        elif (template := template_in(storage, frame)) is not None and not storage.keeps_graph:
            buffer = frame.buffer_of(template)  # the value of another
            assert buffer is not None, "what a frame knows is pending, or in memory"
            settle_known(frame, [(storage, template, buffer.node(template.shape))])
    return found


def _program(frame: Frame, realized: Mapping[Node, Buffer], templates: tuple[Node, ...],
             others: tuple[Node, ...]) -> Program:
    """The program that computes these templates, and what others that are known depend on: one of
    this thread's, as it may have memory of its own."""
    key = _key(frame, templates, others, realized)
    found = _in_frames.get(key)
    if found is None:
        found = _alike(frame, realized, templates, others)
        _in_frames.add(key, found, min(found.segment.nodes, LONG))
    return found


def _key(frame: Frame, templates: tuple[Node, ...], others: tuple[Node, ...],
         realized: Collection[Node]) -> Hashable:
    """What a program is found by in a frame that knows others, and has these values in memory."""
    known = (len(frame.sources), *realized) if realized else ()
    return (templates, others, known, *settings(frame.device), get_ident())


def _alike(frame: Frame, realized: Mapping[Node, Buffer], templates: tuple[Node, ...],
           others: Sequence[Node]) -> Program:
    """The program for these templates, whatever else frames know that it neither reads nor is read
    by: a value of any size that another line made is no reason for another program."""
    order = toposort(templates, known=realized)
    reads = tuple([node for node in order if node in realized])
    again = tuple(storable([node for node in read_by(others, order, templates)
                            if node not in realized], frame.device))
    key = (templates, again, reads, reads and len(frame.sources), *settings(frame.device),
           get_ident())
    found = _programs.get(key)
    if found is None:
        segment = _made(frame, realized, (*templates, *again), reads)
        found = Program(segment, reads, again)
        _programs.add(key, found, min(found.segment.nodes, LONG))
    return found


def _made(frame: Frame, realized: Mapping[Node, Buffer], wanted: Sequence[Node],
          reads: Sequence[Node]) -> Segment:
    """What gives these anew; what is realized already is read from memory."""
    with collecting_later():
        known = {node: frame.read_again(number, realized[node], node)
                 for number, node in enumerate(reads)}
        roots = substitute(wanted, known) if known else wanted
        return Segment(frame.device, [Root(None, node, frame.device) for node in roots], (), (),
                       in_place=True, may_interpret=True)


def _run(frame: Frame, realized: Mapping[Node, Buffer], program: Program,
         due: Mapping[Storage, Node], written: Mapping[Storage, Node]) -> list[Node]:
    """The nodes that read the results of a program, and nobody else's memory: first of what is due,
    and of what is written."""
    segment, looking = program.segment, observers.present()
    read = [realized[node] for node in program.reads]
    program.note_run()
    if program.runs <= TRIALS or segment.graph is not None or observers.needs_launches(looking):
        sources = [*frame.sources, *read]
        if not frame.is_rest:
            return segment.run_once(sources)
        with by_nobody():  # as the pieces of the loop before it
            return segment.run_once(sources)
    nodes = frame_updates.run(frame, read, program.updates, due, written, segment, looking)
    ready = segment.ready
    if ready is not None:
        _keep_memory(program, ready)
    return nodes


def _keep_memory(program: Program, ready: Ready) -> None:
    """Let a program keep its memory, and those that were not run for long give theirs back."""
    kept, limit = (_small, SMALL_ONES) if ready.bytes <= SMALL else (_large, WITH_MEMORY)
    kept[program] = None
    kept.move_to_end(program)
    if len(kept) > limit:
        kept.popitem(last=False)[0].segment.ready = None


def looked_at(storage: Storage) -> Buffer | None:
    """The memory of a value that another frame knows and whose graph is not asked for; it is
    computed if that is this thread's. None if it is not in memory."""
    if storage.buffer is None and storage.__class__ is Deferred \
            and (frame := storage._frame).thread == get_ident():
        _want(storage, frame)
        compute(frame, [storage])
    return storage.buffer


def _want(storage: Storage, frame: Frame) -> None:
    template = template_in(storage, frame)
    if template is not None:
        _wanted.add(template)


def bring_up_to_date(storage: Storage, frame: Frame, is_read_as_leaf: bool) -> bool:
    """Compute what an operation that is recorded in `frame` is to read from memory: a parameter
    that was updated, so that no step's graph holds the step before, and what another frame knows.
    Gives whether another frame begins with that."""
    own: Any = storage._frame
    if own is None:  # another thread has asked for its node meanwhile
        return False
    if own is frame:
        if storage.leaf_id is None or not is_read_as_leaf:
            if frame.is_resumed and storage.keeps_graph:
                _want(storage, frame)
            return False
        compute(frame, [storage])
        return True
    if own.thread == frame.thread and not storage.keeps_graph \
            and (storage.leaf_id is None or is_read_as_leaf):
        _want(storage, own)
        compute(own, [storage])
    return False


realization.compute_recorded = realize
