"""Gradients that users write, in templates: a numbered slot, whose rule each step has of its own.

In: what a user's forward() gave and was given, and a rule for its gradient. Out: a tensor over a
template that is the same in the next step, whose slot then has the rule of that step. In
backward(): the user's code, and hooks, run on real tensors, and what they gave as templates.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from lazyten.autodiff import hooks
from lazyten.execution import frame_runs, realization
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded.entries import fresh_tensor
from lazyten.frontend.recorded.keys import Value, frame_for, goes_on_in, interned, is_on, value_of
from lazyten.frontend.recorded.sayable import are_sayable, is_clean
from lazyten.ir.node import Node, bases, make
from lazyten.ir.ops import Op
from lazyten.operators.arrays import indexing
from lazyten.operators.math.gradients import freed
from lazyten.storage.deferred import deferred
from lazyten.storage.frames import Frame, go_on, here, memory_of, with_hooks
from lazyten.support.errors import GradientError, HookError
from lazyten.support.grad_mode import no_grad, of_backward
from lazyten.support.location import attribute_to


def templates_of(tensors: Sequence[Handle[Any]]) -> tuple[Frame, list[Node]] | None:
    """The frame under way, which does not rest from now on, and what an operation that is recorded
    in it would read of these; None if it does not know one of them."""
    while is_on():
        frame = here.current()
        if frame is None or frame.device != tensors[0]._storage.device:
            frame = frame_for(tuple(tensors), {})
        found = [_read(x, frame) for x in tensors]
        if here.current() is frame:
            known = [node for node in found if node is not None]
            frame.is_pinned = True
            return (frame, known) if len(known) == len(found) else None
    return None  # (a frame that has ended meanwhile is followed by another)


def go_on_with(tensors: Sequence[Handle[Any]]) -> None:
    """Record in the frame that the graph of one of these is known in, whichever is under way: what
    belongs to their gradients is to be there, too."""
    if not is_on():
        return
    for x in tensors:
        own: Frame | None = x._storage._frame
        if own is not None and x._storage.keeps_graph and x._lineage is None \
                and own.thread == get_ident() and not frame_runs.is_over(own):
            go_on(own)
            return


def watched(frame: Frame) -> Hashable:
    """Which gradients hooks are called with in a frame; None if it does not know one of them."""
    if not frame.hooks and not hooks.were_registered():
        return (), ()
    numbers = []
    for leaf_id, table in hooks.of_leaves().items():
        if leaf_id in frame.leaf_numbers:
            numbers.append(frame.leaf_numbers[leaf_id])
            if not _are_on_tensors(table):
                return None
    if any(leaf_id in frame.leaf_numbers for leaf_id in hooks.after_leaves()):
        return None
    for node, hooked in hooks.of_values():
        if node in frame.lifted:
            if hooked is not frame.hooks.get(frame.lifted[node]) or not _are_on_tensors(hooked):
                return None  # of a tensor that another frame made, or no frame
        elif any(base in frame.lifted or base.op is Op.LEAF
                 and hooks.one_leaf(base.arg) in frame.leaf_numbers for base in bases(node)):
            return None  # of a view that was made there
    return tuple([node for node, table in frame.hooks.items() if table]), tuple(numbers)


def _are_on_tensors(table: Mapping[int, Any]) -> bool:
    return all(isinstance(hook, OnTensor) for hook in table.values())


def are_watched(tensors: Sequence[Handle[Any]]) -> bool:
    """Whether hooks may be called with gradients of anything that these are computed from."""
    if not hooks.are_registered() and not any(any(f.hooks.values()) for f in with_hooks()):
        return False
    found = templates_of(tensors)
    return found is None or watched(found[0]) != ((), ())


class OnTensor:
    """A user's hook of a tensor: `on` is called with its gradients as tensors, the hook itself, as
    any, with nodes. Each gives what goes on in the gradient's place, or None."""

    def __init__(self, hook: Callable[[Any], Any], x: Handle[Any]) -> None:
        self.hook, self.device, self.shape, self.dtype = hook, x.device, x.shape, x.dtype

    def __call__(self, gradient: Node) -> Node | None:
        with of_backward(hooks.walk.is_differentiable):
            result = self.on(Handle._gradient(gradient, self.device))
        if result is None:
            return None
        return result.node if hooks.walk.is_differentiable else result.detach().node

    def on(self, gradient: Handle[Any]) -> Handle[Any] | None:
        """What the hook gives. GradientError if that is no gradient of the tensor."""
        result = self.hook(gradient)
        if result is None:
            return None
        if not isinstance(result, Handle):
            raise HookError(f"a hook gave {result!r:.40}; give the gradient to go on with, a "
                            f"tensor, or None")
        if result.shape != self.shape or result.dtype is not self.dtype:
            raise GradientError(f"a hook of a tensor of {self.dtype.name} {self.shape} gave a "
                                f"gradient of {result.dtype.name} {result.shape}; they must be "
                                f"alike")
        return result


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
    elif value.was_freed:
        node = freed(node)
    node = indexing.apply(value.moves or (), node)  # None: a region, which the template is alone
    if value.detached and requires_grad:
        node = make(Op.DETACH, node.dtype, (node,))
    if not is_clean(node):
        are_sayable([node])
    return node


