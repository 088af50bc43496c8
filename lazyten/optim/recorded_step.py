"""A step that was taken before: what it writes is looked up, as one operation (see
frontend/recorded/).

What a step of a CompiledOptimizer writes depends on its parameters, gradients and states as
templates, on its options, and on numbers that are inputs of its kernels: the same that a jitted
function depends on. These numbers are computed anew for each step.

Gradients of losses that are other graphs each time (of another size, of another course) would make
each step another program. After a few of them gradients are computed first where they are not
known, and the step, which reads their memory, is one that is.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from lazyten.execution import frame_runs
from lazyten.frontend.recorded import keys
from lazyten.frontend.recorded.keys import Value
from lazyten.frontend.recorded.recording import StandIns
from lazyten.frontend.recorded.sayable import Unsayable, are_clean
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape
from lazyten.ir.ops import Op
from lazyten.optim.last_step import (
    About,
    Compute,
    Last,
    Number,
    Step,
    again,
    ages_of,
    as_last,
    count,
    frame_of,
    last_of,
    names_of,
    values_of,
)
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import HeldNumber, Key, Numbers, Owner, scalar_type
from lazyten.storage import levels
from lazyten.storage.deferred import Deferred, know
from lazyten.storage.frames import Frame, here
from lazyten.storage.placeholder import NeedsValue
from lazyten.storage.storage import UNMARKED, Storage
from lazyten.support.errors import LazytenError
from lazyten.support.grad_mode import no_grad
from lazyten.support.remembered import Remembered

KINDS = 6
"""So many steps of an optimizer are recorded, for gradients that are other graphs each time, until
further ones are taken apart from gradients."""


class Repeatable(Owner, Protocol):
    """What this needs to know of an optimizer (`CompiledOptimizer`)."""

    defaults: Group
    param_groups: list[Group]
    _steps: Remembered[Step]
    _recorded: int
    _last: Last | None
    _checked: list[Any]
    _known_options: tuple[list[Any], Hashable]
    _skipped: Tensor | None

    @property
    def _is_repeatable(self) -> bool: ...
    @property
    def _states(self) -> defaultdict[Tensor, State]: ...
    def _new_state(self, p: Tensor, group: Group) -> State: ...
    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None: ...
    def _held(self, key: Key) -> HeldNumber: ...
    def _forget_step(self) -> None: ...


class Part(NamedTuple):
    """A parameter that has a gradient, with its state."""

    p: Tensor
    grad: Tensor
    state: State
    group: Group
    number: int


def step(optimizer: Repeatable) -> bool:
    """Take a step, and compute it, if a frame knows all that it takes."""
    if not keys.is_on() or not optimizer._is_repeatable:
        return False
    last = optimizer._last
    about = None if last is None or optimizer._skipped is not None else as_last(optimizer, last)
    if about is None:
        optimizer._last = None
        with no_grad():
            about = _looked_up(optimizer)
    if about is None:
        return False
    frame, last = about.frame, optimizer._last
    frame.recorded += 1
    if not about.is_apart:
        frame_runs.note_step(frame)
    try:
        frame_runs.write(frame, about.written, about.asked, UNMARKED if last is None else last.mark)
    except LazytenError:
        count(about.states, -1)
        optimizer._last = None
        raise
    return True


def _looked_up(optimizer: Repeatable, is_apart: bool = False) -> About | None:
    """A step that was taken before, or that is recorded now. is_apart: whether the gradients are in
    memory already."""
    parts = _parts(optimizer)
    if not parts:
        return None
    given = [x for part in parts for x in (part.p, part.grad)]
    kept = [v for part in parts for v in part.state.values() if isinstance(v, Tensor)]
    read = [] if optimizer._skipped is None else [optimizer._skipped]
    operands, states = [*given, *kept, *read], [part.state for part in parts]
    frame = frame_of(given[0], given[1::2])
    options = _options(optimizer, parts)
    values = None if frame is None else values_of(given, frame)
    condition = None if frame is None else values_of(read, frame)
    if frame is None or options is None or values is None or condition is None:
        return None
    place = _placed(kept, frame)
    others = values_of(kept, frame) if place is None else []
    if others is None:
        return None
    key = (tuple(values), tuple(others), tuple(condition), place, options)
    known = optimizer._steps.get(key)
    if known is None and not is_apart and optimizer._recorded >= KINDS \
            and _compute_apart(frame, given[1::2]):
        return _looked_up(optimizer, is_apart=True)
    writes = None
    if known is not None and all(map(_is_same, known.states, states)):
        writes = again(known, frame)
    if writes is None:
        if place is not None:
            others = _known(kept, place, frame)
        writes = _record(optimizer, parts, operands, [*values, *others, *condition], frame, key)
    elif known is not None and place is not None and not read:
        optimizer._last = last_of(optimizer, given, kept, values, place.first, known)
    if writes is None:
        return None
    storages = [x._storage for x in operands]
    return About(states, frame, {storages[n]: template for n, template in writes},
                 [s for s in storages if s.__class__ is Deferred], is_apart)


def _compute_apart(frame: Frame, grads: Sequence[Tensor]) -> bool:
    """Compute gradients before the step that reads them; False if none is pending."""
    pending = [s for s in [g._storage for g in grads] if s._frame is frame]
    if pending:
        frame_runs.note_step(frame)
        frame_runs.compute(frame, pending)
    return bool(pending)


def _is_same(state: State, another: State) -> bool:
    """Whether a state is the one that it was; those without anything are made anew each time."""
    return state is another or not (state or another)


def _parts(optimizer: Repeatable) -> list[Part]:
    """What the step is about; nothing if it is not one of numbers and tensors as they are here."""
    found = []
    for number, group in enumerate(optimizer.param_groups):
        if isinstance(group["lr"], Tensor):
            return []
        for p in group["params"]:
            grad = p._grad
            if grad is not None:
                state = optimizer._states.get(p) or optimizer._new_state(p, group)
                if optimizer._skipped is not None and "step" in state \
                        and not isinstance(state["step"], Tensor):
                    return []  # the device will count, from now on
                found.append(Part(p, grad, state, group, number))
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where tensors are that a step left in memory: sources in a row, of these types and shapes."""

    first: int
    kinds: tuple[tuple[Shape, DType], ...]


