"""Kernels with several outputs: what is computed together, and that it changes no value."""
from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from example_counts import examples
from graphs import Array, arrays, compute, expressions, leaf
from hypothesis import given
from hypothesis import strategies as st
from slot_graphs import array, matmul

import lazyten as lt
from lazyten import optim
from lazyten.execution.plans import plan as plans
from lazyten.execution.realization import realize
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Slot
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    make,
    move,
    reduce,
    reshape,
    toposort,
)
from lazyten.ir.ops import Op
from lazyten.schedule.fusion import MOST_OUTPUTS, NONE, labels_of, without_ones
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.storage.storage import Storage

F32 = dt.float32


def plan(*roots: Node) -> Schedule:
    return schedule(roots, [(F32, 1 << 16)] * 4)


def outputs(*roots: Node) -> list[int]:
    """How many values each kernel stores."""
    return [len(s.kernel.outputs) for s in plan(*roots).steps]


def roots_by_kernel(*roots: Node) -> list[set[int]]:
    """Which of the roots each kernel stores."""
    made = plan(*roots)
    return [{made.outputs.index(a) for a in s.args[:len(s.kernel.outputs)] if a in made.outputs}
            for s in made.steps]


def add(x: Node, value: float) -> Node:
    return elementwise(Op.ADD, x, const(value, F32, x.shape))


# ---- what a kernel reads -------------------------------------------------------------------------

@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_labels_tell_by_which_output_axis_each_axis_is_indexed(order: tuple[int, ...]) -> None:
    """All axes have different sizes, so an axis can be told by its size."""
    x = array(0, 2, 3, 1, 5)
    root = elementwise(Op.NEG, move(Op.PERMUTE, elementwise(Op.NEG, x), order))
    labels = labels_of(toposort([root]), lambda n: n.src)
    sizes = without_ones(root.shape)
    for node in (x, root.src[0].src[0], root.src[0]):
        found = labels[node]
        assert found is not None
        assert [1 if i == NONE else sizes[i] for i in found] == list(node.shape)


# ---- what is computed together -------------------------------------------------------------------

def recorded_step(make_optimizer: Callable[[list[lt.Tensor]], optim.Optimizer]) -> Schedule:
    """The schedule of an optimizer's step on parameters whose gradients are in memory."""
    made: list[Schedule] = []
    scheduling = plans.schedule

    def recorded(*args: object) -> Schedule:
        made.append(scheduling(*args))  # type: ignore[arg-type]
        return made[-1]

    parameters = [lt.tensor(np.ones(shape, np.float32)).requires_grad_()
                  for shape in ((40, 30), (40,), (7, 40), (7,))]
    for p in parameters:
        p.grad = lt.tensor(np.full(p.shape, 0.5, np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "schedule", recorded)
        make_optimizer(parameters).step()
    return made[-1]


@pytest.mark.parametrize(("make_optimizer", "count"), [
    (lambda p: optim.SGD(p, lr=0.1), 1), (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), 2),
    (lambda p: optim.Adam(p), 3), (lambda p: optim.AdamW(p), 3)])
def test_an_optimizer_updates_each_parameter_and_its_state_in_one_kernel(
        make_optimizer: Callable[[list[lt.Tensor]], optim.Optimizer], count: int) -> None:
    step = recorded_step(make_optimizer)
    assert [len(s.kernel.outputs) for s in step.steps] == [count] * 4


@pytest.mark.parametrize("axis", [0, 1])
def test_an_extreme_and_where_it_is_are_one_kernel(axis: int) -> None:
    x = lt.rand(30, 20, device="cpu").realize()
    found = x.max(axis)
    assert lt.explain(*found).endswith("1 kernel; intermediate values take 0 bytes "
                                       "(0 if none shared memory)")
    assert found.values.tolist() == x.numpy().max(axis).tolist()
    assert found.indices.tolist() == x.numpy().argmax(axis).tolist()


def test_a_sum_and_a_sum_of_squares_are_one_kernel() -> None:
    x = array(0, 64, 100)
    assert outputs(reduce(x, Op.ADD, [1]), reduce(elementwise(Op.MUL, x, x), Op.ADD, [1])) == [2]


def test_a_product_and_what_is_made_from_it_elementwise_are_one_kernel() -> None:
    h = matmul(array(0, 16, 24), array(1, 24, 8))
    moved = elementwise(Op.MUL, reshape(h, (16, 1, 8)), array(2, 16, 1, 8))
    made = plan(h, moved)
    assert [len(s.kernel.outputs) for s in made.steps] == [2]
    assert len(made.steps[0].kernel.inputs) == 3, "it does not read what it stores"


