"""Index arrays, as tensors take them: reading, writing, gradients and errors, beside PyTorch."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from numeric_gradients import Inputs, check_gradients
from tensor_values import as_tensor, assert_same
from torch_if_there import torch

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.node import cast, elementwise, expand, gather, scatter
from lazyten.ir.ops import Op

Array = np.ndarray[Any, Any]


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index with at least one array, which broadcasts with the others; NumPy arrays."""
    common = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    entries: list[Any] = []
    arrays = 0
    for n in shape:
        kind = draw(st.sampled_from(["array", "array", "slice", "integer", "mask"]))
        if draw(st.integers(0, 6)) == 0:
            entries.append(None)
        if kind == "mask" and common == ():
            mask = rng.random(n) < 0.5
            entries.append(mask)
            common = (int(mask.sum()),)
            arrays += 1
        elif kind in ("array", "mask") and n:
            low = draw(st.integers(0, len(common)))
            own = tuple(m if draw(st.booleans()) else 1 for m in common[low:]) or (1,)
            entries.append(rng.integers(-n, n, own))
            arrays += 1
        elif kind == "integer":
            entries.append(draw(st.integers(-n, n - 1)))
        else:
            start = draw(st.integers(0, n - 1))
            entries.append(slice(start, None, draw(st.integers(1, 2))))
        if draw(st.integers(0, 8)) == 0:
            break
    if not arrays:
        entries = [rng.integers(-shape[0], shape[0], (2,))]
    if draw(st.booleans()) and len([e for e in entries if e is not None]) < len(shape):
        entries.append(Ellipsis)
    return tuple(entries)


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def converted(index: tuple[Any, ...], make: Callable[[Array], Any]) -> tuple[Any, ...]:
    return tuple(make(e) if isinstance(e, np.ndarray) else e for e in index)


