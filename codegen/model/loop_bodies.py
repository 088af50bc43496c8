"""The cycle model's innermost code: a body, and the same with its vector axes chosen.

What depends on the vector axes alone is worked out once for all register tiles and accumulators:
cpu_model.py tries hundreds of those for a kernel.
"""
from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lazyten.codegen.loops.summation import LEAST_LANES
from lazyten.codegen.model.accesses import (
    APART_UNITS,
    CONFLICT_UNITS,
    GATHER_UNITS,
    LINE,
    MASK_UNITS,
    MISS_UNITS,
    NEAR_LINE_UNITS,
    NEAR_STREAM_UNITS,
    RUN_UNITS,
    STREAM_UNITS,
    Access,
    Term,
)
from lazyten.codegen.targets.target import Target
from lazyten.ir.node import Node

TAIL_UNITS = 3.0
"""Working out which lanes are inside, and choosing."""
LOOP_UNITS = 2.0
LATENCY_UNITS = 8.0
"""One step of a chain of multiply-adds."""
MAX_LATENCY_UNITS = 16.0
"""One step of a chain of maxima of floats: a comparison, and choices that let a NaN through."""
WAITING = 0.15
"""The share of an iteration's arithmetic that is not hidden behind that of others, once for all
copies of it."""
SPILL_UNITS = 4.0
CARRIED_SPILL_UNITS = 30.0
"""Each iteration waits for the store of the one before to an accumulator that is kept in memory."""
LEAST_KEPT = 64
"""Results that read the same of an operand from which on blocks of a sum keep it near: with 7 x 7
pixels, and weights that nobody has read yet, they gain nothing."""
WINDOW_SHARE = 3
"""What windows cover is read anew where it is more than one part in so many of the first cache."""
MOST_INSTANCES = 400
"""Copies of one instruction in a loop body beyond which compile time grows for nothing."""
MOST_INSTRUCTIONS = 2500
"""Of a kernel: copies beyond it are not worth the compiler's time, which grows faster than their
number."""

PAIR_UNITS = 1.0
"""Putting one of two integers that are multiplied at once beside the other."""

Chosen = tuple[tuple[Node, int], ...]
"""Ranges and a number for each: of lanes, or of copies."""


@dataclass(slots=True)
class Body:
    """The innermost code of the stores (results: 0), or of the ACCUMULATEs over some ranges.
    is_peeled: whether the iteration that is masked stands behind the others (loops/peeling.py).
    latency: units that an iteration takes at least, as it waits for the one before. is_cut: whether
    it is one sum in runs that may be the blocks of an outer loop (optimize/cache_blocking.py)."""

    results: int
    own: list[Node]
    free: frozenset[Node]
    chain: list[Node]
    terms: dict[frozenset[Node], Term]
    ranges: frozenset[Node]
    is_peeled: bool = False
    latency: float = LATENCY_UNITS
    is_cut: bool = False


