"""The scheduler: what becomes one kernel, what is stored and why, and how memory is shared."""
from __future__ import annotations

import numpy as np
import pytest
from graphs import compute, leaf
from hypothesis import given
from hypothesis import strategies as st
from slot_graphs import array, matmul

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, elementwise, expand, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import convolutions
from lazyten.operators.math import reductions
from lazyten.schedule.cost import MOST_REDUCES
from lazyten.schedule.memory import Lifetime, share
from lazyten.schedule.schedule import Schedule, schedule

F32 = dt.float32


def plan(*roots: Node, inputs: int = 4) -> Schedule:
    return schedule(roots, [(F32, 1 << 22)] * inputs)


def rows(x: Node, combiner: Op) -> Node:
    return expand(reduce(x, combiner, [len(x.shape) - 1]), x.shape)


def softmax(x: Node) -> Node:
    e = elementwise(Op.EXP2, elementwise(Op.SUB, x, rows(x, Op.MAX)))
    return elementwise(Op.DIV, e, rows(e, Op.ADD))


def layer_norm(x: Node) -> Node:
    n = x.shape[-1]
    mean = elementwise(Op.MUL, rows(x, Op.ADD), const(1 / n, F32, x.shape))
    d = elementwise(Op.SUB, x, mean)
    squares = rows(elementwise(Op.MUL, d, d), Op.ADD)
    variance = elementwise(Op.MUL, squares, const(1 / n, F32, x.shape))
    return elementwise(Op.DIV, d, elementwise(Op.SQRT, variance))


def relu(x: Node) -> Node:
    return elementwise(Op.MAX, x, const(0.0, F32, x.shape))


@pytest.mark.parametrize("shape", [(64, 10), (4096, 1024), (8, 3, 50)])
@pytest.mark.parametrize("row_op", [softmax, layer_norm])
def test_row_statistics_and_their_use_are_one_kernel(row_op: object,
                                                     shape: tuple[int, ...]) -> None:
    assert callable(row_op)
    assert len(plan(row_op(array(0, *shape))).steps) == 1


def test_bias_and_activation_join_their_matmul() -> None:
    h = matmul(array(0, 128, 400), array(1, 400, 120))
    h = relu(elementwise(Op.ADD, h, expand(reshape(array(2, 120), (1, 120)), h.shape)))
    assert len(plan(h).steps) == 1


def test_a_matmul_that_another_matmul_reads_is_stored() -> None:
    made = plan(matmul(relu(matmul(array(0, 32, 64), array(1, 64, 48))), array(2, 48, 16)))
    assert [len(made.steps), made.stored[0].reason] == [2, "read 16 times an element"]
    assert made.stored[0].stored_cost < made.stored[0].inline_cost


@pytest.mark.parametrize(("dtype", "kernels"), [
    (dt.int8, 1), (dt.uint8, 1), (dt.int32, 2), (F32, 2)])
@pytest.mark.parametrize("rows", [1, 16, 256])
def test_only_weights_in_8_bits_are_scaled_where_a_product_reads_them(
        rows: int, dtype: DType, kernels: int) -> None:
    scale = expand(array(2, 96, 1), (96, 128))
    weights = elementwise(Op.MUL, cast(array(1, 96, 128, dtype=dtype), F32), scale)
    product = matmul(array(0, rows, 128), move(Op.PERMUTE, weights, (1, 0)))
    assert len(plan(product).steps) == (1 if rows == 1 else kernels)


@pytest.mark.parametrize(("dtype", "operations", "kernels"), [
    (dt.int8, 3, 1), (dt.int8, 30, 2), (dt.int32, 3, 2), (F32, 3, 2)])
@pytest.mark.parametrize("rows", [8, 256])
def test_a_product_unpacks_its_operand_itself_where_that_is_little_work(
        rows: int, dtype: DType, operations: int, kernels: int) -> None:
    weights = cast(array(1, 96, 128, dtype=dtype), F32)
    for _ in range(operations):
        weights = elementwise(Op.MUL, weights, expand(array(2, 96, 1), (96, 128)))
    product = matmul(array(0, rows, 128), move(Op.PERMUTE, weights, (1, 0)))
    assert len(plan(product).steps) == kernels


