"""What has not been computed yet, and how much of it there is.

A lazy value holds all it is computed from, so a program that goes on and on without looking would
hold, and one day compute, all that it ever did. `history_of` tells in constant time how far the
history of a node reaches; each thread keeps a list of the storages that its operations have made or
written; and `beside` chooses those of them that are to be computed together with what is asked for.
`realization.py` asks that at each look (a call that computes something for the user);
`background.py` decides when something is computed though nobody looks.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import local
from weakref import ref

from lazyten.ir.node import History, Node, set_history, toposort
from lazyten.ir.ops import IDENTITY_OPS, MOVEMENT, SHARING_OPS, Op
from lazyten.storage import collectives, levels, tracing
from lazyten.storage.storage import COMPUTED, NEVER, Buffer, Storage

UNKNOWN = History(-1, NEVER, False)
"""Of what is computed from values that are not there, such as one example of vmap's."""

LOOKS = 2
"""What was pending through so many looks is computed with the next one that shares work with it."""
CONSTANT_DEPTH = 8
"""What is made of constants alone has no age; it counts as old once it is so deep."""
CONSTANT_LONG = 64
"""And as long once it is so deep."""
HEAVY = {Op.REDUCE: 16, Op.GATHER: 16, Op.SCATTER: 16, Op.SCAN: 64}
"""Operations that count as several: kernels with many of them take long to compile."""
DEPTH = 500
"""A history this deep is long. (No expression of one kernel is deeper.)"""
SPAN = 1000
"""So is one whose oldest operation is so many nodes back."""
SHORT = 32
"""A list of noted storages that is no longer is not gone through."""


class _Here(local):
    """Of each thread.

    count: nodes whose history is known. looks: what `count` was at the last LOOKS of them, the
    oldest first. first_serial: that of the first storage after the last look. noted: storages that
    operations have made or written since. older: those that were pending at the last look, by the
    id of the node that they show (see _shown). limit: how many there may be in all before those are
    left out that are gone. long: the depth and the span at which a history is long.
    """

    def __init__(self) -> None:
        self.count = 0
        self.looks = [-1] * LOOKS
        self.first_serial = 0
        self.noted: list[ref[Storage]] = []
        self.older: dict[int, ref[Storage]] = {}
        self.limit = SHORT
        self.long = DEPTH, SPAN


_here = _Here()


def history_of(node: Node) -> History:
    """How far what a node is computed from reaches back; worked out once for each node."""
    found = node.history
    if found is not None:
        return found
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [] if top.history is not None else [s for s in top.src if s.history is None]
        stack += missing
        if not missing:
            stack.pop()
            if top.history is None:
                set_history(top, _joined(top))
    assert node.history is not None
    return node.history


def _joined(node: Node) -> History:
    """The history of a node whose sources have theirs."""
    op = node.op
    if op is Op.BUFFER:
        return COMPUTED if isinstance(node.arg, Buffer) else UNKNOWN
    depth, since, parametric, joint = 0, NEVER, op is Op.LEAF, op in SHARING_OPS
    for source in node.src:
        below = source.history
        assert below is not None
        if below.depth < 0:
            return UNKNOWN
        depth, since = max(depth, below.depth), min(since, below.since)
        parametric, joint = parametric or below.parametric, joint or below.joint
    if depth or not (op in MOVEMENT or op in IDENTITY_OPS or not node.src):
        weight = 0 if joint and op in MOVEMENT else HEAVY.get(op, 1)  # ranks pad as they need it
        depth, _here.count = depth + weight, _here.count + weight
        if since == COMPUTED.since:
            since = _here.count
    if op is Op.COLLECTIVE and tracing.active is None:  # a trace notes its own
        collectives.note(node)
    return History(depth, since, parametric, joint)


def note(storage: Storage) -> History | None:
    """Remember a storage that an operation has made or written, if it is pending; its history then.
    What is traced or under a transform is not computed on its own."""
    if tracing.active is not None or levels.under_way():
        return None
    history = history_of(storage._node)
    if history.depth <= 0:
        return None
    _here.noted.append(ref(storage))
    return history


def is_pending(storage: Storage) -> bool:
    """Whether there is anything to compute for a storage."""
    return history_of(storage._node).depth > 0


def pending() -> list[Storage]:
    """The storages that were noted in this thread and are pending, oldest first. Forgets others."""
    here = _here
    older, new = _alive(here.older.values()), _alive(here.noted)
    here.older, here.noted = {id(_shown(s._node)): ref(s) for s in older}, [ref(s) for s in new]
    found = list(dict.fromkeys([*older, *new]))
    _set_limit()
    return found


def _set_limit() -> None:
    _here.limit = max(SHORT, 2 * (len(_here.noted) + len(_here.older)))


