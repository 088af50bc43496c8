"""States of models and optimizers by the names of parameters, whole or in parts, under PyTorch's
names.

What a rank has a part of is in these dicts its part, as save() and load() take it; with
`full_state_dict` all of it, as one process has it. All ranks call these functions.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lazyten.distributed import functional, state
from lazyten.distributed.checkpoint.entries import bare
from lazyten.distributed.objects import broadcast_object_list
from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.distributed.tensor.parallel.dtensor import DTensor, distribute_tensor
from lazyten.frontend.functions import zeros
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.sharded_parameter import PartialParameter, own_part
from lazyten.optim import Optimizer
from lazyten.support.errors import ArgumentError

State = dict[str, Any]


@dataclass(frozen=True)
class StateDictOptions:
    """full_state_dict: tensors are whole. cpu_offload, with it: only rank 0 gets any.
    broadcast_from_rank0, with it: what is set is that of rank 0, and others give nothing.
    ignore_frozen_params: those that need no gradient are left out. strict: all names must be
    there."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


USUAL = StateDictOptions()


def get_model_state_dict(model: Module, *, submodules: None = None,
                         options: StateDictOptions | None = None) -> State:
    """The tensors of a module by name; DistributedDataParallel leaves no trace in names."""
    how, module = _checked(submodules, options), bare(model)
    params = dict(module.named_parameters(remove_duplicate=False))
    found = {name: value for name, value in module.state_dict().items()
             if not (how.ignore_frozen_params and name in params
                     and not params[name].requires_grad)}
    if not how.full_state_dict:
        return found
    return _for_rank_0({name: whole_of(value, params.get(name)) for name, value in found.items()},
                       how)


def set_model_state_dict(model: Module, model_state_dict: Mapping[str, Any], *,
                         options: StateDictOptions | None = None) -> Any:
    """Have a module load what get_model_state_dict() gave with the same options; gives the names
    that are missing and those that are too many."""
    how, module = _checked(None, options), bare(model)
    given, is_whole = _given(model_state_dict, how)
    if is_whole:
        params = dict(module.named_parameters(remove_duplicate=False))
        given = {name: part_of(value, params.get(name)) for name, value in given.items()}
    return module.load_state_dict(given, strict=how.strict)


def get_optimizer_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer], *,
                             submodules: None = None, options: StateDictOptions | None = None
                             ) -> State:
    """States and options of optimizers, with the names of parameters in place of numbers."""
    how = _checked(submodules, options)
    names, result = _names(model), State(state={}, param_groups=[])
    for optimizer in _as_list(optimizers):
        params = _params(optimizer, names)
        saved = optimizer.state_dict()
        for number, values in saved["state"].items():
            p = params[number]
            result["state"][names[id(p)]] = {
                key: whole_of(value, p) if how.full_state_dict else value
                for key, value in values.items()}
        result["param_groups"] += [
            group | {"params": [names[id(params[number])] for number in group["params"]]}
            for group in saved["param_groups"]]
    return _for_rank_0(result, how)


def set_optimizer_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer],
                             optim_state_dict: Mapping[str, Any], *,
                             options: StateDictOptions | None = None) -> None:
    """Have optimizers load what get_optimizer_state_dict() gave with the same options.
    ArgumentError for a parameter of which it says nothing."""
    how = _checked(None, options)
    given = _given(optim_state_dict, how)
    for optimizer in _as_list(optimizers):
        optimizer.load_state_dict(_with_numbers(model, optimizer, *given))


def optimizer_state_of(model: Module, optimizer: Optimizer, optim_state_dict: Mapping[str, Any],
                       options: StateDictOptions) -> State:
    """What the optimizer's load_state_dict() takes, of what get_optimizer_state_dict() gave with
    the same options."""
    return _with_numbers(model, optimizer, *_given(optim_state_dict, options))


def _with_numbers(model: Module, optimizer: Optimizer, given: State, is_whole: bool) -> State:
    """An optimizer's state with the numbers of parameters in place of names."""
    names = _names(model)
    params = _params(optimizer, names)
    numbers = {id(p): number for number, p in enumerate(params)}
    groups = [_group_of(names[id(group["params"][0])], given)
              | {"params": [numbers[id(p)] for p in group["params"]]}
              for group in optimizer.param_groups]
    states = {number: {key: part_of(value, p) if is_whole else value
                       for key, value in given["state"][names[id(p)]].items()}
              for number, p in enumerate(params) if names[id(p)] in given["state"]}
    return State(state=states, param_groups=groups)


def get_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer], *,
                   submodules: None = None, options: StateDictOptions | None = None
                   ) -> tuple[State, State]:
    """get_model_state_dict() and get_optimizer_state_dict()."""
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, options=options))


