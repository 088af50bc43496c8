"""`lt.distributed`: one process, which says that it is the only one.

Programs for several processes ask `is_available()` or look for RANK in the environment, and run as
one process where there is nothing to join. What joins processes is refused.
"""
from __future__ import annotations

from typing import Any

from lazyten.pytorch.refusals import refused
from lazyten.support.errors import StateError

_REASON = ("training is of one process and one device; start the program as one process, without "
           "RANK and WORLD_SIZE, and accumulate gradients for larger batches")
globals().update(refused(
    "distributed", _REASON, "DeviceMesh", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp",
    "Store", "TCPStore", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "gather_object", "group",
    "init_device_mesh", "init_process_group", "irecv", "isend", "monitored_barrier", "new_group",
    "recv", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send"))


def is_available() -> bool:
    """False: processes are not joined."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_available
is_initialized = is_torchelastic_launched = is_available


def get_rank(group: Any = None) -> int:
    """StateError, as in PyTorch before a group of processes is initialized."""
    raise StateError("distributed: no group of processes is initialized; ask "
                     "distributed.is_initialized() first. " + _REASON)


get_world_size = get_rank
