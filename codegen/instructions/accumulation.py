"""How linearize runs the loops of reductions: ACCUMULATE.

A reduction runs its loops as far out as its inputs let it; those over the same ranges share them.
Each instance has accumulators of its own: one for each instance of the ranges summed over, with as
many lanes as are summed at a time. In the end they are combined.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lazyten.codegen.instructions.instructions import Block, Carried, Compute, Loop, Value
from lazyten.codegen.instructions.scopes import (
    Env,
    Instance,
    Scopes,
    assignments,
    is_loop,
    sorted_unrolled,
)
from lazyten.codegen.loops.summation import LEAST_LANES, adds_narrow_products, is_widened
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, consumers
from lazyten.ir.ops import SPECS, Op

LEAST_PAIRED = 8
"""Lanes whose pairs are a vector of 16 bytes."""


@dataclass(slots=True)
class Level:
    """A loop of an ACCUMULATE. after: what its parent does with what the loop carries."""

    range: Node
    body: Block
    parent: Block
    carried: list[Carried] = field(default_factory=list)
    after: list[Compute] = field(default_factory=list)


class Accumulation(Scopes):
    """Runs the loops of reductions."""

    def __init__(self, sink: Node, group: int, strides: Mapping[Node, int],
                 masked_loads: bool, adds_pairs: bool) -> None:
        super().__init__(sink, group, strides, masked_loads)
        self.adds_pairs = adds_pairs
        self._together: dict[frozenset[Node], list[Node]] = {}
        for n in self.free:
            if n.op is Op.ACCUMULATE:
                self._together.setdefault(frozenset(n.src[1:] or (n,)), []).append(n)
        self.joined = self._joined()
        self.unfinished = {leaf for leaves in self.joined.values() for leaf in leaves}
        self.accumulators: dict[tuple[Node, Instance], list[Value]] = {}

    def _joined(self) -> dict[Node, list[Node]]:
        """What combines ACCUMULATEs as they do themselves, of alike accumulators which nothing else
        takes: their accumulators become one, and then its lanes. The innermost are left out."""
        users = consumers(list(self.free))
        leaves: dict[Node, list[Node]] = {}
        for node in users:
            if node.op is Op.ACCUMULATE:
                leaves[node] = [node]
            elif len(node.src) == 2 and all(s in leaves and users[s] == [node] for s in node.src):
                found = [leaf for s in node.src for leaf in leaves[s]]
                alike = {(leaf.arg, self.free[leaf], self._own_lanes(leaf), self._sum_lanes(leaf))
                         for leaf in found}
                if len(alike) == 1 and node.op is found[0].arg and len(found) == len({*found}):
                    leaves[node] = found
        inner = {s for node, found in leaves.items() if len(found) > 1 for s in node.src}
        return {n: found for n, found in leaves.items() if len(found) > 1 and n not in inner}

    def _accumulate_beside(self, node: Node) -> None:
        """The loops of an ACCUMULATE and of all others over its ranges: an accumulator an instance
        of each, all in one nest."""
        nodes = self._together[frozenset(node.src[1:] or (node,))]
        self.done.update(nodes)
        nest = self._nest(nodes[0], nodes[0].src[1:])
        parts = [(n, instance, self._parts(n, nest, env)) for n in nodes
                 for instance, env in self._accumulators(n)]
        self._close_nest(nest)
        for member, instance, accumulators in parts:
            if member in self.unfinished:
                self.accumulators[member, instance] = accumulators
            else:
                self.values[member, instance] = self._finish(member, accumulators)

    def _join(self, node: Node, env: Env) -> Value:
        """The value of what combines ACCUMULATEs, of the accumulators of all."""
        leaves = self.joined[node]
        instance = tuple(env[r] for r in self.unrolled[node])
        return self._finish(leaves[0], [
            part for leaf in leaves for part in self.accumulators[leaf, instance]])

    def _nest(self, node: Node, ranges: Iterable[Node]) -> list[Level]:
        """The loops that a node runs over ranges of its own, open."""
        loops = sorted((r for r in ranges if is_loop(r)), key=lambda r: r.arg.order)
        outer = self.build.deepest([self.counter[r] for r in self.free[node] if is_loop(r)])
        blocks = [outer]
        for r in loops:
            blocks.append(self._enter(r, blocks[-1]))
        return [Level(r, body, parent)
                for r, body, parent in zip(loops, blocks[1:], blocks, strict=False)]

    def _close_nest(self, nest: Sequence[Level]) -> None:
        for level in reversed(nest):
            counter, extent = self.counter[level.range], level.range.arg.extent
            level.parent.items.append(Loop(counter, extent, level.body, tuple(level.carried),
                                           stop=self.stops.get(level.range)))
            level.parent.items += level.after

    def _accumulators(self, node: Node) -> Iterator[tuple[Instance, Env]]:
        """The instances of an ACCUMULATE, once its operands are there."""
        factors = self._factors(node)
        for operand in factors or node.src[:1]:
            self._need(operand)
        for env in self._by_operand(node) if factors else self._instances(node):
            yield tuple(env[r] for r in self.unrolled[node]), env

    def _factors(self, node: Node) -> Sequence[Node]:
        """Of an ACCUMULATE that adds products without their being there first: their factors."""
        if self._takes_pairs(node):
            return [_narrow_factor(side) for side in node.src[0].src]
        return node.src[0].src if _is_fused(node) else ()

    def _parts(self, node: Node, nest: Sequence[Level], env: Env) -> list[Value]:
        """The accumulators of one instance."""
        lanes = self._sum_lanes(node)
        taken = self._taken(node, sorted_unrolled(node.src[1:]))
        if not nest:
            return [self._chain(node, env, taken, lanes)]

        def carried(mine: Sequence[Env]) -> Value:
            def step(so_far: list[Value]) -> list[Value]:
                return [self._chain(node, env, [mine], lanes, so_far[0])]
            return self._carry(node.dtype, node.arg, nest, lanes, step)[0]
        return [carried(mine) for mine in taken]

    def _own_lanes(self, node: Node) -> int:
        """Lanes of its own that an ACCUMULATE combines in the end."""
        return max((r.arg.extent for r in node.src[1:] if r.arg.kind == "vector"), default=1)

    def _sum_lanes(self, node: Node) -> int:
        """Lanes of an ACCUMULATE's accumulators; a value may not depend on its own."""
        lanes = max(self._lanes(node.src[0]), self._own_lanes(node))
        return lanes // 2 if self._adds_pairs(node) else lanes

    def _taken(self, node: Node, own: Sequence[Node]) -> list[Sequence[Env]]:
        """The elements that an ACCUMULATE takes in one iteration, those that it takes at once
        together: two whose products are added by one instruction, or one."""
        elements = assignments(own)
        if self._takes_pairs(node):
            return list(zip(elements[::2], elements[1::2], strict=True))
        return [[mine] for mine in elements]

    def _takes_pairs(self, node: Node) -> bool:
        """Whether an ACCUMULATE takes two products of narrow integers at once, for all lanes."""
        count = math.prod(r.arg.extent for r in sorted_unrolled(node.src[1:]))
        return self.adds_pairs and count % 2 == 0 and adds_narrow_products(node) \
            and not any(r.arg.kind == "vector" for r in node.src[1:]) \
            and self._lanes(node.src[0]) >= LEAST_LANES

    def _by_operand(self, node: Node) -> list[Env]:
        """The instances of a sum of products, all that share an operand one after the other: the
        operand with more instances, so that only those of the other stay in registers."""
        most = max(node.src[0].src, key=lambda s: len(self._instances(s)))
        outer = [r for r in self.unrolled[most] if r in self.unrolled[node]]
        return sorted(self._instances(node), key=lambda env: [env[r] for r in outer])

    def _combine(self, node: Node, so_far: Value | None, env: Env,
                 second: Env | None = None) -> Value:
        """One more element, or two, into an accumulator (None: the first)."""
        value = node.src[0]
        if second is not None:
            return self._combine_pair(node, so_far, env, second)
        if _is_fused(node):
            a, b = (self._value(s, env) for s in value.src)
            if so_far is None:
                return self.build.compute(Op.MUL, value.dtype, a, b)
            return self.build.compute(Op.MULACC, value.dtype, a, b, so_far)
        element = self._value(value, env)
        if self._adds_pairs(node):
            element = self._pairs_added(node.dtype, element)
        if so_far is None:
            return element
        return self.build.compute(node.arg, node.dtype, so_far, element)

    def _adds_pairs(self, node: Node) -> bool:
        """Whether neighbouring lanes of an ACCUMULATE are added first: processors multiply narrow
        integers and do that in one instruction, which LLVM finds."""
        own = [r.arg.extent for r in node.src[1:] if r.arg.kind == "vector"]
        return (adds_narrow_products(node) and own == [self._lanes(node.src[0])]
                and own[0] >= LEAST_PAIRED)

    def _carry(self, dtype: DType, combiner: Op, nest: Sequence[Level], lanes: int,
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

    def _chain(self, node: Node, env: Env, taken: Sequence[Sequence[Env]], lanes: int,
               result: Value | None = None) -> Value:
        """What an iteration takes, one after the other, on top of `result` (None: nothing yet)."""
        for mine in taken:
            envs = [env | own for own in mine]
            result = self.build.splat(self._combine(node, result, *envs), lanes)
        assert result is not None
        return result

    def _combine_pair(self, node: Node, so_far: Value | None, first: Env, second: Env) -> Value:
        """Two more products of narrow integers into an accumulator: lanes take turns in vectors of
        twice as many."""
        value = node.src[0]
        lanes = self._lanes(value)
        turns = tuple(i // 2 + i % 2 * lanes for i in range(2 * lanes))
        sides = []
        for side in value.src:
            even, odd = (self.build.splat(self._narrow(side, env), lanes)
                         for env in (first, second))
            both = self.build.shuffle(even, odd, turns)
            sides.append(self.build.compute(Op.CAST, node.dtype, both))
        pairs = self._pairs_added(node.dtype, self.build.compute(Op.MUL, node.dtype, *sides))
        return pairs if so_far is None else self.build.compute(Op.ADD, node.dtype, so_far, pairs)

    def _narrow(self, side: Node, env: Env) -> Value:
        """An operand of a product of narrow integers in 16 bits."""
        source = self._value(_narrow_factor(side), env)
        return source if source.dtype is dt.int16 else self.build.compute(Op.CAST, dt.int16, source)

    def _pairs_added(self, dtype: DType, element: Value) -> Value:
        """Each lane of an even number and the next one."""
        even, odd = (self.build.shuffle(element, element, tuple(range(i, element.lanes, 2)))
                     for i in range(2))
        return self.build.compute(Op.ADD, dtype, even, odd)

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


def _narrow_factor(side: Node) -> Node:
    """An operand of a product of narrow integers, before it was made wide."""
    return side.src[0] if is_widened(side) else side


def _is_fused(node: Node) -> bool:
    """Whether an ACCUMULATE adds up float products: a multiply-add each."""
    return node.arg is Op.ADD and node.src[0].op is Op.MUL and node.src[0].dtype.is_float
