"""Affine forms: an index expression as constant + sum of coefficient * term.

Terms are what is not a sum: RANGE, IDIV, MOD, MAX, LOAD and so on. Arithmetic on int64 wraps, and
sums and products by constants are the same in wrapped arithmetic, so an affine form always equals
its node; only dividing or comparing one needs a proof that it stays inside int64 (`interval`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary
from zlib import crc32

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, elementwise, index, set_form, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.bounds import Interval, bounds

Terms = Mapping[Node, int]
Affine = tuple[dict[Node, int], int]

MOST_TERMS = 64
"""A longer sum is a term itself: forms of forms would take quadratic space."""

SUMS = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.NOT, Op.MUL, Op.SHL})
"""The ops that `affine` looks through."""


def affine(node: Node) -> Affine:
    """(terms, constant) of an int64 expression, no coefficient zero. Do not change the dict."""
    found: Affine | None = node.form  # of sums only
    if found is not None:
        return found
    if node.op not in SUMS or node.dtype is not dt.INDEX:
        return _form(node) if node.dtype is dt.INDEX else ({node: 1}, 0)
    simple = not any(map(_parts, node.src))  # as in a pass from the sources up
    for n in (node,) if simple else toposort([node], _parts):
        if n.form is None and n.op in SUMS and n.shape == ():
            form = _combine(n)
            if form is not None:
                set_form(n, form)
    return _form(node)


def _parts(node: Node) -> Sequence[Node]:
    return node.src if node.op in SUMS and node.form is None else ()


def _form(node: Node) -> Affine:
    if node.op is Op.CONST and node.shape == ():
        return {}, int(node.value)
    return node.form or ({node: 1}, 0)


def _combine(node: Node) -> Affine | None:
    """The form of a sum from the forms of its operands; None if it is a term of its own."""
    left = _form(node.src[0])
    if node.op is Op.NEG:
        return scaled(left, -1)
    if node.op is Op.NOT:
        return added(scaled(left, -1), ({}, -1))
    right = _form(node.src[1])
    if node.op is Op.ADD or node.op is Op.SUB:
        form = added(left, right, 1 if node.op is Op.ADD else -1)
        return form if len(form[0]) <= MOST_TERMS else None
    if node.op is Op.MUL:
        if left[0] and right[0]:
            return None
        return scaled(left, right[1]) if not right[0] else scaled(right, left[1])
    return scaled(left, 1 << right[1]) if not right[0] and 0 <= right[1] < 64 else None


def _wrapped(value: int) -> int:
    if -(1 << 63) <= value < 1 << 63:
        return value
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def added(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """a + factor * b."""
    terms = dict(a[0])
    for term, f in b[0].items():
        total = _wrapped(terms.get(term, 0) + factor * f)
        if total:
            terms[term] = total
        else:
            terms.pop(term, None)
    return terms, _wrapped(a[1] + factor * b[1])


def scaled(a: Affine, factor: int) -> Affine:
    """factor * a."""
    terms = {term: _wrapped(f * factor) for term, f in a[0].items()}
    return {term: f for term, f in terms.items() if f}, _wrapped(a[1] * factor)


def interval(terms: Terms, constant: int) -> Interval:
    """The interval of the sum, not wrapped: where it is inside int64, so is every value."""
    low = high = constant
    for term, f in terms.items():
        limits = bounds(term)
        assert limits is not None
        low += f * limits[f < 0]
        high += f * limits[f > 0]
    return low, high


# ---- back to a node ------------------------------------------------------------------------------

def build(terms: Terms, constant: int) -> Node:
    """The node of an affine form: terms of outer loops first, the constant last.

    The part that an inner loop does not change is then a node of its own, computed outside. No
    coefficient 1 is multiplied by and negative ones are subtracted; -1 - x is NOT x.
    """
    order = sorted(terms, key=position) if len(terms) > 1 else list(terms)
    if constant == -1 and order and all(terms[t] < 0 for t in order):
        return elementwise(Op.NOT, build({t: -f for t, f in terms.items()}, 0))
    total: Node | None = None
    if constant and order and terms[order[0]] < 0:
        total, constant = index(constant), 0
    for term in order:
        total = _plus(total, term, terms[term])
    if total is None:
        return index(constant)
    return elementwise(Op.ADD, total, index(constant)) if constant else total


def _plus(total: Node | None, term: Node, factor: int) -> Node:
    if total is None:
        if factor == -1:
            return elementwise(Op.NEG, term)
        return term if factor == 1 else elementwise(Op.MUL, term, index(factor))
    size = abs(factor)
    product = term if size == 1 else elementwise(Op.MUL, term, index(size))
    return elementwise(Op.ADD if factor > 0 else Op.SUB, total, product)


Position = tuple[tuple[tuple[int, ...], ...], int, int]
_positions: WeakKeyDictionary[Node, Position] = WeakKeyDictionary()


def position(node: Node) -> Position:
    """A sort key, the same on every machine: by innermost loop, then by op, then by structure."""
    found = _positions.get(node)
    if found is not None:
        return found
    for n in toposort([node], known=_positions):
        if n not in _positions:
            _positions[n] = _position(n)
    return _positions[node]


def _position(node: Node) -> Position:
    orders: set[tuple[int, ...]] = {node.arg.order} if node.op is Op.RANGE else set()
    digests = [crc32(node.op.name.encode()), node.dtype.bits]
    if node.arg is not None:
        digests.append(crc32(repr(node.arg).encode()))
    for s in node.src:
        below = _positions[s]
        orders.update(below[0])
        digests.append(below[2])
    return tuple(sorted(orders, reverse=True)), node.op.value, hash(tuple(digests))
