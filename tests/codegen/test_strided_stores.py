"""Lanes that are far apart: stored by one instruction after a long loop, else one by one; read by
one where their places are computed. And pointers that many addresses are counted from, which LLVM
is kept from looking through."""
from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_checks import computed

from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given, Kernel, Slot
from lazyten.ir.node import Node, expand, make, move, reduce, reshape
from lazyten.ir.ops import Op

ROWS, COLUMNS = 16, 5


def product(long: int, dtype: DType) -> Kernel:
    """A @ B for A of `long` columns, with lanes along the rows of the result."""
    def operand(slot: int, shape: tuple[int, int]) -> Node:
        size = shape[0] * shape[1]
        return reshape(make(Op.BUFFER, dtype, (), Slot(slot, size)), shape)
    whole = ROWS, COLUMNS, long
    a = expand(reshape(operand(1, (ROWS, long)), (ROWS, 1, long)), whole)
    b = move(Op.PERMUTE, operand(2, (long, COLUMNS)), (1, 0))
    b = expand(reshape(b, (1, COLUMNS, long)), whole)
    total = reduce(make(Op.MUL, dtype, (a, b)), Op.ADD, [2])
    return Kernel("product", (reshape(total, (ROWS, COLUMNS)),),
                  ((dtype, ROWS * long), (dtype, long * COLUMNS)),
                  decisions=Given("tile(i1:3) vector(i0:8)"))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.int64, dt.uint8],
                         ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("long", [511, 512])
def test_lanes_stored_far_apart_are_where_they_belong(long: int, dtype: DType) -> None:
    kernel = product(long, dtype)
    scatters = generate(kernel, AVX2).source.count("call void @llvm.masked.scatter")
    assert scatters == (3 if long >= 512 else 0)  # neighbours so few are not stored as vectors
    random = np.random.default_rng(long)
    inputs = [random.integers(0, 5, size).astype(dtype.numpy) for _, size in kernel.inputs]
    result = computed(kernel, inputs)
    expected = inputs[0].reshape(ROWS, long) @ inputs[1].reshape(long, COLUMNS)
    np.testing.assert_array_equal(result.reshape(ROWS, COLUMNS), expected)


def sums(rows: int, columns: int, dtype: DType, decisions: str) -> Kernel:
    """Three matrices stored as one, of which each element is added to the sum of a row, with lanes
    along rows."""
    size = rows * columns
    added = reshape(make(Op.BUFFER, dtype, (), Slot(1, size)), (rows, columns))
    summed = reshape(make(Op.BUFFER, dtype, (), Slot(2, 9 * rows)), (rows, 1, 9))
    total = reshape(reduce(expand(summed, (rows, columns, 9)), Op.ADD, [2]), (rows, columns))
    return Kernel("sums", (make(Op.ADD, dtype, (added, total)),),
                  ((dtype, size), (dtype, 9 * rows)), decisions=Given(decisions))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int16, dt.int64, dt.uint8],
                         ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("run", [3, 4, 5, 7, 8, 12, 14])
def test_neighbours_of_lanes_far_apart_are_read_and_stored_as_vectors(
        run: int, lanes: int, dtype: DType) -> None:
    columns = 2 * run
    kernel = sums(16, columns, dtype, f"tile(i1:{run}) vector(i0:{lanes})")
    text = generate(kernel, AVX2).source
    assert ("extractelement" not in text and "scatter" not in text) is (run >= 4)
    random = np.random.default_rng(run)
    inputs = [random.integers(0, 9, size).astype(dtype.numpy) for _, size in kernel.inputs]
    expected = inputs[0].reshape(16, columns) + inputs[1].reshape(16, 1, 9).sum(2, dtype.numpy)
    np.testing.assert_array_equal(computed(kernel, inputs).reshape(16, columns), expected)