def _alive(references: Iterable[ref[Storage]]) -> list[Storage]:
    found = dict.fromkeys([r() for r in references])
    return [s for s in found if s is not None and is_pending(s)]


def is_full() -> bool:
    """Whether there are twice as many on the list as when `pending` last went through it."""
    return len(_here.noted) + len(_here.older) >= _here.limit


def forget(storages: Iterable[Storage]) -> None:
    """Take storages off this thread's list."""
    dropped = set(storages)
    _here.noted = [r for r in _here.noted if r() not in dropped]
    _here.older = {i: r for i, r in _here.older.items() if r() not in dropped}
    _set_limit()


def is_long(history: History) -> bool:
    """Whether so much has happened since the oldest part of a history was made, or so much of it in
    a row, that no look is to be waited for."""
    depth, span = _here.long
    if history.joint:
        return history.depth >= depth  # what else a rank does is its own business
    if history.since == NEVER:
        return history.depth >= CONSTANT_LONG
    return history.depth >= depth or _here.count - history.since >= span


def forget_steps() -> None:
    """What is long does not depend any more on the steps that were seen."""
    _here.long = DEPTH, SPAN


def looked(asked: Iterable[Storage]) -> None:
    """Count a look, at which these values are about to be computed. A step of training is one unit,
    however deep the model: after one, only what is twice as long is long."""
    here = _here
    for storage in asked:
        if storage.leaf_id is not None or storage.companions:
            history = history_of(storage._node)
            here.long = (max(DEPTH, 2 * history.depth), max(SPAN, 2 * (here.count - history.since)))
            break
    here.looks = [*here.looks[1:], here.count]
    here.first_serial = next(levels.serials)
    here.older |= {id(_shown(s._node)): ref(s) for s in _alive(here.noted)}
    here.noted = []
    if is_full():
        pending()


def beside(asked: Sequence[Storage], depth: int = 0, step: bool = False) -> list[Storage]:
    """The noted storages that are worth computing together with these: each shares work with them,
    and is pending for so long that it would be computed again and again.

    That is what was written in place and was there at the last look, such as running statistics; a
    parameter that was computed from parameters; what is older than LOOKS; with `depth`, what is
    as deep as that; and with `step`, all that was written, and what came out of backward().
    Nothing that ranks share out is computed with what is one's own.
    """
    histories = [history_of(s._node) for s in asked]
    joint = any(h.joint for h in histories)
    new = [s for s in _alive(_here.noted) if _is_due(s, depth, step)]
    if not new and (not _here.older or not joint and min(
            h.since for h in histories) > _here.looks[-1]):
        return []  # what is older than the last look shares nothing with what is not
    work: set[Node] = set()
    toposort([s._node for s in asked], _pending_sources, work)
    older = [s for s in _found_in(work) if _is_due(s, depth, step)]
    joining = [s for s in new if _shown(s._node) in work or _joins(s._node, work)]
    return [s for s in dict.fromkeys([*older, *joining])
            if s not in asked and s.device == asked[0].device
            and (joint or not history_of(s._node).joint)]


def _found_in(work: set[Node]) -> list[Storage]:
    """Of the storages that were pending at the last look those whose values are in `work`."""
    older = _here.older
    found = [(older[id(node)](), node) for node in work if id(node) in older]
    storages = [s for s, node in found if s is not None and _shown(s._node) is node]
    return sorted(storages, key=lambda s: s.serial)


def _is_due(storage: Storage, depth: int, step: bool) -> bool:
    history = history_of(storage._node)
    if history.joint:  # ranks look, each alone, at values of their own: of looks nothing is known
        is_old = storage.version > 0
    elif history.since == NEVER:
        is_old = history.depth >= CONSTANT_DEPTH
    else:
        is_old = history.since <= _here.looks[0]
    return (is_old or bool(depth) and history.depth >= depth
            or storage.version > 0 and (step or storage.serial < _here.first_serial)
            or step and bool(storage.companions)
            or storage.leaf_id is not None and history.parametric)


def _joins(node: Node, work: set[Node]) -> bool:
    """Whether anything pending that a node is computed from is in `work`; all of it is, then."""
    own: set[Node] = set()
    joins, stack = False, [node]
    while stack:
        top = stack.pop()
        if top in work:
            joins = joins or history_of(top).depth > 0
        elif top not in own:
            own.add(top)
            stack += _pending_sources(top)
    if joins:
        work |= own
    return joins


def _shown(node: Node) -> Node:
    """What a node is a move of. (A move of a moved value is often one move of that value.)"""
    while (node.op in MOVEMENT or node.op in IDENTITY_OPS) and node.history is not COMPUTED:
        node = node.src[0]
    return node


def _pending_sources(node: Node) -> tuple[Node, ...]:
    return () if node.history is not None and node.history.depth <= 0 else node.src
