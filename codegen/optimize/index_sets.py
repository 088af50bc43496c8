"""Index-set splitting: an output that is put together from pieces has loops for each piece.

In: a SINK of stores. Out: SINKs that together store the same, each for some values of one range of
the output: in each of them the comparisons of that range with constants are decided, so that what
they choose between is neither read nor computed. `cat` and `stack`, what pads, and what is written
to a slice leave such comparisons.

Also cut off is what stands before or behind whole periods of an index that is divided, as of a
diagonal's: the periods between become two loops (ranges.py), and no element divides.

An element is computed in one part only, and a reduction that does not depend on the range would be
computed in several, in other orders: such a SINK stays whole.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lazyten.codegen.loops.coverage import grid, values
from lazyten.codegen.loops.ranges import free_ranges, is_long, merge_ranges
from lazyten.codegen.optimize.optimize import chosen
from lazyten.codegen.optimize.parallel import LEAST_UNITS
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.inspection import dump
from lazyten.ir.node import Node, const, elementwise, index, make, ranges_of, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.support.passes import is_verifying
from lazyten.symbolic.affine import affine
from lazyten.symbolic.simplify import simplify_all

MOST_PARTS = (16, 8, 4, 2)
"""Into how many a range is split; where more pieces meet, a part has several of them."""
MOST_LEFT = 0.7
"""The share of a kernel's cycles that parts may take."""
LEAST_SAVED = 2000.0
"""Half cycles that each part must save besides: it takes some milliseconds to compile."""
THREADS = 8
"""So many share a kernel, it is assumed where one is made that not all can share."""
MOST_VERIFIED = 1 << 16
"""Elements of an output whose places are compared one by one."""


def split_index_sets(sink: Node, target: Target) -> tuple[Node, ...]:
    """The parts of a SINK, to be run in any order; the SINK itself where splitting it does not pay.
    """
    most = MOST_LEFT * _work(sink)
    pieces = (_parts(sink, r, cuts) for r, cuts in _ways(sink))
    best = _cheapest(sink, (parts for parts in pieces if sum(map(_work, parts)) <= most), target)
    if len(best) > 1:
        return _split_again(best, target)
    if not _divides(sink):
        return best
    merged = merge_ranges(sink)
    periods = (_parts(merged, r, cuts) for r, cuts in periods_of(merged).items())
    best = _cheapest(merged, periods, target)
    if len(best) == 1:
        return (sink,)
    return tuple(p for part in best for p in split_index_sets(merge_ranges(part), target))


def _split_again(parts: Iterable[Node], target: Target) -> tuple[Node, ...]:
    """Parts of parts, along other ranges: what is inside along one may be masked along the next,
    which is no less work but takes longer."""
    found: list[Node] = []
    for part in parts:
        best = _cheapest(part, (_parts(part, r, cuts) for r, cuts in _ways(part)), target)
        found += best if len(best) == 1 else _split_again(best, target)
    return tuple(found)


def _cheapest(sink: Node, ways: Iterable[tuple[Node, ...]], target: Target) -> tuple[Node, ...]:
    """Those parts of a SINK that take the fewest cycles; the SINK itself where none saves much."""
    best: tuple[Node, ...] = (sink,)
    least, whole = math.inf, _Estimate(0.0, 0.0)
    for parts in ways:
        if least == math.inf:
            whole = _Estimate.of(sink, target)
            least = MOST_LEFT * whole.cycles
        estimates, taken = [], 0.0
        for part in parts:
            estimates.append(_Estimate.of(part, target))
            taken += LEAST_SAVED + estimates[-1].cycles
            if taken >= least:
                break
        else:
            if not target.threads or _are_shared(estimates, whole):
                best, least = parts, taken
    if is_verifying() and len(best) > 1:
        _verify(sink, best)
    return best


