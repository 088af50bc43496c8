"""Whole numbers that were seen at several sizes, as expressions of these sizes.

In: a number at each of some sizes. Out: an expression that holds at all of them, and is the only
one of its kind that does: a polynomial of the sizes, of floors of their quotients, such as
(height + 1) // 2, and of sizes up to a limit, such as min(length, 64); one of these up to a limit,
such as min(length // 2 + 1, 64); or one below a number that is known and another from it on. Other
than formulas.py, which says what a number is at one more size, this can be written down: in files
for sizes that vary.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Sizes = tuple[int, ...]
Column = tuple[int, ...]
"""What one number was, in the order of the samples."""
SPARE = 2
"""Samples beyond those that determine an expression, which it must hold at, too."""
MOST_DEGREE = 3
MOST_DIVISOR = 16
"""Of floors: (size + 15) // 16."""


@dataclass(frozen=True)
class Dimension:
    """One of the sizes, by its place among them."""

    number: int

    def at(self, sizes: Sizes) -> int:
        """Its value."""
        return sizes[self.number]

    def text(self, names: Sequence[str]) -> str:
        """As one writes it."""
        return names[self.number]


@dataclass(frozen=True)
class Floor:
    """(of + plus) // by, of what is not negative."""

    of: Atom
    plus: int
    by: int

    def at(self, sizes: Sizes) -> int:
        """Its value."""
        return (self.of.at(sizes) + self.plus) // self.by

    def text(self, names: Sequence[str]) -> str:
        """As one writes it."""
        return f"({_plus(self.of.text(names), self.plus)} // {self.by})"


@dataclass(frozen=True)
class Limited:
    """The least, or the greatest, of `of` + plus and a limit."""

    of: Atom | Expression
    plus: int
    limit: int
    least: bool

    def at(self, sizes: Sizes) -> int:
        """Its value."""
        return int((min if self.least else max)(self.of.at(sizes) + self.plus, self.limit))

    def text(self, names: Sequence[str]) -> str:
        """As one writes it."""
        inner = _bare(_plus(self.of.text(names), self.plus))
        return f"{'min' if self.least else 'max'}({inner}, {self.limit})"


@dataclass(frozen=True)
class Product:
    """Two sizes multiplied, of which there may be a floor."""

    one: Dimension
    other: Dimension

    def at(self, sizes: Sizes) -> int:
        """Its value."""
        return self.one.at(sizes) * self.other.at(sizes)

    def text(self, names: Sequence[str]) -> str:
        """As one writes it."""
        return f"{self.one.text(names)}*{self.other.text(names)}"


@dataclass(frozen=True)
class Pieces:
    """`below` where a size is less than `start`, and from there on `above`."""

    size: Dimension
    start: int
    below: Expression
    above: Expression

    def at(self, sizes: Sizes) -> int:
        """Its value."""
        return int((self.below if self.size.at(sizes) < self.start else self.above).at(sizes))

    def text(self, names: Sequence[str]) -> str:
        """As one writes it."""
        return (f"({self.below.text(names)} if {self.size.text(names)} < {self.start} else "
                f"{self.above.text(names)})")


def _bare(text: str) -> str:
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _plus(text: str, number: int) -> str:
    return f"({text} {'-' if number < 0 else '+'} {abs(number)})" if number else text


Atom = Dimension | Floor | Limited | Product | Pieces
Term = tuple[int, tuple[Atom, ...]]
"""A whole factor, and atoms that are multiplied: none for a constant."""


@dataclass(frozen=True)
class Expression:
    """The sum of terms, divided by `divisor`, which leaves nothing."""

    terms: tuple[Term, ...]
    divisor: int = 1

    def at(self, sizes: Sizes) -> Fraction:
        """Its value."""
        total = sum(factor * math.prod(a.at(sizes) for a in atoms) for factor, atoms in self.terms)
        return Fraction(total, self.divisor)

    def text(self, names: Sequence[str]) -> str:
        """As one writes it: "2*batch + 1"."""
        if self.divisor == 1 and len(self.terms) == 1 and self.terms[0][0] == 1 and len(
                self.terms[0][1]) == 1:
            return _bare(self.terms[0][1][0].text(names))
        found = ""
        for factor, atoms in sorted(self.terms, key=lambda t: (not t[1], t[0] < 0)):
            parts = [str(abs(factor))] if abs(factor) != 1 or not atoms else []
            word = "*".join(parts + [a.text(names) for a in atoms])
            sign = "-" if factor < 0 else "+"
            found += f" {sign} {word}" if found else f"-{word}" if factor < 0 else word
        found = found or "0"
        return found if self.divisor == 1 else f"({found}) // {self.divisor}"


