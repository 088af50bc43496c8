"""Rates that fall as a cosine does: CosineAnnealingLR, CosineAnnealingWarmRestarts (I. Loshchilov
and F. Hutter, 2017)."""
from __future__ import annotations

import math

from lazyten.optim.optimizer import Optimizer
from lazyten.optim.scheduler import LRScheduler, Rates, period
from lazyten.support.errors import ArgumentError


class CosineAnnealingLR(LRScheduler):
    """Down to eta_min in T_max epochs, and up again in as many: at epoch t
    eta_min + (lr - eta_min) (1 + cos(pi t / T_max)) / 2. ArgumentError for a T_max of 0 or less."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = period("CosineAnnealingLR", "T_max", T_max), eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        rates, epoch, least = self._rates(), self.last_epoch, self.eta_min
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # there the quotient below is 0 / 0
            share = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - least) * share
                    for rate, base in zip(rates, self.base_lrs, strict=True)]
        now, before = (1 + math.cos(math.pi * e / self.T_max) for e in (epoch, epoch - 1))
        return [now / before * (rate - least) + least for rate in rates]

    def _get_closed_form_lr(self) -> Rates:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min, and at once up again: after T_0 epochs, then T_mult times as many, and so
    on. step(epoch) may be given parts of epochs."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ArgumentError(f"CosineAnnealingWarmRestarts: {name}={value!r} must be a "
                                    f"whole number, 1 or more")
        if not isinstance(eta_min, float | int):
            raise ArgumentError(f"CosineAnnealingWarmRestarts: eta_min={eta_min!r} must be a "
                                f"number")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._rates()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the next rates, or those of an epoch or of a part of one, such as 0.5."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._begin(0 if epoch is None else epoch)
        assert epoch is not None or self.last_epoch < 0
        self.last_epoch = math.floor(epoch or 0)
        with self._setting():
            rates = self.get_lr()
        self._set(rates)

    def _begin(self, epoch: float) -> None:
        """Find the cycle of an epoch, and the place in it."""
        if epoch < 0:
            raise ArgumentError(f"CosineAnnealingWarmRestarts.step: epoch={epoch} must be 0 or "
                                f"more")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_i = self.T_0 * self.T_mult**cycle
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)


