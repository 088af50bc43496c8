"""What cannot be compared between calls: objects whose state Python does not show.

In: what a name means. Out: why calls of a function that reaches it are not replayed, if they are
not. What is known to stay as it is, or to be seen otherwise, is listed here; of what nobody knows
the worst is assumed.
"""
from __future__ import annotations

import argparse
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import logging
import operator
import pathlib
import re
import sys
import threading
import types
import uuid
from array import array
from collections import deque
from typing import Any

import numpy as np

from lazyten.support.location import is_our_class

_LASTING = (
    bool, int, float, complex, str, bytes, range, slice, type, type(None), type(...),
    type(NotImplemented), types.FunctionType, types.MethodType, types.ModuleType, types.CodeType,
    types.GenericAlias, types.UnionType, datetime.date, datetime.time, datetime.timedelta,
    datetime.tzinfo, decimal.Decimal, fractions.Fraction, pathlib.PurePath, re.Pattern, re.Match,
    uuid.UUID, enum.Enum, operator.itemgetter, operator.attrgetter, operator.methodcaller,
    contextlib.nullcontext, inspect.Signature, logging.Logger, functools.partial, np.dtype,
    np.ufunc, np.generic)
"""Types of objects that stay as they are, or that are looked into (surroundings.py)."""
_COMPARED = (list, tuple, dict, set, frozenset, deque, bytearray, array, np.ndarray)
"""Types that are compared by what they hold (places.py)."""
SHOWN = (types.SimpleNamespace, argparse.Namespace)
"""Python's own objects whose attributes are all their state."""


def is_opaque(value: Any) -> bool:
    """Whether what this does may differ from call to call though nothing of it is seen to."""
    kind = type(value)
    module = "lazyten" if is_our_class(kind) else kind.__module__.partition(".")[0]
    if isinstance(value, types.BuiltinFunctionType):  # a method of what it is bound to
        owner = value.__self__
        return owner is not None and not isinstance(owner, types.ModuleType | type)
    if isinstance(value, threading.local):
        return True
    if isinstance(value, (*_LASTING, *_COMPARED, *SHOWN)) or hasattr(kind, "__get__") \
            or kind is object:
        return isinstance(value, np.ndarray) and value.dtype.hasobject
    if module not in ("lazyten", "torch", "numpy") and module not in sys.stdlib_module_names:
        return not hasattr(value, "__dict__") and not slots_of(kind) and not _is_empty(kind)
    return hasattr(kind, "__next__") or module not in ("lazyten", "numpy", "typing", "abc")


def _is_empty(kind: type) -> bool:
    """Whether objects of a class have no state: it was written in Python, with no slots."""
    return "__slots__" in vars(kind)


def slots_of(kind: type) -> list[str]:
    """The names of the slots that objects of a class have, hidden names as they are looked up."""
    return [name for base in kind.__mro__ for name, member in vars(base).items()
            if isinstance(member, types.MemberDescriptorType)]


class Slots:
    """The slots of an object, looked up and assigned as a dict is."""

    def __init__(self, thing: object) -> None:
        self.thing, self.names = thing, slots_of(type(thing))

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Any:
        return iter(self.names)

    def get(self, name: str, default: object = None) -> Any:
        """What a slot has."""
        return getattr(self.thing, name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self.thing, name)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self.thing, name, value)

    def pop(self, name: str, default: object = None) -> None:
        """Let the slot be empty."""
        if hasattr(self.thing, name):
            delattr(self.thing, name)
