"""What is put together from pieces has loops for each piece: the right numbers, one write each."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import run_all

import lazyten as lt
from lazyten.codegen.loops.lower import Lowering, lower, output_range
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.optimize import index_sets, optimize
from lazyten.codegen.optimize.index_sets import cuts_of, split_index_sets
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.kernel import Given, Kernel, Slot
from lazyten.ir.node import (
    Node,
    const,
    elementwise,
    expand,
    index,
    make,
    move,
    reduce,
    reshape,
    toposort,
)
from lazyten.ir.ops import Op
from lazyten.operators.arrays.convolutions import convolution
from lazyten.operators.arrays.joining import cat
from lazyten.operators.math import reductions

HIGH, WIDE = 96, 64


def leaf(slot: int, *shape: int) -> Node:
    size = int(np.prod(shape))
    return reshape(make(Op.BUFFER, dt.float32, (), Slot(slot, size)), shape)


def kernel_of(outputs: list[Node], *sizes: int) -> Kernel:
    return Kernel("example", tuple(outputs), tuple((dt.float32, n) for n in sizes))


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are made wherever they save anything."""
    monkeypatch.setattr(index_sets, "LEAST_SAVED", 0.0)
    monkeypatch.setattr(index_sets, "MOST_LEFT", 1.0)


# ---- how much there is to lower ------------------------------------------------------------------

def turned(x: Node, steps: int) -> Node:
    """(1, rows, columns), so often moved by one along both, round the ends."""
    for axis, n in list(enumerate(x.shape))[1:] * steps:
        first, last = ([(0, size) for size in x.shape] for _ in range(2))
        first[axis], last[axis] = (n - 1, n), (0, n - 1)
        x = cat([move(Op.SHRINK, x, tuple(first)), move(Op.SHRINK, x, tuple(last))], axis)
    return x


def test_pieces_of_pieces_that_are_read_nowhere_are_not_followed() -> None:
    """Each move doubles the pieces, but one more piece at most has a place along its axis."""
    steps, work = 8, Lowering()
    x = turned(leaf(1, 1, 40, 30), steps)
    work.value((x, tuple(output_range(a, n) for a, n in enumerate(x.shape)), None))
    assert len([node for node, *_ in work.values if node.op is Op.BUFFER]) == (steps + 1) ** 2


def test_pieces_of_pieces_are_where_they_belong() -> None:
    x = np.arange(120, dtype=np.float32)
    (found,), = run_all("cpu", [kernel_of([turned(leaf(1, 1, 12, 10), 3)], 120)], [[x]])
    np.testing.assert_array_equal(found.reshape(12, 10),
                                  np.roll(x.reshape(12, 10), (3, 3), (0, 1)))


# ---- where a comparison changes ------------------------------------------------------------------

@given(st.sampled_from([Op.CMPLT, Op.CMPNE]), st.integers(-4, 4), st.integers(-4, 4),
       st.integers(-30, 30), st.integers(-30, 30))
def test_cuts_are_where_a_comparison_changes(op: Op, a: int, b: int, c: int, d: int) -> None:
    extent = 20
    r = make(Op.RANGE, dt.INDEX, (), Range((0,), extent, "loop"))

    def linear(factor: int, constant: int) -> Node:
        return elementwise(Op.ADD, elementwise(Op.MUL, r, index(factor)), index(constant))
    compared = elementwise(op, linear(a, c), linear(b, d))
    param = make(Op.PARAM, dt.bool_, (), Param(0, extent))
    sink = make(Op.SINK, dt.bool_, (make(Op.STORE, dt.bool_, (param, r, compared)),))
    holds = [a * i + c < b * i + d if op is Op.CMPLT else a * i + c != b * i + d
             for i in range(extent)]
    changes = [i for i in range(1, extent) if holds[i] != holds[i - 1]]
    assert cuts_of(sink).get(r, []) == changes


# ---- parts ---------------------------------------------------------------------------------------

@settings(max_examples=15)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=20), st.integers(0, 1), st.booleans())
def test_pieces_of_any_sizes_are_in_their_places(sizes: list[int], axis: int,
                                                 doubled: bool) -> None:
    shapes = [(n, 3) if axis == 0 else (3, n) for n in sizes]
    first = 2 if doubled else 1
    parts = [leaf(first + i, *shape) for i, shape in enumerate(shapes)]
    whole = cat(parts, axis)
    outputs = [whole, elementwise(Op.ADD, whole, whole)][:first]
    values = [np.random.default_rng(i).random(s, np.float32) for i, s in enumerate(shapes)]
    expected = np.concatenate(values, axis)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_sets, "LEAST_SAVED", 0.0)
        kernel = kernel_of(outputs, *(3 * n for n in sizes))
        (found,) = run_all("cpu", [kernel], [values])
    for number, result in enumerate(found, 1):
        np.testing.assert_array_equal(result.reshape(expected.shape), number * expected)


