"""Congruences: what integers leave when divided by a power of two, whatever loops count to.

In: index arithmetic, as nodes or as instructions. Out: `(modulus, remainder)`; vector_access.py,
matrices.py and gpu/local_memory.py prove with it that accesses are aligned. The domain is that of
P. Granger, "Static analysis of arithmetical congruences" (1989), with powers of two up to 2**32,
which hold where arithmetic of 32 bits or more wraps, too.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op

MOST = 1 << 32
"""The modulus of constants."""


class Congruence(NamedTuple):
    """Integers that are `remainder` modulo `modulus`, a power of two."""

    modulus: int
    remainder: int

    def is_multiple(self, n: int, more: int = 0) -> bool:
        """Whether all of them, plus `more`, are multiples of n."""
        return self.modulus % n == 0 and (self.remainder + more) % n == 0


ANY = Congruence(1, 0)


def constant(value: int) -> Congruence:
    """That of one integer."""
    return Congruence(MOST, value % MOST) if abs(value) < MOST // 2 else ANY


def congruence(op: Op, args: Sequence[Congruence]) -> Congruence:
    """That of the result of an integer op, from those of its operands; division is floored."""
    m, r = args[0] if args else ANY
    n, s = args[-1] if args else ANY
    if op is Op.CAST:
        return args[0]
    if op in (Op.NEG, Op.NOT):
        return _reduced(m, -r - (op is Op.NOT))
    if op in (Op.ADD, Op.SUB):
        return _reduced(gcd(m, n), r + s if op is Op.ADD else r - s)
    if op is Op.MUL:
        return _reduced(gcd(m * n, m * s, n * r, MOST), r * s)
    if op in (Op.MAX, Op.WHERE):
        return _reduced(gcd(args[-2].modulus, n, args[-2].remainder - s), s)
    if op in (Op.IDIV, Op.MOD) and n == MOST and 0 < s < MOST // 2:
        if op is Op.MOD:
            return _reduced(gcd(m, s), r)
        return _reduced(m // s, r // s) if m % s == 0 else ANY
    return ANY


def congruence_of(node: Node) -> Congruence:
    """That of an index expression over loop variables."""
    found: dict[Node, Congruence] = {}
    for n in toposort([node]):
        known = n.dtype is dt.INDEX
        if n.op is Op.CONST:
            found[n] = constant(int(n.value)) if known else ANY
        else:
            found[n] = congruence(n.op, [found[s] for s in n.src]) if known and n.src else ANY
    return found[node]


def _reduced(modulus: int, remainder: int) -> Congruence:
    return Congruence(modulus, remainder % modulus)