def test_what_is_elementwise_does_not_follow_the_order_of_a_long_reduction() -> None:
    short, long = (matmul(array(0, 64, k), array(1, k, 64)) for k in (16, 512))
    assert outputs(short, elementwise(Op.MUL, short, array(2, 64, 64))) == [2]
    assert outputs(long, elementwise(Op.MUL, long, array(2, 64, 64)))[-2:] == [1, 1]


def test_large_products_that_share_one_factor_stay_apart() -> None:
    a = array(0, 128, 64)
    assert outputs(*(matmul(a, array(i, 64, 64)) for i in (1, 2, 3))) == [1, 1, 1]


def test_values_that_share_only_a_number_stay_apart() -> None:
    rate = expand(reshape(make(Op.BUFFER, F32, (), Slot(0, 1)), (1,)), (50,))
    assert outputs(*(elementwise(Op.MUL, array(i, 50), rate) for i in (1, 2))) == [1, 1]


def test_values_of_unequal_shapes_stay_apart() -> None:
    x = array(0, 6, 8)
    assert outputs(add(x, 1.0), add(move(Op.PERMUTE, x, (1, 0)), 1.0)) == [1, 1]


MOVES: list[Callable[[Node], Node]] = [
    lambda y: move(Op.FLIP, y, (0,)), lambda y: move(Op.PERMUTE, y, (1, 0)),
    lambda y: expand(move(Op.SHRINK, y, ((0, 1), (0, 8))), (8, 8)),
    lambda y: move(Op.SHRINK, move(Op.PAD, y, ((1, 0), (0, 0))), ((0, 8), (0, 8))),
    lambda y: reshape(move(Op.PERMUTE, reshape(y, (8, 2, 4)), (0, 2, 1)), (8, 8)),
    lambda y: expand(reduce(y, Op.MAX, [0]), (8, 8))]


@pytest.mark.parametrize("moved", MOVES)
def test_a_value_that_is_read_elsewhere_too_is_not_at_hand(moved: Callable[[Node], Node]) -> None:
    y = add(matmul(array(0, 8, 8), array(1, 8, 8)), 1.0)
    assert outputs(y, elementwise(Op.ADD, y, moved(y))) == [1, 1]
    assert outputs(y, elementwise(Op.ADD, elementwise(Op.NEG, y), moved(y))) == [1, 1]


def test_sharing_an_input_does_not_make_up_for_a_value_that_is_read_elsewhere() -> None:
    x = array(0, 8, 8)
    y = add(x, 1.0)
    flipped = elementwise(Op.ADD, x, move(Op.FLIP, y, (0,)))
    assert outputs(y, flipped) == [1, 1]
    assert outputs(y, flipped, elementwise(Op.MUL, y, x)) == [2, 1]


def test_a_value_of_one_element_that_is_read_under_padding_is_not_at_hand() -> None:
    total = reduce(array(0, 40), Op.ADD, [0])
    padded = reduce(move(Op.PAD, total, ((2, 1),)), Op.MAX, [0])
    assert outputs(total, padded) == [1, 1]


def test_kernels_that_a_third_one_stands_between_stay_apart() -> None:
    x = array(0, 12, 12)
    first = add(x, 1.0)
    between = matmul(first, array(1, 12, 5))
    last = elementwise(Op.ADD, x, matmul(between, array(2, 5, 12)))
    assert roots_by_kernel(first, between, last) == [{0}, {1}, {2}]


def test_no_third_kernel_comes_between_pairs_that_join_later() -> None:
    x, w = array(0, 12, 12), array(1, 12, 12)
    first = add(x, 1.0)
    between = matmul(first, w)
    last = elementwise(Op.ADD, x, matmul(between, w))
    found = roots_by_kernel(first, between, last, elementwise(Op.MUL, x, first))
    assert found == [{0, 3}, {1}, {2}]


def test_two_pairs_that_would_need_each_other_do_not_both_join() -> None:
    x, w = array(0, 10, 10), array(1, 10, 4)
    first, other = add(x, 1.0), elementwise(Op.NEG, matmul(x, w))
    between = matmul(first, array(2, 10, 3))
    joins_first = elementwise(Op.MUL, first, matmul(other, array(3, 4, 10)))
    joins_other = elementwise(Op.MUL, other, matmul(between, array(3, 3, 4)))
    found = roots_by_kernel(first, other, between, joins_first, joins_other)
    assert sorted(map(sorted, found)) == [[0, 3], [1], [2], [4]]


def test_kernels_run_once_all_that_their_values_need_is_there() -> None:
    x, w = array(0, 10, 10), array(1, 10, 4)
    first, other = add(x, 1.0), matmul(x, w)
    made = plan(first, other, elementwise(Op.MUL, first, matmul(other, array(2, 4, 10))))
    assert sorted(len(s.kernel.outputs) for s in made.steps) == [1, 2]
    done: set[int] = set(range(made.inputs))
    for step in made.steps:
        count = len(step.kernel.outputs)
        assert done.issuperset(step.args[count:]), "read before it is made"
        done.update(step.args[:count])
    assert done.issuperset(made.outputs)


