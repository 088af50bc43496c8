"""What a kernel's work costs in the cycle model: loads and stores, packed or not, and arithmetic.

In: what cpu_model.py counts of a kernel. Out: half cycles a use, for a vector axis and its lanes.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lazyten.codegen.instructions.instructions import MASKED
from lazyten.codegen.instructions.memory import LEAST_RUN
from lazyten.codegen.instructions.vector_access import INTERLEAVED, MOST_SHUFFLED
from lazyten.codegen.loops.packing import is_computed, is_packable, packed_size
from lazyten.codegen.loops.ranges import AFFINE
from lazyten.codegen.targets.target import Target
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine

STORE_UNITS = 2.0
GATHER_UNITS = 1.5
"""A lane of a load that is not contiguous: a scalar load and an insert."""
MASKED_GATHER_UNITS = 4.0
"""The same under a mask: of an instruction for all lanes, whose positions are computed."""
SHUFFLE_UNITS = 3.0
"""A load whose lanes lie near each other: for each whole vector that they are spread over, reading
it and a shuffle."""
NEAR_UNITS = 12.0
"""The same under a mask, of two vectors: their masks are made of it."""
REVERSED_UNITS = 6.0
"""The same of one vector, backwards."""
DIVISION_UNITS = 4.0
"""An index divided by a constant."""
PACK_UNITS = 4.0
"""Packing an element: reading it alone, and a share of a vector store."""
MISS_UNITS = 2.0
"""A vector load that the first cache misses, mostly hidden."""
FAR_STORE_UNITS = 8.0
"""A lane of a store that is alone in its line, in an array larger than the second cache."""
ROW_UNITS = 3.0
"""The first load from a line of an operand that is much larger than the second cache."""
ASTRIDE_UNITS = 2.0
"""A vector of a window, which begins anywhere and is read from two lines where it is as long as
one: tiles of 6 channels by 4 such vectors multiply 190 times 10^9 floats a second, and of vectors
that do not 240."""
STREAM_UNITS = 6.0
"""A line of an operand that the first cache does not keep from one register tile to the next."""
NEAR_STREAM_UNITS = 0.1
"""The same where the second cache keeps the operand with ease: mostly hidden, so it decides between
register tiles that take as long but for it. From 0.25 on convolutions read windows instead, which
takes longer."""
NEAR_LINE_UNITS = 6.0
"""How long such a line takes to arrive, beside arithmetic: less than that waits. Four lines for 16
multiply-adds of a convolution of 64 channels of 56 x 56 take 5.3 ms, two for 28 take 4.6. Where
lanes are along the sum eight for 24 do not wait: a gradient of filters takes 0.22 ms so and 0.60 by
other tiles."""
RUN_UNITS = 12.0
"""A run of neighbouring lines that a register tile reads anew: the first waits, the others are read
ahead."""
APART_UNITS = 0.5
"""A row of a register tile that lies apart from the others, of what the first cache cannot hold:
its lines are in pages of their own, and none is read ahead for the row beside it."""
APART = 1024
"""Bytes from one row to the next from which on they lie apart."""
CONFLICT_UNITS = 16.0
"""A store to one of more lines than the first cache can keep, as they share few of its sets."""
SETS_ENOUGH = 16
"""So many sets of the first cache keep all rows of a register tile, lanes included."""
LINE = 64
MASK_UNITS = 1.5


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store.

    strides: elements a step of each range, None where the index is not affine in it. divisors: by
    what such a range is divided, 0 where that is not known either. load: the LOAD if it can be
    packed, for `packing` units in all. near: whether lanes that are masked are read
    with their neighbours if they lie near each other.
    """

    strides: dict[Node, int | None]
    divisors: dict[Node, frozenset[int]]
    units: float
    masked: bool
    itemsize: int
    load: Node | None = None
    packing: float = math.inf
    near: bool = False

    @staticmethod
    def of(node: Node, free: dict[Node, frozenset[Node]], target: Target) -> Access:
        """The access that a LOAD or STORE makes; `free`: the ranges that nodes depend on."""
        masked = len(node.src) == 3 and node.op is Op.LOAD
        units = 1.0 if node.op is Op.LOAD else STORE_UNITS
        strides, _ = affine(node.src[1])
        divided = {r: _divisors(r, strides, free) for r in free[node]}
        known = {r: None if divided[r] else strides.get(r, 0) for r in divided}
        size = node.src[0].dtype.itemsize
        near = node.op is Op.LOAD and target.masked_loads and size in MASKED
        if node.op is not Op.LOAD or not is_packable(node):
            return Access(known, divided, units, masked, size, near=near)
        packing = packed_size(node) * PACK_UNITS
        return Access(known, divided, units, masked, size, node, packing, near)

    def direct_units(self, inner: Node | None, target: Target, r: Node | None,
                     lanes: int) -> float:
        """Units a use where the operand is, with what the innermost reduction loop misses."""
        units = self.lane_units(r, lanes)
        if r is not None and self.is_store and self._reach(r) > target.l2_bytes:
            return units + FAR_STORE_UNITS * lanes
        if inner is None or inner is r:
            return units
        if self.misses(inner, target):
            return units + MISS_UNITS
        if self.load is not None and packed_size(self.load) * self.itemsize > 2 * target.l2_bytes:
            step = abs(self.strides.get(inner) or 0) * self.itemsize
            return units + ROW_UNITS * min(step / LINE, 1.0)
        return units

    def astride_units(self, r: Node | None, lanes: int) -> float:
        """Units a use of what a vector along `r` takes for beginning anywhere in a line."""
        if r is None or self.strides.get(r) != 1 or not self.is_window():
            return 0.0
        return ASTRIDE_UNITS * (lanes - 1) * self.itemsize / LINE

    def is_streamed(self, target: Target) -> bool:
        """Whether it is an operand that has each element once and takes half of the second cache or
        more."""
        return self.load is not None \
            and 2 * packed_size(self.load) * self.itemsize >= target.l2_bytes

    def near_lines(self, target: Target, lanes: int, own: Sequence[Node]) -> float:
        """Lines a use that come from the second cache, which keeps the operand or a block of it: of
        such as the ranges of a reduction alone step through half of the first."""
        if self.load is None:
            return 0.0
        through = math.prod(r.arg.extent for r in own if self.strides.get(r, 0) != 0)
        is_long = 2 * through * lanes * self.itemsize > target.l1_bytes
        return lanes * self.itemsize / LINE if is_long else 0.0

    def sharing(self, target: Target, r: Node | None) -> int:
        """How many neighbours in a register tile share a miss, where lanes run along `r`: those
        that are single elements of one line, of an operand that stays in the second cache."""
        if self.load is None or r is not None and self.strides.get(r) == 1 \
                or 2 * packed_size(self.load) * self.itemsize > target.l2_bytes:
            return 1
        return LINE // self.itemsize

    @property
    def is_store(self) -> bool:
        """Whether it writes."""
        return self.units == STORE_UNITS

    def is_window(self) -> bool:
        """Whether elements are read more than once, at different steps of the ranges."""
        reach = 0
        for stride, n in sorted((abs(s or 0), r.arg.extent) for r, s in self.strides.items()):
            if 0 < stride <= reach and n > 1 and None not in self.strides.values():
                return True
            reach += stride * (n - 1)
        return False

    def runs(self, steps: Mapping[Node, int]) -> tuple[int, float]:
        """How many runs of neighbouring lines are read while each range takes so many steps, where
        the index is affine in all; and about how many lines that are in all."""
        span, rows = self.itemsize, list[tuple[int, int]]()
        for step, n in sorted((abs(self.strides.get(r) or 0) * self.itemsize, n)
                              for r, n in steps.items()):
            if step <= max(span, LINE):
                span += step * (n - 1)
                continue
            for i, (distance, count) in enumerate(rows):  # windows share rows
                if step % distance == 0 and step // distance <= count:
                    rows[i] = distance, count + step // distance * (n - 1)
                    break
            else:
                rows.append((step, n))
        count = math.prod(count for _, count in rows)
        return count, count * (1 + (span - self.itemsize) / LINE)

    def _reach(self, r: Node) -> int:
        """Bytes from the first to the last step of a range in whole lines; 0 within a line."""
        step = abs(self.strides.get(r) or 0) * self.itemsize
        return step * r.arg.extent if step >= LINE else 0

    def misses(self, inner: Node, target: Target) -> bool:
        """Whether the rows that a loop over `inner` steps through do not stay in the first cache:
        there are too many, or their distance lets them share few of its sets."""
        step = abs(self.strides.get(inner) or 0) * self.itemsize
        return step >= LINE and 2 * inner.arg.extent > _sets_in_reach(step, target) * target.l1_ways

    def crowds(self, copies: Iterable[tuple[Node, int]], target: Target) -> bool:
        """Whether a register tile reads more rows side by side than the first cache can keep a line
        of, as their distance lets them share few of its sets."""
        rows, sets = 1, 1
        for r, n in copies:
            step = abs(self.strides.get(r) or 0) * self.itemsize
            if step >= LINE:
                rows *= n
                sets *= min(n, _sets_in_reach(step, target))
        return rows > min(sets, _sets_in_reach(LINE, target)) * target.l1_ways

    def apart(self, target: Target) -> frozenset[Node]:
        """The ranges whose steps lie apart in memory, of an array that the first cache cannot
        hold."""
        steps = {r: abs(s or 0) * self.itemsize for r, s in self.strides.items()}
        if max((step * r.arg.extent for r, step in steps.items()), default=0) <= target.l1_bytes:
            return frozenset()
        return frozenset(r for r, step in steps.items() if step >= APART)

    def may_crowd(self, target: Target) -> bool:
        """Whether steps of some range share so few sets of the first cache that a register tile's
        could be more than those keep."""
        return any(_sets_in_reach(abs(s) * self.itemsize, target) < SETS_ENOUGH
                   for s in self.strides.values() if s and abs(s) * self.itemsize >= LINE)

    def lane_units(self, r: Node | None, lanes: int) -> float:
        """Units of `lanes` neighbouring steps of `r` as one vector; of one element for None."""
        masked = self.masked or r is not None and lanes > r.arg.extent
        mask = MASK_UNITS if masked else 0.0
        if r is None:
            return self.units + mask
        stride = self.strides.get(r, 0)
        if stride == 1:
            return self.units + mask
        if not masked and self.units == 1.0 and self._is_shuffle(r, lanes, stride):
            return min(SHUFFLE_UNITS * max(abs(stride or 1), 1), GATHER_UNITS * lanes)
        if self.near and stride is not None and stride in (-1, 2, -2):
            return REVERSED_UNITS if stride == -1 else NEAR_UNITS
        return self.units * (MASKED_GATHER_UNITS if masked else GATHER_UNITS) * lanes

    def transposed_units(self, r: Node, lanes: int, missed: float,
                         copies: Iterable[tuple[Node, int]]) -> float:
        """Units of `lanes` far steps of `r` where a register tile holds neighbours of each, with
        those of missing the cache: vectors are read or stored along the tile, and change places
        with the lanes."""
        if any(n == t.arg.extent and self.takes_turns(t, r, lanes) for t, n in copies):
            turns = self.strides[r] or 1
            return self.units + math.log2(turns) + missed / turns
        run = self.run(r, lanes, copies)
        if not run:
            return math.inf
        if self.is_store:
            missed /= run
        elif run * self.itemsize < LINE:
            missed += MISS_UNITS
        count = min(run, lanes)
        squares = -(-run // count)
        return squares * _square_units(count, lanes, self.units, self.is_store) / run + missed

    def least_units(self, lanes: int, missed: float) -> float:
        """At least as many, whatever the register tile: of a store 2 rows may take turns."""
        return self.units + (1.0 if self.is_store else math.log2(lanes) + missed)

    def run(self, r: Node, lanes: int, copies: Iterable[tuple[Node, int]]) -> int:
        """How many neighbours a register tile holds of each of the lanes, which are far steps of
        `r`; 0 for too few."""
        if not self._is_far(r, lanes):
            return 0
        least = self._least_run(lanes)
        return max([n for t, n in copies if n >= least and self.strides.get(t) == 1], default=0)

    def is_neighbour(self, r: Node, vector: Node | None, lanes: int) -> bool:
        """Whether steps of `r` are neighbours in memory, enough to be read or stored along
        themselves, but those of the vector axis far apart, or taken in turns with them."""
        if vector is None or self.strides.get(r) != 1:
            return False
        return self.takes_turns(r, vector, lanes) \
            or self._is_far(vector, lanes) and r.arg.extent >= self._least_run(lanes)

    def takes_turns(self, r: Node, vector: Node, lanes: int) -> bool:
        """Whether the steps of `r` are all that a store has between those of the vector axis."""
        turns = self.strides.get(vector)
        return self.is_store and not self.masked and turns in INTERLEAVED \
            and r.arg.extent == turns and self.strides.get(r) == 1 and vector.arg.extent >= lanes

    def _is_far(self, vector: Node, lanes: int) -> bool:
        return not self.masked and vector.arg.extent >= lanes \
            and abs(self.strides.get(vector) or 0) > MOST_SHUFFLED

    def _least_run(self, lanes: int) -> int:
        """From how many neighbours on they are read, or stored, along themselves."""
        return min(lanes, LEAST_RUN) if self.near or self.is_store else lanes

    def _is_shuffle(self, r: Node, lanes: int, stride: int | None) -> bool:
        """Whether all lanes are near each other at places known in advance."""
        if stride is not None:
            return abs(stride) <= MOST_SHUFFLED
        return r.arg.extent % lanes == 0 and all(d and (d % lanes == 0 or lanes % d == 0)
                                                 for d in self.divisors[r])


@dataclass(slots=True)
class Term:
    """Work done once for each value of `free`: arithmetic, and accesses with their strides. rare:
    arithmetic behind branches, which takes no time but the compiler's. paired: units a use that are
    saved where the products of two are added by one instruction, `single`: such as are where this
    is the same for all lanes of a vector."""

    free: frozenset[Node]
    arithmetic: float = 0.0
    rare: float = 0.0
    paired: float = 0.0
    single: float = 0.0
    accesses: list[Access] = field(default_factory=list)
    divisions: list[int] = field(default_factory=list)
    _apart: list[tuple[Access, frozenset[Node]]] | None = None
    _crowding: list[Access] | None = None

    def apart(self, target: Target) -> list[tuple[Access, frozenset[Node]]]:
        """The accesses with ranges whose steps lie apart, and those ranges."""
        if self._apart is None:
            self._apart = [(a, found) for a in self.accesses if (found := a.apart(target))]
        return self._apart

    def crowding(self, target: Target) -> list[Access]:
        """The stores of which a register tile's may be more than the first cache keeps."""
        if self._crowding is None:
            self._crowding = [a for a in self.accesses
                              if a.is_store and a.may_crowd(target)]
        return self._crowding

    @property
    def instructions(self) -> float:
        """About how many it is."""
        return self.arithmetic + self.rare + len(self.accesses)

    def division_units(self, vector: Node | None, lanes: int) -> float:
        """Index divisions: few where all lanes of a vector have the same or a known quotient."""
        if vector is None:
            return DIVISION_UNITS * len(self.divisions)
        whole = vector.arg.extent % lanes == 0
        return sum(1.0 if whole and d and (d % lanes == 0 or lanes % d == 0)
                   else 2 * DIVISION_UNITS * lanes for d in self.divisions)


def _square_units(rows: int, lanes: int, units: float, is_store: bool) -> float:
    """Units of all rows that change places with the lanes: steps of a square of a power of two, and
    an access to each row, or two stores that overlap."""
    size = 1 << (rows - 1).bit_length()
    pieces = 2 if is_store and rows < size else 1
    halves = rows * (lanes // size) if size < lanes else 0
    return lanes * (size.bit_length() - 2 + pieces * (units + 1.0)) + halves


def maskable(sink: Node, free: dict[Node, frozenset[Node]], target: Target) -> frozenset[Node]:
    """The ranges of outputs, shorter than a vector may be, along which a mask may keep lanes from
    being read and stored: where that is known without reading."""
    short = frozenset(r for r in free[sink] if r.arg.extent < target.widest)
    if not short or not target.masked_loads:
        return frozenset()
    accesses = [n for n in free if n.op in (Op.LOAD, Op.STORE) and not short.isdisjoint(free[n])]
    bare = [n for n in accesses if n.arg is not None or n.src[0].dtype.itemsize not in MASKED
            or n.op is Op.LOAD and is_computed(n)]
    return short.difference(*(free[n] for n in bare))


def _sets_in_reach(step: int, target: Target) -> int:
    """How many sets of the first cache hold what lies `step` bytes apart."""
    sets = target.l1_bytes // (LINE * target.l1_ways)
    return sets if step % LINE else sets // math.gcd(sets, step // LINE)


def _divisors(r: Node, terms: dict[Node, int], free: dict[Node, frozenset[Node]]) -> frozenset[int]:
    """By what constants a range is divided within an index; 0: something else is done to it."""
    found: set[int] = set()
    for term in terms:
        if term is r or r not in free[term]:
            continue
        for node in toposort([term]):
            if node.op not in AFFINE and node.op not in (Op.RANGE, Op.CONST) and r in free[node]:
                by = node.src[-1]
                divides = node.op in (Op.IDIV, Op.MOD) and by.op is Op.CONST
                found.add(int(by.value) if divides else 0)
    return frozenset(found)
