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

from collections.abc import Mapping

from lazyten.codegen.instructions.instructions import Function, Store, Value
from lazyten.codegen.instructions.scopes import Env, is_loop
from lazyten.codegen.instructions.staging import Staging
from lazyten.codegen.instructions.streams import Streams
from lazyten.codegen.instructions.vector_access import INTERLEAVED
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine
from lazyten.symbolic.bounds import bounds

NO_STRIDES: Mapping[Node, int] = {}


def linearize(name: str, sink: Node, grain: int = 0, group: int = 0,
              strides: Mapping[Node, int] = NO_STRIDES, masked_loads: bool = False,
              adds_pairs: bool = False) -> Function:
    """The instructions of a kernel whose ranges carry their decisions; grain, group: see Function.

    strides: of each 'local' range; it is the work item's number // stride % extent. masked_loads,
    adds_pairs: see Target.
    """
    work = _Linearizer(sink, group, strides, masked_loads, adds_pairs)
    for store in sink.src:
        work.store(store)
    work.close_loops(0)
    params = {n.arg.slot: (n.dtype, n.arg.size) for n in work.free if n.op is Op.PARAM}
    unused = (dt.uint8, 0)  # an argument that simplification has made unnecessary
    slots = tuple(params.get(i, unused) for i in range(max(params) + 1))
    return Function(name, slots, work.build.root, grain, group, tuple(work.build.arrays))


class _Linearizer(Staging, Streams):
    """Emits stores, and the values that they need."""

    def store(self, store: Node) -> None:
        """Emit a STORE in the loops of its ranges, sharing those that are open already."""
        loops = sorted((r for r in self.free[store] if is_loop(r)), key=lambda r: r.arg.order)
        keep = 0
        while keep < min(len(loops), len(self.open)) and loops[keep] is self.open[keep]:
            keep += 1
        self.close_loops(keep)
        for r in loops[keep:]:
            self._enter(r, self._innermost())
            self.open.append(r)
        for operand in store.src[2:]:
            self._need(operand)
        lanes, made = self._lanes(store), []
        across = self._interleaved(store, lanes)
        for env in self._instances(store):
            if across is not None:
                if env[across] == 0:
                    self._store_interleaved(store, across, env, lanes)
                continue
            address = self._address(store.src[0], store.src[1], env, lanes)
            value, *mask = (self.build.splat(self._value(s, env), lanes) for s in store.src[2:])
            mask = mask or self._first_items(store)
            made.append(Store(address, value, store.arg, *mask))
        for item in self._transposed_stores(made) if lanes > 1 else made:
            self.build.store(self._innermost(), item)

    def _interleaved(self, store: Node, lanes: int) -> Node | None:
        """The range of a register tile whose instances of a STORE take turns with its lanes in
        memory, and leave nothing between them; None if there is none."""
        if lanes == 1 or self.group or store.arg is not None or len(store.src) > 3:
            return None
        terms, _ = affine(store.src[1])
        vector = next(r for r in self.free[store] if r.arg.kind == "vector")
        found = next((r for r in self.unrolled[store] if terms.get(r) == 1
                      and r.arg.extent in INTERLEAVED and r.arg.extent == terms.get(vector)), None)
        alone = all(t in (vector, found) or self.free[t].isdisjoint((vector, found)) for t in terms)
        return found if alone else None

    def _store_interleaved(self, store: Node, across: Node, env: Env, lanes: int) -> None:
        """Store all instances along a range at once: they change places with the lanes first."""
        rows = [self.build.splat(self._value(store.src[2], env | {across: i}), lanes)
                for i in range(across.arg.extent)]
        first = self._address(store.src[0], store.src[1], env, lanes)
        for i, row in enumerate(self.build.interleave(rows)):
            address = first._replace(offset=first.offset + i * lanes, offsets=tuple(range(lanes)))
            self.build.store(self._innermost(), Store(address, row))

    def _first_items(self, store: Node) -> list[Value]:
        """The mask of a STORE that not all items of a group are needed for, if it is one."""
        needed = max((self.strides[r] * r.arg.extent for r in self.free[store]
                      if r.arg.kind == "local"), default=1)
        if needed >= self.group:
            return []
        item = self.build.item(1, self.group)
        return [self.build.compute(Op.CMPLT, dt.bool_, item,
                                   self.build.constant(needed, dt.INDEX))]

    # ---- values ----

    def _need(self, root: Node) -> None:
        if root in self.done:
            return
        for node in toposort([root], lambda n: () if n in self.done else self._operands(n)):
            if node in self.done:
                continue
            if node in self.streamed:
                self._stream()
                continue
            if node.op is Op.ACCUMULATE:
                self._accumulate_beside(node)
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
        if node.op in (Op.ACCUMULATE, Op.MATRIX, Op.PARAM, Op.STAGE) or node in self.streamed \
                or _compares_indices(node):
            return ()
        if node in self.joined:
            return tuple(self.joined[node])
        return node.src

    def _emit(self, node: Node, env: Env) -> Value:
        if node.op is Op.CONST:
            return self.build.constant(node.value, node.dtype)
        if node.op is Op.RANGE:
            return self._range(node, env)
        if node.op is Op.LOAD:
            return self._load(node, env)
        if node in self.joined:
            return self._join(node, env)
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


def _is_natural(node: Node) -> bool:
    """Whether both operands are known not to be negative: unsigned division is cheaper."""
    limits = [bounds(s) for s in node.src]
    return all(b is not None and b[0] >= 0 for b in limits)


def _compares_indices(node: Node) -> bool:
    return node.op is Op.CMPLT and node.src[0].dtype is dt.INDEX
