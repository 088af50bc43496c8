"""What is interpreted: sums of products by products of matrices, sliding windows as views."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.execution import interpreted
from lazyten.execution.blas import _limit, one_thread
from lazyten.execution.node_by_node import sliding, summed, work
from lazyten.execution.plans.graph import Graph
from lazyten.ir.evaluation import shear

pytestmark = pytest.mark.usefixtures("interpreting_as_users_do")


@given(st.data())
def test_a_sum_of_products_along_any_axes(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    axes = tuple(a for a in range(len(shape)) if data.draw(st.booleans()))
    seeds = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, b = (seeds.standard_normal([n if data.draw(st.booleans()) else 1 for n in shape])
            for _ in range(2))
    found = summed(a, b, shape, axes)
    whole = np.broadcast_to(a * b, shape).sum(axes, keepdims=True)
    if found is not None:
        np.testing.assert_allclose(np.broadcast_to(found, whole.shape), whole, atol=1e-12)
    else:
        inner = [i for i in axes if shape[i] > 1]
        assert not inner or any(1 in (a.shape[i], b.shape[i]) for i in inner)


@pytest.mark.parametrize(("largest", "is_exact"), [(100, True), (2**30, False), (2**21, True)])
def test_sums_of_products_of_whole_numbers_wrap(largest: int, is_exact: bool) -> None:
    """They are those of the type: nothing is rounded."""
    a, b = np.random.default_rng(0).integers(-largest, largest, (2, 40, 40), np.int32)
    found = summed(a[:, None], b[None], (40, 40, 40), (2,))
    expected = (a[:, None].astype(np.int64) * b[None]).sum(2, keepdims=True).astype(np.int32)
    assert (found is not None) == is_exact
    if found is not None:
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
    x, y = lt.tensor(a), lt.tensor(b)
    with interpreted.seldom(1):
        np.testing.assert_array_equal((x @ y.T).numpy(), expected[..., 0])


def test_products_take_one_thread_and_then_as_many_as_before() -> None:
    limit = _limit()
    if limit is None:
        pytest.skip("this NumPy has another BLAS")
    before = limit(2)
    try:
        with one_thread():
            assert limit(1) == 1
        assert limit(2) == 2
    finally:
        limit(before)


def test_sums_of_products_without_elements() -> None:
    assert summed(np.ones((0, 3)), np.ones((1, 3)), (0, 3), (1,)) is None
    assert summed(np.ones((2, 0)), np.ones((2, 0)), (2, 0), (1,)) is None


@pytest.mark.parametrize(("axis", "by", "factor", "offset"),
                         [p for p in itertools.product((0, 1, 2), (0, 1, 2), (1, 2), (0, 1))
                          if p[0] != p[1]])
def test_a_view_that_slides_has_the_elements_of_an_index(axis: int, by: int, factor: int,
                                                         offset: int) -> None:
    x = np.random.default_rng(0).random((9, 9, 9))[:, ::3, :][:, :, ::-1]
    x = x[tuple(slice(3) if a == by else slice(None) for a in range(3))]
    size = x.shape[axis] - factor * (x.shape[by] - 1) - offset
    if size > 0:
        arg = axis, by, factor, offset, size
        np.testing.assert_array_equal(sliding(x, arg), shear(x, arg))
    np.testing.assert_array_equal(sliding(x, (axis, by, factor, offset, 0)),
                                  shear(x, (axis, by, factor, offset, 0)))


def network(x: lt.Tensor, w: lt.Tensor, m: lt.Tensor) -> lt.Tensor:
    y = lt.nn.functional.conv2d(x, w, stride=2, padding=1).relu()
    y = lt.nn.functional.max_pool2d(y, 2).flatten(2)
    return (y.transpose(1, 2) @ m).softmax(-1)


def test_what_is_asked_for_once_has_no_kernels() -> None:
    lt.manual_seed(0)
    x, w, m = lt.randn(2, 3, 13, 17), lt.randn(8, 3, 3, 3), lt.randn(8, 5)
    x, w, m = (lt.tensor(t.numpy()) for t in (x, w, m))
    with interpreted.seldom(1):
        found = network(x, w, m).numpy()
    planned = network(x, w, m)
    np.testing.assert_allclose(found, planned.numpy(), rtol=1e-5, atol=1e-6)


def test_a_product_that_is_read_twice() -> None:
    x = lt.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    with interpreted.seldom(1):
        y = x * (x + 1)
        np.testing.assert_array_equal((y.sum(1, keepdim=True) + y).numpy(),
                                      [[8, 10, 14], [74, 82, 92]])


def test_what_takes_as_long_as_its_kernels_do_to_compile_is_refused() -> None:
    x, y = lt.tensor(np.ones((3000, 3000), np.float32)), lt.tensor(np.ones(2, np.float32))
    with interpreted.seldom(1), pytest.raises(interpreted.TooMuch):
        lt.realize((x @ x).tanh())
    with interpreted.seldom(1):
        np.testing.assert_array_equal((y + 1).numpy(), 2)


def test_products_of_matrices_cost_less_than_their_elements() -> None:
    x = lt.tensor(np.ones((64, 64), np.float32))
    product = Graph([(x @ x)._storage._node], x._storage.device)
    apart = Graph([(x[:, None] * x[None]).amax(2)._storage._node], x._storage.device)
    assert work(product.order) * 10 < work(apart.order)