def _placed(tensors: Sequence[Tensor], frame: Frame) -> Place | None:
    """Make tensors the next sources of a frame that has read none of them; None if one is not
    simply in memory. They need no Values of their own, as the step alone reads them."""
    kinds, buffers = [], []
    storages = [x._storage for x in tensors]
    if len(set(storages)) < len(storages):  # one is written twice
        return None
    for x, s in zip(tensors, storages, strict=True):
        if s.__class__ is not Storage or x._moves or x._lineage is not None or s.keeps_graph \
                or s.leaf_id is not None or s.shared is not None or s.retaining \
                or s._mark is frame.mark or s.device != frame.device:
            return None
        node = s._node
        flat = node.src[0] if node.op is Op.RESHAPE else node
        if flat.op is not Op.BUFFER:
            return None
        buffers.append(flat.arg)
        kinds.append((node.shape, node.dtype))
    return Place(frame.add_all(buffers), tuple(kinds))


def _known(tensors: Sequence[Tensor], place: Place, frame: Frame) -> list[Value]:
    """The values of what was placed."""
    for number, x in enumerate(tensors, place.first):
        node = x._storage._node
        know(x._storage, frame, node, frame.numbered(number, node.shape))
    values = values_of(tensors, frame)
    assert values is not None, "what is in memory has values"
    return values


def _options(optimizer: Repeatable, parts: Sequence[Part]) -> Hashable | None:
    """What a step depends on besides tensors, and numbers that are inputs: the options that an
    optimizer has, and nothing that a user keeps beside them. None if one is a tensor or the
    like."""
    checked, found = optimizer._known_options
    if not checked or checked is not optimizer._checked:
        found = _fixed_options(optimizer)
        optimizer._known_options = optimizer._checked, found
    if found is None:
        return None
    states = [part.state for part in parts]
    ages, names = ages_of(states), names_of(states)
    return found, tuple(ages), tuple([part.number for part in parts]), tuple(names)


def _fixed_options(optimizer: Repeatable) -> Hashable | None:
    """What of this is the same as long as no option changes."""
    varying, found = optimizer._varying, []
    for number, group in enumerate(optimizer.param_groups):
        for name in (*optimizer.defaults, "maximize"):
            if name != "lr":
                value = group.get(name)
                listed = value if isinstance(value, list | tuple) else (value,)
                if not all(isinstance(v, int | float | str | None) for v in listed):
                    return None
                found.append((name, *[(type(v), bool(v) if (number, name, i) in varying else v)
                                      for i, v in enumerate(listed)]))
    return varying, tuple(found)


def _record(optimizer: Repeatable, parts: Sequence[Part], operands: Sequence[Tensor],
            values: Sequence[Value], frame: Frame,
            key: Hashable) -> Sequence[tuple[int, Node]] | None:
    """Take a step with stand-ins, and remember it."""
    stand_ins = StandIns(frame, operands, values)
    numbers: dict[Hashable, Number] = {}
    before = [part.state.get("step") for part in parts]

    def given(name: str, number: int, age: int, like: Tensor, compute: Compute) -> Tensor:
        key = name, number, age, scalar_type(like), like._storage.device
        found = numbers.get(key)
        if found is None:
            held = optimizer._held(key)
            template = frame.source(held.memory(compute()), ())
            found = numbers[key] = Number(held, compute, template)
        result: Tensor = stand_ins.read(found.template)
        return result

    optimizer._forget_step()
    skipped = optimizer._skipped
    optimizer._skipped = None if skipped is None else stand_ins.of(skipped)
    first_serial = here.first_serial = next(levels.serials)
    here.draws, here.frame = [], frame
    optimizer._input = given  # type: ignore[method-assign]
    try:
        for part in parts:
            _update(optimizer, part, stand_ins)
        writes = stand_ins.writes()
        is_clean = are_clean([w.template for w in writes], first_serial)
        if here.draws or any(w.keeps_graph or w.was_freed for w in writes):
            raise Unsayable
    except (NeedsValue, Unsayable):
        for part, taken in zip(parts, before, strict=True):
            if taken is not None:
                part.state["step"] = taken
        return None
    finally:
        optimizer._skipped = skipped
        del optimizer._input
        here.first_serial = here.frame = None
        optimizer._forget_step()  # what was done was done to stand-ins
    made = Step([part.state for part in parts], [*numbers.values()],
                [(w.operand, w.template) for w in writes])
    if is_clean:
        optimizer._steps.add(key, made, len(made.writes))
        optimizer._recorded += 1
    return made.writes


def _update(optimizer: Repeatable, part: Part, stand_ins: StandIns) -> None:
    """Do with stand-ins what a step does with one parameter."""
    state = {name: stand_ins.of(value) for name, value in part.state.items()}
    names = list(state.items())
    grad = stand_ins.of(part.grad)
    value = -grad if part.group.get("maximize") else grad
    counted = state if isinstance(state.get("step"), Tensor) else part.state
    numbers = Numbers(optimizer, part.p, counted, part.group, part.number)
    optimizer._update(stand_ins.of(part.p), value, state, part.group, numbers)
    if list(state.items()) != names:
        raise Unsayable
