"""The scheduler's one cost model: which values are worth storing to memory.

Every value of a graph is either stored by a kernel of its own or computed again wherever it is
read. Costs are in units of one vectorized arithmetic op on one element:

    inline:  reads * work
    stored:  numel * work + numel * STORE + reads * LOAD + LAUNCH

work: to compute one element from what is stored. reads: how many elements the kernels around it
would compute. Equal reads in one kernel count once (they are one expression), and a value that only
depends on the outer loops of its kernel is computed once for all iterations of the inner ones: that
is how a softmax's row maximum and row sum stay inside one kernel.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, consumers, toposort, unmoved, unshaped
from lazyten.ir.ops import ELEMENTWISE, MOVEMENT, Op
from lazyten.symbolic.view import View

LOAD = 3.0
"""Of a float of 32 bits or less; of others, in the measure of their bytes beside its 4."""
STORE = 3.0
"""Of an element of 4 bytes or less."""
LAUNCH = 2000.0
"""About a microsecond: calling a kernel at all."""
EXPANDED = 2.0
"""Of a float that is read for many elements beside each other, or after each other: it is near."""
MOST = 1e15
"""Where work is capped: a deep network's last value, all inlined, would overflow."""
SCATTERED = 4.0
"""How much slower a reduction runs inside another one's loop than in a kernel of its own."""

GATHER_WORK = 6.0
"""To hold a position inside the axis, and to read where it says."""
UNPACKING = 12.0
"""Work up to which a product unpacks its operands itself: a register tile shares what it does."""
COUNTING = 12.0
"""Work up to which what follows from positions alone is computed in each kernel that reads it once:
loops count it, and have parts of their own where a comparison of positions changes."""
SERIAL = 3.0
"""How much slower a value is computed in a loop that is neither vectorized nor shared."""

PAIRED = 128
"""So many products a sum are added in vectors of neighbours."""
NEIGHBOURS = 16
"""So many products that lie side by side in both factors make a vector."""
SCALAR = 8.0
"""How much slower what is done with one sum after the other is than with a vector of sums."""

DEEPEST = 500
"""How many operations deep the expression of one kernel may be."""
MOST_REDUCES = 16
"""How many reductions it may have: each has its own loops, and the choice of one looks at all."""

OP_WORK: dict[Op, float] = {
    Op.EXP: 3.0, Op.EXP2: 3.0, Op.LOG2: 6.0, Op.SIN: 8.0, Op.COS: 8.0, Op.POW: 20.0,
    Op.SQRT: 2.0, Op.DIV: 2.0, Op.RECIPROCAL: 2.0, Op.IDIV: 6.0, Op.MOD: 6.0,
}
"""Elementwise ops that cost more than 1."""

