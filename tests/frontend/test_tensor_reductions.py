"""Reductions of tensors beside NumPy's: axes, empty axes, ties, NaN, statistics."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_values import NUMPY_TYPES, Array, as_tensor, assert_same, computed, edges

import lazyten as lt
from lazyten.execution import background
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.nn import functional as F
from lazyten.operators.arrays import ordering

AXES: list[Any] = [None, 0, 1, -1, (0, 1), (0, -1), (2, 0, 1)]
SUMS: dict[str, Callable[..., Any]] = {"sum": np.sum, "prod": np.prod, "amax": np.max,
                                       "amin": np.min, "any": np.any, "all": np.all}


def ids(dtype: dt.DType) -> str:
    return dtype.name


def integers(dtype: dt.DType, shape: tuple[int, ...] = (2, 3, 4)) -> Array:
    return np.random.default_rng(3).integers(0, 4, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [lt.bool_, lt.int8, lt.uint8, lt.int32, lt.int64, lt.float32,
                                   lt.float64], ids=ids)
def test_reductions_match_numpy_over_all_kinds_of_axes(dtype: dt.DType, device: str) -> None:
    values = integers(dtype)
    x = as_tensor(values, device)
    results = {f"{n} {a} {k}": getattr(x, n)(a, keepdim=k)
               for n in SUMS for a in AXES for k in (False, True)}
    found = computed(results)
    for name, function in SUMS.items():
        for axes in AXES:
            for keep in (False, True):
                expected = np.asarray(function(values, axis=axes, keepdims=keep))
                if name in ("sum", "prod") and not dtype.is_float:
                    expected = expected.astype(np.int64)
                elif dtype is lt.uint8:  # of which any() and all() are of uint8, too, as in PyTorch
                    expected = expected.astype(np.uint8)
                assert_same(found[f"{name} {axes} {keep}"], expected, f"{name} {axes} {keep}")


@pytest.mark.parametrize("shape", [(300,), (257, 3), (3, 257), (5, 64, 7), (1, 1), (33, 1, 17)])
def test_sums_and_extremes_of_many_sizes_match_numpy(shape: tuple[int, ...], device: str) -> None:
    values = np.random.default_rng(4).normal(size=shape)
    x = as_tensor(values, device)
    axes = [None, *range(len(shape))]
    found = computed({f"{n}{a}": getattr(x, n)(a) for n in ("sum", "amax", "mean", "amin")
                      for a in axes})
    for axis in axes:
        for name in ("sum", "amax", "mean", "amin"):
            np.testing.assert_allclose(found[f"{name}{axis}"], getattr(np, name)(values, axis=axis),
                                       rtol=1e-12, atol=1e-12)


def test_results_have_torchs_dtypes() -> None:
    for dtype in dt.ARITHMETIC:
        x = lt.ones(2, 2, dtype=dtype)
        assert x.sum().dtype is (dtype if dtype.is_float else lt.int64)
        assert x.prod(0).dtype is (dtype if dtype.is_float else lt.int64)
        assert x.cumsum(0).dtype is (dtype if dtype.is_float else lt.int64)
        assert x.amax().dtype is dtype and x.max(1).values.dtype is dtype
        assert x.argmax().dtype is x.max(1).indices.dtype is lt.int64
        assert x.any().dtype is x.all(0).dtype is (dtype if dtype is lt.uint8 else lt.bool_)
        assert x.sum(dtype=lt.float64).dtype is lt.float64
        if dtype.is_float:
            assert x.mean().dtype is x.var().dtype is x.std().dtype is dtype


def test_empty_axes_give_the_identity(device: str) -> None:
    x = lt.zeros(2, 0, 3, device=device)
    found = computed({"sum": x.sum(), "sum1": x.sum(1), "prod": x.prod(1), "any": x.any(),
                      "all": x.all(1), "mean": x.mean(1), "lse": x.logsumexp(1), "sum0": x.sum(0),
                      "cumsum": x.cumsum(1), "max0": x.amax(0)})
    assert found["sum"] == 0 and found["sum1"].tolist() == [[0] * 3] * 2
    assert found["prod"].tolist() == [[1] * 3] * 2
    assert not found["any"] and found["all"].all()
    assert np.isnan(found["mean"]).all() and (found["lse"] == -np.inf).all()
    assert found["sum0"].shape == found["max0"].shape == (0, 3)
    assert found["cumsum"].shape == (2, 0, 3)


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "max", "min"])
def test_extremes_of_no_elements_are_refused(name: str) -> None:
    with pytest.raises(lt.ShapeError, match="no elements"):
        getattr(lt.zeros(2, 0), name)(1)
    with pytest.raises(lt.ShapeError, match="no elements"):
        getattr(lt.zeros(0), name)()


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=ids)
def test_extremes_and_their_positions_match_numpy_at_the_limits(dtype: dt.DType,
                                                                device: str) -> None:
    values = edges(dtype).astype(dtype.numpy)
    rolled = np.stack([np.roll(values, i) for i in range(4)])
    finite = np.where(rolled != rolled, 1, rolled).astype(dtype.numpy)
    results = {}
    for label, array in (("rolled", rolled), ("finite", finite)):
        x = as_tensor(array, device, dtype)
        results |= {f"{label} amax": x.amax(1), f"{label} amin": x.amin(1),
                    f"{label} argmax": x.argmax(1), f"{label} argmin": x.argmin(1),
                    f"{label} argmax all": x.argmax(), f"{label} argmin 0": x.argmin(0)}
        top, low = x.max(1), x.min(0, keepdim=True)
        results |= {f"{label} max": top.values, f"{label} max at": top.indices,
                    f"{label} min": low.values, f"{label} min at": low.indices}
    found = computed(results)
    for label, a in (("rolled", rolled), ("finite", finite)):
        expected = {"amax": a.max(1), "amin": a.min(1), "argmax": a.argmax(1),
                    "argmin": a.argmin(1), "argmax all": a.argmax(), "argmin 0": a.argmin(0),
                    "max": a.max(1), "max at": a.argmax(1), "min": a.min(0, keepdims=True),
                    "min at": a.argmin(0)[None]}
        for name, values in expected.items():
            np.testing.assert_array_equal(found[f"{label} {name}"], values, err_msg=name)


@given(values=st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf]),
                       min_size=1, max_size=12))
def test_the_first_of_ties_and_the_first_nan_win(values: list[float]) -> None:
    x = lt.tensor(values, device="interpreter")
    lt.realize(high := x.argmax(), low := x.argmin())
    assert high.item() == np.argmax(values) and low.item() == np.argmin(values)


def test_positions_keep_axes_if_asked(device: str) -> None:
    x = as_tensor(np.arange(6.0).reshape(2, 3) % 4, device)
    lt.realize(kept := x.argmax(1, keepdim=True), all_kept := x.argmin(keepdim=True),
               flat := x.argmax())
    assert kept.tolist() == [[2], [0]]
    assert all_kept.shape == (1, 1) and flat.item() == 3
    zero = lt.tensor(5.0, device=device)
    assert zero.argmax().item() == 0 and zero.max(0).indices.item() == 0


@pytest.mark.parametrize("correction", [0, 1, 2, 1.5])
def test_variance_and_deviation_match_numpy(correction: float, device: str) -> None:
    values = np.random.default_rng(5).normal(3, 2, (4, 5))
    x = as_tensor(values, device)
    found = computed({f"{n}{a}": getattr(x, n)(a, correction=correction)
                      for n in ("var", "std") for a in (None, 0, 1, (0, 1))})
    for axes in (None, 0, 1, (0, 1)):
        np.testing.assert_allclose(found[f"var{axes}"], values.var(axes, ddof=correction))
        np.testing.assert_allclose(found[f"std{axes}"], values.std(axes, ddof=correction))


def test_variance_of_one_element_is_nan_and_of_large_numbers_is_exact(device: str) -> None:
    x = as_tensor(np.float32([[1e6], [1e6 + 1], [1e6 + 2]]), device)
    lt.realize(alone := x.var(1), down := x.var(0))
    assert np.isnan(alone.numpy()).all()
    assert down.tolist() == [1.0]


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=str)
def test_what_is_much_larger_than_it_differs_keeps_its_variance(dtype: dt.DType,
                                                                device: str) -> None:
    """Where the mean itself has to be rounded."""
    steps = np.array([0, 4, 8, 16, 0, 0, 4], np.float64)
    large = 1.5 * 2.0**(24 if dtype is lt.float32 else 53)
    x = lt.tensor(large + steps, dtype=dtype, device=device)
    lt.realize(var := x.var(), cov := lt.cov(lt.stack([x, -x])))
    assert var.item() == pytest.approx(steps.var(ddof=1), rel=1e-6)
    np.testing.assert_allclose(cov.numpy(), np.cov([steps, -steps]), rtol=1e-6)


@pytest.mark.parametrize(("weights", "wrong"), [
    ({"fweights": [1, -2, 3]}, "fweights is below 0"), ({"aweights": [1., 2., -1.]}, "aweights is"),
    ({"aweights": [0.0] * 3}, "sum to 0")])
def test_covariances_have_no_weights_below_0(weights: dict[str, list[float]], wrong: str,
                                             device: str) -> None:
    x = lt.ones(2, 3, device=device)
    made = {name: lt.tensor(values, device=device) for name, values in weights.items()}
    with pytest.raises(lt.ArgumentError, match=wrong):
        x.cov(**made).realize()


@pytest.mark.parametrize("scale", [1e20, 1e-30])
@pytest.mark.parametrize("dtype", [lt.float32, lt.bfloat16], ids=str)
def test_squares_that_a_type_does_not_hold_are_no_lengths_of_0_or_infinity(
        dtype: dt.DType, scale: float, device: str) -> None:
    x = lt.tensor([3.0 * scale, -4.0 * scale], dtype=dtype, device=device)
    values = x.double().numpy()
    length = float(np.sqrt((values**2).sum()))
    found = {"std": x.std(), "norm": x.norm(), "cube": x.norm(3), "vector_norm":
             lt.linalg.vector_norm(x), "normalize": F.normalize(x, dim=0, eps=0.0),
             "cosine": F.cosine_similarity(x, x, 0, 1e-37), "gap": lt.cdist(x[None], 0 * x[None])}
    lt.realize(*found.values())
    exact = {"std": values.std(ddof=1), "norm": length, "cube": length * 91**(1 / 3) / 5,
             "vector_norm": length, "normalize": values / length, "cosine": 1.0,
             "gap": [[length]]}
    for name, value in found.items():
        np.testing.assert_allclose(value.double().numpy(), exact[name],
                                   rtol=1e-6 if dtype is lt.float32 else 2e-2, err_msg=name)


def test_a_norm_of_rows_whose_squares_overflow_is_nan_and_not_0(device: str) -> None:
    x = lt.tensor([[1e20, -1e20, 5e19]], device=device)
    assert np.isnan(F.layer_norm(x, (3,)).numpy()).all()
    assert np.isnan(F.rms_norm(x, (3,)).numpy()).all()
    assert np.isnan(F.batch_norm(x.T, None, None, training=True).numpy()).all()


def test_logsumexp_and_softmax_survive_infinities_and_large_numbers(device: str) -> None:
    inf = np.inf
    values = np.array([[1000, 1000.5, 999], [-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 1],
                       [-1e30, 0, 1e30]])
    x = as_tensor(values, device)
    found = computed({"lse": x.logsumexp(1), "soft": x.softmax(1), "log": x.log_softmax(1),
                      "kept": x.logsumexp((0, 1), keepdim=True)})
    with np.errstate(all="ignore"):
        expected = np.logaddexp.reduce(values, axis=1)
    np.testing.assert_allclose(found["lse"], expected, rtol=1e-14)
    assert found["kept"].shape == (1, 1)
    ordinary = [0, 1, 4]
    logs = values[ordinary] - expected[ordinary][:, None]
    np.testing.assert_allclose(found["soft"][ordinary], np.exp(logs), rtol=1e-12)
    np.testing.assert_allclose(found["log"][ordinary], logs, rtol=1e-12)
    assert np.isnan(found["soft"][2]).all()


def test_cumulative_sums_match_numpy(device: str) -> None:
    values = np.random.default_rng(6).integers(-9, 9, (5, 13))
    x = as_tensor(values, device)
    found = computed({"0": x.cumsum(0), "1": x.cumsum(-1), "b": (x > 0).cumsum(1),
                      "f": x.double().cumsum(1), "i": x.cumsum(0, dtype=lt.float32)})
    assert_same(found["0"], values.cumsum(0))
    assert_same(found["1"], values.cumsum(1))
    assert_same(found["b"], (values > 0).cumsum(1))
    assert_same(found["f"], values.astype(float).cumsum(1))
    assert_same(found["i"], values.cumsum(0).astype(np.float32))
    assert lt.tensor(3.0, device=device).cumsum(0).item() == 3


def test_halves_are_summed_in_float32(device: str) -> None:
    values = np.full((3, 4096), 1.001, np.float16)
    x = as_tensor(values, device)
    found = computed({"sum": x.sum(1), "mean": x.mean(1), "var": (x * 0 + 2).var(1)})
    expected = values.astype(np.float32).sum(1).astype(np.float16)
    np.testing.assert_array_equal(found["sum"], expected)
    np.testing.assert_array_equal(found["mean"], values[:, 0])
    np.testing.assert_array_equal(found["var"], np.zeros(3))


def test_reductions_of_views_match_numpy(device: str) -> None:
    values = np.arange(24.0).reshape(4, 6)
    x = as_tensor(values, device)
    found = computed({"step": x[::2, ::-1].sum(1), "T": x.T.mean(0), "expand":
                      x[0].expand(3, 6).prod(0), "flip": x.flip(0).argmax(0),
                      "norm": x.norm(dim=1)})
    assert_same(found["step"], values[::2, ::-1].sum(1))
    assert_same(found["T"], values.T.mean(0))
    assert_same(found["expand"], values[0] ** 3)
    assert_same(found["flip"], values[::-1].argmax(0))
    np.testing.assert_allclose(found["norm"], np.linalg.norm(values, axis=1))


def test_axes_outside_or_named_twice_are_refused() -> None:
    x = lt.zeros(2, 3)
    for axes in (2, -3, (0, 5)):
        with pytest.raises(lt.IndexingError, match="outside"):
            x.sum(axes)
    with pytest.raises(lt.IndexingError, match="twice"):
        x.sum((1, -1))
    with pytest.raises(lt.DTypeError, match="whole number"):
        x.sum(0.5)  # type: ignore[arg-type]
    with pytest.raises(lt.DTypeError, match="mean of int64"):
        lt.arange(3).mean()
    with pytest.raises(lt.DTypeError, match="var of int64"):
        lt.arange(3).var()
    with pytest.raises(lt.IndexingError):
        x.argmax(2)
    with pytest.raises(lt.IndexingError):
        x.cumsum(-3)


@pytest.mark.parametrize("n", [7, 24, 1000])
def test_repeated_values_count_as_often_as_they_are_repeated(n: int, device: str) -> None:
    column = as_tensor(np.array([[2.0], [3.0]]), device)
    wide = column.expand(2, n)
    found = computed({"ones": lt.ones(4, n, device=device).sum(), "sum": wide.sum(1),
                      "products": (wide * (column + 1).expand(2, n)).sum(1), "max": wide.amax(1),
                      "matmul": wide @ lt.ones(n, 3, dtype=lt.float64, device=device)})
    assert found["ones"] == 4 * n
    assert found["sum"].tolist() == [2 * n, 3 * n]
    assert found["products"].tolist() == [6 * n, 12 * n]
    assert found["max"].tolist() == [2, 3]
    assert found["matmul"].tolist() == [[2 * n] * 3, [3 * n] * 3]


# ---- more elements than an int32 counts ----------------------------------------------------------

FAR = (1 << 31) + 5
"""A size that no int32 holds. Nothing of it is stored."""

FAR_CALLS: dict[str, Callable[[lt.Tensor], Any]] = {
    "argmax": lambda x: x.argmax(), "argmin": lambda x: x.argmin(0),
    "max": lambda x: x.max(0), "min": lambda x: x.min(0), "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x._unary(lambda node: ordering.order(node, 0, False, 3)),
    "cummax": lambda x: x.cummax(0), "cummin": lambda x: x.cummin(0),
    "count_nonzero": lambda x: x.count_nonzero(), "sum": lambda x: x.sum(),
    "any": lambda x: x.any(), "roll": lambda x: x.roll(3), "cat": lambda x: lt.cat([x, x]),
    "one_hot": lambda x: F.one_hot(x[:2], FAR), "gather": lambda x: x.gather(0, x[:3].long()),
    "cross_entropy": lambda x: F.cross_entropy(x.float()[None], x[:1]),
    "scatter": lambda x: x.scatter(0, x[:3].long(), 1), "flip": lambda x: x.flip(0),
    "index": lambda x: x[x[:3].long()], "index_add": lambda x: x.index_add(0, x[:3].long(), x[:3]),
    "searchsorted": lambda x: lt.searchsorted(x, x[:3]), "arange": lambda x: lt.arange(FAR),
    "linspace": lambda x: lt.linspace(0, 1, FAR), "eye": lambda x: lt.eye(2, FAR),
    "tril": lambda x: x[None].tril(), "take": lambda x: x.take(x[:3].long()),
    "max_pool1d": lambda x: F.max_pool1d(x.float()[None, None], 2, return_indices=True),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x), "diff": lambda x: x.diff(),
    "interpolate": lambda x: F.interpolate(x.float()[:3][None, None], size=FAR),
    "repeat_interleave": lambda x: x.repeat_interleave(2), "tile": lambda x: x.tile(2)}


def nodes_under(result: Any) -> list[Node]:
    """All nodes that what a call gave is computed from."""
    parts = result if isinstance(result, tuple) else (result,)
    return toposort([t.node for t in parts])


@pytest.mark.parametrize("name", FAR_CALLS)
def test_positions_have_a_type_that_holds_them(name: str) -> None:
    x = lt.ones(1, dtype=lt.uint8).expand(FAR)
    with background.paused():
        result = FAR_CALLS[name](x)
    for node in nodes_under(result):
        counted = node.src[0] if node.op is Op.CAST else node
        while counted.op in MOVEMENT:
            counted = counted.src[0]
        if node.op is Op.CAST and counted.op is Op.IOTA and node.dtype.is_int:
            assert counted.numel - 1 <= node.dtype.max, node
        if node.op is Op.CONST and node.dtype.is_int:
            assert node.dtype.min <= int(node.value) <= node.dtype.max, node


@pytest.mark.slow
def test_argmax_finds_what_is_beyond_the_numbers_of_an_int32() -> None:
    places = lt.arange(FAR, device="cpu")  # of which nothing is stored
    assert (places >= FAR - 3).argmax().item() == FAR - 3


def test_the_gradient_of_logsumexp_of_no_elements_is_of_none(device: str) -> None:
    x = lt.zeros(2, 0, device=device).requires_grad_()
    value = x.logsumexp(1)
    value.sum().backward()
    assert value.tolist() == [-math.inf] * 2 and x.grad.shape == (2, 0)


@pytest.mark.parametrize("p", (-1, -0.5, -math.inf))
def test_a_norm_of_no_elements_whose_power_is_negative_is_refused(p: float) -> None:
    with pytest.raises(lt.ShapeError):
        lt.zeros(2, 0).norm(p, 1)


def test_a_masked_deviation_of_large_and_of_tiny_numbers_is_that_of_numpy() -> None:
    for scale in (1e20, 1e-30):
        x = lt.tensor([scale, 3 * scale, 5 * scale])
        found = lt.masked.std(x, mask=lt.tensor([True, True, False]))
        assert found.item() == pytest.approx(2**0.5 * scale)


def test_what_is_outside_a_histogram_adds_nothing_to_its_first_part() -> None:
    x = lt.tensor([-9.0, 0.5, 1.5, 1.6, 9.0, float("nan")])
    weight = lt.tensor([float("nan"), 2.0, 3.0, 4.0, float("inf"), 5.0])
    assert lt.histc(x, 2, 0, 2).tolist() == [1, 2]
    assert lt.histogram(x, 2, range=(0, 2), weight=weight).hist.tolist() == [2, 7]
