"""linearize: LOOP expressions become instructions in nested loops.

In: a SINK whose ranges are of several kinds: 'loop', 'reduce' and 'block' ranges become loops, a
'parallel' range a loop of which each call runs a chunk, 'unroll' ranges one instance of every value
that depends on them (a register tile), a 'vector' range the lanes, a 'local' range a digit of the
work item's number in its group. Out: a Function. Every value is computed once, in the outermost
loop body its ranges allow, and an ACCUMULATE runs its loops as far out as its inputs let it;
ACCUMULATEs over the same ranges share them. A STAGE is filled where the loops that it depends on
begin, between barriers; STAGEs in one place share those. One with several buffers is filled an
iteration or more ahead.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lazyten.codegen.instructions.builder import Builder
from lazyten.codegen.instructions.instructions import (
    Address,
    Barrier,
    Block,
    Carried,
    Commit,
    Compute,
    Copy,
    Function,
    Loop,
    Store,
    Value,
    Wait,
)
from lazyten.codegen.instructions.vector_access import MOST_SHUFFLED
from lazyten.codegen.loops.ranges import free_ranges
from lazyten.codegen.loops.summation import adds_narrow_products
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, index, substitute, toposort
from lazyten.ir.ops import SPECS, Op
from lazyten.symbolic.affine import affine, interval
from lazyten.symbolic.bounds import bounds
from lazyten.symbolic.simplify import simplify

LEAST_PAIRED = 8
"""Lanes whose pairs are a vector of 16 bytes."""
PAGE = 4096
"""Bytes around an array that are likely to be there, too."""
Instance = tuple[int, ...]
Env = dict[Node, int]
NO_STRIDES: Mapping[Node, int] = {}


def linearize(name: str, sink: Node, grain: int = 0, group: int = 0,
              strides: Mapping[Node, int] = NO_STRIDES, masked_loads: bool = False) -> Function:
    """The instructions of a kernel whose ranges carry their decisions; grain, group: see Function.

    strides: of each 'local' range; it is the work item's number // stride % extent. masked_loads:
    see Target.
    """
    work = _Linearizer(sink, group, strides, masked_loads)
    for store in sink.src:
        work.store(store)
    work.close_loops(0)
    params = {n.arg.slot: (n.dtype, n.arg.size) for n in toposort([sink]) if n.op is Op.PARAM}
    unused = (dt.uint8, 0)  # an argument that simplification has made unnecessary
    slots = tuple(params.get(i, unused) for i in range(max(params) + 1))
    return Function(name, slots, work.build.root, grain, group, tuple(work.build.arrays))


@dataclass(slots=True)
class _Level:
    """A loop of an ACCUMULATE. after: what its parent does with what the loop carries."""

    range: Node
    body: Block
    parent: Block
    carried: list[Carried] = field(default_factory=list)
    after: list[Compute] = field(default_factory=list)


class _Linearizer:
    def __init__(self, sink: Node, group: int, strides: Mapping[Node, int],
                 masked_loads: bool) -> None:
        self.build = Builder()
        self.group, self.strides, self.masked_loads = group, strides, masked_loads
        self.arrays: dict[Node, int] = {}
        self.outer: dict[Block, tuple[Node, Block]] = {}
        self.free = free_ranges(sink)
        self.loaded = _loaded(sink)
        unrolled = {free: _sorted_unrolled(free) for free in set(self.free.values())}
        self.unrolled = {n: unrolled[free] for n, free in self.free.items()}
        self.counter: dict[Node, Value] = {}
        self.open: list[Node] = []
        self.values: dict[tuple[Node, Instance], Value] = {}
        self.done: set[Node] = set()
        self.together: dict[frozenset[Node], list[Node]] = {}
        for n in self.free:
            if n.op is Op.ACCUMULATE:
                self.together.setdefault(frozenset(n.src[1:] or (n,)), []).append(n)

    # ---- the loops around the stores ----

    def store(self, store: Node) -> None:
        """Emit a STORE in the loops of its ranges, sharing those that are open already."""
        loops = sorted((r for r in self.free[store] if _is_loop(r)), key=lambda r: r.arg.order)
        keep = 0
        while keep < min(len(loops), len(self.open)) and loops[keep] is self.open[keep]:
            keep += 1
        self.close_loops(keep)
        for r in loops[keep:]:
            self._enter(r, self._innermost())
            self.open.append(r)
        for operand in store.src[2:]:
            self._need(operand)
        lanes = self._lanes(store)
        for env in self._instances(store):
            address = self._address(store.src[0], store.src[1], env, lanes)
            value, *mask = (self.build.splat(self._value(s, env), lanes) for s in store.src[2:])
            mask = mask or self._first_items(store)
            self.build.store(self._innermost(), Store(address, value, store.arg, *mask))

    def _first_items(self, store: Node) -> list[Value]:
        """The mask of a STORE that not all items of a group are needed for, if it is one."""
        needed = max((self.strides[r] * r.arg.extent for r in self.free[store]
                      if r.arg.kind == "local"), default=1)
        if needed >= self.group:
            return []
        item = self.build.item(1, self.group)
        return [self.build.compute(Op.CMPLT, dt.bool_, item,
                                   self.build.constant(needed, dt.INDEX))]

    def _innermost(self) -> Block:
        return self.build.home[self.counter[self.open[-1]]] if self.open else self.build.root

    def _enter(self, r: Node, parent: Block) -> Block:
        """A new loop body inside `parent`, and its counter."""
        body = Block(parent.depth + 1)
        self.outer[body] = r, parent
        self.counter[r] = self.build.value(dt.INDEX, 1, body)
        return body

    def close_loops(self, keep: int) -> None:
        """Close the innermost loops, leaving `keep` open."""
        while len(self.open) > keep:
            r = self.open.pop()
            body = self.build.home[self.counter[r]]
            self._innermost().items.append(Loop(self.counter[r], r.arg.extent, body,
                                                parallel=r.arg.kind == "parallel"))

    # ---- instances ----

    def _instances(self, node: Node) -> list[Env]:
        """Every assignment of the unrolled ranges that a node depends on."""
        return _assignments(self.unrolled[node])

    def _value(self, node: Node, env: Env) -> Value:
        return self.values[node, tuple(env[r] for r in self.unrolled[node])]

    def _lanes(self, node: Node) -> int:
        return next((r.arg.extent for r in self.free[node] if r.arg.kind == "vector"), 1)

    # ---- values ----

    def _need(self, root: Node) -> None:
        """Emit every instance of `root` and of what it is made from."""
        if root in self.done:
            return
        for node in toposort([root], lambda n: () if n in self.done else self._operands(n)):
            if node in self.done:
                continue
            if node.op is Op.ACCUMULATE:
                together = self.together[frozenset(node.src[1:] or (node,))]
                self.done.update(together)
                self._accumulate(together)
                continue
            if node.op is Op.MATRIX:
                self._multiply(node)
                continue
            if node.op is Op.STAGE:
                self._stage(self._staged_beside(node))
                continue
            self.done.add(node)
            for env in self._instances(node):
                instance = tuple(env[r] for r in self.unrolled[node])
                self.values[node, instance] = self._emit(node, env)

    def _operands(self, node: Node) -> tuple[Node, ...]:
        """What must be a value before a node can be emitted. Addresses are made where they are
        used, but for the loads in them."""
        if node.op is Op.LOAD:
            staged = node.src[:1] if node.src[0].op is Op.STAGE else ()
            return *staged, *node.src[2:], *(t for t in affine(node.src[1])[0] if t in self.loaded)
        if node.op in (Op.ACCUMULATE, Op.MATRIX, Op.PARAM, Op.STAGE) or _compares_indices(node):
            return ()
        return node.src

    def _emit(self, node: Node, env: Env) -> Value:
        if node.op is Op.CONST:
            return self.build.constant(node.value, node.dtype)
        if node.op is Op.RANGE:
            return self._range(node, env)
        if node.op is Op.LOAD:
            return self._load(node, env)
        if _compares_indices(node):
            narrow = self._compare_lanes(node, env) if self._lanes(node) > 1 else None
            if narrow is not None:
                return narrow
            for s in node.src:
                self._need(s)
        args = [self._value(s, env) for s in node.src]
        if node.dtype is dt.INDEX and node.op in (Op.IDIV, Op.MOD) and _is_natural(node):
            plain = [self.build.compute(Op.CAST, dt.uint64, a) for a in args]
            result = self.build.compute(node.op, dt.uint64, *plain)
            return self.build.compute(Op.CAST, dt.INDEX, result)
        return self.build.compute(node.op, node.dtype, *args)

    def _range(self, node: Node, env: Env) -> Value:
        if node.arg.kind == "unroll":
            return self.build.constant(env[node], dt.INDEX)
        if node.arg.kind == "vector":
            return self.build.lanes(tuple(range(node.arg.extent)), dt.INDEX)
        if node.arg.kind == "local":
            return self.build.item(self.strides[node], node.arg.extent)
        return self.counter[node]

    def _compare_lanes(self, node: Node, env: Env) -> Value | None:
        """`a < b` where lanes count in steps: a 32-bit comparison of lane * step with a scalar."""
        (left, offset), (right, limit) = affine(node.src[0]), affine(node.src[1])
        terms = {t: left.get(t, 0) - right.get(t, 0) for t in (*left, *right)}
        offset -= limit
        vector = next(r for r in self.free[node] if r.arg.kind == "vector")
        step = terms.pop(vector, 0)
        if any(vector in self.free[t] for t in terms):
            return None
        if not self._fits_int32(terms, offset, vector, step):
            return None
        base, offset = self._sum(terms, offset, env)
        scalar = self.build.constant(offset, dt.INDEX)
        scalar = scalar if base is None else self.build.compute(Op.ADD, dt.INDEX, base, scalar)
        most = self.build.compute(Op.NEG, dt.int32, self.build.compute(Op.CAST, dt.int32, scalar))
        lanes = self.build.lanes(tuple(step * i for i in range(vector.arg.extent)), dt.int32)
        return self.build.compute(Op.CMPLT, dt.bool_, lanes, most)

    @staticmethod
    def _fits_int32(terms: dict[Node, int], offset: int, vector: Node, step: int) -> bool:
        reach: int = abs(offset) + abs(step) * vector.arg.extent
        for term, factor in terms.items():
            limits = bounds(term)
            if limits is None:
                return False
            reach += abs(factor) * max(abs(limits[0]), abs(limits[1]))
        return reach < 1 << 31

    # ---- memory ----

    def _load(self, node: Node, env: Env) -> Value:
        lanes = self._lanes(node)
        across = None if lanes == 1 or len(node.src) == 3 else self._neighbour(node, lanes)
        if across is not None:
            return self._transposed_load(node, across, env, lanes)
        mask = gate = None
        if len(node.src) == 3:
            self._need(node.src[2])
            mask = self._value(node.src[2], env)
            gate = mask if mask.lanes == 1 and _may_be_far(node) else None
            mask = self.build.splat(mask, lanes)
        address = self._address(node.src[0], node.src[1], env, lanes, mask is not None, gate)
        staged = self._value(node.src[0], env) if address.is_local else None
        known = mask is None and staged is None and address.vector is None
        if known and lanes > 1 and address.span == 1:
            one = self.build.load(node.dtype, 1, address._replace(offsets=(0,)), None)
            return self.build.splat(one, lanes)
        return self.build.load(node.dtype, lanes, address, mask, staged)

    def _neighbour(self, node: Node, lanes: int) -> Node | None:
        """The range of a register tile whose instances of a LOAD are neighbours in memory, in
        whole vectors, while its lanes are far apart; None if there is none."""
        terms, _ = affine(node.src[1])
        vector = next(r for r in self.free[node] if r.arg.kind == "vector")
        if abs(terms.get(vector, 0)) <= MOST_SHUFFLED:
            return None
        if any(t is not vector and vector in self.free[t] for t in terms):
            return None
        return next((r for r in self.unrolled[node] if terms.get(r) == 1
                     and r.arg.extent % lanes == 0
                     and not any(t is not r and r in self.free[t] for t in terms)), None)

    def _transposed_load(self, node: Node, across: Node, env: Env, lanes: int) -> Value:
        """One instance of a LOAD by reading along the instances, then exchanging them and lanes:
        the whole square is read at once, and the other instances find it made."""
        terms, offset = affine(node.src[1])
        vector = next(r for r in self.free[node] if r.arg.kind == "vector")
        first = env[across] // lanes * lanes
        rest = {t: f for t, f in terms.items() if t is not vector}
        base, offset = self._sum(rest, offset, env | {across: first})
        rows = []
        for lane in range(lanes):
            start = offset + terms[vector] * lane
            address = Address(node.src[0].arg.slot, base, start, tuple(range(lanes)))
            rows.append(self.build.load(node.dtype, lanes, address, None))
        return self.build.transpose(rows)[env[across] - first]

    def _address(self, param: Node, position: Node, env: Env, lanes: int,
                 masked: bool = False, gate: Value | None = None) -> Address:
        """Where a LOAD or STORE is: base + constant + constants by lane, if it can be. gate: see
        _sum."""
        if param.op is Op.STAGE:
            base, offset = self._sum(*affine(position), env)
            return Address(self.arrays[param], base, offset, is_local=True)
        terms, offset = affine(position)
        vector = next((r for r in self.free[position] if r.arg.kind == "vector"), None)
        known = {t: _at_lanes(t, vector, lanes) for t in terms
                 if self.free[t] == {vector} and t not in self.loaded}
        by_lane = {t: values for t, values in known.items() if values is not None}
        rest = {t: f for t, f in terms.items() if t not in by_lane}
        if vector is not None and any(vector in self.free[t] for t in rest):
            self._need(position)
            value = self.build.splat(self._value(position, env), lanes)
            return Address(param.arg.slot, None, vector=value)
        offsets = [sum(terms[t] * values[i] for t, values in by_lane.items())
                   for i in range(lanes)]
        first = min(offsets)
        base, offset = self._sum(rest, offset + first, env, gate)
        address = Address(param.arg.slot, base, offset, tuple(i - first for i in offsets))
        if not masked or lanes == 1 or address.is_contiguous or (
                self.masked_loads and address.is_near(param.dtype)):
            return address
        start = self.build.constant(offset, dt.INDEX)
        start = start if base is None else self.build.compute(Op.ADD, dt.INDEX, base, start)
        steps = self.build.lanes(address.offsets, dt.INDEX)
        positions = self.build.compute(Op.ADD, dt.INDEX, start, steps)
        return Address(param.arg.slot, None, vector=positions)

    def _sum(self, terms: dict[Node, int], offset: int, env: Env,
             gate: Value | None = None) -> tuple[Value | None, int]:
        """The scalar sum of factor * term, added from the outermost loop in, and a constant. gate:
        when it is needed; else what is known where the gate is, the constant too, counts as 0."""
        parts = []
        for term, factor in terms.items():
            if term.op is Op.RANGE and term.arg.kind == "unroll":
                offset += factor * env[term]
            else:
                self._need(term)
                parts.append((self._value(term, env), factor))
        parts.sort(key=lambda p: (self.build.home[p[0]].depth, p[0].id))
        total: Value | None = None
        known = 0 if gate is None else self.build.home[gate].depth
        for value, factor in parts:
            if gate is not None and self.build.home[value].depth > known:
                total, offset, gate = self._gated(total, offset, gate), 0, None
            total = self.build.add(total, self.build.scale(value, factor))
        return (total, offset) if gate is None else (self._gated(total, offset, gate), 0)

    def _gated(self, total: Value | None, offset: int, gate: Value) -> Value:
        """A position, and 0 where the gate is false."""
        start = self.build.constant(offset, dt.INDEX)
        start = start if total is None else self.build.compute(Op.ADD, dt.INDEX, total, start)
        return self.build.compute(Op.WHERE, dt.INDEX, gate, start,
                                  self.build.constant(0, dt.INDEX))

    # ---- local memory ----

    def _staged_beside(self, node: Node) -> list[Node]:
        """The STAGEs that are filled where `node` is."""
        place = self._stage_block(node)
        stages = [n for n in self.free if n.op is Op.STAGE and n not in self.done]
        return [n for n in stages if self._stage_block(n) is place]

    def _stage_block(self, node: Node) -> Block | None:
        loops = [r for r in self.free[node] if _is_loop(r)]
        if any(r not in self.counter for r in loops):
            return None
        return self.build.deepest([self.counter[r] for r in loops])

    def _stage(self, nodes: Sequence[Node]) -> None:
        """Fill arrays: all items of the group store a part, once all have read what was there.
        What has buffers is copied ahead: only that must have arrived which is read next."""
        self.done.update(nodes)
        block = self._stage_block(nodes[0])
        assert block is not None
        for node in nodes:
            self.arrays[node] = self.build.array(node.dtype, node.arg.size)
            self.values[node, ()] = self.build.value(node.dtype, 1, block)
        ahead = [n for n in nodes if n.arg.buffers > 1]
        if ahead:
            self._first_copies(ahead, self.outer[block][1])
            block.items.append(Wait(ahead[0].arg.buffers - 2))
        if any(r.arg.kind != "parallel" and _is_loop(r) for r in self.free[nodes[0]]):
            block.items.append(Barrier())
        if ahead:
            self._later_copies(ahead, block)
        nodes = [n for n in nodes if n.arg.buffers == 1]
        if not nodes:
            return
        for node in nodes:
            value, place, *own = node.src
            self._need(value)
            for env in _assignments(_sorted_unrolled(own)):
                address = self._address(node, place, env, 1)
                self.build.store(block, Store(address, self._value(value, env)))
        block.items.append(Barrier())

    def _first_copies(self, nodes: Sequence[Node], block: Block) -> None:
        """What the first iterations of a loop read, in the block around it, a batch for each."""
        if self._is_repeated(block):
            block.items.append(Barrier())
        for number in range(nodes[0].arg.buffers - 1):
            for node in nodes:
                self._copy(node, number, block, None)
            block.items.append(Commit())

    def _later_copies(self, nodes: Sequence[Node], block: Block) -> None:
        """What a later iteration of a loop reads, if there is one; a batch, be it empty."""
        later = nodes[0].arg.buffers - 1
        r, _ = self.outer[block]
        last = self.build.constant(r.arg.extent - later, dt.INDEX)
        when = self.build.compute(Op.CMPLT, dt.bool_, self.counter[r], last)
        for node in nodes if r.arg.extent > later else ():
            self._copy(node, later, block, when)
        block.items.append(Commit())

    def _copy(self, node: Node, number: int, block: Block, when: Value | None) -> None:
        """An item's part of filling one buffer of a STAGE."""
        value, place = node.src[2 * number:2 * number + 2]
        is_load = value.op is Op.LOAD  # or zeros, where all is outside
        for needed in value.src[2:] if is_load else (value,):
            self._need(needed)
        for env in _assignments(_sorted_unrolled(node.src[2 * node.arg.buffers:])):
            target = self._address(node, place, env, 1)
            if is_load:
                param, position, *valid = value.src
                mask = self._value(valid[0], env) if valid else None
                source = self._address(param, position, env, 1)
                block.items.append(Copy(target, source, node.dtype, mask, when))
            else:
                self.build.store(block, Store(target, self._value(value, env), None, when))

    def _is_repeated(self, block: Block) -> bool:
        """Whether a loop is around a block, other than that of the groups."""
        while block in self.outer:
            r, block = self.outer[block]
            if r.arg.kind != "parallel":
                return True
        return False

    # ---- reductions ----

    def _accumulate(self, nodes: Sequence[Node]) -> None:
        """The loops of ACCUMULATEs over the same ranges: an accumulator an instance of each, all in
        one nest."""
        nest = self._nest(nodes[0], nodes[0].src[1:])
        parts = [(n, instance, self._parts(n, nest, env)) for n in nodes
                 for instance, env in self._accumulators(n)]
        self._close_nest(nest)
        for node, instance, accumulators in parts:
            self.values[node, instance] = self._finish(node, accumulators)

    def _nest(self, node: Node, ranges: Iterable[Node]) -> list[_Level]:
        """The loops that a node runs over ranges of its own, open."""
        loops = sorted((r for r in ranges if _is_loop(r)), key=lambda r: r.arg.order)
        outer = self.build.deepest([self.counter[r] for r in self.free[node] if _is_loop(r)])
        blocks = [outer]
        for r in loops:
            blocks.append(self._enter(r, blocks[-1]))
        return [_Level(r, body, parent)
                for r, body, parent in zip(loops, blocks[1:], blocks, strict=False)]

    def _close_nest(self, nest: Sequence[_Level]) -> None:
        for level in reversed(nest):
            counter, extent = self.counter[level.range], level.range.arg.extent
            level.parent.items.append(Loop(counter, extent, level.body, tuple(level.carried)))
            level.parent.items += level.after

    def _multiply(self, node: Node) -> None:
        """The loops of a MATRIX, with the elements of the result that an item holds carried."""
        self.done.add(node)
        a, b, first, second, *ranges = node.src
        nest = self._nest(node, ranges)
        self._need(a)
        self._need(b)
        held = _assignments([first, second])
        tiles = _assignments(r for r in self.unrolled[node] if r not in (first, second))
        found = []
        for tile in tiles:
            sides = [[self._value(side, tile | own) for own in _assignments(
                r for r in self.unrolled[side] if r not in tile)] for side in (a, b)]

            def step(so_far: list[Value], sides: list[list[Value]] = sides) -> list[Value]:
                return self.build.matrix(node.arg, sides[0], sides[1], so_far)
            found.append(self._carry(node.dtype, Op.ADD, nest, 1, step, len(held)))
        self._close_nest(nest)
        for tile, results in zip(tiles, found, strict=True):
            for own, result in zip(held, results, strict=True):
                env = tile | own
                self.values[node, tuple(env[r] for r in self.unrolled[node])] = result

    def _accumulators(self, node: Node) -> Iterator[tuple[Instance, Env]]:
        """The instances of an ACCUMULATE, once its operands are there."""
        fused = _is_fused(node)
        for operand in node.src[0].src if fused else node.src[:1]:
            self._need(operand)
        for env in self._by_operand(node) if fused else self._instances(node):
            yield tuple(env[r] for r in self.unrolled[node]), env

    def _parts(self, node: Node, nest: Sequence[_Level], env: Env) -> list[Value]:
        """The accumulators of one instance."""
        value, *ranges = node.src
        own = _sorted_unrolled(ranges)
        own_lanes = [r.arg.extent for r in ranges if r.arg.kind == "vector"]
        lanes = max(self._lanes(value), *own_lanes, 1)  # a value may not depend on its own lanes
        lanes = lanes // 2 if self._adds_pairs(node) else lanes
        if not nest:
            return [self._chain(node, env, own, lanes)]

        def carried(mine: Env) -> Value:
            def step(so_far: list[Value]) -> list[Value]:
                return [self.build.splat(self._combine(node, so_far[0], env | mine), lanes)]
            return self._carry(node.dtype, node.arg, nest, lanes, step)[0]
        return [carried(mine) for mine in _assignments(own)]

    def _by_operand(self, node: Node) -> list[Env]:
        """The instances of a sum of products, all that share an operand one after the other: the
        operand with more instances, so that only those of the other stay in registers."""
        most = max(node.src[0].src, key=lambda s: len(self._instances(s)))
        outer = [r for r in self.unrolled[most] if r in self.unrolled[node]]
        return sorted(self._instances(node), key=lambda env: [env[r] for r in outer])

    def _combine(self, node: Node, so_far: Value | None, env: Env) -> Value:
        """One more element into an accumulator (None: the first)."""
        value = node.src[0]
        if _is_fused(node):
            a, b = (self._value(s, env) for s in value.src)
            if so_far is None:
                return self.build.compute(Op.MUL, value.dtype, a, b)
            return self.build.compute(Op.MULACC, value.dtype, a, b, so_far)
        element = self._value(value, env)
        if self._adds_pairs(node):
            even, odd = (self.build.shuffle(element, element, tuple(range(i, element.lanes, 2)))
                         for i in range(2))
            element = self.build.compute(Op.ADD, node.dtype, even, odd)
        if so_far is None:
            return element
        return self.build.compute(node.arg, node.dtype, so_far, element)

    def _adds_pairs(self, node: Node) -> bool:
        """Whether neighbouring lanes of an ACCUMULATE are added first: processors multiply narrow
        integers and do that in one instruction, which LLVM finds."""
        own = [r.arg.extent for r in node.src[1:] if r.arg.kind == "vector"]
        return (adds_narrow_products(node) and own == [self._lanes(node.src[0])]
                and own[0] >= LEAST_PAIRED)

    def _carry(self, dtype: DType, combiner: Op, nest: Sequence[_Level], lanes: int,
               step: Callable[[list[Value]], list[Value]], count: int = 1) -> list[Value]:
        """`count` accumulators carried through all the loops; gives their final values. Each
        iteration of a 'block' loop begins with new ones, which are then added to those of the loop.
        step: accumulators to what they are after one iteration."""
        identity = SPECS[combiner].identity
        assert identity is not None
        start = self.build.constant(identity(dtype), dtype, lanes)
        phis = [[self.build.value(dtype, lanes, level.body) for _ in range(count)]
                for level in nest]
        results = step(phis[-1] if nest else [start] * count)
        for i, level in reversed(list(enumerate(nest))):
            apart = i > 0 and nest[i - 1].range.arg.kind == "block"
            before = phis[i - 1] if i else [start] * count
            for j, phi in enumerate(phis[i]):
                final = self.build.value(dtype, lanes, level.parent)
                level.carried.append(Carried(phi, start if apart else before[j], results[j], final))
                results[j] = final
                if apart:
                    results[j] = self.build.value(dtype, lanes, level.parent)
                    level.after.append(Compute(results[j], combiner, (before[j], final)))
        return results

    def _chain(self, node: Node, env: Env, own: Sequence[Node], lanes: int) -> Value:
        """No loops: the elements one after the other."""
        result: Value | None = None
        for mine in _assignments(own):
            result = self.build.splat(self._combine(node, result, env | mine), lanes)
        assert result is not None
        return result

    def _finish(self, node: Node, parts: list[Value]) -> Value:
        """Several accumulators and their lanes become one value."""
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            parts = [self.build.compute(node.arg, node.dtype, a, b)
                     for a, b in itertools.zip_longest(parts[:half], parts[half:]) if b is not None
                     ] + (parts[half - 1:half] if len(parts) % 2 else [])
        total = parts[0]
        if total.lanes > 1 and any(r.arg.kind == "vector" for r in node.src[1:]):
            total = self.build.horizontal(node.arg, total)
        for r in node.src[1:]:
            if r.arg.kind == "local":
                total = self.build.across(node.arg, total, self.strides[r], r.arg.extent,
                                          self.group)
        return total