@pytest.mark.torch
@given(data=st.data(), shape=SHAPES)
@examples(80)
def test_reading_through_index_arrays_matches_pytorch(data: st.DataObject,
                                                      shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    index = data.draw(indices(shape))
    expected = torch.tensor(values)[converted(index, torch.tensor)].numpy()
    for device in ("cpu", "interpreter"):
        got = as_tensor(values, device)[converted(index, lambda e, d=device: as_tensor(e, d))]
        assert_same(got.numpy(), expected)


@pytest.mark.torch
@given(data=st.data(), shape=SHAPES, accumulate=st.booleans())
@examples(60)
def test_writing_through_index_arrays_matches_pytorch(data: st.DataObject, accumulate: bool,
                                                      shape: tuple[int, ...]) -> None:
    """Where several are put in one place, PyTorch leaves it open which one stays: all are alike."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    index = data.draw(indices(shape))
    reference = torch.tensor(values)
    into = converted(index, torch.tensor)
    there = reference[into].shape
    new = torch.arange(int(np.prod(there))).reshape(there).float() if accumulate else torch.full(
        there, 7.5)
    if accumulate:
        if any(not isinstance(e, torch.Tensor) for e in into):
            return
        reference.index_put_(into, new, accumulate=True)
    else:
        reference[into] = new
    for device in ("cpu", "interpreter"):
        x = as_tensor(values, device)
        own = converted(index, lambda e, d=device: as_tensor(e, d))
        if accumulate:
            x.index_put_(own, as_tensor(new.numpy(), device), accumulate=True)
        else:
            x[own] = as_tensor(new.numpy(), device)
        assert_same(x.numpy(), reference.numpy())


def test_the_last_of_several_values_for_one_place_stays(device: str) -> None:
    x = lt.zeros(3, device=device)
    x[as_tensor([1, 0, 1, 1], device)] = as_tensor(np.float32([1, 2, 3, 4]), device)
    assert x.tolist() == [2, 4, 0]


def test_integers_beside_arrays_are_taken_first_as_in_pytorch(device: str) -> None:
    """NumPy would put the axis of the array in front."""
    x = lt.zeros(2, 3, 4, device=device)
    assert x[0, :, as_tensor([0, 1], device)].shape == (3, 2)


@pytest.mark.torch
@given(data=st.data(), shape=SHAPES, include=st.booleans())
@examples(60)
def test_the_scatter_family_matches_pytorch(data: st.DataObject, shape: tuple[int, ...],
                                            include: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    index_shape = tuple(int(rng.integers(1, 7)) if a == axis else int(rng.integers(1, n + 1))
                        for a, n in enumerate(shape))
    index = rng.integers(0, shape[axis], index_shape)
    base = rng.integers(-9, 9, shape).astype(np.float32)
    source = rng.integers(-9, 9, tuple(n + 1 for n in index_shape)).astype(np.float32)
    t, ti, ts = torch.tensor(base), torch.tensor(index), torch.tensor(source)
    for device in ("cpu", "interpreter"):
        x, i, s = (as_tensor(v, device) for v in (base, index, source))
        assert_same(x.scatter_add(axis, i, s).numpy(), t.scatter_add(axis, ti, ts).numpy())
        assert_same(x.scatter(axis, i, 2.5).numpy(), t.scatter(axis, ti, 2.5).numpy())
        assert_same(x.gather(axis, i).numpy(), t.gather(axis, ti).numpy())
        for how in ("add", "multiply"):
            assert_same(x.scatter(axis, i, s, reduce=how).numpy(),
                        t.scatter(axis, ti, ts, reduce=how).numpy())
        for how in ("sum", "prod", "amax", "amin", "max", "min"):
            assert_same(x.scatter_reduce(axis, i, s, how, include).numpy(),
                        t.scatter_reduce(axis, ti, ts, how, include_self=include).numpy())


@pytest.mark.torch
@given(data=st.data(), include=st.booleans())
@examples(20)
def test_gradients_of_scattered_products_are_pytorchs_with_zeros_among_them(
        data: st.DataObject, include: bool) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    index = rng.integers(0, 4, (3, 5))
    base, source = [rng.integers(-2, 3, shape).astype(np.float64) for shape in ((3, 4), (3, 5))]
    leaves = [torch.tensor(v, requires_grad=True) for v in (base, source)]
    t, ts = leaves
    out = t.scatter_reduce(1, torch.tensor(index), ts, "prod", include_self=include)
    wanted = torch.autograd.grad((out * torch.arange(12.0).reshape(3, 4)).sum(), leaves)

    def product(x: lt.Tensor, s: lt.Tensor) -> lt.Tensor:
        got = x.scatter_reduce(1, lt.tensor(index), s, "prod", include)
        return (got * lt.arange(12.0).reshape(3, 4)).sum()
    x, s = lt.tensor(base), lt.tensor(source)
    found = lt.func.grad(product, argnums=(0, 1))(x, s)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    slopes = [lt.tensor(rng.integers(-3, 4, v.shape).astype(np.float64)) for v in (base, source)]
    slope = lt.func.jvp(product, (x, s), tuple(slopes))[1].item()
    assert slope == sum((g * d).sum().item() for g, d in zip(found, slopes, strict=True))


@st.composite
def repeats(draw: st.DrawFn, shape: tuple[int, ...], make: Callable[[tuple[int, ...]], Array]
            ) -> tuple[Array, Callable[[Any], Any]]:
    """(an array of `shape` that is the same along some axes, how a tensor shows it so)."""
    sizes = tuple(1 if draw(st.booleans()) else n for n in shape)
    small = make(sizes)
    if draw(st.booleans()):
        small = np.full_like(small, small.flat[0])
        return np.broadcast_to(small, shape), lambda like: like(shape, small.flat[0].item())
    return np.broadcast_to(small, shape), lambda like: like(small).expand(shape)


@pytest.mark.torch
@given(data=st.data(), shape=SHAPES, kind=st.sampled_from([np.float32, np.int64, np.float16]))
@examples(40)
def test_what_is_added_to_one_place_counts_each_time_though_no_loop_tells_it_apart(
        data: st.DataObject, shape: tuple[int, ...], kind: Any, device: str) -> None:
    """A constant or expanded index, with values that are the same, too."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    wide = (*shape[:axis], data.draw(st.integers(1, 40)), *shape[axis + 1:])
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    index, show_index = data.draw(repeats(wide, lambda s: rng.integers(0, shape[axis], s)))
    values, show = data.draw(repeats(wide, lambda s: rng.integers(-3, 4, s).astype(kind)))

    def like(x: Any, fill: Any = None) -> lt.Tensor:
        if isinstance(x, np.ndarray):
            return lt.tensor(x, device=device)
        whole = isinstance(fill, int) and fill >= 0
        return lt.full(x, fill, device=device, dtype=lt.int64 if whole else None)

    base = rng.integers(-3, 4, shape).astype(kind)
    found = lt.tensor(base, device=device).scatter_add(
        axis, show_index(like), show(like).to(dtype=kind))
    expected = torch.tensor(base).scatter_add(
        axis, torch.tensor(index.copy()), torch.tensor(values.copy()))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.few(18)
@pytest.mark.parametrize("how", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("value", [2.0, -1.0, 0.0])
def test_equal_values_for_one_place_are_combined_one_by_one(how: str, value: float,
                                                            device: str) -> None:
    index, values = lt.zeros(3, dtype=lt.int64, device=device), lt.full((1,), value, device=device)
    found = lt.full((4,), 3.0, device=device).scatter_reduce(0, index, values.expand(3), how)
    ours = [3.0, value, value, value]
    expected = {"sum": sum(ours), "prod": np.prod(ours), "amax": max(ours), "amin": min(ours),
                "mean": np.mean(ours)}[how]
    np.testing.assert_allclose(found.numpy(), [expected, 3, 3, 3])


def test_the_gradient_of_an_element_read_five_times_is_five(device: str) -> None:
    for index in (lt.zeros(5, dtype=lt.int64, device=device),
                  lt.tensor([0], device=device).expand(5)):
        x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
        x[index].sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [5, 0]


@pytest.mark.torch
def test_index_add_copy_and_take_along_dim_match_pytorch(device: str) -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(4, 5)).astype(np.float32)
    source = rng.normal(size=(4, 3)).astype(np.float32)
    index, unique = np.array([4, 0, 4]), np.array([3, 0, 1])
    x, s, i, u = (as_tensor(v, device) for v in (base, source, index, unique))
    t, ts, ti = torch.tensor(base), torch.tensor(source), torch.tensor(index)
    assert_same(x.index_add(1, i, s).numpy(), t.index_add(1, ti, ts).numpy())
    np.testing.assert_allclose(x.index_add(1, i, s, alpha=2).numpy(),
                               t.index_add(1, ti, ts, alpha=2).numpy(), rtol=1e-6)
    assert_same(x.index_copy(1, u, s).numpy(), t.index_copy(1, torch.tensor(unique), ts).numpy())
    wide = rng.integers(0, 4, (6, 1))
    assert_same(x.take_along_dim(as_tensor(wide, device), 0).numpy(),
                t.take_along_dim(torch.tensor(wide), 0).numpy())
    assert_same(x.take_along_dim(as_tensor([7, 1], device)).numpy(), base.reshape(-1)[[7, 1]])


def test_nonzero_and_masks_match_numpy(device: str) -> None:
    values = np.random.default_rng(0).integers(-1, 2, (4, 5))
    x = as_tensor(values, device)
    assert_same(x.nonzero().numpy(), np.stack(np.nonzero(values), 1))
    for got, expected in zip(x.nonzero(as_tuple=True), np.nonzero(values), strict=True):
        assert_same(got.numpy(), expected)
    assert lt.tensor(3, device=device).nonzero().shape == (1, 0)
    assert_same(x[x > 0].numpy(), values[values > 0])
    assert_same(lt.masked_select(x, x[0] > 0).numpy(), values[:, values[0] > 0].reshape(-1))
    x[x > 0] = x[x > 0] * 5
    assert_same(x.numpy(), np.where(values > 0, values * 5, values))


# ---- gradients -----------------------------------------------------------------------------------

def test_gradients_through_gathers_and_scatters_agree_with_central_differences() -> None:
    inputs = Inputs()
    rng = np.random.default_rng(3)
    x, y = inputs.leaf(rng.uniform(-2, 2, (5, 4))), inputs.leaf(rng.uniform(-2, 2, (3, 4)))
    at = inputs.array(np.array([[4.0], [1.0], [4.0]]))
    positions = expand(cast(at, dt.int64), (3, 4))
    product = elementwise(Op.MUL, gather(x, 0, positions), elementwise(Op.SIN, y))
    check_gradients(inputs, product)
    for combiner in (Op.ADD, Op.MAX):
        check_gradients(inputs, elementwise(Op.SIN, scatter(x, 0, positions, product, combiner)))


@pytest.mark.torch
def test_an_embedding_trains_as_pytorch_s(device: str) -> None:
    rng = np.random.default_rng(0)
    table, words = rng.normal(size=(11, 6)).astype(np.float32), rng.integers(0, 11, (4, 7))
    layer = lt.nn.Embedding(11, 6, padding_idx=2, device=device)
    assert layer.weight[2].tolist() == [0] * 6
    with lt.no_grad():
        layer.weight.copy_(as_tensor(table, device))
    theirs = torch.nn.Embedding(11, 6, padding_idx=2, _weight=torch.tensor(table))
    got, expected = layer(as_tensor(words, device)), theirs(torch.tensor(words))
    assert_same(got.detach().numpy(), expected.detach().numpy())
    (got ** 2).sum().backward()
    (expected ** 2).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-6)
    assert layer.weight.grad[2].tolist() == [0] * 6


