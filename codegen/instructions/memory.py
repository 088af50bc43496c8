"""Where linearize reads and writes: addresses, and the loads that they are made for.

An address is a base, added from the outermost loop in, and constants by lane, if it can be; so that
neighbours in memory are one access, and accesses of instances share their base.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from lazyten.codegen.instructions.instructions import MASKED, Address, Store, Value
from lazyten.codegen.instructions.scopes import Env, Places, Scopes
from lazyten.codegen.instructions.vector_access import MOST_SHUFFLED
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, index, substitute
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine, interval
from lazyten.symbolic.simplify import simplify

PAGE = 4096
"""Bytes around an array that are likely to be there, too."""
LEAST_RUN = 4
"""So many instances of a register tile that are neighbours in memory are read or stored as vectors
along themselves, in place of their lanes, which are far apart."""


class Memory(Scopes):
    """Loads and addresses of the nodes under a sink."""

    def _load(self, node: Node, env: Env) -> Value:
        lanes = self._lanes(node)
        if node not in self.across:
            self.across[node] = None if lanes == 1 or len(node.src) == 3 else self._neighbour(node)
        across = self.across[node]
        if across is not None and (lanes <= across.arg.extent or self.masked_loads
                                   and LEAST_RUN <= across.arg.extent
                                   and node.dtype.itemsize in MASKED):
            count = min(across.arg.extent, lanes)
            first: int = min(env[across] // lanes * lanes, across.arg.extent - count)
            columns = self._instances_along(node, env | {across: first}, lanes, count)
            return columns[env[across] - first]
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

    def _neighbour(self, node: Node) -> Node | None:
        """The range of a register tile whose instances of a LOAD are neighbours in memory, while
        its lanes are far apart; None if there is none."""
        terms, _ = affine(node.src[1])
        vector = next(r for r in self.free[node] if r.arg.kind == "vector")
        if abs(terms.get(vector, 0)) <= MOST_SHUFFLED:
            return None
        if any(t is not vector and vector in self.free[t] for t in terms):
            return None
        return next((r for r in self.unrolled[node] if terms.get(r) == 1
                     and not any(t is not r and r in self.free[t] for t in terms)), None)

    def _instances_along(self, node: Node, env: Env, lanes: int, count: int) -> list[Value]:
        """`count` instances of a LOAD from that of `env` on, which are read at once, by the first
        that is asked for."""
        square = node, tuple([env[r] for r in self.unrolled[node]])
        if square not in self.transposed:
            self.transposed[square] = self._transposed_load(node, env, lanes, count)
        return self.transposed[square]

    def _transposed_load(self, node: Node, env: Env, lanes: int, count: int) -> list[Value]:
        """`count` instances of a LOAD from that of `env` on, at most as many as lanes, by reading
        along the instances, then exchanging them and lanes. Squares of a power of two change
        places, of which the last columns may be nothing."""
        terms, offset = affine(node.src[1])
        vector = next(r for r in self.free[node] if r.arg.kind == "vector")
        base, offset = self._sum({t: f for t, f in terms.items() if t is not vector}, offset, env)
        size = 1 << (count - 1).bit_length()
        mask = None if count == size else self.build.compute(
            Op.CMPLT, dt.bool_, self.build.lanes(tuple(range(size)), dt.int32),
            self.build.constant(count, dt.int32))
        rows = []
        for lane in range(lanes):
            start = offset + terms[vector] * lane
            address = Address(node.src[0].arg.slot, base, start, tuple(range(size)))
            rows.append(self.build.load(node.dtype, size, address, mask))
        blocks = [self.build.transpose(rows[i:i + size]) for i in range(0, lanes, size)]
        return [self.build.concatenate(column) for column in zip(*blocks, strict=True)]

    def _transposed_stores(self, stores: Sequence[Store]) -> Iterator[Store]:
        """Stores of all instances, where such as are neighbours in memory, while the lanes of each
        are far apart, exchange instances and lanes: vectors of neighbours."""
        yield from (store for store in stores if not _is_far(store))
        ordered = sorted(filter(_is_far, stores), key=lambda s: (_run_key(s), s.address.offset))
        for _, found in groupby(enumerate(ordered), lambda n: (_run_key(n[1]),
                                                               n[1].address.offset - n[0])):
            run = [store for _, store in found]
            if len(run) < min(LEAST_RUN, run[0].value.lanes):
                yield from run
                continue
            count = min(len(run), run[0].value.lanes)
            for i in range(0, len(run), count):
                start = min(i, len(run) - count)
                yield from self._along(run[start:start + count])

    def _along(self, run: Sequence[Store]) -> Iterator[Store]:
        """At most as many neighbours as lanes, stored along themselves, lane by lane. Squares of a
        power of two change places, of which the last rows may be of no use. Those of use are one
        vector of a power of two, or two that overlap."""
        lanes, address = run[0].value.lanes, run[0].address
        size, count = 1 << (len(run) - 1).bit_length(), 1 << len(run).bit_length() - 1
        rows = [run[min(i, len(run) - 1)].value for i in range(size)]
        for first in range(0, lanes, size):
            order = tuple(range(first, first + size))
            block = rows if size == lanes else [self.build.shuffle(r, r, order) for r in rows]
            for lane, column in enumerate(self.build.transpose(block)):
                start = address.offset + address.offsets[first + lane]
                for at in sorted({0, len(run) - count}):
                    part = column if count == size else self.build.shuffle(
                        column, column, tuple(range(at, at + count)))
                    place = Address(address.slot, address.base, start + at, tuple(range(count)))
                    yield Store(place, part)

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


def _run_key(store: Store) -> tuple[object, ...]:
    """What stores have in common whose lanes are as far apart, from a start that differs by a
    constant."""
    address = store.address
    return address.slot, -1 if address.base is None else address.base.id, address.offsets


def _is_far(store: Store) -> bool:
    """Whether lanes are at constant distances, and no vector of neighbours stores them."""
    at = sorted(store.address.offsets)
    return (store.mask is None and store.combiner is None and store.address.vector is None
            and not store.address.is_local and len(at) > 1
            and min(b - a for a, b in pairwise(at)) > MOST_SHUFFLED)


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
