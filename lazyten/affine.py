"""Affine forms of index expressions."""
from __future__ import annotations

from weakref import WeakKeyDictionary

from lazyten import dtype as dt
from lazyten.node import Node, elementwise, index, toposort
from lazyten.ops import Op

Affine = tuple[dict[Node, int], int]
_known: WeakKeyDictionary[Node, Affine] = WeakKeyDictionary()


def affine(root: Node) -> Affine:
    for n in toposort([root], lambda n: () if n in _known else n.src):
        if n not in _known and n.dtype is dt.INDEX:
            _known[n] = _affine(n)
    return _known[root]


def _affine(n: Node) -> Affine:
    if n.op is Op.CONST:
        return {}, int(n.value)
    if n.op in (Op.ADD, Op.SUB):
        a, b = _known[n.src[0]], _known[n.src[1]]
        sign = 1 if n.op is Op.ADD else -1
        t = dict(a[0])
        for k, v in b[0].items():
            t[k] = t.get(k, 0) + sign * v
        return {k: v for k, v in t.items() if v}, a[1] + sign * b[1]
    if n.op is Op.NEG:
        t, c = _known[n.src[0]]
        return {k: -v for k, v in t.items()}, -c
    if n.op is Op.MUL:
        for x, y in (n.src, n.src[::-1]):
            t, c = _known[y]
            if not t:
                u, d = _known[x]
                return ({k: v * c for k, v in u.items()} if c else {}), d * c
    return {n: 1}, 0


def _key(n: Node) -> tuple:
    return (min((r.arg.order for r in toposort([n]) if r.op is Op.RANGE), default=()), len(toposort([n])))


def build(terms: dict[Node, int], constant: int) -> Node:
    total = None
    for t in sorted(terms, key=_key):
        f = terms[t]
        if f == 0:
            continue
        part = t if f == 1 else elementwise(Op.MUL, t, index(f))
        total = part if total is None else elementwise(Op.ADD, total, part)
    if total is None:
        return index(constant)
    return total if constant == 0 else elementwise(Op.ADD, total, index(constant))