class _Estimate(NamedTuple):
    """Half cycles of a nest as the model of the processor says, with the best decisions that it
    finds; and those that it takes where memory is slower."""

    cycles: float
    time: float

    @classmethod
    def of(cls, sink: Node, target: Target) -> _Estimate:
        """A SINK's."""
        model, decisions = chosen(merge_ranges(sink), target)
        return cls(model.cycles(decisions), model.least_time(decisions))


def _are_shared(parts: Sequence[_Estimate], whole: _Estimate) -> bool:
    """Whether what is too short to be shared by threads takes no longer than the whole with them.
    """
    alone = sum(part.time for part in parts if part.time < LEAST_UNITS)
    return alone < max(LEAST_UNITS, whole.time / THREADS)


def _free_everywhere(sink: Node) -> frozenset[Node]:
    """The ranges that all stores and reductions depend on, so that none is done in two parts."""
    free = free_ranges(sink)
    found = frozenset(r for r in free if r.op is Op.RANGE)
    return found.intersection(*(free[store.src[1]] for store in sink.src),
                              *(free[n] for n in free if n.op is Op.ACCUMULATE))


def cuts_of(sink: Node) -> dict[Node, list[int]]:
    """Where comparisons of an output's range alone with a constant change, in order; nowhere, if
    the SINK must stay whole."""
    found: dict[Node, set[int]] = {}
    if len({store.src[0] for store in sink.src}) < len(sink.src):
        return {}  # a SCATTER: its base, then what is combined with that
    for node in toposort([sink]):
        if node.op in (Op.CMPLT, Op.CMPNE) and node.src[0].dtype is dt.INDEX:
            for r, at in _changes(node):
                if 0 < at < r.arg.extent:
                    found.setdefault(r, set()).add(at)
    return {r: sorted(cuts) for r, cuts in found.items()}


