"""Averages of a model's weights over the steps of training: stochastic weight averaging (P.
Izmailov et al., 2018) and exponential moving averages, under PyTorch's names."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from lazyten.execution import realization as _realization
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.functions import where
from lazyten.frontend.recorded.lookup import as_one
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn.module import Module
from lazyten.nn.modules.batchnorm import _BatchNorm
from lazyten.optim.optimizer import Optimizer
from lazyten.optim.param_groups import short
from lazyten.optim.scheduler import LRScheduler, Rates, checked, one_a_group
from lazyten.storage import tracing
from lazyten.storage.placement import default_device
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad

Average = Callable[[Tensor, Tensor, Any], Tensor]
"""Of the average so far, the model's parameter, and how many were averaged: the next average."""
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]
"""The same for several, in place."""


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An exponential moving average."""
    _check_decay(decay)
    return no_grad()(lambda mean, now, count: mean * decay + now * (1 - decay))


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """Exponential moving averages, in place."""
    return _for_all(get_ema_avg_fn(decay))


def get_swa_avg_fn() -> Average:
    """The mean of all."""
    return no_grad()(lambda mean, now, count: mean + (now - mean) / (count + 1))


def get_swa_multi_avg_fn() -> Averages:
    """The means of all, in place."""
    return _for_all(get_swa_avg_fn())


def _check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ArgumentError(f"a moving average: decay={decay} must be between 0 and 1")


def _for_all(average: Average) -> Averages:
    @no_grad()
    @as_one
    def update(means: Sequence[Tensor], now: Sequence[Tensor], count: Any) -> None:
        for mean, value in zip(means, now, strict=True):
            mean.copy_(average(mean, value, count))
    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's; call it as the model.

    avg_fn, multi_avg_fn: how they are averaged, by default the mean of all (get_swa_avg_fn).
    use_buffers: average buffers, too; otherwise they are the model's.
    """

    n_averaged: Tensor

    def __init__(self, model: Module, device: str | None = None, avg_fn: Average | None = None,
                 multi_avg_fn: Averages | None = None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("AveragedModel: avg_fn and multi_avg_fn are given; give one")
        if not isinstance(model, Module):
            raise DTypeError(f"AveragedModel: {short(model)} is not a module; give the model")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", Tensor._copy_of(0, dt.int64, device or default_device()))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives with the averages."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters of now into the averages; the first time, as they are."""
        def averaged(of: Module) -> Iterable[Tensor]:
            return chain(of.parameters(), of.buffers()) if self.use_buffers else of.parameters()

        means = [p.detach() for p in averaged(self.module)]
        now = [p.detach() if p.device == mean.device else p.detach().to(device=mean.device)
               for p, mean in zip(averaged(model), means, strict=True)]
        if tracing.current() is not None:  # it may be the first call, or not
            is_first = self.n_averaged == 0
            before = [mean.clone() for mean in means]
            self._average(before, now)
            new = [where(is_first.to(device=a.device), b, a)
                   for a, b in zip(before, now, strict=True)]
        else:
            new = [] if self.n_averaged.item() else now
            if not new:
                self._average(means, now)
        for mean, value in zip(means, new, strict=False):
            mean.copy_(value)
        if not self.use_buffers:
            for mine, other in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(other.detach().to(device=mine.device))
        self.n_averaged.add_(1)
        changed = [*means, *self.module.buffers(), self.n_averaged]
        _realization.realize([t._storage for t in changed])

    def _average(self, means: list[Tensor], now: list[Tensor]) -> None:
        """Take values into averages, in place."""
        if self.multi_avg_fn is not None:
            for device, kind in dict.fromkeys((m.device, m.dtype) for m in means):
                of = [i for i, m in enumerate(means) if (m.device, m.dtype) == (device, kind)]
                self.multi_avg_fn([means[i] for i in of], [now[i] for i in of],
                                  self.n_averaged.to(device=device))
            return
        average = self.avg_fn or get_swa_avg_fn()
        for mean, value in zip(means, now, strict=True):
            mean.copy_(average(mean, value, self.n_averaged.to(device=mean.device)))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Make the running statistics of a model's batch normalizations those of all batches of a
    loader (the first of each, if they are lists or tuples)."""
    found = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not found:
        return
    momenta, was_training = [m.momentum for m in found], model.training
    for m in found:
        m.reset_running_stats()
        m.momentum = None  # the mean of all
    model.train()
    try:
        for batch in loader:
            first = batch[0] if isinstance(batch, list | tuple) else batch
            model(first if device is None else first.to(device=device))
            _realization.realize([in_floats(b)._storage for b in model.buffers()])
    finally:
        for m, momentum in zip(found, momenta, strict=True):
            m.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From the rates of now to swa_lr in anneal_epochs epochs, where they stay."""

    _not_saved = ("anneal_func",)

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        checked("SWALR", optimizer)
        for rate, group in zip(one_a_group("swa_lr", optimizer, swa_lr), optimizer.param_groups,
                               strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"SWALR: anneal_strategy={anneal_strategy!r} is neither 'cos' nor "
                                f"'linear'")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"SWALR: anneal_epochs={anneal_epochs!r} must be a whole number, 0 "
                                f"or more")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of swa_lr there is in the rate."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> Rates:
        step = self._step_count - 1
        step = max(1, step) if self.anneal_epochs == 0 else step
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._rates(), strict=True):
            end = group["swa_lr"]
            start = end if before == 1 else (rate - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates


__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
           "get_swa_multi_avg_fn", "update_bn"]
