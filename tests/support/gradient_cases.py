"""Graphs whose gradients are known, a row an op."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numeric_gradients import Inputs

from lazyten.ir import dtype as dt
from lazyten.ir.collective import KINDS, Collective, Sharding, collective
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    gather,
    make,
    move,
    reduce,
    reshape,
    scatter,
)
from lazyten.ir.ops import Op

Build = Callable[..., Node]


def ordinary(op: Op) -> Build:
    return lambda *operands: elementwise(op, *operands)


def with_itself(op: Op) -> Build:
    return lambda x: elementwise(op, x, x)


def moving(op: Op, arg: object) -> Build:
    return lambda x: move(op, x, arg)


def reducing(combiner: Op, *axes: int) -> Build:
    return lambda x: reduce(x, combiner, axes)


def positions(*given: int) -> Node:
    """These positions on the last axis, the same for all lines of (2, 3, 4)."""
    total = const(0, dt.int64, (len(given),))
    line = make(Op.IOTA, dt.int64, (), len(given))
    for place, at in enumerate(given):
        here = elementwise(Op.CMPNE, line, const(place, dt.int64, line.shape))
        total = elementwise(Op.WHERE, here, total, const(at, dt.int64, line.shape))
    return expand(reshape(total, (1, 1, len(given))), (2, 3, len(given)))


def scattering(combiner: Op | None, *given: int) -> Build:
    return lambda base, values: scatter(base, 2, positions(*given), values, combiner)


class Alone:
    """A group of one rank."""

    rank, size = 0, 1


def together(kind: str) -> Build:
    """A collective of one rank; those of several are checked by several (tests/distributed)."""
    ranks = {"broadcast": (0,), "reduce": (0,), "exchange": (0, 0),
             "all_to_all_parts": (1, 1)}.get(kind, ())
    reduction = "sum" if KINDS[kind].reduces else ""
    what = Collective(kind, Alone(), "cpu", reduction, ranks)  # type: ignore[arg-type]
    return lambda x: reshape(collective(what, reshape(x, (1, *x.shape)) if KINDS[kind].takes
                                        else x), x.shape)


def sharing(op: Op, axis: int | None = 1) -> Build:
    """The same values: who computes which, and what ranks have, is lazyten/sharding's business."""
    alone = Sharding(Alone(), axis, "cpu", number=3)  # type: ignore[arg-type]
    return lambda x: make(op, x.dtype, (x,), alone)


def choose(a: Node, b: Node) -> Node:
    condition = elementwise(Op.CMPLT, a, const(0.5, a.dtype, a.shape))
    return elementwise(Op.WHERE, condition, a, b)


