"""Rates that go up and down, and momenta against them: CyclicLR, OneCycleLR."""
from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from lazyten.optim.optimizer import Optimizer
from lazyten.optim.param_groups import Group
from lazyten.optim.scheduler import LRScheduler, Rates, checked, one_a_group, period, set_rate
from lazyten.support.errors import ArgumentError

Rate = float | list[float]


class _Cycle(LRScheduler):
    """With the momentum, or the first beta, of each group going against the rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momenta(self, optimizer: Optimizer, base: Any, most: Any, last_epoch: int) -> None:
        """Note between which momenta to go, in the groups, too; begin at the greatest."""
        if not self.cycle_momentum:
            return
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ArgumentError(f"{type(self).__name__}: {type(optimizer).__name__} has no "
                                f"momentum and no betas; give cycle_momentum=False")
        self.use_beta1 = "betas" in optimizer.defaults
        bases = one_a_group("base_momentum", optimizer, base)
        greatest = one_a_group("max_momentum", optimizer, most)
        self._keep_momenta(bases, greatest)
        if last_epoch == -1:
            for high, low, group in zip(greatest, bases, optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low

    def _keep_momenta(self, bases: list[float], greatest: list[float]) -> None:
        """For subclasses that go by these rather than by the groups."""

    def _set_momentum(self, group: Group, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Cycle):
    """Between base_lr and max_lr, up in step_size_up steps and down in step_size_down (L. Smith,
    2017). mode 'triangular2' halves the height each cycle, 'exp_range' multiplies it by gamma each
    step; scale_fn is a function of the cycle, or of the steps if scale_mode='iterations'."""

    _not_saved = ("_scale_fn_ref",)

    def __init__(self, optimizer: Optimizer, base_lr: Rate, max_lr: Rate,
                 step_size_up: int = 2000, step_size_down: int | None = None,
                 mode: str = "triangular", gamma: float = 1.0,
                 scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: Rate = 0.8,
                 max_momentum: Rate = 0.9, last_epoch: int = -1) -> None:
        checked("CyclicLR", optimizer)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(f"CyclicLR: mode={mode!r} is not 'triangular', 'triangular2' or "
                                f"'exp_range'; give one of these, or scale_fn")
        base_lrs = one_a_group("base_lr", optimizer, base_lr)
        self.max_lrs = one_a_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_rate(group, rate)
        up = float(period("CyclicLR", "step_size_up", step_size_up))
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        self._begin_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _keep_momenta(self, bases: list[float], greatest: list[float]) -> None:
        self.base_momentums, self.max_momentums = bases, greatest

    def scale_fn(self, x: float) -> float:
        """What the height is multiplied by in a cycle, or at a step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        scale: float = 1 / 2.0**(x - 1) if self.mode == "triangular2" else self.gamma**x
        return scale

    def get_lr(self) -> Rates:
        """See LRScheduler. Sets the momenta, too."""
        self._rates()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums,
                                        self.max_momentums, strict=True):
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height
                for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """See LRScheduler; of a scale_fn that is an object, what it holds."""
        function = self._scale_fn_custom
        plain = function is None or isinstance(function, types.FunctionType)
        return {**super().state_dict(),
                "_scale_fn_custom": None if plain else dict(function.__dict__)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        held = state_dict.get("_scale_fn_custom")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if held is not None:
            self._scale_fn_custom.__dict__.update(held)


class OneCycleLR(_Cycle):
    """Up to max_lr, and down to far below the first rate (L. Smith and N. Topin, 2018).

    total_steps: of the whole training; or give epochs and steps_per_epoch. pct_start: which part of
    it goes up. The first rate is max_lr / div_factor, the last that / final_div_factor.
    three_phase: down to the first rate as fast as up, and then to the last.
    """

    def __init__(self, optimizer: Optimizer, max_lr: Rate, total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None,
                 pct_start: float = 0.3, anneal_strategy: str = "cos", cycle_momentum: bool = True,
                 base_momentum: Rate = 0.85, max_momentum: Rate = 0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False,
                 last_epoch: int = -1) -> None:
        checked("OneCycleLR", optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ArgumentError(f"OneCycleLR: pct_start={pct_start!r} must be a float between 0 "
                                f"and 1")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"OneCycleLR: anneal_strategy={anneal_strategy!r} is neither 'cos' "
                                f"nor 'linear'")
        self._schedule_phases = _phases(pct_start * self.total_steps, self.total_steps, three_phase)
        self._anneal_func_type = anneal_strategy
        greatest = one_a_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(greatest, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        self._begin_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _annealed(self, start: float, end: float, share: float) -> float:
        """From start to end."""
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> Rates:
        """See LRScheduler. Sets the momenta, too."""
        self._rates()
        if self.last_epoch > self.total_steps:
            raise ArgumentError(f"OneCycleLR.step: step {self.last_epoch} of total_steps="
                                f"{self.total_steps}; give as many as there are")
        begin, phases = 0.0, list(self._schedule_phases)
        while len(phases) > 1 and self.last_epoch > phases[0]["end_step"]:
            begin = phases.pop(0)["end_step"]
        phase = phases[0]
        share = (self.last_epoch - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._annealed(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                self._set_momentum(group, self._annealed(
                    group[phase["start_momentum"]], group[phase["end_momentum"]], share))
        return rates


def _total(total: int | None, epochs: int | None, steps: int | None) -> int:
    for name, value in (("total_steps", total), ("epochs", epochs), ("steps_per_epoch", steps)):
        if value is not None and (not isinstance(value, int) or value <= 0):
            raise ArgumentError(f"OneCycleLR: {name}={value!r} must be a whole number, 1 or more")
    if total is not None:
        return total
    if epochs is None or steps is None:
        raise ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
    return epochs * steps


def _phases(up: float, total: int, three: bool) -> list[dict[str, Any]]:
    """When each part of the schedule ends, and between what it goes."""
    low, high = "base_momentum", "max_momentum"
    rows = [(up - 1, "initial_lr", "max_lr", high, low)]
    if three:
        rows += [(2 * up - 2, "max_lr", "initial_lr", low, high),
                 (total - 1, "initial_lr", "min_lr", high, high)]
    else:
        rows += [(total - 1, "max_lr", "min_lr", low, high)]
    names = "end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"
    return [dict(zip(names, row, strict=True)) for row in rows]
