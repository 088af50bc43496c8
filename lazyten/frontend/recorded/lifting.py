"""Values that came about outside of a frame are made known in it: their graphs over real memory are
written again over its sources, as if they had been recorded there.

In: a frame, and a storage that it does not know: what an operation gave that no entry can say. Out:
its template, if the frame knows it now.
"""
from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from functools import partial
from threading import get_ident
from types import FunctionType
from typing import Any, NamedTuple
from weakref import WeakSet, ref

from lazyten.autodiff import hooks
from lazyten.autodiff.fixed_rules import holds_no_value
from lazyten.execution import background, realization
from lazyten.frontend.recorded import sayable
from lazyten.ir.node import Node, Shape, bases, make, rebuild, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.storage.deferred import go_over, know, known_template
from lazyten.storage.frames import Frame, Slot, memory_of
from lazyten.storage.history import history_of
from lazyten.storage.placeholder import Source
from lazyten.storage.storage import REALIZED, UNMARKED, Buffer, Storage
from lazyten.support.remembered import Remembered

RULES = 10_000
"""So many rules for gradients are remembered."""
LONGEST = 1000
"""Graphs of more nodes stay over real memory: to lift them again in each frame would take ever more
time where a value is made of the last step's, and keeps the graph of all."""
_rules: dict[Hashable, Any] = {}
going_on: Remembered[bool] = Remembered(1024, 1024)
"""Where frames began that asked for values of another which has rules that belong to it."""
_unsayable: WeakSet[Node] = WeakSet()
"""Graphs that hold what no template can."""


def lift(storage: Storage, frame: Frame) -> Node | None:
    """The template of a value that is made known in a frame of this thread and of its device, if a
    template can say it. Not a gradient that backward() has made outside of frames: it is computed
    with the loss and others, once for all."""
    own: Frame | None = storage._frame
    if storage.leaf_id is not None and not storage.keeps_graph \
            and history_of(storage._node).depth == 0:
        realization.realize([storage], is_look=False)  # a copy of a parameter reads its memory
        buffer = storage.buffer
        assert buffer is not None, "it is realized"
        storage.settle(storage._node, buffer, True)
        return known_template(storage, frame)
    if storage.shared is not None or storage.leaf_id is not None \
            or storage.companions and not storage.keeps_graph \
            or own is not None and own.thread != get_ident():
        return None
    if not storage.keeps_graph:
        if storage._mark is not UNMARKED:  # another frame knew it
            realization.realize([storage], is_look=False)
        else:
            background.made(storage)  # a graph that has grown long is computed
        if storage.buffer is not None:
            return known_template(storage, frame)
    template = None if own is None else _from_another(storage, own, frame)
    if template is not None:
        return template
    if own is not None and own.rules:
        going_on.add(frame.base, True)
    node = storage._node
    template = lifted(node, frame)
    if template is None or not know(storage, frame, node, template):
        return None
    if hooks.were_registered():
        for view, _ in hooks.of_values():  # which the frame then has them of
            if node in bases(view):
                lifted(view, frame)
    frame.made.append(ref(storage))
    return template


# ---- from one frame to another -------------------------------------------------------------------

class _Reads(NamedTuple):
    """What a template stands over: numbers and shapes of sources, and what leaves have. order: its
    nodes; none, if it has more than sources and constants, or is too long to be copied."""

    order: Sequence[Node]
    sources: Mapping[Node, tuple[int, Shape]]
    leaves: Sequence[Any]


class _Copy(NamedTuple):
    """A template in another frame. nodes: of each of its nodes, the one there; those that may be
    tensors' values; and those that gradients flow through."""

    nodes: Mapping[Node, Node]
    of_tensors: Sequence[tuple[Node, Node]]
    differentiable: Sequence[tuple[Node, Node]]


_reads: Remembered[_Reads] = Remembered(512, 128)
_copies: Remembered[_Copy] = Remembered(512, 128)


