"""`DTensor`: a tensor of which each rank of a mesh stores a part, and that operations take whole.

What it is to an operation is a JOINED node over this rank's part, so the pass that shares work out
(lazyten/sharding) has each rank compute with its part as far as that goes, and sends parts where
they must meet. Gradients come back as parts. All ranks do the same, and look at the same values in
the same order.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any
from weakref import ref

from lazyten.distributed import functional
from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.tensor.parallel import wholes
from lazyten.distributed.tensor.parallel.wholes import Placements, checked, leaf_of, own_part
from lazyten.distributed.tensor.placements import Partial, Placement, Replicate
from lazyten.frontend import parts
from lazyten.frontend.core import overriding
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, Shape
from lazyten.nn.parameter import Parameter
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.trees import Parted, of_kind


class DTensor(Tensor, Parted):
    """Made by distribute_tensor() and DTensor.from_local(), and by operations on such.

    device_mesh: the ranks. It has the shape and the values of the whole. What an operation gives is
    computed where it is wanted: to_local() gives this rank's part of it, full_tensor() the whole on
    all ranks. What is written to one that stores a part is written to the parts.
    """

    device_mesh: DeviceMesh
    _own: Tensor | None
    """This rank's part, where it is stored."""
    _stored_as: Placements
    _stored_shape: Shape
    """That of the whole."""
    _held: Tensor | ref[Tensor] | None
    """The whole, as operations take it, once one has; of one that is stored, a trace forgets it."""
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
            wholes.spread(self._whole().node, self.device_mesh.get_group(axis))
            for axis in range(self.device_mesh.ndim))

    @staticmethod
    def from_local(local_tensor: Tensor, device_mesh: DeviceMesh,
                   placements: Sequence[Placement] | None = None, *, run_check: bool = False,
                   shape: Sequence[int] | None = None, stride: object = None) -> DTensor:
        """The tensor of which this is a rank's part, with the same gradient; Partial() parts are
        summed. placements: Replicate() if left out. shape: that of the whole, of which each rank
        gives as much as distribute_tensor() would; all the same, if it is left out. ShapeError for
        a part of another size."""
        lies = checked(placements, device_mesh, local_tensor.ndim, "DTensor.from_local")
        own = local_tensor
        for axis, placement in enumerate(lies):
            if isinstance(placement, Partial):
                own = wholes.summed(own, device_mesh.get_group(axis), placement)
        settled = tuple(Replicate() if isinstance(p, Partial) else p for p in lies)
        whole = wholes.whole_shape(tuple(own.shape), device_mesh, settled) if shape is None else \
            tuple(shape)
        wanted = wholes.own_box(whole, device_mesh, settled, "DTensor.from_local").sizes
        if wanted != tuple(own.shape):
            raise ShapeError(f"DTensor.from_local: this rank gives a part of shape {own.shape} of "
                             f"a tensor of shape {whole} that lies as {settled}; it has to be of "
                             f"shape {wanted}")
        return _stored(own, whole, device_mesh, settled)

    def to_local(self, *, grad_placements: object = None) -> Tensor:
        """This rank's part. What is computed of it is this rank's own. Of a result it is computed
        now, by all ranks, which all call this."""
        return self._own if self._own is not None else wholes.made(self._part_here())

    def _part_here(self) -> Tensor:
        """to_local() that is computed later."""
        if self._own is not None:
            return self._own
        return own_part(self._whole(), self.device_mesh, self.placements, "to_local")

    def full_tensor(self, *, grad_placements: object = None) -> Tensor:
        """The whole, on all ranks, which all call this: it is computed now."""
        mesh = self.device_mesh
        whole = own_part(self._whole(), mesh, (Replicate(),) * mesh.ndim, "full_tensor")
        return wholes.made(whole)

    def redistribute(self, device_mesh: DeviceMesh | None = None,
                     placements: Sequence[Placement] | None = None, *, async_op: bool = False
                     ) -> DTensor:
        """The same values, stored in another way on the same mesh."""
        mesh = self.device_mesh
        if device_mesh not in (None, mesh):
            raise ArgumentError("DTensor.redistribute: another mesh; use distribute_tensor("
                                "x.full_tensor(), mesh, placements)")
        lies = checked(placements, mesh, self.ndim, "DTensor.redistribute")
        own = own_part(self._whole(), mesh, lies, "DTensor.redistribute")
        return _stored(own, tuple(self.shape), mesh, lies)

    def detach(self) -> Any:
        """The same values, through which no gradient flows: of one that stores a part, the same
        part."""
        own = self._own
        return _result(self._whole().detach(), self.device_mesh) if own is None else \
            self._like(own.detach())

    def _as_part(self) -> Tensor:
        """This rank's part, as checkpoints take one; of a result a copy."""
        shape = tuple(self.shape)
        box = wholes.own_box(shape, self.device_mesh, self.placements, "checkpoint")
        return parts.Part(self._part_here(), parts.sliced(shape, box))

    def _of_part(self, own: Tensor) -> DTensor:
        """A tensor that lies as this one does, of another part."""
        return _stored(own, tuple(self.shape), self.device_mesh, self.placements)

    def _like(self, own: Tensor) -> DTensor:
        """One that is stored as this one is."""
        return _stored(own, self._stored_shape, self.device_mesh, self._stored_as)

    def taken_apart(self) -> tuple[tuple[Any, ...], Hashable]:
        """The part that is stored, and what it is a part of; for jitted functions, which take and
        give parts. Of a result the part is stored from now on."""
        if self._own is None:
            _store(self, self._part_here(), tuple(self.shape), self.device_mesh, self.placements)
        return (self._own,), (type(self), self._stored_shape, self.device_mesh, self._stored_as)

    @classmethod
    def put_together(cls, parts: Sequence[Any], rest: Any) -> Any:
        """See taken_apart()."""
        kind, *lies = rest
        result: DTensor = object.__new__(kind)
        _store(result, parts[0], *lies)
        return result

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
        return None if own.grad is None else self._like(own.grad)

    @grad.setter
    def grad(self, grad: Any) -> None:
        if self._own is None:
            self._plain.grad = grad
        elif isinstance(grad, Tensor):
            whole = grad._whole() if isinstance(grad, DTensor) else grad
            self._own.grad = own_part(whole, self.device_mesh, self._stored_as, "grad").detach()
        else:
            self._own.grad = grad

    def requires_grad_(self, requires_grad: bool = True) -> DTensor:
        """Collect gradients in `.grad`, or stop. Gives this tensor, which stores a part if it is to
        collect them."""
        own = self._own
        if requires_grad and not self.requires_grad and not isinstance(own, Parameter):
            lies = self.placements
            own = leaf_of(self._part_here(), tuple(self.shape), self.device_mesh, lies)
            self._own = own
            self._stored_shape, self._stored_as, self._made_of = tuple(self.shape), lies, None
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
        _store(result, self._own.__deepcopy__(memo), self._stored_shape, self.device_mesh,
               self._stored_as)
        return result

    def __repr__(self) -> str:
        return (f"DTensor(local_tensor={self.to_local()!r}, device_mesh={self.device_mesh!r}, "
                f"placements={self.placements})")

    # ---- how -------------------------------------------------------------------------------------

    def _whole(self) -> Tensor:
        """What operations take: of a stored one made anew once its part has changed, or somebody
        has looked at all of it, which is not to be kept."""
        own, found = self._own, self._plain
        made_of = None if own is None else (own.node, is_grad_enabled())
        if own is not None and (found is None or self._made_of != made_of
                                or found._storage.buffer is not None):
            found = wholes.joined(own, self._stored_shape, self.device_mesh, self._stored_as)
            tracing.made(found)
            self._held = found if tracing.current() is None else ref(found)
            self._made_of = made_of
        assert isinstance(found, Tensor)
        return found

    @property
    def _plain(self) -> Any:
        """What _whole() gave last, if that is still there."""
        return self._held() if isinstance(self._held, ref) else self._held

    def _lay(self) -> None:
        """The whole was written to: so is the part that is stored."""
        if self._own is not None:
            part = own_part(self._plain, self.device_mesh, self._stored_as, "write")
            self._own.copy_(part)
            self._made_of = None


