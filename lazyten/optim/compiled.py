"""`CompiledOptimizer`: a step that is recorded like any computation and computed at its end,
together with the gradients and the loss that they came from.

Numbers that change between steps (the learning rate, Adam's corrections) are kernel inputs, so a
step is compiled once. In a jitted function they are computed anew for each call, and the other
options and the state are what the trace depends on. A subclass says what a parameter's state is at
first (`_initial`) and what a step makes of it (`_update`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from lazyten.execution import background
from lazyten.execution import realization as _realization
from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import reshape
from lazyten.operators.math import shapes
from lazyten.optim import recorded_step
from lazyten.optim.last_step import Last, Step
from lazyten.optim.optimizer import Optimizer, State
from lazyten.optim.param_groups import Group, check_betas
from lazyten.optim.sparse_gradients import any_is_sparse, as_dense
from lazyten.optim.step_numbers import (
    HeldNumber,
    Key,
    Numbers,
    Place,
    count_type,
    numbers_of,
    scalar_type,
)
from lazyten.storage import tracing
from lazyten.storage.deferred import kept
from lazyten.storage.frames import refuse_values
from lazyten.support.errors import ArgumentError, JitError, LazytenError
from lazyten.support.grad_mode import no_grad
from lazyten.support.remembered import Remembered

Params = Iterable[Any]
STEPS, WRITES = 64, 16_384
"""So many steps that differ are remembered, those of batches of other lengths, say; and of those
that did not come again, with so many writes in all."""


class CompiledOptimizer(Optimizer):
    """An optimizer whose step is recorded as a whole, and compiled once."""

    _strict = True
    _may_vary: frozenset[str] = frozenset({"weight_decay", "momentum", "betas"})
    """Options that `_update` reads as `numbers.options`, or in formulas, and otherwise only tests
    for being 0."""
    _takes_sparse = False  # whether a sparse gradient may be given, which is made dense
    _begins_with_rate = False  # whether a first state reads the learning rate
    _skipped: Tensor | None

    def _prepare(self) -> None:
        super()._prepare()
        self._scalars: dict[Key, HeldNumber] = {}
        self._traced_scalars: dict[Key, Tensor] = {}
        self._skipped = None
        self._forget_step()
        self._options: dict[Place, float] = {}
        self._checked: list[Any] = []
        self._rate_places: list[int] = []
        self._known_options: tuple[list[Any], Any] = [], None
        self._steps: Remembered[Step] = Remembered(STEPS, WRITES)
        self._recorded = 0
        self._last: Last | None = None
        self._varying: frozenset[Place] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_scalars", "_traced_scalars", "_skipped", "_written", "_before", "_counted",
                    "_ages", "_steps", "_recorded", "_last", "_options", "_checked",
                    "_known_options", "_varying", "_rate_places"}
        return {k: v for k, v in super().__getstate__().items() if k not in left_out}

    @property
    def _is_repeatable(self) -> bool:
        """Whether a step does the same each time but for the numbers that `_update` asks for."""
        return True

    # ---- what subclasses say ---------------------------------------------------------------------

    def _initial(self, p: Tensor, group: Group) -> State:
        """A parameter's state before its first step; 'step' counts its steps."""
        return {}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        """Write the parameter's next value and state by `_set`.

        Tensors are multiplied by `numbers.options`; `group` is for formulas, which read it anew at
        each call, and for what decides the form of the graph.
        """
        raise NotImplementedError

    def _check_options(self, group: Group) -> None:
        name = type(self).__name__
        for option in _NOT_NEGATIVE & group.keys():
            if not isinstance(group[option], tuple):
                check_positive(name, option, group[option])
        check_betas(name, group.get("betas", (0.0, 0.0)))
        if group.get("differentiable"):
            raise ArgumentError(f"{name}: differentiable=True: a step is computed for good, and no "
                                f"gradient flows through it; write the update with tensors, for "
                                f"example with lazyten.func.functional_call")

    # ---- a step ----------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, and compute all of it now.

        closure: recomputes the loss and its gradients first; what it gives is given back.
        """
        loss = self._loss_of(closure)
        if any_is_sparse(self):
            with as_dense(self, self._takes_sparse):
                self._take_step()
        else:
            self._take_step()
        return loss

    def _take_step(self) -> None:
        trace = tracing.current()
        if trace is not None and not trace.without_python:
            trace.action(self._check_rates)
        self._look_at_options()
        if trace is None and recorded_step.step(self):
            return
        self._forget_step()
        try:
            with no_grad(), background.paused():
                for number, group in enumerate(self.param_groups):
                    for p in group["params"]:
                        if p.grad is not None:
                            self._step_of(p, group, number)
            if self._skipped is not None:
                self._written.append(self._skipped)
            _realization.realize([t._storage for t in self._written])
        except LazytenError:
            self._take_back()
            raise
        self._traced_scalars.clear()
        if trace is not None:
            trace.observe(partial(self._depended_on, self._varying))
            trace.observe(partial(_differences, self._counted))
        self._forget_step()

    def _forget_step(self) -> None:
        """What the step under way has written, what was there before, and what it has counted."""
        self._written: list[Tensor] = []
        self._before: list[Callable[[], None]] = []
        self._counted: list[State] = []
        self._ages: dict[tuple[int, int], int] = {}

    def _step_of(self, p: Tensor, group: Group, number: int) -> None:
        state = self._states.get(p)
        if not state:
            state = self._new_state(p, group)
        grad = p.grad
        assert grad is not None
        value = -grad if group.get("maximize") else grad
        self._update(p, value, state, group, Numbers(self, p, state, group, number))
        self._written += [p, grad]

    def _new_state(self, p: Tensor, group: Group) -> State:
        """A first state. In a jitted function it is there before the first call begins."""
        trace = tracing.current()
        if trace is not None and self._begins_with_rate and isinstance(group["lr"], Tensor):
            trace.refused(JitError(
                f"{type(self).__name__}: the state begins with the learning rate, a tensor, whose "
                f"value a jitted function cannot read: make the first step outside, or give a "
                f"number"))
        with tracing.listening(None):
            state = self._initial(p, group)
        if state:
            self._states[p] = state
            if trace is not None:
                trace.undo(partial(self._forget, p))
        return state

    def _forget(self, p: Tensor) -> None:
        self._states.pop(p, None)

    def step_unless(self, skipped: Tensor) -> None:
        """step(), in which nothing changes if the zero-dim bool tensor `skipped` holds. It is not
        looked at: each new value is a choice between what was there and what the step makes."""
        if not type(self).step.__module__.startswith("lazyten."):  # what it does nobody knows
            super().step_unless(skipped)
            return
        self._skipped = skipped
        try:
            self.step()
        finally:
            self._skipped = None

    def _take_back(self) -> None:
        """Undo a step that could not be computed."""
        for give_back in reversed(self._before):
            give_back()
        if tracing.current() is None:
            for state in self._counted:
                state["step"] -= 1
        self._forget_step()

    def _set(self, tensor: Tensor, value: Tensor) -> None:
        """Write a parameter or a part of its state, unless the step is skipped."""
        if tracing.current() is None:
            self._before.append(kept(tensor._storage))
        tensor.copy_(value if self._skipped is None else where(self._skipped, tensor, value))
        self._written.append(tensor)

    def _count_on_device(self, state: State, like: Tensor, before: int) -> Tensor | None:
        """How many steps a parameter has taken, this one with it, where some may be skipped, or no
        Python runs: then only the device knows. None where none was or is. before: those of a
        state that counts none."""
        count = state.get("step", before)
        if not isinstance(count, Tensor):
            trace = tracing.current()
            if self._skipped is None and not (trace is not None and trace.without_python):
                return None
            refuse_values()  # a step that is being recorded would change the state
            if trace is not None:
                trace.undo(partial(state.update, {"step": count}))
            with tracing.listening(None):
                count = state["step"] = Tensor._copy_of(float(count), count_type(), like.device)
        taken = count + 1
        self._set(count, taken)
        return taken.to(scalar_type(like))

    def _count(self, state: State) -> None:
        """Count a step of one parameter. Parameters with equal counts share their numbers."""
        trace = tracing.current()
        if trace is None:
            _add_one(state)
        else:
            trace.action(partial(_add_one, state), partial(_kept_count, state))
        self._counted.append(state)

    def _input(self, name: str, number: int, age: int, like: Tensor,
               compute: Callable[[], float]) -> Tensor:
        """A number as a zero-dim tensor: a kernel input, made anew only when it changes. age: which
        of the counts of steps in a group it belongs to."""
        trace = tracing.current()
        dtype = scalar_type(like)
        key = (name, number, age, dtype, like._storage.device)
        if trace is None:
            memory = self._held(key).memory(compute())
            return Tensor._of(memory.node(()), like.device)
        if key not in self._traced_scalars:
            node = trace.host_input(lambda: np.array([compute()], dtype.numpy), dtype, 1,
                                    like.device, f"{name}_{number}" if number else name)
            self._traced_scalars[key] = Tensor._of(reshape(node, ()), like.device)
        return self._traced_scalars[key]

    def _held(self, key: Key) -> HeldNumber:
        """Memory for a number, outside of a trace."""
        held = self._scalars.get(key)
        if held is None:
            held = self._scalars[key] = HeldNumber(*key[3:])
        return held

    def _look_at_options(self) -> None:
        """Check the options, before anything is changed, and notice those that are not what they
        were at the last step."""
        groups, values, rates = self.param_groups, list[Any](), self._rate_places
        for group in groups:
            values += group
            values += group.values()
        if len(values) == len(self._checked):
            for place in rates:
                values[place] = None  # they are looked at in each step
            if all(map(is_, values, self._checked)):
                self._check_rates()
                return
        values, self._rate_places = _without_rates(groups)
        for group in groups:
            self._check_options(group)
        self._notice_options()
        fixed = [v for group in groups for name, v in group.items() if name != "params"]
        is_settled = not self._varying and all(map(_never_changes, fixed))
        self._checked = values if is_settled else []

    def _check_rates(self) -> None:
        """Before a step changes anything, look at what may have another value each time."""
        for group in self.param_groups:
            rate = group["lr"]
            if rate.__class__ is not float or not rate >= 0:
                check_positive(type(self).__name__, "lr", rate)

    def _notice_options(self) -> None:
        """Find the numbers among the options that are not what they were at the last step: from now
        on they are kernel inputs, as schedules of momentum and weight decay go on changing them."""
        found = dict(numbers_of(self.param_groups, self._may_vary))
        last, self._options = self._options, found
        changed = {place for place, value in found.items() if last.get(place, value) != value}
        self._varying |= changed
        if self._varying and (self._skipped is not None or any(
                isinstance(state.get("step"), Tensor) for state in self._states.values())):
            self._varying = frozenset()  # as formulas are of tensors

    def _depended_on(self, varying: frozenset[Place]) -> list[object]:
        """What the graph of a step depends on: the options but 'lr' and those that vary, and which
        tensors there are. (Captures keep these alive, so that no id comes again.)"""
        seen: list[object] = []
        for number, group in enumerate(self.param_groups):
            seen += [id(group), isinstance(group["lr"], Tensor)]
            for name, value in group.items():
                if name not in ("lr", "params"):
                    listed = value if isinstance(value, (list, tuple)) else (value,)
                    seen += [bool(v) if (number, name, i) in varying else v
                             for i, v in enumerate(listed)] if varying else listed
            seen += map(id, group["params"])
        states = self._states.values()
        seen += map(id, states)
        seen += [id(v) for state in states for v in state.values() if isinstance(v, Tensor)]
        return seen

    # ---- saving ----------------------------------------------------------------------------------

    def _saved(self, state: State) -> State:
        """With the count of steps as a tensor, as PyTorch keeps it."""
        if isinstance(state.get("step"), int):
            state["step"] = Tensor._copy_of(float(state["step"]), count_type(), "cpu")
        return state

    def _loaded(self, state: State) -> State:
        """With the count of steps as a number."""
        if "step" in state:
            state["step"] = int(state["step"])
        return {name: value for name, value in state.items() if value is not None}


def _add_one(state: State) -> None:
    state["step"] += 1


def _kept_count(state: State) -> Callable[[], None]:
    """What gives a state the count that it has now."""
    return partial(state.__setitem__, "step", state["step"])


def _differences(states: list[State]) -> list[int]:
    """Which of these states have counted the same number of steps."""
    return [s["step"] - states[0]["step"] for s in states]


def _without_rates(groups: Sequence[Group]) -> tuple[list[Any], list[int]]:
    """The options by name, but for the rates; and the places of these."""
    values, rates = list[Any](), list[int]()
    for group in groups:
        values += group
        rates.append(len(values) + [*group].index("lr"))
        values += group.values()
        values[rates[-1]] = None
    return values, rates


_NOT_NEGATIVE = {"lr", "weight_decay", "momentum", "eps", "momentum_decay", "lr_decay",
                 "initial_accumulator_value", "rho", "alpha"}


def _never_changes(option: Any) -> bool:
    """Whether an option is what it was as long as it is the same object."""
    if isinstance(option, tuple):
        return all(map(_never_changes, option))
    return isinstance(option, int | float | str | None)


def check_positive(name: str, option: str, value: Any) -> None:
    """ArgumentError unless an option is a number, 0 or more. (The value of a tensor is its own.)"""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ArgumentError(f"{name}: {option} is a tensor of shape {value.shape}; it must "
                                f"have one element")
        return
    if not shapes.as_number(value, name, option) >= 0:
        raise ArgumentError(f"{name}: {option}={value!r} must be a number, 0 or more")


def full(like: Tensor, value: float = 0.0) -> Tensor:
    """A number everywhere, in memory: a kernel input from the first step on."""
    values = np.full(like.shape, value, like.dtype.compute)
    return Tensor._copy_of(values, like.dtype, like.device)
