"""Where linearize reads and writes: addresses, and the loads that they are made for.

An address is a base, added from the outermost loop in, and constants by lane, if it can be; so that
neighbours in memory are one access, and accesses of instances share their base.
"""
from __future__ import annotations

from lazyten.codegen.instructions.instructions import Address, Value
from lazyten.codegen.instructions.scopes import Env, Places, Scopes
from lazyten.codegen.instructions.vector_access import MOST_SHUFFLED
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, index, substitute
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine, interval
from lazyten.symbolic.simplify import simplify

PAGE = 4096
"""Bytes around an array that are likely to be there, too."""


class Memory(Scopes):
    """Loads and addresses of the nodes under a sink."""

    def _load(self, node: Node, env: Env) -> Value:
        lanes = self._lanes(node)
        if node not in self.across:
            self.across[node] = None if lanes == 1 or len(node.src) == 3 else \
                self._neighbour(node, lanes)
        across = self.across[node]
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
        first = env[across] // lanes * lanes
        start = env | {across: first}
        square = node, tuple([start[r] for r in self.unrolled[node]])
        if square not in self.transposed:
            self.transposed[square] = self.build.transpose(self._rows(node, start, lanes))
        return self.transposed[square][env[across] - first]

    def _rows(self, node: Node, env: Env, lanes: int) -> list[Value]:
        """What lies beside each lane of a LOAD, from the instance `env` on."""
        terms, offset = affine(node.src[1])
        vector = next(r for r in self.free[node] if r.arg.kind == "vector")
        rest = {t: f for t, f in terms.items() if t is not vector}
        base, offset = self._sum(rest, offset, env)
        offsets = tuple(range(lanes))
        starts = [offset + terms[vector] * lane for lane in offsets]
        return [self.build.load(node.dtype, lanes,
                                Address(node.src[0].arg.slot, base, start, offsets), None)
                for start in starts]

    def _address(self, param: Node, position: Node, env: Env, lanes: int,
                 masked: bool = False, gate: Value | None = None) -> Address:
        """Where a LOAD or STORE is: base + constant + constants by lane, if it can be. gate: see
        _sum."""
        if param.op is Op.STAGE:
            base, offset = self._sum(*affine(position), env)
            return Address(self.arrays[param], base, offset, is_local=True)
        if (position, lanes) not in self.places:
            self.places[position, lanes] = self._placed(position, lanes)
        places = self.places[position, lanes]
        if places.computed:
            self._need(position)
            value = self.build.splat(self._value(position, env), lanes)
            return Address(param.arg.slot, None, vector=value)
        base, offset = self._sum(places.terms, places.offset, env, gate)
        address = Address(param.arg.slot, base, offset, places.by_lane)
        if not masked or lanes == 1 or address.is_contiguous or (
                self.masked_loads and address.is_near(param.dtype)):
            return address
        start = self.build.constant(offset, dt.INDEX)
        start = start if base is None else self.build.compute(Op.ADD, dt.INDEX, base, start)
        steps = self.build.lanes(address.offsets, dt.INDEX)
        positions = self.build.compute(Op.ADD, dt.INDEX, start, steps)
        return Address(param.arg.slot, None, vector=positions)

    def _placed(self, position: Node, lanes: int) -> Places:
        """What does not depend on the instance of an address."""
        terms, offset = affine(position)
        vector = next((r for r in self.free[position] if r.arg.kind == "vector"), None)
        known = {t: _at_lanes(t, vector, lanes) for t in terms
                 if self.free[t] == {vector} and t not in self.loaded}
        by_lane = {t: values for t, values in known.items() if values is not None}
        rest = {t: f for t, f in terms.items() if t not in by_lane}
        if vector is not None and any(vector in self.free[t] for t in rest):
            return Places(rest, offset, (), computed=True)
        offsets = [sum(terms[t] * values[i] for t, values in by_lane.items())
                   for i in range(lanes)]
        first = min(offsets)
        return Places(rest, offset + first, tuple(i - first for i in offsets))

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


def _at_lanes(term: Node, vector: Node | None, lanes: int) -> list[int] | None:
    """An index expression of the vector range alone, at each lane; None if it is computed of
    floats, which are not folded."""
    if term is vector:
        return list(range(lanes))
    assert vector is not None
    values = [simplify(substitute([term], {vector: index(i)})[0]) for i in range(lanes)]
    return [int(v.value) for v in values] if all(v.op is Op.CONST for v in values) else None


def _may_be_far(node: Node) -> bool:
    """Whether a masked LOAD that reads nothing may be at a place where there is no memory, which
    takes processors a hundred times as long."""
    size, near = node.src[0].arg.size, PAGE // node.dtype.itemsize
    low, high = interval(*affine(node.src[1]))
    return low < -near or high >= size + near
