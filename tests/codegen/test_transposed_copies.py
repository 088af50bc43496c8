"""Copies and sums that read an array across its rows: registers hold squares that are read along
the rows and transposed, and the result is NumPy's."""
from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import computed

import lazyten as lt
from lazyten.codegen.instructions.builder import Builder
from lazyten.codegen.instructions.instructions import Lanes, Shuffle, Value
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Given, Kernel, Slot
from lazyten.ir.node import make, move, reshape
from lazyten.ir.ops import Op

SIZES = st.integers(1, 20) | st.sampled_from([31, 32, 33, 64, 65, 100])
DTYPES = [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.bool_]


@pytest.mark.slow
@given(shape=st.lists(SIZES, min_size=2, max_size=3), dtype=st.sampled_from(DTYPES),
       data=st.data())
@examples(40)
def test_permuted_copies_match_numpy(shape: list[int], dtype: type, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    values = (np.arange(np.prod(shape)) * 7 % 251).astype(dtype).reshape(shape)
    copy = lt.tensor(values, device="cpu").permute(*order).contiguous()
    np.testing.assert_array_equal(copy.numpy(), values.transpose(order))


@pytest.mark.slow
@given(m=SIZES, n=SIZES, flip=st.booleans(), start=st.integers(0, 3))
@examples(30)
def test_sums_with_a_transpose_of_a_part_match_numpy(m: int, n: int, flip: bool,
                                                     start: int) -> None:
    rng = np.random.default_rng(m * 100 + n)
    a, b = rng.normal(size=(m, n)), rng.normal(size=(n + start, m))
    part, expected = lt.tensor(b, device="cpu")[start:], b[start:]
    if flip:
        part, expected = part.flip(0), expected[::-1]
    np.testing.assert_array_equal((lt.tensor(a, device="cpu") + part.T).numpy(), a + expected.T)


def transposed_copy(rows: int, columns: int, dtype: dt.DType = dt.float32) -> Generated:
    """The code of a kernel that stores the transpose of a (rows, columns) array."""
    size = rows * columns
    source = reshape(make(Op.BUFFER, dtype, (), Slot(1, size)), (rows, columns))
    return generate(Kernel("copy", (move(Op.PERMUTE, source, (1, 0)),), ((dtype, size),)), AVX2)


@pytest.mark.parametrize(("dtype", "lanes", "line"), [(dt.float32, 8, 16), (dt.float64, 4, 8)])
def test_a_transpose_reads_whole_lines_and_exchanges_rows_and_lanes(
        dtype: dt.DType, lanes: int, line: int) -> None:
    code = transposed_copy(320, 640, dtype)
    assert code.loops.startswith(f"tile(i0:{line}) vector(i1:{lanes})")
    assert code.source.count("insertelement") == 0
    shuffles = code.source.count("shufflevector")
    assert shuffles == line * (lanes.bit_length() - 1)
    assert code.source.count(" @llvm.arithmetic.fence.") == shuffles  # LLVM takes each as it is


def test_a_transpose_of_few_columns_is_read_lane_by_lane() -> None:
    assert "shufflevector" not in transposed_copy(320, 6).source


@pytest.mark.parametrize("around", [((0, 0), (0, 0)), ((1, 0), (0, 0)), ((0, 3), (0, 0)),
                                    ((0, 0), (2, 0)), ((0, 0), (0, 1)), ((2, 1), (1, 2))], ids=str)
@pytest.mark.parametrize("line", ["tile(i0:8) vector(i1:8)", "tile(i0:16) vector(i1:8)",
                                  "tile(i0:4) vector(i1:4)", "tile(i0:3) vector(i1:8)"])
def test_padded_transposes_are_right_in_any_tile(line: str,
                                                 around: tuple[tuple[int, int], ...]) -> None:
    values = np.arange(1, 22 * 31 + 1, dtype=np.float32).reshape(22, 31)
    source = reshape(make(Op.BUFFER, dt.float32, (), Slot(1, values.size)), values.shape)
    copy = move(Op.PERMUTE, move(Op.PAD, source, around), (1, 0))
    kernel = Kernel("copy", (copy,), ((dt.float32, values.size),), decisions=Given(line))
    found = computed(kernel, [values]).reshape(copy.shape)
    np.testing.assert_array_equal(found, np.pad(values, around).T)


@pytest.mark.parametrize("dtype", [dt.uint8, dt.int16, dt.int32, dt.float64],
                         ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_squares_of_any_power_of_two_are_transposed(n: int, dtype: dt.DType) -> None:
    """Each step moves lanes within groups of 16 bytes, or groups as they are: one instruction."""
    build = Builder()
    rows = [build.lanes(tuple(n * i + j for j in range(n)), dtype) for i in range(n)]
    columns = build.transpose(rows)
    contents: dict[Value, tuple[int, ...]] = {}
    group = min(16 // dtype.itemsize, n)
    for item in build.root.items:
        if isinstance(item, Lanes):
            contents[item.out] = item.values
        elif isinstance(item, Shuffle):
            both = contents[item.first] + contents[item.second]
            contents[item.out] = tuple(both[i] for i in item.order)
            assert (all(o % n // group == i // group for i, o in enumerate(item.order))
                    or all(o % group == i % group for i, o in enumerate(item.order)))
    assert [contents[c] for c in columns] == [tuple(n * i + j for i in range(n)) for j in range(n)]
