"""`shard`: a value that the ranks of a mesh share out, as a note that the compiler reads."""
from __future__ import annotations

from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.group import Group
from lazyten.distributed.state import group_of
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir.collective import Sharding
from lazyten.ir.node import make
from lazyten.ir.ops import Op
from lazyten.support.errors import ArgumentError, ShapeError


@checks_tensors
def shard(input: Tensor, mesh: DeviceMesh | Group | None = None, axis: int = 0) -> Tensor:
    """The same values, of which each rank of `mesh` computes with its part of `axis` alone.

    input: all of it, the same on all ranks. mesh: a line of ranks, `mesh["name"]` of a grid; all
    ranks if left out. What is computed of the result is shared out as far as that goes, forward and
    back, and its values are whole again where somebody looks, on each rank the same: the compiler
    puts collectives where parts must meet (lazyten/sharding). All ranks must do the same, and look
    at the same values in the same order. Of an axis that is no multiple of the ranks, the last ones
    have less, or nothing.
    """
    if not isinstance(mesh, DeviceMesh | Group | None):
        raise ArgumentError(f"shard: mesh={mesh!r:.40}; give a line of a mesh, such as what "
                            f"init_device_mesh() or mesh[\"name\"] gives, or a group of ranks")
    group = group_of(mesh.get_group() if isinstance(mesh, DeviceMesh) else mesh, "shard")
    if not isinstance(axis, int) or not -input.ndim <= axis < input.ndim:
        raise ShapeError(f"shard of shape {input.shape}: there is no axis {axis!r}; give one from "
                         f"{-input.ndim} to {input.ndim - 1}")
    if group.size == 1:
        return input
    grid = mesh.grid if isinstance(mesh, DeviceMesh) else None
    sharding = Sharding(group, axis % input.ndim, input._storage.device, grid)
    return Tensor._result(make(Op.SHARD, input.dtype, (input.node,), sharding), input)
