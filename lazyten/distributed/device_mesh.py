"""`DeviceMesh`: the ranks of a job as a grid, with a group for each line of it.

One axis is of ranks that share out a layer, another of those that share out batches.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lazyten.distributed import state
from lazyten.distributed.group import Group
from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError

Axis = int | str | None


class DeviceMesh:
    """A grid of ranks, or a line of one; made by init_device_mesh().

    mesh[name] is the line of this rank along an axis. device_type: a name, which changes nothing:
    values are where they are. groups: of the line of this rank along each axis. grid: the same for
    all lines of one grid.
    """

    def __init__(self, device_type: str, ranks: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
                 mesh_dim_names: tuple[str, ...] | None, groups: tuple[Group, ...],
                 grid: object = None) -> None:
        self.device_type, self.mesh_dim_names = device_type, mesh_dim_names
        self._ranks, self._groups, self.grid = ranks, groups, grid or object()

    @property
    def mesh(self) -> Tensor:
        """The numbers of the ranks."""
        return tensor(self._ranks)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many ranks there are along each axis."""
        return tuple(self._ranks.shape)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._ranks.ndim

    def size(self, mesh_dim: Axis = None) -> int:
        """How many ranks there are, along an axis or in all."""
        return self._ranks.size if mesh_dim is None else self.shape[self._axis(mesh_dim)]

    def get_group(self, mesh_dim: Axis = None) -> Group:
        """The ranks of this one's line along an axis, which may be left out if there is but one."""
        return self._groups[self._axis(mesh_dim)]

    def get_local_rank(self, mesh_dim: Axis = None) -> int:
        """This rank's number along an axis."""
        return self.get_group(mesh_dim).rank

    def get_coordinate(self) -> list[int]:
        """This rank's number along each axis."""
        return [group.rank for group in self._groups]

    def get_rank(self) -> int:
        """This rank's number in the job."""
        return state.rank()

    def __getitem__(self, mesh_dim: str) -> DeviceMesh:
        axis = self._axis(mesh_dim)
        group = self._groups[axis]
        return DeviceMesh(self.device_type, np.array(group.ranks), (mesh_dim,), (group,),
                          self.grid)

    def _axis(self, mesh_dim: Axis) -> int:
        names = self.mesh_dim_names or ()
        if mesh_dim is None and self.ndim == 1:
            return 0
        if mesh_dim in names:
            return names.index(str(mesh_dim))
        if isinstance(mesh_dim, int) and -self.ndim <= mesh_dim < self.ndim:
            return mesh_dim % self.ndim
        axes = f"a number below {self.ndim}" + (f", or one of {', '.join(names)}" if names else "")
        raise ArgumentError(f"DeviceMesh of shape {self.shape}: there is no axis {mesh_dim!r}; "
                            f"give {axes}")

    def __repr__(self) -> str:
        return (f"DeviceMesh({self.device_type!r}, {self._ranks.tolist()}, "
                f"mesh_dim_names={self.mesh_dim_names})")


def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *,
                     mesh_dim_names: Sequence[str] | None = None) -> DeviceMesh:
    """All ranks of the job as a grid of this shape, by rows; all of them call this, and join the
    job, if they have not. mesh_dim_names: a name an axis. ArgumentError unless it has a place for
    each rank."""
    world = state.init()
    shape, names = tuple(mesh_shape), None if mesh_dim_names is None else tuple(mesh_dim_names)
    if not shape or any(n < 1 for n in shape) or math.prod(shape) != world.size:
        raise ArgumentError(f"init_device_mesh: a mesh of shape {shape} for {world.size} ranks; "
                            f"the product of its sizes must be that number")
    if names is not None and (len(names) != len(shape) or len(set(names)) < len(names)):
        raise ArgumentError(f"init_device_mesh: mesh_dim_names={names} of a mesh of shape {shape}; "
                            f"give each axis a name of its own")
    ranks = np.arange(world.size).reshape(shape)
    if len(shape) == 1:
        return DeviceMesh(device_type, ranks, names, (world,))
    groups = []
    for axis, length in enumerate(shape):
        lines = np.moveaxis(ranks, axis, -1).reshape(-1, length)
        made = [state.new_group(line.tolist()) for line in lines]
        groups += [group for group in made if world.rank in group.ranks]
    return DeviceMesh(device_type, ranks, names, tuple(groups))