AXIS_KEEPING = frozenset({Op.REDUCE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP}) | ELEMENTWISE
"""Ops whose result's axis i is their source's axis i."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """Why a value is stored, and what the alternative would have cost (in the model's units)."""

    node: Node
    reason: str
    reads: float
    stored_cost: float
    inline_cost: float

    @property
    def own_cost(self) -> float:
        """To compute and store the value, without the launch."""
        return self.stored_cost - self.reads * load_work(self.node) - LAUNCH

    @property
    def was_weighed(self) -> bool:
        """Whether the value could have been computed again at each read instead."""
        return self.reason.startswith("read")


def stored_values(roots: Sequence[Node], groups: bool = False,
                  needed: Collection[Node] = ()) -> list[StoredValue]:
    """The values to store, in the order to compute them: the roots, and what is cheaper stored.

    First top-down, as if nothing but the values decided so far were stored; then bottom-up, taking
    back what is cheap once the values below it are stored; then top-down, as other loops read what
    those were computed from now. groups: whether work items share in groups what they read. needed:
    what is stored in any case; see deciding.py.
    """
    model = _Model(roots, groups)
    for node in reversed(model.order):
        model.count_reads(node)
        if model.may_store(node) and model.prefers_store(node):
            model.stored.add(node)
    for node in model.order:
        model.work[node] = model.work_of(node)
        if node in model.stored and node not in model.forced and not model.prefers_store(node):
            model.stored.discard(node)  # reads of what is below change, which is decided already
    for node in reversed(model.order):
        model.count_reads(node)
        if model.may_store(node) and model.prefers_store(node):
            model.stored.add(node)
    model.cut_deep_expressions()
    model.cut_wide_expressions()
    for node in needed:
        model.stored.add(node)
        model.forced[node] = "something is decided by it, and it is read in several places"
    return [model.stored_value(n) for n in model.order if n in model.stored]


class _Context:
    """How often a value is read, and by whom.

    counts: equal readers are one. kernels: whose loops they are in. aligned: its axes are the
    kernel's own. nested: within a reduction, over axes `reduced`, or within a loop over a SCATTER's
    values (serial). above: the work that is done with an element afterwards.
    """

    __slots__ = ("above", "aligned", "counts", "kernels", "nested", "reduced", "serial")

    def __init__(self) -> None:
        self.counts: dict[Node, float] = {}
        self.kernels: frozenset[Node] = frozenset()
        self.above = 0.0
        self.aligned = True
        self.nested = False
        self.serial = False
        self.reduced: frozenset[int] = frozenset()

    @property
    def total(self) -> float:
        return sum(self.counts.values())


class _Model:
    def __init__(self, roots: Sequence[Node], groups: bool) -> None:
        self.groups = groups
        self.order = toposort(roots)
        self.users = consumers(self.order)
        self.work: dict[Node, float] = {}
        self.reads: dict[Node, _Context] = {}
        self.forced = {n: "asked for" for n in roots if not is_leaf(n)}
        for node in self.order:
            if node.op is Op.CONTIGUOUS:
                self.forced.setdefault(node, "asked to be in memory")
            elif node.op is Op.SCATTER:
                self.forced.setdefault(node, "its values are put in their places one by one")
        self.stored: set[Node] = set(self.forced)
        self.reducing = self._reducing()
        self.memory: dict[Node, float] = {}
        for node in self.order:
            self.work[node] = self.work_of(node, assume_stored=False)
            self.memory[node] = self._memory_of(node)

    def _reducing(self) -> set[Node]:
        """Nodes with a reduction in their expressions, but for what is read at several places: they
        are computed in the loops that suit the reduction. Others have loops of their own for each
        part of what they are put together from, and none for the zeros of a PAD."""
        found: set[Node] = set()
        for node in self.order:
            if node.op is Op.REDUCE or any(s in found and sum(
                    u.op not in ELEMENTWISE for u in self.users[s]) < 2 for s in node.src):
                found.add(node)
        return found

    def may_store(self, node: Node) -> bool:
        kind = node.op in ELEMENTWISE or node.op in (Op.REDUCE, Op.PAD, Op.GATHER)
        if self.groups and node.op is Op.CAST and node.src[0].dtype.is_half:
            return False  # local memory holds 16-bit floats as they are, and tensor cores take them
        if node.op is Op.CAST and load_work(node.src[0]) + 1 <= load_work(node):
            return False  # what is cast is stored, and read, in fewer bytes
        if self._is_counted(node):
            return False
        if self._is_unpacked(node) and self.reads[node].nested and self.work[node] <= UNPACKING:
            return False
        return kind and node not in self.stored

    def work_of(self, node: Node, assume_stored: bool = True) -> float:
        """Units to compute one element where it is needed."""
        sources = [self._read_cost(s, assume_stored) for s in dict.fromkeys(node.src)]
        if node.op in ELEMENTWISE:
            return min(MOST, own_work(node) + sum(sources))
        if node.op is Op.REDUCE:
            return min(MOST, (1.0 + sources[0]) * node.src[0].numel / max(node.numel, 1))
        if node.op is Op.BUFFER:
            return load_work(node)
        if node.op is Op.GATHER:
            return min(MOST, GATHER_WORK + sum(sources))
        if node.op is Op.SCATTER:
            base, *update = (self._read_cost(s, assume_stored) for s in node.src)
            each = GATHER_WORK + LOAD + STORE + sum(update)
            return min(MOST, base + each * node.src[2].numel / max(node.numel, 1))
        if node.op is Op.PAD:
            return sources[0] + 1.0
        if node.op is Op.EXPAND and _is_outer(node.src[0], node, frozenset()):
            return 0.0  # computed outside the loops of the new axes, however often it is read there
        if node.op is Op.EXPAND and is_leaf(node.src[0]):
            return sources[0] * EXPANDED / LOAD
        return sources[0] if sources else 0.0

    def _read_cost(self, node: Node, assume_stored: bool) -> float:
        return load_work(node) if assume_stored and node in self.stored else self.work[node]

    def count_reads(self, node: Node) -> None:
        """How often an unstored `node` would be computed, from how often its users are."""
        context = _Context()
        for user in self.users[node]:
            self._add(context, node, user)
        self.reads[node] = context

    def _add(self, context: _Context, node: Node, user: Node) -> None:
        if user in self.stored:
            total, aligned, nested, reduced = float(user.numel), True, False, frozenset[int]()
            counts, kernels, serial = {user: total}, frozenset((user,)), False
        else:
            above = self.reads[user]
            total, counts, kernels = above.total, above.counts, above.kernels
            aligned, nested, reduced = above.aligned, above.nested, above.reduced
            serial = above.serial
        if user.op is Op.SCATTER and node is not user.src[0]:
            counts, nested = {user: float(node.numel)}, True
            serial = node is user.src[2]  # positions are cheap, and worth no kernel of their own
        elif user.op is Op.REDUCE:
            counts = {user: total * node.numel / max(user.numel, 1)}
            nested, reduced = True, reduced | frozenset(user.arg[1])
        elif user.op not in ELEMENTWISE:
            hoisted = user.op is Op.EXPAND and aligned and _is_outer(node, user, reduced)
            counts = {user: min(total, float(node.numel * len(kernels))) if hoisted else total}
            nested = nested and not hoisted
            if user.op is Op.PAD and not nested and node not in self.reducing:
                counts = {user: total * node.numel / max(user.numel, 1)}
        above_ = 0.0 if user in self.stored else self.reads[user].above
        context.above = max(context.above, above_ + own_work(user))
        for reader, count in counts.items():
            context.counts[reader] = max(context.counts.get(reader, 0.0), count)
        context.kernels |= kernels
        keeps_axes = _keeps_axes(user, reduced) or (
            user.op in (Op.GATHER, Op.SCATTER) and node is not user.src[0])
        context.aligned = context.aligned and aligned and keeps_axes
        context.nested = context.nested or nested
        context.serial = context.serial or serial
        context.reduced |= reduced

    def cut_deep_expressions(self) -> None:
        """Store every DEEPEST-th value of a long chain: one kernel for all of it would take minutes
        to compile, while equal links share one."""
        depth: dict[Node, int] = {}
        for node in self.order:
            depth[node] = 1 + max((depth[s] for s in node.src if s not in self.stored), default=0)
            if depth[node] > DEEPEST and self.may_store(node):
                self.stored.add(node)
                self.forced[node] = f"its expression is {DEEPEST} operations deep"

    def cut_wide_expressions(self) -> None:
        """Where one kernel would have more than MOST_REDUCES, store what has the most of them, such
        as a sum of losses so far."""
        reduces: dict[Node, frozenset[Node]] = {}
        for node in self.order:
            own = frozenset((node,)) if node.op is Op.REDUCE else frozenset()
            sources = [s for s in node.src if s not in self.stored and reduces[s]]
            found = own.union(*(reduces[s] for s in sources))
            while len(found) > MOST_REDUCES:
                choices = [s for s in sources if self.may_store(s)]
                if not choices:
                    break
                widest = max(choices, key=lambda s: len(reduces[s]))
                self.stored.add(widest)
                self.forced[widest] = f"its expression has {len(reduces[widest])} reductions"
                sources.remove(widest)
                found = own.union(*(reduces[s] for s in sources))
            reduces[node] = found

    def prefers_store(self, node: Node) -> bool:
        return node.numel > 0 and self.stored_cost(node) < self.inline_cost(node)

    def _memory_of(self, node: Node) -> float:
        """Bytes that all of a node is computed from element by element, at most."""
        if node.op in (Op.BUFFER, Op.REDUCE, Op.GATHER, Op.SCATTER):
            return float(node.numel * node.dtype.itemsize)
        if node.op is Op.PAD:  # with as many bytes an element as there are without the zeros
            return self.memory[node.src[0]] * node.numel / max(node.src[0].numel, 1)
        return min(MOST, sum(self.memory[s] for s in dict.fromkeys(node.src)))

    def _is_unpacked(self, node: Node) -> bool:
        """Whether a float takes more than twice the bytes that it is computed from, of which each
        element has a bit at least: a weight of 4 bits, with scales of groups. What it is unpacked
        from may be stored, in fewer bytes."""
        size = node.numel * node.dtype.itemsize
        return node.dtype.is_float and node.numel / 8 <= self.memory[node] < size / 2

    def _is_counted(self, node: Node) -> bool:
        """Whether a node follows from positions alone, in little work, and is read once by each of
        its kernels: a product would compute it anew for each row of its other operand."""
        reads = self.reads[node]
        return not self.memory[node] and self.work[node] <= COUNTING and \
            reads.total <= node.numel * len(reads.kernels)

    def inline_cost(self, node: Node) -> float:
        context = self.reads[node]
        slower = SCATTERED if context.nested and node.op is Op.REDUCE else 1.0
        slower *= SERIAL if context.serial else 1.0
        alone = SCALAR * context.above if not self.groups and adds_pairs(node) else 0.0
        return context.total * (self.work[node] * slower + alone)

    def stored_cost(self, node: Node) -> float:
        read = self.reads[node].total * load_work(node)
        return node.numel * (self.work[node] + store_work(node)) + read + LAUNCH

    def stored_value(self, node: Node) -> StoredValue:
        reads = self.reads[node].total
        reason = self.forced.get(node, f"read {_times(reads / max(node.numel, 1))} an element")
        return StoredValue(node, reason, reads, self.stored_cost(node), self.inline_cost(node))


def _times(count: float) -> str:
    return f"{count:.3g} times"


def _keeps_axes(user: Node, reduced: frozenset[int]) -> bool:
    """Whether the loops of a value's axes stay in order where `user` reads it; `reduced`: the axes
    above, whose numbers a RESHAPE that drops or adds axes of size 1 would change."""
    if user.op is not Op.RESHAPE:
        return user.op in AXIS_KEEPING
    before, after = ([n for n in x.shape if n != 1] for x in (user.src[0], user))
    return before == after and not reduced


def _is_outer(inner: Node, expanded: Node, reduced: frozenset[int]) -> bool:
    """Whether all axes that `inner` varies along are loops outside those it is expanded along.

    A kernel's loops are its output axes in order, then the axes it reduces.
    """
    def loop(axis: int) -> tuple[bool, int]:
        return (axis in reduced, axis)
    own = [loop(a) for a, n in enumerate(inner.shape) if n != 1]
    sizes = zip(inner.shape, expanded.shape, strict=True)
    new = [loop(a) for a, (n, m) in enumerate(sizes) if n != m]
    return not own or not new or max(own) < min(new)


def own_work(node: Node) -> float:
    """Units of a node's own operation on one element."""
    return OP_WORK.get(node.op, 1.0) if node.op in ELEMENTWISE else 0.0


def adds_pairs(node: Node) -> bool:
    """Whether a REDUCE adds many products of integers of 16 bits or less in int32 that are
    neighbours in both factors, which processors do with vectors of neighbours that are added: each
    of them gives a single sum."""
    if node.op is not Op.REDUCE or node.arg[0] is not Op.ADD or node.dtype is not dt.int32 \
            or node.src[0].op is not Op.MUL or node.src[0].numel < PAIRED * node.numel:
        return False
    narrow = all(s.op is Op.CAST and s.src[0].dtype.kind in "iu" and s.src[0].dtype.itemsize <= 2
                 for s in map(unmoved, node.src[0].src))
    a, b = node.src[0].src
    return narrow and not _rows(a).isdisjoint(_rows(b) & set(node.arg[1]))


def _rows(node: Node) -> set[int]:
    """The long axes along which elements are neighbours in what a node is a view of."""
    moves: list[Node] = []
    while node.op in MOVEMENT or node.op is Op.CAST:
        moves += [node] if node.op in MOVEMENT else []
        node = node.src[0]
    view: View | None = View.contiguous(node.shape)
    for move in reversed(moves):
        view = None if view is None else view.moved(move.op, move.arg)
    return set() if view is None else {
        a for a, (n, s) in enumerate(zip(view.shape, view.strides, strict=True))
        if s == 1 and n >= NEIGHBOURS}


def load_work(node: Node) -> float:
    """Units to read one element: as many as its bytes are of a float32's, so that a weight kept in
    8 bits is converted where it is read rather than copied to floats, and differences in float64
    are taken again. (16-bit floats may take several operations to convert.)"""
    width = node.dtype.itemsize / 4
    return LOAD * (max(width, 1.0) if node.dtype.is_float else min(width, 1.0))


def store_work(node: Node) -> float:
    """Units to write one element."""
    return STORE * (max(node.dtype.itemsize / 4, 1.0) if node.dtype.is_float else 1.0)


def is_leaf(node: Node) -> bool:
    """Whether a node only reads memory that is there already, in its own order."""
    return unshaped(node).op is Op.BUFFER

