"""`lt.distributed.optim`: optimizers whose state is shared out among ranks.

In: parameters that all ranks have, with gradients that are the same on all. Out: their next values,
each computed on one rank. Not here: parameters that are shared out themselves
(nn/parallel/fully_sharded.py), whose optimizer is any.

Files, in reading order:

- zero_redundancy.py: `ZeroRedundancyOptimizer`: each rank has the state of some parameters, updates
  them, and gives them to the others.

The room is above optim/, whose optimizers it is made of.
"""
from __future__ import annotations

from lazyten.distributed.optim.zero_redundancy import (
    ZeroRedundancyOptimizer as ZeroRedundancyOptimizer,
)

__all__ = ["ZeroRedundancyOptimizer"]
