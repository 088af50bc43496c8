"""Numbers of Python that differ from time to time: inputs of a program, not a program each.

In: a number that a function gets. Out: a `Number` that the function computes with in its place, and
a `Tape` of what it did with it, in Python's arithmetic: the next time that is done again with other
numbers. Where the function looks at a number (a comparison, a shape, `math.cos`), the tape notes
what it saw, and holds only for numbers of which it would see the same.
"""
from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from threading import local
from typing import Any

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node

_LARGEST = {dt.float32: float(np.finfo(np.float32).max), dt.float64: sys.float_info.max,
            dt.float16: float(np.finfo(np.float16).max), dt.bfloat16: 255 * 2.0**120}
NUMPY = frozenset(kind.numpy.type for kind in dt.ARITHMETIC if kind.numpy.kind in "iuf"
                  and kind not in (dt.bfloat16, dt.float64))
"""NumPy's types of numbers, but for the one that is Python's float as well."""
EXACT = (*_LARGEST, *[kind for kind in dt.ARITHMETIC if kind.is_int])
"""Types to which `in_memory` rounds a number as a constant of a kernel is rounded."""


class _Numbers(local):
    """How this thread makes a node of a Python number: `node` gives one, or None for a constant."""

    node: Callable[[Scalar, DType], Node | None] | None = None


numbers = _Numbers()


@dataclass(frozen=True, slots=True)
class Expression:
    """What a tape computes at a position, in place of a number that was given or assigned."""

    position: int


@dataclass(frozen=True, slots=True)
class Given:
    """A number that is found each time: number `leaf` of those that are given."""

    leaf: int

    def find(self, leaves: Sequence[Any]) -> Any:
        """What it is now."""
        return leaves[self.leaf]


@dataclass(frozen=True, slots=True)
class _Done:
    """function(values at these positions, or constants); seen: it must give this again."""

    function: Callable[..., Any]
    operands: tuple[Expression | Any, ...]
    seen: Any = None


def exactly(value: Any) -> Hashable:
    """Equal for what means the same in a program: numbers bit by bit, all else by itself."""
    if type(value) is float:
        return float, value.hex()
    if type(value) is complex:
        return complex, value.real.hex(), value.imag.hex()
    if isinstance(value, tuple):
        return type(value), tuple(map(exactly, value))
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    return type(value), value


@dataclass
class Tape:
    """What was computed of numbers, in order; values: of the last time that it held."""

    steps: list[Given | _Done] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    is_over: bool = False

    def given(self, value: Any, leaf: int) -> Any:
        """What stands for number `leaf` of those that are given: a Number, or one of NumPy's."""
        found = self.next(Given(leaf), value)
        return NumpyNumber(self, found._position, value) if type(value) in NUMPY else found

    def next(self, step: Given | _Done, value: Any) -> Number:
        """The number that comes of a step."""
        self.steps.append(step)
        self.values.append(value)
        return Number(self, len(self.values) - 1, value)

    def compute(self, function: Callable[..., Any], *operands: Any) -> Any:
        """function(*operands), computed anew each time if it gives a number."""
        value = function(*map(_value_of, operands))
        if self.is_over:
            return value
        if type(value) not in (int, float):
            return self.look(function, *operands)
        return self.next(_Done(function, tuple(map(expressed, operands))), value)

    def look(self, function: Callable[..., Any], *operands: Any) -> Any:
        """function(*operands), which must be the same each time."""
        value = function(*map(_value_of, operands))
        if not self.is_over:
            self.steps.append(_Done(function, tuple(map(expressed, operands)), exactly(value)))
            self.values.append(value)
        return value

    def position_of(self, value: Any, dtype: DType) -> int | None:
        """Where the tape has a number that may be an input of this type; None if it is a
        constant."""
        if type(value) is not Number or value._tape is not self or dtype not in EXACT \
                or not self.look(_fits, value, dtype):
            return None
        return value._position

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether all that was looked at is the same with these numbers."""
        values: list[Any] = []
        try:
            for step, last in zip(self.steps, self.values, strict=True):
                if isinstance(step, Given):
                    values.append(step.find(leaves))
                    if type(values[-1]) is not type(last):
                        return False
                    continue
                values.append(step.function(*[values[x.position] if type(x) is Expression else x
                                              for x in step.operands]))
                if step.seen is not None and exactly(values[-1]) != step.seen:
                    return False
                if step.seen is None and type(values[-1]) is not type(last):
                    return False
        except ArithmeticError:
            return False
        self.values = values
        return True


def in_memory(value: int | float, dtype: DType) -> np.ndarray[Any, Any]:
    """A number as memory of a type holds it."""
    array = np.array([value], dtype.compute)
    return array if dtype.numpy == dtype.compute else ops.encode(array, dtype)


def _fits(value: Any, dtype: DType) -> bool:
    """Whether a number is rounded to a type in one way."""
    if dtype.is_float:
        return bool(abs(value) <= _LARGEST[dtype])
    return type(value) is int and bool(dtype.min <= value <= dtype.max)


def expressed(value: Any) -> Any:
    """The expression of a Number; anything else itself."""
    return Expression(value._position) if type(value) is Number else value


def settled(rule: Any) -> Any:
    """A frozen dataclass whose fields' Numbers are what they are now, which tapes note."""
    found = varying(rule)
    if not found:
        return rule
    return replace(rule, **{name: x._tape.look(operator.pos, x) for name, x in found.items()})


