"""Reductions over one axis that need each other, in one pass over it: streaming softmax.

In: a SINK in which a sum over some range is of terms exp(s - m) * g, where m is the maximum of s
over all of the range, and s itself is a reduction, so that three passes would compute it again.
Out: the same with one range for all. With m_t the maximum of the first t elements, each sum keeps

    a_t = sum of exp(s_j - m_t) * g_j over j <= t
        = a_(t-1) * exp(m_(t-1) - m_t) + exp(s_t - m_t) * g_t

so what is there is rescaled whenever the maximum grows, and a_n is the sum. g may be any factors,
casts, choices between a term and 0, and divisors. A divisor that does not depend on the range, such
as the sum of all exp(s - m), divides the sum instead of each term. That is the online normalizer of
Milakov and Gimelshein (2018), and FlashAttention's loop where s and the last sum are products.

It rounds otherwise than three passes: terms are at most 1 before they are divided, and each
rescaling rounds once. Where all elements so far are -inf their terms count as 0, as they do once
another one has come; the maximum is subtracted from itself in the end, so that NaN is what is left
of a row without any other.
"""
from __future__ import annotations

import math
from typing import NamedTuple

from lazyten.codegen.loops.ranges import free_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const, elementwise, make, rewrite, substitute, toposort
from lazyten.ir.ops import Op

Free = dict[Node, frozenset[Node]]


class Stream(NamedTuple):
    """A sum of products whose terms have a weight exp(score - peak). range: what it is over."""

    total: Node
    weight: Node
    range: Node


def streams(sink: Node) -> bool:
    """Whether `stream` has made something of a SINK."""
    return any(n.op is Op.RESCALED for n in toposort([sink]))


def stream(sink: Node) -> Node:
    """The SINK with one pass in the place of several, where it has just one such chain."""
    free = free_ranges(sink)
    found = [s for n in free if n.op is Op.ACCUMULATE and (s := _stream_of(n, free)) is not None
             and s.total.src[0].op is Op.MUL]
    if len(found) != 1:
        return sink
    total, weight, r = found[0]
    made = _rescaled(total, weight, r, free)
    return sink if made is None else rewrite([sink], lambda n: None, {total: made})[0]


def _stream_of(total: Node, free: Free) -> Stream | None:
    """What is known of a sum over one range with such a weight, whose score is a reduction."""
    if total.arg is not Op.ADD or len(total.src) != 2 or not total.dtype.is_float:
        return None
    r = total.src[1]
    for node in toposort([total.src[0]], lambda n: () if n.op is Op.ACCUMULATE else n.src):
        if node.op is Op.EXP and node.src[0].op is Op.SUB:
            score, peak = node.src[0].src
            if peak.op is Op.ACCUMULATE and peak.arg is Op.MAX and r in free[score] \
                    and r not in free[peak] and any(
                        n.op is Op.ACCUMULATE for n in toposort([score])) \
                    and _renamed(peak.src[0], score, peak.src[1:], (r,)) is not None:
                return Stream(total, node, r)
    return None


def _rescaled(total: Node, weight: Node, r: Node, free: Free) -> Node | None:
    """What is in the place of a sum; None if its terms are not as described."""
    peak = weight.src[0].src[1]
    units = _Units.of(weight, r)
    found = _term(total.src[0], weight, units.unit, r, free)
    if found is None:
        return None
    result = units.sum_of(found.value, Op.ADD)
    if found.divisor is None:
        return elementwise(Op.ADD, result, units.nothing)
    sums = {n: made for n in toposort([found.divisor])
            if (made := _sum_of_weights(n, weight, units)) is not None}
    divisor, = rewrite([found.divisor], lambda n: None, sums)
    if peak in set(toposort([divisor])):
        return None
    divided = elementwise(Op.DIV, result, divisor)
    if found.used is None:
        return divided
    return elementwise(Op.WHERE, units.sum_of(found.used, Op.MAX), divided, result)


class _Units(NamedTuple):
    """unit: what a weight is, in terms of the maximum so far. factor: what sums are multiplied with
    as that grows. nothing: 0, or NaN where the maximum is not finite. range: of the pass."""

    unit: Node
    factor: Node
    nothing: Node
    range: Node

    @staticmethod
    def of(weight: Node, r: Node) -> _Units:
        """Those of exp(score - peak), with a peak that is found as the pass goes on."""
        score, peak = weight.src[0].src
        plain, scale = _unscaled(score)
        most = make(Op.ACCUMULATE, peak.dtype, (plain, r), Op.MAX)
        zero, factor = const(0, peak.dtype), const(scale / math.log(2), peak.dtype)
        reached, before, now = (elementwise(Op.MUL, n, factor) for n in (
            most, *(make(Op.RUNNING, peak.dtype, (most,), b) for b in (True, False))))
        grown = elementwise(Op.WHERE, elementwise(Op.CMPNE, before, now),
                            elementwise(Op.SUB, before, now), zero)
        is_lowest = elementwise(Op.CMPNE, now, const(-math.inf, peak.dtype))
        start = elementwise(Op.WHERE, is_lowest, now, zero)
        power = make(Op.MULACC, peak.dtype, (plain, factor, elementwise(Op.NEG, start)))
        unit = make(Op.NEAR_EXP2, dt.float32, (power,)) if peak.dtype is dt.float32 \
            else elementwise(Op.EXP2, power)
        return _Units(unit, elementwise(Op.EXP2, grown),
                      elementwise(Op.SUB, reached, reached), r)

    def sum_of(self, value: Node, combiner: Op) -> Node:
        """A reduction in this pass; a maximum is of what has no unit."""
        total = make(Op.ACCUMULATE, value.dtype, (value, self.range), combiner)
        factor = self.factor if combiner is Op.ADD else const(1, value.dtype)
        return make(Op.RESCALED, value.dtype, (total, factor))


