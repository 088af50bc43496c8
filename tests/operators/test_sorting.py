"""Sorting by ranks, networks, digits and on the host, beside NumPy, over dtypes, lengths, axes and
values that are hard to sort."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from slow_rows import OF_EACH_KIND, slow_but
from tensor_values import Array

import lazyten as lt
from lazyten.frontend.tensor import Tensor
from lazyten.operators.arrays import ordering, radix_sort, searching, sorting_network

DTYPES = (lt.bool_, lt.int8, lt.uint8, lt.int16, lt.uint16, lt.int32, lt.uint32, lt.int64,
          lt.uint64, lt.float16, lt.bfloat16, lt.float32, lt.float64)
LONG = 1025
WAYS = {"network": {}, "digits": {"LONG": 1024, "FEW": 0}, "host": {"HOST_WORK": 0, "FEW": 0}}
"""How axes of LONG elements and more are sorted, and the limits that make them so."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One way of sorting after the other."""
    for name, limit in WAYS[request.param].items():
        monkeypatch.setattr(ordering, name, limit)
    return str(request.param)


def values(seed: int, shape: tuple[int, ...], dtype: lt.DType, device: str) -> lt.Tensor:
    """Numbers of all sizes, many of them equal; of floats, some NaN, infinite, 0.0 and -0.0."""
    rng = np.random.default_rng(seed)
    if dtype is lt.bool_:
        return lt.tensor(rng.random(shape) < 0.5, device=device)
    if dtype.is_int:
        info = np.iinfo(dtype.numpy)
        wide = rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
        near = rng.integers(0, 5, shape).astype(dtype.numpy)
        return lt.tensor(np.where(rng.random(shape) < 0.5, wide, near), device=device)
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40])
    numbers = rng.standard_normal(shape) * 10 ** rng.uniform(-6, 4, shape)
    mixed = np.where(rng.random(shape) < 0.8, numbers, rng.choice(odd, shape))
    return lt.tensor(mixed, dtype=dtype, device=device)


def expected(x: lt.Tensor, axis: int, descending: bool) -> Array:
    """NumPy's stable order; of NumPy's float32 where it has no such type."""
    wide = x.float().numpy() if x.dtype.is_half else x.numpy()
    wide = wide.astype(np.int64) if wide.dtype == bool else wide
    if not descending:
        return np.argsort(wide, axis, kind="stable")
    backwards = np.argsort(np.flip(wide, axis), axis, kind="stable")
    return wide.shape[axis] - 1 - np.flip(backwards, axis)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [lt.float32, lt.bfloat16, lt.int8], ids=lambda d: d.name)
def test_four_elements_of_few_values_are_sorted_stably(dtype: lt.DType, descending: bool,
                                                       device: str) -> None:
    """All of them: NaNs and zeros of both signs too, which keep their order."""
    few = [0.0, 1.0, -3.0] if dtype.is_int else [0.0, -0.0, np.nan, np.inf, -np.inf]
    x = lt.tensor(np.array(list(itertools.product(few, repeat=4))), dtype=dtype, device=device)
    found = x.sort(1, descending, stable=True)
    order = expected(x, 1, descending)
    assert_array_equal(found.indices.numpy(), order)
    assert_array_equal(found.values.tolist(), np.take_along_axis(np.array(x.tolist()), order, 1))


@pytest.mark.few(19)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", range(1, 10))
def test_every_place_in_a_short_line_is_found(n: int, right: bool, device: str) -> None:
    for step in (1, 2, 3):
        line = np.arange(n) // step * 2.0
        wanted = np.array([*np.arange(-1, 2 * n + 1), np.inf, -np.inf, np.nan])
        found = lt.searchsorted(lt.tensor(line, device=device), lt.tensor(wanted, device=device),
                                right=right)
        side = "right" if right else "left"
        assert_array_equal(found.numpy(), np.searchsorted(line, wanted, side))


def test_places_of_integers_of_another_type_are_those_of_the_integers(device: str) -> None:
    line = lt.tensor([-5, 0, 44, 127], dtype=lt.int8, device=device)
    assert [lt.searchsorted(line, n).item() for n in (300, -300)] == [4, 0], "44, were it int8"
    assert lt.bucketize(lt.tensor(-129, device=device), line).item() == 0
    line = lt.tensor(np.array([3, 2**63, 2**64 - 1], np.uint64), device=device)
    wanted = lt.tensor([-1, 3, 2**63 - 1], device=device)
    assert lt.searchsorted(line, wanted).tolist() == [0, 0, 1]
    assert lt.searchsorted(line, wanted, right=True).tolist() == [0, 1, 1]
    lines = line.expand(3, 3)
    assert lt.searchsorted(lines, wanted[:, None]).tolist() == [[0], [0], [1]]