@pytest.mark.parametrize("columns", [4, 5, 7])
def test_neighbours_along_two_axes_of_a_register_tile_are_stored_as_one_run(columns: int) -> None:
    kernel = images(columns)
    text = generate(kernel, AVX2).source
    assert "extractelement" not in text
    x, w = (np.random.default_rng(columns).integers(0, 9, size).astype(np.float32)
            for _, size in kernel.inputs)
    expected = np.einsum("cn,cm->mn", x.reshape(6, 3 * columns), w.reshape(6, 8))
    np.testing.assert_array_equal(computed(kernel, [x, w]).reshape(expected.shape), expected)


def images(columns: int) -> Kernel:
    """8 filters of 6 channels each, of one pixel, over an image of 3 rows."""
    whole = 8, 3, columns, 6
    x = reshape(make(Op.BUFFER, dt.float32, (), Slot(1, 18 * columns)), (6, 3, columns, 1))
    w = reshape(make(Op.BUFFER, dt.float32, (), Slot(2, 48)), (6, 1, 1, 8))
    x, w = expand(move(Op.PERMUTE, x, (3, 1, 2, 0)), whole), expand(
        move(Op.PERMUTE, w, (3, 1, 2, 0)), whole)
    total = reshape(reduce(make(Op.MUL, dt.float32, (x, w)), Op.ADD, [3]), (8, 3 * columns))
    return Kernel("images", (total,), ((dt.float32, 18 * columns), (dt.float32, 48)),
                  decisions=Given(f"tile(i1:{3 * columns}) vector(i0:8)"))


def padded(dtype: DType) -> Kernel:
    """A transposed matrix with zeros around its columns, with lanes along these."""
    size = ROWS * COLUMNS
    matrix = reshape(make(Op.BUFFER, dtype, (), Slot(1, size)), (ROWS, COLUMNS))
    around = move(Op.PAD, move(Op.PERMUTE, matrix, (1, 0)), ((0, 0), (1, 2)))
    return Kernel("padded", (around,), ((dtype, size),), decisions=Given("vector(i1:8)"))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.int64, dt.uint8, dt.bool_],
                         ids=lambda dtype: dtype.name)
def test_lanes_that_are_masked_and_far_apart_are_read_by_one_instruction(dtype: DType) -> None:
    kernel = padded(dtype)
    text = generate(kernel, AVX2).source
    assert ("call <8 x " in text and "@llvm.masked.gather" in text) is (dtype.itemsize >= 4)
    assert ("extractelement <8 x i64>" in text) is (dtype.itemsize < 4)
    given = np.random.default_rng(1).integers(1, 5, ROWS * COLUMNS).astype(dtype.numpy)
    matrix = given.reshape(ROWS, COLUMNS).T
    np.testing.assert_array_equal(computed(kernel, [given]).reshape(COLUMNS, ROWS + 3),
                                  np.pad(matrix, ((0, 0), (1, 2))))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.uint8],
                         ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("before", [0, 3])
def test_lanes_that_are_masked_and_run_backwards_are_one_load(before: int, dtype: DType) -> None:
    rows = reshape(make(Op.BUFFER, dtype, (), Slot(1, 8 * 21)), (8, 21))
    around = move(Op.PAD, move(Op.FLIP, rows, (1,)), ((0, 0), (before, 5)))
    kernel = Kernel("backwards", (around,), ((dtype, 8 * 21),), decisions=Given("vector(i1:8)"))
    text = generate(kernel, AVX2).source
    assert ("@llvm.masked.load" in text and "gather" not in text) is (dtype.itemsize >= 4)
    given = np.random.default_rng(1).integers(1, 5, 8 * 21).astype(dtype.numpy)
    np.testing.assert_array_equal(computed(kernel, [given]).reshape(8, -1), np.pad(
        given.reshape(8, 21)[:, ::-1], ((0, 0), (before, 5))))


def test_lanes_whose_places_are_read_are_loaded_one_by_one() -> None:
    places = make(Op.BUFFER, dt.int64, (), Slot(2, 64))
    x = make(Op.BUFFER, dt.float32, (), Slot(1, 64))
    gathered = make(Op.GATHER, dt.float32, (x, places), 0)
    kernel = Kernel("gathered", (gathered,), ((dt.float32, 64), (dt.int64, 64)),
                    decisions=Given("vector(i0:4)"))
    text = generate(kernel, AVX2).source
    assert text.count("extractelement <4 x i64>") == 4 and "gather.v4" not in text
    given = np.random.default_rng(2).random(64, np.float32)
    at = np.random.default_rng(3).integers(0, 64, 64)
    np.testing.assert_array_equal(computed(kernel, [given, at]), given[at])


