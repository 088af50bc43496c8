"""Calls of a jitted function that differ in numbers of Python: one program, with inputs for them.

In: a number that a function gets, or finds by name. Out: a `Number` (ir/number_tape.py) that the
function computes with in its place while it is traced, and a tape of what it did with it.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lazyten.capture.state.places import Place
from lazyten.ir import number_tape
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, reshape
from lazyten.ir.number_tape import Expression, Given, exactly, in_memory, numbers
from lazyten.storage import tracing


@dataclass(frozen=True, slots=True)
class _Named(Given):
    """A number that a name means."""

    place: Place

    def find(self, leaves: Sequence[Any]) -> Any:
        """What it is now."""
        return self.place.look()


@dataclass
class Tape(number_tape.Tape):
    """What was computed of the numbers that calls get, and that names mean."""

    device: str = ""
    inputs: dict[tuple[int, DType], Node] = field(default_factory=dict)

    def now(self, value: Any) -> Any:
        """What an expression is in the last call that the tape held for; else the value itself."""
        return self.values[value.position] if type(value) is Expression else value

    @property
    def places(self) -> list[Place]:
        """The names whose numbers may differ."""
        return [s.place for s in self.steps if isinstance(s, _Named)]

    def node(self, value: Any, dtype: DType) -> Node | None:
        """The input that a number is for operations; None if it is a constant."""
        trace = tracing.current()
        position = None if trace is None else self.position_of(value, dtype)
        if trace is None or position is None:
            return None
        if (position, dtype) not in self.inputs:
            self.inputs[position, dtype] = reshape(trace.host_input(
                lambda: in_memory(self.values[position], dtype), dtype, 1, self.device), ())
        return self.inputs[position, dtype]

    @contextmanager
    def standing_for(self, names: Mapping[Place, int | float]) -> Iterator[None]:
        """Within this block these names mean Numbers, if nobody assigns to them, and all Numbers
        are inputs of what is recorded."""
        given = {place: self.next(_Named(-1, place), value) for place, value in names.items()}
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


# ---- calls that differ in numbers ----------------------------------------------------------------

Varying = frozenset[int | Place]
"""Numbers that differ from call to call: positions of arguments, and names."""
GENERAL = 4
"""Captured calls for any numbers, each for other outcomes of what the function looks at."""


@dataclass(slots=True, eq=False)
class Family:
    """Calls that differ in nothing but numbers. calls: captured for any. last: the numbers of the
    last that was traced. in_a_row: how many were, and none replayed since. has_copied: a view came
    that is no piece of its memory. is_placed: what they do depends on where their views are."""

    calls: list[Any] = field(default_factory=list)
    last: dict[int | Place, int | float] | None = None
    varying: Varying = frozenset()
    in_a_row: int = 0
    gave_up: bool = False
    has_copied: bool = False
    is_placed: bool = False

    def differing(self, numbers: dict[int | Place, int | float]) -> Varying:
        """The numbers that differ from the last call's, with those that did before; nothing if
        there was none, or that is of no use."""
        last, self.last = self.last, numbers
        self.in_a_row += 1
        if last is None or self.gave_up or len(self.calls) >= GENERAL or {*last} != {*numbers}:
            return frozenset()
        found = {x for x, value in numbers.items() if exactly(last[x]) != exactly(value)}
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