# op -> (how to build it, for each operand the range of its values) or several of those
ROWS: dict[Op, list[tuple[Build, list[tuple[float, float]]]]] = {
    Op.NEG: [(ordinary(Op.NEG), [(-2, 2)])],
    Op.EXP: [(ordinary(Op.EXP), [(-2, 2)])],
    Op.EXP2: [(ordinary(Op.EXP2), [(-2, 2)])],
    Op.LOG2: [(ordinary(Op.LOG2), [(0.3, 3)])],
    Op.SIN: [(ordinary(Op.SIN), [(-9, 9)])],
    Op.COS: [(ordinary(Op.COS), [(-9, 9)])],
    Op.SQRT: [(ordinary(Op.SQRT), [(0.3, 3)])],
    Op.RECIPROCAL: [(ordinary(Op.RECIPROCAL), [(0.5, 2)]), (ordinary(Op.RECIPROCAL), [(-2, -0.5)])],
    Op.CAST: [(lambda x: cast(cast(cast(x, dt.float64), dt.float32), dt.float64), [(-2, 2)])],
    Op.ADD: [(ordinary(Op.ADD), [(-2, 2), (-2, 2)]), (with_itself(Op.ADD), [(-2, 2)])],
    Op.SUB: [(ordinary(Op.SUB), [(-2, 2), (-2, 2)])],
    Op.MUL: [(ordinary(Op.MUL), [(-2, 2), (-2, 2)]), (with_itself(Op.MUL), [(-2, 2)])],
    Op.DIV: [(ordinary(Op.DIV), [(-2, 2), (0.5, 2)]), (ordinary(Op.DIV), [(-2, 2), (-2, -0.5)])],
    Op.MOD: [(ordinary(Op.MOD), [(-9, 9), (1.7, 2.1)]),
             (ordinary(Op.MOD), [(-9, 9), (-2.1, -1.7)])],
    Op.POW: [(ordinary(Op.POW), [(0.3, 3), (-2, 2)]),
             *((lambda x, n=n: elementwise(Op.POW, x, const(n, x.dtype, x.shape)), [(0.3, 3)])
               for n in (0, 1, 2, 3, 0.5, -1.5))],
    Op.MAX: [(ordinary(Op.MAX), [(-2, 2), (-2, 2)])],
    Op.WHERE: [(choose, [(0, 1), (-2, 2)])],
    Op.MULACC: [(ordinary(Op.MULACC), [(-2, 2), (-2, 2), (-2, 2)])],
    Op.REDUCE: [(reducing(combiner, *axes), [(0.3, 2)])
                for combiner in (Op.ADD, Op.MAX, Op.MUL)
                for axes in [(0,), (1,), (0, 2), (0, 1, 2)]],
    Op.RESHAPE: [(moving(Op.RESHAPE, (4, 3, 2)), [(-2, 2)])],
    Op.PERMUTE: [(moving(Op.PERMUTE, (2, 0, 1)), [(-2, 2)])],
    Op.EXPAND: [(lambda x: expand(reduce(x, Op.ADD, (1,)), x.shape), [(-2, 2)])],
    Op.PAD: [(moving(Op.PAD, ((1, 0), (0, 2), (3, 1))), [(-2, 2)])],
    Op.SHRINK: [(moving(Op.SHRINK, ((1, 2), (0, 2), (1, 4))), [(-2, 2)])],
    Op.FLIP: [(moving(Op.FLIP, (0, 2)), [(-2, 2)])],
    Op.SHEAR: [(moving(Op.SHEAR, (2, 0, 2, 0, 2)), [(-2, 2)]),
               (moving(Op.SHEAR, (1, 0, -1, 1, 2)), [(-2, 2)])],
    Op.GATHER: [(lambda x: gather(x, 2, positions(3, 0, 0, 7, -1)), [(-2, 2)])],
    Op.SCATTER: [(scattering(None, 2, 0, 4, -1), [(-2, 2), (-2, 2)]),
                 (scattering(Op.ADD, 2, 0, 2, 9), [(-2, 2), (-2, 2)]),
                 (scattering(Op.MAX, 3, 1, 1, -3), [(-2, 2), (-2, 2)])],
    Op.CONTIGUOUS: [(lambda x: make(Op.CONTIGUOUS, x.dtype, (x,)), [(-2, 2)])],
    Op.COPY: [(lambda x: make(Op.COPY, x.dtype, (x,), ("cpu", "interpreter")), [(-2, 2)])],
    Op.COLLECTIVE: [(together(kind), [(-2, 2)]) for kind in KINDS],
    Op.SHARD: [(sharing(Op.SHARD), [(-2, 2)])],
    **{op: [(sharing(op), [(-2, 2)]), (sharing(op, None), [(-2, 2)])]
       for op in (Op.JOINED, Op.OWN)},
    Op.LEAF: [(lambda x: make(Op.LEAF, x.dtype, (x,), 77), [(-2, 2)])],
}
SHAPE = (2, 3, 4)
CASES = [pytest.param(op, i, id=f"{op.name}-{i}")
         for op, rows in ROWS.items() for i in range(len(rows))]
LOSSY = {Op.CAST}  # a float32 on the way: no finite difference resolves it


def build(op: Op, number: int) -> tuple[Inputs, Node]:
    make_node, ranges = ROWS[op][number]
    rng = np.random.default_rng(number)
    inputs = Inputs()
    leaves = [inputs.leaf(rng.uniform(low, high, SHAPE)) for low, high in ranges]
    return inputs, make_node(*leaves)
