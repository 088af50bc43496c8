"""What a kernel takes on a device of many work items, with given decisions: a static estimate.

The unit is one instruction of a warp, the items that run in step. Loads and stores cost by the
memory that a warp touches at a time. model/cpu_model.py is the like for processors; the choice is
in gpu.py.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lazyten.codegen.gpu.local_memory import group_size, strides_of
from lazyten.codegen.instructions.vector_access import vector_widths
from lazyten.codegen.model.arithmetic import units
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions
from lazyten.codegen.model.loop_bodies import Body
from lazyten.codegen.targets.dialect import dialect_of
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, substitute, toposort
from lazyten.ir.ops import ELEMENTWISE, Op
from lazyten.symbolic.affine import affine

SECTOR, LINE = 32, 128
"""Bytes that memory gives at a time, and that are looked up together."""
ACCESS_UNITS, SECTOR_UNITS, LINE_UNITS = 2.0, 0.75, 1.0
CACHE, MOST_GROUPS, MOST_WARPS = 200 << 10, 32, 64
"""Of a multiprocessor: bytes of its first cache, groups and warps that it has room for."""
EVICTED = 3.0
"""How much longer reading takes what is not in that cache any more."""
LOCAL_UNITS = 1.5
VECTOR_LOCAL_UNITS = LOCAL_UNITS / 2
"""An element of a vector."""
ASYNC_UNITS = 1.0
"""A copy to local memory that goes on by itself, but for what memory takes."""
LOOP_UNITS = 3.0
BARRIER_UNITS = 10.0
STEP_UNITS = 14.0
"""One step of combining what the items of a group have, with its barrier."""
WARP_STEP_UNITS = 3.0
"""One within a warp whose items may ask each other for values."""
FEW_HELD, HELD_SHARE = 16, 0.01
"""What each element of a row that an item keeps in registers costs of the whole, beyond so many:
fewer warps have room for theirs."""
MASK_UNITS = 1.0
MOST_ACCUMULATORS = 64
CHAIN = 4
"""Sums of an item that go on beside each other while one instruction waits for the one before."""
MOST_CHAINS = 4
REGISTERS = 65536
"""Of a multiprocessor, which its groups divide among them."""
OTHER_REGISTERS = 100
"""What an item has besides its sums."""
WAIT_UNITS = 300.0
"""What a group waits for the others of its items, and for memory, each time it fills local memory:
groups on the same multiprocessor compute meanwhile."""


def load_of(warps: float, sums: int, target: Target) -> float:
    """The share of the device that so many warps take, of items with so many sums: those that are
    few keep it busy if each does several things at once."""
    return max(warps / target.busy_warps, 1 / min(max(sums // CHAIN, 1), MOST_CHAINS))


def wait_units(sums: int, size: int, memory: int, target: Target) -> float:
    """Units of a wait of all items of a group, each with so many sums, that has so many bytes of
    local memory: as many groups as there is room for are on a multiprocessor."""
    registers = (sums + OTHER_REGISTERS) * max(size, 1)
    return WAIT_UNITS / max(min(REGISTERS // registers, target.local_memory // max(memory, 1)), 1)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A LOAD or STORE. strides: elements a step of the ranges that it depends on, None where the
    position is not affine in one. offset: elements before the first."""

    node: Node
    body: Body
    strides: Mapping[Node, int | None]
    itemsize: int
    offset: int

    @staticmethod
    def of(node: Node, model: Model) -> MemoryAccess:
        """What the model knows of an access."""
        free = model.free[node]
        terms, offset = affine(node.src[1])
        divided = {r for t in terms if t not in free for r in model.free[t]}
        strides = {r: None if r in divided else terms.get(r, 0) for r in free}
        return MemoryAccess(node, model.body_of(free), strides, node.src[0].dtype.itemsize, offset)

    def together(self, lanes: Mapping[Node, int]) -> int:
        """How many of these neighbours one access has: those of a range in whole vectors, where
        all else steps by such."""
        along = next((r for r in lanes if self.strides.get(r) == 1), None)
        if along is None or len(self.node.src) > 2 + (self.node.op is Op.STORE):
            return 1
        others = [self.offset, along.arg.extent,
                  *(1 if s is None else s for r, s in self.strides.items() if r is not along)]
        return next((n for n in vector_widths(self.itemsize)
                     if lanes[along] % n == 0 and all(s % n == 0 for s in others)), 1)