@pytest.mark.torch
def test_assignment_through_an_index_passes_gradients_as_pytorch_s(device: str) -> None:
    rng = np.random.default_rng(0)
    base, new = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(2, 3)).astype(
        np.float32)
    x, v = (as_tensor(a, device).requires_grad_() for a in (base, new))
    tx, tv = (torch.tensor(a, requires_grad=True) for a in (base, new))
    y, ty = x * 2, tx * 2
    y[as_tensor([3, 0], device)] = v
    ty[torch.tensor([3, 0])] = tv
    (y ** 2).sum().backward()
    (ty ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-6)
    np.testing.assert_allclose(v.grad.numpy(), tv.grad.numpy(), rtol=1e-6)


# ---- indices outside -----------------------------------------------------------------------------

OUTSIDE: dict[str, Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = {
    "index": lambda x, i: x[1, i.long() if i.dtype is lt.uint8 else i],  # not as a mask
    "gather": lambda x, i: x.gather(1, i.reshape(1, -1)),
    "take_along_dim": lambda x, i: x.take_along_dim(i.reshape(1, -1), 1),
    "scatter_add": lambda x, i: x.scatter_add(1, i.reshape(1, -1), lt.ones_like(x)),
    "index_add": lambda x, i: x.index_add(1, i, lt.ones(3, i.numel(), device=x.device)),
}


@pytest.mark.few(16)
@pytest.mark.parametrize("operation", OUTSIDE)
@pytest.mark.parametrize("dtype", [lt.int64, lt.int8, lt.uint8], ids=lambda d: d.name)
@pytest.mark.parametrize("wrong", [4, 9, -5])
def test_an_index_outside_is_an_error_before_the_result_is_seen(
        operation: str, dtype: lt.DType, wrong: int, device: str) -> None:
    if wrong < 0 and dtype is lt.uint8:
        wrong = 250
    x = as_tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device)
    index = as_tensor(np.array([0, wrong, 3]), device).to(dtype)
    result = OUTSIDE[operation](x, index) * 2
    for _ in range(2):
        with pytest.raises(lt.IndexingError, match=rf"{operation}: index {wrong} is outside axis "
                           rf"1, which has size 4.*test_index_arrays\.py:\d+"):
            result.numpy()
    index[1] = 3
    assert OUTSIDE[operation](x, index).numpy().size


