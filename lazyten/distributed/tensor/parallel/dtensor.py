"""`DTensor`: a tensor of which each rank of a mesh stores a part, and that operations take whole.

What it is to an operation is a JOINED node over this rank's part, so the pass that shares work out
(lazyten/sharding) has each rank compute with its part as far as that goes, and sends parts where
they must meet. Gradients come back as parts. All ranks do the same, and look at the same values in
the same order.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from itertools import count
from typing import Any

from lazyten.distributed import functional
from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.group import Group
from lazyten.distributed.tensor.parallel import layouts
from lazyten.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from lazyten.frontend import parts
from lazyten.frontend.core import overriding
from lazyten.frontend.tensor import Tensor
from lazyten.ir.collective import Sharding
from lazyten.ir.node import Node, Shape, make, toposort
from lazyten.ir.ops import Op
from lazyten.nn.parameter import Parameter
from lazyten.nn.sharded_parameter import SplitParameter
from lazyten.sharding.spreading import possible
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.trees import of_kind

Placements = tuple[Placement, ...]
_numbers = count(1)


class DTensor(Tensor):
    """Made by distribute_tensor() and DTensor.from_local(), and by operations on such.

    device_mesh: the ranks. It has the shape and the values of the whole. What an operation gives is
    computed where it is wanted: to_local() gives this rank's part of it, full_tensor() the whole on
    all ranks. What is written to one that stores a part is written to the parts.
    """

    device_mesh: DeviceMesh
    _own: Tensor | None
    """This rank's part, where it is stored."""
    _stored_as: Placements
    _plain: Tensor
    """The whole, as operations take it."""
    _made_of: tuple[Node, bool] | None

    @property
    def _storage(self) -> Any:  # type: ignore[override]
        raise ArgumentError("this takes no DTensor: give it to_local(), this rank's part, or "
                            "full_tensor(), which all ranks call")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What an operation gives of the wholes."""
        found: list[DTensor] = []
        _note((args, kwargs), found)
        _check_target(func, args, kwargs or {})
        given = _replaced((args, kwargs or {}), found[0].device_mesh, func)
        before = [x._plain._storage.version for x in found]
        with overriding.NotAsked():
            result = func(*given[0], **given[1])
        for x, version in zip(found, before, strict=True):
            if x._plain._storage.version != version:
                x._lay()
        same = {id(x._plain): x for x in found}
        return _wrapped(result, found[0].device_mesh, same)

    # ---- how it lies -----------------------------------------------------------------------------

    @property
    def placements(self) -> Placements:
        """How it lies on each axis of the mesh: as it is stored; of a result, as far as parts of
        what it is made of spread. (A sum over ranks is whole on each, once it is made.)"""
        return self._stored_as if self._own is not None else tuple(
            _spread(self._whole().node, self.device_mesh.get_group(axis))
            for axis in range(self.device_mesh.ndim))

    @staticmethod
    def from_local(local_tensor: Tensor, device_mesh: DeviceMesh,
                   placements: Sequence[Placement] | None = None, *, run_check: bool = False,
                   shape: object = None, stride: object = None) -> DTensor:
        """The tensor of which this is a rank's part, with the same gradient. The parts of an axis
        have the same size; Partial() parts are summed. placements: Replicate() if left out."""
        lies = _checked(placements, device_mesh, local_tensor.ndim, "DTensor.from_local")
        own = local_tensor
        for axis, placement in enumerate(lies):
            if isinstance(placement, Partial):
                own = _summed(own, device_mesh.get_group(axis), placement)
        settled = tuple(Replicate() if isinstance(p, Partial) else p for p in lies)
        return _stored(own, device_mesh, settled)

    def to_local(self, *, grad_placements: object = None) -> Tensor:
        """This rank's part. What is computed of it is this rank's own. Of a result it is computed
        now, by all ranks, which all call this."""
        return self._own if self._own is not None else _made(self._part_here())

    def _part_here(self) -> Tensor:
        """to_local() that is computed later."""
        if self._own is not None:
            return self._own
        return _own_part(self._whole(), self.device_mesh, self.placements, "to_local")

    def full_tensor(self, *, grad_placements: object = None) -> Tensor:
        """The whole, on all ranks, which all call this: it is computed now."""
        mesh = self.device_mesh
        return _made(_own_part(self._whole(), mesh, (Replicate(),) * mesh.ndim, "full_tensor"))

    def redistribute(self, device_mesh: DeviceMesh | None = None,
                     placements: Sequence[Placement] | None = None, *, async_op: bool = False
                     ) -> DTensor:
        """The same values, stored in another way on the same mesh."""
        mesh = self.device_mesh
        if device_mesh not in (None, mesh):
            raise ArgumentError("DTensor.redistribute: another mesh; use distribute_tensor("
                                "x.full_tensor(), mesh, placements)")
        lies = _checked(placements, mesh, self.ndim, "DTensor.redistribute")
        return _stored(_own_part(self._whole(), mesh, lies, "DTensor.redistribute"), mesh, lies)

    def detach(self) -> Any:
        """The same values, through which no gradient flows: of one that stores a part, the same
        part."""
        own = self._own
        return _result(self._whole().detach(), self.device_mesh) if own is None else \
            _stored(own.detach(), self.device_mesh, self._stored_as)

    def _as_part(self) -> Tensor:
        """This rank's part, as checkpoints take one; of a result a copy."""
        own, shape = self._part_here(), tuple(self.shape)
        first = [0] * len(shape)
        for axis, p in enumerate(self.placements):
            if isinstance(p, Shard):
                shape = tuple([n // self.device_mesh.size(axis) if i == p.dim else n
                               for i, n in enumerate(shape)])
                first[p.dim] += shape[p.dim] * self.device_mesh.get_local_rank(axis)
        return parts.Part(own, parts.sliced(tuple(self.shape), parts.Box(tuple(first), shape)))

    def _of_part(self, own: Tensor) -> DTensor:
        """A tensor that lies as this one does, of another part."""
        return _stored(own, self.device_mesh, self.placements)

    def _as_parameter(self) -> type[Parameter]:
        """The class of a parameter of it."""
        return DParameter

    # ---- gradients -------------------------------------------------------------------------------

    @property
    def grad(self) -> Any:
        """What backward() has added: each rank stores its part."""
        own = self._own
        if own is None:
            return self._plain.grad
        return None if own.grad is None else _stored(own.grad, self.device_mesh, self._stored_as)

    @grad.setter
    def grad(self, grad: Any) -> None:
        if self._own is None:
            self._plain.grad = grad
        elif isinstance(grad, Tensor):
            whole = grad._whole() if isinstance(grad, DTensor) else grad
            self._own.grad = _own_part(whole, self.device_mesh, self._stored_as, "grad").detach()
        else:
            self._own.grad = grad

    def requires_grad_(self, requires_grad: bool = True) -> DTensor:
        """Collect gradients in `.grad`, or stop. Gives this tensor, which stores a part if it is to
        collect them."""
        own = self._own
        if requires_grad and not self.requires_grad and not isinstance(own, Parameter):
            lies = self.placements
            own = self._own = leaf_of(self._part_here(), self.shape, self.device_mesh, lies)
            self._stored_as, self._made_of = lies, None
        (self._plain if own is None else own).requires_grad_(requires_grad)
        return self

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow back through it."""
        return (self._plain if self._own is None else self._own).requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return (self._plain if self._own is None else self._own).is_leaf

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind(0))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._own is None:
            return _result(self._plain.__deepcopy__(memo), self.device_mesh)
        result: DTensor = object.__new__(type(self))
        _store(result, self._own.__deepcopy__(memo), self.device_mesh, self._stored_as)
        return result

    def __repr__(self) -> str:
        return (f"DTensor(local_tensor={self.to_local()!r}, device_mesh={self.device_mesh!r}, "
                f"placements={self.placements})")

    # ---- how -------------------------------------------------------------------------------------

    def _whole(self) -> Tensor:
        """What operations take: of a stored one made anew once its part has changed, or somebody
        has looked at all of it, which is not to be kept."""
        if self._own is not None:
            made_of = self._own.node, is_grad_enabled()
            if self._made_of != made_of or self._plain._storage.buffer is not None:
                self._plain = _joined(self._own, self.device_mesh, self._stored_as)
                self._made_of = made_of
        return self._plain

    def _lay(self) -> None:
        """The whole was written to: so is the part that is stored."""
        if self._own is not None:
            part = _own_part(self._plain, self.device_mesh, self._stored_as, "write")
            self._own.copy_(part)
            self._made_of = None


class DParameter(DTensor, Parameter):
    """A DTensor that a module trains: Parameter(x) of a DTensor."""

    def __init__(self, data: DTensor, requires_grad: bool = True) -> None:
        lies = data.placements
        own = leaf_of(data._part_here().detach(), tuple(data.shape), data.device_mesh, lies)
        own.requires_grad_(requires_grad)
        _store(self, own, data.device_mesh, lies)


def distribute_tensor(tensor: Tensor, device_mesh: DeviceMesh | None = None,
                      placements: Sequence[Placement] | None = None, *,
                      src_data_rank: int | None = 0) -> DTensor:
    """A tensor that all ranks have as one of which each stores a part.

    Its values are those of the mesh's rank `src_data_rank`; of each rank's own, if that is None.
    placements: one for each axis of the mesh; Replicate() if left out. A leaf that requires
    gradients is one again. ShapeError for an axis that ranks cannot share out evenly.
    """
    if not isinstance(device_mesh, DeviceMesh):
        raise ArgumentError(f"distribute_tensor: device_mesh={device_mesh!r:.40}; give what "
                            f"init_device_mesh() gave")
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    lies = _checked(placements, device_mesh, tensor.ndim, "distribute_tensor")
    if any(isinstance(p, Partial) for p in lies):
        raise ArgumentError("distribute_tensor: Partial() says nothing of a whole tensor; give "
                            "Shard(axis) or Replicate()")
    whole = tensor.detach()
    for axis in range(device_mesh.ndim if src_data_rank is not None else 0):
        whole = functional.broadcast(whole, src_data_rank or 0, device_mesh.get_group(axis))
    _check_even(tuple(whole.shape), device_mesh, lies, "distribute_tensor")
    own = _narrowed(whole, device_mesh, lies)
    if tensor.requires_grad:
        own = leaf_of(own, whole.shape, device_mesh, lies)
    return _stored(own, device_mesh, lies)


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


# ---- wholes and parts ----------------------------------------------------------------------------

def _stored(own: Tensor, mesh: DeviceMesh, lies: Placements) -> DTensor:
    result: DTensor = object.__new__(DTensor)
    _store(result, own, mesh, lies)
    return result


def _store(x: DTensor, own: Tensor, mesh: DeviceMesh, lies: Placements) -> None:
    x._own, x.device_mesh, x._stored_as, x._made_of = own, mesh, lies, None
    x._whole()


def _result(plain: Tensor, mesh: DeviceMesh) -> DTensor:
    result: DTensor = object.__new__(DTensor)
    result._own, result.device_mesh, result._plain = None, mesh, plain
    return result


def _joined(own: Tensor, mesh: DeviceMesh, lies: Placements) -> Tensor:
    """The whole of parts."""
    node = own.node
    for sharding in reversed(_shardings(own, mesh, lies)):
        node = make(Op.JOINED, node.dtype, (node,), sharding)
    return Tensor._result(node, own)


def _made(x: Tensor) -> Tensor:
    """A tensor with its value, so that ranks may look at it or not; a trace has it with the rest.
    """
    return x if tracing.current() is not None else x.realize()


def _own_part(whole: Tensor, mesh: DeviceMesh, lies: Placements, operation: str) -> Tensor:
    """This rank's part of a whole."""
    _check_even(tuple(whole.shape), mesh, lies, operation)
    node = whole.node
    for sharding in _shardings(whole, mesh, lies):
        node = make(Op.OWN, node.dtype, (node,), replace(sharding, number=next(_numbers)))
    return Tensor._result(node, whole)