@pytest.mark.slow
@pytest.mark.parametrize("sort", [radix_sort, sorting_network])
@given(dtype=st.sampled_from(DTYPES), n=st.integers(1, 300), rows=st.integers(1, 3),
       seed=st.integers(0, 1 << 20), axis=st.integers(0, 1), descending=st.booleans())
def test_sorting_is_numpys_stable_sort(sort: Any, dtype: lt.DType, n: int, rows: int, seed: int,
                                       axis: int, descending: bool) -> None:
    x = values(seed, (rows, n) if axis else (n, rows), dtype, "interpreter")
    found = sort.order(ordering.keys(x.node, descending), axis)
    np.testing.assert_array_equal(Tensor._of(found, "interpreter").numpy(),
                                  expected(x, axis, descending))


@given(dtype=st.sampled_from(DTYPES), n=st.integers(9, 60), rows=st.integers(1, 3),
       count=st.integers(1, 5), seed=st.integers(0, 1 << 20), axis=st.integers(0, 1),
       largest=st.booleans())
def test_the_first_few_are_those_of_numpys_order(dtype: lt.DType, n: int, rows: int, count: int,
                                                 seed: int, axis: int, largest: bool) -> None:
    """Many are equal: they come in their order."""
    x = values(seed, (rows, n) if axis else (n, rows), dtype, "interpreter")
    found = x.topk(count, axis, largest).indices.numpy()
    np.testing.assert_array_equal(found, expected(x, axis, largest).take(range(count), axis))


@given(dtype=st.sampled_from(DTYPES), n=st.integers(9, 200), rows=st.integers(1, 3),
       data=st.data(), seed=st.integers(0, 1 << 20), axis=st.integers(0, 1))
def test_what_is_selected_is_where_numpys_order_has_it(dtype: lt.DType, n: int, rows: int,
                                                       data: st.DataObject, seed: int,
                                                       axis: int) -> None:
    """Many are equal: they come in their order."""
    x = values(seed, (rows, n) if axis else (n, rows), dtype, "interpreter")
    count = data.draw(st.integers(1, n))
    order = expected(x, axis, False)
    keys = ordering.keys(x.node, False)
    places, found = (Tensor._of(node, "interpreter").numpy() for node in searching.first(
        keys, axis, count))
    sorted_ = np.take_along_axis(places, np.argsort(found, axis, kind="stable"), axis)
    assert_array_equal(sorted_, order.take(range(count), axis))
    place = Tensor._of(searching.kth(keys, axis, count - 1), "interpreter").numpy()
    assert_array_equal(place, order.take([count - 1], axis))


@pytest.mark.parametrize("name", ["topk", "kthvalue", "median"])
def test_a_few_of_many_are_found_without_sorting_all(name: str) -> None:
    """Sorting takes 55 kernels, each of which stores all."""
    x = lt.tensor(np.arange(6000.0, dtype=np.float32).reshape(6, 1000), device="cpu")
    calls = {"topk": lambda: x.topk(40), "kthvalue": lambda: x.kthvalue(300),
             "median": lambda: x.median(1)}
    with lt.testing.watch_kernels() as kernels:
        lt.realize(*calls[name]())
    sizes = [step.kernel.outputs[0].numel for _, made in kernels.schedules for step in made.steps]
    assert len([n for n in sizes if n >= x.numel()]) < 6


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", slow_but(DTYPES, *OF_EACH_KIND), ids=lambda d: d.name)
def test_long_axes_are_sorted_alike_in_all_ways(dtype: lt.DType, device: str,
                                               way: str) -> None:
    for shape, axis, descending in (((LONG,), 0, False), ((2, 1300), 1, True),
                                    ((1411, 3), 0, False)):
        x = values(1, shape, dtype, device)
        order = expected(x, axis, descending)
        for call in (lt.jit(Tensor.sort), Tensor.sort):
            found = call(x, axis, descending)
            np.testing.assert_array_equal(found.indices.numpy(), order)
            np.testing.assert_array_equal(found.values.double().numpy(), np.take_along_axis(
                x.double().numpy(), order, axis))