class GpuModel:
    """Estimates of one kernel."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.accesses = [MemoryAccess.of(n, model) for n in toposort([model.sink])
                        if n.op in (Op.LOAD, Op.STORE)]
        self._sectors: dict[object, float] = {}
        self._units: dict[Decisions, float] = {}
        self._again: dict[frozenset[tuple[Node, object]], frozenset[Node]] = {}

    def units(self, decisions: Decisions) -> float:
        """Units that the device takes; infinite where a group has not the memory, or an item not
        the registers."""
        if decisions not in self._units:
            self._units[decisions] = self._estimate(_Plan(self.model, decisions))
        return self._units[decisions]

    def _estimate(self, plan: _Plan) -> float:
        if plan.accumulators > MOST_ACCUMULATORS:
            return math.inf
        again = self._repeated(plan.whole)
        each = self._accesses(plan, again)
        for body in (self.model.stores, *self.model.reductions):
            loops = [r for r in body.chain if r not in plan.shared]
            times = math.prod(plan.trips[r] for r in loops)
            each += times * LOOP_UNITS if loops else 0.0
            each += sum(plan.times(loops, term.free) * term.arithmetic
                        for term in body.terms.values())
            across = math.prod(plan.local.get(r, 1) for r in body.own)
            if across > 1:
                outside = math.prod(plan.trips[r] for r in loops if r not in body.own)
                instances = body.results * math.prod(
                    plan.tile.get(r, 1) * plan.lanes.get(r, 1) for r in body.free)
                each += outside * instances * self._combining(across)
        each -= sum(self._arithmetic(n, plan) for n in again
                    if n.op in ELEMENTWISE and n.dtype is not dt.INDEX)
        if again:
            held = max(plan.copies(r) for r in plan.whole)
            each *= 1 + max(held - FEW_HELD, 0) * HELD_SHARE
        return each * load_of(plan.warps, plan.accumulators, self.model.target)

    def _arithmetic(self, node: Node, plan: _Plan) -> float:
        """Units of one elementwise node."""
        free = self.model.free[node]
        loops = [r for r in self.model.body_of(free).chain if r not in plan.shared]
        return plan.times(loops, free) * units(node, self.model.target)

    def _combining(self, items: int) -> float:
        """Units of combining what so many items have; those of a warp may ask each other."""
        dialect = dialect_of(self.model.target.language)
        asks = dialect is not None and bool(dialect.lane_below)
        inside = min(items, self.model.target.warp) if asks else 1
        return (WARP_STEP_UNITS * math.log2(inside) + STEP_UNITS * math.log2(items / inside)
                + BARRIER_UNITS)

    def _repeated(self, digits: Mapping[Node, object]) -> frozenset[Node]:
        """What is read and computed again where ranges of these digits are one, as if reductions of
        a row, and the stores, went over it together."""
        first: dict[object, Node] = {}
        same = {r: first.setdefault(own, r) for r, own in digits.items()}
        if len(first) == len(same):
            return frozenset()
        key = frozenset(digits.items())
        if key not in self._again:
            nodes = toposort([self.model.sink])
            seen: set[Node] = set()
            found = []
            for node, merged in zip(nodes, substitute(nodes, same), strict=True):
                found += [node] if merged in seen else []
                seen.add(merged)
            self._again[key] = frozenset(found)
        return self._again[key]

    def _accesses(self, plan: _Plan, again: frozenset[Node]) -> float:
        total, memory = 0.0, self._local_memory(plan)
        if memory > self.model.target.local_memory:
            return math.inf
        evicted = self._repeated(plan.divided) if self._overflows(plan) else frozenset[Node]()
        wait = wait_units(plan.accumulators, plan.size, memory, self.model.target)
        for access in self.accesses:
            if access.node in again:
                continue
            loops = [r for r in access.body.chain if r not in plan.shared]
            times = plan.times(loops, frozenset(access.strides))
            if access.node not in plan.staged:
                masked = any(plan.is_uneven(r) for r in access.body.own if r in access.strides)
                width = 1 if masked else access.together(plan.lanes)
                touched = self._touched(access, plan)
                touched *= EVICTED if access.node in evicted else 1
                total += times / width * (ACCESS_UNITS + touched + MASK_UNITS * masked)
                continue
            tile = math.prod(plan.inside(r) for r in access.strides)
            buffers = plan.staged[access.node]
            inside = math.prod(plan.group.get(r, 1) for r in access.body.own)
            fills = math.prod(plan.trips[r] for r in loops) / inside
            copies = -(-tile // plan.size)
            is_vector = any(r in plan.lanes for r in access.strides)
            total += times * (VECTOR_LOCAL_UNITS if is_vector else LOCAL_UNITS)
            each, barriers = ((ACCESS_UNITS + LOCAL_UNITS, BARRIER_UNITS) if buffers == 1 else
                              (ASYNC_UNITS, BARRIER_UNITS / 2))
            each += self._filled(access, plan)
            total += fills * (barriers + wait / len(plan.staged) + copies * each)
        return total

    def _overflows(self, plan: _Plan) -> bool:
        """Whether what the groups of a multiprocessor read is more than its cache keeps until they
        read it again."""
        warps = max(-(-plan.size // self.model.target.warp), 1)
        read = max((a.itemsize * math.prod(r.arg.extent for r in a.strides if r in plan.divided)
                    for a in self.accesses if a.node.op is Op.LOAD), default=0)
        return read * min(MOST_GROUPS, MOST_WARPS // warps) > CACHE

    def _local_memory(self, plan: _Plan) -> int:
        """Bytes that a group has, about."""
        tiles = (plan.staged[a.node] * a.itemsize * math.prod(plan.inside(r) for r in a.strides)
                 for a in self.accesses if a.node in plan.staged)
        return 8 * plan.size + sum(tile * 5 // 4 for tile in tiles)

    def _touched(self, access: MemoryAccess, plan: _Plan) -> float:
        """Units for the memory that the items of a warp touch at once."""
        digits = tuple((r, stride, n, plan.lanes.get(r, 1)) for r, stride, n in plan.digits
                       if r in access.strides)
        key = access.node, digits
        if key not in self._sectors:
            places = self._places(access, digits)
            self._sectors[key] = sum(
                units * len({at // size for at in places})
                for size, units in ((SECTOR, SECTOR_UNITS), (LINE, LINE_UNITS)))
        return self._sectors[key]

    def _places(self, access: MemoryAccess,
                digits: tuple[tuple[Node, int, int, int], ...]) -> list[int]:
        """The bytes at which the items of a warp begin, each in a line of its own where strides
        are not known."""
        if any(access.strides[r] is None for r, *_ in digits):
            return [item * LINE for item in range(self.model.target.warp)]
        return [access.itemsize * sum((access.strides[r] or 0) * step * (item // stride % n)
                                      for r, stride, n, step in digits)
                for item in range(self.model.target.warp)]

    def _filled(self, access: MemoryAccess, plan: _Plan) -> float:
        """The same for a copy to local memory, in the order of the operand."""
        run = 1
        sizes = {r: plan.inside(r) for r in access.strides}
        for r, stride in sorted(access.strides.items(), key=lambda s: abs(s[1] or 0)):
            if stride is not None and abs(stride) == run:
                run *= sizes[r]
        warp = self.model.target.warp
        sector = SECTOR_UNITS + LINE_UNITS * SECTOR / LINE
        return sector * max(warp / run, warp * access.itemsize / SECTOR)


class _Plan:
    """Decisions in the form that the estimate needs.

    trips: of each range's loop. divided: ranges that a group shares, with what digits they have;
    whole: those without a loop. shared: ranges whose loop is the grid. digits: (range, stride,
    extent) of what differs between neighbouring work items. lanes: neighbours that one takes.
    """

    def __init__(self, model: Model, decisions: Decisions) -> None:
        self.local, self.tile = dict(decisions.local), dict(decisions.tile)
        self.lanes = dict(decisions.lanes)
        self.unroll, self.group = dict(decisions.unroll), dict(decisions.group)
        self.shared = frozenset(decisions.parallel.ranges)
        self.staged = {s.load: s.buffers for s in decisions.staged if s.local}
        ranges = {*model.outputs, *(r for body in model.reductions for r in body.chain)}
        self.trips = {r: -(-r.arg.extent // self.block(r)) for r in ranges}
        self.divided = {r: (r.arg.extent, n, self.copies(r)) for r, n in decisions.local}
        self.whole = {r: digits for r, digits in self.divided.items()
                      if r.arg.extent == self.block(r)}
        groups = math.prod(self.trips[r] for r in self.shared)
        strides = strides_of(model.sink, decisions.local)
        self.size = group_size(strides, decisions.local)
        warp = model.target.warp
        self.warps = groups * -(-self.size // warp) if self.size else -(-groups // warp)
        if self.size:
            self.digits = tuple((r, strides[r], n) for r, n in decisions.local)
        else:
            digits, stride = [], 1
            for r in reversed(decisions.parallel.ranges):
                digits.append((r, stride, self.trips[r]))
                stride *= self.trips[r]
            self.digits = tuple(digits)
        self.accumulators = max((math.prod(self.copies(r) for r in (*body.free, *body.own))
                                 * body.results for body in model.reductions), default=1)

    def copies(self, r: Node) -> int:
        """Elements of `r` that a work item takes in one step."""
        return self.tile.get(r, 1) * self.unroll.get(r, 1) * self.lanes.get(r, 1)

    def block(self, r: Node) -> int:
        """Elements that one step of the loop over `r` takes."""
        return self.copies(r) * self.local.get(r, 1)

    def inside(self, r: Node) -> int:
        """Elements of `r` that a group reads at a time."""
        return self.block(r) * self.group.get(r, 1)

    def is_uneven(self, r: Node) -> bool:
        """Whether a reduction's range has a masked tail."""
        return bool(r.arg.extent % self.block(r))

    def times(self, loops: list[Node], free: frozenset[Node]) -> int:
        """How often an item does what depends on `free`: as often as its innermost loop runs."""
        last = max((i for i, r in enumerate(loops) if r in free), default=-1)
        copies = math.prod(self.copies(r) for r in free)
        trips: int = math.prod(self.trips[r] for r in loops[:last + 1])
        return copies * trips
