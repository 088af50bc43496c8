"""`PrepareModuleInput` and `PrepareModuleOutput`: what comes into a module or goes out is laid out
in another way first.

The ranks of a group compute one loss together, so gradients are those of layouts.py.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.group import Group
from lazyten.distributed.tensor.parallel import layouts
from lazyten.distributed.tensor.parallel.dtensor import DTensor
from lazyten.distributed.tensor.parallel.styles import ParallelStyle
from lazyten.distributed.tensor.placements import Placement, Replicate, Shard
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError

Layouts = Placement | Sequence[Placement | None] | None


def as_laid(x: Tensor, group: Group, comes: Placement, goes: Placement) -> Tensor:
    """A value that ranks have in one way in another: whole, or each its part of an axis."""
    if comes == goes:
        return x
    whole = layouts.gathered(x, group, comes.dim) if isinstance(comes, Shard) else x
    return layouts.own_part(whole, group, goes.dim) if isinstance(goes, Shard) else whole


class _Prepared(ParallelStyle):
    """Some values of a module, each with how it comes and how it is wanted."""

    def __init__(self, given: Layouts, wanted: Layouts, use_local_output: bool, names: str) -> None:
        self.given, self.wanted = _as_tuple(given), _as_tuple(wanted)
        self.use_local_output = use_local_output
        _check(self.given, self.wanted, f"{type(self).__name__}: {names}")

    def _laid(self, values: tuple[Any, ...], mesh: DeviceMesh, what: str) -> tuple[Any, ...]:
        if len(values) != len(self.given):
            raise ArgumentError(f"{type(self).__name__}: {len(values)} {what} for "
                                f"{len(self.given)} layouts; give one for each, and None for what "
                                f"stays as it is")
        return tuple([self._one(x, mesh, *how)
                      for x, *how in zip(values, self.given, self.wanted, strict=True)])

    def _one(self, x: Any, mesh: DeviceMesh, comes: Placement | None, goes: Placement | None
             ) -> Any:
        if comes is None or goes is None or not isinstance(x, Tensor):
            return x
        if isinstance(x, DTensor):
            x = x.redistribute(placements=[goes])
            return x._part_here() if self.use_local_output else x
        laid = as_laid(x, mesh.get_group(), comes, goes)
        return laid if self.use_local_output else DTensor.from_local(laid, mesh, [goes])


class PrepareModuleInput(_Prepared):
    """What a module is called with comes in one way, and is wanted in another: gathered once, for
    all layers that need it.

    input_layouts, desired_input_layouts: Replicate() or Shard(axis) of each argument by place, None
    for one that stays as it is. input_kwarg_layouts, desired_input_kwarg_layouts: those of
    arguments by name. use_local_output: the module gets tensors, and no DTensors.
    """

    def __init__(self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
                 input_kwarg_layouts: Mapping[str, Placement] | None = None,
                 desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
                 use_local_output: bool = False) -> None:
        super().__init__(input_layouts, desired_input_layouts, use_local_output,
                         "input_layouts and desired_input_layouts")
        self.by_name = dict(input_kwarg_layouts or {})
        self.wanted_by_name = dict(desired_input_kwarg_layouts or {})
        if self.by_name.keys() != self.wanted_by_name.keys():
            raise ArgumentError(f"PrepareModuleInput: input_kwarg_layouts of "
                                f"{sorted(self.by_name)} and desired ones of "
                                f"{sorted(self.wanted_by_name)}; give both for each name")

    def apply(self, module: Module, name: str, mesh: DeviceMesh) -> None:
        """See ParallelStyle."""
        def prepared(_: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            by_name = {key: self._one(x, mesh, self.by_name.get(key), self.wanted_by_name.get(key))
                       for key, x in kwargs.items()}
            return (self._laid(args, mesh, "arguments") if self.given else args), by_name
        module.register_forward_pre_hook(prepared, with_kwargs=True)


class PrepareModuleOutput(_Prepared):
    """What a module gives, a tensor or a tuple, goes out in one way, and is wanted in another. See
    PrepareModuleInput."""

    def __init__(self, *, output_layouts: Layouts, desired_output_layouts: Layouts,
                 use_local_output: bool = True) -> None:
        super().__init__(output_layouts, desired_output_layouts, use_local_output,
                         "output_layouts and desired_output_layouts")

    def apply(self, module: Module, name: str, mesh: DeviceMesh) -> None:
        """See ParallelStyle."""
        def prepared(_: Module, args: Any, output: Any) -> Any:
            if isinstance(output, tuple):
                return self._laid(output, mesh, "results")
            return self._laid((output,), mesh, "results")[0]
        module.register_forward_hook(prepared)


def _as_tuple(given: Layouts) -> tuple[Placement | None, ...]:
    return () if given is None else (given,) if isinstance(given, Placement) else tuple(given)


def _check(given: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    if len(given) != len(wanted):
        raise ArgumentError(f"{what} are of {len(given)} and {len(wanted)} values; give both for "
                            f"each")
    for layout in (*given, *wanted):
        if layout is not None and not isinstance(layout, Shard | Replicate):
            raise ArgumentError(f"{what}: {layout!r:.60}; give Shard(axis), Replicate() or None")