@pytest.mark.parametrize("size", [4, 24])
def test_a_padded_image_is_stored_however_much_of_it_is_padding(size: int) -> None:
    image, weights = array(0, 8, 32, size, size), array(1, 64, 32, 3, 3)
    made = plan(convolutions.convolution(image, weights, None, (1, 1), (1, 1), (1, 1), 1))
    assert [value.node.op for value in made.stored[:-1]] == [Op.PAD]


def test_integers_are_stored_as_narrow_as_they_are_computed() -> None:
    rounded = cast(elementwise(Op.MUL, array(0, 64, 128), array(0, 64, 128)), dt.int8)
    made = plan(matmul(cast(rounded, dt.int32), cast(array(1, 128, 96, dtype=dt.int8), dt.int32)))
    assert [value.node.dtype for value in made.stored] == [dt.int8, dt.int32]


def test_a_cheap_value_is_computed_again_instead_of_stored() -> None:
    x = array(0, 1000)
    shifted = elementwise(Op.ADD, x, const(1.0, F32, x.shape))
    double = elementwise(Op.MUL, shifted, const(2.0, F32, x.shape))
    part = move(Op.SHRINK, elementwise(Op.NEG, shifted), ((0, 999),))
    assert len(plan(double, part).steps) == 2


def test_an_expensive_value_that_two_kernels_read_is_stored_once() -> None:
    h = relu(matmul(array(0, 64, 64), array(1, 64, 48)))
    made = plan(reduce(h, Op.ADD, [0]), reduce(elementwise(Op.MUL, h, h), Op.MAX, [1]))
    assert len(made.steps) == 3


def test_steps_and_names_are_deterministic() -> None:
    def names() -> list[tuple[str, tuple[int, ...]]]:
        x = softmax(matmul(array(0, 32, 64), array(1, 64, 48)))
        return [(s.kernel.name, s.args) for s in plan(x, relu(x)).steps]
    assert names() == names()


def test_equal_kernels_are_compiled_once() -> None:
    a, b = (relu(array(i, 3, 5)) for i in (0, 1))
    first, second = plan(a, b).steps
    assert first.kernel is second.kernel and first.args != second.args


def test_a_root_that_is_in_memory_already_needs_no_step() -> None:
    made = plan(array(2, 4, 5))
    assert made.steps == () and made.outputs == (2,)


def test_a_deep_chain_of_matmuls_stores_every_layer() -> None:
    x = array(0, 16, 16)
    for _ in range(300):
        x = relu(matmul(x, array(1, 16, 16)))
    assert len(plan(x).steps) == 300


