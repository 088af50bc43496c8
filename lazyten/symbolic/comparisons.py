"""Comparisons of index expressions, one or several: decided, or with the fewest terms.

In: affine forms of int64 operands, terms simplified. Out: nodes. Called by `simplify.py`.

x < y is not x - y < 0 where that wraps: every operand is first proved, by its interval, to stay
inside int64.
"""
from __future__ import annotations

from math import gcd

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const, elementwise, index
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import Affine, Terms, affine, build, interval, position
from lazyten.symbolic.index_algebra import divisor_of, divisors, is_exact, split


def less(a: Affine, b: Affine) -> Node | None:
    """a < b in the fewest terms and the least factors; None where wrapping may matter."""
    if not (is_exact(a) and is_exact(b)):
        return None
    return _less(_difference(a, b), b[1] - a[1])


def _difference(a: Affine, b: Affine) -> dict[Node, int]:
    """The terms of a - b, in integers that do not wrap."""
    terms = {t: a[0].get(t, 0) - b[0].get(t, 0) for t in {**a[0], **b[0]}}
    return {t: f for t, f in terms.items() if f}


def _less(terms: Terms, limit: int) -> Node | None:
    """terms < limit, in integers that do not wrap."""
    low, high = interval(terms, 0)
    if high < limit or low >= limit:
        return const(high < limit, dt.bool_)
    for step in divisors(terms, 0):
        big, small = split(terms, step)
        low, high = interval(small, 0)
        most = (limit - 1 - low) // step
        if most == (limit - 1 - high) // step:
            return _less(big, most + 1)
    if len(terms) == 1:
        (term, factor), = terms.items()
        c, inner = divisor_of(term), affine(term.src[0]) if term.op is Op.IDIV else ({}, 0)
        if c and term.op is Op.IDIV and abs(factor) == 1 and is_exact(inner):
            # x // c < limit is x < c*limit; -(x // c) < limit is -x < 1 - c*(1 - limit)
            least = c * limit if factor == 1 else 1 - c * (1 - limit)
            inner_terms = {t: factor * f for t, f in inner[0].items()}
            return _less(inner_terms, least - factor * inner[1])
    return _compare(Op.CMPLT, terms, limit)


def _compare(op: Op, terms: Terms, limit: int) -> Node | None:
    """`terms op limit` with what is subtracted moved to the other side."""
    left = {t: f for t, f in terms.items() if f > 0}
    right = {t: -f for t, f in terms.items() if f < 0}
    if not (is_exact((left, 0)) and is_exact((right, limit)) and is_exact(({}, -limit))):
        return None
    if not left:
        return elementwise(op, index(-limit), build(right, 0))
    return elementwise(op, build(left, 0), build(right, limit))


def differ(a: Affine, b: Affine) -> Node | None:
    """a != b, decided or with the common divisor taken out; None where wrapping may matter."""
    if not (is_exact(a) and is_exact(b)):
        return None
    terms, limit = _difference(a, b), b[1] - a[1]
    low, high = interval(terms, 0)
    common = gcd(*terms.values())
    if not low <= limit <= high or common and limit % common:
        return const(True, dt.bool_)
    if not terms:
        return const(False, dt.bool_)
    if terms[min(terms, key=position)] < 0:
        common = -common
    return _compare(Op.CMPNE, {t: f // common for t, f in terms.items()}, limit // common)


def greatest(a: Affine, b: Affine) -> Affine | None:
    """max(a, b) where one is known never to be less than the other."""
    low, high = interval(_difference(a, b), a[1] - b[1])
    if low < 0 < high or not (is_exact(a) and is_exact(b)):
        return None
    return a if low >= 0 else b


# ---- conjunctions of comparisons -----------------------------------------------------------------

MOST_COMPARISONS = 16
"""Longer conjunctions keep what they have: looking for pairs takes quadratic time."""


def both(node: Node) -> Node | None:
    """An AND (or OR) of index comparisons with only the deciding one of those of the same terms.

    0 <= i, i < 5 and i < 3 are 0 <= i and i < 3. None if nothing is to be gained.
    """
    parts = _operands(node)
    conjunction = node.op is Op.AND
    limits: dict[frozenset[tuple[Node, int]], int] = {}
    kept: dict[frozenset[tuple[Node, int]] | Node, Node] = {}
    for part in parts:
        half_line = _half_line(part)
        if half_line is None:
            kept[part] = part
            continue
        terms, limit = half_line
        if terms not in limits or (limit < limits[terms]) is conjunction:
            limits[terms], kept[terms] = limit, part
        opposite = limits.get(frozenset((t, -f) for t, f in terms))
        # terms < limit and -terms < opposite share limit + opposite - 1 numbers
        if opposite is not None and (limit + opposite <= 1) is conjunction:
            if conjunction or limit + opposite > 0:
                return const(not conjunction, dt.bool_)
    if len(kept) == len(parts):
        return None
    result, *more = kept.values()
    for part in more:
        result = elementwise(node.op, result, part)
    return result


def _operands(node: Node) -> list[Node]:
    """What a chain of ANDs (or ORs) combines, left to right; nothing if the chain is too long."""
    found: list[Node] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op is node.op:
            stack += part.src[::-1]
        else:
            found.append(part)
        if len(stack) + len(found) > MOST_COMPARISONS:
            return []
    return found


def _half_line(node: Node) -> tuple[frozenset[tuple[Node, int]], int] | None:
    """A comparison as terms < limit in exact integers; None if it is no such."""
    if node.op is not Op.CMPLT or node.src[0].dtype is not dt.INDEX:
        return None
    a, b = affine(node.src[0]), affine(node.src[1])
    if not (is_exact(a) and is_exact(b)):
        return None
    return frozenset(_difference(a, b).items()), b[1] - a[1]