class Fit:
    """Expressions of numbers that were seen at these sizes.

    samples: the sizes, each once. points: others at which expressions must be whole numbers. whole:
    whether there are no sizes but the samples. ordinary: so many samples come first; an expression
    that holds at these alone is good, too, and the others at which it does not hold are in `missed`
    from then on. A number may be given for ordinary samples only. guards: numbers that a size might
    be compared with; None in a part of another Fit's samples.
    """

    def __init__(self, samples: Sequence[Sizes], points: Sequence[Sizes], *, whole: bool,
                 ordinary: int | None = None, guards: Collection[int] | None = ()) -> None:
        self.samples, self._whole, self._guards = tuple(samples), whole, guards
        self.ordinary = len(samples) if ordinary is None else ordinary
        self.missed: set[Sizes] = set()
        self._points = tuple(dict.fromkeys((*samples, *points)))
        self._dims = tuple(map(Dimension, range(len(samples[0]))))
        self._atoms: list[Atom] = []
        self._known: dict[Column, Expression | None] = {}

    def expression(self, seen: Column) -> Expression | None:
        """The expression of a number; None where there is none, or several that differ."""
        if seen not in self._known:
            self._known[seen] = self._found(seen)
            if self._known[seen] is None and len(seen) > self.ordinary:
                found = self._known[seen] = self.expression(seen[:self.ordinary])
                if found is not None:
                    self.missed.update(s for s, v in self._at(seen) if found.at(s) != v)
        return self._known[seen]

    def learn(self, columns: Iterable[Column]) -> None:
        """Find what can be found of these numbers, so that others may follow from them."""
        for seen in dict.fromkeys(columns):
            self.expression(seen)
        self._known = {seen: found for seen, found in self._known.items() if found is not None}

    def _found(self, seen: Column) -> Expression | None:
        found = self._polynomial(seen) or self._with_a_limit(seen) or self._with_a_floor(seen)
        if found is not None or self._guards is None:
            return found
        return self._up_to_a_limit(seen) or self._in_pieces(seen)

    def _at(self, seen: Column) -> list[tuple[Sizes, int]]:
        """What a number is at each sample."""
        return list(zip(self.samples, seen, strict=False))

    def _polynomial(self, seen: Column) -> Expression | None:
        atoms = (*self._dims, *self._atoms)
        for basis in _bases(atoms, len(self._dims)):
            found = self._fitted(seen, basis)
            if found is not None:
                return found
        return None

    def _with_a_limit(self, seen: Column) -> Expression | None:
        """A size plus something, or a limit where that is less or more: which is seen on both
        sides of the limit."""
        for atom in (*self._dims, *self._atoms):
            own = [atom.at(s) for s, _ in self._at(seen)]
            for least, start, enough in ((True, own.index(min(own)), SPARE + 1),
                                         (False, own.index(max(own)), 1)):
                limit = (max if least else min)(seen)
                found = Limited(atom, seen[start] - own[start], limit, least)
                free = sum(v != limit for v in seen)
                if all(found.at(s) == v for s, v in self._at(seen)) \
                        and free >= SPARE and len(seen) - free >= enough:
                    return self._new(found)
        return None

    def _with_a_floor(self, seen: Column) -> Expression | None:
        """With a floor that is not known yet, which is known from then on. None if floors that
        differ would do."""
        atoms: list[Atom] = [*self._dims, *self._atoms]
        atoms += [Product(*pair) for pair in itertools.combinations(self._dims, 2)]
        for atom in atoms:
            for by in range(2, MOST_DIVISOR + 1):
                made = [(floor, found) for plus in range(by)
                        if (found := self._by(seen, floor := Floor(atom, plus, by))) is not None]
                if made and all(self._agree(made[0][1], other) for _, other in made[1:]):
                    floor, found = min(made, key=lambda m: (len(m[1].terms), m[0].plus))
                    self._atoms.append(floor)
                    return found
        return None

    def _up_to_a_limit(self, seen: Column) -> Expression | None:
        """An expression of more than one size, or a limit where that is less or more."""
        for least, limit in ((True, max(seen)), (False, min(seen))):
            free = [i for i, v in enumerate(seen) if v != limit]
            inner = self._part(seen, free) if len(seen) - len(free) > SPARE else None
            if inner is not None and all(
                    (min if least else max)(inner.at(s), limit) == v for s, v in self._at(seen)):
                return self._new(Limited(inner, 0, limit, least))
        return None

    def _in_pieces(self, seen: Column) -> Expression | None:
        """One expression where a size is less than a guard, or not more, and another elsewhere; the
        sizes on both sides of the border were looked at."""
        for size in self._dims:
            there = {size.at(s) for s, _ in self._at(seen)}
            for start in sorted({g + more for g in self._guards or () for more in (0, 1)}):
                if start in there and start - 1 in there:
                    sides = [[i for i, (s, _) in enumerate(self._at(seen)) if (
                        size.at(s) < start) is low] for low in (True, False)]
                    below, above = (self._part(seen, side) for side in sides)
                    if below is not None and above is not None:
                        return self._new(Pieces(size, start, below, above))
        return None

    def _part(self, seen: Column, places: Sequence[int]) -> Expression | None:
        """The expression of a number at some of the samples, for sizes among these alone."""
        if len(places) <= SPARE:
            return None
        samples = [self.samples[i] for i in places]
        low, high = ([f(column) for column in zip(*samples, strict=True)] for f in (min, max))
        start = [min(column) for column in zip(*self._points, strict=True)]
        moved = [tuple(n - a + b for n, a, b in zip(p, start, low, strict=True))
                 for p in self._points]
        points = [p for p in (*self._points, *moved)
                  if all(a <= n <= b for n, a, b in zip(p, low, high, strict=True))]
        whole = math.prod(b - a + 1 for a, b in zip(low, high, strict=True)) == len(samples)
        return Fit(samples, points, whole=whole, guards=None).expression(
            tuple(seen[i] for i in places))

    def _new(self, atom: Atom) -> Expression:
        """An atom alone, which is known from then on."""
        self._atoms.append(atom)
        return Expression(((1, (atom,)),))

    def _by(self, seen: Column, floor: Floor) -> Expression | None:
        basis: list[tuple[Atom, ...]] = [
            (), (floor,), *((d,) for d in self._dims), *((floor, d) for d in self._dims)]
        rows = np.array([[math.prod(a.at(s) for a in m) for m in basis]
                         for s, _ in self._at(seen)], float)
        wanted = np.array(seen, float)
        near: Any = np.linalg.lstsq(rows, wanted, rcond=None)[0]
        if np.abs(rows @ near - wanted).max() > 1e-6 * (1 + np.abs(wanted).max()):
            return None
        return self._fitted(seen, basis[:2]) or self._fitted(seen, basis[:2 + len(self._dims)]) \
            or self._fitted(seen, basis)

    def _agree(self, one: Expression, other: Expression) -> bool:
        return all(one.at(p) == other.at(p) for p in self._points)

    def _fitted(self, seen: Column, basis: Sequence[tuple[Atom, ...]]) -> Expression | None:
        """The sum of these products with some factors that is the number at all samples, if there
        are more of them than it takes, and a whole number everywhere."""
        rows = [[Fraction(math.prod(a.at(s) for a in m)) for m in basis] + [Fraction(v)]
                for s, v in self._at(seen)]
        factors = _solved(rows)
        if factors is None or not self._whole and len(seen) < len(basis) + SPARE:
            return None
        divisor = math.lcm(*(f.denominator for f in factors))
        found = Expression(tuple((int(f * divisor), m) for f, m in
                                 zip(factors, basis, strict=True) if f), divisor)
        whole = divisor == 1 or all(found.at(p).denominator == 1 for p in self._points)
        return found if whole else None


def _bases(atoms: Sequence[Atom], dims: int) -> Iterator[list[tuple[Atom, ...]]]:
    """Products of atoms that a number may be a sum of, few first."""
    one: tuple[Atom, ...] = ()
    products = [m for n in range(1, MOST_DEGREE + 1)
                for m in itertools.combinations_with_replacement(atoms, n)]
    yield from ([one, product] for product in products)
    yield [one, *((a,) for a in atoms)]
    most = 2 if len(atoms) > dims else MOST_DEGREE
    yield from ([one, *(m for m in products if len(m) <= n)] for n in range(2, most + 1))


def _solved(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """Factors with which the sum of each row is its last number, 0 where they do not matter; None
    where there are none."""
    count, places, done = len(rows[0]) - 1, [], 0
    for column in range(count):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        head = rows[done] = [x / rows[done][column] for x in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column]:
                rows[i] = [x - row[column] * y for x, y in zip(row, head, strict=True)]
        places.append(column)
        done += 1
    if any(row[-1] for row in rows[done:]):
        return None
    found = [Fraction(0)] * count
    for place, row in zip(places, rows, strict=False):
        found[place] = row[-1]
    return found
