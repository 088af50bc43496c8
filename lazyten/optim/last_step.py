"""The step of an optimizer that is about the same as the last one, which does the same.

In: an optimizer, and what its last step was about. Out: what the next one writes, if that is about
the very same tensors, untouched since, and about gradients that are in their frame what those
before were in theirs. All that a step depends on is looked at, in a tenth of the time that it takes
to look the step up (recorded_step.py): list by list, each of objects of one kind, whose fields
Python then finds at once.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import is_
from typing import Any, NamedTuple, Protocol

from lazyten.frontend.recorded import keys
from lazyten.frontend.recorded.keys import Value
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import HeldNumber
from lazyten.storage.deferred import Deferred
from lazyten.storage.frames import Frame, memory_of
from lazyten.storage.storage import Storage
from lazyten.support.grad_mode import no_grad
from lazyten.support.location import user_place

Compute = Callable[[], float]
Mark = Callable[[], None]
_SHAPED = Op.RESHAPE


class Stepping(Protocol):
    """What this needs to know of an optimizer (`CompiledOptimizer`)."""

    param_groups: list[Group]
    _checked: list[Any]

    @property
    def _states(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is computed for each step, and the template of the source that it was."""

    held: HeldNumber
    compute: Compute
    template: Node


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did: operand -> its storage's new template. states: those it was taken with."""

    states: Sequence[State]
    numbers: Sequence[Number]
    writes: Sequence[tuple[int, Node]]


class About(NamedTuple):
    """What a step is about: states, the frame that knows all, what it writes, and what else is to
    be computed. is_apart: whether gradients were computed before it."""

    states: Sequence[State]
    frame: Frame
    written: Mapping[Storage, Node]
    asked: Sequence[Storage]
    is_apart: bool = False


@dataclass(slots=True, eq=False)
class Last:
    """What the last step was about.

    checked: the options. counts: of parameters in each group. states: those of params. names: of
    what they have; held: these values as the step has left them; kept: those that are tensors,
    whose storages have `mark` as long as nobody else reads or changes them. values, grads: what
    parameters and gradients were in their frame. first: the number of the first source for states.
    written: by the numbers of storages, of parameters before states, their templates.
    """

    checked: list[Any]
    counts: list[int]
    params: list[Tensor]
    states: list[State | None]
    names: list[str]
    held: list[Any]
    kept: list[Tensor]
    storages: list[Storage]
    values: list[Value]
    grads: list[Value]
    first: int
    step: Step
    written: Sequence[tuple[int, Node]]
    mark: Mark