class DParameter(DTensor, Parameter):
    """A DTensor that a module trains: Parameter(x) of a DTensor."""

    def __init__(self, data: DTensor, requires_grad: bool = True) -> None:
        lies = data.placements
        own = leaf_of(data._part_here().detach(), tuple(data.shape), data.device_mesh, lies)
        own.requires_grad_(requires_grad)
        _store(self, own, tuple(data.shape), data.device_mesh, lies)


def distribute_tensor(tensor: Tensor, device_mesh: DeviceMesh | None = None,
                      placements: Sequence[Placement] | None = None, *,
                      src_data_rank: int | None = 0) -> DTensor:
    """A tensor that all ranks have as one of which each stores a part.

    Its values are those of the mesh's rank `src_data_rank`; of each rank's own, if that is None.
    placements: one for each axis of the mesh; Replicate() if left out. A leaf that requires
    gradients is one again. Of an axis that is no multiple of the ranks, the last ones have less, or
    nothing.
    """
    if not isinstance(device_mesh, DeviceMesh):
        raise ArgumentError(f"distribute_tensor: device_mesh={device_mesh!r:.40}; give what "
                            f"init_device_mesh() gave")
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    lies = checked(placements, device_mesh, tensor.ndim, "distribute_tensor")
    if any(isinstance(p, Partial) for p in lies):
        raise ArgumentError("distribute_tensor: Partial() says nothing of a whole tensor; give "
                            "Shard(axis) or Replicate()")
    whole = tensor.detach()
    for axis in range(device_mesh.ndim if src_data_rank is not None else 0):
        whole = functional.broadcast(whole, src_data_rank or 0, device_mesh.get_group(axis))
    own, shape = wholes.narrowed(whole, device_mesh, lies, "distribute_tensor"), tuple(whole.shape)
    if tensor.requires_grad:
        own = leaf_of(own, shape, device_mesh, lies)
    return _stored(own, shape, device_mesh, lies)


def _stored(own: Tensor, shape: Shape, mesh: DeviceMesh, lies: Placements) -> DTensor:
    result: DTensor = object.__new__(DTensor)
    _store(result, own, shape, mesh, lies)
    return result


def _store(x: DTensor, own: Tensor, shape: Shape, mesh: DeviceMesh, lies: Placements) -> None:
    x._own, x.device_mesh, x._made_of, x._held = own, mesh, None, None
    x._stored_shape, x._stored_as = shape, lies


def _result(plain: Tensor, mesh: DeviceMesh) -> DTensor:
    result: DTensor = object.__new__(DTensor)
    result._own, result.device_mesh, result._held = None, mesh, plain
    return result


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
        return wholes.joined(x, tuple(x.shape), mesh, (Replicate(),) * mesh.ndim)
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