@pytest.mark.parametrize("count", [MOST_REDUCES, 100])
def test_a_sum_of_many_reductions_is_several_kernels(count: int) -> None:
    parts = [reduce(array(i, 7), Op.ADD, (0,)) for i in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = elementwise(Op.ADD, total, part)
    made = plan(total, inputs=count)
    assert len(made.steps) == -(-count // MOST_REDUCES)
    assert len({step.kernel for step in made.steps}) <= 3


def test_intermediate_values_share_memory() -> None:
    x = array(0, 64, 64)
    for _ in range(10):
        x = matmul(x, array(1, 64, 64))
    made = plan(x)
    assert len(made.steps) == 10
    assert len(made.blocks) + len(made.aliases) == 9 and len(made.block_sizes) == 1


def test_a_value_that_is_gone_when_an_output_is_written_lives_in_its_memory() -> None:
    a = matmul(array(0, 64, 64), array(1, 64, 64))
    b = matmul(a, array(1, 64, 64))
    made = plan(matmul(b, array(1, 64, 64)))
    first, second, third = (step.args[0] for step in made.steps)
    assert made.aliases == {first: third}
    assert made.blocks == {second: 0}
    assert [made.memory_of(step)[0] for step in made.steps] == [third, second, third]


def test_a_value_larger_than_the_output_has_a_block() -> None:
    a = matmul(array(0, 64, 64), array(1, 64, 64))
    b = matmul(a, array(1, 64, 64))
    made = plan(matmul(b, array(2, 64, 8)))
    assert made.aliases == {} and len(made.block_sizes) == 2


def test_an_output_that_later_steps_read_has_no_guest_meanwhile() -> None:
    outputs = [matmul(array(0, 64, 64), array(1, 64, 64))]
    for _ in range(6):
        outputs.append(matmul(outputs[-1], array(1, 64, 64)))
    made = plan(outputs[2], outputs[6])
    memory = [made.memory_of(step)[0] for step in made.steps]
    written = [step.args[0] for step in made.steps].index(made.outputs[0])
    assert memory[written] == made.outputs[0]
    assert made.outputs[0] not in memory[written + 1:]
    assert made.outputs[1] in memory[:-1] and memory[-1] == made.outputs[1]


lifetimes = st.builds(lambda n, first, more: Lifetime(n, first, first + more),
                      st.integers(0, 1000), st.integers(0, 20), st.integers(0, 10))


@given(st.lists(lifetimes, max_size=30), st.lists(lifetimes, max_size=4))
def test_arrays_that_live_together_never_share_a_block(arrays: list[Lifetime],
                                                       owners: list[Lifetime]) -> None:
    blocks, sizes = share(arrays, owners)
    assert sizes[:len(owners)] == [owner.nbytes for owner in owners]
    placed = [*zip(owners, range(len(owners)), strict=True), *zip(arrays, blocks, strict=True)]
    for i, (a, block) in enumerate(placed):
        assert sizes[block] >= a.nbytes
        for b, other in placed[:i]:
            if block == other:
                assert a.last < b.first or b.last < a.first
    assert sum(sizes[len(owners):]) <= sum(a.nbytes for a in arrays)


def test_a_value_read_in_two_places_is_right(device: str) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = leaf(values, F32, device)
    np.testing.assert_allclose(compute(softmax(x), device).sum(1), np.ones(4), rtol=1e-6)


@pytest.mark.parametrize("keepdim", [True, False])
def test_a_variance_of_rows_and_its_mean_are_one_kernel(keepdim: bool) -> None:
    assert len(plan(reductions.var(array(0, 512, 1000), (1,), keepdim)).steps) == 1


def test_a_mean_in_a_sum_over_squeezed_rows_is_right() -> None:
    values = np.random.default_rng(0).normal(size=(6, 1, 7, 5)).astype(np.float32)
    variance = reductions.var(leaf(values, F32, "cpu"), (3,))
    total = reductions.sum(elementwise(Op.MUL, variance, variance), (2,))
    expected = (values.var(3, ddof=1) ** 2).sum(2)
    np.testing.assert_allclose(compute(total, "cpu"), expected, rtol=1e-5)


# ---- plans are found again by their structure ----------------------------------------------------

@pytest.mark.parametrize("pick", [0, 1])
def test_a_plan_is_for_what_is_asked_for(pick: int, device: str) -> None:
    """Beside equal values, of which the same nodes are made."""
    x = lt.tensor([1.0, 2.0], device=device).realize()
    parts = [x * 2, x * 3]
    total = parts[0] + parts[1]
    lt.realize(total, parts[pick])
    assert [total.tolist(), parts[pick].tolist()] == [[5, 10], [[2, 4], [3, 6]][pick]]


@pytest.mark.parametrize("zero", [0.0, -0.0, 0.0])
def test_a_plan_is_for_a_zero_of_one_sign(zero: float, device: str) -> None:
    x = lt.tensor([-0.0, 1.0], device=device).realize()
    found = [(x + zero).numpy(), (x * 2 + lt.full((2,), zero, device=device)).numpy()]
    for values in found:
        assert np.signbit(values).tolist() == [np.signbit(zero), False]
