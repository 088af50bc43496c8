"""The cycle model: its lower bound holds, so leaving out what cannot win changes no decision."""
from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from lazyten import dtype as dt
from lazyten.codegen import optimize
from lazyten.codegen.cycles import Model
from lazyten.codegen.decisions import Decisions
from lazyten.codegen.lower import lower
from lazyten.codegen.optimize import UNROLLS, choose
from lazyten.codegen.ranges import merge_ranges
from lazyten.codegen.target import AVX2
from lazyten.kernel import Kernel, Slot
from lazyten.node import Node, elementwise, expand, make, move, reduce, reshape
from lazyten.ops import Op


def array(slot: int, *shape: int) -> Node:
    return reshape(make(Op.BUFFER, dt.float32, (), Slot(slot, math.prod(shape))), shape)


def product(m: int, k: int, n: int) -> Node:
    a = expand(array(1, m, k, 1), (m, k, n))
    b = expand(array(2, 1, k, n), (m, k, n))
    return reduce(elementwise(Op.MUL, a, b), Op.ADD, [1])


def transposed(m: int, k: int, n: int) -> Node:
    """A product whose right operand is read against its order."""
    a = expand(array(1, m, k, 1), (m, k, n))
    b = expand(reshape(move(Op.PERMUTE, array(2, n, k), (1, 0)), (1, k, n)), (m, k, n))
    return reduce(elementwise(Op.MUL, a, b), Op.ADD, [1])


def softmax_sum(m: int, n: int) -> Node:
    x = array(1, m, n)
    shifted = elementwise(Op.SUB, x, expand(reduce(x, Op.MAX, [1]), (m, n)))
    return reduce(elementwise(Op.EXP, shifted), Op.ADD, [1])


EXPRESSIONS: dict[str, Callable[[], Node]] = {
    "product": lambda: product(33, 17, 40), "thin product": lambda: product(5, 100, 3),
    "rows": lambda: softmax_sum(20, 50), "few rows": lambda: softmax_sum(3, 1000),
    "columns": lambda: product(64, 300, 3), "far rows": lambda: transposed(100, 512, 40),
    "total": lambda: reduce(array(1, 12, 70), Op.ADD, [0, 1]),
    "elementwise": lambda: elementwise(Op.SQRT, array(1, 19, 7))}


@pytest.fixture(params=EXPRESSIONS)
def sink(request: pytest.FixtureRequest) -> Node:
    output = EXPRESSIONS[request.param]()
    return merge_ranges(lower(Kernel("k", (output,), ())))


def test_no_tile_and_no_accumulators_go_below_the_bound(sink: Node) -> None:
    model = Model(sink, AVX2)
    for start in optimize._vectors(model):
        least = model.least_cycles(start.lanes)
        choices = [start, *(Decisions(start.lanes, tile) for tile in optimize._tiles(model, start))]
        choices += [Decisions(start.lanes, choice.tile, ((r, count),))
                    for choice in choices for body in model.reductions for r in body.own
                    for count in UNROLLS]
        assert 0 < least <= min(map(model.cycles, choices)) * (1 + 1e-12)


def test_the_bound_changes_no_decision(sink: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose(Model(sink, AVX2))
    monkeypatch.setattr(Model, "least_cycles", lambda self, lanes: 0.0)
    assert choose(Model(sink, AVX2)) == chosen


def test_a_candidate_takes_the_same_cycles_whatever_was_asked_before(sink: Node) -> None:
    model = Model(sink, AVX2)
    starts = list(optimize._vectors(model))
    choices = [Decisions(start.lanes, tile) for start in starts
               for tile in ((), *optimize._tiles(model, start))]
    forwards = [model.cycles(choice) for choice in choices]
    fresh = Model(sink, AVX2)
    assert forwards[::-1] == [fresh.cycles(choice) for choice in choices[::-1]]


def test_rows_that_share_a_mask_are_computed_together() -> None:
    padded = move(Op.PAD, array(1, 64, 16, 16), ((0, 0), (1, 1), (1, 1)))
    scaled = elementwise(Op.MUL, array(1, 64, 100), expand(array(2, 64, 1), (64, 100)))
    chosen = [choose(Model(merge_ranges(lower(Kernel("k", (output,), ()))), AVX2))
              for output in (elementwise(Op.SQRT, padded), scaled)]
    assert chosen[0].tile and not chosen[1].tile
