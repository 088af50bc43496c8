"""GATHER and SCATTER: their values on all devices, their memory and what they cost."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_counts import examples
from graphs import compute, expressions, leaf
from guarded_memory import check as check_guarded
from guarded_memory import leaf as slot_leaf
from hypothesis import example, given
from hypothesis import strategies as st
from slow_rows import slow_but
from tensor_values import as_tensor, assert_same

import lazyten as lt
from lazyten.execution import debug
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.making import plan_of
from lazyten.ir import dtype as dt
from lazyten.ir.evaluation import gather as gather_reference
from lazyten.ir.evaluation import scatter as scatter_reference
from lazyten.ir.node import (
    Node,
    elementwise,
    gather,
    reduce,
    reshape,
    scatter,
    substitute,
    toposort,
)
from lazyten.ir.ops import Op

Array = np.ndarray[Any, Any]
DTYPES = [dt.float32, dt.int64, dt.int8, dt.bool_, dt.float16, dt.bfloat16, dt.float64]
COMBINERS = [None, Op.ADD, Op.MAX]


@st.composite
def lines(draw: st.DrawFn, least: int = -3) -> tuple[Array, int, Array]:
    """(an array of small whole numbers, an axis, positions on it, some of them outside)."""
    shape = tuple(draw(st.lists(st.integers(1, 5) | st.sampled_from([8, 17]), min_size=1,
                                max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.integers(1, 9) | st.sampled_from([16, 33]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    wide = (*shape[:axis], count, *shape[axis + 1:])
    index_shape = wide if draw(st.booleans()) else tuple(
        n if a == axis else 1 for a, n in enumerate(wide))
    index = rng.integers(least, shape[axis] + 3, index_shape)
    return rng.integers(-3, 4, shape).astype(np.float64), axis, np.broadcast_to(index, wide)


def reference_gather(x: Array, axis: int, index: Array) -> Array:
    """GATHER, one element after the other."""
    out = np.zeros(index.shape, x.dtype)
    for place in np.ndindex(*index.shape):
        if 0 <= index[place] < x.shape[axis]:
            out[place] = x[(*place[:axis], index[place], *place[axis + 1:])]
    return out


def reference_scatter(base: Array, axis: int, combiner: Op | None, index: Array,
                      values: Array) -> Array:
    """SCATTER, one element after the other."""
    out = base.copy()
    for place in np.ndindex(*index.shape):
        if 0 <= index[place] < base.shape[axis]:
            to = (*place[:axis], index[place], *place[axis + 1:])
            old, new = out[to], values[place]
            out[to] = new if combiner is None else old + new if combiner is Op.ADD else max(old,
                                                                                           new)
    return out


@given(line=lines())
def test_the_interpreter_s_gather_and_scatter_are_the_plain_loops(
        line: tuple[Array, int, Array]) -> None:
    x, axis, index = line
    assert_same(gather_reference(x, axis, index), reference_gather(x, axis, index))
    values = np.arange(index.size, dtype=np.float64).reshape(index.shape)
    for combiner in COMBINERS:
        assert_same(scatter_reference(x, axis, combiner, index, values),
                    reference_scatter(x, axis, combiner, index, values))


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@given(line=lines(), index_dtype=st.sampled_from([dt.int8, dt.int32, dt.int64]))
@examples(12)
def test_gather_and_scatter_of_every_dtype_match_the_plain_loops(
        dtype: dt.DType, line: tuple[Array, int, Array], index_dtype: dt.DType) -> None:
    x, axis, index = line
    x = (x != 0) if dtype is dt.bool_ else x.astype(dtype.compute)
    source = leaf(x, dtype, "cpu")
    positions = leaf(index.astype(index_dtype.numpy), index_dtype, "cpu")
    got = compute(gather(source, axis, positions), "cpu")
    assert_same(got, reference_gather(x, axis, index))
    values = np.random.default_rng(1).integers(0, 2, index.shape).astype(dtype.compute)
    for combiner in (None, Op.MAX) if dtype is dt.bool_ else COMBINERS:
        node = scatter(source, axis, positions, leaf(values, dtype, "cpu"), combiner)
        assert_same(compute(node, "cpu"), reference_scatter(x, axis, combiner, index, values))


@given(data=st.data(), line=lines())
@examples(60)
def test_gathers_and_scatters_fuse_with_what_is_around_them(data: st.DataObject,
                                                            line: tuple[Array, int, Array]) -> None:
    """Random expressions before and behind, the index computed as well, on both devices."""
    x, axis, index = line
    x, index = x.astype(np.float32), np.array(index)
    inner_seed, outer_seed = data.draw(st.integers(0, 99)), data.draw(st.integers(0, 99))
    combiner = data.draw(st.sampled_from(COMBINERS))
    results: list[Array] = []
    leaves: dict[str, tuple[Node, Node]] = {
        d: (leaf(x, dt.float32, d), leaf(index, dt.int64, d)) for d in ("cpu", "interpreter")}
    slots = [slot_leaf(0, x.shape, dt.float32), slot_leaf(1, index.shape, dt.int64)]
    before = data.draw(expressions(dt.float32, [slots[0]], 3))
    source = before if before.shape == x.shape else slots[0]
    position = elementwise(Op.MAX, slots[1], elementwise(Op.NEG, slots[1]))
    middle = gather(source, axis, position)
    if inner_seed % 2:
        middle = scatter(source, axis, slots[1], middle, combiner)
    after = data.draw(expressions(dt.float32, [middle], 4 if outer_seed % 2 else 1))
    for device, (a, b) in leaves.items():
        flat = {slots[0].src[0] if slots[0].src else slots[0]: a.src[0] if a.src else a,
                slots[1].src[0] if slots[1].src else slots[1]: b.src[0] if b.src else b}
        results.append(compute(replaced(after, flat), device))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)


def replaced(node: Node, leaves: dict[Node, Node]) -> Node:
    """The node over other leaves."""
    return substitute([node], leaves)[0]


def test_loops_are_merged_only_where_the_index_of_an_index_allows_it() -> None:
    """The position on axis 0 varies along both other axes, which are one loop of the output."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 6, 16)).astype(np.float32)
    index = rng.integers(0, 7, (5, 6, 16))
    node = gather(leaf(x, dt.float32, "cpu"), 0, leaf(index, dt.int64, "cpu"))
    assert_same(compute(node, "cpu"), np.take_along_axis(x, index, 0))


