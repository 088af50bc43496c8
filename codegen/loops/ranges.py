"""Rewrites of loop variables: merge two into one, split one in parts, pad a reduction to vectors.

Each takes a SINK and gives a new one with the same meaning. optimize.py decides which to apply.
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from lazyten.codegen.loops.summation import Loops
from lazyten.codegen.loops.verify_rewrites import verify_rewrite
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.node import (
    Node,
    const,
    elementwise,
    index,
    make,
    ranges_of,
    rebuild,
    rewrite,
    substitute,
    toposort,
)
from lazyten.ir.ops import SPECS, Op
from lazyten.support.errors import InternalError
from lazyten.support.passes import is_verifying
from lazyten.symbolic.affine import Affine, added, affine, build
from lazyten.symbolic.index_moves import flatten
from lazyten.symbolic.simplify import simplify, simplify_all

AFFINE = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG})


def free_ranges(root: Node) -> dict[Node, frozenset[Node]]:
    """The ranges each node under `root` depends on, but for those an ACCUMULATE or STAGE binds. In
    the order of `toposort`."""
    free: dict[Node, frozenset[Node]] = {}
    empty: frozenset[Node] = frozenset()
    for node in toposort([root]):
        if node.op is Op.RANGE:
            free[node] = frozenset((node,))
        elif node.op is Op.ACCUMULATE:
            free[node] = free[node.src[0]] - frozenset(node.src[1:])
        elif node.op is Op.MATRIX:
            (a, b), own = node.src[:2], node.src[2:2 + len(node.arg.c)]
            inner = {r for r in free[a] | free[b]
                     if r.arg.kind == "unroll" and r.arg.order[0] == own[0].arg.order[0]}
            loops = node.src[2 + len(own):]
            free[node] = ((free[a] | free[b]) - inner - frozenset(loops)) | frozenset(own)
        elif node.op is Op.RUNNING:
            free[node] = free[node.src[0]].union(
                r for r in node.src[0].src[1:] if r.arg.kind == "reduce")
        elif node.op is Op.RESCALED:
            free[node] = free[node.src[0]]
        elif node.op is Op.STAGE:
            filled = 2 * node.arg.buffers
            free[node] = (empty.union(*(free[s] for s in node.src[:filled]))
                          - frozenset(node.src[filled:]))
        else:
            free[node] = empty
            for s in node.src:
                if not free[s] <= free[node]:  # mostly they are: one set serves many nodes
                    free[node] = free[s] if free[node] <= free[s] else free[node] | free[s]
    return free


def is_update(store: Node, sink: Node) -> bool:
    """Whether a STORE is to what another one of the SINK has been stored to before."""
    return next(s for s in sink.src if s.src[0] is store.src[0]) is not store


def replace_ranges(sink: Node, values: dict[Node, Node], bound: dict[Node, tuple[Node, ...]],
                   inside: Node | None = None) -> Node:
    """Replace loop variables by expressions over new ones.

    values: the expression of each old RANGE. bound: the new ranges that an ACCUMULATE over it binds
    instead. inside: where these are not past the end of the old one (None: they never are); what
    ACCUMULATEs combine elsewhere is made their identity, and nothing is stored there.
    """
    replaced, = _replaced([sink], dict(values), bound)
    made = make(Op.SINK, sink.dtype, tuple(simplify_all(replaced.src)))
    if inside is not None:
        made = _masked(made, frozenset(ranges_of(values.values())), inside)
    if is_verifying():
        verify_rewrite(sink, made, values, bound, inside)
    return made


def _replaced(roots: Sequence[Node], done: dict[Node, Node],
              bound: dict[Node, tuple[Node, ...]]) -> list[Node]:
    """What becomes of `roots`; `done` holds what is replaced, and is added to."""
    for node in toposort(roots, known=done):
        if node in done:
            continue
        if node.op is Op.ACCUMULATE:
            ranges = [new for r in node.src[1:] for new in bound.get(r, (r,))]
            done[node] = make(node.op, node.dtype, (done[node.src[0]], *ranges), node.arg)
        else:
            done[node] = rebuild(node, tuple(done[s] for s in node.src)) if node.src else node
    return [done[r] for r in roots]


# ---- merging -------------------------------------------------------------------------------------

def merge_ranges(sink: Node) -> Node:
    """Make one loop of two wherever every index steps through them as through one, two of one that
    indices divide by a constant, and one of reductions over the same data."""
    sink = _merged(sink)
    split: list[tuple[Node, int]] = []
    while (found := _divided(sink)) is not None and not _is_rejoined(*found, split):
        split.append(found)
        sink = _merged(_split_divided(sink, *found))
    return _join_reductions(sink)


def _is_rejoined(r: Node, divisor: int, split: list[tuple[Node, int]]) -> bool:
    """Whether it was split like this before, and its parts merged: where no index became simpler by
    that, it would go on for ever."""
    return any(divisor == d and r.arg.extent == old.arg.extent
               and r.arg.order[:len(old.arg.order)] == old.arg.order for old, d in split)


def _divided(sink: Node) -> tuple[Node, int] | None:
    """A range and what an index divides it by, if it is to be split: those within reductions
    first."""
    order = toposort([sink])
    within = toposort([n.src[0] for n in order if n.op is Op.ACCUMULATE])
    reduced = set(within)
    for node in (*within, *(n for n in order if n not in reduced)):
        if node.dtype is dt.INDEX and node.op in (Op.IDIV, Op.MOD) and node.src[1].op is Op.CONST:
            divisor = int(node.src[1].value)
            for r in affine(node.src[0])[0]:
                if r.op is Op.RANGE and 1 < divisor < r.arg.extent \
                        and _is_split(r, divisor, node in reduced):
                    return r, divisor
    return None


LONG_PERIOD = 16
"""Shorter powers of two go into vectors of most types, whose lanes are then shuffled."""


def is_long(period: int) -> bool:
    """Whether vectors are better off with a loop over a period of an output's index, where they
    would go over its ends."""
    return period >= LONG_PERIOD or period & period - 1 != 0


def _is_split(r: Node, divisor: int, reduced: bool) -> bool:
    """Whether two loops are made of one for the sake of an index, which is within a reduction or
    not."""
    if r.arg.kind == "loop" and reduced:
        return True
    return r.arg.kind in ("loop", "reduce") and r.arg.extent % divisor == 0 \
        and (r.arg.kind == "reduce" or is_long(divisor))


def _split_divided(sink: Node, r: Node, divisor: int) -> Node:
    """Two loops in the place of one: over multiples of the divisor, and over remainders.

    Of an output whose last multiple has not all remainders, the last element of some remainders is
    computed and stored twice, with equal values.
    """
    n = r.arg.extent
    parts = _part(r, 0, -(-n // divisor), r.arg.kind), _part(r, 1, divisor, r.arg.kind)
    multiple = parts[0]
    if n % divisor:
        last = elementwise(Op.IDIV, elementwise(Op.SUB, index(n - 1), parts[1]), index(divisor))
        multiple = minimum(multiple, last)
    value = elementwise(Op.ADD, elementwise(Op.MUL, multiple, index(divisor)), parts[1])
    return replace_ranges(sink, {r: simplify(value)}, {r: parts})


def _merged(sink: Node) -> Node:
    merged = True
    while merged:
        merged = False
        free = free_ranges(sink)
        roots = {root: affine(root)[0] for root in _index_roots(free)}
        for outer, inner in _neighbours(sink, free):
            n = inner.arg.extent
            if all(terms.get(outer, 0) == n * terms.get(inner, 0) for terms in roots.values()):
                users = [r for r, terms in roots.items() if inner in terms]
                sink = _merge(sink, outer, inner, users)
                merged = True
                break
    return sink


def _join_reductions(sink: Node) -> Node:
    """Let ACCUMULATEs share ranges, and so loops, where neither needs the other and one reads
    nothing that the other does not."""
    while True:
        values: dict[Node, Node] = {}
        kept: set[Node] = set()
        for group in _alike(sink):
            loads = [_loads_at(n, _own(group[0])) for n in group]
            for (a, left), (b, right) in combinations(zip(group, loads, strict=True), 2):
                mine, others = _own(a), _own(b)
                if mine != others and left and right and (left <= right or right <= left) \
                        and values.keys().isdisjoint((*mine, *others)) \
                        and kept.isdisjoint(others):  # nothing is replaced twice at a time
                    values |= zip(others, mine, strict=True)
                    kept.update(mine)
        if not values:
            return sink
        sink = replace_ranges(sink, values, {b: (a,) for b, a in values.items()})


def _alike(sink: Node) -> list[list[Node]]:
    """ACCUMULATEs over ranges of equal extents, within the same loops, with equally many others
    below them: so none needs another, nor do others stand between."""
    free = free_ranges(sink)
    depth: dict[Node, int] = {}
    groups: dict[Hashable, list[Node]] = {}
    for n in free:
        depth[n] = max((depth[s] for s in n.src), default=0) + (n.op is Op.ACCUMULATE)
        if n.op is Op.ACCUMULATE:
            key = depth[n], free[n], tuple(r.arg.extent for r in _own(n))
            groups.setdefault(key, []).append(n)
    return [group for group in groups.values() if len(group) > 1]


def _own(node: Node) -> list[Node]:
    """The ranges that an ACCUMULATE binds, the outermost first."""
    return sorted(node.src[1:], key=lambda r: r.arg.order)


def _loads_at(node: Node, ranges: Sequence[Node]) -> set[Node]:
    """What is read for each element that `node` combines, as if these were its ranges."""
    value, = substitute([node.src[0]], dict(zip(_own(node), ranges, strict=True)))
    free = free_ranges(value)
    return {n for n in free if n.op is Op.LOAD and not free[n].isdisjoint(ranges)}


def _merge(sink: Node, outer: Node, inner: Node, roots: list[Node]) -> Node:
    """`roots`: the index expressions that hold both, those within others first."""
    extent = outer.arg.extent * inner.arg.extent
    new = make(Op.RANGE, dt.INDEX, (), outer.arg._replace(extent=extent))
    bound: dict[Node, tuple[Node, ...]] = {outer: (new,), inner: ()}
    values: dict[Node, Node] = {}
    for root in roots:
        terms, constant = affine(root)
        others = [t for t in terms if t is not outer and t is not inner]
        total: Affine = {new: terms[inner]}, constant
        for old, term in zip(others, _replaced(others, values, bound), strict=True):
            total = added(total, affine(term), terms[old])  # a LOAD may read at these loops too
        values[root] = build(*total)
    return replace_ranges(sink, {root: values[root] for root in roots}, bound)


def _neighbours(sink: Node, free: Mapping[Node, frozenset[Node]]) -> Iterator[tuple[Node, Node]]:
    """Pairs of adjacent ranges: of the stores, and of each ACCUMULATE; innermost first."""
    groups: list[list[Node]] = []
    for store in sink.src:
        own = sorted((r for r in free[store] if r.arg.kind != "parallel"),
                     key=lambda r: r.arg.order)
        groups += [[a, b] for a, b in pairwise(own) if _run_together(a, b, sink, free)]
    owners: dict[Node, int] = {}
    reductions = [n for n in free if n.op is Op.ACCUMULATE]
    for node in reductions:
        for r in node.src[1:]:
            owners[r] = owners.get(r, 0) + 1
    groups += [_own(n) for n in reductions if all(owners[r] == 1 for r in n.src[1:])]
    for group in groups:
        yield from reversed(list(pairwise(group)))


def _run_together(a: Node, b: Node, sink: Node,
                  free: Mapping[Node, frozenset[Node]]) -> bool:
    """Whether two ranges of outputs are loops of one kind, of the same stores."""
    return a.arg.kind == b.arg.kind and all((a in free[s]) == (b in free[s]) for s in sink.src)


def _index_roots(order: Iterable[Node]) -> list[Node]:
    """Every index expression that is used as something other than a term of a sum: in a position,
    as a value, or by an op that `affine` does not look through."""
    roots: dict[Node, None] = {}
    for node in order:
        if node.dtype is dt.INDEX and node not in affine(node)[0]:
            continue
        used = node.src[:1] if node.op is Op.ACCUMULATE else node.src
        roots.update((s, None) for s in used if s.dtype is dt.INDEX)
    return list(roots)


# ---- splitting -----------------------------------------------------------------------------------

def split_outputs(sink: Node, parts: Mapping[Node, tuple[int, int, int]]) -> Node:
    """Split output ranges into blocks of so many steps, of so many work items with so many lanes.

    Where the block does not divide the extent, the last block overlaps the one before: it computes
    and stores some elements twice, with equal values, and needs no mask. (It divides that of a
    range that is 'apart': what is combined with values must not be so twice.) A vector that is
    longer than the range has its last lanes masked.
    """
    blocks = {r: _in_blocks(r, *split) for r, split in parts.items() if split[2] <= r.arg.extent}
    sink = replace_ranges(sink, blocks, {})
    for r in [r for r in parts if r not in blocks]:
        vector = _part(r, 2, parts[r][2], "vector")
        inside = elementwise(Op.CMPLT, vector, index(r.arg.extent))
        sink = replace_ranges(sink, {r: vector}, {}, inside)
    return sink


def overlaps(r: Node, block: int) -> bool:
    """Whether the last block of an output range would overlap the one before, where none may."""
    return bool(r.arg.kind == "apart" and r.arg.extent % block)


def _in_blocks(r: Node, tile: int, items: int, lanes: int) -> Node:
    n, block = r.arg.extent, tile * items * lanes
    start = elementwise(Op.MUL, block_range(r, block), index(block))
    if n % block:
        if overlaps(r, block):
            raise InternalError(f"blocks of {block} of {n} updates would overlap")
        start = minimum(start, index(n - block))
    sizes, parts = (tile, items, lanes), (_part(r, 1, tile, "unroll"), local_range(r, items),
                                          _part(r, 2, lanes, "vector"))
    return simplify(elementwise(Op.ADD, start, flatten(sizes, parts)))


def local_range(r: Node, items: int) -> Node:
    """The range over the work items that `r` is split for."""
    return _part(r, 3, items, "local")


OUTERMOST = -1
"""Before the order of a loop that runs outside all others."""


def make_outermost(sink: Node, r: Node) -> Node:
    """Run the loop of an output range, or of its blocks if it is split, outside all others."""
    loops = [n for n in free_ranges(sink)[sink] if n.arg.kind in ("loop", "apart")
             and n.arg.order[:len(r.arg.order)] == r.arg.order]
    return replace_ranges(sink, {n: outermost_range(n) for n in loops}, {})


def outermost_range(r: Node) -> Node:
    """The range that make_outermost puts in the place of a loop."""
    return make(Op.RANGE, r.dtype, (), r.arg._replace(order=(OUTERMOST, *r.arg.order)))


def split_reduction(sink: Node, r: Node, unroll: int, lanes: int, loops: Loops = (),
                    items: int = 1) -> Node:
    """Split a reduction range: `unroll` accumulators of `lanes` lanes in each of `items` work
    items, combined after the loops.

    loops: extents and kinds of the loops over it, if not one. Where all that is more than the
    extent, the elements past the end count as the combiner's identity.
    """
    n, block = r.arg.extent, unroll * items * lanes
    loops = loops or ((-(-n // block), "reduce"),)
    sizes = [*(extent for extent, _ in loops), unroll, items, lanes]
    *parts, last = (_part(r, i, extent, kind) for i, (extent, kind)
                    in enumerate((*loops, (unroll, "unroll"), (lanes, "vector"))))
    parts += [_part(r, len(parts) + 1, items, "local"), last]
    value = simplify(flatten(sizes, parts))
    made = tuple(p for p in parts if p.op is Op.RANGE)
    inside = None if math.prod(sizes) == n else elementwise(Op.CMPLT, value, index(n))
    return replace_ranges(sink, {r: value}, {r: made}, inside)


def group_range(r: Node, n: int) -> Node:
    """The inner of two loops over a reduction's range, of `n` elements, as split_reduction with no
    accumulators makes it."""
    return _part(r, 1, n, "reduce")


CARRIED = OUTERMOST - 1
"""What the order of a range over blocks begins with: reduction_blocking.py makes it the outermost
loop."""


def block_reduction(sink: Node, r: Node, size: int) -> tuple[Node, Node]:
    """(a SINK that reduces `r` in blocks of `size`, the range within a block).

    The blocks are the outermost loop. Where their size does not divide the extent, the elements
    past the end count as the combiner's identity.
    """
    n = r.arg.extent
    count = -(-n // size)
    blocks = make(Op.RANGE, r.dtype, (), Range((CARRIED, *r.arg.order), count, "reduce"))
    inner = _part(r, 0, size, "reduce")
    value = simplify(elementwise(Op.ADD, elementwise(Op.MUL, blocks, index(size)), inner))
    inside = elementwise(Op.CMPLT, value, index(n)) if n % size else None
    return replace_ranges(sink, {r: value}, {r: (blocks, inner)}, inside), inner


def block_range(r: Node, block: int) -> Node:
    """The range over the blocks that split_outputs makes of `r`; `r` itself if it is not split."""
    return r if block == 1 else _part(r, 0, -(-r.arg.extent // block), r.arg.kind)


def share_ranges(sink: Node, ranges: Sequence[Node]) -> Node:
    """Make one 'parallel' range of some output ranges, the last one fastest."""
    order, extent = ranges[0].arg.order, math.prod(r.arg.extent for r in ranges)
    rest = make(Op.RANGE, dt.INDEX, (), Range(order, extent, "parallel"))
    values = {}
    for r in reversed(ranges[1:]):
        values[r] = elementwise(Op.MOD, rest, index(r.arg.extent))
        rest = elementwise(Op.IDIV, rest, index(r.arg.extent))
    return replace_ranges(sink, {**values, ranges[0]: rest}, {})


def _part(r: Node, number: int, extent: int, kind: str) -> Node:
    if extent == 1:
        return index(0)
    return make(Op.RANGE, dt.INDEX, (), Range((*r.arg.order, number), extent, kind))


def in_scalars(sink: Node) -> Node:
    """The SINK with an instance of each value, in order, in the place of lanes."""
    found = (r for r in ranges_of([sink]) if r.arg.kind == "vector")
    values = {r: make(r.op, r.dtype, (), r.arg._replace(kind="unroll")) for r in found}
    return rewrite([sink], lambda n: None, values)[0] if values else sink


def minimum(a: Node, b: Node) -> Node:
    """The lesser of two index expressions: there is no MIN among the ops."""
    inverted = elementwise(Op.MAX, elementwise(Op.NOT, a), elementwise(Op.NOT, b))
    return elementwise(Op.NOT, inverted)


_MASKED = {Op.LOAD: 2, Op.STORE: 3}
"""How many operands they have before a mask."""


def _is_streamed(total: Node) -> bool:
    """Whether it adds up products in a unit that changes: those are for tensor cores."""
    return total.arg is Op.ADD and total.src[0].op is Op.MUL and any(
        n.op is Op.RUNNING for n in toposort([total.src[0]]))


def _without_factor(product: Node, zeros: Sequence[Node], inside: Node) -> Node | None:
    """A product that is 0 where not `inside`, since one factor is 0 there and the other is made 0:
    so it is a product still. None if neither factor is."""
    for at, other in ((0, 1), (1, 0)):
        zero = simplify(zeros[other])
        if zero.op is Op.CONST and zero.value == 0:
            factor = product.src[at]
            casts = factor.op is Op.CAST
            value = factor.src[0] if casts else factor
            value = elementwise(Op.WHERE, inside, value, const(0, value.dtype))
            sides = {at: make(Op.CAST, factor.dtype, (value,), factor.arg) if casts else value,
                     other: product.src[other]}
            return make(Op.MUL, product.dtype, (sides[0], sides[1]))
    return None


def _masked(sink: Node, ranges: frozenset[Node], inside: Node) -> Node:
    """Make what `ranges` do right where not `inside`.

    The loads that depend on them give 0 there, and the stores do nothing. Where a 0 does not make
    the element of an ACCUMULATE over them the combiner's identity, a WHERE does.
    """
    free = free_ranges(sink)
    done: dict[Node, Node] = {}
    zero: dict[Node, Node] = {}
    for node in toposort([sink]):
        src = tuple(done[s] for s in node.src)
        if node.op in _MASKED and free[node] & ranges:
            operands, valid = src[:_MASKED[node.op]], src[_MASKED[node.op]:]
            valid = (elementwise(Op.AND, inside, *valid) if valid else inside,)
            done[node] = make(node.op, node.dtype, (*operands, *valid), node.arg)
            zero[node] = const(0, node.dtype)
        elif node.op is Op.ACCUMULATE and ranges.intersection(node.src[1:]):
            spec = SPECS[node.arg].identity
            assert spec is not None
            identity = const(spec(node.dtype), node.dtype)
            if simplify(zero[node.src[0]]) is not identity:
                value = _without_factor(src[0], [zero[f] for f in node.src[0].src], inside) \
                    if _is_streamed(node) else None
                src = (value or elementwise(Op.WHERE, inside, src[0], identity), *src[1:])
            done[node] = zero[node] = make(node.op, node.dtype, src, node.arg)
        else:
            done[node] = rebuild(node, src) if src else node
            zero[node] = rebuild(node, tuple(zero[s] for s in node.src)) if src else node
    return done[sink]
