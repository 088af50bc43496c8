"""Numbers of Python that change from call to call: inputs of a program, not a program each.

In: a number that a function gets, or finds by name. Out: a `Number` that the function computes with
in its place while it is traced, and a `Tape` of what it did with it, in Python's arithmetic: each
call does that again with its own numbers. Where the function looks at a number (a comparison, a
shape, `math.cos`), the tape notes what it saw, and holds only for calls that see the same.
"""
from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazyten.capture.places import Place, snapshot
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, reshape
from lazyten.operators.math.elementwise import numbers
from lazyten.storage import tracing

_LARGEST = {dt.float32: float(np.finfo(np.float32).max), dt.float64: sys.float_info.max}
EXACT = (dt.float32, dt.float64, dt.int64, dt.int32)
"""Types to which NumPy rounds a number as a constant of a kernel is rounded."""


@dataclass(frozen=True, slots=True)
class Expression:
    """What a tape computes at a position, in place of a number that a call gives or assigns."""

    position: int


@dataclass(frozen=True, slots=True)
class _Given:
    """A number that each call finds: argument `leaf`, or what a name means."""

    leaf: int
    place: Place | None

    def find(self, leaves: Sequence[Any]) -> Any:
        return leaves[self.leaf] if self.place is None else self.place.look()


@dataclass(frozen=True, slots=True)
class _Done:
    """function(values at these positions, or constants); seen: it must give this again."""

    function: Callable[..., Any]
    operands: tuple[Expression | Any, ...]
    seen: Any = None


