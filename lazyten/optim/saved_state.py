"""An optimizer's options and state as a dict of numbers and tensors, and back.

Parameters go by number: their place in the groups, one after the other.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from lazyten.frontend.parts import part_like
from lazyten.frontend.tensor import Tensor
from lazyten.optim.param_groups import Group, short
from lazyten.support.errors import StateError, StateSizeError

State = dict[str, Any]
LATER = frozenset({"params", "initial_lr", "param_names", "momentum", "nesterov", "centered",
                   "amsgrad", "maximize", "foreach", "capturable", "differentiable", "fused",
                   "decoupled_weight_decay"})
"""What a group may lack, as those of PyTorch's earlier versions do: it stays as it is."""
Convert = Callable[[State], State]


def packed(groups: list[Group], states: Mapping[Any, State], save: Convert) -> dict[str, Any]:
    """What state_dict() gives: tensors are the optimizer's own; of a parameter that ranks share
    out they say which part they are."""
    order = [p for g in groups for p in g["params"]]
    numbers = {id(p): i for i, p in enumerate(order)}
    listed = [{k: v for k, v in g.items() if k != "params"}
              | {"params": [numbers[id(p)] for p in g["params"]]} for g in groups]
    state = {numbers[id(p)] if isinstance(p, Tensor) else p: _placed(save(dict(s)), p)
             for p, s in states.items()}
    return {"state": state, "param_groups": listed}


def _placed(state: State, p: Any) -> State:
    """A state whose tensors are parts as the parameter is."""
    return {name: part_like(value, p) if isinstance(value, Tensor) else value
            for name, value in state.items()}


def unpacked(saved: Any, groups: list[Group], load: Convert, strict: bool) -> tuple[
        list[Group], defaultdict[Any, State]]:
    """Groups with these parameters and the saved options, and copies of the saved state.

    strict: each tensor of a parameter's state has as many axes as the parameter, each of its size
    or 1, or none; and the saved groups have this optimizer's options.
    """
    if not isinstance(saved, dict) or not {"state", "param_groups"} <= saved.keys():
        raise StateError(f"load_state_dict: {short(saved)} is no optimizer's state: it must "
                         f"be a dict of 'state' and 'param_groups', as state_dict() gives it")
    others = saved["param_groups"]
    sizes, wanted = ([len(g["params"]) for g in found] for found in (others, groups))
    if sizes != wanted:
        raise StateSizeError(f"load_state_dict: saved groups have {sizes} parameters, these "
                             f"{wanted}; they must be equal")
    places = [n for g in others for n in g["params"]]
    order = dict(zip(places, [p for g in groups for p in g["params"]], strict=True))
    state: defaultdict[Any, State] = defaultdict(dict)
    for number, values in saved["state"].items():
        if isinstance(number, int) and number not in order:
            raise StateError(f"load_state_dict: there is a state for parameter {number}, but only "
                             f"{len(order)} parameters; the optimizer must be built as the saved "
                             f"one was")
        p = order.get(number)
        state[number if p is None else p] = load(values if p is None else _adopted(
            number, values, p, strict))
    made = []
    for mine, other in zip(groups, others, strict=True):
        missing = mine.keys() - other.keys() - LATER
        if strict and missing:
            raise StateError(f"load_state_dict: the saved groups have no "
                             f"{', '.join(sorted(missing))}: they are of another optimizer; load "
                             f"what one of this class saved")
        options = deepcopy({k: v for k, v in other.items() if k != "params"})
        made.append({**mine, **options})
    return made, state


def _adopted(number: int, values: Any, p: Tensor, strict: bool) -> Any:
    """A copy of what was saved for a parameter, of its type and on its device."""
    if strict:
        for name, value in values.items():
            if isinstance(value, Tensor) and not _fits(value, p):
                raise StateError(f"load_state_dict: {name} of parameter {number} has shape "
                                 f"{value.shape}, but the parameter {p.shape}; they must be equal")
    return _copied(values, p)


def _fits(value: Tensor, p: Tensor) -> bool:
    return not value.shape or value.ndim == p.ndim and all(
        a in (1, b) for a, b in zip(value.shape, p.shape, strict=True))


def _copied(value: Any, p: Tensor) -> Any:
    if isinstance(value, Tensor):
        return _own(value, p)
    if isinstance(value, dict):
        return {k: _copied(v, p) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_copied(v, p) for v in value])
    return value


def _own(value: Tensor, p: Tensor) -> Tensor:
    cast = p.dtype.is_float and value.shape != ()  # counts and the like stay what they are
    found = value.detach().to(device=p.device)
    return (found.to(dtype=p.dtype) if cast else found).clone().realize()