def _at_lanes(term: Node, vector: Node | None, lanes: int) -> list[int] | None:
    """An index expression of the vector range alone, at each lane; None if it is computed of
    floats, which are not folded."""
    if term is vector:
        return list(range(lanes))
    assert vector is not None
    values = [simplify(substitute([term], {vector: index(i)})[0]) for i in range(lanes)]
    return [int(v.value) for v in values] if all(v.op is Op.CONST for v in values) else None


def _sorted_unrolled(ranges: Iterable[Node]) -> tuple[Node, ...]:
    """Those of the ranges that are unrolled, the outermost first."""
    return tuple(sorted((r for r in ranges if r.arg.kind == "unroll"), key=lambda r: r.arg.order))


def _is_loop(r: Node) -> bool:
    return r.arg.kind in ("parallel", "loop", "block", "reduce", "serial")


def _may_be_far(node: Node) -> bool:
    """Whether a masked LOAD that reads nothing may be at a place where there is no memory, which
    takes processors a hundred times as long."""
    size, near = node.src[0].arg.size, PAGE // node.dtype.itemsize
    low, high = interval(*affine(node.src[1]))
    return low < -near or high >= size + near


def _is_fused(node: Node) -> bool:
    """Whether an ACCUMULATE adds up float products: a multiply-add each."""
    return node.arg is Op.ADD and node.src[0].op is Op.MUL and node.src[0].dtype.is_float


def _is_natural(node: Node) -> bool:
    """Whether both operands are known not to be negative: unsigned division is cheaper."""
    limits = [bounds(s) for s in node.src]
    return all(b is not None and b[0] >= 0 for b in limits)


def _compares_indices(node: Node) -> bool:
    return node.op is Op.CMPLT and node.src[0].dtype is dt.INDEX


def _loaded(sink: Node) -> set[Node]:
    """The nodes under `sink` that are not known before memory is read."""
    found: set[Node] = set()
    for node in toposort([sink]):
        if node.op is Op.LOAD or not found.isdisjoint(node.src):
            found.add(node)
    return found


def _assignments(ranges: Iterable[Node]) -> list[Env]:
    ranges = tuple(ranges)
    return [dict(zip(ranges, values, strict=True))
            for values in itertools.product(*(range(r.arg.extent) for r in ranges))]

