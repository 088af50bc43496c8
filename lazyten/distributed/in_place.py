"""PyTorch's functions of `torch.distributed`, which write to tensors they are given.

Each is one of functional.py whose result is written in place. `src` and `dst` are ranks of the job,
as in PyTorch. With async_op a `Work` is given, whose wait() has nothing to do: results are waited
for where they are read.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from lazyten.distributed import functional, state
from lazyten.distributed.group import Group
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.functions import stack
from lazyten.frontend.tensor import Tensor
from lazyten.pytorch.futures import Future
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad

_BACKENDS = frozenset(("mpi", "gloo", "nccl", "ucc", "xccl", "fake"))
"""Those that programs name; each means MPI."""


class ReduceOp:
    """What ranks' tensors are combined by."""

    SUM, AVG, MAX, MIN = "sum", "mean", "max", "min"
    RedOpType = str


class Work:
    """A collective that was recorded; its result is waited for where it is read. tensors: what it
    writes to."""

    def __init__(self, tensors: Sequence[Tensor] = ()) -> None:
        self._tensors = list(tensors)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True. What is written is there when it is looked at."""
        return True

    def is_completed(self) -> bool:
        """Whether wait() would return at once: it does."""
        return True

    is_success = is_completed

    def exception(self) -> None:
        """None: what goes wrong is an error where the result is looked at."""

    def result(self) -> list[Tensor]:
        """The tensors that are written to."""
        return self._tensors

    def get_future(self) -> Future[list[Tensor]]:
        """A future that has them."""
        future: Future[list[Tensor]] = Future()
        future.set_result(self._tensors)
        return future


class Backend(str):
    """The name of a library of collectives in small letters, by which programs ask for one: all are
    MPI's here."""

    __slots__ = ()
    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> Backend:
        """The name of one."""
        return super().__new__(cls, name.lower())


class _World(type):
    """Of classes with the group of all ranks, if this process has joined any."""

    @property
    def WORLD(cls) -> Group | None:  # PyTorch's name
        """All ranks; None before init()."""
        return state.world() if state.is_initialized() else None


class GroupMember(metaclass=_World):
    """Where programs find all ranks: `group.WORLD`."""

    NON_GROUP_MEMBER = object()


group = GroupMember


@dataclass(frozen=True, slots=True)
class P2POp:
    """What batch_isend_irecv() does: isend or irecv of a tensor, with rank `peer`."""

    op: Callable[..., Work]
    tensor: Tensor
    peer: int
    group: Group | None = None
    tag: int = 0


def init_process_group(backend: str | None = None, init_method: str | None = None,
                       timeout: float | timedelta | None = None, world_size: int = -1,
                       rank: int = -1, store: object = None, group_name: str = "",
                       pg_options: object = None, device_id: object = None) -> None:
    """init(). Processes find each other by mpiexec or srun, and MPI carries out what they do
    together, so that backend, init_method, store and what follows it say nothing.

    ArgumentError for a backend that PyTorch lacks, too, and if rank and world_size are not what MPI
    says, as processes were started in another way then.
    """
    if not {part.rpartition(":")[2] for part in str(backend or "mpi").split(",")} <= _BACKENDS:
        raise ArgumentError(f"init_process_group: there is no backend {backend!r:.60}; leave it "
                            f"out")
    group = state.init(timeout)
    for name, given, found in (("world_size", world_size, group.size), ("rank", rank, group.rank)):
        if given not in (-1, found):
            raise ArgumentError(f"init_process_group: {name}={given}, but MPI says {found}: "
                                f"processes are joined by MPI; start the program by mpiexec -n N "
                                f"or srun, and leave it out")


@checks_tensors
def all_reduce(tensor: Tensor, op: str = ReduceOp.SUM, group: Group | None = None,
               async_op: bool = False) -> Work | None:
    """Write the ranks' sum (see ReduceOp) to the tensor of each."""
    return _write(tensor, functional.all_reduce(tensor.detach(), op, group), async_op)


@checks_tensors
def reduce(tensor: Tensor, dst: int, op: str = ReduceOp.SUM, group: Group | None = None,
           async_op: bool = False) -> Work | None:
    """Write the ranks' sum to the tensor of rank dst; the others keep theirs."""
    found, root = rooted(group, dst, "reduce")
    total = functional.reduce(tensor.detach(), root, op, group)
    return _write(tensor, total if found.rank == root else tensor.detach(), async_op)


@checks_tensors
def broadcast(tensor: Tensor, src: int, group: Group | None = None,
              async_op: bool = False) -> Work | None:
    """Write the tensor of rank src to that of each."""
    _, root = rooted(group, src, "broadcast")
    return _write(tensor, functional.broadcast(tensor.detach(), root, group), async_op)


@checks_tensors
def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Group | None = None,
               async_op: bool = False) -> Work | None:
    """Write the tensor of each rank to the list."""
    return _write_all(tensor_list, functional.all_gather(tensor.detach(), group), async_op,
                      "all_gather")


@checks_tensors
def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor,
                           group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write the tensors of all ranks to one, joined along axis 0, or stacked on a new one."""
    found = functional.all_gather(input_tensor.detach(), group)
    return _write(output_tensor, found.reshape(output_tensor.shape), async_op)


@checks_tensors
def gather(tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int = 0,
           group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write the tensor of each rank to the list of rank dst; others give none."""
    found, root = rooted(group, dst, "gather")
    rows = functional.all_gather(tensor.detach(), group)
    if found.rank != root:
        return Work([tensor]) if async_op else None
    return _write_all(gather_list or (), rows, async_op, "gather")


