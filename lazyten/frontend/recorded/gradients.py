"""backward() that was done before: the gradients of a template are looked up."""
from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from lazyten.autodiff import gradient, hooks
from lazyten.execution import frame_runs
from lazyten.frontend.core import handle
from lazyten.frontend.core.forms import handles_of, is_sparse
from lazyten.frontend.core.handle import Handle, held_as_rows, leaves
from lazyten.frontend.recorded.entries import fresh_tensor
from lazyten.frontend.recorded.keys import Value, goes_on_in, interned, is_on, value_of
from lazyten.frontend.recorded.sayable import are_sayable, is_clean
from lazyten.frontend.recorded.slots import Call, Calls, watched
from lazyten.ir.node import Node, const, elementwise, make
from lazyten.ir.ops import Op
from lazyten.operators.arrays import indexing
from lazyten.storage.deferred import defer, deferred_all
from lazyten.storage.frames import Frame, here, template_in
from lazyten.storage.placeholder import NeedsValue
from lazyten.storage.storage import Storage
from lazyten.support.remembered import Remembered

Parts = Sequence[tuple[int, Value]]
_new = object.__new__
COURSES = 8
"""So many courses of the same pass are remembered, where what users' code gives differs."""


@dataclass(frozen=True, slots=True)
class Course:
    """A backward pass: what users' rules gave in it, in order; for each leaf its number and its
    gradient, through which none flows; and whether these take values, which are to be freed."""

    calls: tuple[Call, ...]
    parts: Parts
    saves_values: bool


_courses: Remembered[list[Course]] = Remembered(256, 8)


def backward(root: Any, retain_graph: bool) -> bool:
    """Do what backward() of a tensor of one element does, if a frame knows all that it takes."""
    storage = root._storage
    frame, template = storage._frame, storage._template
    if frame is None or not storage.keeps_graph or root._lineage is not None \
            or not is_on() or gradient.observer is not None \
            or storage.retaining or root.numel() != 1 or not goes_on_in(frame):
        return False
    assert template is not None
    calls, hooked = Calls(frame), watched(frame)
    course = None if hooked is None else \
        _course(frame, (template, root._moves, hooked), calls)
    if course is None:
        return False
    parts = course.parts
    owners = _owners(frame, parts)
    are_said = not calls.made or all(is_clean(part.template) for _, part in parts)
    if owners is None or not are_said or not _can_collect(frame, owners):
        if calls.made:  # users' code is run once
            root._add_to_leaves([(frame.leaf_id(number), frame.real(part.template))
                                 for number, part in parts], retain_graph)
        return bool(calls.made)
    _collect(frame, root._storage, parts, owners)
    hooks.finished()
    if not retain_graph:
        frame.is_freed = True
        if course.saves_values:
            storage.free_graph()
    return True


def forget() -> None:
    """Forget all gradients."""
    _courses.clear()


def _course(frame: Frame, key: tuple[Node, Any, Hashable], calls: Calls) -> Course | None:
    """The backward pass. key: the root's template and moves, and what hooks are called with."""
    known, (template, moves, _) = _courses.get(key), key
    for course in known or ():
        if all(calls.parts(c.node, c.cotangent, c.is_of_hooks) == c.parts for c in course.calls):
            return course
    if not is_clean(template):
        return None
    here.first_serial, here.frame, here.pull_back = frame.number, frame, calls.parts
    hooks.walk.passed = calls.passed
    try:
        node = indexing.apply(moves, template)
        pairs = gradient.leaf_gradients(node, const(1.0, node.dtype, node.shape))
        parts = [(leaf.arg, _value(make(Op.DETACH, part.dtype, (part,)))) for leaf, part in pairs]
    except NeedsValue:
        return None
    finally:
        here.first_serial = here.frame = here.pull_back = hooks.walk.passed = None
    made = Course(tuple(calls.made.values()), parts, gradient.saves_values(template))
    if are_sayable([part.template for _, part in parts]):
        found = [] if known is None else known
        found[COURSES - 1:] = []
        found.insert(0, made)
        if known is None:
            _courses.add(key, found)
    elif not calls.made:
        return None
    return made


def _value(template: Node) -> Value:
    """A gradient as operations see it."""
    return interned(template, (), False, None, False, False)


def _owners(frame: Frame, parts: Parts) -> list[Any] | None:
    """The tensors whose gradients these are; None if one is a view, or has a gradient that no frame
    could know."""
    owners = leaves.owners(frame.ids_of([number for number, _ in parts]))
    for owner in owners:
        if owner is not None and (owner._moves or owner._grad is not None and (
                is_sparse(owner._grad) or not _is_plain(owner._grad))):
            return None
    return owners


def _can_collect(frame: Frame, owners: Sequence[Any]) -> bool:
    """Whether the frame goes on, and knows what was collected."""
    collected = [x for x in owners if x is not None and x._grad is not None]
    if not collected:
        return True
    _compute_gradients(collected)
    return all(value_of(x._grad, frame) is not None for x in collected) and goes_on_in(frame)


def _is_plain(grad: Handle[Any]) -> bool:
    storage = grad._storage
    return not (grad._moves or grad._lineage is not None or storage.shared is not None
                or storage.requires_grad or storage.retaining)


def _compute_gradients(owners: Sequence[Any]) -> None:
    """Compute gradients that were collected and not looked at, before others are added; but for
    those that were set to a number."""
    for owner in owners:
        storage = owner._grad._storage
        frame = storage._frame
        if frame is not None and storage.number is None:
            frame_runs.compute(frame, [storage])


def _collect(frame: Frame, root: Storage, parts: Parts, owners: Sequence[Any]) -> None:
    """Add the gradients to `.grad` of the leaves, which is known in the frame where there is one. A
    leaf that has had two ids has two."""
    new: dict[int, Node] = {}
    touched = [root]
    if held_as_rows:
        touched += _collect_rows(frame, parts, owners)
    for (_, part), owner in zip(parts, owners, strict=True):
        if owner is not None and owner._grad is None:
            new.setdefault(id(owner), part.template)
    made = iter(deferred_all(frame, new.values()))
    for (_, part), owner in zip(parts, owners, strict=True):
        if owner is None or is_sparse(owner._grad):
            continue
        grad = owner._grad
        if grad is None:
            grad = owner._grad = _new(handle.results)
            grad._storage, grad._moves, grad._value = next(made), (), part
            grad._lineage = grad._grad = None
        else:
            before = template_in(grad._storage, frame)
            assert before is not None
            defer(grad._storage, frame, elementwise(Op.ADD, before, part.template), False)
        touched.append(grad._storage)
    frame.recorded += len(new)
    frame_runs.join(touched)


def _collect_rows(frame: Frame, parts: Parts, owners: Sequence[Any]) -> list[Storage]:
    """Make `.grad` of leaves that were looked up as rows these rows, where that is all; gives what
    has them."""
    def as_tensor(node: Node) -> Any:
        return fresh_tensor(frame, _value(node), ())
    touched: list[Storage] = []
    once = {key for key, count in Counter(map(id, owners)).items() if count == 1}
    for (_, part), owner in zip(parts, owners, strict=True):
        if id(owner) in once and owner is not None and owner._grad is None \
                and owner._leaf_id in held_as_rows:
            owner._grad = handle.results._rows_of_gradient(owner, part.template.src[0], as_tensor)
            if owner._grad is not None:
                touched.append(handles_of(owner._grad)[-1]._storage)
    return touched
