"""View."""
from __future__ import annotations

import math

from lazyten import dtype as dt
from lazyten.node import Node, const, elementwise, index
from lazyten.ops import Op
from lazyten.simplify import simplify


def source_indices(op, in_shape, arg, idxs):
    add = lambda a, b: simplify(elementwise(Op.ADD, a, b))
    if op is Op.RESHAPE:
        flat = index(0)
        for n, i in zip(arg, idxs):
            flat = elementwise(Op.ADD, elementwise(Op.MUL, flat, index(n)), i)
        flat = simplify(flat)
        out = []
        size = math.prod(in_shape)
        for n in in_shape:
            size //= n
            q = elementwise(Op.IDIV, flat, index(size))
            out.append(simplify(q if not out else elementwise(Op.MOD, q, index(n))))
        return out, None
    if op is Op.PERMUTE:
        out = [None] * len(arg)
        for i, a in enumerate(arg):
            out[a] = idxs[i]
        return out, None
    if op is Op.EXPAND:
        return [index(0) if n == 1 else i for n, i in zip(in_shape, idxs)], None
    if op is Op.PAD:
        out = [add(i, index(-b)) for i, (b, a) in zip(idxs, arg)]
        ok = const(True, dt.bool_)
        for i, n, (b, a) in zip(out, in_shape, arg):
            if b:
                ok = elementwise(Op.AND, ok, elementwise(Op.CMPLT, index(-1), i))
            if a:
                ok = elementwise(Op.AND, ok, elementwise(Op.CMPLT, i, index(n)))
        ok = simplify(ok)
        return out, None if ok.op is Op.CONST and ok.value else ok
    if op is Op.SHRINK:
        return [add(i, index(s)) for i, (s, e) in zip(idxs, arg)], None
    if op is Op.FLIP:
        return [add(index(n - 1), elementwise(Op.NEG, i)) if a in arg else i for a, (n, i) in enumerate(zip(in_shape, idxs))], None
    axis, by, f, off, size = arg
    out = list(idxs)
    out[axis] = simplify(elementwise(Op.ADD, elementwise(Op.ADD, idxs[axis], elementwise(Op.MUL, idxs[by], index(f))), index(off)))
    return out, None
