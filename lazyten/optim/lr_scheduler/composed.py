"""Schedulers of schedulers: SequentialLR, ChainedScheduler."""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from lazyten.optim.lr_scheduler.plateau import ReduceLROnPlateau
from lazyten.optim.optimizer import Optimizer
from lazyten.optim.param_groups import short
from lazyten.optim.scheduler import LRScheduler, set_rate, values
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, DTypeError


class _Composed(LRScheduler):
    """Several schedulers of one optimizer."""

    _not_saved = ("_schedulers",)
    _schedulers: list[LRScheduler]

    def _take(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        name = type(self).__name__
        tracing.refuse(f"making a {name}", "make it outside")
        if not schedulers:
            raise ArgumentError(f"{name} got no schedulers; give one or more")
        for number, one in enumerate(schedulers):
            if not hasattr(one, "optimizer"):
                raise DTypeError(f"{name}: scheduler {number} is {short(one)}, which has no "
                                 f"optimizer; give schedulers")
            if isinstance(one, ReduceLROnPlateau):
                raise ArgumentError(f"{name}: scheduler {number} is a ReduceLROnPlateau, whose "
                                    f"step() needs a metric; call its step() yourself")
            if one.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ArgumentError(f"{name}: scheduler {number}, a {type(one).__name__}, is of "
                                    f"another optimizer; all must be of one")
        self.optimizer = optimizer or schedulers[0].optimizer
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        """See LRScheduler; with the states of all schedulers."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for one, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            one.load_state_dict(saved)


class SequentialLR(_Composed):
    """One scheduler after the other: the next at each of these epochs, from its beginning."""

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
                 last_epoch: int = -1) -> None:
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(f"SequentialLR: {len(schedulers)} schedulers and "
                                f"{len(milestones)} milestones; there must be one fewer of these")
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo(self)
        first = self._schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        now = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            now._update_lr(0)
        else:
            now.step()
        self._last_lr = now.get_last_lr()


def _undo(scheduler: LRScheduler) -> None:
    """Take back the first steps of all schedulers: only the first of them begins now."""
    if isinstance(scheduler, _Composed):
        for one in scheduler._schedulers:
            _undo(one)
    elif hasattr(scheduler, "last_epoch"):
        scheduler.last_epoch -= 1


class ChainedScheduler(_Composed):
    """Several schedulers, each of which takes a step at each step."""

    def __init__(self, schedulers: Sequence[LRScheduler],
                 optimizer: Optimizer | None = None) -> None:
        self._take(schedulers, optimizer)
        self._last_lr = values(self.optimizer, "lr")

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates."""
        for one in self._schedulers:
            one.step()
        self._last_lr = values(self.optimizer, "lr")