def forget() -> None:
    """Forget what came from one frame to another."""
    going_on.clear()
    _reads.clear()
    _copies.clear()


def _from_another(storage: Storage, own: Frame, frame: Frame) -> Node | None:
    """The template of a value that only another frame of this thread knows, whose graph goes on in
    this one, without the graph over real memory; None if it takes that one."""
    template = storage._template
    if template is None or not own.is_bare:
        return None
    reads = _reads.get(template) or _reads.add(template, _read_by(template))
    if not reads.order:
        return None
    copy = _copy_in(frame, template, reads, own)
    mine = copy.nodes[template]
    taken = [there for node, there in copy.of_tensors
             if own.copies.get(node) != (frame.mark, there)]  # copied for another value already
    if not frame.latest.keys().isdisjoint(taken) \
            or not go_over(storage, (own, template), frame, mine):
        return None
    frame.latest.update(zip(taken, taken, strict=True))
    own.copies.update([(node, (frame.mark, there)) for node, there in copy.differentiable])
    for node, buffer in own.realized.copy().items():
        if node in copy.nodes:
            frame.realized.setdefault(copy.nodes[node], buffer)
    frame.made.append(ref(storage))
    return mine


def _read_by(template: Node) -> _Reads:
    none = _Reads((), {}, ())
    order = toposort([template])
    if len(order) > LONGEST:
        return none
    sources: dict[Node, tuple[int, Shape]] = {}
    leaves = []
    for node in order:
        if node.op is Op.BUFFER and isinstance(node.arg, Source):
            sources[node] = node.arg.number, node.shape
        elif node.op is Op.LEAF:
            leaves.append(node.arg)
        elif node.op is Op.BUFFER or node.op in sayable.OF_ONE_STEP or isinstance(node.arg, Slot):
            return none
    return _Reads(order, sources, leaves)


def _copy_in(frame: Frame, template: Node, reads: _Reads, own: Frame) -> _Copy:
    """A template in another frame, where the same step may have several that read others."""
    sources = {node: frame.source_in_graph(own.sources[number], shape)
               for node, (number, shape) in reads.sources.items()}
    leaves = {number: _leaf(number, own, frame) for number in reads.leaves}
    key = template, *sources.values(), *leaves.values()
    found = _copies.get(key)
    return _copies.add(key, _copied(reads.order, sources, leaves)) if found is None else found


def _copied(order: Sequence[Node], sources: Mapping[Node, Node], leaves: Mapping[Any, Any]
            ) -> _Copy:
    nodes: dict[Node, Node] = {**sources}
    for node in order:
        if node in nodes:
            continue
        below = tuple([nodes[s] for s in node.src])
        nodes[node] = rebuild(node, below) if node.op is not Op.LEAF else \
            make(Op.LEAF, node.dtype, below, leaves[node.arg], node.place)
    pairs = [*nodes.items()]
    return _Copy(nodes, [pair for pair in pairs if _may_be_a_tensors(pair[1])],
                 [pair for pair in pairs if pair[1].differentiable])


def _leaf(number: Any, own: Frame, frame: Frame) -> Any:
    """What LEAF has in another frame."""
    leaf_id = own.leaf_id(number)
    return frame.leaf_number(leaf_id) if isinstance(leaf_id, int) else leaf_id


# ---- from real memory ----------------------------------------------------------------------------

def lifted(root: Node, frame: Frame) -> Node | None:
    """The template of a graph over real memory; None if it holds what no template can."""
    known = frame.lifted
    order = toposort([root], lambda n: () if n in known or n in _unsayable else n.src)
    if len(order) > LONGEST:
        _note_long(order)
        return None
    for node in order:
        if node in known:
            continue
        if node in _unsayable or not _is_sayable(node):
            _note_unsayable(node, order, known)
            return None
        template = _lifted(node, frame)
        known[node] = template = frame.own(template) if _may_be_a_tensors(node) else template
        frame.of_memory(template, node)
        stored = REALIZED[frame.device].get(node)
        if stored is not None and template not in frame.realized:
            frame.realized[template] = memory_of(stored)
    return known[root] if sayable.are_sayable([known[root]]) else None


