"""PyTorch's functions of `torch.distributed`, which write to tensors they are given.

Each is one of functional.py whose result is written in place. `src` and `dst` are ranks of the job,
as in PyTorch. With async_op a `Work` is given, whose wait() has nothing to do: results are waited
for where they are read.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from lazyten.distributed import functional, state
from lazyten.distributed.group import Group
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.functions import cat, stack
from lazyten.frontend.tensor import Tensor
from lazyten.pytorch.futures import Future
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad

_BACKENDS = frozenset(("mpi", "gloo", "nccl", "ucc", "xccl", "fake"))
"""Those that programs name; each means MPI."""


class ReduceOp:
    """What ranks' tensors are combined by."""

    SUM, AVG, MAX, MIN, PRODUCT = "sum", "mean", "max", "min", "product"
    BAND, BOR, BXOR = "band", "bor", "bxor"
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
        """The name of one. ArgumentError for what is no text."""
        if not isinstance(name, str):
            raise ArgumentError(f"Backend({name!r:.40}): give a name, such as 'mpi'")
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
    return write(tensor, functional.all_reduce(tensor.detach(), op, group), async_op)


@checks_tensors
def reduce(tensor: Tensor, dst: int | None = None, op: str = ReduceOp.SUM,
           group: Group | None = None, async_op: bool = False, group_dst: int | None = None
           ) -> Work | None:
    """Write the ranks' sum to the tensor of rank dst; the others keep theirs."""
    found, root = rooted(group, dst, "reduce", group_dst)
    total = functional.reduce(tensor.detach(), root, op, group)
    return write(tensor, total if found.rank == root else tensor.detach(), async_op)


@checks_tensors
def broadcast(tensor: Tensor, src: int | None = None, group: Group | None = None,
              async_op: bool = False, group_src: int | None = None) -> Work | None:
    """Write the tensor of rank src to that of each."""
    _, root = rooted(group, src, "broadcast", group_src)
    return write(tensor, functional.broadcast(tensor.detach(), root, group), async_op)


@checks_tensors
def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Group | None = None,
               async_op: bool = False) -> Work | None:
    """Write the tensor of each rank to the list, whose tensors have the shapes of what comes: the
    same list on all ranks."""
    found = state.group_of(group, "all_gather")
    _check_list(tensor_list, found.size, "all_gather")
    shapes = [tuple(t.shape) for t in tensor_list]
    _check_own(tensor, shapes[found.rank], "all_gather")
    if len(set(shapes)) == 1:
        return _write_all(tensor_list, functional.all_gather(tensor.detach(), group), async_op)
    rows = functional.labelled_gather(_filled(tensor.detach(), shapes), found, f"shapes {shapes}")
    return _write_all(tensor_list, _unfilled(rows, shapes), async_op)


@checks_tensors
def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor,
                           group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write the tensors of all ranks to one, joined along axis 0, or stacked on a new one."""
    found = functional.all_gather(input_tensor.detach(), group)
    _check_size(output_tensor, found.numel(), "all_gather_into_tensor")
    return write(output_tensor, found.reshape(output_tensor.shape), async_op)


@checks_tensors
def gather(tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None,
           group: Group | None = None, async_op: bool = False, group_dst: int | None = None
           ) -> Work | None:
    """Write the tensor of each rank to the list of rank dst; others give none."""
    found, root = rooted(group, _or_first(dst, group_dst), "gather", group_dst)
    rows = functional.all_gather(tensor.detach(), group)
    if found.rank != root:
        return Work([tensor]) if async_op else None
    _check_list(gather_list or (), found.size, "gather")
    return _write_all(gather_list or (), rows, async_op)


@checks_tensors
def scatter(tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None,
            group: Group | None = None, async_op: bool = False, group_src: int | None = None
            ) -> Work | None:
    """Write to each rank's tensor its own one of the list of rank src; others give none."""
    found, root = rooted(group, _or_first(src, group_src), "scatter", group_src)
    if found.rank == root:
        _check_list(scatter_list or (), found.size, "scatter")
        rows = stack([t.detach() for t in scatter_list or ()])
    else:
        rows = tensor.new_zeros((found.size, *tensor.shape))
    return write(tensor, functional.broadcast(rows, root, group)[found.rank], async_op)


@checks_tensors
def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: str = ReduceOp.SUM,
                   group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to each rank's tensor the sum of the ranks' own ones for it. Those for different ranks
    may have different shapes, the same on all ranks."""
    found = state.group_of(group, "reduce_scatter")
    _check_list(input_list, found.size, "reduce_scatter")
    shapes = [tuple(t.shape) for t in input_list]
    _check_own(output, shapes[found.rank], "reduce_scatter")
    if len(set(shapes)) == 1:
        rows = stack([t.detach() for t in input_list])
        return write(output, functional.reduce_scatter(rows, op, group), async_op)
    rows = stack([_filled(t.detach(), shapes) for t in input_list])
    own = functional.labelled_scatter(rows, op, found, f"shapes {shapes}")
    return write(output, own[:output.numel()].reshape(output.shape), async_op)


@checks_tensors
def reduce_scatter_tensor(output: Tensor, input: Tensor, op: str = ReduceOp.SUM,
                          group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to each rank's tensor its part of the sum, along axis 0."""
    size = state.group_of(group, "reduce_scatter_tensor").size
    _check_size(input, size * output.numel(), "reduce_scatter_tensor")
    rows = input.detach().reshape((size, *output.shape))
    return write(output, functional.reduce_scatter(rows, op, group), async_op)


