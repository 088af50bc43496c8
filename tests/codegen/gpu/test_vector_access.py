"""Vectors in memory on GPUs: neighbours are one access exactly where that is aligned."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import cuda_on_cpu
import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from loop_nodes import loop, op
from loop_values import evaluate_at, grid
from opencl_grid import GROUPS
from work_group_cases import GPU, Array, Case, case, check_results, decided_cases, zeros

import lazyten as lt
from lazyten.codegen.instructions.congruence import congruence_of
from lazyten.codegen.instructions.instructions import (
    Address,
    Barrier,
    Block,
    Constant,
    Function,
    Store,
    Value,
    VectorStore,
)
from lazyten.codegen.instructions.vector_access import vectorize_accesses
from lazyten.codegen.loops.ranges import minimum
from lazyten.codegen.pipeline import generate
from lazyten.execution.plans.graph import Graph
from lazyten.frontend.recorded import lookup
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import Node, index
from lazyten.ir.ops import Op
from lazyten.runtimes.contract import Runtime
from lazyten.schedule.schedule import schedule
from lazyten.storage.device import executor

Program = tuple[Array, int, int, int]
CUDA = replace(GPU, language="cuda", busy_warps=1)
"""Few work items keep it busy, as large arrays' many do others."""
on_cpu = pytest.mark.skipif(cuda_on_cpu.missing() is not None, reason=cuda_on_cpu.missing() or "")


# ---- what is proved ------------------------------------------------------------------------------

@st.composite
def positions(draw: st.DrawFn, ranges: list[Node]) -> Node:
    """Random index arithmetic."""
    made: list[Node] = list(ranges)
    for _ in range(draw(st.integers(1, 8))):
        a, b = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        n = draw(st.sampled_from([-25, -1, 1, 2, 3, 4, 8, 12, 64]))
        which = draw(st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.IDIV, Op.MOD, Op.NOT,
                                      Op.NEG, Op.WHERE]))
        if which in (Op.IDIV, Op.MOD):
            made.append(op(which, a, abs(n)))
        elif which in (Op.NOT, Op.NEG):
            made.append(op(which, a))
        elif which is Op.WHERE:
            made.append(op(which, op(Op.CMPLT, a, n), a, b))
        else:
            made.append(op(which, a, draw(st.sampled_from([b, index(n)]))))
    return made[-1]


@pytest.mark.slow
@given(data=st.data())
@examples(200)
def test_all_values_of_an_index_have_the_remainder_that_is_proved(data: st.DataObject) -> None:
    ranges = [loop(0, 5), loop(1, 9), op(Op.MUL, loop(2, 3), 4)]
    root = data.draw(positions(ranges))
    leaves = grid([loop(0, 5), loop(1, 9), loop(2, 3)])
    modulus, remainder = congruence_of(root)
    assert set(evaluate_at(root, leaves) % modulus) == {remainder}


def test_a_block_that_overlaps_the_one_before_starts_at_a_multiple() -> None:
    start = minimum(op(Op.MUL, loop(0, 5), 64), index(280 - 64))
    assert congruence_of(op(Op.ADD, start, op(Op.MUL, loop(1, 16), 4))).is_multiple(4)
    start = minimum(op(Op.MUL, loop(0, 5), 64), index(282 - 64))
    assert congruence_of(start) == (2, 0)


# ---- how often memory is accessed ----------------------------------------------------------------

def accesses(kernel: Kernel, slot: int | str) -> list[int]:
    """The elements of each access to an argument, or to a local array, in the text."""
    array = slot if isinstance(slot, str) else f"p{slot}"
    text = generate(kernel, CUDA).source
    wide = re.findall(rf"(\d) \*\)\({array}\b", text)
    return sorted([*map(int, wide), *(1 for _ in re.findall(rf"\b{array}\[[xi]", text))])


def decided(kernel: Kernel, text: str) -> Kernel:
    return replace(kernel, decisions=Given(text))


@pytest.mark.parametrize(("dtype", "widths"), [
    (dt.float32, [4]), (dt.int32, [4]), (dt.float64, [2]), (dt.int64, [2]),
    (dt.float16, [4]), (dt.bfloat16, [4]), (dt.uint8, [4]), (dt.bool_, [4])],
    ids=lambda v: getattr(v, "name", None))
