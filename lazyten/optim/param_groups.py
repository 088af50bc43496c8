"""Parameters as users give them, in groups with options: checked, and completed with defaults."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lazyten.frontend.core.forms import Complex, in_floats
from lazyten.frontend.tensor import Tensor
from lazyten.nn.sharded_parameter import own_part
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, LeafError, not_complex

Group = dict[str, Any]


class _Required:
    """Stands for the default of an option that each group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def short(value: object) -> str:
    """A value in an error: its type and the beginning of its text."""
    return f"{type(value).__name__} {value!r:.60}"


def check_betas(name: str, betas: Any) -> None:
    """ArgumentError unless they are two numbers, 0 or more and below 1."""
    if not (isinstance(betas, tuple | list) and len(betas) == 2
            and all(0 <= shapes.as_number(b, name, "a beta") < 1 for b in betas)):
        raise ArgumentError(f"{name}: betas={betas!r} must be two numbers, 0 or more and below 1")


def as_list(name: str, params: Any) -> list[Any]:
    """Parameters, or groups of them, as a list. DTypeError for what cannot be one."""
    if isinstance(params, Tensor):
        raise DTypeError(f"{name} takes a list of parameters, not one tensor; give [tensor]")
    if isinstance(params, set | frozenset):
        raise DTypeError(f"{name} takes parameters in an order that is always the same, which a "
                         f"{type(params).__name__} does not have; give a list")
    if not isinstance(params, Iterable) or isinstance(params, dict | str):
        raise DTypeError(f"{name} takes a list of parameters, not {short(params)}; give "
                         f"model.parameters()")
    return list(params)


def checked_group(name: str, group: Any, defaults: Group, others: list[Group],
                  goes_by_element: bool = True) -> Group:
    """The group itself, with a list of parameters and all options, as none of `others` has them.
    Complex parameters are there as pairs of floats, if each element has its own step."""
    if not isinstance(group, dict) or "params" not in group:
        shown = f"a dict of {', '.join(map(repr, group))}" if isinstance(group, dict) else \
            short(group)
        raise ArgumentError(f"{name}: group {len(others)} is {shown}; it must be a dict of "
                            f"'params' and of {', '.join(defaults) or 'options'}")
    given = group["params"]
    group["params"] = [given] if isinstance(given, Tensor) else as_list(name, given)
    _take_names(name, group, others)
    seen = {id(p) for other in others for p in other["params"]}
    if not goes_by_element and any(isinstance(p, Complex) for p in group["params"]):
        raise not_complex(f"{name} as an optimizer", ", as what it makes of one element depends "
                           "on others")
    group["params"] = [in_floats(own_part(p)) for p in group["params"]]  # each has its own step
    for p in group["params"]:
        _check_parameter(name, p, seen)
    for option, value in defaults.items():
        if value is required and option not in group:
            raise ArgumentError(f"{name}: group {len(others)} gives no {option!r}, which has no "
                                f"default")
        group.setdefault(option, value)
    return group


def _take_names(name: str, group: Group, others: list[Group]) -> None:
    """Of pairs (name, parameter) keep the parameters, with their names beside them."""
    pairs = [p for p in group["params"] if isinstance(p, tuple) and len(p) == 2]
    if pairs:
        if len(pairs) != len(group["params"]):
            raise ArgumentError(f"{name}: {len(pairs)} of {len(group['params'])} parameters have "
                                f"names; give names to all of them or to none")
        group["param_names"] = [n for n, _ in pairs]
        group["params"] = [p for _, p in pairs]
    if others and ("param_names" in others[0]) != ("param_names" in group):
        raise ArgumentError(f"{name}: some groups have names of parameters and some have none; "
                            f"give names to all of them or to none")


def _check_parameter(name: str, p: object, seen: set[int]) -> None:
    if not isinstance(p, Tensor):
        raise DTypeError(f"{name}: a parameter is {short(p)}, not a tensor; give "
                         f"model.parameters()")
    if not p.is_leaf:
        raise LeafError(f"{name}: a parameter of shape {p.shape} is no leaf: an operation made "
                        f"it, so it collects no gradient; give what it was computed from, or "
                        f"detach().requires_grad_()")
    if id(p) in seen:
        raise ArgumentError(f"{name}: a parameter of shape {p.shape} is given twice; give each "
                            f"once")
    seen.add(id(p))