def set_state_dict(model: Module, optimizers: Optimizer | Iterable[Optimizer], *,
                   model_state_dict: Mapping[str, Any], optim_state_dict: Mapping[str, Any],
                   options: StateDictOptions | None = None) -> Any:
    """set_model_state_dict() and set_optimizer_state_dict()."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


# ---- wholes and parts ----------------------------------------------------------------------------

def whole_of(value: Any, p: Any) -> Any:
    """All of what this rank has a part of, as it has of a parameter."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(p, PartialParameter) and isinstance(value, Tensor) and value.shape == p.shape:
        return p.whole_of_part(value).realize()  # by all ranks, though some may drop it
    return value


def part_of(value: Any, p: Any) -> Any:
    """Of a whole what this rank has of a parameter."""
    if isinstance(value, Tensor) and isinstance(p, DTensor):
        return distribute_tensor(value, p.device_mesh, p.placements, src_data_rank=None)
    if isinstance(value, Tensor) and isinstance(p, PartialParameter) \
            and tuple(value.shape) == p.whole_shape:
        return p.part_of(value)
    return value


def _for_rank_0(found: State, how: StateDictOptions) -> State:
    only_one = how.full_state_dict and how.cpu_offload and state.is_initialized()
    return found if not only_one or state.rank() == 0 else {}


@dataclass(frozen=True)
class _Announced:
    """A tensor that is on its way."""

    shape: tuple[int, ...]
    dtype: str


def _given(saved: Mapping[str, Any], how: StateDictOptions) -> tuple[State, bool]:
    """What is loaded, on each rank, and whether its tensors are whole."""
    given: State = dict(saved)
    if how.broadcast_from_rank0:
        given = _from_rank_0(given)
    return given, how.full_state_dict or how.broadcast_from_rank0


def _from_rank_0(given: State) -> State:
    """What rank 0 gives, for all."""
    if not state.is_initialized() or state.size() == 1:
        return given
    tensors: list[Tensor] = []
    announced = [_told(given, tensors) if state.rank() == 0 else None]
    broadcast_object_list(announced, src=0)
    waiting = iter(tensors)
    result: State = _arrived(announced[0], waiting)
    return result


def _told(x: Any, tensors: list[Tensor]) -> Any:
    if isinstance(x, Tensor):
        tensors.append(x)
        return _Announced(tuple(x.shape), x.dtype.name)
    if isinstance(x, Mapping):
        return {name: _told(value, tensors) for name, value in x.items()}
    return [_told(value, tensors) for value in x] if isinstance(x, list) else x


def _arrived(x: Any, own: Any) -> Any:
    if isinstance(x, _Announced):
        there = next(own, None)
        return functional.broadcast(zeros(x.shape, dtype=x.dtype) if there is None else
                                    there.detach(), 0)
    if isinstance(x, Mapping):
        return {name: _arrived(value, own) for name, value in x.items()}
    return [_arrived(value, own) for value in x] if isinstance(x, list) else x


# ---- names ---------------------------------------------------------------------------------------

def _names(model: Module) -> dict[int, str]:
    return {id(own_part(p)): name for name, p in bare(model).named_parameters()}


def _params(optimizer: Optimizer, names: Mapping[int, str]) -> list[Any]:
    """The parameters of an optimizer, by number."""
    found = [p for group in optimizer.param_groups for p in group["params"]]
    for number, p in enumerate(found):
        if id(p) not in names:
            raise ArgumentError(f"state_dict: parameter {number} of {type(optimizer).__name__}, of "
                                f"shape {p.shape}, is none of the model's; make the optimizer of "
                                f"model.parameters(), once the model is shared out")
    return found


def _group_of(name: str, given: State) -> State:
    """The options of a parameter's group."""
    for group in given.get("param_groups", ()):
        if name in group["params"]:
            return dict(group)
    raise ArgumentError(f"set_optimizer_state_dict: the state says nothing of parameter {name}; "
                        f"give what get_optimizer_state_dict() gave of the same model")


def _as_list(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    found = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    if any(isinstance(optimizer, ZeroRedundancyOptimizer) for optimizer in found):
        raise ArgumentError("state_dict: a ZeroRedundancyOptimizer has states of some parameters "
                            "alone; give it itself to checkpoint.save() and load()")
    return found


def _checked(submodules: object, options: StateDictOptions | None) -> StateDictOptions:
    if submodules is not None:
        raise ArgumentError("state_dict: submodules= is not there; give the module itself")
    how = USUAL if options is None else options
    if how.flatten_optimizer_state_dict:
        raise ArgumentError("state_dict: flatten_optimizer_state_dict is not there; leave it out")
    return how
