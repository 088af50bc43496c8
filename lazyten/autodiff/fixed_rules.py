"""Rules for gradients that are the same in each step: functions without a value in them."""
from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from inspect import unwrap
from types import FunctionType, MethodType
from typing import Any

from lazyten.ir.dtype import DType
from lazyten.ir.number_tape import Number
from lazyten.ir.ops import Op


def holds_no_value(rule: Any) -> bool:
    """Whether a function has nothing of one step in it: no node, tensor or object of the user's."""
    if isinstance(rule, partial):
        return holds_no_value(rule.func) and not rule.keywords and all(map(_is_fixed, rule.args))
    if isinstance(rule, MethodType) or not isinstance(rule, FunctionType):
        return _is_record(rule)
    rule = unwrap(rule)
    cells = [c.cell_contents for c in rule.__closure__ or ()]
    values = [*cells, *(rule.__defaults__ or ()), *(rule.__kwdefaults__ or {}).values()]
    return rule.__module__.startswith("lazyten.") and all(map(_is_fixed, values))


def _is_fixed(x: Any) -> bool:
    if type(x) is Number:  # of one call
        return False
    if isinstance(x, int | float | str | None | DType | Op | type):
        return True
    if isinstance(x, tuple | list | frozenset):
        return all(map(_is_fixed, x))
    return holds_no_value(x) if isinstance(x, FunctionType | partial) else _is_record(x)


def _is_record(x: Any) -> bool:
    """Whether it is a frozen dataclass of lazyten's whose fields hold no value."""
    kind = type(x)
    return is_dataclass(kind) and kind.__module__.startswith("lazyten.") \
        and kind.__hash__ is not object.__hash__ \
        and all(_is_fixed(getattr(x, f.name)) for f in fields(kind))