@checks_tensors
def scatter(tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int = 0,
            group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to each rank's tensor its own one of the list of rank src; others give none."""
    found, root = rooted(group, src, "scatter")
    if found.rank == root:
        _check_list(scatter_list or (), found.size, "scatter")
        rows = stack([t.detach() for t in scatter_list or ()])
    else:
        rows = tensor.new_zeros((found.size, *tensor.shape))
    return _write(tensor, functional.broadcast(rows, root, group)[found.rank], async_op)


@checks_tensors
def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: str = ReduceOp.SUM,
                   group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to each rank's tensor the sum of the ranks' own ones for it."""
    rows = stack([t.detach() for t in input_list])
    return _write(output, functional.reduce_scatter(rows, op, group), async_op)


@checks_tensors
def reduce_scatter_tensor(output: Tensor, input: Tensor, op: str = ReduceOp.SUM,
                          group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to each rank's tensor its part of the sum, along axis 0."""
    size = state.group_of(group, "reduce_scatter_tensor").size
    rows = input.detach().reshape((size, *output.shape))
    return _write(output, functional.reduce_scatter(rows, op, group), async_op)


@checks_tensors
def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor],
               group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to tensor r of each rank what rank r has for it in its list. All are of one shape."""
    rows = stack([t.detach() for t in input_tensor_list])
    return _write_all(output_tensor_list, functional.all_to_all(rows, group), async_op,
                      "all_to_all")


@checks_tensors
def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: None = None,
                      input_split_sizes: None = None, group: Group | None = None,
                      async_op: bool = False) -> Work | None:
    """Write to each rank's tensor, along axis 0, what each other has for it. All parts are of one
    size."""
    size = state.group_of(group, "all_to_all_single").size
    if output_split_sizes or input_split_sizes or not input.ndim or input.shape[0] % size:
        raise ShapeError(f"all_to_all_single of shape {input.shape}: axis 0 is cut into {size} "
                         f"parts of one size; pad it to a multiple of {size}")
    rows = input.detach().reshape((size, input.shape[0] // size, *input.shape[1:]))
    return _write(output, functional.all_to_all(rows, group).reshape(input.shape), async_op)


def barrier(group: Group | None = None, async_op: bool = False, device_ids: object = None
            ) -> Work | None:
    """Return when all ranks of the group have called it, and have carried out what was recorded
    before, with async_op, too."""
    state.barrier(group)
    return Work() if async_op else None


@checks_tensors
def send(tensor: Tensor, dst: int, group: Group | None = None, tag: int = 0) -> None:
    """Send a tensor to rank dst, which calls recv() with the same tag."""
    found, to = rooted(group, dst, "send")
    functional.labelled_exchange(tensor.detach(), to, None, found, _tagged(tag))


@checks_tensors
def recv(tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0) -> int:
    """Write what rank src sends to the tensor; gives src. Of one rank tensors come in the order in
    which they are sent."""
    if src is None:
        raise ArgumentError("recv: src is left out, and what comes from any rank would come in no "
                            "order; say which rank sends")
    found, source = rooted(group, src, "recv")
    came = functional.labelled_exchange(tensor.detach(), None, source, found, _tagged(tag))
    _write(tensor, came, False)
    return src


def isend(tensor: Tensor, dst: int, group: Group | None = None, tag: int = 0) -> Work:
    """send(), which does not wait either."""
    send(tensor, dst, group, tag)
    return Work([tensor])


def irecv(tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0) -> Work:
    """recv(), which waits where the tensor is looked at."""
    recv(tensor, src, group, tag)
    return Work([tensor])


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Do each of these, one after the other."""
    for p2p in p2p_op_list:
        if not isinstance(p2p, P2POp) or p2p.op not in (isend, irecv):
            raise ArgumentError(f"batch_isend_irecv: {p2p!r:.80}; give P2POp(isend, tensor, rank) "
                                f"and P2POp(irecv, tensor, rank)")
    return [p2p.op(p2p.tensor, p2p.peer, p2p.group, p2p.tag) for p2p in p2p_op_list]


def _tagged(tag: int) -> str:
    return f"tag {tag}" if tag else ""


def become_as(tensors: Sequence[Tensor], group: Group, root: int = 0) -> None:
    """Write the tensors of rank `root` of a group of several to those of each: all of one type by a
    single collective."""
    with no_grad():
        for _, alike in groupby(sorted(tensors, key=type_of), type_of):
            own = list(alike)
            for tensor, first in zip(own, functional.together("broadcast", own, group, root),
                                     strict=True):
                tensor.copy_(first)


def type_of(x: Tensor) -> tuple[str, str]:
    """What tensors have in common that travel together."""
    return x.dtype.name, str(x.device)


# ---- how -----------------------------------------------------------------------------------------

def _write(tensor: Tensor, value: Tensor, async_op: bool) -> Work | None:
    with no_grad():
        tensor.copy_(value)
    return Work([tensor]) if async_op else None


def _write_all(tensors: Sequence[Tensor], rows: Tensor, async_op: bool, operation: str
               ) -> Work | None:
    _check_list(tensors, len(rows), operation)
    for number, tensor in enumerate(tensors):
        _write(tensor, rows[number], False)
    return Work(tensors) if async_op else None


def _check_list(tensors: Sequence[Tensor], size: int, operation: str) -> None:
    if len(tensors) != size:
        raise ShapeError(f"{operation}: {len(tensors)} tensors for {size} ranks; give one a rank")


def rooted(group: Group | None, rank: int, operation: str) -> tuple[Group, int]:
    """The group, and a rank of the job as one of the group. ArgumentError if it is in none."""
    found = state.group_of(group, operation)
    if rank not in found.ranks:
        raise ArgumentError(f"{operation}: rank {rank} is not in the group of ranks "
                            f"{list(found.ranks)}")
    return found, found.ranks.index(rank)
