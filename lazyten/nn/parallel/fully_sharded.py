"""`fully_shard`: a module of whose parameters, gradients and states each rank has a part.

The third stage of ZeRO (Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054): forward()
gathers the whole parameters, and forgets them; backward() gathers them again, and gives each rank
its part of the gradients' means. That a gradient of all_gather is a reduce_scatter is all that it
takes.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any
from weakref import WeakValueDictionary, ref

from lazyten.autograd.recomputing import made_after, made_again
from lazyten.distributed import state
from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.functional import all_gather, reduce_scatter
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import become_as, type_of
from lazyten.frontend.functions import cat, zeros
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.nn.attributes import replaced
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.nn.sharded_parameter import ShardedParameter, SplitParameter, whole_of
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError
from lazyten.support.grad_mode import is_grad_enabled, no_grad
from lazyten.support.trees import of_kind


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Types in which a unit computes, while its rows stay what they are.

    param_dtype: of whole parameters, which travel so; of floats that forward() takes, too, if
    cast_forward_inputs. output_dtype: of floats that it gives. Gradients that are summed are added
    up in float32 at least, whatever reduce_dtype says.
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


class OffloadPolicy:
    """Rows are where they are."""


WHOLE_TYPES = MixedPrecisionPolicy()


class FSDPModule(Module):
    """What a module is that fully_shard() was called with, besides what it was before."""

    _unit: Unit
    require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._unit.called(super().forward, inputs, kwargs, self.require_backward_grad_sync)

    def unshard(self, async_op: bool = False) -> None:
        """Nothing: forward() gathers."""

    reshard = unshard

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True
                                   ) -> None:
        """Whether forward() and backward() of it, and of units in it if recurse, share gradients
        out, or add up this rank's whole ones, until some that do share out the sum."""
        for module in self.modules() if recurse else (self,):
            if isinstance(module, FSDPModule):
                module.require_backward_grad_sync = requires_gradient_sync

    def set_modules_to_forward_prefetch(self, modules: Sequence[Module]) -> None:
        """Nothing: what needs no result of another gather is begun before it is waited for."""

    set_modules_to_backward_prefetch = set_modules_to_forward_prefetch

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Have it, and units in it if recurse, gather parameters again in the backward pass of a
        jitted function, or keep them."""
        for module in self.modules() if recurse else (self,):
            if isinstance(module, FSDPModule):
                module._unit.reshards = reshard_after_forward


class Unit(tracing.TellsTraces):
    """Parameters that are gathered together. places: tables of modules, and names there."""

    def __init__(self, module: Module, group: Group, ignored: Iterable[Parameter],
                 reshards: bool, types: MixedPrecisionPolicy) -> None:
        self.group, self.reshards, self.types = group, reshards, types
        self.held_in: ref[tracing.Observer] | None = None  # the last trace that does not sync
        self.places: list[tuple[dict[str, Any], str, ShardedParameter]] = []
        left_out = {id(p) for p in ignored}
        found = [(owner._parameters, name, p) for owner in module.modules()
                 for name, p in owner._parameters.items()
                 if p is not None and id(p) not in left_out and not isinstance(
                     p, ShardedParameter)]
        wholes = {id(p): p for _, _, p in found}
        _check_free(module, wholes.values())
        if group.size > 1:
            become_as([*wholes.values(), *module.buffers()], group)
        rows = {number: ShardedParameter.of(p, group) for number, p in wholes.items()}
        _taken.update(wholes)
        self.rows = sorted(rows.values(), key=_alike)
        self.gathers = [(own, _holder(own)) for own in (
            list(alike) for _, alike in groupby(self.rows, _alike))]
        for table, name, p in found:
            table[name] = rows[id(p)]
            self.places.append((table, name, rows[id(p)]))
        for own, holder in self.gathers:
            averaging = _Averaging(holder, [row.numel() for row in own], group)
            for place, row in enumerate(own):
                if row.requires_grad:
                    row.register_hook(partial(averaging.of, place))

    def called(self, forward: Callable[..., Any], inputs: tuple[Any, ...],
               kwargs: dict[str, Any], syncs: bool) -> Any:
        """What forward() gives with whole parameters, whose gradients are shared out if syncs."""
        if self.places and self.places[0][0][self.places[0][1]] is not self.places[0][2]:
            return forward(*inputs, **kwargs)  # a unit that calls itself has them
        types = self.types
        if types.cast_forward_inputs:
            inputs, kwargs = _in_type((inputs, kwargs), types.param_dtype)
        trace, holds = tracing.current(), not syncs and is_grad_enabled()
        if holds:
            self.held_in = None if trace is None else ref(trace)
        reshards = self.reshards and trace is not None and not holds and not self._may_hold(trace)
        wholes: dict[int, Tensor] = {}
        gathered = []
        for own, holder in self.gathers:
            flat = _in_type(cat(list(own)), types.param_dtype)
            rows = all_gather(made_after((inputs, kwargs), flat) if reshards else flat, self.group)
            if not reshards and is_grad_enabled() and any(row.requires_grad for row in own):
                rows = _with_hooks(rows, holder, holds)
            parts = rows.split([row.numel() for row in own], 1)
            wholes |= {id(row): whole_of(part, row.whole_shape)
                       for row, part in zip(own, parts, strict=True)}
            gathered.append((rows, flat))
        with replaced([(table, name, wholes[id(row)]) for table, name, row in self.places]):
            result = _in_type(forward(*inputs, **kwargs), types.output_dtype)
        if not (reshards and gathered and is_grad_enabled()):
            return result
        return made_again(result, (inputs, kwargs), *zip(*gathered, strict=True))

    def _may_hold(self, trace: tracing.Observer) -> bool:
        """Whether whole gradients are held, or will be by a backward() of what this trace has of
        forward(): what is made again for a backward pass knows of none."""
        held_in = None if self.held_in is None else self.held_in()
        return held_in is trace or any(holder.grad is not None for _, holder in self.gathers)


def _holder(own: Sequence[ShardedParameter]) -> Tensor:
    """What has as its `.grad` the whole gradients that this rank has not shared out yet, as they
    are gathered together. It takes no memory itself."""
    shape = own[0].group.size, sum(row.numel() for row in own)
    return zeros((), dtype=own[0].dtype, device=own[0].device).expand(shape)


def _with_hooks(rows: Tensor, holder: Tensor, holds: bool) -> Tensor:
    """Gathered rows, whose gradient is held on this rank; or, if not holds, has what is held by
    then added before those of the ranks are summed: also what is held of parameters that this loss
    does not reach."""
    own = rows.detach().requires_grad_() if holds else rows
    own = own.clone()  # another than what is gathered, or a leaf, of which nobody asks a gradient
    own.register_hook(partial(_hold if holds else _with_held, holder))
    return own


class _Averaging:
    """The means of gradients of rows that are gathered together, and so many elements each. What
    is held even now was held after a forward() whose backward pass makes parameters again, and
    which knew of none: it is summed by itself. (A hook that refers to rows would keep them.)"""

    def __init__(self, holder: Tensor, sizes: Sequence[int], group: Group) -> None:
        self.holder, self.sizes, self.group = holder, sizes, group
        self.late: dict[int, Tensor] = {}

    def of(self, place: int, gradient: Tensor) -> Tensor:
        """That of one row, of its gradient of the ranks' sum."""
        held = self.holder.grad
        if held is not None:
            self.holder.grad = None
            with no_grad():
                sums = reduce_scatter(held, "sum", self.group)
                self.late = dict(enumerate(sums.split(self.sizes)))
        late = self.late.pop(place, None)
        found = gradient if late is None else gradient + late.reshape(gradient.shape)
        return found / self.group.size