@pytest.mark.few(1)
def test_an_index_may_be_computed_by_a_reduction_and_by_another_gather(device: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 9)).astype(np.float32), rng.integers(0, 6, 9)
    x, i = as_tensor(a, device), as_tensor(b, device)
    assert_same(x.take_along_dim(x.argmax(1, keepdim=True), 1).numpy()[:, 0], a.max(1))
    assert_same(x[i[i]].numpy(), a[b[b]])
    deep, expected = i, b
    for _ in range(40):
        deep, expected = i[deep], b[expected]
    assert_same(x[deep].numpy(), a[expected])


# ---- memory --------------------------------------------------------------------------------------

@pytest.mark.slow
@pytest.mark.parametrize("at_end", [True, False])
@given(line=lines(), wild=st.sampled_from([0, 10**6, -10**6, 2**62, -2**63]))
@examples(25)
def test_no_index_makes_a_kernel_touch_memory_outside(at_end: bool, wild: int,
                                                      line: tuple[Array, int, Array]) -> None:
    x, axis, index = line
    x, index = x.astype(np.float32), np.array(index)
    index.flat[::3] += wild
    source = slot_leaf(1, x.shape, dt.float32)
    positions = slot_leaf(2, index.shape, dt.int64)
    values = np.ones(index.shape, np.float32)
    dtypes = [dt.float32, dt.int64, dt.float32]
    check_guarded(gather(source, axis, positions), [x, index], dtypes[:2], at_end)
    summed = reduce(gather(elementwise(Op.NEG, source), axis, positions), Op.ADD, (axis,))
    check_guarded(summed, [x, index], dtypes[:2], at_end)
    for combiner in COMBINERS:
        node = scatter(source, axis, positions, slot_leaf(3, index.shape, dt.float32), combiner)
        check_guarded(node, [x, index, values], dtypes, at_end)


# ---- cost ----------------------------------------------------------------------------------------

def test_reading_rows_of_a_large_table_costs_what_the_rows_cost() -> None:
    """One kernel, without a loop over the table, also where the table is an expression."""
    table = lt.zeros(1_000_000, 8, device="cpu").contiguous().realize()
    index = as_tensor(np.arange(1000) * 999, "cpu")
    for source in (table, table * 2 + 1):
        graph = Graph([source[index].node], "cpu")
        steps = plan_of("cpu", graph).schedule.steps
        assert len(steps) == 1
        kernel = steps[0].kernel
        assert kernel.outputs[0].numel == 8000
        assert not any(n.op is Op.REDUCE for n in toposort(kernel.outputs))
    assert debug.flops(kernel) > 0


def test_the_gradient_of_a_row_costs_no_pass_over_the_table_for_each() -> None:
    table = lt.zeros(5000, 8, device="cpu").contiguous().realize().requires_grad_()
    index = as_tensor(np.arange(300), "cpu")
    gradient, = lt.grad((table[index] ** 2).sum(), [table])
    graph = Graph([gradient.node], "cpu")
    for step in plan_of("cpu", graph).schedule.steps:
        reduces = [n for n in toposort(step.kernel.outputs) if n.op is Op.REDUCE]
        assert all(n.src[0].numel <= 8 * 300 for n in reduces)


