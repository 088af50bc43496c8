"""The numbers that operations are met with, turn by turn: which of them vary.

In: what is done at one line of the user's, with which numbers, in which turn (storage/frames.py).
Out: whether some of these differ from turn to turn. A loop within a turn goes through the same
numbers in each; but for one so long that it was cut though nobody looked: no turn is like another.
"""
from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from lazyten.support.remembered import Remembered

TURNS = 2
"""So many times an operation has other numbers after a look than it had before, until these are
taken to vary."""
LOOP = 16
"""So many times in one turn that was cut."""
NAMES = 4096
"""So many keys of entries of a family are known, to be forgotten once it is general."""


@dataclass(slots=True, eq=False)
class Course:
    """The numbers that an operation was met with since the last look, time by time, and before that
    look."""

    turn: int
    now: list[tuple[Hashable, ...]]
    before: list[tuple[Hashable, ...]]

    def differences(self, turn: int, numbers: tuple[Hashable, ...]) -> list[int]:
        """Which of its numbers are others than they were at this place before the last look. (A
        loop goes through the same ones in each step.)"""
        if self.turn != turn:
            self.turn, self.before, self.now = turn, self.now, []
        self.now.append(numbers)
        if len(self.now) > len(self.before):
            return []
        before = self.before[len(self.now) - 1]
        if before == numbers:
            return []
        return _differing(before, numbers)


def _differing(some: tuple[Hashable, ...], others: tuple[Hashable, ...]) -> list[int]:
    """Which of so many numbers are not the same."""
    return [n for n, (a, b) in enumerate(zip(some, others, strict=True)) if a != b]


@dataclass(slots=True, eq=False)
class Within:
    """What a family was met with in a turn. last: the numbers of the last time; times, different:
    how often they were others than those before, and which."""

    turn: int = 0
    last: tuple[Hashable, ...] = ()
    times: int = 0
    different: set[int] = field(default_factory=set)

    def meet(self, numbers: tuple[Hashable, ...]) -> None:
        """Note these numbers. (As many as before: others may be of another index.)"""
        if numbers != self.last and len(numbers) == len(self.last):
            self.times += 1
            self.different.update(_differing(self.last, numbers))
        self.last = numbers


@dataclass(slots=True, eq=False)
class Family:
    """What one function did at one line of the user's, with so many numbers.

    courses: by the key of an operation without its numbers, these; varying: which of them differed
    from one look to the next. turn: the last that met others; turns: how many did. names: keys of
    entries for numbers as they were. views: keys of what numbers only say where views are for.
    exact: of what they are a part of. within: the turn under way.
    """

    turn: int = 0
    turns: int = 0
    courses: dict[Hashable, Course] = field(default_factory=dict)
    varying: set[int] = field(default_factory=set)
    names: list[Hashable] = field(default_factory=list)
    views: set[Hashable] = field(default_factory=set)
    exact: set[Hashable] = field(default_factory=set)
    within: Within = field(default_factory=Within)

    @property
    def varies(self) -> bool:
        """Whether some numbers are known to vary."""
        return self.turns >= TURNS

    def all_vary(self, count: int) -> bool:
        """Whether all of so many numbers are known to vary, so that there is nothing more to
        learn."""
        return self.turns >= TURNS and len(self.varying) == count

    def meet(self, turn: int, cut: int, key: Hashable, numbers: tuple[Hashable, ...]) -> bool:
        """Note an operation with these numbers, equal for what means the same; gives whether some
        of them are known to vary. cut: the last turn that was cut."""
        if len(self.courses) >= NAMES:
            for known in (self.courses, self.views, self.exact):
                known.clear()
        if self.within.turn != turn:
            if self.within.turn == cut and self.within.times >= LOOP:
                self.varying |= self.within.different
                self.turns = TURNS
            self.within = Within(turn)
        self.within.meet(numbers)
        course = self.courses.get(key)
        if course is None:
            course = self.courses[key] = Course(turn, [], [])
        different = course.differences(turn, numbers)
        if different:
            self.varying.update(different)
            if self.turn != turn:
                self.turn, self.turns = turn, self.turns + 1
        return self.varies


_families: Remembered[Family] = Remembered(4096, 4096)


def family_at(line: Hashable) -> Family:
    """The family of what is done at a line of the user's."""
    found = _families.get(line)
    return _families.add(line, Family()) if found is None else found


def forget() -> None:
    """Forget all families."""
    _families.clear()