def test_of_many_pieces_a_part_has_several() -> None:
    pieces = [leaf(1 + i, 8, 128) for i in range(64)]
    sink = lower(kernel_of([cat(pieces, 0)], *[1024] * 64))
    assert len(split_index_sets(sink, AVX2)) == 16
    assert len(generate(kernel_of([cat(pieces, 0)], *[1024] * 64), AVX2).entries) == 16


def test_what_is_padded_along_two_axes_is_computed_without_masks() -> None:
    """Behind the last row and column, as of what a pooling reads that rounds sizes up."""
    x = np.random.default_rng(0).integers(0, 9, (3, 52, 42)).astype(np.float32)
    w = np.random.default_rng(1).integers(0, 9, (16, 3, 3, 3)).astype(np.float32)
    images, filters = leaf(1, 1, 3, 52, 42), leaf(2, 16, 3, 3, 3)
    found = convolution(images, filters, None, (1, 1), (0, 0), (1, 1), 1)
    kernel = kernel_of([move(Op.PAD, found, ((0, 0), (0, 0), (0, 1), (0, 1)))], x.size, w.size)
    assert len(split_index_sets(lower(kernel), AVX2)) == 3
    assert "masked.load" not in generate(kernel, AVX2).source
    (result,), = run_all("cpu", [kernel], [[x.ravel(), w.ravel()]])
    around = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    expected = np.einsum("cijkl,fckl->fij", around, w)
    np.testing.assert_array_equal(result.reshape(16, 51, 41),
                                  np.pad(expected, ((0, 0), (0, 1), (0, 1))))


def test_what_threads_would_share_is_not_cut_into_what_they_would_not() -> None:
    pieces = [leaf(1 + i, 64, 1024) for i in range(4)]
    sink = lower(kernel_of([cat(pieces, 0)], *[64 << 10] * 4))
    assert len(split_index_sets(sink, AVX2)) == 2


def test_what_is_chosen_for_parts_is_not_worked_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [leaf(1 + i, 64, 1000 + i) for i in range(3)]
    kernel = kernel_of([cat(pieces, 1)], *[64 * (1000 + i) for i in range(3)])
    asked = []

    def model(sink: Node, *args: Any) -> Model:
        asked.append(sink)
        return Model(sink, *args)
    monkeypatch.setattr(optimize, "Model", model)
    optimize.chosen.cache_clear()
    assert len(generate(kernel, AVX2).entries) > 1
    assert len(asked) == len(set(asked))


def test_small_pieces_stay_in_one_nest() -> None:
    assert len(generate(kernel_of([cat([leaf(1, 4, 8), leaf(2, 4, 8)], 0)], 32, 32),
                        AVX2).entries) == 1


@pytest.mark.usefixtures("cheap")
def test_a_sum_that_all_pieces_read_is_computed_once() -> None:
    """In two parts it might be added up in two orders."""
    x = leaf(1, HIGH, WIDE)
    total = expand(reduce(x, Op.ADD, [1]), (HIGH, WIDE))
    for axis, parts in ((0, 2), (1, 1)):
        left = elementwise(Op.CMPLT, reductions.positions((HIGH, WIDE), axis, dt.int64),
                           const(32, dt.int64, (HIGH, WIDE)))
        smaller = elementwise(Op.WHERE, left, elementwise(Op.EXP2, x), total)
        sink = lower(kernel_of([smaller], HIGH * WIDE))
        assert cuts_of(sink) and len(split_index_sets(sink, AVX2)) == parts


@pytest.mark.usefixtures("cheap")
def test_an_output_without_the_axis_keeps_the_nest_whole() -> None:
    pieces = cat([leaf(2, 1, HIGH), leaf(2, 1, HIGH)], 0)
    row = elementwise(Op.ADD, leaf(2, 1, HIGH), const(1.0, dt.float32, (1, HIGH)))
    kernel = kernel_of([pieces, row], HIGH)
    sink = lower(Kernel("example", kernel.outputs, kernel.inputs))
    assert cuts_of(sink) and split_index_sets(sink, AVX2) == (sink,)


# ---- periods -------------------------------------------------------------------------------------

def diagonal(n: int, after: int, first: int, extent: int) -> Node:
    """Of n elements, `after` zeros behind each, the `extent` elements from the first on."""
    padded = move(Op.PAD, reshape(leaf(1, n), (n, 1)), ((0, 0), (0, after)))
    flat = reshape(padded, (n * (after + 1),))
    return move(Op.SHRINK, flat, ((first, first + extent),))


@settings(max_examples=25)
@given(st.data())
def test_what_a_divided_index_reads_is_in_its_place(data: st.DataObject) -> None:
    n, after = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 40))
    whole = n * (after + 1)
    first = data.draw(st.integers(0, whole - 1))
    extent = data.draw(st.integers(1, whole - first))
    x = np.arange(1, n + 1, dtype=np.float32)
    expected = np.zeros((n, after + 1), np.float32)
    expected[:, 0] = x
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_sets, "LEAST_SAVED", 0.0)
        patch.setattr(index_sets, "MOST_LEFT", 1.0)
        kernel = kernel_of([diagonal(n, after, first, extent)], n)
        (found,) = run_all("cpu", [kernel], [[x]])
    np.testing.assert_array_equal(found[0], expected.reshape(-1)[first:first + extent])


