"""Bounds: the interval that an integer expression's value lies in."""
from __future__ import annotations

from weakref import WeakKeyDictionary

from lazyten import dtype as dt
from lazyten.node import Node, toposort
from lazyten.ops import Op

Interval = tuple[int, int]
_known: WeakKeyDictionary[Node, Interval] = WeakKeyDictionary()


def bounds(root: Node) -> Interval | None:
    if root.dtype.is_float:
        return None
    if root not in _known:
        for node in toposort([root], lambda n: () if n in _known else n.src):
            if node not in _known and not node.dtype.is_float:
                _known[node] = _bounds(node)
    return _known[root]


def _bounds(n: Node) -> Interval:
    full = (int(n.dtype.min), int(n.dtype.max))
    got = _raw(n)
    if got is None or got[0] < full[0] or got[1] > full[1]:
        return full
    return got


def _raw(n: Node) -> Interval | None:
    if n.op is Op.CONST:
        return int(n.value), int(n.value)
    if n.op is Op.RANGE:
        return 0, n.arg.extent - 1
    if n.op is Op.CMPLT and not n.src[0].dtype.is_float:
        (a, b), (c, d) = _known[n.src[0]], _known[n.src[1]]
        return (1, 1) if b < c else (0, 0) if a >= d else (0, 1)
    if any(s.dtype.is_float for s in n.src) or not n.src or n.op in (Op.LOAD, Op.ACCUMULATE, Op.STORE):
        return None
    s = [_known[x] for x in n.src]
    if n.op is Op.ADD:
        return s[0][0] + s[1][0], s[0][1] + s[1][1]
    if n.op is Op.SUB:
        return s[0][0] - s[1][1], s[0][1] - s[1][0]
    if n.op is Op.NEG:
        return -s[0][1], -s[0][0]
    if n.op is Op.NOT:
        return (1 - s[0][1], 1 - s[0][0]) if n.dtype is dt.bool_ else (~s[0][1], ~s[0][0])
    if n.op is Op.MUL:
        p = [a * b for a in s[0] for b in s[1]]
        return min(p), max(p)
    if n.op is Op.MAX:
        return max(s[0][0], s[1][0]), max(s[0][1], s[1][1])
    if n.op is Op.IDIV and s[1][0] == s[1][1] > 0:
        return s[0][0] // s[1][0], s[0][1] // s[1][0]
    if n.op is Op.MOD and s[1][0] == s[1][1] > 0:
        c = s[1][0]
        return s[0] if 0 <= s[0][0] and s[0][1] < c else (0, c - 1)
    if n.op is Op.WHERE:
        return min(s[1][0], s[2][0]), max(s[1][1], s[2][1])
    if n.op is Op.AND and n.dtype is dt.bool_:
        return min(s[0][0], s[1][0]), min(s[0][1], s[1][1])
    if n.op is Op.OR and n.dtype is dt.bool_:
        return max(s[0][0], s[1][0]), max(s[0][1], s[1][1])
    if n.op is Op.CAST and not n.src[0].dtype.is_float and n.dtype is not dt.bool_:
        return s[0]
    return None
