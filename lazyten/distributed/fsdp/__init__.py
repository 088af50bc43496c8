"""`lt.distributed.fsdp`: modules of which each rank has a part, under PyTorch's names.

In: a module that all ranks have. Out: the module, whose parameters are whole while it computes.
Not here: how they are gathered (nn/parallel/fully_sharded.py), whose function `fully_shard` is
offered here, too.

Files, in reading order:

- wrapping.py: Policies: which modules inside have parameters that are gathered together.
- options.py: What can be said of a FullyShardedDataParallel.
- wrapper.py: `FullyShardedDataParallel`: a module around one whose parameters are shared out.

The room is above distributed/checkpoint/, which knows states that are whole or in parts.
"""
from __future__ import annotations

from lazyten.distributed.fsdp import wrapping as wrap
from lazyten.distributed.fsdp.options import BackwardPrefetch as BackwardPrefetch
from lazyten.distributed.fsdp.options import CPUOffload as CPUOffload
from lazyten.distributed.fsdp.options import FullOptimStateDictConfig as FullOptimStateDictConfig
from lazyten.distributed.fsdp.options import FullStateDictConfig as FullStateDictConfig
from lazyten.distributed.fsdp.options import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from lazyten.distributed.fsdp.options import LocalStateDictConfig as LocalStateDictConfig
from lazyten.distributed.fsdp.options import MixedPrecision as MixedPrecision
from lazyten.distributed.fsdp.options import OptimStateDictConfig as OptimStateDictConfig
from lazyten.distributed.fsdp.options import (
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
)
from lazyten.distributed.fsdp.options import ShardedStateDictConfig as ShardedStateDictConfig
from lazyten.distributed.fsdp.options import ShardingStrategy as ShardingStrategy
from lazyten.distributed.fsdp.options import StateDictConfig as StateDictConfig
from lazyten.distributed.fsdp.options import StateDictSettings as StateDictSettings
from lazyten.distributed.fsdp.options import StateDictType as StateDictType
from lazyten.distributed.fsdp.wrapper import FullyShardedDataParallel as FullyShardedDataParallel
from lazyten.nn.parallel.fully_sharded import FSDPModule as FSDPModule
from lazyten.nn.parallel.fully_sharded import MixedPrecisionPolicy as MixedPrecisionPolicy
from lazyten.nn.parallel.fully_sharded import OffloadPolicy as OffloadPolicy
from lazyten.nn.parallel.fully_sharded import fully_shard as fully_shard
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused

globals().update(refused(
    "distributed.fsdp", "rows are where they are; leave it out", "CPUOffloadPolicy",
    "OptimStateKeyType"))
__all__ = ["CPUOffload", "FSDPModule", "FullyShardedDataParallel", "MixedPrecision",
           "MixedPrecisionPolicy", "ShardingStrategy", "StateDictType", "fully_shard", "wrap"]
__getattr__ = _later("lazyten.distributed.fsdp")