@dataclass(slots=True)
class VectorTerm:
    """A term whose vector axis (or None) is chosen.

    depths: where its ranges are in the body's chain, innermost first. fixed: units a use, but for
    what may be packed or transposed. near: lines a use from the second cache. packable: accesses
    that may be packed, units a use directly and of missing the cache, and how many neighbours share
    a miss. far: accesses whose lanes are far apart but have neighbours along another range, units a
    use directly, and of missing the cache. lanes: of the vector. tail: (range, extent, lanes) of
    the reduction's ranges that it depends on. in_lines: accesses of which several iterations of the
    innermost loop read the same line. apart: of accesses to large arrays the ranges whose steps lie
    apart. stores: those whose rows may share sets of the first cache, and how many lanes each
    stores one by one. free: the term's. is_plain: whether `fixed` is all that a use costs, where no
    range of the reduction has copies. is_even: whether lanes go into each range of the reduction.
    is_peeled: the body's. pairs: the ranges of the reduction of whose products two may be added by
    one instruction, for which the term takes `paired` units less a use.
    """

    term: Term
    vector: Node | None
    depths: tuple[int, ...]
    fixed: float
    near: float
    packable: list[tuple[Access, float, float, int]]
    far: list[tuple[Access, float, float]]
    lanes: int
    tail: list[tuple[Node, int, int]]
    in_lines: list[Access]
    apart: list[frozenset[Node]]
    stores: list[tuple[Access, int]]
    free: frozenset[Node]
    is_plain: bool
    is_even: bool
    is_peeled: bool
    pairs: frozenset[Node]
    paired: float

    def all_units(self, times: int, instances: int, copies: Chosen, whole: bool,
                  target: Target) -> float:
        """Units of so many instances, each of which is used so many times. whole: whether no range
        of the reduction has copies."""
        units = self.units(times * instances, copies)
        for access in self.in_lines:
            units += MISS_UNITS if access.crowds(copies, target) else 0.0
        units *= instances
        for ranges in self.apart:
            units += APART_UNITS * copied(copies, ranges)
        for store, lanes in self.stores:
            if store.crowds(self._rows(lanes, copies), target):
                run = 0 if self.vector is None else store.run(self.vector, lanes, copies)
                units += CONFLICT_UNITS * lanes * instances / max(run, 1)
        return units if whole and self.is_even else units + self.tail_units(copies, instances)

    def _rows(self, lanes: int, copies: Chosen) -> Iterable[tuple[Node, int]]:
        """Copies of ranges, with `lanes` that are stored one by one among them."""
        if self.vector is None or lanes == 1:
            return copies
        rows = dict(copies)
        return {**rows, self.vector: lanes * rows.get(self.vector, 1)}.items()

    def units(self, uses: int, copies: Chosen) -> float:
        """Units a use, if operands are packed where that pays for so many uses."""
        pair = paired(self.pairs, copies)
        units = self.fixed - (0.0 if pair is None else self.paired)
        for access, direct, missed in self.far:
            units += min(self._across(access, direct, missed, copies),
                         access.units + access.packing / uses)
        for access, direct, missed, sharing in self.packable:
            units += min(_in_place(access, direct, missed, sharing, copies, pair),
                         access.units + access.packing / uses)
        return units

    def _across(self, access: Access, direct: float, missed: float, copies: Chosen) -> float:
        """Units a use of a far access: lane by lane, or transposed in registers."""
        assert self.vector is not None
        if not copies:
            return direct
        return min(direct, access.transposed_units(self.vector, self.lanes, missed, copies))

    def least_units(self, uses: int) -> float:
        """No copies of ranges make a use cheaper."""
        best = sum(min(direct, access.least_units(self.lanes, missed),
                       access.units + access.packing / uses)
                   for access, direct, missed in self.far)
        best -= self.paired if self.pairs else 0.0
        return best + self.fixed + sum(min(direct, access.units + access.packing / uses)
                                       for access, direct, *_ in self.packable)

    def staged(self, uses: int, copies: Chosen) -> Iterator[Node]:
        """The LOADs that are cheaper packed."""
        pair = paired(self.pairs, copies)
        for access, direct, missed, sharing in self.packable:
            unpacked = _in_place(access, direct, missed, sharing, copies, pair)
            if access.load is not None and access.units + access.packing / uses < unpacked:
                yield access.load
        for access, direct, missed in self.far:
            across = self._across(access, direct, missed, copies)
            if access.load is not None and access.units + access.packing / uses < across:
                yield access.load

    def times(self, around: list[int]) -> int:
        """How often the work is done: as often as the last loop that it depends on."""
        for depth in self.depths:
            if around[depth + 1] > around[depth]:
                return around[depth + 1]
        return 1

    def tail_units(self, copies: Chosen, instances: int) -> float:
        """Units of masking what a split reduction reads past its end: which lanes are inside is
        worked out once for all of a register tile. An iteration's share, of one instance's in all,
        where the last iteration is peeled."""
        steps = [(r, extent, lanes * copied(copies, (r,))) for r, extent, lanes in self.tail]
        uneven = {r: -(-extent // step) for r, extent, step in steps if extent % step}
        if not uneven:
            return 0.0
        masks = sum(self._masked_units(a) if self.vector in uneven else MASK_UNITS
                    for a in self.term.accesses)
        own = copied(copies, uneven)
        units = TAIL_UNITS * own + masks * instances
        return units / (own * min(uneven.values())) if self.is_peeled else units

    def _masked_units(self, access: Access) -> float:
        """Units of a mask over the lanes, which loads those that are no neighbours one by one."""
        stride = access.strides.get(self.vector, 0) if self.vector is not None else 0
        return MASK_UNITS if stride in (0, 1) else GATHER_UNITS * self.lanes


@dataclass(slots=True)
class VectorBody:
    """A body whose vector axes are chosen. combining: units of combining lanes after the loops.
    windows: accesses of a reduction that read elements more than once. lanes: of output ranges.
    width: lanes of the reduction's innermost range.
    pairs: the ranges of the reduction of whose products two may be added by one instruction.
    """

    body: Body
    terms: list[VectorTerm]
    combining: float
    windows: list[tuple[VectorTerm, Access]]
    lanes: dict[Node, int]
    width: int
    target: Target
    pairs: frozenset[Node]

    @staticmethod
    def of(body: Body, lanes: dict[Node, int], target: Target) -> VectorBody:
        """`body` with the vector axes `lanes`."""
        inner = body.own[-1] if body.own else None
        pairs = _pairs(body, lanes)
        terms = [_vector_term(body, term, inner, lanes, target, pairs)
                 for term in body.terms.values()]
        terms.sort(key=lambda term: term.depths, reverse=True)  # the innermost soon exceed a limit
        width = max((lanes.get(r, 1) for r in body.own), default=1)
        windows = [(term, a) for term in terms for a in term.term.accesses
                   if body.results and a.is_window()]
        outputs = {r: n for r, n in lanes.items() if r not in body.ranges}
        return VectorBody(body, terms, 3.0 * math.log2(width), windows, outputs,
                          lanes.get(inner, 1) if inner is not None else 1, target, pairs)

    def around(self, trips: dict[Node, int]) -> list[int]:
        """At each depth of the chain, how often the loops around it run in all."""
        around = [1]
        for r in self.body.chain:
            around.append(around[-1] * trips[r])
        return around

    def cycles(self, copies: Chosen, trips: dict[Node, int], registers: int,
               limit: float = math.inf) -> float:
        """Half cycles, with copies of ranges in registers and loops of so many trips; infinite if
        they are certainly more than `limit`."""
        around = self.around(trips)
        iterations = around[-1]
        taken, looped = self._peeled(copies, iterations)
        beyond = limit / taken
        whole = self.body.ranges.isdisjoint([r for r, _ in copies])
        total, innermost, waiting, most, operands = 0.0, 0.0, 0.0, 1, []
        for term in self.terms:
            instances = 1
            for r, n in copies:  # as `copied`, which would be called a million times
                if r in term.free:
                    instances *= n
            times = term.times(around)
            if term.is_plain and (whole or not term.tail):
                units = instances * term.fixed
            else:
                units = term.all_units(times, instances, copies, whole, self.target)
            if times == iterations:
                innermost += units + WAITING * term.term.arithmetic
                waiting += instances * (NEAR_LINE_UNITS * term.near - term.term.arithmetic)
                if innermost > beyond:
                    return math.inf
            else:
                total += times * units
            most = max(most, instances)
            if term.term.accesses:
                operands.append(instances)
        if most > MOST_INSTANCES:
            return math.inf
        if self.body.results:
            tile = copied(copies, self.body.free) * self.body.results
            parts = copied(copies, self.body.ranges)
            outside = around[len(self.body.chain) - len(self.body.own)]
            if outside == looped:  # no loops: one accumulator takes all elements in turn
                parts = 1
            elif paired(self.pairs, copies) is not None:
                parts //= 2
            innermost += max(waiting, 0.0)
            innermost = max(innermost, self.body.latency) if outside < looped else innermost
            if total + taken * innermost > limit:
                return math.inf
            if self.windows:
                total += outside * self.window_units(copies)
            over = tile * parts + min(operands, default=0) + 1 - registers
            if over > 0 and tile * parts > 1:
                innermost += over * SPILL_UNITS
                innermost += CARRIED_SPILL_UNITS if outside < looped else 0.0
            total += outside * (self.combining + parts - 1) * tile
        return total + taken * innermost + looped * LOOP_UNITS

    def _peeled(self, copies: Chosen, iterations: int) -> tuple[float, int]:
        """To how many whole ones iterations amount, where the last of a reduction's loop are peeled
        and have fewer instances, and how many of them are in the loop."""
        if self.body.is_peeled and self.body.own:
            inner = self.body.own[-1]
            count = copied(copies, (inner,))
            whole, rest = divmod(inner.arg.extent, self.width * count)
            if whole and rest:
                runs = iterations // (whole + 1)
                return runs * (whole + -(-rest // self.width) / count), runs * whole
        return iterations, iterations

    def instructions(self, copies: Chosen) -> float:
        """About how many they are with copies of ranges, in vectors or not."""
        return sum([copied(copies, free) * term.instructions
                    for free, term in self.body.terms.items()])

    def window_units(self, copies: Chosen) -> float:
        """Units of reading, for one register tile, what windows cover: where that is a large part
        of the first cache, little of it is there still from the tile before."""
        total = 0.0
        steps = {r: r.arg.extent for r in self.body.own} | self.lanes
        steps |= {r: n * self.lanes.get(r, 1) for r, n in copies if r not in self.body.ranges}
        for term, access in self.windows:
            runs, lines = access.runs({r: n for r, n in steps.items() if r in term.term.free})
            if lines * LINE * WINDOW_SHARE > self.target.l1_bytes:
                total += runs * RUN_UNITS
        return total

    def least_cycles(self, trips: dict[Node, int]) -> float:
        """No copies of ranges take fewer: each term is done once for each value of its ranges."""
        total = 0.0
        for term in self.terms:
            uses = math.prod([trips[self.body.chain[depth]] for depth in term.depths])
            total += uses * term.least_units(uses)
        return total


def _pairs(body: Body, lanes: dict[Node, int]) -> frozenset[Node]:
    """The ranges of a reduction of whose products two may be added by one instruction, with these
    vector axes."""
    products = [term for term in body.terms.values() if term.paired]
    wide = all(any(lanes.get(r, 1) >= LEAST_LANES for r in term.free) for term in products)
    return body.ranges if products and wide and body.ranges.isdisjoint(lanes) else frozenset()


def paired(pairs: frozenset[Node], copies: Chosen) -> Node | None:
    """The range of which two steps are taken at once, of those that may be; None for none."""
    if not pairs:
        return None
    own = [(r, n) for r, n in copies if r in pairs]
    if any(r.arg.extent % n for r, n in own):
        return None
    return next((r for r, n in sorted(own, key=lambda c: c[0].arg.order, reverse=True)
                 if n % 2 == 0), None)


def _vector_term(body: Body, term: Term, inner: Node | None, lanes: dict[Node, int],
                 target: Target, pairs: frozenset[Node]) -> VectorTerm:
    vector = next((r for r in term.free if r in lanes), None)
    width = 1 if vector is None else lanes[vector]
    fixed, near = term.arithmetic + term.division_units(vector, width), 0.0
    packable: list[tuple[Access, float, float, int]] = []
    far: list[tuple[Access, float, float]] = []
    keeps = body.is_cut and is_kept(term.free, body.chain[:-len(body.own)])
    for access in term.accesses:
        direct = access.direct_units(inner, target, vector, width)
        if body.results:
            fixed += access.astride_units(vector, width)
            if access.is_streamed(target) and not keeps:
                fixed += STREAM_UNITS * width * access.itemsize / LINE
            else:
                near += access.near_lines(target, width, body.own)
        if any(access.is_neighbour(r, vector, width) for r in access.strides):
            far.append((access, direct, direct - access.lane_units(vector, width)))
        elif access.load is not None and (direct > access.units or pairs and term.single > 0.0):
            own = access.lane_units(vector, width)
            packable.append((access, own, direct - own, access.sharing(target, vector)))
        else:
            fixed += direct
    depths = tuple(i for i in reversed(range(len(body.chain))) if body.chain[i] in term.free)
    tail = [(r, r.arg.extent, lanes.get(r, 1)) for r in body.own if r in term.free]
    step = lanes.get(inner, 1) if inner is not None else 0
    in_lines = [a for a in term.accesses if inner in a.strides
                and 0 < abs(a.strides[inner] or 0) * step * a.itemsize < LINE]
    apart = [ranges for a, ranges in term.apart(target) if a not in in_lines]
    stores = [(a, 1 if vector is None or a.strides[vector] in (0, 1) else width)
              for a in term.crowding(target)] if body.results == 0 else []
    is_even = not any(n % by for _, n, by in tail)
    saved = term.paired if vector is not None else term.paired + term.single
    if vector is None and term.single > 0.0:
        saved += PAIR_UNITS
    is_plain = is_even and not (packable or far or in_lines or apart or stores
                                or pairs and saved)
    fixed += NEAR_STREAM_UNITS * near
    near = 0.0 if vector in body.ranges else near  # what a sum's own lanes read is read ahead
    return VectorTerm(term, vector, depths, fixed, near, packable, far, width, tail, in_lines,
                      apart, stores, term.free, is_plain, is_even, body.is_peeled, pairs, saved)


def is_kept(free: Container[Node], outputs: Sequence[Node]) -> bool:
    """Whether one register tile after the other reads the same of an operand that depends on
    `free`, and many do. outputs: the loops around a reduction, the outermost first."""
    return outputs[-1] not in free \
        and math.prod(r.arg.extent for r in outputs if r not in free) >= LEAST_KEPT


def _in_place(access: Access, direct: float, missed: float, sharing: int, copies: Chosen,
              pair: Node | None) -> float:
    """Units a use of what is not packed, where up to `sharing` copies that are neighbours in memory
    share a miss. pair: the range of which two steps are taken at once."""
    neighbours = math.prod([n for r, n in copies if access.strides.get(r) == 1])
    apart = 0.0 if pair is None or access.strides.get(pair) == 1 else PAIR_UNITS
    return direct + apart + missed / min(sharing, neighbours)


def copied(copies: Chosen, ranges: Container[Node]) -> int:
    """Instances of a value that depends on `ranges`."""
    product = 1
    for r, n in copies:
        if r in ranges:
            product *= n
    return product
