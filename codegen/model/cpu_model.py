"""The static model behind optimize: how many cycles a kernel would take with given decisions.

The unit is half a cycle: the time of one vector multiply-add on a core that issues two a cycle. A
kernel is summed up once as a few groups of equal trip count ("terms"), and that once more for each
choice of vector axes, so one candidate costs microseconds.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

from lazyten.codegen.loops.packing import Staged
from lazyten.codegen.loops.ranges import AFFINE, free_ranges, is_update, overlaps
from lazyten.codegen.loops.reduction_blocking import is_carried
from lazyten.codegen.loops.summation import adds_narrow_products, is_widened, run_of
from lazyten.codegen.model.accesses import LINE, Access, Term, maskable
from lazyten.codegen.model.arithmetic import MULTIPLY_UNITS, WIDEST, units, usual_and_rare
from lazyten.codegen.model.decisions import Decisions
from lazyten.codegen.model.loop_bodies import (
    LATENCY_UNITS,
    MAX_LATENCY_UNITS,
    MOST_INSTRUCTIONS,
    Body,
    Chosen,
    VectorBody,
    copied,
)
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node
from lazyten.ir.ops import ELEMENTWISE, Op

MEMORY_BYTES = 4.0
"""What a core reads and writes beyond its second cache in half a cycle."""


class Model:
    """Estimates of one kernel.

    shared: 'parallel' ranges, around all others; outputs: the other ranges of the stores;
    shared_outputs: those of every store; stores: the body of those that come first; updates: bodies
    of others; reductions: bodies of ACCUMULATEs; touched: bytes of arrays that are read, and that
    are stored. tf32: whether tensor cores may round float32 unasked.
    """

    def __init__(self, sink: Node, target: Target, tf32: bool = False) -> None:
        self.sink, self.target, self.tf32 = sink, target, tf32
        self.free = free_ranges(sink)
        around = sorted(self.free[sink], key=lambda r: r.arg.order)
        self.shared = [r for r in around if r.arg.kind == "parallel"]
        self.outputs = [r for r in around if r.arg.kind not in ("parallel", "serial")]
        order = list(self.free)
        first = [s for s in sink.src if not is_update(s, sink)]
        self.stores = self._of_stores(first)
        self.updates = [self._of_stores([s]) for s in sink.src if s not in first]
        self.reductions = self._bodies([n for n in order if n.op is Op.ACCUMULATE])
        self._every = (self.stores, *self.updates, *self.reductions)
        self._itemsizes = self._widest(order)
        self._maskable = maskable(sink, self.free, target)
        fused = {n.src[0] for n in order if n.op is Op.ACCUMULATE and n.arg is Op.ADD
                 and n.src[0].op is Op.MUL and n.dtype.is_float}
        for node in order:
            self._count(node, fused)
        self.touched = self._touched(order)
        every = frozenset.intersection(*(self.free[store] for store in sink.src))
        self.shared_outputs = [r for r in self.outputs if r in every]
        self.reused_outputs = [r for r in self.outputs if self._is_reused(r)]
        self.repeating_outputs = [r for r in self.outputs if self._is_repeating(r)]
        self._instructions = sum(term.instructions for body in self._every
                                 for term in body.terms.values())
        self._known: dict[Chosen, tuple[list[VectorBody], dict[Node, int]]] = {}

    # ---- summing the kernel up ----

    def _of_stores(self, stores: Iterable[Node]) -> Body:
        free = frozenset[Node]().union(*(self.free[store] for store in stores))
        chain = sorted((r for r in free if r not in self.shared), key=lambda r: r.arg.order)
        return Body(0, [], free, [*self.shared, *chain], {}, frozenset())

    def _touched(self, order: Iterable[Node]) -> int:
        """Bytes of all arrays; of one that is stored to at known places, of as many elements."""
        sizes = {n: int(n.arg.size) for n in order if n.op is Op.PARAM}
        for store in self.sink.src:
            places = math.prod(r.arg.extent for r in self.free[store.src[1]])
            if store.arg is None:
                sizes[store.src[0]] = min(sizes[store.src[0]], places)
        return sum(n.dtype.itemsize * size for n, size in sizes.items())

    def _bodies(self, nodes: list[Node]) -> list[Body]:
        """One for all ACCUMULATEs over the same ranges."""
        groups: dict[frozenset[Node], list[Node]] = {}
        for node in nodes:
            groups.setdefault(frozenset(node.src[1:] or (node,)), []).append(node)
        return [self._body(group) for group in groups.values()]

    def _body(self, group: list[Node]) -> Body:
        node = group[0]
        own = sorted(node.src[1:], key=lambda r: r.arg.order)
        free = self.free[node]
        around = sorted(free, key=lambda r: r.arg.order)
        last = around[-1].arg.order if around else ()
        outer = self.shared + [r for r in self.outputs if r.arg.order <= last]
        outer += [r for r in around if r not in self.outputs and r not in self.shared]
        holds = any(not f.isdisjoint(own) for n, f in self.free.items() if n.op is Op.ACCUMULATE)
        is_peeled = self.target.work_group == 1 and not holds and len(own) == 1
        latency = MAX_LATENCY_UNITS if any(n.arg is Op.MAX and n.dtype.is_float for n in group) \
            else LATENCY_UNITS
        is_cut = self.target.work_group == 1 and bool(own and outer) \
            and run_of(own) < own[0].arg.extent and is_carried(self.sink, own[0])
        return Body(len(group), own, free, outer + own, {}, frozenset(own), is_peeled, latency,
                    is_cut)

    def body_of(self, free: frozenset[Node]) -> Body:
        """The body that computes a value: the last reduction that binds one of its ranges, or else
        the last stores that have the loops."""
        for body in reversed(self.reductions):
            if not free.isdisjoint(body.own):
                return body
        return next((b for b in self.updates if not free <= self.stores.free and free <= b.free),
                    self.stores)

    def _widest(self, order: list[Node]) -> dict[Node, int]:
        """Bytes of the widest element that depends on each range, of those that are loaded, stored
        or reduced."""
        sizes: dict[Node, int] = {}
        for n in order:
            if n.op in (Op.LOAD, Op.STORE):
                dtype = n.src[0].dtype
            elif n.op is Op.ACCUMULATE:
                dtype = n.dtype
            else:
                continue
            size = 4 if dtype.is_narrow else dtype.itemsize
            pairs = n.op is Op.ACCUMULATE and self.target.adds_pairs and adds_narrow_products(n)
            inside = 2 if pairs else size  # a reduction's own lanes are those of the products
            for r in self.free[n] | self.free[n.src[0]]:
                sizes[r] = max(sizes.get(r, 1), size if r in self.free[n] else inside)
        return sizes

    def _term(self, free: frozenset[Node]) -> Term:
        terms = self.body_of(free).terms
        if free not in terms:
            terms[free] = Term(free)
        return terms[free]

    def _count(self, node: Node, fused: set[Node]) -> None:
        free = self.free[node]
        lane_bytes = max((self._itemsizes.get(r, 1) for r in free), default=WIDEST)
        if node.op in (Op.LOAD, Op.STORE):
            self._term(free).accesses.append(Access.of(node, self.free, self.target))
            if node.op is Op.LOAD:
                self._term(free).arithmetic += units(node, self.target, lane_bytes)
        elif node.op is Op.ACCUMULATE:
            self._term(self.free[node.src[0]]).arithmetic += 3.0 if node.arg is Op.MAX else 1.0
            if self.target.adds_pairs and adds_narrow_products(node):
                self._count_pairs(node.src[0])
        elif node.op in ELEMENTWISE and node not in fused:
            if node.dtype is dt.INDEX and node.op in AFFINE:
                return
            if node.dtype is dt.INDEX and node.op in (Op.IDIV, Op.MOD):
                by = node.src[1]
                self._term(free).divisions.append(int(by.value) if by.op is Op.CONST else 0)
                return
            usual, rare = usual_and_rare(node, self.target, lane_bytes)
            self._term(free).arithmetic += usual
            self._term(free).rare += rare

    def _count_pairs(self, product: Node) -> None:
        """What is saved of a product of narrow integers where two are added by one instruction."""
        self._term(self.free[product]).paired += MULTIPLY_UNITS
        for side in product.src:
            term = self._term(self.free[side])
            whole = is_widened(side) and side.src[0].dtype is dt.int16
            term.single += 0.5 if whole else -0.5

    def _is_reused(self, r: Node) -> bool:
        """Whether some reduction reads an operand again for every value of `r`."""
        return any(r in body.free and any(term.accesses and r not in term.free
                                          for term in body.terms.values())
                   for body in self.reductions)

    def is_near(self, r: Node) -> bool:
        """Whether steps of `r` are neighbours of some operand of a reduction."""
        return any(access.strides.get(r) == 1 for body in self.reductions
                   for term in body.terms.values() for access in term.accesses)

    def _is_repeating(self, r: Node) -> bool:
        """Whether a loop inside that of `r` computes what does not depend on `r`, again for every
        value of it."""
        inside = self.outputs[self.outputs.index(r) + 1:]
        return any((term.arithmetic or term.divisions) and r not in term.free
                   and not term.free.isdisjoint(inside) for term in self.stores.terms.values())

    def lane_counts(self, r: Node) -> list[int]:
        """Vector lengths worth trying on a range."""
        size = self._itemsizes.get(r, 1)
        most = min(max(self.target.vector_bytes // size, 1), self.target.most_lanes)
        counts = [most >> i for i in range(3)]
        end = 2 * r.arg.extent if r in self._maskable else r.arg.extent + 1
        return [c for c in counts if 2 <= c < end and not overlaps(r, c)]

    def transposing_tiles(self, lanes: dict[Node, int]) -> set[tuple[Node, int]]:
        """Output ranges and how many copies of each make whole vectors, or lines, of loads whose
        lanes are far apart, or take turns with the lanes of stores."""
        found = set()
        for body in self._every:
            for term in body.terms.values():
                vector = next((r for r in term.free if r in lanes), None)
                if vector is None:
                    continue
                width = lanes[vector]
                for access in term.accesses:
                    if access.is_store:
                        found |= {(r, r.arg.extent) for r in self.outputs
                                  if access.takes_turns(r, vector, width)}
                        continue
                    line = max(LINE // access.itemsize, width)
                    found |= {(r, n) for r in self.outputs for n in (width, line)
                              if r.arg.extent >= n and access.is_neighbour(r, vector, width)}
        return found

    # ---- one candidate ----

    def cycles(self, choice: Decisions, limit: float = math.inf) -> float:
        """Half cycles that the kernel would take; infinite with too many copies of its code, or if
        they are certainly more than `limit`."""
        copies, bodies, trips = self.loops(choice)
        registers = self.target.vector_registers
        if copies and self._instructions * math.prod([n for _, n in copies]) > MOST_INSTRUCTIONS \
                and _instructions(bodies, copies) > MOST_INSTRUCTIONS:
            return math.inf
        found, room = [], limit
        for body in reversed(bodies):  # reductions take longest
            found.append(body.cycles(copies, trips, registers, room))
            room -= found[-1]
            if room < 0.0:
                return math.inf
        return sum(reversed(found))

    def instructions(self, choice: Decisions) -> float:
        """About how many instructions the kernel would have, in vectors or not."""
        copies, bodies, _ = self.loops(choice)
        return _instructions(bodies, copies)

    def least_time(self, choice: Decisions) -> float:
        """Half cycles, or those that memory takes where the second cache cannot hold the arrays."""
        cycles = self.cycles(choice)
        if self.touched <= self.target.l2_bytes:
            return cycles
        return max(cycles, self.touched / MEMORY_BYTES)

    def least_cycles(self, lanes: Chosen) -> float:
        """No choice with these vector axes takes fewer half cycles."""
        bodies, trips = self._vectorized(lanes)
        return sum([body.least_cycles(trips) for body in bodies])

    def repeated_cycles(self, choice: Decisions, r: Node) -> float:
        """Half cycles of the reductions that every thread must do if threads share `r`."""
        copies, bodies, trips = self.loops(choice)
        return sum([b.cycles(copies, trips, self.target.vector_registers) for b in bodies
                    if b.body.results and r not in b.body.chain])

    def loops(self, choice: Decisions) -> tuple[Chosen, list[VectorBody], dict[Node, int]]:
        """Copies of ranges, the bodies, and how often the loop of each range is run through."""
        bodies, trips = self._vectorized(choice.lanes)
        copies = (*choice.tile, *choice.unroll)
        if copies:
            lanes = dict(choice.lanes)
            trips = trips | {r: -(-r.arg.extent // (lanes.get(r, 1) * n)) for r, n in copies}
        return copies, bodies, trips

    def _vectorized(self, lanes: Chosen) -> tuple[list[VectorBody], dict[Node, int]]:
        """The bodies with these vector axes, and how often each range's loop would run."""
        if lanes not in self._known:
            widths = dict(lanes)
            self._known[lanes] = (
                [VectorBody.of(body, widths, self.target) for body in self._every],
                {r: -(-r.arg.extent // widths.get(r, 1)) for body in self._every
                 for r in body.chain})
        return self._known[lanes]

    def staged(self, choice: Decisions) -> list[Staged]:
        """The operands that are packed before the loops."""
        copies, bodies, trips = self.loops(choice)
        found: dict[Node, Staged] = {}
        for body in bodies:
            around = body.around(trips)
            for term in body.terms:
                uses = term.times(around) * copied(copies, term.term.free)
                for load in term.staged(uses, copies):
                    found[load] = Staged(load, term.vector)
        return list(found.values())


def _instructions(bodies: Iterable[VectorBody], copies: Chosen) -> float:
    return sum([body.instructions(copies) for body in bodies])
