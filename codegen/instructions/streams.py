"""How linearize runs reductions that go over one axis together, as they need each other: RESCALED.

All have one nest of loops. An iteration combines its elements with the peak so far, which each work
item of those that share them then has; multiplies each sum by what its unit has become; and adds
its terms, which are in the new unit.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lazyten.codegen.instructions.accumulation import Level
from lazyten.codegen.instructions.instructions import Value
from lazyten.codegen.instructions.matrices import Matrices
from lazyten.codegen.instructions.scopes import Env, assignments, sorted_unrolled
from lazyten.codegen.loops.stops import stop_of
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node
from lazyten.ir.ops import Op


class Streams(Matrices):
    """Emits RESCALED nodes, and the maximum that they follow. streamed: all of these, and what is
    RUNNING; there is one such maximum in a kernel."""

    def __init__(self, sink: Node, group: int, strides: Mapping[Node, int],
                 masked_loads: bool, adds_pairs: bool) -> None:
        super().__init__(sink, group, strides, masked_loads, adds_pairs)
        self.running = [n for n in self.free if n.op is Op.RUNNING]
        self.rescaled = [n for n in self.free if n.op is Op.RESCALED]
        self.streamed = {*self.running, *self.rescaled, *(n.src[0] for n in self.running)}

    def _stream(self) -> None:
        """One pass for all."""
        self.done |= self.streamed
        peak, = {n.src[0] for n in self.running}
        nest = self._nest(peak, peak.src[1:])
        if len(nest) == 1:
            self._stop(peak, nest[0].range)
        self._peaks(peak, nest)
        for node in self.rescaled:
            total, factor = node.src
            self._need(factor)

            def rescaling(env: Env, factor: Node = factor) -> Value | None:
                return None if factor.op is Op.CONST else self._value(factor, env)
            if total.op is Op.MATRIX:
                self.done.add(total)
                self._multiply_in(nest, total, rescaling)
            else:
                self._sums(total, nest, rescaling)
        self._close_nest(nest)
        for node in self.rescaled:
            total = node.src[0]
            for env in self._instances(node):
                value = self._value(total, env)
                self.values[node, tuple(env[r] for r in self.unrolled[node])] = \
                    value if total.op is Op.MATRIX else self._finish(total, [value])

    def _stop(self, peak: Node, r: Node) -> None:
        """End the loop where what is left of it is hidden: an element of -inf has no weight."""
        used = [n.src[0] for n in self.rescaled if n.src[0].arg is Op.MAX]
        found = stop_of({peak.src[0]: -math.inf, **{n.src[0]: 0 for n in used}}, r)
        if found is None:
            return
        base, offset = self._sum(found.terms, found.constant, {})
        one, step, all_of_it = (
            self.build.constant(n, dt.INDEX) for n in (1, found.step, r.arg.extent))
        total = self.build.constant(offset, dt.INDEX)
        total = total if base is None else self.build.compute(Op.ADD, dt.INDEX, base, total)
        count = self.build.compute(Op.IDIV, dt.INDEX, total, step)
        count = self.build.compute(Op.MAX, dt.INDEX, count, one)
        is_early = self.build.compute(Op.CMPLT, dt.bool_, count, all_of_it)
        self.stops[r] = self.build.compute(Op.WHERE, dt.INDEX, is_early, count, all_of_it)

    def _peaks(self, peak: Node, nest: Sequence[Level]) -> None:
        """The maximum after each iteration, of all items that share its elements. What is NaN is
        left out: it is in the sums."""
        self._need(peak.src[0])
        taken = assignments(sorted_unrolled(peak.src[1:]))
        for env in self._instances(peak):
            instance = tuple(env[r] for r in self.unrolled[peak])

            def step(so_far: list[Value], env: Env = env,
                     instance: tuple[int, ...] = instance) -> list[Value]:
                now = so_far[0]
                for element in taken:
                    now = self.build.compute(Op.GREATER, peak.dtype, now,
                                             self._value(peak.src[0], env | element))
                for r in peak.src[1:]:
                    if r.arg.kind == "local":
                        now = self.build.across(Op.GREATER, now, self.strides[r], r.arg.extent,
                                                self.group)
                for node in self.running:
                    self.values[node, instance] = so_far[0] if node.arg else now
                return [now]
            self.values[peak, instance], = self._carry(peak.dtype, Op.MAX, nest, 1, step)

    def _sums(self, total: Node, nest: Sequence[Level],
              rescaling: Callable[[Env], Value | None]) -> None:
        """A sum of an item's own elements, which those of others are added to in the end."""
        self._need(total.src[0])
        self.done.add(total)
        taken = self._taken(total, sorted_unrolled(total.src[1:]))
        for env in self._instances(total):
            def step(so_far: list[Value], env: Env = env) -> list[Value]:
                scaled = self._scaled(so_far[0], rescaling(env))
                return [self._chain(total, env, taken, 1, scaled)]
            instance = tuple(env[r] for r in self.unrolled[total])
            self.values[total, instance], = self._carry(total.dtype, total.arg, nest, 1, step)