def _shardings(x: Tensor, mesh: DeviceMesh, lies: Placements) -> list[Sharding]:
    """How each axis of the mesh that has several ranks shares a value out, or does not."""
    device = x._storage.device
    return [Sharding(mesh.get_group(axis), p.dim % x.ndim if isinstance(p, Shard) else None, device,
                     mesh.grid)
            for axis, p in enumerate(lies) if mesh.get_group(axis).size > 1]


def _narrowed(whole: Tensor, mesh: DeviceMesh, lies: Placements) -> Tensor:
    """_own_part() of what this rank has, without the others."""
    for axis, placement in enumerate(lies):
        group = mesh.get_group(axis)
        if isinstance(placement, Shard):
            length = whole.shape[placement.dim] // group.size
            whole = whole.narrow(placement.dim, group.rank * length, length)
    return whole.clone()


def _summed(own: Tensor, group: Group, placement: Partial) -> Tensor:
    if placement.reduce_op == "sum":
        return layouts.summed(own, group)
    if placement.reduce_op in ("avg", "mean"):
        return layouts.summed(own / group.size, group)
    raise ArgumentError(f"DTensor.from_local: {placement}; it is the sum or the mean of parts")


def _spread(node: Node, group: Group) -> Placement:
    """How the ranks of a group have a result, as far as parts spread."""
    if group.size == 1:
        return Replicate()
    split = possible(toposort([node]), group).get(node)
    cut = None if split is None else split.cut
    return Replicate() if cut is None or cut.before > 1 else Shard(cut.axis)


