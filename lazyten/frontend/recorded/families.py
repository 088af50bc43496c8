"""Operations that differ from step to step in nothing but numbers of Python.

In: an operation that no frame has met. Out: what it gives, where others of its line were met with
other numbers in TURNS turns: a number that operands are combined with is a source from then on,
so that no step compiles what the one before had compiled; and a view that begins where a number
says is marked as a region (regions.py). What an operation sees of its numbers is on a tape
(ir/number_tape.py); what it did holds for all numbers of which it would see the same.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from lazyten.frontend.core.handle import Handle
from lazyten.frontend.recorded import courses
from lazyten.frontend.recorded.courses import Family, family_at
from lazyten.frontend.recorded.entries import Entry, Same, View, is_read_alone, repeated
from lazyten.frontend.recorded.keys import Value, add_aliases, add_by_name, add_to_key
from lazyten.frontend.recorded.recording import record
from lazyten.frontend.recorded.regions import Region
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, reshape
from lazyten.ir.number_tape import NUMPY, Tape, exactly, in_memory, numbers
from lazyten.storage.frames import Frame, drawn
from lazyten.storage.placement import default_device
from lazyten.support.errors import ShapeError
from lazyten.support.location import user_place
from lazyten.support.remembered import Remembered

GENERAL = 4
"""So many entries for any numbers there are of an operation, each for other outcomes of what is
looked at."""
MISSING = object()
"""There is no result."""


@dataclass(frozen=True, slots=True)
class General:
    """What an operation did with any numbers."""

    tape: Tape
    entry: Entry


_general: Remembered[list[General]] = Remembered(4096, 4096)
"""Of each thread, by the key of an operation without the numbers that vary, and how many sources a
frame has before it."""


def forget() -> None:
    """Forget all families."""
    courses.forget()
    _general.clear()


@dataclass(slots=True)
class Met:
    """An operation that is met: its family, its key without numbers, and the numbers. first: how
    many sources its frame has before it."""

    family: Family
    key: Hashable
    given: list[int | float]
    first: int

    @property
    def is_exact(self) -> bool:
        """Whether its numbers are known to be a part of what it does."""
        return self.key in self.family.exact


def family_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
              frame: Frame, name: tuple[Any, ...], settings: int) -> Met | None:
    """What an operation is, whose key is given, but for its numbers; None if it has none. settings:
    so many parts of the key are not of arguments."""
    given: list[int | float] = []

    def note(x: int | float) -> str:
        given.append(x)
        return f"any {type(x).__module__}.{type(x).__name__}"
    shaped = tuple([_each(x, note) for x in args])
    named = {key: _each(x, note) for key, x in kwargs.items()}
    if not given:
        return None
    key: list[Any] = [*name[:settings]]
    operands: list[Handle[Any]] = []
    if not add_to_key(shaped, key, operands, frame) \
            or not add_by_name(named, key, operands, frame):
        return None
    if [part for part in key if part.__class__ is Value] != [
            part for part in name if part.__class__ is Value]:
        return None  # another thread has changed an operand meanwhile
    if not operands:
        key.append(default_device())
    add_aliases(operands, key)
    family = family_at((function, user_place(), len(given)))
    return Met(family, tuple(key), given, len(frame.sources))


def done(met: Met, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
         frame: Frame, operands: list[Handle[Any]], values: Sequence[Value]) -> Any:
    """Do an operation of a family whose numbers vary, as one for any of them. MISSING where they
    are part of what it does."""
    if met.key not in met.family.views:
        entry = _general_entry(met, function, args, kwargs, frame, operands, values)
        if entry is not None:
            if is_read_alone(entry, operands):
                return function(*args, **kwargs)
            return repeated(frame, entry, operands)
    if met.key in met.family.views:
        return _with_regions(function(*args, **kwargs), operands)
    met.family.exact.add(met.key)
    return MISSING


def _general_entry(met: Met, function: Callable[..., Any], args: tuple[Any, ...],
                   kwargs: dict[str, Any], frame: Frame, operands: list[Handle[Any]],
                   values: Sequence[Value]) -> Entry | None:
    """What an operation does with any numbers of which it sees what it sees of these, recorded if
    it is new; None if it cannot be had."""
    varying = met.family.varying
    fixed = tuple([None if n in varying else exactly(x) for n, x in enumerate(met.given)])
    key = met.key, met.first, fixed, get_ident()  # a tape has the numbers of one thread
    general = _general.get(key)
    if general is None:
        general = _general.add(key, [])
    for known in general:
        if known.tape.holds(met.given):
            return known.entry
    if len(general) == GENERAL:
        return None
    made = _recorded(met, function, args, kwargs, frame, operands, values)
    if made is None:
        return None
    general.append(made)
    return made.entry


class _Inputs(Tape):
    """A tape of one operation, whose numbers are sources of a frame."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[tuple[int, DType], Node] = {}

    def node(self, value: Any, dtype: DType) -> Node | None:
        """The source that a number is; None if it is a constant."""
        position = self.position_of(value, dtype)
        if position is None:
            return None
        if (position, dtype) not in self.inputs:
            self.inputs[position, dtype] = reshape(drawn(
                lambda: in_memory(self.values[position], dtype), dtype, 1), ())
        return self.inputs[position, dtype]


def _recorded(met: Met, function: Callable[..., Any], args: tuple[Any, ...],
              kwargs: dict[str, Any], frame: Frame, operands: list[Handle[Any]],
              values: Sequence[Value]) -> General | None:
    """Record an operation for any numbers; None where nothing is computed with those that vary, or
    it cannot be done for any."""
    tape, family = _Inputs(), met.family
    stand_ins = iter([tape.given(x, n) if n in family.varying else x
                      for n, x in enumerate(met.given)])

    def next_one(_: int | float) -> Any:
        return next(stand_ins)
    numbers.node = tape.node
    try:
        entry, is_clean = record(frame, function, tuple([_each(x, next_one) for x in args]),
                                 {key: _each(x, next_one) for key, x in kwargs.items()},
                                 operands, values)
    except ShapeError:  # as writing through a view may be where only this place is known
        return None
    finally:
        numbers.node, tape.is_over = None, True
    if entry is None or not is_clean:
        return None
    if tape.inputs:
        return General(tape, entry)
    if not entry.writes and any(type(r) is View for r in entry.results) \
            and all(type(r) in (View, Same) for r in entry.results):
        family.views.add(met.key)
    return None


def _with_regions(result: Any, operands: Sequence[Handle[Any]]) -> Any:
    """What an operation gave, whose views of operands are regions."""
    storages = [x._storage for x in operands]
    for x in result if isinstance(result, tuple | list) else (result,):
        if x._moves and x._storage in storages:
            x._value = Region()
    return result


def _each(x: Any, of: Callable[[Any], Any]) -> Any:
    """The same of an argument itself, which may be a number of NumPy's."""
    return of(x) if type(x) in NUMPY else _replaced(x, of)


def _replaced(x: Any, of: Callable[[int | float], Any]) -> Any:
    """An argument with what `of` gives for a number in the place of each."""
    kind = type(x)
    if kind is int or kind is float:
        return of(x)
    if kind is tuple or kind is list:
        return kind([_replaced(one, of) for one in x])
    if kind is slice:
        return slice(*[_replaced(one, of) for one in (x.start, x.stop, x.step)])
    return x
