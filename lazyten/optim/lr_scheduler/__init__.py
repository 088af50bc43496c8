"""Learning rates that change: PyTorch's schedulers, with their arguments, states and numbers.

In: an optimizer. Out: `param_groups[...]["lr"]`, set at each step(). `LRScheduler`, which all are
and users' own may be, is in optim/scheduler.py, below.

Files, in reading order:

- factors.py: Rates times a factor: LambdaLR, MultiplicativeLR, StepLR, MultiStepLR, ConstantLR,
  LinearLR, ExponentialLR, PolynomialLR.
- cosine.py: Rates that fall as a cosine does: CosineAnnealingLR, CosineAnnealingWarmRestarts.
- cycles.py: Rates that go up and down, and momenta against them: CyclicLR, OneCycleLR.
- plateau.py: Rates that fall when a metric no longer gets better: ReduceLROnPlateau.
- composed.py: Schedulers of schedulers: SequentialLR, ChainedScheduler.
"""
from __future__ import annotations

from lazyten.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from lazyten.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from lazyten.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from lazyten.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from lazyten.optim.lr_scheduler.plateau import ReduceLROnPlateau
from lazyten.optim.scheduler import LRScheduler, _LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]
