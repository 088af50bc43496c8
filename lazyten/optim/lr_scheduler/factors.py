"""Rates times a factor: LambdaLR, MultiplicativeLR, StepLR, MultiStepLR, ConstantLR, LinearLR,
ExponentialLR, PolynomialLR."""
from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from lazyten.optim.optimizer import Optimizer
from lazyten.optim.param_groups import short
from lazyten.optim.scheduler import LRScheduler, Rates, checked, one_a_group, period
from lazyten.support.errors import ArgumentError, DTypeError

Factor = Callable[[int], float]


class _Functions(LRScheduler):
    """Factors by functions of the epoch, one a group. Objects are saved, functions are not."""

    _not_saved = ("lr_lambdas",)

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor],
                 last_epoch: int = -1) -> None:
        checked(type(self).__name__, optimizer)
        self.lr_lambdas = one_a_group("lr_lambda", optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise DTypeError(f"{type(self).__name__}: lr_lambda is {short(function)}; give a "
                                 f"function of the epoch")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """See LRScheduler; of a function that is an object, what it holds."""
        held = [None if isinstance(f, types.FunctionType) else dict(f.__dict__)
                for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": held}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, held in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if held is not None:
                function.__dict__.update(held)


class LambdaLR(_Functions):
    """The first rate times lr_lambda(epoch)."""

    def get_lr(self) -> Rates:
        self._rates()
        return [base * factor(self.last_epoch)
                for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_Functions):
    """The last rate times lr_lambda(epoch)."""

    def get_lr(self) -> Rates:
        rates = self._rates()
        return rates if self._is_initial else [
            rate * factor(self.last_epoch)
            for rate, factor in zip(rates, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs: lr gamma ** (epoch // step_size). ArgumentError for a
    step_size of 0 or less."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        self.step_size = period("StepLR", "step_size", step_size)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        stays = self.last_epoch == 0 or self.last_epoch % self.step_size != 0
        return self._rates(None if stays else self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each of these epochs."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        if not isinstance(milestones, Iterable):
            raise DTypeError(f"MultiStepLR: milestones is {short(milestones)}; give a list of "
                             f"epochs")
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        times = self.milestones.get(self.last_epoch)
        return self._rates(None if times is None else self.gamma**times)

    def _get_closed_form_lr(self) -> Rates:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor for the first total_iters epochs."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ArgumentError(f"ConstantLR: factor={factor} must be between 0 and 1")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self.last_epoch == 0:
            return self._rates(self.factor)
        return self._rates(1.0 / self.factor if self.last_epoch == self.total_iters else None)

    def _get_closed_form_lr(self) -> Rates:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes from start_factor to end_factor in total_iters epochs."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3,
                 end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 < start_factor <= 1:
            raise ArgumentError(f"LinearLR: start_factor={start_factor} must be above 0, and 1 or "
                                f"less")
        if not 0 <= end_factor <= 1:
            raise ArgumentError(f"LinearLR: end_factor={end_factor} must be between 0 and 1")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self.last_epoch == 0:
            return self._rates(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._rates(1.0 + rise / before)

    def _get_closed_form_lr(self) -> Rates:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        return self._rates(None if self._is_initial else self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Times a power of what is left of total_iters epochs."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0,
                 last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left, before = (1.0 - epoch / self.total_iters
                        for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._rates((left / before)**self.power)

    def _get_closed_form_lr(self) -> Rates:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
