"""The cycle model: its lower bound holds, so leaving out what cannot win changes no decision; and
what it knows of registers and of the lines of windows."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st

from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.accesses import LINE, Access
from lazyten.codegen.model.arithmetic import units
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions
from lazyten.codegen.model.loop_bodies import copied
from lazyten.codegen.numerics.decompose import decompose
from lazyten.codegen.optimize import optimize
from lazyten.codegen.optimize.optimize import UNROLLS, choose
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    index,
    iota,
    make,
    move,
    reduce,
    reshape,
    toposort,
)
from lazyten.ir.ops import ELEMENTWISE, Op
from lazyten.operators.arrays.convolutions import convolution

AVX512 = Target("avx512", 64, 32, 48 << 10, 12, 1 << 20, threads=True)


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


def windows(images: int, channels: int, size: int, stride: int = 1) -> Node:
    """A convolution with as many channels out as in, and a kernel of 3x3."""
    return convolution(array(1, images, channels, size, size), array(2, channels, channels, 3, 3),
                       None, (stride, stride), (0, 0), (1, 1), 1)


def chosen_for(output: Node) -> Decisions:
    return choose(Model(merge_ranges(lower(Kernel("k", (output,), ()))), AVX2))


EXPRESSIONS: dict[str, Callable[[], Node]] = {
    "product": lambda: product(33, 17, 40), "thin product": lambda: product(5, 100, 3),
    "rows": lambda: softmax_sum(20, 50), "few rows": lambda: softmax_sum(3, 1000),
    "columns": lambda: product(64, 300, 3), "far rows": lambda: transposed(100, 512, 40),
    "total": lambda: reduce(array(1, 12, 70), Op.ADD, [0, 1]),
    "windows": lambda: windows(2, 24, 14), "strided windows": lambda: windows(2, 64, 20, 2),
    "elementwise": lambda: elementwise(Op.SQRT, array(1, 19, 7))}


@pytest.fixture(params=EXPRESSIONS)
def sink(request: pytest.FixtureRequest) -> Node:
    output = EXPRESSIONS[request.param]()
    return merge_ranges(lower(Kernel("k", (output,), ())))


@pytest.mark.few(3)
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
    assert chosen_for(elementwise(Op.SQRT, padded)).tile and not chosen_for(scaled).tile


@pytest.mark.parametrize("output", [product(14, 300, 16), product(210, 512, 64),
                                    windows(4, 128, 30, 2), windows(2, 32, 16)])
def test_a_register_tile_and_its_operands_fit_the_registers(output: Node) -> None:
    model = Model(merge_ranges(lower(Kernel("k", (output,), ()))), AVX2)
    copies, (_, body), _ = model.loops(choose(model))
    factors = min(copied(copies, term.term.free) for term in body.terms if term.term.accesses)
    assert copied(copies, body.body.free) + factors + 1 <= AVX2.vector_registers


@pytest.mark.parametrize("stride", [1, 2])
def test_a_register_tile_of_large_windows_holds_neighbours_in_a_row(stride: int) -> None:
    (*_, columns) = Model(merge_ranges(lower(Kernel("k", (windows(4, 128, 30, stride),), ()))),
                          AVX2).outputs
    assert columns in dict(chosen_for(windows(4, 128, 30, stride)).tile)


@pytest.mark.parametrize(("columns", "most"), [(4096, AVX2.l1_ways), (4096 + 16, 14)])
def test_a_register_tile_reads_no_more_rows_than_the_first_cache_keeps_lines_of(
        columns: int, most: int) -> None:
    copies = chosen_for(product(512, columns, 1)).tile
    assert math.prod(n for _, n in copies) == most


@pytest.mark.parametrize(("size", "axis"), [(32, 3), (56, 1)])
def test_lanes_are_stored_along_rows_where_columns_share_sets_of_the_first_cache(
        size: int, axis: int) -> None:
    ((r, _),) = chosen_for(windows(16, 64, size + 2)).lanes
    assert r.arg.order == (axis,)


def test_lanes_far_apart_cost_less_where_a_register_tile_holds_neighbours_of_each() -> None:
    model = Model(merge_ranges(lower(Kernel("k", (windows(4, 64, 58),), ()))), AVX512)
    _, filters, rows, columns = model.outputs
    along, across = (model.loops(Decisions(((filters, 16),), ((r, 14),))) for r in (columns, rows))
    stores = [bodies[0].cycles(copies, trips, 32) for copies, bodies, trips in (along, across)]
    assert stores[0] < stores[1] / 3


def test_a_register_tile_is_large_enough_for_lines_of_the_second_cache_to_arrive() -> None:
    model = Model(merge_ranges(lower(Kernel("k", (windows(4, 64, 58),), ()))), AVX512)
    tile = dict(choose(model).tile)
    assert (tile[model.outputs[1]], tile[model.outputs[3]]) == (2, 14)


@pytest.mark.parametrize("columns", [9, 13])
def test_a_register_tile_may_have_all_of_an_axis(columns: int) -> None:
    model = Model(merge_ranges(lower(Kernel("k", (windows(1, 64, columns + 2),), ()))), AVX512)
    assert columns in [n for _, n in choose(model).tile]


def test_a_register_tile_takes_neighbours_before_rows_far_apart() -> None:
    images, filters = array(1, 16, 1, 24, 1024), array(2, 1, 144, 24, 1)
    whole = 16, 144, 24, 1024
    pointwise = reduce(elementwise(Op.MUL, *(expand(x, whole) for x in (images, filters))), Op.ADD,
                       [2])
    assert {r.arg.order for r, _ in chosen_for(pointwise).tile} == {(1,), (3,)}


def test_a_register_tile_of_windows_takes_whole_rows_before_parts_of_several() -> None:
    model = Model(merge_ranges(lower(Kernel("k", (windows(1, 64, 34),), ()))), AVX512)
    chosen, columns = choose(model), model.outputs[-1]
    assert dict(chosen.lanes)[columns] * dict(chosen.tile)[columns] == columns.arg.extent


def test_channels_are_lanes_where_windows_of_neighbours_would_begin_anywhere() -> None:
    model = Model(merge_ranges(lower(Kernel("k", (windows(16, 64, 34),), ()))), AVX512)
    chosen, (_, filters, _, columns) = choose(model), model.outputs
    assert dict(chosen.lanes) == {filters: 16}
    assert dict(chosen.tile)[columns] == 11  # 32 in three parts, as 12 and 14 would be


def test_a_register_tile_reads_few_lines_of_what_only_the_second_cache_keeps() -> None:
    """As of packed filters, of which each tile goes through all channels and taps."""
    strided = convolution(array(1, 4, 64, 58, 58), array(2, 128, 64, 3, 3), None, (2, 2), (0, 0),
                          (1, 1), 1)
    model = Model(merge_ranges(lower(Kernel("k", (strided,), ()))), AVX512)
    tile, filters = dict(choose(model).tile), model.outputs[1]
    assert tile.pop(filters) < max(tile.values())


def test_accumulators_take_neighbours_in_memory_before_what_lies_apart() -> None:
    products = convolution(array(1, 1, 24 * 16, 18, 18), array(2, 24, 16, 16, 16), None, (1, 1),
                           (0, 0), (1, 1), 24)  # the gradient of 3x3 filters of 24 channels
    model = Model(merge_ranges(lower(Kernel("k", (products,), ()))), AVX512)
    ((r, _),) = choose(model).unroll
    assert r is not model.reductions[0].own[0]


def test_elements_that_only_results_have_do_not_make_vectors_shorter() -> None:
    x = array(1, 64, 1024)
    is_greatest = elementwise(Op.CMPLT, expand(reduce(x, Op.MAX, [1]), x.shape), x)
    places = expand(reshape(cast(iota(1024), dt.int32), (1, 1024)), x.shape)
    found = reduce(elementwise(Op.WHERE, is_greatest, places, const(0, dt.int32, x.shape)),
                   Op.MAX, [1])
    assert {n for _, n in chosen_for(cast(found, dt.int64)).lanes} == {8}
    assert {n for _, n in chosen_for(reduce(cast(x, dt.float64), Op.ADD, [1])).lanes} == {4}


@given(taps=st.integers(1, 5), columns=st.integers(1, 40), stride=st.integers(1, 3),
       heights=st.integers(1, 5), rows=st.integers(1, 6), channels=st.integers(1, 4))
@examples(40)
def test_the_lines_of_windows_are_those_that_they_touch_on_average(
        taps: int, columns: int, stride: int, heights: int, rows: int, channels: int) -> None:
    rows = rows if stride <= heights else 1  # where windows leave rows out, that is not known
    width = 200
    extents = [taps, columns, heights, rows, channels]
    strides = [1, stride, width, stride * width, 100 * width]
    steps = {make(Op.RANGE, dt.INDEX, (), Range((i,), n, "loop")): n
             for i, n in enumerate(extents)}
    access = Access(dict(zip(steps, strides, strict=True)), {}, 1.0, False, 4)
    elements = {sum(map(math.prod, zip(strides, at, strict=True)))
                for at in itertools.product(*map(range, extents))}
    per_line = LINE // 4
    touched = [len({(e + start) // per_line for e in elements}) for start in range(per_line)]
    assert access.runs(steps)[1] == pytest.approx(sum(touched) / per_line)
    assert access.is_window() == (len(elements) < math.prod(extents))


@pytest.mark.parametrize(("n", "slots"), [(128, {2}), (1024, {1, 2})])
def test_a_factor_read_across_is_packed_where_the_second_cache_cannot_hold_it(
        n: int, slots: set[int]) -> None:
    """a.T @ b: a register tile reads single elements of one line of `a`, which share a miss."""
    a, b = expand(array(1, n, n, 1), (n, n, n)), expand(array(2, n, 1, n), (n, n, n))
    staged = chosen_for(reduce(elementwise(Op.MUL, a, b), Op.ADD, [0])).staged
    assert {s.load.src[0].arg.slot for s in staged} == slots


def test_many_terms_in_a_loop_leave_room_for_fewer_copies_of_it() -> None:
    """Such as the gradient of a weight that a recurrent net uses at each step: the compiler's time
    grows faster than the code."""
    assert generate(kernel_of_sum(28), AVX2).source.count("\n") < 4000


def kernel_of_sum(terms: int) -> Kernel:
    """A sum of products of (32, 192), transposed, and (32, 32), as one reduction."""
    total = None
    for slot in range(1, 2 * terms, 2):
        a = expand(array(slot, 32, 192, 1), (32, 192, 32))
        b = expand(array(slot + 1, 32, 1, 32), (32, 192, 32))
        one = elementwise(Op.MUL, a, b)
        total = one if total is None else elementwise(Op.ADD, total, one)
    assert total is not None
    return Kernel("sum", (reduce(total, Op.ADD, [0]),),
                  ((dt.float32, 6144), (dt.float32, 1024)) * terms)


def sums_beside_a_product(instructions: int) -> Node:
    """A product, and sums of 3 x 3 values of so many instructions each."""
    value = array(3, 3, 3, 48, 64)
    factor = expand(array(4, 1, 1, 48, 64), value.shape)
    for _ in range(instructions):
        value = elementwise(Op.MUL, value, factor)
    return elementwise(Op.ADD, product(48, 200, 64),
                       reshape(reduce(value, Op.ADD, [0, 1]), (48, 1, 64)))


def test_a_short_sum_is_written_out_where_that_saves_more_than_it_takes_to_compile() -> None:
    short, long = map(chosen_for, map(sums_beside_a_product, (1, 5)))
    assert [n for _, n in short.unroll] == [9] and not long.unroll and short.tile == long.tile


def spread(x: Node) -> Node:
    """Log-sum-exp of each row but for its maximum, which is taken off for safety."""
    shifted = elementwise(Op.SUB, x, expand(reduce(x, Op.MAX, [1]), x.shape))
    return elementwise(Op.LOG2, reduce(elementwise(Op.EXP, shifted), Op.ADD, [1]))


def test_an_operation_costs_the_instructions_that_are_made_of_it() -> None:
    x = make(Op.LOAD, dt.float32, (make(Op.PARAM, dt.float32, (), Param(1, 1)), index(0)))
    store = make(Op.STORE, dt.float32, (x.src[0], index(0), elementwise(Op.EXP, x)))
    made = decompose([store], AVX2)
    arithmetic = [n for n in toposort(made) if n.op in ELEMENTWISE and n.op is not Op.BITCAST]
    fused = [n for n in arithmetic if n.op in (Op.ADD, Op.SUB) and n.src[0].op is Op.MUL
             or n.op is Op.ADD and n.src[1].op is Op.MUL]
    assert units(elementwise(Op.EXP, x), AVX2) == len(arithmetic) - len(fused) > 20


def test_what_is_computed_in_wider_elements_takes_several_vectors() -> None:
    x = make(Op.LOAD, dt.float32, (make(Op.PARAM, dt.float32, (), Param(0, 9)), index(0)))
    wide = cast(x, dt.float64)
    product = elementwise(Op.MUL, wide, wide)
    assert units(product, AVX2, 4) == 2 * units(product, AVX2, 8)
    inside = units(elementwise(Op.SIN, x), AVX2, 4) / units(elementwise(Op.SIN, x), AVX2, 8)
    assert 1.5 < inside < 2.0, "all but the last of a sine of float32 is in float64"


def test_what_is_computed_of_narrow_floats_costs_their_rounding_too() -> None:
    def sums(dtype: DType) -> float:
        x = make(Op.LOAD, dtype, (make(Op.PARAM, dtype, (), Param(1, 1)), index(0)))
        return units(x, AVX2) + units(elementwise(Op.ADD, x, x), AVX2)
    assert sums(dt.float32) == 1.0
    assert sums(dt.bfloat16) > 5.0


def test_rows_that_leave_lanes_idle_are_side_by_side_where_each_element_takes_long() -> None:
    sink = merge_ranges(lower(Kernel("k", (spread(array(1, 20000, 25)),), ())))
    (r, _), *_ = choose(Model(sink, replace(AVX512, masked_loads=True, fuses=True))).lanes
    assert r.arg.kind == "loop"


@pytest.mark.parametrize(("op", "elements", "beside"), [
    (Op.EXP, 200000, True), (Op.EXP, 2000, False), (Op.SQRT, 200000, False)])
def test_vectors_run_beside_each_other_where_each_takes_long(op: Op, elements: int,
                                                             beside: bool) -> None:
    tile = chosen_for(elementwise(op, array(1, elements))).tile
    assert [n > 1 for _, n in tile] == [True] * beside


def test_tiles_of_a_range_are_of_whole_vectors_of_it() -> None:
    short, whole = (make(Op.RANGE, dt.INDEX, (), Range((0,), n, "loop")) for n in (5, 9))
    assert list(optimize._factors(short, 8)) == []
    assert list(optimize._factors(whole, 1)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
