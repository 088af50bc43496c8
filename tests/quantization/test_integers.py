"""Weights as integers, and floats as what integers leave of them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_if_there import torch

import lazyten as lt
from lazyten.quantization import QuantizedWeight
from lazyten.quantization.weights import Scheme, packed, unpacked

Array = np.ndarray[Any, Any]


def weights(shape: tuple[int, ...], seed: int, shift: float = 0.0) -> Array:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) * 10.0 ** random.integers(-3, 3) + shift).astype(np.float32)


def by_rows(x: Array, axis: int) -> Array:
    return np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)


@pytest.mark.slow
@given(st.data())
def test_a_weight_is_at_most_half_a_scale_off(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    axis = data.draw(st.integers(0, 1))
    columns = int(np.prod(shape)) // shape[axis]
    size = data.draw(st.sampled_from([n for n in range(1, columns + 1) if columns % n == 0]))
    scheme = Scheme(data.draw(st.sampled_from([4, 8])), data.draw(st.sampled_from([None, size])),
                    data.draw(st.booleans()))
    shift = 0.0 if scheme.symmetric else data.draw(st.sampled_from([-3.0, 0.0, 3.0]))
    floats = weights(shape, data.draw(st.integers(0, 1000)), shift)
    made = QuantizedWeight(lt.tensor(floats), scheme, axis, "here")
    steps = np.repeat(made.scale.numpy(), columns // made.scale.shape[1], axis=1)
    off = np.abs(by_rows(made().numpy(), axis) - by_rows(floats, axis))
    assert made().shape == shape and np.all(off <= steps * (0.5 + 1e-5 * 256))


@pytest.mark.parametrize("scheme", [Scheme(8), Scheme(4), Scheme(8, 3), Scheme(4, 3, False)])
def test_integers_are_those_of_the_formula(scheme: Scheme) -> None:
    floats = weights((5, 6), 3, 1.0)
    made = QuantizedWeight(lt.tensor(floats), scheme, 0, "here")
    groups = floats.reshape(5, -1, scheme.group_size or 6)
    if scheme.symmetric:
        most, zero = (127, 0.0) if scheme.bits == 8 else (7, 8.0)
        scale = np.abs(groups).max(2, keepdims=True) / np.float32(most)
        zeros = np.full_like(scale, zero)
    else:
        low, high = np.minimum(groups.min(2), 0), np.maximum(groups.max(2), 0)
        scale = ((high - low) / np.float32(15))[..., None]
        zeros = np.rint(-low[..., None] / scale)
        assert made.zero_point is not None
        np.testing.assert_array_equal(made.zero_point.numpy(), zeros[..., 0])
    np.testing.assert_allclose(made.scale.numpy(), scale[..., 0], rtol=1e-6)
    found = made.whole().numpy().reshape(groups.shape)
    assert np.abs(found - (np.rint(groups / scale) + zeros)).max() == 0
    np.testing.assert_allclose(made().numpy().reshape(groups.shape), (found - zeros) * scale,
                               rtol=1e-6)


@pytest.mark.parametrize("columns", [1, 2, 7, 8])
def test_two_integers_to_a_byte(columns: int) -> None:
    whole = np.random.default_rng(columns).integers(0, 16, (3, columns)).astype(np.uint8)
    bytes_ = packed(lt.tensor(whole))
    assert bytes_.shape == (3, -(-columns // 2)) and bytes_.dtype is lt.uint8
    np.testing.assert_array_equal(unpacked(bytes_, columns).numpy(), whole)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_group_of_zeros_stays_zero(symmetric: bool) -> None:
    floats = np.zeros((2, 4), np.float32)
    floats[1] = [1e-44, 0, 0, -1e-44]  # 1 / scale would be infinite
    made = QuantizedWeight(lt.tensor(floats), Scheme(8, None, symmetric), 0, "here")
    np.testing.assert_array_equal(made().numpy(), np.zeros((2, 4)))


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16, lt.float64])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_other_floats_come_back_in_their_type(dtype: lt.DType, bits: int) -> None:
    floats = lt.tensor(weights((4, 6), 1)).to(dtype)
    made = QuantizedWeight(floats, Scheme(bits), 0, "here")
    assert made().dtype is made.scale.dtype is dtype
    exact, near = floats.double().numpy(), 2.0 ** (-8 if dtype is lt.bfloat16 else -11)
    off = np.abs(made().double().numpy() - exact)  # the product is rounded, too
    assert np.all(off <= made.scale.double().numpy() * 0.51 + near * np.abs(exact))


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_weight_that_is_no_number_is_an_error(bad: float) -> None:
    floats = np.ones((2, 4), np.float32)
    floats[1, 2] = bad
    with pytest.raises(lt.ArgumentError, match="here: the weight has elements that are infinite"):
        QuantizedWeight(lt.tensor(floats), Scheme(), 0, "here")


def test_integers_have_no_integers_left_of_them() -> None:
    with pytest.raises(lt.DTypeError, match="here: the weight is int32"):
        QuantizedWeight(lt.ones(2, 2, dtype=lt.int32), Scheme(), 0, "here")


# ---- functions of tensors ------------------------------------------------------------------------

RANGES = [(0.1, 0, -8, 7), (0.037, 3, 0, 15), (0.5, -128, -128, 127), (2.0, 255, 0, 255),
          (1 / 3, 7, 0, 15)]


def values() -> Array:
    at = np.random.default_rng(0).normal(size=200).astype(np.float32) * 3
    return np.concatenate([at, np.arange(-40, 40) / 4, [0.0, -0.0, 1e30, -1e30]]).astype(np.float32)


def by_numpy(x: Array, scale: Any, zero: Any, low: int, high: int) -> tuple[Array, Array]:
    whole = np.rint(x * (np.float32(1) / np.float32(scale))) + np.float32(zero)
    held = np.clip(whole, low, high)
    return (held - np.float32(zero)) * np.float32(scale), (whole == held).astype(np.float32)


@pytest.mark.parametrize("given_as", ["numbers", "tensors"])
@pytest.mark.parametrize("range_", RANGES)
def test_what_integers_leave_and_its_gradient(range_: tuple[float, int, int, int], given_as: str,
                                              device: str) -> None:
    x = lt.tensor(values(), requires_grad=True, device=device)
    scale, zero, low, high = range_
    parts: tuple[Any, Any] = (scale, zero)
    if given_as == "tensors":
        parts = lt.tensor([scale], device=device), lt.tensor(zero, dtype=lt.int32, device=device)
    found = lt.fake_quantize_per_tensor_affine(x, *parts, low, high)
    (found * lt.arange(x.numel(), device=device)).sum().backward()
    expected, passes = by_numpy(values(), scale, zero, low, high)
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(x.grad.numpy() if x.grad is not None else None,
                                  passes * np.arange(x.numel(), dtype=np.float32))


def test_infinities_are_held() -> None:
    x = lt.tensor([np.inf, -np.inf, 0.2], requires_grad=True)
    found = lt.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)
    found.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 1]
    np.testing.assert_allclose(found.tolist(), [0.7, -0.8, 0.2], rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_each_channel_has_its_own_scale(axis: int, device: str) -> None:
    floats = values()[:24].reshape(2, 3, 4)
    count = floats.shape[axis]
    scales = np.linspace(0.1, 0.4, count).astype(np.float32)
    zeros = np.arange(count, dtype=np.int32)
    x = lt.tensor(floats, requires_grad=True, device=device)
    found = lt.fake_quantize_per_channel_affine(
        x, lt.tensor(scales, device=device), lt.tensor(zeros, device=device), axis, 0, 15)
    found.sum().backward()
    along = [-1 if a == axis % 3 else 1 for a in range(3)]
    expected, passes = by_numpy(floats, scales.reshape(along), zeros.reshape(along), 0, 15)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), passes)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda x: lt.fake_quantize_per_tensor_affine(x.int(), 0.1, 0, 0, 15), lt.DTypeError,
     "int32: it is for floats"),
    (lambda x: lt.fake_quantize_per_tensor_affine(x, 0.1, 0, 15, 0), lt.ArgumentError,
     "quant_min=15 is above quant_max=0"),
    (lambda x: lt.fake_quantize_per_tensor_affine(x, 0.1, 16, 0, 15), lt.ArgumentError,
     "zero_point=16 is outside"),
    (lambda x: lt.fake_quantize_per_tensor_affine(x, lt.ones(3), 0, 0, 15), lt.ShapeError,
     "scale has shape"),
    (lambda x: lt.fake_quantize_per_tensor_affine(x, "a", 0, 0, 15), lt.DTypeError, "scale"),
    (lambda x: lt.fake_quantize_per_channel_affine(x, lt.ones(2), lt.zeros(3), 1, 0, 15),
     lt.ShapeError, r"scale has shape \(2,\); axis 1"),
    (lambda x: lt.fake_quantize_per_channel_affine(x, lt.ones(3), lt.zeros(2), 1, 0, 15),
     lt.ShapeError, "zero_point has shape"),
    (lambda x: lt.fake_quantize_per_channel_affine(x, lt.ones(3), lt.zeros(3), 2, 0, 15),
     lt.IndexingError, "2"),
])
def test_what_does_not_belong_there(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(lt.ones(2, 3))


@pytest.mark.torch
@pytest.mark.parametrize("range_", RANGES)
def test_one_scale_is_as_in_pytorch(range_: tuple[float, int, int, int]) -> None:
    both = []
    for library in (lt, torch):
        x = library.tensor(values(), requires_grad=True)
        y = library.fake_quantize_per_tensor_affine(x, *range_)
        (y * y + y).sum().backward()
        both.append((y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*both, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.torch
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scales_of_channels_are_as_in_pytorch(axis: int) -> None:
    both = []
    floats = values()[:240].reshape(4, 6, 10)
    for library in (lt, torch):
        x = library.tensor(floats, requires_grad=True)
        count = floats.shape[axis]
        scale = library.tensor(np.linspace(0.05, 0.3, count).astype(np.float32))
        zero = library.tensor(np.arange(count, dtype=np.int32))
        y = library.fake_quantize_per_channel_affine(x, scale, zero, axis, 0, 15)
        (y * y + y).sum().backward()
        both.append((y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*both, strict=True):
        np.testing.assert_array_equal(ours, theirs)
