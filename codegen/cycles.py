"""The static model behind optimize: how many cycles a kernel would take with given decisions.

The unit is half a cycle: the time of one vector multiply-add on a core that issues two a cycle. A
kernel is summed up once as a few groups of equal trip count ("items"), so one candidate costs
microseconds.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from lazyten import dtype as dt
from lazyten.affine import affine
from lazyten.codegen.ranges import AFFINE, free_ranges
from lazyten.codegen.stage import Staged, is_packable, packed_size
from lazyten.codegen.target import Target
from lazyten.cost import OP_WORK
from lazyten.node import Node, toposort
from lazyten.ops import ELEMENTWISE, Op

STORE_UNITS = 2.0
GATHER_UNITS = 1.5
"""A lane of a load that is not contiguous: a scalar load and an insert."""
SHUFFLE_UNITS = 3.0
"""A load whose lanes lie near each other: whole vectors and a shuffle."""
MOST_SHUFFLED = 4
DIVISION_UNITS = 4.0
"""An index divided by a constant."""
PACK_UNITS = 4.0
"""Packing an element: reading it alone, and a share of a vector store."""
MISS_UNITS = 2.0
"""A vector load that the first cache misses, mostly hidden."""
LINE, WAYS = 64, 8
MASK_UNITS = 1.5
TAIL_UNITS = 3.0
"""Working out which lanes are inside, and choosing."""
LOOP_UNITS = 2.0
LATENCY_UNITS = 8.0
"""One step of a chain of multiply-adds."""
SPILL_UNITS = 4.0
MOST_INSTANCES = 400
"""Instructions in one loop body beyond which compile time grows for nothing."""


class Choice(Protocol):
    """What the model reads of optimize.Decisions."""

    @property
    def lanes(self) -> tuple[tuple[Node, int], ...]: ...
    @property
    def tile(self) -> tuple[tuple[Node, int], ...]: ...
    @property
    def unroll(self) -> tuple[tuple[Node, int], ...]: ...
    @property
    def outer(self) -> Node | None: ...


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store.

    strides: elements a step of each range, None where the index is not affine in it. divisors: by
    what such a range is divided, 0 where that is not known either.
    """

    strides: dict[Node, int | None]
    divisors: dict[Node, frozenset[int]]
    units: float
    masked: bool
    itemsize: int
    load: Node | None = None

    def packed_units(self, uses: int) -> float:
        """Units a use if the operand is packed first, which is spread over all uses."""
        if self.load is None:
            return math.inf
        return self.units + packed_size(self.load) * PACK_UNITS / uses

    def misses(self, inner: Node, l1_bytes: int) -> bool:
        """Whether the rows that a loop over `inner` steps through do not stay in the first cache:
        there are too many, or their distance lets them share few of its sets."""
        step = abs(self.strides.get(inner) or 0) * self.itemsize
        sets = l1_bytes // (LINE * WAYS)
        if step % LINE == 0 and step:
            sets //= math.gcd(sets, step // LINE)
        return step >= LINE and 2 * inner.arg.extent > sets * WAYS

    def lane_units(self, r: Node | None, lanes: int) -> float:
        """Units of `lanes` neighbouring steps of `r` as one vector; of one element for None."""
        mask = MASK_UNITS if self.masked else 0.0
        if r is None:
            return self.units + mask
        stride = self.strides.get(r, 0)
        if stride == 1:
            return self.units + mask
        if not self.masked and self.units == 1.0 and self._is_shuffle(r, lanes, stride):
            return self.units * SHUFFLE_UNITS
        return (self.units * GATHER_UNITS + mask) * lanes

    def transposed_units(self, r: Node | None, lanes: int, copies: dict[Node, int]) -> float:
        """Units of `lanes` far steps of `r` where a register tile holds the neighbours of each:
        whole vectors are read along the tile, and change places with the lanes."""
        across = max((n for t, n in copies.items() if self.is_neighbour(t, r, lanes) and
                      n % lanes == 0), default=0)
        if not across:
            return math.inf
        whole_lines = across * self.itemsize >= LINE
        return self.units + math.log2(lanes) + (0.0 if whole_lines else MISS_UNITS)

    def is_neighbour(self, r: Node, vector: Node | None, lanes: int) -> bool:
        """Whether steps of `r` are neighbours in memory, but those of the vector axis far apart."""
        if vector is None or self.masked or self.units != 1.0 or r.arg.extent < lanes:
            return False
        return self.strides.get(r) == 1 and abs(self.strides.get(vector) or 0) > MOST_SHUFFLED

    def _is_shuffle(self, r: Node, lanes: int, stride: int | None) -> bool:
        """Whether all lanes are near each other at places known in advance."""
        if stride is not None:
            return abs(stride) <= MOST_SHUFFLED
        return r.arg.extent % lanes == 0 and all(d and (d % lanes == 0 or lanes % d == 0)
                                                 for d in self.divisors[r])


