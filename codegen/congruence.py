"""Congruences: what an integer leaves when it is divided by some modulus, whatever loops count to.

In: index arithmetic, as nodes or as instructions. Out: `(modulus, remainder)`; vector_access.py
and local.py prove with it that memory accesses are aligned. The domain is that of P. Granger,
"Static analysis of arithmetical congruences" (1989).
"""
from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from lazyten import dtype as dt
from lazyten.node import Node, toposort
from lazyten.ops import Op


class Congruence(NamedTuple):
    """Integers that are `remainder` modulo `modulus`: any for modulus 1, one for modulus 0."""

    modulus: int
    remainder: int

    def is_multiple(self, n: int, more: int = 0) -> bool:
        """Whether all of them, plus `more`, are multiples of n."""
        return self.modulus % n == 0 and (self.remainder + more) % n == 0


ANY = Congruence(1, 0)


def constant(value: int) -> Congruence:
    """That of one integer."""
    return Congruence(0, value)


def congruence(op: Op, args: Sequence[Congruence]) -> Congruence:
    """That of the result of an integer op, from those of its operands; division is floored."""
    if op in (Op.CAST, Op.NEG, Op.NOT) or op is Op.ADD or op is Op.SUB or op is Op.MUL:
        return _linear(op, args)
    if op is Op.MAX or op is Op.WHERE:
        return _either(*args[-2:])
    if op in (Op.IDIV, Op.MOD) and args[1].modulus == 0 and args[1].remainder > 0:
        (modulus, remainder), by = args[0], args[1].remainder
        if op is Op.MOD:
            return _reduced(gcd(modulus, by), remainder) if modulus else constant(remainder % by)
        return _reduced(modulus // by, remainder // by) if modulus % by == 0 else ANY
    return ANY


def congruence_of(node: Node) -> Congruence:
    """That of an index expression over loop variables."""
    found: dict[Node, Congruence] = {}
    for n in toposort([node]):
        if n.op is Op.CONST and n.dtype is dt.INDEX:
            found[n] = constant(int(n.value))
        else:
            known = n.dtype is dt.INDEX and all(s in found for s in n.src)
            found[n] = congruence(n.op, [found[s] for s in n.src]) if known else ANY
    return found[node]


def _linear(op: Op, args: Sequence[Congruence]) -> Congruence:
    m, r = args[0]
    if op is Op.CAST:
        return args[0]
    if op is Op.NEG or op is Op.NOT:
        return _reduced(m, -r - (op is Op.NOT))
    n, s = args[1]
    if op is Op.MUL:
        return _reduced(gcd(m * n, m * s, n * r), r * s)
    return _reduced(gcd(m, n), r + s if op is Op.ADD else r - s)


def _either(a: Congruence, b: Congruence) -> Congruence:
    return _reduced(gcd(a.modulus, b.modulus, a.remainder - b.remainder), a.remainder)


def _reduced(modulus: int, remainder: int) -> Congruence:
    return Congruence(modulus, remainder % modulus if modulus else remainder)
