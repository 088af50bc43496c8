"""`lt.distributed`: several processes that compute together, joined by MPI.

In: a program that mpiexec or srun has started several times. Out: collectives among these ranks, as
operations of the graph like any other. Not here: how they are scheduled (schedule/scans.py) and run
between kernels (execution/plans/collectives.py). docs/distributed.md tells how to use it.

Files, in reading order:

- job.py: The job that this process is a rank of: found in the environment of mpiexec or srun, or
  alone.
- waiting.py: Waiting for other ranks, for a limited time; and who is missing when it is over.
- devices.py: Devices of a group's ranks that carry out collectives themselves, joined when they are
  needed.
- group.py: `Group`: ranks that do collectives together, and how each kind of collective is carried
  out.
- link.py: `Link`: what collectives of a group cost, measured, and the size of buckets that follows
  from it.
- state.py: Whether this process has joined a job, and its groups: `init`, `rank`, `size`,
  `new_group`.
- device_mesh.py: `DeviceMesh`: the ranks of a job as a grid, with a group for each line of it.
- messages.py: Texts that ranks tell each other outside of any graph, and errors that all of them
  get.
- functional.py: Collectives as functions of tensors: lazy, differentiable, and part of what
  `lt.jit` records.
- annotating.py: `shard`: a value that the ranks of a mesh share out, as a note that the compiler
  reads.
- in_place.py: PyTorch's functions of `torch.distributed`, which write to tensors they are given.
- pairs.py: What one rank sends another, under PyTorch's names.
- objects.py: Objects of Python that ranks send each other, under PyTorch's names.
- differentiable.py: PyTorch's functions of `torch.distributed.nn` and
  `torch.distributed._functional_collectives`.

Rooms below it: tensor/ and pipelining/, above lazyten.nn, have layers that are shared out; optim/
has optimizers, checkpoint/ what ranks save and load together, and fsdp/ PyTorch's class around a
module whose parameters are shared out, above lazyten.optim.

A collective is a node (ir/collective.py) that cuts its graph: what it reads is computed and stored,
it is begun by a call of MPI that returns at once, and it is waited for before the first kernels
that read its result. A runtime may carry it out itself, on its own queue and memory
(ir/collective.py; the device cuda does, by NCCL). All ranks carry collectives out in the order in
which they were recorded, and none is left out because nobody looks at its result. With each travels
a number made of its kind, type and shape, so that ranks that do different ones get an error with
both lines, and not a hang or a wrong number. The check is made each time, not when a plan is
compiled: ranks compile at different times, as one may have another last batch. It travels beside
the data, and takes a few microseconds; where devices do the rest it comes first, as they would wait
for ever for a rank that does something else.
"""
from __future__ import annotations

from importlib.util import find_spec

from lazyten.distributed import functional as functional
from lazyten.distributed.device_mesh import DeviceMesh as DeviceMesh
from lazyten.distributed.device_mesh import init_device_mesh as init_device_mesh
from lazyten.distributed.group import Group as Group
from lazyten.distributed.in_place import Backend as Backend
from lazyten.distributed.in_place import GroupMember as GroupMember
from lazyten.distributed.in_place import ReduceOp as ReduceOp
from lazyten.distributed.in_place import Work as Work
from lazyten.distributed.in_place import all_gather as all_gather
from lazyten.distributed.in_place import all_gather_coalesced as all_gather_coalesced
from lazyten.distributed.in_place import all_gather_into_tensor as all_gather_into_tensor
from lazyten.distributed.in_place import all_reduce as all_reduce
from lazyten.distributed.in_place import all_reduce_coalesced as all_reduce_coalesced
from lazyten.distributed.in_place import all_to_all as all_to_all
from lazyten.distributed.in_place import all_to_all_single as all_to_all_single
from lazyten.distributed.in_place import barrier as barrier
from lazyten.distributed.in_place import broadcast as broadcast
from lazyten.distributed.in_place import gather as gather
from lazyten.distributed.in_place import group as group
from lazyten.distributed.in_place import init_process_group as init_process_group
from lazyten.distributed.in_place import reduce as reduce
from lazyten.distributed.in_place import reduce_scatter as reduce_scatter
from lazyten.distributed.in_place import reduce_scatter_tensor as reduce_scatter_tensor
from lazyten.distributed.in_place import scatter as scatter
from lazyten.distributed.objects import all_gather_object as all_gather_object
from lazyten.distributed.objects import broadcast_object_list as broadcast_object_list
from lazyten.distributed.objects import gather_object as gather_object
from lazyten.distributed.objects import recv_object_list as recv_object_list
from lazyten.distributed.objects import scatter_object_list as scatter_object_list
from lazyten.distributed.objects import send_object_list as send_object_list
from lazyten.distributed.pairs import P2POp as P2POp
from lazyten.distributed.pairs import batch_isend_irecv as batch_isend_irecv
from lazyten.distributed.pairs import irecv as irecv
from lazyten.distributed.pairs import isend as isend
from lazyten.distributed.pairs import recv as recv
from lazyten.distributed.pairs import send as send
from lazyten.distributed.state import destroy as destroy
from lazyten.distributed.state import get_backend as get_backend
from lazyten.distributed.state import get_global_rank as get_global_rank
from lazyten.distributed.state import get_group_rank as get_group_rank
from lazyten.distributed.state import get_node_local_rank as get_node_local_rank
from lazyten.distributed.state import get_process_group_ranks as get_process_group_ranks
from lazyten.distributed.state import init as init
from lazyten.distributed.state import is_initialized as is_initialized
from lazyten.distributed.state import monitored_barrier as monitored_barrier
from lazyten.distributed.state import new_group as new_group
from lazyten.distributed.state import new_subgroups as new_subgroups
from lazyten.distributed.state import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from lazyten.distributed.state import rank as rank
from lazyten.distributed.state import size as size
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused

__path__ = list(__path__)
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor
destroy_process_group, get_rank, get_world_size, ProcessGroup = destroy, rank, size, Group
globals().update(refused(
    "distributed", "processes are joined by MPI alone, and find each other by mpiexec or srun",
    "Store", "TCPStore", "FileStore", "PrefixStore"))
globals().update(refused(
    "distributed", "it is called ReduceOp now", "reduce_op"))


def is_available() -> bool:
    """Whether mpi4py is installed, so that several processes can be joined."""
    return find_spec("mpi4py") is not None


is_mpi_available = is_available


def is_gloo_available() -> bool:
    """False: processes are joined by MPI."""
    return False


def is_nccl_available() -> bool:
    """Whether nccl4py is installed, so that GPUs can carry out collectives themselves."""
    return find_spec("nccl") is not None


is_torchelastic_launched = is_gloo_available
is_ucc_available = is_xccl_available = is_gloo_available
__getattr__ = _later("lazyten.distributed", "checkpoint", "fsdp", "optim", "pipelining", "tensor")