@dataclass(slots=True)
class Item:
    """Work done once for each value of `free`: arithmetic, and accesses with their strides."""

    free: frozenset[Node]
    arithmetic: float = 0.0
    accesses: list[Access] = field(default_factory=list)
    divisions: list[int] = field(default_factory=list)

    def division_units(self, vector: Node | None, lanes: int) -> float:
        """Index divisions: few where all lanes of a vector have the same or a known quotient."""
        if vector is None:
            return DIVISION_UNITS * len(self.divisions)
        whole = vector.arg.extent % lanes == 0
        return sum(1.0 if whole and d and (d % lanes == 0 or lanes % d == 0)
                   else 2 * DIVISION_UNITS * lanes for d in self.divisions)


@dataclass(slots=True)
class Body:
    """The innermost code of the stores (node None) or of one ACCUMULATE."""

    node: Node | None
    own: list[Node]
    free: frozenset[Node]
    chain: list[Node]
    items: dict[frozenset[Node], Item]

    @property
    def ranges(self) -> frozenset[Node]:
        return frozenset(self.own)


class Model:
    """Estimates of one kernel.

    outputs: ranges of the stores; shared_outputs: those of every store; reductions: bodies of
    ACCUMULATEs.
    """

    def __init__(self, sink: Node, target: Target) -> None:
        self.target = target
        self.free = free_ranges(sink)
        self.outputs = sorted(self.free[sink], key=lambda r: r.arg.order)
        order = toposort([sink])
        self.stores = Body(None, [], self.free[sink], self.outputs, {})
        self.reductions = [self._body(n) for n in order if n.op is Op.ACCUMULATE]
        self.itemsize = self._itemsize(order)
        fused = {n.src[0] for n in order if n.op is Op.ACCUMULATE and n.arg is Op.ADD
                 and n.src[0].op is Op.MUL and n.dtype.is_float}
        for node in order:
            self._count(node, fused)
        every = frozenset.intersection(*(self.free[store] for store in sink.src))
        self.shared_outputs = [r for r in self.outputs if r in every]
        self.reused_outputs = [r for r in self.outputs if self._is_reused(r)]
        self._known: dict[Choice, float] = {}

    # ---- summing the kernel up ----

    def _body(self, node: Node) -> Body:
        own = sorted(node.src[1:], key=lambda r: r.arg.order)
        free = self.free[node]
        around = sorted(free, key=lambda r: r.arg.order)
        last = around[-1].arg.order if around else ()
        outer = [r for r in self.outputs if r.arg.order <= last]
        outer += [r for r in around if r not in self.outputs]
        return Body(node, own, free, outer + own, {})

    def _body_of(self, free: frozenset[Node]) -> Body:
        """The body that computes a value: the last reduction that binds one of its ranges."""
        for body in reversed(self.reductions):
            if not free.isdisjoint(body.own):
                return body
        return self.stores

    @staticmethod
    def _itemsize(order: list[Node]) -> int:
        sizes = [4 if n.dtype.is_half else n.dtype.itemsize for n in order
                 if n.op in (Op.PARAM, Op.ACCUMULATE) and n.dtype is not dt.bool_]
        return max(sizes, default=1)

    def _item(self, free: frozenset[Node]) -> Item:
        items = self._body_of(free).items
        if free not in items:
            items[free] = Item(free)
        return items[free]

    def _count(self, node: Node, fused: set[Node]) -> None:
        free = self.free[node]
        if node.op in (Op.LOAD, Op.STORE):
            masked = len(node.src) == 3 and node.op is Op.LOAD
            units = 1.0 if node.op is Op.LOAD else STORE_UNITS
            strides, _ = affine(node.src[1])
            divided = {r: _divisors(r, strides, self.free) for r in free}
            known = {r: None if divided[r] else strides.get(r, 0) for r in free}
            packable = node if node.op is Op.LOAD and is_packable(node) else None
            size = node.src[0].dtype.itemsize
            access = Access(known, divided, units, masked, size, packable)
            self._item(free).accesses.append(access)
        elif node.op is Op.ACCUMULATE:
            self._item(self.free[node.src[0]]).arithmetic += 3.0 if node.arg is Op.MAX else 1.0
        elif node.op in ELEMENTWISE and node not in fused:
            if node.dtype is dt.INDEX and node.op in AFFINE:
                return
            if node.dtype is dt.INDEX and node.op in (Op.IDIV, Op.MOD):
                by = node.src[1]
                self._item(free).divisions.append(int(by.value) if by.op is Op.CONST else 0)
                return
            slower = 3.0 if node.op in (Op.IDIV, Op.MOD, Op.POW) else 1.0
            self._item(free).arithmetic += OP_WORK.get(node.op, 1.0) * slower

    def _is_reused(self, r: Node) -> bool:
        """Whether some reduction reads an operand again for every value of `r`."""
        return any(r in body.free and any(item.accesses and r not in item.free
                                          for item in body.items.values())
                   for body in self.reductions)

    def lane_counts(self, r: Node) -> list[int]:
        """Vector lengths worth trying on a range."""
        most = max(self.target.vector_bytes // self.itemsize, 1)
        counts = [most >> i for i in range(3)]
        return [c for c in counts if 2 <= c <= r.arg.extent]

    def transposing_tiles(self, lanes: dict[Node, int]) -> set[tuple[Node, int]]:
        """Output ranges and how many copies of each make whole vectors, or lines, of loads whose
        lanes are far apart."""
        found = set()
        for body in (self.stores, *self.reductions):
            for item in body.items.values():
                vector = next((r for r in item.free if r in lanes), None)
                width = 1 if vector is None else lanes[vector]
                for access in item.accesses:
                    line = max(LINE // access.itemsize, width)
                    found |= {(r, n) for r in self.outputs for n in (width, line)
                              if r.arg.extent >= n and access.is_neighbour(r, vector, width)}
        return found

    # ---- one candidate ----

    def cycles(self, choice: Choice) -> float:
        """Half cycles that the kernel would take."""
        if choice not in self._known:
            self._known[choice] = self._cycles(choice)
        return self._known[choice]

    def repeated_cycles(self, choice: Choice, r: Node) -> float:
        """Half cycles of the reductions that every thread must do if threads share `r`."""
        return self._bodies_cycles(choice, [b for b in self.reductions if r not in b.chain])

    def _cycles(self, choice: Choice) -> float:
        return self._bodies_cycles(choice, [self.stores, *self.reductions])

    def _bodies_cycles(self, choice: Choice, bodies: list[Body]) -> float:
        lanes, copies, trips = self._counts(choice)
        return sum(self._body_cycles(body, lanes, copies, trips) for body in bodies)

    def _body_cycles(self, body: Body, lanes: dict[Node, int], copies: dict[Node, int],
                     trips: dict[Node, int]) -> float:
        total, innermost, instances, operands = 0.0, 0.0, 1, []
        iterations = math.prod(trips[r] for r in body.chain)
        for item in body.items.values():
            times = self._times(body, item, trips)
            copied = math.prod(copies.get(r, 1) for r in item.free)
            units = copied * self._item_units(body, item, lanes, copies, times * copied)
            units += _tail_units(body, item, lanes, copies)
            if times == iterations:
                innermost += units
            else:
                total += times * units
            instances = max(instances, copied)
            if item.accesses:
                operands.append(copied)
        if body.node is not None:
            innermost = max(innermost, LATENCY_UNITS) if iterations > 1 else innermost
            live = math.prod(copies.get(r, 1) for r in body.free | body.ranges)
            over = live + min(operands, default=0) + 1 - self.target.vector_registers
            if over > 0 and live > 1:
                innermost += over * SPILL_UNITS
            total += self._finish_units(body, lanes, copies, trips)
        if instances > MOST_INSTANCES:
            return math.inf
        return total + iterations * (innermost + LOOP_UNITS)

    @staticmethod
    def _times(body: Body, item: Item, trips: dict[Node, int]) -> int:
        """How often an item's work is done: as often as the last loop that it depends on."""
        depths = [i for i, r in enumerate(body.chain) if r in item.free and trips[r] > 1]
        return math.prod(trips[r] for r in body.chain[:max(depths, default=-1) + 1])

    def staged(self, choice: Choice) -> list[Staged]:
        """The operands that are packed before the loops."""
        lanes, copies, trips = self._counts(choice)
        found: dict[Node, Staged] = {}
        for body in (self.stores, *self.reductions):
            for item in body.items.values():
                vector = next((r for r in item.free if r in lanes), None)
                uses = self._times(body, item, trips) * math.prod(copies.get(r, 1)
                                                                  for r in item.free)
                for access in item.accesses:
                    width = 1 if vector is None else lanes[vector]
                    direct = self._direct_units(body, access, vector, width, copies)
                    if access.load is not None and access.packed_units(uses) < direct:
                        found[access.load] = Staged(access.load, vector)
        return list(found.values())

    def outermost(self, choice: Choice) -> Node | None:
        """The output range whose loop is better run outside the others; None if they are fine.

        An operand is read anew for each iteration of a loop around its own loops that it does not
        depend on; that counts where it is too large for the second cache.
        """
        trips = self._counts(choice)[2]
        loops = [r for r in self.outputs if trips.get(r, 1) > 1]
        best, least = None, 0.8 * self._traffic(loops, trips)
        for r in loops[1:]:
            traffic = self._traffic([r, *(o for o in loops if o is not r)], trips)
            if traffic < least:
                best, least = r, traffic
        return best

    def _traffic(self, loops: list[Node], trips: dict[Node, int]) -> float:
        """Bytes that reductions read from beyond the second cache, with the output loops in this
        order."""
        total = 0.0
        for body in self.reductions:
            for item in body.items.values():
                last = max((i for i, r in enumerate(loops) if r in item.free), default=-1)
                again = math.prod(trips[r] for r in loops[:last + 1] if r not in item.free)
                for access in item.accesses:
                    size = math.prod(r.arg.extent for r in item.free) * access.itemsize
                    total += size * again if size > self.target.l2_bytes // 2 else 0
        return total

    def _counts(self, choice: Choice) -> tuple[dict[Node, int], dict[Node, int], dict[Node, int]]:
        """Lanes and copies of ranges, and how often the loop of each is run through."""
        lanes, copies = dict(choice.lanes), dict(choice.tile) | dict(choice.unroll)
        trips = {}
        for body in (self.stores, *self.reductions):
            for r in body.chain:
                trips[r] = -(-r.arg.extent // (lanes.get(r, 1) * copies.get(r, 1)))
        return lanes, copies, trips

    def _item_units(self, body: Body, item: Item, lanes: dict[Node, int], copies: dict[Node, int],
                    uses: int) -> float:
        vector = next((r for r in item.free if r in lanes), None)
        width = 1 if vector is None else lanes[vector]
        units = item.arithmetic + item.division_units(vector, width)
        for access in item.accesses:
            direct = self._direct_units(body, access, vector, width, copies)
            units += min(direct, access.packed_units(uses))
        return units

    def _direct_units(self, body: Body, access: Access, vector: Node | None, lanes: int,
                      copies: dict[Node, int]) -> float:
        """Units a use of an operand where it is, with what the innermost reduction loop misses."""
        inner = body.own[-1] if body.own else None
        units = min(access.lane_units(vector, lanes),
                    access.transposed_units(vector, lanes, copies))
        if inner is None or inner is vector or not access.misses(inner, self.target.l1_bytes):
            return units
        return units + MISS_UNITS

    def _finish_units(self, body: Body, lanes: dict[Node, int], copies: dict[Node, int],
                      trips: dict[Node, int]) -> float:
        """Combining lanes and accumulators after the loops."""
        width = max((lanes.get(r, 1) for r in body.own), default=1)
        parts = math.prod(copies.get(r, 1) for r in body.own)
        steps = 3.0 * math.log2(width) + parts - 1
        times = math.prod(trips[r] for r in body.chain[:len(body.chain) - len(body.own)])
        return times * steps * math.prod(copies.get(r, 1) for r in body.free)


def _tail_units(body: Body, item: Item, lanes: dict[Node, int], copies: dict[Node, int]) -> float:
    """Units of masking what a split reduction reads past its end: which lanes are inside is worked
    out once for all of a register tile."""
    uneven = [r for r in body.own if r in item.free
              and r.arg.extent % (lanes.get(r, 1) * copies.get(r, 1))]
    if not uneven:
        return 0.0
    masks = math.prod(copies.get(r, 1) for r in uneven)
    loads = len(item.accesses) * math.prod(copies.get(r, 1) for r in item.free)
    return TAIL_UNITS * masks + MASK_UNITS * loads


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
