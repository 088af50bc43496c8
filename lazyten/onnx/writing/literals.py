"""Whole numbers in the code of a function: sizes may be compared with them.

In: a function or a module. Out: the numbers that it, and functions that it names, have in their
code, and those that are attributes of modules. So sizes beside them are looked at, too.
"""
from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from lazyten.nn.module import Module
from lazyten.support.location import is_ours


def numbers_in_code(function: Callable[..., Any]) -> set[int]:
    """Whole numbers that a function might compare a size with."""
    modules = list(function.modules()) if isinstance(function, Module) else []
    found = {n for module in modules for n in vars(module).values() if type(n) is int}
    for code in _codes([*(type(module).forward for module in modules), function]):
        found |= {step.argval for step in dis.get_instructions(code)
                  if step.opname.startswith("LOAD_") and type(step.argval) is int}
    return found


def _codes(functions: list[Any]) -> Iterator[CodeType]:
    """The code of functions and of what they name, but for lazyten's own."""
    seen: set[object] = set()
    while functions:
        value = functions.pop()
        if isinstance(value, MethodType):
            value = value.__func__
        if not isinstance(value, FunctionType | CodeType) or value in seen:
            continue
        seen.add(value)
        if isinstance(value, CodeType):
            yield value
            functions += value.co_consts
        elif not is_ours(value.__module__ or "", value.__code__.co_filename):
            functions += [value.__code__, *(c.cell_contents for c in value.__closure__ or ()
                                            if _is_filled(c))]
            functions += [value.__globals__.get(name) for name in value.__code__.co_names]


def _is_filled(cell: Any) -> bool:
    """Whether a variable of the function around has a value yet."""
    try:
        cell.cell_contents  # noqa: B018  # raises where it has none
    except ValueError:
        return False
    return True
