"""The 8-bit floats: conversions as PyTorch makes them, views, and errors for arithmetic."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch_if_there import torch

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir import ops

STORED = [dt.float8_e4m3fn, dt.float8_e5m2]
by_format = pytest.mark.parametrize("form", STORED, ids=lambda d: d.name)
OTHERS = [d for d in dt.ARITHMETIC if d.name not in ("uint16", "uint32", "uint64")]
on_devices = pytest.mark.parametrize("on", [
    "cpu", "interpreter", pytest.param("opencl", marks=pytest.mark.opencl)])


def codes(tensor: lt.Tensor) -> np.ndarray[Any, Any]:
    """What memory holds."""
    return tensor.bitcast(lt.uint8).numpy()


def every_code(form: dt.DType, on: str) -> lt.Tensor:
    return lt.tensor(np.arange(256, dtype=np.uint8), device=on).bitcast(form)


def torch_type(dtype: dt.DType) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype.name)
    return found


def assert_same_codes(found: lt.Tensor, expected: torch.Tensor) -> None:
    """Equal codes; one NaN is as good as another."""
    wanted = expected.view(torch.uint8).numpy()
    is_nan = expected.float().isnan().numpy()
    got, values = codes(found), found.float().numpy()
    np.testing.assert_array_equal(np.isnan(values), is_nan)
    np.testing.assert_array_equal(got[~is_nan], wanted[~is_nan])


def critical_values(form: dt.DType) -> np.ndarray[Any, Any]:
    """All values of a format, what is halfway between two, and the float32s around those."""
    with np.errstate(all="ignore"):
        values = ops.decode(np.arange(256, dtype=np.uint8), form)
        finite = np.sort(values[np.isfinite(values)]).astype(np.float64)
        between = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
        past = np.array([448, 464, 480, 61440, 65536, 1e10, 3e38, np.inf, np.nan, 1e-40, 0.0])
        base = np.concatenate([finite, between, past, -past]).astype(np.float32)
        return np.concatenate([base, np.nextafter(base, np.float32(np.inf)),
                               np.nextafter(base, np.float32(-np.inf))])


@pytest.mark.torch
@by_format
@on_devices
def test_every_code_has_pytorchs_value(form: dt.DType, on: str) -> None:
    raw = torch.arange(256).to(torch.uint8).view(torch_type(form))
    for target in (dt.float16, dt.bfloat16, dt.float32, dt.float64):
        found = every_code(form, on).to(target)
        np.testing.assert_array_equal(found.float().numpy(), raw.float().numpy())
    is_number = ~raw.float().isnan().numpy() & ~raw.float().isinf().numpy()
    found = every_code(form, on).to(lt.int64).numpy()
    np.testing.assert_array_equal(found[is_number], raw.to(torch.int64).numpy()[is_number])
    np.testing.assert_array_equal(every_code(form, on).bool().numpy(), raw.bool().numpy())


@pytest.mark.torch
@by_format
@on_devices
def test_every_code_comes_back_from_float32_and_from_memory(form: dt.DType, on: str) -> None:
    x = every_code(form, on)
    assert_same_codes(x.float().realize().to(form),
                      torch.arange(256).to(torch.uint8).view(torch_type(form)))
    np.testing.assert_array_equal(codes(x.clone().realize()), np.arange(256))


@pytest.mark.torch
@by_format
@on_devices
@pytest.mark.parametrize("source", OTHERS, ids=lambda d: d.name)
def test_conversions_round_as_pytorchs(form: dt.DType, source: dt.DType, on: str) -> None:
    """Halfway to the even one, past the greatest number to it or to infinity."""
    if source.is_float:
        exact = torch.tensor(critical_values(form)).to(torch_type(source))
    else:
        numbers = np.unique(np.clip([*range(-70, 600), 57344, 61439, 61440, 61441, 65535, -61440],
                                    int(source.min), int(source.max)))
        exact = torch.tensor(numbers).to(torch_type(source))
    given = lt.tensor(exact.float().numpy(), device=on).to(source).realize()
    assert_same_codes(given.to(form), exact.to(torch_type(form)))


@pytest.mark.torch
@by_format
@given(bits=arrays(np.uint32, 64, elements=st.integers(0, 2**32 - 1)))
def test_random_float32s_round_as_pytorchs(form: dt.DType, bits: np.ndarray[Any, Any]) -> None:
    values = bits.view(np.float32)
    expected = torch.tensor(values).to(torch_type(form))
    assert_same_codes(lt.tensor(values).to(form), expected)
    assert_same_codes(lt.tensor(values, device="interpreter").to(form), expected)
    assert_same_codes(lt.tensor(values, dtype=form), expected)


@by_format
@on_devices
def test_float64_is_rounded_once(form: dt.DType, on: str) -> None:
    just_above = np.array([1 + 2.0 ** -(1 + form.significand_bits - 1) + 2.0 ** -40])
    wanted = 1 + 2.0 ** (1 - form.significand_bits)
    assert lt.tensor(just_above, device=on).to(form).tolist() == [wanted]


@pytest.mark.torch
@by_format
@on_devices
def test_a_conversion_there_and_back_in_one_kernel_rounds(form: dt.DType, on: str) -> None:
    values = critical_values(form)
    found = lt.tensor(values, device=on).to(form).float() * 2
    expected = torch.tensor(values).to(torch_type(form)).float() * 2
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.few(1)
@by_format
@pytest.mark.parametrize("on", ["cpu", "interpreter", pytest.param(
    "opencl", marks=[pytest.mark.opencl, pytest.mark.slow])])
def test_moves_and_choices_keep_the_codes(form: dt.DType, on: str) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (6, 7)).astype(np.uint8)
    bytes_ = lt.tensor(raw, device=on)
    mask = bytes_ > 99

    def moved(x: lt.Tensor) -> list[lt.Tensor]:
        written = x.clone()
        written[1:3, ::2] = x[3:5, :4]
        return [x.T, x[1:, ::-2], x.reshape(7, 6), x.expand(2, 6, 7), lt.cat([x, x[:2]], 0),
                lt.stack([x, x], 1), x[[0, -1, 2]], x[mask], lt.where(mask, x, x.flip(0)),
                x.roll(2, 1), lt.nn.functional.pad(x, (1, 2)), written, x.repeat(2, 1),
                x.gather(1, lt.tensor([[3, 0]], device=on).expand(6, 2)), x.tril()]

    for found, expected in zip(moved(bytes_.bitcast(form)), moved(bytes_), strict=True):
        assert found.dtype is form and found.device == bytes_.device
        np.testing.assert_array_equal(codes(found), expected.numpy())


@pytest.mark.torch
@by_format
def test_tensors_are_made_and_filled_as_pytorchs(form: dt.DType) -> None:
    kind = torch_type(form)
    pairs = [(lt.zeros(3, dtype=form), torch.zeros(3, dtype=kind)),
             (lt.ones(3, dtype=form), torch.ones(3, dtype=kind)),
             (lt.full((3,), 0.3, dtype=form), torch.full((3,), 0.3, dtype=kind)),
             (lt.eye(2, dtype=form), torch.eye(2, dtype=kind)),
             (lt.tensor([1.1, -7.3], dtype=form), torch.tensor([1.1, -7.3], dtype=kind)),
             (lt.zeros(3, dtype=form).fill_(3.3), torch.zeros(3, dtype=kind).fill_(3.3))]
    for found, expected in pairs:
        assert found.tolist() == expected.tolist()
        assert repr(found).replace("lazyten", "torch") == repr(expected)
        assert found.element_size() == expected.element_size() == 1 == found.nbytes // found.numel()


@pytest.mark.torch
@by_format
def test_limits_are_pytorchs(form: dt.DType) -> None:
    found, expected = lt.finfo(form), torch.finfo(torch_type(form))
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
        assert getattr(found, name) == getattr(expected, name), name


ARITHMETIC: dict[str, Callable[[lt.Tensor], object]] = {
    "add": lambda x: x + x, "mul": lambda x: x * 2, "sub": lambda x: 1 - x, "neg": lambda x: -x,
    "div": lambda x: x / x, "exp": lambda x: x.exp(), "sum": lambda x: x.sum(),
    "max": lambda x: x.amax(), "lt": lambda x: x < x, "prod": lambda x: x.prod(),
    "scatter": lambda x: x.scatter_add(0, lt.tensor([0]), x[:1])}


@by_format
@pytest.mark.parametrize("operation", ARITHMETIC)
def test_arithmetic_is_refused_by_name(operation: str, form: dt.DType) -> None:
    with pytest.raises(lt.DTypeError, match=rf"^{operation} of .*{form.name}.*convert.*\.float"):
        ARITHMETIC[operation](lt.ones(3, dtype=form))


@by_format
@pytest.mark.parametrize("other", [d for d in dt.ALL if not d.is_stored], ids=lambda d: d.name)
def test_there_is_no_promotion_as_in_pytorch(form: dt.DType, other: dt.DType) -> None:
    x, y = lt.ones(3, dtype=form), lt.ones(3, dtype=other)
    for mixed in (lambda: x + y, lambda: y * x[0], lambda: lt.cat([x, y]),
                  lambda: lt.promote_types(form, other), lambda: lt.result_type(x, y)):
        with pytest.raises(lt.DTypeError, match="8-bit floats only store numbers"):
            mixed()


def test_numpy_and_dlpack_say_what_to_do() -> None:
    x = lt.ones(2, dtype=lt.float8_e5m2)
    with pytest.raises(lt.DTypeError, match=r"use \.float\(\)\.numpy\(\)"):
        x.numpy()
    with pytest.raises(lt.DTypeError, match=r"convert with \.float\(\)"):
        x.__dlpack__()
    with pytest.raises(lt.DTypeError, match="no float type with arithmetic"):
        lt.rand(3, dtype=lt.float8_e5m2)


@pytest.mark.torch
@by_format
def test_gradients_pass_a_rounding_as_in_pytorch(form: dt.DType) -> None:
    """The gradient takes the same way, and is rounded too."""
    values = [0.3, -1.7, 100.0]
    x, y = lt.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    (x.to(form).float() * lt.tensor([1.1, 2.3, 3.7])).sum().backward()
    (y.to(torch_type(form)).float() * torch.tensor([1.1, 2.3, 3.7])).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert x.grad.tolist() == y.grad.tolist()


@pytest.mark.torch
def test_files_are_those_of_the_safetensors_package(tmp_path: Any) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    path = os.fspath(tmp_path / "file")
    lt.save_safetensors({d.name: lt.tensor([0.3, -448.0], dtype=d) for d in STORED}, path)
    for name, found in safetensors.load_file(path).items():
        expected = torch.tensor([0.3, -448.0]).to(getattr(torch, name))
        assert found.dtype is expected.dtype and found.tolist() == expected.tolist()