def recorded_in(frame: Frame, template: Node) -> Any:
    """A tensor of this value, whose gradients may be asked for."""
    are_sayable([template])
    frame.recorded += 1
    return fresh_tensor(frame, interned(template, (), False, None, True, False), ())


@dataclass(frozen=True, slots=True)
class Call:
    """What the rule in a slot gave for a cotangent, as templates; or what hooks of a value did."""

    node: Node
    cotangent: Node
    parts: tuple[Node | None, ...]
    is_of_hooks: bool = False


class Calls:
    """Those of one backward pass: all of users' code runs once, in the order in which it is asked
    for."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.made: dict[tuple[Node, Node, bool], Call] = {}

    def parts(self, node: Node, cotangent: Node,
              is_of_hooks: bool = False) -> tuple[Node | None, ...]:
        """What the rule of a node gives, or gave before; or its hooks."""
        key = node, cotangent, is_of_hooks
        found = self.made.get(key)
        if found is None:
            parts = self._run(node, cotangent, self._passed if is_of_hooks else self._pulled_back)
            found = self.made[key] = Call(node, cotangent, parts, is_of_hooks)
        return found.parts

    def passed(self, node: Node, cotangent: Node) -> Node:
        """A cotangent after the hooks of its node."""
        if not self._hooks_of(node):
            return cotangent
        found, = self.parts(node, cotangent, is_of_hooks=True)
        assert found is not None, "a hook gives a gradient, or leaves it as it is"
        return found

    def _hooks_of(self, node: Node) -> list[Any]:
        table = hooks.of_leaf(self.frame.leaf_id(node.arg)) if node.op is Op.LEAF \
            else self.frame.hooks.get(node, {})
        return [hook for _, hook in sorted(table.items())]

    def _pulled_back(self, node: Node, cotangent: Node) -> tuple[Node | None, ...]:
        parts = self.frame.rules[node.arg.number].pulled_back(cotangent, node.src[1:],
                                                              self._as_tensor)
        return tuple([None if x is None else self._template(x) for x in parts])

    def _passed(self, node: Node, cotangent: Node) -> tuple[Node]:
        given = self._as_tensor(cotangent, self.frame.device)
        for hook in self._hooks_of(node):
            with no_grad():
                result = hook.on(given)
            if result is not None:
                given = result.detach()
                cotangent = self._template(given)
        return (cotangent,)

    def _run(self, node: Node, cotangent: Node,
             run: Callable[[Node, Node], tuple[Node | None, ...]]) -> tuple[Node | None, ...]:
        """Run a user's code as any other, though a walk may be recorded."""
        frame = self.frame
        before = here.first_serial, here.draws, here.frame, here.pull_back, hooks.walk.passed
        here.first_serial = here.frame = here.pull_back = hooks.walk.passed = None
        try:
            with attribute_to(node.place):
                goes_on_in(frame)
                return run(node, cotangent)
        finally:
            here.first_serial, here.draws, here.frame, here.pull_back = before[:4]
            hooks.walk.passed = before[4]

    def _as_tensor(self, cotangent: Node, device: str) -> Handle[Any]:
        return Handle._view(deferred(self.frame, cotangent, False), (), None)

    def _template(self, x: Handle[Any]) -> Node:
        """What a user's gradient is in the frame; of what that cannot know it reads the memory."""
        found = _read(x, self.frame)
        if found is None:
            stored = realization.computed(x.detach().node, x._storage.device, keeps_graph=False)
            found = self.frame.source(memory_of(stored), stored.shape)
        return found