@checks_tensors
def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor],
               group: Group | None = None, async_op: bool = False) -> Work | None:
    """Write to tensor r of each rank, which has its shape, what rank r has for it in its list."""
    found = state.group_of(group, "all_to_all")
    for tensors in (input_tensor_list, output_tensor_list):
        _check_list(tensors, found.size, "all_to_all")
    sent, received = ([t.numel() for t in ts] for ts in (input_tensor_list, output_tensor_list))
    flat = cat([t.detach().reshape(-1) for t in input_tensor_list])
    parts = functional.all_to_all_parts(flat, sent, received, found).split(received)
    return _write_all(output_tensor_list, [part.reshape(t.shape) for part, t in zip(
        parts, output_tensor_list, strict=True)], async_op)


@checks_tensors
def all_to_all_single(output: Tensor, input: Tensor,
                      output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: Group | None = None,
                      async_op: bool = False) -> Work | None:
    """Write to each rank's tensor, along axis 0, what each other has for it. The split sizes say
    how many rows come from each rank, and go to each; as many from each, if they are left out, on
    all ranks or on none."""
    found = functional.to_each(input.detach(), output_split_sizes, input_split_sizes,
                               output.shape[0] if output.ndim else 0, group)
    _check_size(output, found.numel(), "all_to_all_single")
    return write(output, found.reshape(output.shape), async_op)


@checks_tensors
def all_reduce_coalesced(tensors: Sequence[Tensor], op: str = ReduceOp.SUM,
                         group: Group | None = None, async_op: bool = False) -> Work | None:
    """all_reduce() of each."""
    for tensor in tensors:
        all_reduce(tensor, op, group)
    return Work(tensors) if async_op else None


@checks_tensors
def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Tensor]],
                         input_tensor_list: Sequence[Tensor], group: Group | None = None,
                         async_op: bool = False) -> Work | None:
    """all_gather() of each tensor to the list of each rank in output_tensor_lists."""
    found = state.group_of(group, "all_gather_coalesced")
    _check_list(output_tensor_lists, found.size, "all_gather_coalesced")
    for number, tensor in enumerate(input_tensor_list):
        all_gather([own[number] for own in output_tensor_lists], tensor, found)
    return Work([t for own in output_tensor_lists for t in own]) if async_op else None


def barrier(group: Group | None = None, async_op: bool = False, device_ids: object = None
            ) -> Work | None:
    """Return when all ranks of the group have called it, and have carried out what was recorded
    before, with async_op, too."""
    state.barrier(group)
    return Work() if async_op else None


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

def write(tensor: Tensor, value: Tensor, async_op: bool) -> Work | None:
    """Write a value in place."""
    with no_grad():
        tensor.copy_(value)
    return Work([tensor]) if async_op else None


def _write_all(tensors: Sequence[Tensor], rows: Any, async_op: bool) -> Work | None:
    for number, tensor in enumerate(tensors):
        write(tensor, rows[number], False)
    return Work(tensors) if async_op else None


def _filled(x: Tensor, shapes: Sequence[tuple[int, ...]]) -> Tensor:
    """A tensor's elements, and as many zeros as the largest of these shapes has more."""
    most = max(map(math.prod, shapes))
    return cat([x.reshape(-1), x.new_zeros(most - x.numel())])


def _unfilled(rows: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """What was filled up."""
    return [rows[i, :math.prod(shape)].reshape(shape) for i, shape in enumerate(shapes)]


def _or_first(rank: int | None, group_rank: int | None) -> int | None:
    """Rank 0, where no rank is named."""
    return 0 if rank is None and group_rank is None else rank


def _check_own(own: Tensor, wanted: tuple[int, ...], operation: str) -> None:
    if tuple(own.shape) != wanted:
        raise ShapeError(f"{operation}: this rank's tensor has shape {own.shape}, and its place in "
                         f"the list shape {wanted}; make them the same")


def _check_size(x: Tensor, wanted: int, operation: str) -> None:
    if x.numel() != wanted:
        raise ShapeError(f"{operation}: a tensor of shape {x.shape} for the {wanted} elements of "
                         f"all ranks; it must have as many")


def _check_list(tensors: Sequence[Any], size: int, operation: str) -> None:
    if len(tensors) != size:
        raise ShapeError(f"{operation}: {len(tensors)} tensors for {size} ranks; give one a rank")


def rooted(group: Group | None, rank: int | None, operation: str, group_rank: int | None = None
           ) -> tuple[Group, int]:
    """The group, and a rank of the job, or group_rank, as one of the group. ArgumentError if it is
    in none, and unless one of both is given."""
    found = state.group_of(group, operation)
    if (rank is None) is (group_rank is None):
        raise ArgumentError(f"{operation}: give a rank of the job (src, dst), or one of the group "
                            f"(group_src, group_dst), and not both")
    if group_rank is not None:
        return found, found.ranks.index(state.get_global_rank(found, group_rank))
    if rank is None or rank not in found.ranks:
        raise ArgumentError(f"{operation}: rank {rank} is not in the group of ranks "
                            f"{list(found.ranks)}")
    return found, found.ranks.index(rank)
