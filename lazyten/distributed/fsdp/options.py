"""What can be said of a FullyShardedDataParallel, by PyTorch's names."""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from lazyten.ir.dtype import DType


class ShardingStrategy(Enum):
    """FULL_SHARD: whole parameters are gathered again for the backward pass of a jitted step.
    SHARD_GRAD_OP: they are kept from the forward pass. The HYBRID ones: the same along the second
    axis of a mesh of two, with gradients averaged along the first. NO_SHARD is
    DistributedDataParallel, and refused."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """Says nothing: what needs no result of another gather is begun before it is waited for."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """Whether state_dict() has whole tensors, or this rank's rows."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass(frozen=True)
class MixedPrecision:
    """Types in which modules compute, while rows stay what they are. param_dtype: of whole
    parameters, and of the floats that forward() takes. Sums of gradients are added up in float32 at
    least, whatever reduce_dtype says. buffer_dtype: of buffers, which are converted."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass(frozen=True)
class CPUOffload:
    """Rows are where they are: offload_params must be False."""

    offload_params: bool = False


@dataclass(frozen=True)
class StateDictConfig:
    """How states are given. offload_to_cpu: they are, as values of all devices can be read there.
    """

    offload_to_cpu: bool = False


@dataclass(frozen=True)
class FullStateDictConfig(StateDictConfig):
    """rank0_only: others than rank 0 get nothing."""

    rank0_only: bool = False


class LocalStateDictConfig(StateDictConfig):
    """Of rows."""


class ShardedStateDictConfig(StateDictConfig):
    """Of rows."""


class OptimStateDictConfig(StateDictConfig):
    """Of optimizers."""


@dataclass(frozen=True)
class FullOptimStateDictConfig(OptimStateDictConfig):
    """rank0_only: others than rank 0 get nothing."""

    rank0_only: bool = False


class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of rows."""


class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of rows."""


@dataclass(frozen=True)
class StateDictSettings:
    """What set_state_dict_type() has said."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)
