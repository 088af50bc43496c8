"""PyTorch's functions of `torch.distributed.nn` and `torch.distributed._functional_collectives`.

They give new tensors, through which gradients flow, as those of functional.py do, which they are
made of. `src` and `dst` are ranks of the job. A gradient is that of the sum of what the ranks
differentiate.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.distributed import functional
from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import ReduceOp as ReduceOp
from lazyten.distributed.in_place import rooted
from lazyten.distributed.state import group_of
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.functions import cat, stack
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, ShapeError

Ranks = Group | DeviceMesh | tuple[DeviceMesh, int] | None
_NAMES = {"avg": "mean"}
"""What reductions are called here."""


@checks_tensors
def all_reduce(tensor: Tensor, op: str = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The ranks' sum (see ReduceOp)."""
    return functional.all_reduce(tensor, _NAMES.get(op, op), _group(group, "all_reduce"))


@checks_tensors
def reduce(tensor: Tensor, dst: int, op: str = ReduceOp.SUM, group: Group | None = None) -> Tensor:
    """The ranks' sum on rank dst; others have their own tensor."""
    found, root = rooted(group, dst, "reduce")
    total = functional.reduce(tensor, root, op, found)
    return total if found.rank == root else tensor + 0 * total


@checks_tensors
def broadcast(tensor: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor of rank src."""
    found, root = rooted(group, src, "broadcast")
    return functional.broadcast(tensor, root, found)


@checks_tensors
def all_gather(tensor: Tensor, group: Group | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks."""
    return functional.all_gather(tensor, group).unbind(0)


@checks_tensors
def gather(tensor: Tensor, dst: int = 0, group: Group | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on rank dst; tensors of 0 on others."""
    found, root = rooted(group, dst, "gather")
    before, after = found.rank, found.size - found.rank - 1
    own = cat([tensor.new_zeros((before, *tensor.shape)), tensor.unsqueeze(0),
               tensor.new_zeros((after, *tensor.shape))])
    return functional.reduce(own, root, "sum", found).unbind(0)


@checks_tensors
def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group | None = None) -> Tensor:
    """This rank's own one of the tensors of rank src; others give tensors of the same shapes."""
    found, root = rooted(group, src, "scatter")
    if len(tensors) != found.size:
        raise ShapeError(f"scatter: {len(tensors)} tensors for {found.size} ranks; give one a rank")
    return functional.broadcast(stack(list(tensors)), root, found)[found.rank]


@checks_tensors
def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: str = ReduceOp.SUM,
                   group: Group | None = None) -> Tensor:
    """The sum of the ranks' own tensors for this one. output: of its shape."""
    return functional.reduce_scatter(stack(list(input_list)), op, group)


@checks_tensors
def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor],
               group: Group | None = None) -> tuple[Tensor, ...]:
    """What each rank has for this one. output_tensor_list: of the shapes of what comes."""
    received = [t.numel() for t in output_tensor_list]
    flat = cat([t.reshape(-1) for t in input_tensor_list])
    sent = [t.numel() for t in input_tensor_list]
    parts = functional.all_to_all_parts(flat, sent, received, group).split(received)
    return tuple([part.reshape(t.shape) for part, t in zip(parts, output_tensor_list, strict=True)])


@checks_tensors
def all_to_all_single(output: Tensor, input: Tensor,
                      output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: Group | None = None
                      ) -> Tensor:
    """What each rank has for this one, along axis 0. output: of the shape of what comes. See the
    function of this name that writes to it."""
    return functional.to_each(input, output_split_sizes, input_split_sizes,
                              output.shape[0] if output.ndim else 0, group)


@checks_tensors
def all_gather_tensor(self: Tensor, gather_dim: int, group: Ranks = None, tag: str = "") -> Tensor:
    """The tensors of all ranks, joined along an axis."""
    rows = functional.all_gather(self, _group(group, "all_gather_tensor"))
    axis = gather_dim % self.ndim
    return rows.movedim(0, axis).flatten(axis, axis + 1)


@checks_tensors
def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Ranks = None,
                          tag: str = "") -> Tensor:
    """This rank's part of an axis of the ranks' sum."""
    found = _group(group, "reduce_scatter_tensor")
    axis = scatter_dim % self.ndim
    if self.shape[axis] % found.size:
        raise ShapeError(f"reduce_scatter_tensor of shape {self.shape}: axis {axis} is cut into "
                         f"{found.size} parts of one size; pad it to a multiple of {found.size}")
    rows = self.unflatten(axis, (found.size, -1)).movedim(axis, 0)
    return functional.reduce_scatter(rows, _NAMES.get(reduceOp, reduceOp), found)


@checks_tensors
def all_to_all_single_autograd(self: Tensor, output_split_sizes: Sequence[int] | None,
                               input_split_sizes: Sequence[int] | None, group: Ranks,
                               tag: str = "") -> Tensor:
    """What each rank has for this one, along axis 0: so many rows of each, by default as many."""
    rows = self.shape[0] if self.ndim else 0
    coming = rows if output_split_sizes is None else sum(output_split_sizes)
    return functional.to_each(self, output_split_sizes, input_split_sizes, coming,
                              _group(group, "all_to_all_single_autograd"))


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself: it is waited for where it is read."""
    return tensor


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor


def _group(ranks: Any, operation: str) -> Group:
    """The group that is meant by one, a mesh of one axis, or a mesh and an axis of it."""
    if isinstance(ranks, tuple) and len(ranks) == 2 and isinstance(ranks[0], DeviceMesh):
        return ranks[0].get_group(ranks[1])
    if isinstance(ranks, list):
        raise ArgumentError(f"{operation}: group={ranks!r:.60}; give what new_group({ranks!r:.60}) "
                            f"gave")
    return group_of(ranks.get_group() if isinstance(ranks, DeviceMesh) else ranks, operation)