def _checked(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int, operation: str
             ) -> Placements:
    lies = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    if len(lies) != mesh.ndim or not all(isinstance(p, Placement) for p in lies):
        raise ArgumentError(f"{operation}: placements={placements!r:.80} on a mesh of shape "
                            f"{mesh.shape}; give Shard(axis) or Replicate() for each of its axes")
    for p in lies:
        if isinstance(p, Shard) and not -ndim <= p.dim < ndim:
            raise ShapeError(f"{operation}: {p} of a tensor of {ndim} axes; give one from {-ndim} "
                             f"to {ndim - 1}")
    return tuple(Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in lies)


def _check_even(shape: tuple[int, ...], mesh: DeviceMesh, lies: Placements, operation: str) -> None:
    left = list(shape)
    for axis, p in enumerate(lies):
        size = mesh.get_group(axis).size
        if isinstance(p, Shard):
            if left[p.dim] % size:
                raise ShapeError(f"{operation} of shape {shape}: the {left[p.dim]} elements of "
                                 f"axis {p.dim} cannot be shared out evenly by {size} ranks; pad "
                                 f"them, or choose another axis")
            left[p.dim] //= size


# ---- operations ----------------------------------------------------------------------------------

_plain_ones_count = ContextVar("_plain_ones_count", default=False)


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which tensors beside DTensors count as whole on each rank, which is for the
    program to know."""
    token = _plain_ones_count.set(True)
    try:
        yield
    finally:
        _plain_ones_count.reset(token)


def _note(x: Any, found: list[DTensor]) -> None:
    """The DTensors among arguments."""
    if isinstance(x, DTensor):
        found.append(x)
    elif isinstance(x, dict | list | tuple):
        for value in x.values() if isinstance(x, dict) else x:
            _note(value, found)


def _replaced(x: Any, mesh: DeviceMesh, func: Any) -> Any:
    """Arguments with wholes in place of DTensors, and of others, which each rank has whole."""
    if isinstance(x, DTensor):
        return x._whole()
    if isinstance(x, Tensor):
        _check_other(x, func)
        return _joined(x, mesh, (Replicate(),) * mesh.ndim)
    if isinstance(x, dict):
        return {name: _replaced(value, mesh, func) for name, value in x.items()}
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)([_replaced(value, mesh, func) for value in x])
    return x


def _check_target(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """ArgumentError where a DTensor would be written to another tensor."""
    name = func.__name__
    writes = name.endswith("_") and not name.endswith("__") or name == "__setitem__" \
        or name.startswith("__i") and name not in ("__invert__", "__iter__", "__int__", "__index__")
    target = kwargs.get("out", args[0] if args and writes else None)
    if isinstance(target, Tensor) and not isinstance(target, DTensor):
        raise ArgumentError(f"{name}: a DTensor is written to a tensor that is none; give its "
                            f"full_tensor() or to_local()")


def _check_other(x: Tensor, func: Any) -> None:
    if x.numel() > 1 and not _plain_ones_count.get():
        raise ArgumentError(f"{func.__name__} of a DTensor and a tensor of shape {x.shape}, of "
                            f"which it does not know whether it is a part or whole on all ranks: "
                            f"distribute_tensor(x, mesh, [Replicate()]) says so, "
                            f"DTensor.from_local() that it is a part, and `with "
                            f"implicit_replication():` that all are whole")


def _wrapped(result: Any, mesh: DeviceMesh, same: dict[int, DTensor]) -> Any:
    """What an operation gives, with tensors as DTensors."""
    if id(result) in same:
        return same[id(result)]
    if isinstance(result, DTensor):
        return result
    if isinstance(result, Tensor):
        return _result(result, mesh)
    if type(result) in (list, tuple) or hasattr(result, "_fields"):
        return of_kind(type(result), [_wrapped(x, mesh, same) for x in result])
    return result


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: DTensor, *args: Any, **kwargs: Any) -> Any:
        return DTensor.__torch_function__(function, (DTensor,), (self, *args), kwargs)
    return method


def _install() -> None:
    """Have all methods and properties of tensors take wholes."""
    kept = {"__torch_function__", "__init_subclass__", "__new__", "__init__", "__hash__",
            "as_subclass", "_as_parameter"}
    for kind in reversed(Tensor.__mro__[:-1]):
        for name, member in vars(kind).items():
            is_ours = name in vars(DTensor) and not hasattr(vars(DTensor)[name], "_of_tensors")
            is_private = name.startswith("_") and not name.startswith("__")
            if is_ours or is_private or name in kept:
                continue
            if isinstance(member, property):
                assert member.fget is not None
                setattr(DTensor, name, property(_method(member.fget), member.fset and _method(
                    member.fset)))
            elif callable(member) and not isinstance(member, type | staticmethod | classmethod):
                made = _method(member)
                made._of_tensors = True  # type: ignore[attr-defined]
                setattr(DTensor, name, made)


_install()
overriding.takers.update((DTensor, DParameter))