def last_of(optimizer: Stepping, given: Sequence[Tensor], kept: list[Tensor],
            values: Sequence[Value], first: int, step: Step) -> Last | None:
    """What a step was about, of parameters and gradients by turns; None if that can be said in
    other words alone."""
    params = list(given[::2])
    states = [*map(optimizer._states.get, params)]
    written = [(n // 2 if n < len(given) else n - len(params), t) for n, t in step.writes]
    if not optimizer._checked or not all(value.is_memory for value in values) \
            or any(value.leaf_number is not None for value in values[1::2]) \
            or any(n % 2 for n, _ in step.writes if n < len(given)):
        return None
    return Last(optimizer._checked, _counts(optimizer), params, states, names_of(states),
                _held_by(states), kept, [x._storage for x in kept], list(values[::2]),
                list(values[1::2]), first, step, written, partial(_nothing))


def _nothing() -> None:
    return None


def as_last(optimizer: Stepping, last: Last) -> About | None:
    """The step that was taken last, if the next one is about the same."""
    groups = optimizer.param_groups
    if last.checked is not optimizer._checked or any(isinstance(g["lr"], Tensor) for g in groups):
        return None
    params = [p for group in groups for p in group["params"] if p._grad is not None]
    if not _are(params, last.params) or not _are_untouched(optimizer, last) \
            or len(groups) > 1 and _counts(optimizer) != last.counts:
        return None
    grads = [p._grad for p in params]
    frame = frame_of(params[0], grads)
    given = None if frame is None else _given(params, grads, last, frame)
    if frame is None or given is None or len(frame.sources) != last.first:
        return None
    changed, read = given
    asked = [s for s in chain(read, changed) if s.__class__ is Deferred]
    flat = [n.src[0] if n.op is _SHAPED else n for n in [s._node for s in last.storages]]
    frame.add_all([memory_of(n) if n.src else n.arg for n in flat])
    if again(last.step, frame) is None:
        return None
    last.held = _held_by(last.states)
    changed += last.storages
    return About(last.step.states, frame, {changed[n]: template for n, template in last.written},
                 asked)


def _given(params: Sequence[Tensor], grads: Sequence[Tensor], last: Last,
           frame: Frame) -> tuple[list[Storage], list[Storage]] | None:
    """The storages of parameters and gradients, if these are in a frame what they were."""
    changed = _parameters(params, last.values, frame)
    read = _gradients(grads, last.grads, frame)
    if len(changed) == len(read) == len(params):
        return changed, read
    with no_grad():
        found = values_of([x for pair in zip(params, grads, strict=True) for x in pair], frame)
    if found is None or found[::2] != last.values or found[1::2] != last.grads:
        return None
    return [p._storage for p in params], [g._storage for g in grads]


def _are_untouched(optimizer: Stepping, last: Last) -> bool:
    """Whether parameters have the states that the last step has left, whose tensors nobody has read
    or changed since."""
    states = [*map(optimizer._states.get, last.params)]
    if not _are(states, last.states) or names_of(states) != last.names \
            or not _are(_held_by(states), last.held):
        return False
    mark = last.mark
    return [s for x in last.kept if (s := x._storage)._mark is mark and not x._moves
            and x._lineage is None and s.leaf_id is None] == last.storages


def _held_by(states: Sequence[State | None]) -> list[Any]:
    """All that there is in states: tensors, and numbers, such as how many steps were taken."""
    return [value for state in states if state for value in state.values()]


def _parameters(params: Sequence[Tensor], values: Sequence[Value], frame: Frame) -> list[Storage]:
    """The storages of those that are these values in a frame, and may be written in it."""
    mark, numbers = frame.mark, frame.leaf_numbers
    return [s for p, value in zip(params, values, strict=True)
            if p._value is value and p._lineage is None and p._moves is value.moves
            and (s := p._storage)._mark is mark and s._template is value.template
            and value.leaf_number == numbers.get(s.leaf_id, 0) and s.__class__ is Storage
            and s.shared is None and not s.keeps_graph and not s.was_freed]


def _gradients(grads: Sequence[Tensor], values: Sequence[Value], frame: Frame) -> list[Storage]:
    """The storages of those that are these values in a frame, and might be written in it."""
    mark = frame.mark
    return [s for g, value in zip(grads, values, strict=True)
            if g._value is value and g._lineage is None and g._moves is value.moves
            and (s := g._storage)._mark is mark and s._template is value.template
            and s.leaf_id is None and s.shared is None and not s.keeps_graph and not s.was_freed]


def _are(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the same objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def _counts(optimizer: Stepping) -> list[int]:
    """How many parameters of each group have a gradient."""
    return [sum([p._grad is not None for p in group["params"]])
            for group in optimizer.param_groups]


def names_of(states: Sequence[State | None]) -> list[str]:
    """What there is in states."""
    return [*chain.from_iterable([state for state in states if state])]


def ages_of(states: Sequence[State]) -> list[int]:
    """How many steps each has taken more than the first, of those that Python counts."""
    counts = [state.get("step") for state in states]
    first = next((n for n in counts if isinstance(n, int)), 0)
    return [n - first if isinstance(n, int) else 0 for n in counts]


def values_of(operands: Sequence[Tensor], frame: Frame) -> list[Value] | None:
    """What tensors are in a frame; None if they have no part in it, or are not to be written."""
    found: list[Value] = []
    if not keys.add_to_key(operands, found, [], frame) \
            or keys.are_read_alone(zip(operands, found, strict=True)):
        return None
    return found


def frame_of(p: Tensor, grads: Sequence[Tensor]) -> Frame | None:
    """The frame that knows the gradients, or a new one; None if it does not go on. p: one of the
    parameters."""
    for grad in grads:
        frame: Frame | None = grad._storage._frame
        if frame is not None:
            return frame if keys.goes_on_in(frame) else None
    return keys.begun(p._storage.device, user_place())


def again(known: Step, frame: Frame) -> Sequence[tuple[int, Node]] | None:
    """Count a step; what it writes, if its numbers are the sources that they were."""
    count(known.states, 1)
    for number in known.numbers:
        if frame.source(number.held.memory(number.compute()), ()) is not number.template:
            count(known.states, -1)
            return None
    return known.writes


def count(states: Sequence[State], by: int) -> None:
    """Count more steps, where states do, and not on a device."""
    for state in states:
        if isinstance(state.get("step"), int):
            state["step"] += by
