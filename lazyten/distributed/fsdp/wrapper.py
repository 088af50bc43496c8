"""`FullyShardedDataParallel`: a module around one whose parameters are shared out."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyten.distributed import functional, state
from lazyten.distributed.checkpoint import state_dict as states
from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.fsdp.options import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from lazyten.distributed.fsdp.wrapping import Policy, wrapped
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import become_as
from lazyten.frontend.tensor import Tensor
from lazyten.nn.attributes import TABLES, replaced
from lazyten.nn.module import Module
from lazyten.nn.parallel.fully_sharded import MixedPrecisionPolicy, Unit
from lazyten.nn.parameter import Parameter
from lazyten.nn.sharded_parameter import ShardedParameter
from lazyten.nn.utils.clip_grad import clip_grad_norm_
from lazyten.optim.optimizer import Optimizer
from lazyten.support.errors import ArgumentError
from lazyten.support.grad_mode import no_grad

NAME = "FullyShardedDataParallel"
_HYBRID = ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2
_KEEP = ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2
_FULL = StateDictType.FULL_STATE_DICT


class FullyShardedDataParallel(Module):
    """A module of whose parameters each rank has rows, as fully_shard() leaves them, and that
    computes as one with whole ones does. It has the module's names: nothing stands before them.

    process_group: all ranks, if left out. device_mesh: an axis of a mesh, or for a HYBRID strategy
    a mesh of two, whose first axis has copies. auto_wrap_policy: which modules inside have
    parameters that are gathered together (wrapping.py). mixed_precision: types to compute in.
    ignored_modules, ignored_states: what stays whole, and is nobody's business. Values begin as
    those of the group's rank 0, whatever sync_module_states says; other options of PyTorch's change
    nothing. Make the optimizer afterwards. ArgumentError for what is not there.
    """

    def __init__(self, module: Module, process_group: Group | None = None,
                 sharding_strategy: ShardingStrategy | None = None,
                 cpu_offload: CPUOffload | None = None, auto_wrap_policy: Policy | None = None,
                 backward_prefetch: object = None, mixed_precision: MixedPrecision | None = None,
                 ignored_modules: Iterable[Module] | None = None,
                 param_init_fn: Callable[[Module], None] | None = None, device_id: object = None,
                 sync_module_states: bool = False, forward_prefetch: bool = False,
                 limit_all_gathers: bool = True, use_orig_params: bool = False,
                 ignored_states: Iterable[Any] | None = None,
                 device_mesh: DeviceMesh | None = None) -> None:
        super().__init__()
        strategy = ShardingStrategy.FULL_SHARD if sharding_strategy is None else sharding_strategy
        _check(module, strategy, cpu_offload, param_init_fn, device_mesh)
        copies, group = _groups(strategy, process_group, device_mesh)
        states_left_out = list(ignored_states or ())
        left_out = [*(ignored_modules or ()), *(s for s in states_left_out
                                                if isinstance(s, Module))]
        ignored = [p for m in left_out for p in m.parameters()]
        ignored += [p for p in states_left_out if isinstance(p, Parameter)]
        types = mixed_precision or MixedPrecision()
        if auto_wrap_policy is not None:
            def inner(child: Module, **options: Any) -> Module:
                return FullyShardedDataParallel(child, **{
                    "process_group": process_group, "sharding_strategy": strategy,
                    "mixed_precision": mixed_precision, "ignored_states": ignored,
                    "device_mesh": device_mesh, **options})
            wrapped(module, auto_wrap_policy, inner, {id(m) for m in left_out})
        if types.buffer_dtype is not None:
            _convert_buffers(module, types)
        if copies is not None and copies.size > 1:
            become_as([p for p in module.parameters() if not isinstance(p, ShardedParameter)],
                      copies)
        unit = Unit(module, group, ignored, strategy not in _KEEP, _policy(types))
        if copies is not None and copies.size > 1:
            for row in unit.rows:
                if row.requires_grad:
                    row.register_hook(lambda g: functional.all_reduce(g, "mean", copies))
        for table in (*TABLES, "_non_persistent_buffers_set"):
            object.__setattr__(self, table, getattr(module, table))
        for name, value in (("_inner", module), ("_unit", unit), ("process_group", group),
                            ("sharding_strategy", strategy), ("training", module.training),
                            ("require_backward_grad_sync", True),
                            ("_settings", StateDictSettings())):
            object.__setattr__(self, name, value)

    @property
    def module(self) -> Module:
        """What it is around."""
        found: Module = self._inner
        return found

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_inner")
        return super().__getattr__(name) if inner is None else getattr(inner, name)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._unit.called(self._inner, inputs, kwargs, self.require_backward_grad_sync)

    def train(self, mode: bool = True) -> Any:
        """See Module: the module inside, too."""
        super().train(mode)
        self._inner.train(mode)
        return self

    def extra_repr(self) -> str:
        return f"of {type(self._inner).__name__}"

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within this block forward() and backward() add up this rank's whole gradients, which
        nobody else is told of: the next backward() of a forward() outside of it shares out the sum.
        Between the two they take the memory of whole parameters."""
        found = FullyShardedDataParallel.fsdp_modules(self)
        before = [module.require_backward_grad_sync for module in found]
        for module in found:
            module.require_backward_grad_sync = False
        try:
            yield
        finally:
            for module, syncs in zip(found, before, strict=True):
                module.require_backward_grad_sync = syncs

    @no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients of all ranks so that their norm is max_norm at the most; gives the
        norm that it was."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Those in a module; root_only: that are in no other."""
        if root_only and isinstance(module, FullyShardedDataParallel):
            return [module]
        if root_only:
            return [f for m in module.children() for f in
                    FullyShardedDataParallel.fsdp_modules(m, True)]
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    @staticmethod
    @contextmanager
    def summon_full_params(module: Module, recurse: bool = True, writeback: bool = True,
                           rank0_only: bool = False, offload_to_cpu: bool = False,
                           with_grads: bool = False) -> Iterator[None]:
        """Within this block a module's parameters are whole, on all ranks, which all enter it.
        writeback: what is written to them is kept: each rank has its rows of what it has written.
        with_grads: they have their gradients, which are kept, too."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        units = [f._unit for f in found if recurse or f is module]
        rows = {id(row): row for unit in units for row in unit.rows}
        whole = {number: _whole(row, with_grads) for number, row in rows.items()}
        with replaced([(table, name, whole[id(row)]) for unit in units
                       for table, name, row in unit.places]):
            yield
        with no_grad():
            for number, row in rows.items() if writeback else ():
                row.copy_(row.part_of(whole[number]))
                grad = whole[number].grad
                if with_grads:
                    row.grad = None if grad is None else row.part_of(grad)

    # ---- states ----------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: StateDictType,
                            state_dict_config: StateDictConfig | None = None,
                            optim_state_dict_config: OptimStateDictConfig | None = None
                            ) -> StateDictSettings:
        """What state_dict() gives and takes: whole tensors, or rows. Gives what was said before."""
        new = StateDictSettings(state_dict_type, state_dict_config or FullStateDictConfig(),
                                optim_state_dict_config or FullOptimStateDictConfig())
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for found in FullyShardedDataParallel.fsdp_modules(module):
            object.__setattr__(found, "_settings", new)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What set_state_dict_type() has said."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else StateDictSettings()

    @staticmethod
    @contextmanager
    def state_dict_type(module: Module, state_dict_type: StateDictType,
                        state_dict_config: StateDictConfig | None = None,
                        optim_state_dict_config: OptimStateDictConfig | None = None
                        ) -> Iterator[None]:
        """set_state_dict_type() for a block."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config,
                before.optim_state_dict_config)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """See Module. FULL_STATE_DICT: with whole tensors, gathered by all ranks, which all call
        this; the others: with this rank's rows, which lazyten.distributed.checkpoint knows."""
        found = super().state_dict(*args, **kwargs)
        if self._settings.state_dict_type is _FULL:
            prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
            for name, p in self.named_parameters(remove_duplicate=False):
                if prefix + name in found:
                    found[prefix + name] = states.whole_of(found[prefix + name], p)
            if getattr(self._settings.state_dict_config, "rank0_only", False) and state.rank():
                for name in [n for n in found if n.startswith(prefix)]:
                    del found[name]
        return found

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        if self._settings.state_dict_type is _FULL:
            for name, p in self.named_parameters(remove_duplicate=False):
                if prefix + name in state:
                    state[prefix + name] = states.part_of(state[prefix + name], p)

    @staticmethod
    def optim_state_dict(model: Module, optim: Optimizer, optim_state_dict: object = None,
                         group: Group | None = None) -> dict[str, Any]:
        """An optimizer's state by names of parameters, whole or in rows as set_state_dict_type()
        says; all ranks call it."""
        said = FullyShardedDataParallel.get_state_dict_type(model)
        is_full = said.state_dict_type is _FULL
        only = is_full and getattr(said.optim_state_dict_config, "rank0_only", False)
        how = states.StateDictOptions(full_state_dict=is_full, cpu_offload=only)
        return states.get_optimizer_state_dict(model, optim, options=how)

    @staticmethod
    def full_optim_state_dict(model: Module, optim: Optimizer, optim_input: object = None,
                              rank0_only: bool = True, group: Group | None = None
                              ) -> dict[str, Any]:
        """An optimizer's state by the names of parameters, whole; rank0_only: nothing on others."""
        how = states.StateDictOptions(full_state_dict=True, cpu_offload=rank0_only)
        return states.get_optimizer_state_dict(model, optim, options=how)

    @staticmethod
    def optim_state_dict_to_load(model: Module, optim: Optimizer, optim_state_dict: dict[str, Any],
                                 is_named_optimizer: bool = False, load_directly: bool = False,
                                 group: Group | None = None) -> dict[str, Any]:
        """What optim.load_state_dict() takes, of what optim_state_dict() gave; load_directly: it is
        loaded, too."""
        said = FullyShardedDataParallel.get_state_dict_type(model)
        how = states.StateDictOptions(full_state_dict=said.state_dict_type is _FULL)
        found = states.optimizer_state_of(model, optim, optim_state_dict, how)
        if load_directly:
            optim.load_state_dict(found)
        return found


