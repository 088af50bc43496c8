"""Simplify."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten import dtype as dt
from lazyten import ops
from lazyten.affine import affine, build
from lazyten.bounds import bounds
from lazyten.node import Node, const, elementwise, index, rewrite
from lazyten.ops import ELEMENTWISE, Op


def simplify(n: Node) -> Node:
    return rewrite([n], _rule)[0]


def simplify_all(roots: Sequence[Node]) -> list[Node]:
    return rewrite(roots, _rule)


def _rule(n: Node) -> Node | None:
    if n.op in ELEMENTWISE and n.src and all(s.op is Op.CONST for s in n.src) and n.shape == ():
        import numpy as np
        v = ops.evaluate(n.op, n.dtype, [np.asarray(s.value, s.dtype.compute) for s in n.src], [s.dtype for s in n.src])
        return const(np.asarray(v).item(), n.dtype)
    if n.dtype is dt.bool_ and n.op in (Op.CMPLT, Op.AND, Op.OR, Op.NOT):
        b = bounds(n)
        if b and b[0] == b[1]:
            return const(bool(b[0]), dt.bool_)
        if n.op is Op.AND:
            for x, y in (n.src, n.src[::-1]):
                if x.op is Op.CONST:
                    return y if x.value else x
    if n.op is Op.WHERE and n.src[0].op is Op.CONST:
        return n.src[1] if n.src[0].value else n.src[2]
    if n.op is Op.LOAD and len(n.src) == 3 and n.src[2].op is Op.CONST and n.src[2].value:
        from lazyten.node import make
        return make(Op.LOAD, n.dtype, n.src[:2])
    if n.dtype is not dt.INDEX:
        return None
    if n.op in (Op.ADD, Op.SUB, Op.MUL, Op.NEG):
        return build(*affine(n))
    if n.op in (Op.IDIV, Op.MOD) and n.src[1].op is Op.CONST and n.src[1].value > 0:
        c = int(n.src[1].value)
        t, k = affine(n.src[0])
        mult = {x: f for x, f in t.items() if f % c == 0}
        rest = {x: f for x, f in t.items() if f % c}
        for kk in (k % c, k % c - c):
            r = build(rest, kk)
            b = bounds(r)
            assert b
            if b[0] // c == b[1] // c:
                q = b[0] // c
                if n.op is Op.IDIV:
                    return build({x: f // c for x, f in mult.items()}, (k - kk) // c + q)
                return build(rest, kk - q * c)
        r = build(rest, k % c)
        if mult or k % c != k:
            if n.op is Op.IDIV:
                return build({**{x: f // c for x, f in mult.items()}, elementwise(Op.IDIV, r, index(c)): 1}, k // c)
            return elementwise(Op.MOD, r, index(c))
    return None
