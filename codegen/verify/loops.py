"""A proof that a loop nest visits each element just once, from the nest alone.

In: a SINK of the LOOP level, as lower, optimize and what is between give it. Raises InternalError
unless every loop ends where its values are combined or stored:

- what a STORE depends on are loops of outputs: no step or lane of a reduction gets there
  uncombined; a reduction's range is bound once on the way;
- the first STORE to an argument goes through all its elements, each of them once for every step of
  its 'serial' loops (where blocks overlap, twice: verify_rewrites.py shows that both have the same
  value); other STOREs to it are updates, whose loops go to places of their own but for 'serial'
  ones, whatever memory says, and combine with what is there at a place of each thread's own if
  they are the first;
- a value has the lanes of one 'vector' range, and ranges in one place of the nest are one range.
"""
from __future__ import annotations

from collections.abc import Iterable

from lazyten.codegen.loops.coverage import coverage
from lazyten.codegen.loops.ranges import free_ranges
from lazyten.codegen.loops.verify_rewrites import names
from lazyten.codegen.verify.accesses import conjuncts
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.inspection import dump
from lazyten.ir.node import Node, elementwise, index, make, ranges_of, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.affine import affine
from lazyten.symbolic.bounds import bounds
from lazyten.symbolic.simplify import simplify

MOST_STARTS = 1 << 16
"""Of a STORE whose position is no sum: where there are more, the proofs of the rewrites stand
alone."""
STAND_IN = 1 << 20
"""What the order of a range begins with that stands for what is not known."""
OUTPUT = frozenset({"loop", "apart", "parallel", "unroll", "vector", "local", "serial"})


def verify_loops(sink: Node, has_vectors: bool = True, is_whole: bool = True) -> None:
    """Raise InternalError unless the nest visits each element once; see above. has_vectors: values
    are vectors, which have one axis. is_whole: no other nest stores to its arguments."""
    _verify_places(sink)
    free = free_ranges(sink)
    if has_vectors:
        _verify_lanes(sink, free)
    combined = _verify_reductions(sink, free)
    written: set[Node] = set()
    for store in sink.src:
        stray = {r for r in free[store] if r in combined or r.arg.kind not in OUTPUT}
        if stray:
            raise InternalError(f"{names(stray)} reaches a store, uncombined:\n{dump([store])}")
        _verify_store(store, free[store], store.src[0] in written, is_whole)
        if store.arg is None:
            written.add(store.src[0])


def _verify_places(sink: Node) -> None:
    places: dict[tuple[int, ...], Node] = {}
    for r in ranges_of([sink]):
        if places.setdefault(r.arg.order, r) is not r:
            raise InternalError(f"{names({r, places[r.arg.order]})} are one loop:\n{dump([sink])}")


def _verify_reductions(sink: Node, free: dict[Node, frozenset[Node]]) -> set[Node]:
    """All ranges that are combined, each where nothing under it combines it."""
    below: dict[Node, frozenset[Node]] = {}
    none: frozenset[Node] = frozenset()
    for node in toposort([sink]):
        parts = [below[s] for s in _combined_sources(node) if below[s]]
        below[node] = parts[0].union(*parts[1:]) if parts else none
        own = bound_ranges(node)
        twice = {r for r in own if r in below[node] or own.count(r) > 1}
        if twice:
            raise InternalError(f"{names(twice)} is combined twice:\n{dump([node])}")
        below[node] |= none.union(own) if own else none
    return {*below[sink]}


def _combined_sources(node: Node) -> tuple[Node, ...]:
    """Those whose reductions are done when a node is: what is RUNNING is in the middle of one."""
    if node.op is Op.RUNNING:
        return ()
    return node.src[:1] if node.op is Op.RESCALED else node.src


def _verify_lanes(sink: Node, free: dict[Node, frozenset[Node]]) -> None:
    several: dict[frozenset[Node], bool] = {}
    for node in toposort([sink]):
        reached = free[node].union(node.src[1:]) if node.op is Op.ACCUMULATE else free[node]
        if reached not in several:
            several[reached] = sum(r.arg.kind == "vector" for r in reached) > 1
        if several[reached] and node.op is not Op.SINK:
            raise InternalError(f"a value has lanes of two of {names({*reached})}:\n{dump([node])}")


def bound_ranges(node: Node) -> tuple[Node, ...]:
    """The ranges that an ACCUMULATE, a MATRIX or a STAGE goes through by itself."""
    if node.op is Op.ACCUMULATE:
        return node.src[1:]
    if node.op is Op.MATRIX:
        return node.src[2 + len(node.arg.c):]
    return node.src[2 * node.arg.buffers:] if node.op is Op.STAGE else ()


def _verify_store(store: Node, free: Iterable[Node], again: bool, is_whole: bool) -> None:
    param, position = store.src[:2]
    if again or store.arg is not None:
        racing = {r for r in free if r.arg.kind != "serial"} if again else \
            {r for r in free if r.arg.kind == "parallel"}.difference(ranges_of([position]))
        if racing and not (again and _has_places(position, racing)):
            raise InternalError(f"an update in loops of {names(racing)}:\n{dump([store])}")
        return
    repeating = ("serial", "parallel") if param.arg.held else ("serial",)
    shorter = _shorter(store)
    position, = substitute([position], shorter)
    ranges = [shorter.get(r, r) for r in free if r.arg.kind not in repeating]
    found = coverage(position, ranges, MOST_STARTS)
    if found is None:
        return
    if is_whole and ((found.first, found.last) != (0, param.arg.size) or not found.whole):
        raise InternalError(f"of {param.arg.size} elements {found.first} .. {found.last - 1} are "
                            f"stored{'' if found.whole else ', not all'}:\n{dump([store])}")
    unseen = {*ranges}.difference(ranges_of([position]))
    if unseen or not found.once and not _overlaps(position):
        raise InternalError(f"elements are stored more than once as {names({*ranges})} run:\n"
                            f"{dump([store])}")


def _has_places(position: Node, ranges: set[Node]) -> bool:
    """Whether no two steps of these ranges are at one place, whatever is between the bounds of what
    memory or other ranges say."""
    unknown = [t for t in affine(position)[0] if any(
        n.op is Op.LOAD or n.op is Op.RANGE and n not in ranges for n in toposort([t]))]
    stand_ins = {t: _between(bounds(t), i) for i, t in enumerate(unknown)}
    place, = substitute([position], stand_ins)
    seen = {*ranges_of([place])}
    found = coverage(simplify(place), sorted(ranges | seen, key=lambda r: r.arg.order), MOST_STARTS)
    return ranges <= seen and (found is None or found.once)


def _between(limits: tuple[int, int] | None, number: int) -> Node:
    """An expression that takes all values between these limits as a range of its own runs."""
    low, high = (0, 0) if limits is None else limits
    each = make(Op.RANGE, dt.INDEX, (), Range((STAND_IN, number), high - low + 1, "loop"))
    return elementwise(Op.ADD, each, index(low))


def _shorter(store: Node) -> dict[Node, Node]:
    """The vectors whose last lanes a STORE masks, as ranges that end before them."""
    found = {}
    compared = (part.src for mask in store.src[3:] for part in conjuncts(mask)
                if part.op is Op.CMPLT)
    for r, end in compared:
        if r.op is Op.RANGE and r.arg.kind == "vector" and end.op is Op.CONST:
            found[r] = make(r.op, r.dtype, (), r.arg._replace(extent=int(end.value)))
    return found


def _overlaps(position: Node) -> bool:
    """Whether the last of some blocks may begin earlier, so that it ends where the array does."""
    return any(n.op is Op.MAX for n in toposort([position]))
