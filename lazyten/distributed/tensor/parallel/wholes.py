"""Between the whole of a DTensor and the part that a rank stores: nodes for the pass that shares
work out (lazyten/sharding).

An axis that a line of ranks shares out is cut into intervals of one length, rounded up: the last
ranks have less, or nothing. Where two lines share one axis out, the outer one does so evenly.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.group import Group
from lazyten.distributed.tensor.parallel import layouts
from lazyten.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from lazyten.frontend import parts
from lazyten.frontend.tensor import Tensor
from lazyten.ir.collective import Sharding
from lazyten.ir.node import Node, Shape, make, move, toposort
from lazyten.ir.ops import Op
from lazyten.nn.parameter import Parameter
from lazyten.nn.sharded_parameter import SplitParameter, interval
from lazyten.sharding.spreading import possible
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, ShapeError

Placements = tuple[Placement, ...]
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class _Level:
    """How the ranks of one line have a value: each has all of it, or its part of an axis.
    length: of that axis, before the line's ranks share it out; start, stop: this rank's interval.
    """

    group: Group
    axis: int | None = None
    length: int = 0

    @property
    def start(self) -> int:
        return interval(self.length, self.group.rank, self.group.size)[0]

    @property
    def stop(self) -> int:
        return interval(self.length, self.group.rank, self.group.size)[1]

    def padding(self, own: int) -> int:
        """How much a part of this length lacks of what all parts have."""
        return -(-self.length // self.group.size) - own


def checked(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int, operation: str
            ) -> Placements:
    """Placements, one for each axis of the mesh, with axes counted from the first. ArgumentError
    and ShapeError for others."""
    lies = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    if len(lies) != mesh.ndim or not all(isinstance(p, Placement) for p in lies):
        raise ArgumentError(f"{operation}: placements={placements!r:.80} on a mesh of shape "
                            f"{mesh.shape}; give Shard(axis) or Replicate() for each of its axes")
    for p in lies:
        if isinstance(p, Shard) and not -ndim <= p.dim < ndim:
            raise ShapeError(f"{operation}: {p} of a tensor of {ndim} axes; give one from {-ndim} "
                             f"to {ndim - 1}")
    return tuple(Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in lies)


def _levels(shape: Shape, mesh: DeviceMesh, lies: Placements, operation: str) -> Iterator[_Level]:
    """The lines of more than one rank, from the first axis of the mesh on."""
    left, uneven = list(shape), set[int]()
    for at, p in enumerate(lies):
        group = mesh.get_group(at)
        if group.size > 1 and not isinstance(p, Shard):
            yield _Level(group)
        elif group.size > 1 and isinstance(p, Shard):
            if p.dim in uneven:
                raise ShapeError(f"{operation} of shape {shape}: axis {p.dim} lies as {lies} on a "
                                 f"mesh of shape {mesh.shape}, whose first ranks share it out "
                                 f"unevenly, and others what is left; pad it to a multiple, or "
                                 f"share it out along one axis of the mesh")
            level = _Level(group, p.dim, left[p.dim])
            if left[p.dim] % group.size:
                uneven.add(p.dim)
            left[p.dim] = level.stop - level.start
            yield level


def own_box(shape: Shape, mesh: DeviceMesh, lies: Placements, operation: str) -> parts.Box:
    """Which elements of a tensor of this shape this rank has."""
    first, sizes = [0] * len(shape), list(shape)
    for level in _levels(shape, mesh, lies, operation):
        if level.axis is not None:
            first[level.axis] += level.start
            sizes[level.axis] = level.stop - level.start
    return parts.Box(tuple(first), tuple(sizes))


def whole_shape(own: Shape, mesh: DeviceMesh, lies: Placements) -> Shape:
    """That of the whole of parts that are as long on all ranks."""
    found = list(own)
    for at, p in enumerate(lies):
        if isinstance(p, Shard):
            found[p.dim] *= mesh.size(at)
    return tuple(found)


def joined(own: Tensor, shape: Shape, mesh: DeviceMesh, lies: Placements) -> Tensor:
    """The whole, of this shape, of the ranks' parts."""
    node = own.node
    for level in reversed(list(_levels(shape, mesh, lies, "DTensor"))):
        if level.axis is not None:
            room = level.padding(node.shape[level.axis])
            node = move(Op.PAD, node, tuple([(0, room if i == level.axis else 0)
                                             for i in range(len(node.shape))]))
        node = make(Op.JOINED, node.dtype, (node,), _sharding(level, own, mesh))
    return Tensor._result(node, own)


def own_part(whole: Tensor, mesh: DeviceMesh, lies: Placements, operation: str) -> Tensor:
    """This rank's part of a whole."""
    node = whole.node
    for level in _levels(tuple(whole.shape), mesh, lies, operation):
        how = replace(_sharding(level, whole, mesh), number=next(_numbers))
        node = make(Op.OWN, node.dtype, (node,), how)
        if level.axis is not None:
            node = move(Op.SHRINK, node, tuple([
                (0, level.stop - level.start if i == level.axis else n)
                for i, n in enumerate(node.shape)]))
    return Tensor._result(node, whole)


def _sharding(level: _Level, x: Tensor, mesh: DeviceMesh) -> Sharding:
    length = level.length if level.axis is not None and level.length % level.group.size else None
    return Sharding(level.group, level.axis, x._storage.device, mesh.grid, length=length)


def narrowed(whole: Tensor, mesh: DeviceMesh, lies: Placements, operation: str) -> Tensor:
    """own_part() of what this rank has, without the others."""
    box = own_box(tuple(whole.shape), mesh, lies, operation)
    for axis, (first, size) in enumerate(zip(box.offsets, box.sizes, strict=True)):
        whole = whole.narrow(axis, first, size)
    return whole.clone()


def leaf_of(own: Tensor, shape: Shape, mesh: DeviceMesh, lies: Placements) -> Tensor:
    """A rank's part of a tensor of this shape as what is trained: cut along one axis of the mesh,
    as clip_grad_norm_() and checkpoints know of one group of ranks."""
    cut = [(p.dim, mesh.get_group(axis)) for axis, p in enumerate(lies)
           if isinstance(p, Shard) and mesh.get_group(axis).size > 1]
    if len(cut) > 1:
        raise ArgumentError(f"a DTensor that is trained lies as {lies}; share it out along one "
                            f"axis of the mesh, with Replicate() for others")
    if not cut:
        return Parameter(own)
    made = SplitParameter(own)
    made.whole_shape, (made.axis, made.group) = tuple(shape), cut[0]
    return made


def made(x: Tensor) -> Tensor:
    """A tensor with its value, so that ranks may look at it or not; a trace has it with the rest.
    """
    return x if tracing.current() is not None else x.realize()


def summed(own: Tensor, group: Group, placement: Partial) -> Tensor:
    """The sum or mean of the ranks' values, as a placement says."""
    if placement.reduce_op == "sum":
        return layouts.summed(own, group)
    if placement.reduce_op in ("avg", "mean"):
        return layouts.summed(own / group.size, group)
    raise ArgumentError(f"DTensor.from_local: {placement}; it is the sum or the mean of parts")


def spread(node: Node, group: Group) -> Placement:
    """How the ranks of a group have a result, as far as parts spread."""
    if group.size == 1:
        return Replicate()
    split = possible(toposort([node]), group).get(node)
    cut = None if split is None else split.cut
    return Replicate() if cut is None or cut.before > 1 else Shard(cut.axis)