def _unscaled(node: Node) -> tuple[Node, float]:
    """A value as another one times a positive constant, 1 if it is not computed like that: then the
    greatest of both are at the same place. What is chosen in its place may be infinite."""
    if node.op is Op.MUL and node.src[1].op is Op.CONST and 0 < node.src[1].value < math.inf:
        return node.src[0], float(node.src[1].value)
    if node.op is Op.WHERE:
        for at, other in ((1, 2), (2, 1)):
            if node.src[other].op is Op.CONST and abs(node.src[other].value) == math.inf:
                plain, scale = _unscaled(node.src[at])
                sides = {at: plain, other: node.src[other]}
                return elementwise(Op.WHERE, node.src[0], sides[1], sides[2]), scale
    return node, 1.0


def _sum_of_weights(node: Node, weight: Node, units: _Units) -> Node | None:
    """What is in the place of a sum of weights over a range of its own; None for other nodes."""
    score, peak = weight.src[0].src
    if node.op is not Op.ACCUMULATE or node.arg is not Op.ADD or len(node.src) != 2:
        return None
    names = next((found for n in toposort([node.src[0]]) if n.op is Op.EXP
                  and n.src[0].op is Op.SUB and n.src[0].src[1] is peak
                  and (found := _renamed(n.src[0].src[0], score, node.src[1:], (units.range,)))
                  is not None), None)
    if names is None:
        return None
    value, = substitute([node.src[0]], names)
    term = _term(value, weight, units.unit, units.range, free_ranges(value))
    if term is None or term.divisor is not None:
        return None
    return elementwise(Op.ADD, units.sum_of(term.value, Op.ADD), units.nothing)


class _Term(NamedTuple):
    """A term with its unit in the place of a weight. divisor: what is to divide the sum. used: when
    that divides this term; where not, it is 0, whatever the divisor is. None: always."""

    value: Node
    divisor: Node | None = None
    used: Node | None = None


def _term(node: Node, weight: Node, unit: Node, r: Node, free: Free) -> _Term | None:
    """What a term of a sum is made of; None if it is not proportional to the weight."""
    if node is weight:
        return _Term(unit)
    with_weight = [i for i, s in enumerate(node.src) if weight in set(toposort([s]))]
    if len(with_weight) != 1 or node.op is Op.ACCUMULATE:
        return None
    at, = with_weight
    below = _term(node.src[at], weight, unit, r, free)
    if below is None:
        return None
    made = make(node.op, node.dtype, (*node.src[:at], below.value, *node.src[at + 1:]), node.arg)
    if node.op is Op.DIV and at == 0:
        if r in free[node.src[1]]:
            return below._replace(value=made)
        return below._replace(divisor=node.src[1]) if below.divisor is None else None
    if node.op is Op.MUL or node.op is Op.CAST and node.dtype.is_float \
            and node.src[0].dtype.is_float:
        return below._replace(value=made)
    if node.op is not Op.WHERE or at == 0 or not _is_zero(node.src[3 - at]):
        return None
    if _is_lowest_where(weight.src[0].src[0], node.src[0], 3 - at):
        made = below.value  # it is 0 already
    if below.divisor is None:
        return below._replace(value=made)
    used = node.src[0] if at == 1 else elementwise(Op.NOT, node.src[0])
    if below.used is not None:
        used = elementwise(Op.AND, used, below.used)
    return below._replace(value=made, used=used)


def _is_lowest_where(score: Node, condition: Node, side: int) -> bool:
    """Whether a score is -inf where this condition holds (side 1) or does not (side 2)."""
    return score.op is Op.WHERE and score.src[0] is condition \
        and score.src[side].op is Op.CONST and score.src[side].value == -math.inf


def _is_zero(node: Node) -> bool:
    """Whether it is the constant 0, not -0."""
    return node.op is Op.CONST and node.value == 0 and math.copysign(1, node.value) > 0


def _renamed(a: Node, b: Node, own: tuple[Node, ...],
             other: tuple[Node, ...]) -> dict[Node, Node] | None:
    """What becomes of the ranges of `a` if it is `b` under other names of those that it binds, and
    of `own` in the place of `other`; None if it is not."""
    left, right = toposort([a]), toposort([b])
    if len(left) != len(right) or len(own) != len(other):
        return None
    match: dict[Node, Node] = dict(zip(own, other, strict=True))
    bound = {*own, *(r for n in left if n.op is Op.ACCUMULATE for r in n.src[1:])}
    for x, y in zip(left, right, strict=True):
        if x.op is Op.RANGE and x in bound:
            alike = y.op is Op.RANGE and match.setdefault(x, y) is y \
                and x.arg._replace(order=()) == y.arg._replace(order=())
        elif x.src:
            alike = (x.op, x.dtype, x.arg, tuple(match[s] for s in x.src)) \
                == (y.op, y.dtype, y.arg, y.src)
        else:
            alike = x is y
        if not alike:
            return None
        match[x] = y
    return {x: y for x, y in match.items() if x.op is Op.RANGE and x is not y}