def test_a_pointer_that_many_addresses_are_counted_from_is_made_once_and_frozen() -> None:
    text = generate(product(8, dt.float32), AVX2).source
    frozen = re.findall(r"(%\w+) = freeze ptr (%[\w.]+)", text)
    assert frozen
    for name, made in frozen:
        assert made == f"{name}.in"
        assert text.count(f"{made} = getelementptr") == 1
        assert text.count(f"getelementptr float, ptr {name},") >= 3


TURNS = {2: "tile(i1:2) vector(i0:8)", 4: "tile(i1:4) vector(i0:8)"}


def in_turns(rows: int, count: int, dtype: DType, decisions: str | None = None) -> Kernel:
    """The transpose of a matrix of `count` rows."""
    size = rows * count
    matrix = reshape(make(Op.BUFFER, dtype, (), Slot(1, size)), (count, rows))
    given = None if decisions is None else Given(decisions)
    return Kernel("turns", (move(Op.PERMUTE, matrix, (1, 0)),), ((dtype, size),), decisions=given)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.int64, dt.uint8, dt.bool_],
                         ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("rows", [8, 21, 64])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_lanes_that_take_turns_in_memory_are_stored_as_wholes(count: int, rows: int,
                                                              dtype: DType) -> None:
    decisions = TURNS.get(count, "tile(i1:3) vector(i0:8)")
    for given_to in (decisions, None, "tile(i1:2) vector(i0:8)"):
        kernel = in_turns(rows, count, dtype, given_to)
        random = np.random.default_rng(rows)
        given = random.integers(0, 9, rows * count).astype(dtype.numpy)
        matrix = given.reshape(count, rows)
        np.testing.assert_array_equal(computed(kernel, [given]).reshape(rows, count),
                                      matrix.T)
    text = generate(in_turns(rows, count, dtype, decisions), AVX2).source
    assert (text.count("store <8 x ") == count) is (count in TURNS)
    assert (text.count("store volatile") == 8 * count) is (count not in TURNS)


def test_the_model_takes_whole_vectors_before_single_lanes() -> None:
    for count in TURNS:
        kernel = in_turns(4096, count, dt.float32)
        assert f"i1.1     unroll  {count}" in generate(kernel, AVX2).loops
        assert "store volatile" not in generate(kernel, AVX2).source


@pytest.mark.parametrize(("columns", "tile", "asks"), [(600, "tile(i0:6, i1:2)", 1),
                                                       (600, "tile(i0:2, i1:2)", 0),
                                                       (16, "tile(i0:6, i1:2)", 0)])
def test_a_register_tile_asks_for_what_it_is_going_to_read_of_a_large_array(
        columns: int, tile: str, asks: int) -> None:
    """Once for each line, not where sums are few or the first cache has it all."""
    shape = 12, columns, 32
    a = expand(reshape(make(Op.BUFFER, dt.float32, (), Slot(1, 12 * columns)), (12, columns, 1)),
               shape)
    b = expand(reshape(make(Op.BUFFER, dt.float32, (), Slot(2, 32 * columns)), (1, columns, 32)),
               shape)
    total = reshape(reduce(make(Op.MUL, dt.float32, (a, b)), Op.ADD, [1]), (12, 32))
    kernel = Kernel("product", (total,), ((dt.float32, 12 * columns), (dt.float32, 32 * columns)),
                    decisions=Given(f"{tile} vector(i1:8)"))
    assert generate(kernel, AVX2).source.count("call void @llvm.prefetch") == asks
    x, y = (np.random.default_rng(1).integers(0, 4, size).astype(np.float32)
            for _, size in kernel.inputs)
    np.testing.assert_array_equal(computed(kernel, [x, y]).reshape(12, 32),
                                  x.reshape(12, columns) @ y.reshape(columns, 32))
