"""Modules that several processes train together, under PyTorch's names: `lazyten.nn.parallel`.

In: a module, and the ranks of a job (distributed/). Out: a module like it. Not here: collectives.

Files, in reading order:

- data_parallel.py: `DataParallel`, for programs that make it of one device.
- comm_hooks.py: How gradients are combined over ranks: `GradBucket`, and PyTorch's hooks of
  DistributedDataParallel.
- joining.py: `Join`: ranks with different numbers of batches: who is done goes on with the others.
- distributed.py: `DistributedDataParallel`: a module that several processes train together.
- fully_sharded.py: `fully_shard`: a module of whose parameters, gradients and states each rank has
  a part.
- sync_batch_norm.py: `SyncBatchNorm`: normalization by the batches of all processes.

Gradients are averaged when backward() has added to all parameters, not one by one: the graph of the
whole pass is known then, and what a bucket needs of it is computed first, so the bucket travels
while the kernels of the next one run.
"""
from __future__ import annotations

from lazyten.nn.parallel.data_parallel import DataParallel as DataParallel
from lazyten.nn.parallel.data_parallel import data_parallel as data_parallel
from lazyten.nn.parallel.data_parallel import parts as _parts
from lazyten.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from lazyten.nn.parallel.fully_sharded import fully_shard as fully_shard
from lazyten.nn.sharded_parameter import ShardedParameter as ShardedParameter
from lazyten.pytorch.modules import later as _later

__getattr__ = _later("lazyten.nn.parallel")
globals().update(_parts)
__all__ = ["DataParallel", "DistributedDataParallel", "ShardedParameter", "data_parallel",
           "fully_shard"]