@dataclass
class Tape:
    """What was computed of numbers, in order; values: of the last call that it held for."""

    device: str
    steps: list[_Given | _Done] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    inputs: dict[tuple[int, DType], Node] = field(default_factory=dict)
    is_over: bool = False

    def given(self, value: Any, leaf: int, place: Place | None = None) -> Number:
        """The number that stands for one that calls find there."""
        return self._next(_Given(leaf, place), value)

    def _next(self, step: _Given | _Done, value: Any) -> Number:
        self.steps.append(step)
        self.values.append(value)
        return Number(self, len(self.values) - 1, value)

    def compute(self, function: Callable[..., Any], *operands: Any) -> Any:
        """function(*operands), in each call anew if it gives a number."""
        value = function(*map(_value_of, operands))
        if self.is_over:
            return value
        if type(value) not in (int, float):
            return self.look(function, *operands)
        return self._next(_Done(function, tuple(map(expressed, operands))), value)

    def look(self, function: Callable[..., Any], *operands: Any) -> Any:
        """function(*operands), which must be the same in each call."""
        value = function(*map(_value_of, operands))
        if not self.is_over:
            self.steps.append(_Done(function, tuple(map(expressed, operands)), snapshot(value)))
            self.values.append(value)
        return value

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether all that was looked at is the same with the numbers of this call."""
        values: list[Any] = []
        try:
            for step, last in zip(self.steps, self.values, strict=True):
                if isinstance(step, _Given):
                    values.append(step.find(leaves))
                    if type(values[-1]) is not type(last):
                        return False
                    continue
                values.append(step.function(*[values[x.position] if type(x) is Expression else x
                                              for x in step.operands]))
                if step.seen is not None and snapshot(values[-1]) != step.seen:
                    return False
                if step.seen is None and type(values[-1]) is not type(last):
                    return False
        except ArithmeticError:
            return False
        self.values = values
        return True

    def now(self, value: Any) -> Any:
        """What an expression is in the last call that the tape held for; else the value itself."""
        return self.values[value.position] if type(value) is Expression else value

    @property
    def places(self) -> list[Place]:
        """The names whose numbers may differ."""
        return [s.place for s in self.steps if isinstance(s, _Given) and s.place is not None]

    def node(self, value: Any, dtype: DType) -> Node | None:
        """The input that a number is for operations; None if it is a constant."""
        trace = tracing.current()
        if type(value) is not Number or value._tape is not self or trace is None \
                or dtype not in EXACT or not self.look(_fits, value, dtype):
            return None
        position = value._position
        if (position, dtype) not in self.inputs:
            self.inputs[position, dtype] = reshape(trace.host_input(
                lambda: np.array([self.values[position]], dtype.numpy), dtype, 1, self.device), ())
        return self.inputs[position, dtype]

    @contextmanager
    def standing_for(self, names: Mapping[Place, int | float]) -> Iterator[None]:
        """Within this block these names mean Numbers, if nobody assigns to them, and all Numbers
        are inputs of what is recorded."""
        given = {place: self.given(value, -1, place) for place, value in names.items()}
        for place, number in given.items():
            place.assign(number)
        before, numbers.node = numbers.node, self.node
        try:
            yield
        finally:
            numbers.node = before
            self.is_over = True
            for place, number in given.items():
                if place.look() is number:
                    place.assign(names[place])


def _fits(value: Any, dtype: DType) -> bool:
    """Whether a number is rounded to a type in one way."""
    if dtype.is_float:
        return bool(abs(value) <= _LARGEST[dtype])
    return type(value) is int and bool(dtype.min <= value <= dtype.max)


def expressed(value: Any) -> Any:
    """The expression of a Number; anything else itself."""
    return Expression(value._position) if type(value) is Number else value


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


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _left, _right = _arithmetic(getattr(operator, _name))
    setattr(Number, f"__{_name}__", _left)
    setattr(Number, f"__r{_name}__", _right)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparing(getattr(operator, _name)))
for _name in ("neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", _alone(getattr(operator, _name), False))
_FIXING: dict[str, Callable[..., Any]] = {
    "float": float, "int": int, "index": operator.index, "complex": complex, "trunc": math.trunc,
    "floor": math.floor, "ceil": math.ceil, "round": round, "str": str, "repr": repr, "format":
    format, "hash": hash, "divmod": divmod, "and": operator.and_, "or": operator.or_, "xor":
    operator.xor, "lshift": operator.lshift, "rshift": operator.rshift, "invert": operator.invert}
for _name, _function in _FIXING.items():
    setattr(Number, f"__{_name}__", _alone(_function, True))


def _is_true(self: Number) -> bool:
    return bool(self._tape.look(bool, self))


Number.__bool__ = _is_true  # type: ignore[attr-defined]


# ---- calls that differ in numbers ----------------------------------------------------------------

Varying = frozenset[int | Place]
"""Numbers that differ from call to call: positions of arguments, and names."""
GENERAL = 4
"""Captured calls for any numbers, each for other outcomes of what the function looks at."""


@dataclass(slots=True, eq=False)
class Family:
    """Calls that differ in nothing but numbers. calls: captured for any. last: the numbers of the
    last that was traced. in_a_row: how many were, and none replayed since."""

    calls: list[Any] = field(default_factory=list)
    last: dict[int | Place, int | float] | None = None
    varying: Varying = frozenset()
    in_a_row: int = 0
    gave_up: bool = False

    def differing(self, numbers: dict[int | Place, int | float]) -> Varying:
        """The numbers that differ from the last call's, with those that did before; nothing if
        there was none, or that is of no use."""
        last, self.last = self.last, numbers
        self.in_a_row += 1
        if last is None or self.gave_up or len(self.calls) >= GENERAL or {*last} != {*numbers}:
            return frozenset()
        found = {x for x, value in numbers.items() if snapshot(last[x]) != snapshot(value)}
        return self.varying | found if found else frozenset()

    def keep(self, made: Any, varying: Varying) -> None:
        """A captured call for any of these numbers; those of fewer are of no more use."""
        if varying != self.varying:
            self.calls.clear()
        self.varying = varying
        self.calls.append(made)

    def give_up(self) -> None:
        """Something else than numbers differs."""
        self.calls.clear()
        self.gave_up = True