def test_one_kernel_stores_so_many_values_and_no_more() -> None:
    x = array(0, 64)
    counts = outputs(*(add(x, float(i)) for i in range(1, MOST_OUTPUTS + 4)))
    assert counts == [MOST_OUTPUTS, 3]


def test_a_value_joins_those_that_share_inputs_with_any_of_a_kernel() -> None:
    x, y = array(0, 64), array(1, 64)
    assert outputs(add(x, 1.0), elementwise(Op.MUL, x, y), add(y, 2.0)) == [3]


def test_long_expressions_do_not_become_one_longer_kernel() -> None:
    def chain(start: float) -> Node:
        x = array(0, 64)
        for i in range(60):
            x = elementwise(Op.MUL, add(x, start), add(x, start + i))
        return x
    counts = outputs(*(chain(1000.0 * i) for i in range(6)))
    assert sum(counts) == 6 and max(counts) < 3


def test_what_only_its_own_kernel_reads_is_not_stored() -> None:
    x = array(0, 64, 64)
    h = elementwise(Op.POW, x, add(x, 2.0))
    made = plan(add(h, 1.0), elementwise(Op.MUL, h, h))
    assert [len(s.kernel.outputs) for s in made.steps] == [2] and not made.blocks


def test_explain_names_all_values_of_a_kernel_and_what_that_saves() -> None:
    x = lt.rand(40, 5, device="cpu").realize()
    m = x * 0.5 + 1
    lines = lt.explain(m, x - m).splitlines()
    assert lines[0].startswith("0: map_40_5 stores float32[40, 5], 800 bytes: asked for")
    assert lines[1].startswith("   and float32[40, 5], 800 bytes: asked for")
    assert lines[2] == "   one kernel for these 2 saves 3,200"  # LAUNCH, x and m read once less


# ---- and that it changes no value ----------------------------------------------------------------

@st.composite
def relatives(draw: st.DrawFn, x: Node, others: list[Node]) -> Node:
    """Something elementwise, reduced or broadcast from `x`, mostly of its shape."""
    dtype = x.dtype
    kind = draw(st.sampled_from(["same", "cast", "row", "flip", "other", "ones"]))
    if kind == "cast":
        return cast(x, draw(st.sampled_from([dt.float64, dt.float32, dt.int32, dt.float16])))
    if kind == "row" and x.shape and x.numel:
        axes = draw(st.sets(st.sampled_from(range(len(x.shape))), min_size=1))
        row = reduce(x, Op.MAX, axes)
        return row if draw(st.booleans()) else elementwise(Op.MAX, x, expand(row, x.shape))
    if kind == "flip" and x.shape:
        return elementwise(Op.MAX, x, move(Op.FLIP, x, (0,)))
    if kind == "ones":
        return reshape(x, (1, *x.shape)) if draw(st.booleans()) else reshape(x, (*x.shape, 1))
    other = draw(st.sampled_from([o for o in others if o.dtype is dtype]))
    if kind == "other" and other.shape == x.shape:
        return elementwise(Op.MAX, x, other)
    return elementwise(Op.NOT if not dtype.is_float else Op.NEG, x)


def together(nodes: list[Node], device: str) -> list[Array]:
    storages = [Storage(n, device) for n in nodes]
    realize(storages)
    return [s.read() for s in storages]


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int64, dt.uint8, dt.bfloat16],
                         ids=lambda d: d.name)
@given(data=st.data())
@examples(20)
def test_values_computed_together_equal_those_computed_alone(
        dtype: DType, device: str, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(3, 4), (17,), (2, 9, 5), (1, 33), (8, 16), (), (0, 3)]))
    leaves = [leaf(data.draw(arrays(dtype, shape)), dtype, device) for _ in range(2)]
    roots = [data.draw(expressions(dtype, leaves, steps=2))]
    for _ in range(data.draw(st.integers(1, 5))):
        roots.append(data.draw(relatives(data.draw(st.sampled_from(roots)), [*leaves, *roots])))
    alone = [compute(r, device) for r in roots]
    for got, expected in zip(together(roots, device), alone, strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


def test_updates_in_one_kernel_keep_their_bits_when_a_step_is_replayed(device: str) -> None:
    def trained(wrap: Callable[[Callable[[], object]], Callable[[], object]]) -> list[object]:
        p = lt.tensor(np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7), device=device)
        p.requires_grad_()
        optimizer = optim.Adam([p], lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            (p * p * p).sum().backward()
            optimizer.step()

        run = wrap(step)
        for _ in range(4):
            run()
        return [p.tolist(), *(v.tolist() for v in optimizer.state[p].values()
                              if isinstance(v, lt.Tensor))]

    assert trained(lt.jit) == trained(lambda step: step)
