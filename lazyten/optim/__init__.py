"""Optimizers under PyTorch's names, with its formulas, arguments and defaults.

In: parameters with gradients. Out: their next values, computed with the gradients in few kernels.

Files, in reading order:

- optimizer.py: `Optimizer`: groups of parameters with options, a state for each parameter, and
  hooks; made for subclassing.
- param_groups.py: Parameters as users give them, in groups with options: checked, and completed.
- saved_state.py: An optimizer's options and state as a dict of numbers and tensors, and back.
- compiled.py: `CompiledOptimizer`: a step that is recorded as a whole and compiled once.
- recorded_step.py: A step that was taken before: what it writes is looked up, as one operation.
- last_step.py: A step that is about the same as the last one, which does the same.
- step_numbers.py: Numbers of a compiled step that change between steps: kernel inputs, by name.
- sgd.py: SGD, ASGD.
- adam.py: Adam, AdamW, Adamax, NAdam, RAdam.
- adaptive.py: Adagrad, Adadelta, RMSprop, Rprop.
- sparse_gradients.py: Which optimizers take sparse gradients, and SparseAdam.
- matrices.py: Adafactor, Muon.
- beyond.py: Lion, Sophia, LAMB, which PyTorch does not have.
- lbfgs.py: LBFGS.
- scheduler.py: `LRScheduler`: what sets the learning rates of an optimizer's groups.
- swa_utils.py: Averages of a model's weights over the steps of training.

The room lr_scheduler/ below it has the learning rates that change.

A step of lazyten's own optimizers is recorded like any computation; in a jitted function it becomes
part of the one native call, and numbers that change are computed anew for each call. A step that a
user has written is run in Python each time.
"""
from __future__ import annotations

from lazyten.optim import lr_scheduler, swa_utils
from lazyten.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from lazyten.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from lazyten.optim.beyond import LAMB, Lion, Sophia
from lazyten.optim.lbfgs import LBFGS
from lazyten.optim.matrices import Adafactor, Muon
from lazyten.optim.optimizer import Optimizer
from lazyten.optim.sgd import ASGD, SGD
from lazyten.optim.sparse_gradients import SparseAdam
from lazyten.pytorch.modules import later as _later

__getattr__ = _later("lazyten.optim")
__all__ = [
    "ASGD",
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Sophia",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