def test_a_large_map_reads_and_writes_neighbours_at_a_time(dtype: DType,
                                                           widths: list[int]) -> None:
    x = lt.zeros(1 << 12, dtype=dtype).contiguous().realize()
    kernel = kernel_of(x.where(x != 0, x + x) if dtype is dt.bool_ else x + x)
    assert accesses(kernel, 0) == accesses(kernel, 1) == widths


def kernel_of(value: lt.Tensor) -> Kernel:
    """The one kernel that computes a value."""
    graph = Graph([value._storage.value], value.device)
    step, = schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers]).steps
    return step.kernel


@pytest.mark.parametrize(("columns", "widths"), [(64, [4]), (66, [2, 2]), (65, [1, 1, 1, 1])])
def test_rows_are_accessed_by_what_divides_their_length(columns: int, widths: list[int]) -> None:
    kernel = case(lambda a, b: a + b, zeros(64, columns), zeros(64, 1)).kernel
    kernel = decided(kernel, "vector(i1:4) parallel(i0*i1:1)")
    assert accesses(kernel, 0) == accesses(kernel, 1) == widths
    assert accesses(kernel, 2) == [1]


def test_arguments_that_start_anywhere_are_read_one_by_one() -> None:
    kernel = case(lambda a, b: a + b, zeros(4096), zeros(4096)).kernel
    kernel = decided(kernel, "vector(i0:4) parallel(i0:1)")
    assert [accesses(kernel, slot) for slot in range(3)] == [[4], [4], [4]]
    kernel = replace(kernel, unaligned=(2,))
    assert [accesses(kernel, slot) for slot in range(3)] == [[4], [4], [1] * 4]


def test_an_offset_that_is_known_decides_how_wide_accesses_are() -> None:
    def widths(first: int) -> list[int]:
        lookup.forget()  # views that begin elsewhere each time begin nowhere
        kernel = case(lambda a: a[first:first + 4096] + a[:4096], zeros(4096 + 64)).kernel
        return accesses(decided(kernel, "vector(i0:4) parallel(i0:1)"), 1)
    assert [widths(n) for n in (8, 6, 5)] == [[4, 4], [2, 2, 4], [1, 1, 2, 4]]


def test_a_product_copies_and_reads_local_memory_by_fours() -> None:
    kernel = decided(case(lambda a, b: a @ b, zeros(64, 64), zeros(64, 64)).kernel,
                     "vector(i0:4, i1:4) local(i0:8, i1:8) group(r0.2:16) "
                     "stage(argument 1, local) stage(argument 2, local) parallel(i0*i1:1)")
    assert accesses(kernel, 0) == [4] * 4
    assert accesses(kernel, 1) == accesses(kernel, 2) == [4, 4]
    assert accesses(kernel, "l0") == [1] * 8 + [4]  # a column of four is stored one by one
    assert accesses(kernel, "l1") == [4, 4, 4]


def test_the_rows_of_a_softmax_are_read_by_fours() -> None:
    kernel = case(lambda a: a.softmax(1), zeros(2048, 1024)).kernel
    stored, read = (accesses(kernel, slot) for slot in (0, 1))
    assert stored == read == [4] * len(read)  # each once


def test_the_position_of_a_vector_is_added_up_before_it_is_a_pointer() -> None:
    """Rows from the last one up have a base below 0, which no unsigned number of 32 bits is."""
    kernel = case(lambda a: a.flip(0) * 2, zeros(64, 64)).kernel
    text = generate(decided(kernel, "vector(i1:4) parallel(i0*i1:1)"), CUDA).source
    down, = re.findall(r"uint (\w+) = \w+ \* \(-64u\);", text)
    base, = re.findall(rf"uint (\w+) = {down} \+ \w+;", text)
    wide, = re.findall(rf"ulong (\w+) = \(ulong\)\(long\)\(int\){base};", text)
    assert f"(p1 + ({wide} + 4032))" in text


@pytest.mark.parametrize("value", [lambda x: lt.nn.functional.pad(x.flip(1), (2, 0)),
                                   lambda x: lt.nn.functional.max_pool1d(x, 3, 1, 1)])
