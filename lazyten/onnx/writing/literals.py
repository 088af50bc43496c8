"""Whole numbers that a function knows: sizes may be compared with them.

In: a function or a module. Out: the numbers in its code and in that of functions that it names, and
those that it has in variables around it, in defaults, and in attributes. So sizes beside them are
looked at, too.
"""
from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from lazyten.nn.module import Module
from lazyten.support.location import is_ours


def numbers_known_to(function: Callable[..., Any]) -> set[int]:
    """Whole numbers that a function might compare a size with."""
    found = set()
    for value in _reached(function):
        if type(value) is int:
            found.add(value)
        elif isinstance(value, CodeType):
            found |= {step.argval for step in dis.get_instructions(value)
                      if step.opname.startswith("LOAD_") and type(step.argval) is int}
    return found


def _reached(function: Callable[..., Any]) -> Iterator[Any]:
    """Numbers, code and functions, but for lazyten's own."""
    waiting, seen = [function, *_parts(function)], set()
    while waiting:
        value = waiting.pop()
        if type(value) is int:
            yield value
        elif isinstance(value, FunctionType | CodeType | MethodType | partial):
            if id(value) not in seen:
                seen.add(id(value))
                yield value
                waiting += _parts(value)


def _parts(value: Any) -> list[Any]:
    """What a function, or what has one, consists of."""
    if isinstance(value, CodeType):
        return list(value.co_consts)
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__func__, *vars(value.__self__).values()] \
            if hasattr(value.__self__, "__dict__") else [value.__func__]
    if isinstance(value, Module):
        return [part for module in value.modules()
                for part in (type(module).forward, *vars(module).values())]
    if not isinstance(value, FunctionType):
        return [type(value).__call__, *vars(value).values()] if hasattr(value, "__dict__") else []
    if is_ours(value.__module__ or "", value.__code__.co_filename):
        return []
    named = [value.__globals__.get(name) for name in value.__code__.co_names]
    around = [_content(cell) for cell in value.__closure__ or ()]
    return [value.__code__, *named, *around, *(value.__defaults__ or ()),
            *(value.__kwdefaults__ or {}).values()]


def _content(cell: CellType) -> Any:
    """A variable of the function around; None where it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
