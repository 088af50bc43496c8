"""Rates that fall when a metric no longer gets better: ReduceLROnPlateau."""
from __future__ import annotations

import math
from typing import Any

from lazyten.optim.optimizer import Optimizer
from lazyten.optim.scheduler import LRScheduler, checked, set_rate, values, warn_of_epoch
from lazyten.support.errors import ArgumentError


class ReduceLROnPlateau(LRScheduler):
    """Times factor once a metric has not been better for `patience` epochs; then `cooldown` epochs
    do not count. Better is less, or more if mode='max', by a part `threshold` of the best, or by
    `threshold` itself if threshold_mode='abs'. Rates do not fall below min_lr, nor by less than
    eps."""

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1,
                 patience: int = 10, threshold: float = 1e-4, threshold_mode: str = "rel",
                 cooldown: int = 0, min_lr: float | list[float] = 0, eps: float = 1e-8) -> None:
        if factor >= 1:
            raise ArgumentError(f"ReduceLROnPlateau: factor={factor} must be below 1")
        self.factor = factor
        self.optimizer = checked("ReduceLROnPlateau", optimizer)
        groups = len(optimizer.param_groups)
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * groups
        if len(self.min_lrs) != groups:
            raise ArgumentError(f"ReduceLROnPlateau: min_lr has {len(self.min_lrs)} values, and "
                                f"the optimizer {groups} groups")
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = values(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ArgumentError(f"ReduceLROnPlateau: mode={mode!r} is neither 'min' nor 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(f"ReduceLROnPlateau: threshold_mode={threshold_mode!r} is neither "
                                f"'rel' nor 'abs'")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def _reset(self) -> None:
        """Forget what was best."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any = None,  # type: ignore[override]  # as PyTorch's
             epoch: int | None = None) -> None:
        """Look at a metric, a number or a tensor of one, and set the rates."""
        if metrics is None:
            raise ArgumentError("ReduceLROnPlateau.step: it needs the metric of the epoch, for "
                                "example step(validation_loss)")
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        """What packages have a method of their own for."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise ArgumentError(f"ReduceLROnPlateau: the optimizer has {len(groups)} groups by "
                                    f"now, and min_lrs {len(self.min_lrs)} values; set min_lrs")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, least)
            if before - after > self.eps:
                set_rate(group, after)

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count now."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            limit = best * (1.0 - sign * self.threshold)
        else:
            limit = best - sign * self.threshold
        return a < limit if self.mode == "min" else a > limit

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