def _note_long(order: Sequence[Node]) -> None:
    """Note the last of these, and all that more than LONGEST nodes are below, so that what is made
    of them is not walked through again. (In a toposort what is first found below a node stands
    right before it, that of its last source last; what was found before does not count.)"""
    spans: dict[Node, tuple[int, int]] = {}
    for last, node in enumerate(order):
        first = last
        for source in reversed(node.src):
            begin, end = spans.get(source, (0, -1))
            if end == first - 1:
                first = begin
        spans[node] = first, last
        if last - first >= LONGEST:
            _unsayable.add(node)
    _unsayable.add(order[-1])


def _note_unsayable(first: Node, order: Sequence[Node], known: Container[Node]) -> None:
    """Note the first node that no template can say, and what is computed by it, so that what
    follows is not walked through again for each value that is made of it."""
    _unsayable.add(first)
    for node in order:
        if node not in known and any(s in _unsayable for s in node.src if s not in known):
            _unsayable.add(node)


def _may_be_a_tensors(node: Node) -> bool:
    """Whether gradients flow through a node that an operation made: a tensor of the frame that is
    computed alike has another."""
    return node.differentiable and node.op is not Op.LEAF and next(bases(node), None) is None


def with_sources(template: Node, frame: Frame) -> Node:
    """A template that holds memory of this step, such as a number that changes, over sources."""
    read = [n for n in toposort([template]) if n.op is Op.BUFFER and _memory(n) is not None]
    return substitute([template], {n: _source(n, frame) for n in read})[0]


def _source(node: Node, frame: Frame) -> Node:
    """The template of a BUFFER of this step."""
    found = frame.lifted.get(node)
    if found is None:
        memory = _memory(node)
        assert memory is not None
        found = frame.lifted[node] = frame.source_in_graph(memory, node.shape)
    return found


def _memory(node: Node) -> Buffer | None:
    """What a BUFFER of this step reads; None for a source, and for an unknown of vmap."""
    return node.arg if isinstance(node.arg, Buffer) else getattr(node.arg, "memory", None)


def _is_sayable(node: Node) -> bool:
    if node.op is Op.BUFFER:
        return _memory(node) is not None
    if node.op is Op.CUSTOM_GRADIENT:
        return holds_no_value(node.arg)
    return node.op not in sayable.OF_ONE_STEP


def _lifted(node: Node, frame: Frame) -> Node:
    if node.op is Op.BUFFER:
        return _source(node, frame)
    sources = tuple([frame.lifted[s] for s in node.src])
    if node.op is Op.CUSTOM_GRADIENT:
        return make(node.op, node.dtype, sources, _equal_rule(node.arg), node.place)
    if node.op is Op.LEAF and isinstance(node.arg, int):  # none that a rule for gradients has made
        return make(node.op, node.dtype, sources, frame.leaf_number(node.arg), node.place)
    return rebuild(node, sources)


def _equal_rule(rule: Any) -> Any:
    """The first rule that did the same, so that the same graph is the same template."""
    if len(_rules) > RULES:
        _rules.clear()
    return _rules.setdefault(_key(rule), rule)


def _key(x: Any) -> Hashable:
    """What a rule's doings follow from."""
    if isinstance(x, partial):
        return partial, _key(x.func), tuple(map(_key, x.args))
    if isinstance(x, FunctionType):
        cells = tuple([_key(c.cell_contents) for c in x.__closure__ or ()])
        by_name = tuple([(name, _key(v)) for name, v in (x.__kwdefaults__ or {}).items()])
        return x.__code__, cells, _key(x.__defaults__), by_name
    if isinstance(x, tuple | list):
        return type(x), tuple(map(_key, x))
    return type(x), x.hex() if isinstance(x, float) else x
