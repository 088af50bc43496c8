"""What numbers become at other sizes: formulas that hold at all sizes seen so far.

In: numbers at several sizes. Out: their value at one more size, or None where it is not certain. A
number is constant + factor * quantity, or a polynomial of the sizes; a quantity is a product of
sizes, or of how many blocks of so many steps a range of such an extent has. All formulas that hold
at every size seen must agree at the new one. See `Samples.covers` for which sizes that may be.
"""
from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Generic, TypeVar

S = TypeVar("S")
F = TypeVar("F")
Sizes = tuple[int, ...]
"""Of each Dim, in one order."""
Numbers = tuple[int, ...]
"""What one number was, in the order of samples."""
Formula = Callable[[Sizes], int | None]
SPARE = 1
"""Samples beyond those that determine a formula, which it must hold at, too."""
MOST_POWER = 2


@dataclass(frozen=True)
class Quantity:
    """A value that follows from sizes: at the samples, and at any others (None: not certain)."""

    seen: Numbers
    at: Callable[[Sizes], int | None]


@dataclass(frozen=True)
class Samples:
    """The sizes seen, each once."""

    sizes: tuple[Sizes, ...]
    _known: dict[tuple[Numbers, tuple[Numbers, ...]], list[Formula]] = field(
        default_factory=dict, compare=False)

    def covers(self, sizes: Sizes) -> bool:
        """Whether what holds at all samples holds at these sizes.

        Code is made of a kernel by comparisons of numbers that follow from sizes, and by what they
        leave when divided. A comparison that has the same outcome in all corners of a box has it
        inside: so there must be a box around these sizes whose corners are among the samples. And
        where all samples leave the same when divided by m, so does what is a sum of differences of
        samples away from one of them.
        """
        return any(all(a <= n <= b for n, (a, b) in zip(sizes, box, strict=True))
                   for box in self._boxes) \
            and self._reaches([b - a for a, b in zip(self.sizes[0], sizes, strict=True)])

    @cached_property
    def _boxes(self) -> list[list[tuple[int, int]]]:
        """From where to where each size is, for boxes whose corners are all samples."""
        pairs = itertools.combinations_with_replacement(self.sizes, 2)
        boxes = [[(min(c), max(c)) for c in zip(*pair, strict=True)] for pair in pairs]
        known = set(self.sizes)
        return [box for box in boxes if known.issuperset(itertools.product(*box))]

    @cached_property
    def _steps(self) -> list[list[int]]:
        """Vectors whose sums are all sums of differences of samples, each with a first number other
        than 0 further behind."""
        first, *others = self.sizes
        rows = [[b - a for a, b in zip(first, other, strict=True)] for other in others]
        steps = []
        for column in range(len(first)):
            while len(some := [row for row in rows if row[column]]) > 1:
                least = min(some, key=lambda row: abs(row[column]))
                for row in some:
                    if row is not least:
                        times = row[column] // least[column]
                        row[:] = [x - times * y for x, y in zip(row, least, strict=True)]
            steps += some
            rows = [row for row in rows if row not in some]
        return steps

    def _reaches(self, difference: list[int]) -> bool:
        """Whether it is a sum of differences of samples."""
        for step in self._steps:
            column = next(i for i, x in enumerate(step) if x)
            times = difference[column] // step[column]
            difference = [x - times * y for x, y in zip(difference, step, strict=True)]
        return not any(difference)

    @cached_property
    def monomials(self) -> list[Quantity]:
        """Products of sizes and their squares, the simplest first; not 1."""
        return [self._monomial(p) for p in _powers(len(self.sizes[0]), MOST_POWER)]

    @cached_property
    def products(self) -> list[Quantity]:
        """Those of different sizes, first each alone: (height + 2) * (width + 2) is a sum of them.
        """
        return [self._monomial(p) for p in _powers(len(self.sizes[0]), 1)]

    def _monomial(self, powers: Sequence[int]) -> Quantity:
        return Quantity(tuple(_product(s, powers) for s in self.sizes),
                        lambda sizes: _product(sizes, powers))

    def extent(self, seen: Numbers) -> Quantity:
        """A number that follows from sizes by a polynomial."""
        return Quantity(seen, lambda sizes: self.value(seen, sizes))

    def blocks(self, extent: Quantity, steps: int) -> Quantity:
        """How many blocks of so many steps an extent has, the last perhaps not full."""
        def at(sizes: Sizes) -> int | None:
            found = extent.at(sizes)
            return None if found is None else -(-found // steps)
        return Quantity(tuple(-(-e // steps) for e in extent.seen), at)

    def product(self, a: Quantity, b: Quantity) -> Quantity:
        """Two quantities multiplied."""
        def at(sizes: Sizes) -> int | None:
            left, right = a.at(sizes), b.at(sizes)
            return None if left is None or right is None else left * right
        return Quantity(tuple(x * y for x, y in zip(a.seen, b.seen, strict=True)), at)

    def value(self, seen: Numbers, sizes: Sizes, others: Sequence[Quantity] = ()) -> int | None:
        """What a number is at these sizes: what all formulas say that hold at the samples; None
        where there is none, or they do not agree. others: quantities besides products of sizes."""
        if len(set(seen)) == 1 and len(seen) > SPARE:
            return seen[0]
        found = {formula(sizes) for formula in self.formulas(seen, others)}
        if len(found) != 1:
            return None
        return found.pop()

    def values(self, columns: Sequence[Numbers], sizes: Sizes) -> tuple[int, ...] | None:
        """`value` of many numbers; None where one has none."""
        found: dict[Numbers, int] = {}
        for seen in columns:
            if seen not in found:
                value = self.value(seen, sizes)
                if value is None:
                    return None
                found[seen] = value
        return tuple([found[seen] for seen in columns])

    def explains(self, seen: Numbers) -> bool:
        """Whether some formula says a number at all samples."""
        return len(set(seen)) == 1 or bool(self.formulas(seen, ()))

    def float_value(self, seen: tuple[float, ...], sizes: Sizes) -> float | None:
        """What a float is at these sizes: always the same, or what all formulas say that hold."""
        if len(set(map(repr, seen))) == 1:
            return seen[0]
        return _only(formula(sizes) for formula in self.float_formulas(seen))

    def float_formulas(self, seen: tuple[float, ...]) -> list[Callable[[Sizes], float | None]]:
        """All that say a float which is not always the same: it is a whole number, or a share."""
        found: list[Callable[[Sizes], float | None]] = []
        for whole, back in WHOLE:
            numbers = tuple(map(whole, seen))
            if None not in numbers and tuple(map(back, numbers)) == seen:  # type: ignore[arg-type]  # none is None
                found += [_converted(f, back) for f in self.formulas(numbers, ())]  # type: ignore[arg-type]
        return found

    def formulas(self, seen: Numbers, others: Sequence[Quantity]) -> list[Formula]:
        """All that say a number at the samples; see `value`."""
        key = seen, tuple(q.seen for q in others)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = [
                f for q in (*self.monomials, *others)
                if (f := _fitted(seen, (q,), len(self.sizes))) is not None]
            if not found:
                some = *itertools.combinations(self.monomials, 2), self.products, \
                    self.products[:len(self.sizes[0])]
                found += [f for of in some if (f := _fitted(seen, of, len(self.sizes))) is not None]
        return found


def _only(values: Iterable[float | None]) -> float | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _converted(formula: Formula, back: Callable[[int], float]) -> Callable[[Sizes], float | None]:
    def value(sizes: Sizes) -> float | None:
        found = formula(sizes)
        return back(found) if found else None
    return value


def _near(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None


def _divisor(value: float) -> int | None:
    return round(1 / value) if math.isfinite(value) and value else None


def _share(count: int) -> float:
    return 1 / count if count else math.inf


def _single(value: float) -> float:
    """The nearest float of 32 bits."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


WHOLE: Sequence[tuple[Callable[[float], int | None], Callable[[int], float]]] = (
    (_near, float), (_divisor, _share), (_divisor, lambda n: _single(_share(n))))
"""What a float may be of a whole number, and that of it."""


def _powers(sizes: int, most: int) -> list[tuple[int, ...]]:
    """Of so many sizes, each up to the greatest; not all 0."""
    found = itertools.product(range(most + 1), repeat=sizes)
    return sorted((p for p in found if any(p)), key=lambda p: (sum(p), p))


def _product(sizes: Sizes, powers: Sequence[int]) -> int:
    return math.prod(n ** p for n, p in zip(sizes, powers, strict=True))


def _fitted(seen: Numbers, of: Sequence[Quantity], count: int) -> Formula | None:
    """constant + sum of factor * quantity, if that is the number at all samples, of which there are
    more than it takes."""
    if count < len(of) + 1 + SPARE:
        return None
    rows = [[1, *(q.seen[i] for q in of)] for i in range(count)]
    for chosen in _choices(count, len(of) + 1):
        factors = _solved([rows[i] for i in chosen], [seen[i] for i in chosen])
        if factors is None:
            continue
        if any(sum(f * x for f, x in zip(factors, row, strict=True)) != s
               for row, s in zip(rows, seen, strict=True)):
            return None
        return _formula(factors, of)
    return None


def _formula(factors: Sequence[Fraction], of: Sequence[Quantity]) -> Formula:
    whole = math.lcm(*(f.denominator for f in factors))
    constant, *others = [int(f * whole) for f in factors]

    def value(sizes: Sizes) -> int | None:
        total = constant
        for factor, quantity in zip(others, of, strict=True):
            found = quantity.at(sizes)
            if found is None:
                return None
            total += factor * found
        return None if total % whole else total // whole
    return value


def _choices(count: int, unknowns: int) -> Iterator[Sequence[int]]:
    """Samples that may determine as many unknowns: a few choices, as some are dependent."""
    return itertools.islice(itertools.combinations(range(count), unknowns), 12)


def _solved(rows: Sequence[Sequence[int]], right: Sequence[int]) -> list[Fraction] | None:
    """The solution of as many equations as unknowns, exactly; None where there is not one."""
    system = [[*map(Fraction, row), Fraction(r)] for row, r in zip(rows, right, strict=True)]
    n = len(system)
    for i in range(n):
        pivot = next((k for k in range(i, n) if system[k][i]), None)
        if pivot is None:
            return None
        system[i], system[pivot] = system[pivot], system[i]
        system[i] = [x / system[i][i] for x in system[i]]
        for k in range(n):
            if k != i and system[k][i]:
                factor = system[k][i]
                system[k] = [x - factor * y for x, y in zip(system[k], system[i], strict=True)]
    return [row[-1] for row in system]


class Seen(Generic[S, F]):
    """Something at the sizes at which it was seen. `fit` makes formulas of a few samples."""

    def __init__(self, fit: Callable[[Mapping[Sizes, S]], F]) -> None:
        self._fit = fit
        self._samples: dict[Sizes, S] = {}
        self._formulas: F | None = None

    def add(self, sizes: Sizes, sample: S) -> None:
        """Have one more size to go by. (One between others that are known teaches little, but for
        the first few.)"""
        self._samples[sizes] = sample
        if len(self._samples) > MOST_SAMPLES:
            del self._samples[sorted(self._samples)[MOST_SAMPLES // 2]]
        self._formulas = None

    @property
    def formulas(self) -> F | None:
        """What formulas say; None where it was seen at too few sizes."""
        if self._formulas is None and len(self._samples) >= LEAST_SAMPLES:
            self._formulas = self._fit(self._samples)
        return self._formulas


LEAST_SAMPLES = 3
MOST_SAMPLES = 12
"""More make no formula better that these have in common."""


class Floats:
    """Floats of a graph at several sizes: which ones may come next, and which one another is."""

    def __init__(self, seen: Iterable[Sequence[float]]) -> None:
        """seen: those of each graph."""
        self._columns = list(zip(*seen, strict=True))
        self._places: dict[tuple[str, ...], list[int]] = {}
        for place, column in enumerate(self._columns):
            self._places.setdefault(tuple(map(repr, column)), []).append(place)

    def go_on(self, now: Sequence[float]) -> bool:
        """Whether these may be those of one more graph."""
        return all(map(goes_on, self._columns, now))

    def value(self, seen: Sequence[float], now: Sequence[float]) -> float | None:
        """What a number that follows from the graph is beside these floats: always the same, or one
        of them; None where that is not certain."""
        key = tuple(map(repr, seen))
        if len(set(key)) == 1:
            return seen[0]
        found = {repr(now[place]): now[place] for place in self._places.get(key, ())}
        return found.popitem()[1] if len(found) == 1 else None


def goes_on(seen: Sequence[float], now: float) -> bool:
    """Whether a float of the graph may be this one: the one that it was at all samples or, if these
    had several, any that is of the kind that they all were, if they were of one."""
    if len(set(map(repr, seen))) == 1:
        return repr(now) == repr(seen[0])
    kinds = set(map(_kind, seen))
    return len(kinds) > 1 or _kind(now) in kinds


def _kind(value: float) -> Hashable:
    """What code may be made for: a sign, no fraction, a power of two, 0, 1 or no number."""
    if not math.isfinite(value) or value == 0.0 or abs(value) == 1.0:
        return repr(value)
    return value < 0.0, value.is_integer(), abs(math.frexp(value)[0]) == 0.5