def varying(rule: Any) -> dict[str, Number]:
    """The fields of a dataclass that are Numbers."""
    if not is_dataclass(rule) or isinstance(rule, type):
        return {}
    return {f.name: x for f in fields(rule) if type(x := getattr(rule, f.name)) is Number}


def _value_of(value: Any) -> Any:
    return value._value if type(value) is Number else value


class Number:
    """A number of Python that may be another in the next call. It takes itself for an int or a
    float; its arithmetic is recorded, and whatever looks at its value fixes it."""

    __slots__ = ("_position", "_tape", "_value")

    def __init__(self, tape: Tape, position: int, value: int | float) -> None:
        self._tape, self._position, self._value = tape, position, value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array") or not hasattr(self._value, name):
            raise AttributeError(f"{type(self._value).__name__!r} object has no attribute {name!r}")
        return getattr(self._tape.look(operator.pos, self), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self._tape.look(operator.pos, self), dtype)

    def __reduce__(self) -> Any:
        return type(self._value), (self._tape.look(operator.pos, self),)


class NumpyNumber:
    """A number of NumPy's that may be another in the next call: a Number where it is asked for
    Python's, and fixed by all else."""

    __slots__ = ("_position", "_tape", "_value")
    shape = ()

    def __init__(self, tape: Tape, position: int, value: Any) -> None:
        self._tape, self._position, self._value = tape, position, value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._value)

    def item(self) -> Any:
        """The same of Python."""
        return self._tape.compute(_item, Number(self._tape, self._position, self._value))

    def _now(self) -> Any:
        return self._tape.look(_itself, Number(self._tape, self._position, self._value))

    def __getattr__(self, name: str) -> Any:
        if name in ("__array_interface__", "__array_struct__") or not hasattr(self._value, name):
            raise AttributeError(f"{type(self._value).__name__!r} object has no attribute {name!r}")
        return getattr(self._now(), name)


def _item(x: Any) -> Any:
    return x.item()


def _itself(x: Any) -> Any:
    return x


def _as_now(name: str) -> Any:
    def method(self: NumpyNumber, *others: Any) -> Any:
        return getattr(self._now(), name)(*others)
    return method


_OF_NUMPY = """add sub mul truediv floordiv mod pow radd rsub rmul rtruediv rfloordiv rmod rpow lt
    le gt ge eq ne neg pos abs bool float int index complex trunc floor ceil round str repr format
    hash divmod rdivmod and or xor lshift rshift rand ror rxor rlshift rrshift invert array
    reduce"""
for _name in _OF_NUMPY.split():
    setattr(NumpyNumber, f"__{_name}__", _as_now(f"__{_name}__"))


def _arithmetic(function: Callable[..., Any]) -> tuple[Any, Any]:
    """An operator's method, and that for a Number on its right."""
    def left(self: Number, other: Any) -> Any:
        if type(other) not in (int, float, bool, Number):
            return NotImplemented if not isinstance(other, np.generic | complex) else function(
                self._tape.look(operator.pos, self), other)
        return self._tape.compute(function, self, other)

    def right(self: Number, other: Any) -> Any:
        if type(other) not in (int, float, bool):
            return NotImplemented if not isinstance(other, np.generic | complex) else function(
                other, self._tape.look(operator.pos, self))
        return self._tape.compute(function, other, self)
    return left, right


def _comparing(function: Callable[..., Any]) -> Any:
    def method(self: Number, other: Any) -> Any:
        if type(other) not in (int, float, bool, Number):
            return function(self._tape.look(operator.pos, self), other)
        return self._tape.look(function, self, other)
    return method


def _alone(function: Callable[..., Any], fixes: bool) -> Any:
    def method(self: Number, *others: Any) -> Any:
        if fixes or others:
            return function(self._tape.look(operator.pos, self), *others)
        return self._tape.compute(function, self)
    return method


def _whole(function: Callable[..., Any]) -> Any:
    """A method of which only what it gives is to be the same each time."""
    def method(self: Number) -> Any:
        return self._tape.look(function, self)
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _left, _right = _arithmetic(getattr(operator, _name))
    setattr(Number, f"__{_name}__", _left)
    setattr(Number, f"__r{_name}__", _right)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparing(getattr(operator, _name)))
for _name in ("neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", _alone(getattr(operator, _name), False))
_FIXING: dict[str, Callable[..., Any]] = {
    "float": float, "index": operator.index, "complex": complex, "round": round, "str": str, "repr":
    repr, "format": format, "hash": hash, "divmod": divmod, "and": operator.and_, "or":
    operator.or_, "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
    "invert": operator.invert}
for _name, _function in _FIXING.items():
    setattr(Number, f"__{_name}__", _alone(_function, True))
for _name, _function in (("int", int), ("trunc", math.trunc), ("floor", math.floor),
                         ("ceil", math.ceil)):
    setattr(Number, f"__{_name}__", _whole(_function))


def _is_true(self: Number) -> bool:
    return bool(self._tape.look(bool, self))


Number.__bool__ = _is_true  # type: ignore[attr-defined]