def test_costly_values_are_computed_before_they_are_scattered() -> None:
    """The loop that puts them in their places runs on one thread, without vectors."""
    a, b = (lt.ones(200, 300, device="cpu").contiguous().realize() for _ in range(2))
    index = as_tensor(np.arange(200) % 7, "cpu")
    for values in (a @ b.T, (a[:, :200] + 1).exp().sin()):
        graph = Graph([lt.zeros(7, 200, device="cpu").index_add(0, index, values).node], "cpu")
        kernels = [step.kernel for step in plan_of("cpu", graph).schedule.steps]
        assert [k.outputs[0].op is Op.SCATTER for k in kernels] == [False, True]


def test_large_scatters_run_in_order_and_give_the_same_bits_each_time() -> None:
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 50, 20_000), rng.normal(size=20_000).astype(np.float32)
    expected = np.zeros(50, np.float32)
    np.add.at(expected, index, values)
    for _ in range(2):
        got = lt.zeros(50).index_add(0, lt.tensor(index), lt.tensor(values)).numpy()
        assert got.tobytes() == expected.tobytes()


def test_reshaped_and_broadcast_sources_are_gathered_from(device: str) -> None:
    values = np.arange(24, dtype=np.float32)
    x = as_tensor(values, device)
    index = as_tensor([2, -1, 0], device)
    assert_same(x.reshape(4, 6).T[index].numpy(), values.reshape(4, 6).T[[2, -1, 0]])
    assert_same(x.reshape(2, 12)[:, ::5][:, index].numpy(),
                values.reshape(2, 12)[:, ::5][:, [2, -1, 0]])
    assert_same(x[:3].reshape(3, 1).expand(3, 5)[index].numpy(),
                np.broadcast_to(values[:3, None], (3, 5))[[2, -1, 0]])
    assert_same(x.pad((2, 2))[index].numpy(), np.pad(values, 2)[[2, -1, 0]])
    assert reshape(x.node, (24,)) is x.node


@pytest.mark.few(10)
@pytest.mark.parametrize("dtype", slow_but([lt.float64, lt.float32, lt.bool_, lt.int8, lt.float16],
                                           lt.float32, lt.bool_))
@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_places_known_in_advance_may_all_be_one(device: str, dtype: lt.DType, count: int) -> None:
    x = lt.tensor([[1, 0, 3], [0, 5, 6]], device=device).to(dtype)
    at = (lt.arange(count, device=device) * (1 / count)).floor().long() + 2
    wanted = x.numpy()[:, [2] * count]
    np.testing.assert_array_equal(x[:, at].numpy(), wanted)
    np.testing.assert_array_equal(x[:, at, None].expand(-1, -1, 2).flip(1).numpy()[..., 1], wanted)


@given(shape=st.tuples(*[st.integers(1, 9)] * 3), axis=st.integers(0, 2), count=st.integers(1, 12),
       reduce=st.sampled_from(("sum", "prod", "amax")), seed=st.integers(0, 999),
       dtype=st.sampled_from((lt.float32, lt.float16, lt.int64, lt.int16, lt.int8)))
@example(shape=(1, 2, 4), axis=1, count=7, reduce="sum", seed=0, dtype=lt.float32)
@example(shape=(2, 3, 64), axis=1, count=7, reduce="sum", seed=0, dtype=lt.float32)
@examples(15)
def test_values_are_combined_alike_on_all_devices(shape: tuple[int, int, int], axis: int,
                                                  count: int, reduce: str, seed: int,
                                                  dtype: Any, device: str) -> None:
    random = np.random.default_rng(seed)
    wide = (*shape[:axis], count, *shape[axis + 1:])
    base, values = (random.integers(-2, 3, s).astype(dtype.numpy) for s in (shape, wide))
    places = random.integers(0, shape[axis], count)
    index = lt.tensor(places, device=device).reshape([-1 if a == axis else 1 for a in range(3)])
    found = lt.tensor(base, device=device).scatter_reduce(
        axis, index.expand(wide), lt.tensor(values, device=device), reduce)
    combine = {"sum": np.add, "prod": np.multiply, "amax": np.maximum}[reduce]
    expected = np.moveaxis(base, axis, 0)
    for place, value in zip(places, np.moveaxis(values, axis, 0), strict=True):
        expected[place] = combine(expected[place], value)
    np.testing.assert_array_equal(found.numpy(), base)


def test_index_reduce_of_a_number_is_that_of_a_line(device: str) -> None:
    x = lt.tensor(3.0, device=device)
    index = lt.zeros(1, dtype=lt.int64, device=device)
    assert x.index_reduce(0, index, lt.tensor(2.0, device=device), "prod").item() == 6
    with pytest.raises(lt.ShapeError, match="index_reduce"):
        x.index_reduce(0, index.expand(2), x, "amax")