def test_a_diagonal_is_stored_without_divisions() -> None:
    n = 500
    for first in (0, n):
        sink = lower(kernel_of([diagonal(n, n, first, n * n - n)], n))
        parts = split_index_sets(sink, AVX2)
        assert len(parts) > 2 and divisions(sink) and not any(map(divisions, parts))


@pytest.mark.parametrize("period", [7, 24])
def test_whole_periods_are_two_loops_without_divisions(period: int) -> None:
    x = move(Op.PERMUTE, leaf(1, period, 50), (1, 0))
    turned = reshape(elementwise(Op.NEG, reshape(x, (50 * period,))), (50 * period,))
    sink = lower(kernel_of([turned], 50 * period))
    assert divisions(sink) and not divisions(merge_ranges(sink))


def divisions(sink: Node) -> int:
    return sum(n.op in (Op.IDIV, Op.MOD) for n in toposort([sink]))


def test_what_is_updated_in_place_still_is() -> None:
    x, y = leaf(1, 256, 256), leaf(2, 256, 256)
    lines = elementwise(Op.CMPLT, reductions.positions((256, 256), 0, dt.int64),
                        const(64, dt.int64, (256, 256)))
    times = elementwise(Op.MUL, y, elementwise(Op.ADD, y, y))
    made = generate(kernel_of([elementwise(Op.WHERE, lines, times, x)], 1 << 16, 1 << 16), AVX2)
    assert len(made.entries) == 2 and (0, 1) in made.in_place


@pytest.mark.usefixtures("cheap")
def test_what_another_part_reads_is_not_written_over() -> None:
    """Of halves that change places, each is read at the position at which the other is written."""
    x = leaf(1, HIGH, WIDE)
    lower_half, upper_half = (move(Op.SHRINK, x, (rows, (0, WIDE)))
                              for rows in ((0, HIGH // 2), (HIGH // 2, HIGH)))
    made = generate(kernel_of([cat([upper_half, lower_half], 0)], HIGH * WIDE), AVX2)
    assert len(made.entries) == 2 and made.in_place == ()


# ---- as users meet it ----------------------------------------------------------------------------

def test_joined_padded_and_written_tensors_are_numpys(device: str) -> None:
    random = np.random.default_rng(0)
    a, b, c = (random.random((64, n), np.float32) for n in (96, 1, 160))
    x, y, z = (lt.tensor(v, device=device) for v in (a, b, c))
    np.testing.assert_array_equal(lt.cat([x, y, z], 1).numpy(), np.concatenate([a, b, c], 1))
    np.testing.assert_array_equal(lt.stack([x * 2, x + 1, x], 1).numpy(),
                                  np.stack([a * 2, a + 1, a], 1))
    np.testing.assert_array_equal(x.roll(17, 0).numpy(), np.roll(a, 17, 0))
    np.testing.assert_array_equal(lt.nn.functional.pad(x, (0, 0, 64, 32)).numpy(),
                                  np.pad(a, ((64, 32), (0, 0))))
    x[16:48] = z[16:48, :96] * 3
    a[16:48] = c[16:48, :96] * 3
    np.testing.assert_array_equal(x.numpy(), a)


def test_sizes_that_vary_are_joined_in_one_nest() -> None:
    joined = lt.jit(lambda x, y: lt.cat([x, y], 0), dynamic={"x": {0: lt.Dim("n", 1, 512)}})
    y = lt.rand(200, 64)
    for n in (200, 3, 512, 77):
        x = lt.rand(n, 64)
        np.testing.assert_array_equal(joined(x, y).numpy(), np.concatenate([x.numpy(), y.numpy()]))


def test_what_is_not_read_is_not_looked_for_far_away() -> None:
    """Loads that a gate keeps from reading are at the start of their array then: where there is no
    memory, processors take hundreds of cycles for them."""
    kernel = kernel_of([cat([leaf(1, 512, 1024), leaf(2, 512, 1024)], 0)], 1 << 19, 1 << 19)
    one = generate(replace(kernel, decisions=Given("vector(i1:8)")), AVX2).source
    held = re.findall(r"select i1 %\w+, i64 %\w+, i64 0$", one, re.MULTILINE)
    assert len(held) == one.count("call <8 x float> @llvm.masked.load") == 2
    x = leaf(1, 64, 64)
    near = generate(replace(kernel_of([move(Op.PAD, x, ((1, 1), (0, 0)))], 1 << 12),
                            decisions=Given("vector(i1:8)")), AVX2).source
    assert "masked.load" in near and "select i1" not in near