def _changes(compared: Node) -> Iterator[tuple[Node, int]]:
    """A range and the values from which on a comparison is another one."""
    found = _difference(compared)
    if found is None:
        return
    r, factor, constant = found
    if compared.op is Op.CMPLT:
        yield r, _boundary(factor, constant)
    elif constant % factor == 0:
        yield from ((r, -constant // factor), (r, -constant // factor + 1))


def _difference(compared: Node) -> tuple[Node, int, int] | None:
    """A range r, a factor and a constant, where factor * r + constant is compared with 0; None
    where a comparison is another one."""
    (left, first), (right, second) = map(affine, compared.src)
    terms = {t: left.get(t, 0) - right.get(t, 0) for t in (*left, *right)}
    (r, factor), *others = [(t, f) for t, f in terms.items() if f] or [(compared, 0)]
    if others or r.op is not Op.RANGE or r.arg.kind != "loop":
        return None
    return r, factor, first - second


def _boundary(factor: int, constant: int) -> int:
    """The first r for which factor * r + constant is not below 0 any more or, of a negative factor,
    is below 0."""
    return -(constant // factor) if factor > 0 else constant // -factor + 1


def may_be_split(sink: Node) -> bool:
    """Whether there is anything to look for."""
    return bool(cuts_of(sink)) or _divides(sink)


def _divides(sink: Node) -> bool:
    """Whether indices are divided, of what is not a SCATTER."""
    return len({store.src[0] for store in sink.src}) == len(sink.src) and \
        any(n.op in (Op.IDIV, Op.MOD) and n.dtype is dt.INDEX for n in toposort([sink]))


def periods_of(sink: Node) -> dict[Node, list[int]]:
    """Where the first whole period of an output's range begins that an index divides, and the last
    one ends; nothing for what has whole periods alone, or must stay whole."""
    found: dict[Node, list[int]] = {}
    everywhere = _free_everywhere(sink)
    for node in toposort([sink]):
        if node.op not in (Op.IDIV, Op.MOD) or node.dtype is not dt.INDEX \
                or node.src[1].op is not Op.CONST:
            continue
        (terms, offset), period = affine(node.src[0]), int(node.src[1].value)
        for r in (r for r, factor in terms.items() if factor == 1 and r in everywhere):
            first = -offset % period
            last = r.arg.extent - (r.arg.extent - first) % period
            cuts = [at for at in (first, last) if 0 < at < r.arg.extent]
            if r.arg.kind == "loop" and cuts and first < last and is_long(period):
                found.setdefault(r, cuts)
    return found


def _ways(sink: Node) -> Iterator[tuple[Node, list[int]]]:
    """Ranges and the cuts between as many parts as may be, and between fewer, evenly."""
    found = cuts_of(sink)
    for r in sorted(_free_everywhere(sink) & found.keys(), key=lambda r: r.arg.order):
        cuts, pieces = found[r], len(found[r]) + 1
        for parts in dict.fromkeys(min(pieces, most) for most in MOST_PARTS):
            yield r, [cuts[i * pieces // parts - 1] for i in range(1, parts)]


def _parts(sink: Node, r: Node, cuts: Sequence[int]) -> tuple[Node, ...]:
    loads = [(n, *_met(n.src[2], r)) for n in toposort([sink])
             if n.op is Op.LOAD and len(n.src) == 3]
    return tuple(_part(sink, r, start, stop, [
        n for n, first, end in loads if end <= start or stop <= first])
        for start, stop in pairwise((0, *cuts, r.arg.extent)))


def _met(condition: Node, r: Node) -> tuple[int, int]:
    """From which value of a range on a condition may be met, and from which on it is not."""
    if condition.op is Op.AND:
        (a, b), (c, d) = (_met(s, r) for s in condition.src)
        return max(a, c), min(b, d)
    found = _difference(condition) if condition.op is Op.CMPLT \
        and condition.src[0].dtype is dt.INDEX else None
    if found is None or found[0] is not r:
        return 0, r.arg.extent
    at = _boundary(*found[1:])
    return (0, at) if found[1] > 0 else (at, r.arg.extent)


def _part(sink: Node, r: Node, start: int, stop: int, unread: Iterable[Node]) -> Node:
    """The SINK for the values start .. stop - 1 of a range. unread: LOADs whose conditions are not
    met there, so that nobody looks at what they are made of."""
    new = make(Op.RANGE, r.dtype, (), r.arg._replace(extent=stop - start))
    replaced = {n: const(0, n.dtype) for n in unread}
    replaced[r] = elementwise(Op.ADD, new, index(start))
    return make(Op.SINK, sink.dtype, tuple(simplify_all(substitute(sink.src, replaced))))


def _work(sink: Node) -> int:
    """Operations on one element: what is loaded, computed, combined and stored."""
    total = 0
    for node, free in free_ranges(sink).items():
        if _is_counted(node):
            loops = free.union(node.src[1:]) if node.op is Op.ACCUMULATE else free
            total += math.prod(r.arg.extent for r in loops)
    return total


def _is_counted(node: Node) -> bool:
    """Whether it is work for each element, not the arithmetic of indices."""
    return node.op not in (Op.SINK, Op.PARAM, Op.CONST, Op.RANGE) and not (
        node.op is not Op.LOAD and node.dtype is dt.INDEX) and not (
        node.op in (Op.CMPLT, Op.CMPNE) and node.src[0].dtype is dt.INDEX)


def _verify(sink: Node, parts: Sequence[Node]) -> None:
    """InternalError unless the parts together store what the SINK does, as often, where that is
    little."""
    for number, store in enumerate(sink.src):
        if store.src[0].arg.size <= MOST_VERIFIED:
            places = [part.src[number].src[1] for part in parts]
            found = [values(p, grid([*ranges_of([p])])) for p in (store.src[1], *places)]
            if not np.array_equal(np.sort(np.concatenate(found[1:])), np.sort(found[0])):
                raise InternalError(f"the parts of a nest do not store each of {len(found[0])} "
                                    f"elements once:\n{dump(places)}")