@settings(max_examples=10)
@given(n=st.integers(LONG, 3 * LONG), seed=st.integers(0, 1 << 20), share=st.floats(0, 1),
       largest=st.booleans(), dtype=st.sampled_from([lt.float32, lt.int16, lt.float64]))
def test_the_first_of_a_long_axis_are_those_of_its_order(n: int, seed: int, share: float,
                                                         largest: bool, dtype: lt.DType) -> None:
    x = values(seed, (n,), dtype, "cpu")
    k = round(share * n)
    order = expected(x, 0, largest)
    np.testing.assert_array_equal(x.topk(k, largest=largest).indices.numpy(), order[:k])
    if k:
        assert x.kthvalue(k).indices.item() == expected(x, 0, False)[k - 1]


FUNCTIONS: dict[str, Callable[[lt.Tensor], lt.Tensor]] = {
    "sort": lambda x: x.sort(0).values.cumsum(0),
    "topk": lambda x: x.topk(7, 0).values ** 2,
    "kthvalue": lambda x: x.kthvalue(5, 0).values,
    "median": lambda x: x.median(0).values,
    "quantile": lambda x: x.quantile(0.3, 0),
    "argsort": lambda x: x.argsort(0),
    "multinomial": lambda x: lt.Tensor.multinomial(x.abs().T, 3),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_sorts_a_long_axis_can_be_jitted(name: str, device: str, way: str) -> None:
    jitted = lt.jit(FUNCTIONS[name])
    for seed in range(3):
        x = lt.tensor(np.random.default_rng(seed).standard_normal((LONG + 100, 2)), device=device)
        lt.manual_seed(seed)
        plain = FUNCTIONS[name](x).numpy()
        lt.manual_seed(seed)
        np.testing.assert_array_equal(jitted(x).numpy(), plain)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["sort", "topk", "kthvalue", "median"])
def test_gradients_flow_through_the_order_of_a_long_axis(name: str, way: str) -> None:
    numbers = np.random.default_rng(0).standard_normal((LONG, 2))
    leaf = lt.tensor(numbers, requires_grad=True)
    expected_, = lt.grad(FUNCTIONS[name](leaf).sum(), leaf)
    for gradient in (lt.func.grad(lambda x: FUNCTIONS[name](x).sum()),
                     lt.jit(lt.func.grad(lambda x: FUNCTIONS[name](x).sum()))):
        np.testing.assert_allclose(gradient(lt.tensor(numbers)).numpy(), expected_.numpy())


def test_a_long_axis_is_sorted_under_vmap(way: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, LONG)).astype(np.float32)
    found = lt.func.vmap(lambda row: row.sort().values)(lt.tensor(x))
    np.testing.assert_array_equal(found.numpy(), np.sort(x, 1))


def test_devices_that_do_much_at_once_count_ranks_where_that_is_little_to_do() -> None:
    assert ordering.suits_ranks((64, 1000), 1, 1 << 16)
    assert not ordering.suits_ranks((1 << 22, 1000), 1, 1 << 16)
    assert not ordering.suits_ranks((64, 2000), 1, 1 << 16)
    assert not ordering.suits_ranks((64, 1000), 1, 0)  # a processor


def test_any_number_of_threads_sorts_alike() -> None:
    x = values(5, (60_000,), lt.float32, "cpu")
    before = lt.get_num_threads()
    try:
        for threads in (1, 3):
            lt.set_num_threads(threads)
            for way in WAYS.values():
                with pytest.MonkeyPatch.context() as patch:
                    for name, limit in way.items():
                        patch.setattr(ordering, name, limit)
                    np.testing.assert_array_equal(lt.jit(lambda x: x.argsort())(x).numpy(),
                                                  expected(x, 0, False))
    finally:
        lt.set_num_threads(before)


def test_a_nan_in_the_first_place_alone_is_the_median(device: str) -> None:
    x = lt.tensor([[np.nan, 1.0, 2.0], [5.0, 3.0, 4.0]], device=device)
    values, places = x.median(1)
    assert np.isnan(values[0].item()) and values[1].item() == 4 and places.tolist() == [0, 2]
    assert np.isnan(x[0].median().item())