def test_an_element_beside_one_that_is_left_out_has_an_address_of_its_own(
        value: Callable[[lt.Tensor], lt.Tensor]) -> None:
    """In 32 unsigned bits what is left out at -1 would be 4 billion elements away, and NVIDIA's
    compiler counts from there to the neighbours."""
    text = generate(case(value, zeros(3, 8)).kernel, CUDA).source
    read = re.findall(r"p1\[(x\d+)[^]]*\]", text)
    assert read
    assert all(f"ulong {base} =" in text for base in read)


@pytest.mark.parametrize("between", [Barrier(), None])
@pytest.mark.parametrize("is_local", [False, True])
def test_stores_on_both_sides_of_a_barrier_stay_apart(between: Barrier | None,
                                                      is_local: bool) -> None:
    """Other items may read what is before it in between."""
    value = Value(0, dt.float32, 1)
    stores = [Store(Address(0, None, n, is_local=is_local), value) for n in range(4)]
    items = [Constant(value, 1.0), *stores[:2], *([between] if between else []), *stores[2:]]
    params = ((dt.float32, 4),)
    function = Function("f", params, Block(0, items), 0, 32, params if is_local else ())
    found = [len(i.values) if isinstance(i, VectorStore) else 0
             for i in vectorize_accesses(function).body.items]
    assert found == ([0, 2, 0, 2] if between else [0, 4])


# ---- values --------------------------------------------------------------------------------------

DTYPES = st.sampled_from([dt.float32, dt.float64, dt.int16, dt.uint8, dt.int64, dt.bool_])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """An array of some type, two offsets into it, and a length."""
    dtype = draw(DTYPES)
    length = draw(st.sampled_from([256, 260, 510, 511]))
    rows = draw(st.integers(1, 3))
    values = np.random.default_rng(length).integers(0, 2 if dtype is dt.bool_ else 9,
                                                    (rows + 3, length + 8))
    return values.astype(dtype.numpy), draw(st.integers(1, 8)), draw(st.integers(0, 3)), rows


def values_of(drawn: list[Program], device: str) -> list[bytes]:
    found = []
    for array, column, row, rows in drawn:
        flat = lt.tensor(array.reshape(-1), device=device)
        x = lt.tensor(array, device=device)
        part = x[row:row + rows, column:column + array.shape[1] - 8]
        later = flat[column:column + 640]
        found += [(later + later).realize(), later + flat[:640], part + x[:rows, :part.shape[1]],
                  part.float().sum(1), part.T.contiguous() + 1, x.float().softmax(1) > 0.1]
    lt.realize(*found)
    return [t.numpy().tobytes() for t in found]


@pytest.mark.slow
@pytest.mark.parametrize("on", [pytest.param(cuda_on_cpu.NAME, marks=on_cpu),
                                pytest.param(GROUPS, marks=pytest.mark.opencl)])
@given(drawn=st.lists(programs(), min_size=2, max_size=2))
@examples(2)
def test_views_from_any_element_on_have_the_interpreters_bits(
        on: str, drawn: list[Program]) -> None:
    runtime = executor(on)
    assert isinstance(runtime, Runtime)
    with mock.patch.object(runtime, "target", replace(runtime.target, busy_warps=1)):
        assert values_of(drawn, on) == values_of(drawn, "interpreter")


@pytest.mark.slow
@on_cpu
@given(found=decided_cases())
@examples(2)
def test_with_any_decisions_all_accesses_are_aligned(found: list[Case]) -> None:
    check_results(found, cuda_on_cpu.NAME)


@pytest.mark.slow
@on_cpu
def test_the_same_part_of_two_rows_is_two_kernels_only_where_one_is_not_aligned() -> None:
    def kernels(width: int) -> set[tuple[int, ...]]:
        x = lt.tensor(np.ones((8, width), np.float32), device=cuda_on_cpu.NAME)
        with lt.testing.watch_kernels() as seen:
            for i in range(1, 6):
                (x[i] * 2).realize()
        return {s.kernel.unaligned for _, made in seen.schedules for s in made.steps}
    assert kernels(8) == {()}
    assert kernels(6) == {(), (1,)}