def _check(module: Any, strategy: ShardingStrategy, offload: CPUOffload | None,
           param_init_fn: object, mesh: DeviceMesh | None) -> None:
    if not isinstance(module, Module):
        raise ArgumentError(f"{NAME}: {type(module).__name__} {module!r:.40} is no module")
    if isinstance(module, FullyShardedDataParallel):
        raise ArgumentError(f"{NAME}: this module is one already")
    if not isinstance(strategy, ShardingStrategy):
        raise ArgumentError(f"{NAME}: sharding_strategy={strategy!r:.40}; give one of "
                            f"{', '.join(map(str, ShardingStrategy))}")
    if strategy is ShardingStrategy.NO_SHARD:
        raise ArgumentError(f"{NAME}: NO_SHARD leaves parameters whole, which "
                            f"nn.parallel.DistributedDataParallel does")
    if offload is not None and offload.offload_params:
        raise ArgumentError(f"{NAME}: rows are where they are; leave cpu_offload out")
    if param_init_fn is not None:
        raise ArgumentError(f"{NAME}: param_init_fn is not called, as parameters have their values "
                            f"when they come here; leave it out")
    wanted = 2 if strategy in _HYBRID else 1
    if (mesh is None and wanted == 2) or (mesh is not None and mesh.ndim != wanted):
        raise ArgumentError(f"{NAME}: {strategy} takes a mesh of {wanted} "
                            f"{'axes' if wanted == 2 else 'axis'}, device_mesh=, of copies and of "
                            f"rows; this is {mesh!r:.60}")


def _groups(strategy: ShardingStrategy, group: Group | None, mesh: DeviceMesh | None
            ) -> tuple[Group | None, Group]:
    """The ranks that have copies of this one's rows, and those that have the other rows."""
    if mesh is not None and strategy in _HYBRID:
        return mesh.get_group(0), mesh.get_group(1)
    return None, state.group_of(group if mesh is None else mesh.get_group(), NAME)


def _policy(types: MixedPrecision) -> MixedPrecisionPolicy:
    return MixedPrecisionPolicy(types.param_dtype, types.reduce_dtype, None,
                                types.cast_forward_inputs or types.cast_root_forward_inputs)


def _convert_buffers(module: Module, types: MixedPrecision) -> None:
    for owner in module.modules():
        for name, buffer in owner._buffers.items():
            if buffer is not None and buffer.dtype.is_float:
                owner._buffers[name] = buffer.to(types.buffer_dtype)


def _whole(row: ShardedParameter, with_grads: bool) -> Parameter:
    """The whole parameter of a row, which somebody may write to."""
    found = Parameter(row.full_tensor().detach(), row.requires_grad)
    found.realize()
    if with_grads and row.grad is not None:
        found.grad = row.whole_of_part(row.grad).detach().realize()
    return found