def _hold(holder: Tensor, gradient: Tensor) -> None:
    with no_grad():
        own = gradient.to(dtype=holder.dtype)
        holder.grad = own if holder.grad is None else holder.grad + own


def _with_held(holder: Tensor, gradient: Tensor) -> Tensor:
    """The gradient, and what was held, once."""
    held, holder.grad = holder.grad, None
    return gradient if held is None else gradient + held.to(dtype=gradient.dtype)


_taken: WeakValueDictionary[int, Parameter] = WeakValueDictionary()
"""Parameters that are rows of a unit by now, and that modules outside of it may still have."""


def _check_free(module: Module, params: Iterable[Parameter]) -> None:
    """ArgumentError for a parameter that a unit has already, as the two would be trained apart."""
    for p in params:
        if _taken.get(id(p)) is p:
            raise ArgumentError(f"a parameter of shape {tuple(p.shape)} of {type(module).__name__} "
                                f"is one of another unit, too, whose module shares it; have the "
                                f"modules that share it in one unit: shard only what is around "
                                f"both")


def _in_type(x: Any, dtype: DType | None) -> Any:
    """Floats among values in a type; as they are, if that is None."""
    if dtype is None:
        return x
    if isinstance(x, Tensor):
        return x.to(dtype=dtype) if x.dtype.is_float else x
    if isinstance(x, dict):
        return {name: _in_type(value, dtype) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return of_kind(type(x), [_in_type(value, dtype) for value in x])
    return x


def _alike(row: ShardedParameter) -> tuple[str, str, bool]:
    return *type_of(row), row.requires_grad


def fully_shard(module: Module, *, process_group: Group | None = None,
                mesh: DeviceMesh | None = None, reshard_after_forward: bool | int = True,
                ignored_params: Iterable[Parameter] | None = None,
                mp_policy: MixedPrecisionPolicy = WHOLE_TYPES,
                offload_policy: OffloadPolicy | None = None) -> Module:
    """Have each rank keep a part of each parameter of the module, in place; gives the module.

    Its parameters are rows then (ShardedParameter), and whole while its forward() runs; make the
    optimizer afterwards. Those of modules inside that are sharded already stay theirs: shard layers
    first, and what is around them last, as each call's parameters travel together. Values begin as
    those of the group's rank 0. `.grad` of a row is its part of the mean of the ranks' gradients.

    process_group, or mesh, of one axis: all ranks, if None. reshard_after_forward: in lt.jit,
    gather parameters again in the backward pass, rather than keep them; what an eager step gathers
    stays to its end.
    ignored_params: stay whole, and are nobody's business. mp_policy: the types that it computes in.
    ArgumentError for a list of modules, and for a mesh of several axes.
    """
    if not isinstance(module, Module):
        raise ArgumentError(f"fully_shard: {type(module).__name__} {module!r:.40} is no module; "
                            f"call it once for each")
    if type(module).forward is Module.forward:
        raise ArgumentError(f"fully_shard: {type(module).__name__} has no forward(), in which its "
                            f"parameters could be whole; call it for the modules in it")
    if mesh is not None and (not isinstance(mesh, DeviceMesh) or mesh.ndim != 1):
        raise ArgumentError(f"fully_shard: mesh={mesh!r:.60}; give one axis of a mesh, by its "
                            f"name: mesh['dp']")
    if isinstance(module, FSDPModule):
        raise ArgumentError(f"fully_shard: this {type(module).__name__} is sharded already")
    if any(isinstance(p, SplitParameter) for p in module.parameters()):
        raise ArgumentError("fully_shard: parallelize_module() has shared out parameters of this "
                            "module along an axis already; leave these to it")
    group = state.group_of(process_group if mesh is None else mesh.get_group(), "fully_shard")
    kind = type(module)
    body = {"_unit": Unit(module, group, ignored_params or (), bool(reshard_after_forward),
                          mp_policy),
            "__module__": kind.__module__}
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), body)
    return module