def test_an_index_outside_in_a_jitted_function_is_an_error_at_its_call(device: str) -> None:
    @lt.jit
    def read(x: lt.Tensor, i: lt.Tensor) -> lt.Tensor:
        return x[i] * 2

    x = as_tensor(np.arange(5.0), device)
    for good in ([0, 4], [-5, 1], [2, 2]):
        assert read(x, as_tensor(good, device)).tolist() == [2.0 * (g % 5) for g in good]
    with pytest.raises(lt.IndexingError, match="index -6 is outside axis 0"):
        read(x, as_tensor([1, -6], device))
    assert read(x, as_tensor([3, -1], device)).tolist() == [6, 8]


def test_a_zero_dim_index_in_a_jitted_function_is_another_in_each_call(device: str) -> None:
    @lt.jit
    def moved(x: lt.Tensor, i: lt.Tensor) -> lt.Tensor:
        y = x.clone()
        y[i] = x[i - 1] * 2
        y[i, -1] += x[0, i]
        return y

    for place in (2, 0, 1):
        x = np.arange(9.0, dtype=np.float32).reshape(3, 3)
        found = moved(lt.tensor(x, device=device), lt.tensor(place, device=device))
        expected = x.copy()
        expected[place] = x[place - 1] * 2
        expected[place, -1] += x[0, place]
        np.testing.assert_array_equal(found.numpy(), expected)


def test_vmap_takes_the_gradient_of_an_element_by_a_zero_dim_index(device: str) -> None:
    x = lt.arange(6.0, device=device).reshape(2, 3)
    element = lt.func.grad(lambda row, i: row[i] ** 2)
    found = lt.vmap(element)(x, lt.tensor([2, 0], device=device))
    assert found.tolist() == [[0, 0, 4], [6, 0, 0]]


def test_a_shape_that_depends_on_values_is_refused_in_a_jitted_function(device: str) -> None:
    with pytest.raises(lt.JitError):
        lt.jit(fullgraph=True)(lambda x: x[x > 1])(lt.arange(4, device=device))
