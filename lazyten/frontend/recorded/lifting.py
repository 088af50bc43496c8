"""Values that came about outside of a frame are made known in it: their graphs over real memory are
written again over its sources, as if they had been recorded there.

In: a frame, and a storage that it does not know: what an operation gave that no entry can say. Out:
its template, if the frame knows it now.
"""
from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from threading import get_ident
from types import FunctionType
from typing import Any
from weakref import WeakSet, ref

from lazyten.execution import background, realization
from lazyten.frontend.recorded import sayable
from lazyten.ir.node import Node, make, rebuild, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.storage.deferred import know, known_template
from lazyten.storage.frames import Frame, memory_of
from lazyten.storage.history import history_of
from lazyten.storage.storage import REALIZED, UNMARKED, Buffer, Storage

RULES = 10_000
"""So many rules for gradients are remembered."""
LONGEST = 1000
"""Graphs of more nodes stay over real memory: to lift them again in each frame would take ever more
time where a value is made of the last step's, and keeps the graph of all."""
_rules: dict[Hashable, Any] = {}
_unsayable: WeakSet[Node] = WeakSet()
"""Graphs that hold what no template can."""


def lift(storage: Storage, frame: Frame) -> Node | None:
    """The template of a value that is made known in a frame of this thread and of its device, if a
    template can say it. Not a gradient that backward() has made outside of frames: it is computed
    with the loss and others, once for all."""
    own: Frame | None = storage._frame
    if storage.leaf_id is not None and not storage.keeps_graph \
            and history_of(storage._node).depth == 0:
        realization.realize([storage])  # the copy of another parameter: it reads that one's memory
        buffer = storage.buffer
        assert buffer is not None, "it is realized"
        storage.settle(storage._node, buffer, True)
        return known_template(storage, frame)
    if storage.shared is not None or storage.leaf_id is not None or storage.companions \
            or own is not None and own.thread != get_ident():
        return None
    if not storage.keeps_graph:
        if storage._mark is not UNMARKED:  # another frame knew it
            realization.realize([storage])
        else:
            background.made(storage)  # a graph that has grown long is computed
        if storage.buffer is not None:
            return known_template(storage, frame)
    node = storage._node
    template = lifted(node, frame)
    if template is None or not know(storage, frame, node, template):
        return None
    frame.made.append(ref(storage))
    return template


def lifted(root: Node, frame: Frame) -> Node | None:
    """The template of a graph over real memory; None if it holds what no template can."""
    known = frame.lifted
    order = toposort([root], lambda n: () if n in known or n in _unsayable else n.src)
    if len(order) > LONGEST:
        _unsayable.add(root)
        return None
    for node in order:
        if node in known:
            continue
        if node in _unsayable or not _is_sayable(node):
            _unsayable.update((node, root))
            return None
        template = known[node] = _lifted(node, frame)
        frame.of_memory(template, node)
        stored = REALIZED[frame.device].get(node)
        if stored is not None and template not in frame.realized:
            frame.realized[template] = memory_of(stored)
    return known[root] if sayable.are_sayable([known[root]]) else None


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
        return sayable.holds_no_value(node.arg)
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
