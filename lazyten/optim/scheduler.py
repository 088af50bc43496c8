"""`LRScheduler`: what sets the learning rates of an optimizer's groups, made for subclassing.

Plain Python. In a jitted function a scheduler's step is done at each call, in its place among the
steps of optimizers.
"""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.optim.optimizer import Optimizer
from lazyten.optim.param_groups import Group, short
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, DTypeError, NotDefinedError, StateError

Step = Callable[..., None]
Rates = list[Any]
"""A number a group, or a tensor where the group's learning rate is one."""


class LRScheduler(tracing.TellsTraces):
    """Sets `param_groups[...]["lr"]` at each step() to what get_lr() of a subclass gives.

    last_epoch: how many steps were taken, -1 for a new start. Each group keeps the rate that it had
    then as 'initial_lr'; `base_lrs` lists them.
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _not_saved: tuple[str, ...] = ()

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked(type(self).__name__, optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise StateError(f"{type(self).__name__} with last_epoch={last_epoch}: group "
                                 f"{number} of the optimizer has no 'initial_lr'; load the "
                                 f"optimizer's state first, or begin with last_epoch=-1")
        self.base_lrs: Rates = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _told(vars(cls)["step"])  # type: ignore[method-assign]

    def _initial_step(self) -> None:
        """Set the first rates."""
        tracing.refuse(f"making a {type(self).__name__}", "make it outside")
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> Rates:
        """The rates of the groups now; subclasses define it. Call get_last_lr() instead."""
        raise NotDefinedError(f"{type(self).__name__} does not define get_lr()")

    def get_last_lr(self) -> Rates:
        """The rates that were set last, one a group."""
        tracing.refuse("get_last_lr()", "read it outside, as it is not the same at each call")
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates, or, which is deprecated, those of an epoch. Call it after the
        optimizer's step()."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn("lr_scheduler.step() is called before optimizer.step(), so the first "
                          "learning rate is never used; call them in the opposite order",
                          UserWarning, stacklevel=3)
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._setting():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._set(rates)

    @contextmanager
    def _setting(self) -> Iterator[None]:
        """Around a call of get_lr() that sets rates."""
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = values(self.optimizer, "lr")

    def _rates(self, factor: Any = None) -> Rates:
        """The groups' rates of now, times a number unless it is None."""
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() is for step(); use get_last_lr() to look at rates", UserWarning,
                          stacklevel=3)
        found = values(self.optimizer, "lr")
        return found if factor is None else [rate * factor for rate in found]

    # ---- saving ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the scheduler knows but its optimizer; functions are not saved."""
        tracing.refuse("state_dict() of a scheduler", "call it outside, as it is not the same at "
                                                      "each call")
        left_out = ("optimizer", *self._not_saved)
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as the scheduler did whose state this is. Load the optimizer's state after it."""
        if not isinstance(state_dict, dict):
            raise StateError(f"{type(self).__name__}.load_state_dict: {short(state_dict)} is no "
                             f"scheduler's state; give what state_dict() gave")
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """The name that LRScheduler had once, for programs that subclass it."""


def _told(step: Step) -> Step:
    """step(), done by a jitted function at each call."""
    @functools.wraps(step)
    def told(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(given, Tensor) for given in (*args, *kwargs.values())):
            tracing.refused(f"{type(self).__name__}.step() is given a tensor, whose value a jitted "
                            f"function cannot look at; call it outside")
        trace = tracing.current()
        if trace is None:
            step(self, *args, **kwargs)
            return
        run = functools.partial(self.step, *args, **kwargs)
        if trace.acts_afterwards(self.optimizer):
            trace.afterwards(run, self, ())
        else:
            trace.action(run)
    return told


LRScheduler.step = _told(LRScheduler.step)  # type: ignore[method-assign]


def warn_of_epoch() -> None:
    """Of step(epoch)."""
    warnings.warn("step(epoch) is deprecated: call step() alone, once an epoch", UserWarning,
                  stacklevel=4)


def checked(name: str, optimizer: Any) -> Optimizer:
    """The optimizer. DTypeError for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"{name}: {short(optimizer)} is not an optimizer; give the optimizer, not "
                         f"a model or its parameters")
    return optimizer


def period(name: str, option: str, value: Any) -> Any:
    """A number of epochs or steps that rates are divided by. ArgumentError unless it is above 0."""
    if not shapes.as_number(value, name, option) > 0:
        raise ArgumentError(f"{name}: {option}={value!r} must be a number above 0")
    return value


def copied(rate: Any) -> Any:
    """A rate that does not change with the group's."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def values(optimizer: Optimizer, key: str) -> Rates:
    """An option of all groups."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_rate(group: Group, rate: Any) -> None:
    """Set a group's learning rate, in place if it is a tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(float(rate))
    else:
        group["lr"] = rate


def one_a_group(name: str, optimizer: Optimizer, given: Any) -> list[Any]:
    """A value a group, of a list of them or of one for all. ArgumentError for a list too long."""
    groups = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [given] * groups
    if len(given) != groups:
        raise ArgumentError(f"{name} has {len(given)} values, and the optimizer {groups} groups; "
                            f"give one value a group, or one for all")
    return list(given)
