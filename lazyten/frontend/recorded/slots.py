"""Gradients that users write, in templates: a numbered slot, whose rule each step has of its own.

In: what a user's forward() gave and was given, and a rule for its gradient. Out: a tensor over a
template that is the same in the next step, whose slot then has the rule of that step. In
backward(): the user's code run on real tensors, and what it gave as templates.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazyten.execution import realization
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded.entries import fresh_tensor
from lazyten.frontend.recorded.keys import Value, frame_for, goes_on_in, interned, is_on, value_of
from lazyten.frontend.recorded.sayable import are_sayable, is_clean
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.operators.arrays import indexing
from lazyten.storage.deferred import deferred
from lazyten.storage.frames import Frame, Slot, here, memory_of
from lazyten.support.location import attribute_to


def templates_of(tensors: Sequence[Handle[Any]]) -> tuple[Frame, list[Node]] | None:
    """The frame under way, and what an operation that is recorded in it would read of these; None
    if it does not know one of them."""
    while is_on():
        frame = here.current()
        if frame is None or frame.device != tensors[0]._storage.device:
            frame = frame_for(tuple(tensors), {})
        found = [_read(x, frame) for x in tensors]
        if here.current() is frame:
            known = [node for node in found if node is not None]
            return (frame, known) if len(known) == len(found) else None
    return None  # (a frame that has ended meanwhile is followed by another)


def _read(x: Handle[Any], frame: Frame) -> Node | None:
    value = value_of(x, frame)
    if value is None or value.leaf_number is not None and not value.template.src \
            and value.template.op is Op.CONST:  # a leaf is to be put into memory
        return None
    return _node_of(value)


def _node_of(value: Value) -> Node:
    """The template of a tensor, with its moves, through which gradients flow as through it."""
    node = value.template
    requires_grad = value.keeps_graph or value.was_freed or value.leaf_number is not None
    if value.leaf_number is not None:
        node = make(Op.LEAF, node.dtype, (node,), value.leaf_number)
    node = indexing.apply(value.moves, node)
    if value.detached and requires_grad:
        node = make(Op.DETACH, node.dtype, (node,))
    if not is_clean(node):
        are_sayable([node])
    return node


def attached(frame: Frame, value: Node, inputs: Sequence[Node], slot: Slot) -> Any:
    """A tensor with this value, whose gradient for inputs is given by the rule in a slot."""
    return recorded_in(frame, make(Op.CUSTOM_GRADIENT, value.dtype, (value, *inputs), slot))


def recorded_in(frame: Frame, template: Node) -> Any:
    """A tensor of this value, whose gradients may be asked for."""
    are_sayable([template])
    frame.recorded += 1
    return fresh_tensor(frame, interned(template, (), False, None, True, False))


@dataclass(frozen=True, slots=True)
class Call:
    """What the rule in a slot gave for a cotangent, as templates."""

    node: Node
    cotangent: Node
    parts: tuple[Node | None, ...]


class Calls:
    """Those of one backward pass: each rule is run once, in the order in which it is asked for."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.made: dict[Node, Call] = {}

    def parts(self, node: Node, cotangent: Node) -> tuple[Node | None, ...]:
        """What the rule of a node gives, or gave before."""
        found = self.made.get(node)
        if found is None:
            found = self.made[node] = Call(node, cotangent, self._run(node, cotangent))
        return found.parts

    def _run(self, node: Node, cotangent: Node) -> tuple[Node | None, ...]:
        """Run a user's code as any other, though a walk may be recorded."""
        frame = self.frame
        before = here.first_serial, here.draws, here.frame, here.pull_back
        here.first_serial = here.frame = here.pull_back = None
        try:
            with attribute_to(node.place):
                goes_on_in(frame)
                given: Handle[Any] = Handle._view(deferred(frame, cotangent, False), (), None)
                parts = frame.rules[node.arg.number].pulled_back(given, node.src[1:])
                return tuple([None if x is None else self._template(x) for x in parts])
        finally:
            here.first_serial, here.draws, here.frame, here.pull_back = before

    def _template(self, x: Handle[Any]) -> Node:
        """What a user's gradient is in the frame; of what that cannot know it reads the memory."""
        found = _read(x, self.frame)
        if found is None:
            stored = realization.computed(x.detach().node, x._storage.device, keeps_graph=False)
            found = self.frame.source(memory_of(stored), stored.shape)
        return found
