"""Operations on complex numbers beside PyTorch's: values, types, and gradients."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

Operation = Callable[[Any, Any, Any], Any]
OPERATIONS: dict[str, Operation] = {
    "conv1d": lambda T, x, y: T.nn.functional.conv1d(x, y[:, :, 0], y[:, 0, 0, 0], stride=2,
                                                     padding=1),
    "conv2d": lambda T, x, y: T.nn.functional.conv2d(x.unsqueeze(0), y.transpose(0, 1), None, 1,
                                                     (1, 0)),
    "conv_transpose1d": lambda T, x, y: T.nn.functional.conv_transpose1d(
        x, y.transpose(0, 1)[:, :, 0], padding=1, stride=2, output_padding=1),
    "conv_transpose2d": lambda T, x, y: T.nn.functional.conv_transpose2d(
        x.unsqueeze(0), y, y[0, :, 0, 0]),
    "pad with 0.5": lambda T, x, y: T.nn.functional.pad(x, (0, 1), "constant", 0.5),
    "reflect": lambda T, x, y: T.nn.functional.pad(x, (2, 1), "reflect"),
    "circular": lambda T, x, y: T.nn.functional.pad(x, (2, 1), mode="circular"),
    "replicate": lambda T, x, y: T.nn.functional.pad(x, (2, -1), "replicate"),
    "constant_pad_nd": lambda T, x, y: T.constant_pad_nd(x, (1, 1), 3j),
    "meshgrid": lambda T, x, y: T.meshgrid(x[0, 0], y[0, 0, 0], indexing="xy"),
    "cartesian_prod": lambda T, x, y: T.cartesian_prod(x[0, 0, :2], y[0, 0, 0]),
    "combinations": lambda T, x, y: T.combinations(x[0, 0], 3),
    "expand_copy": lambda T, x, y: T.expand_copy(x[:1], (4, 3, 6)),
    "unbind_copy": lambda T, x, y: T.unbind_copy(x, 1),
    "t_copy": lambda T, x, y: T.t_copy(x[0]),
    "trapezoid": lambda T, x, y: T.trapezoid(x, dx=0.5),
    "cumulative_trapezoid": lambda T, x, y: T.cumulative_trapezoid(x, dim=1),
    "gradient": lambda T, x, y: T.gradient(x[0], spacing=2.0),
    "fill": lambda T, x, y: T.fill(x, 1 - 2j) + x,
    "addmv": lambda T, x, y: T.addmv(x[0, :, 0], x[1], x[0, 0], alpha=2j, beta=0.5),
    "addr": lambda T, x, y: T.addr(x[0], x[0, :, 0], x[0, 0], alpha=1 - 1j),
    "addbmm": lambda T, x, y: T.addbmm(x[0, :, :3], x, x.mT.contiguous(), beta=2),
    "exp2": lambda T, x, y: T.exp2(x),
    "sinc": lambda T, x, y: T.sinc(x),
    "logsumexp": lambda T, x, y: T.logsumexp(x * 300, (0, 2)),
    "logsumexp of one axis": lambda T, x, y: x.logsumexp(1, keepdim=True),
    "dist": lambda T, x, y: T.dist(x[0], x[1], 3),
    "float_power": lambda T, x, y: T.float_power(x, 1.5 - 1j),
    "index_fill": lambda T, x, y: x.index_fill(1, T.tensor([0, 2]), 2),
    "index_fill with a number": lambda T, x, y: x.index_fill(2, T.tensor([1]), 1 + 2j),
    "prod of none": lambda T, x, y: x[:, :0].prod(1) + x.sum(),
    "cumprod": lambda T, x, y: T.cumprod(x, -1),
    "a vector without elements": lambda T, x, y: T.cat([x[0, 0, :0], x, x], 1),
    "logaddexp": lambda T, x, y: T.logaddexp(x, x.flip(0)),
    "asin": lambda T, x, y: T.asin(x), "acos": lambda T, x, y: T.acos(x),
    "atan": lambda T, x, y: T.atan(x), "asinh": lambda T, x, y: T.asinh(x),
    "acosh": lambda T, x, y: T.acosh(x), "atanh": lambda T, x, y: T.atanh(x),
    "expm1": lambda T, x, y: T.expm1(x), "log1p": lambda T, x, y: T.log1p(x * 0.1),
}
TRUTHS: dict[str, Operation] = {
    "any": lambda T, x, y: T.any(x * (x.real > 1), 1), "all": lambda T, x, y: (x - 1).all(),
    "logical_not": lambda T, x, y: T.logical_not(x * (x.real > 1)),
    "logical_or": lambda T, x, y: T.logical_or(x * (x.real > 1), x.imag > 0),
    "argwhere": lambda T, x, y: T.argwhere(x * (x.real > 1)),
}


def operands(library: Any) -> tuple[Any, Any]:
    """A signal (2, 3, 6) and a weight (2, 3, 2, 2) that require gradients."""
    random = np.random.default_rng(3)
    given = [random.standard_normal(shape) + 1j * random.standard_normal(shape)
             for shape in ((2, 3, 6), (2, 3, 2, 2))]
    if library is torch:
        return tuple(torch.tensor(x, requires_grad=True) for x in given)
    return tuple(lt.tensor(x, requires_grad=True) for x in given)


def outcome(library: Any, operation: Operation) -> list[Any]:
    """Values, and the gradients of their sum, weighted."""
    x, y = operands(library)
    found = operation(library, x, y)
    results = list(found) if isinstance(found, tuple | list) else [found]
    total = 0 * x.sum() + 0 * y.sum()
    for number, result in enumerate(results):
        total = total + (result * (2 - 1j + number)).sum()
    total.real.backward()
    return [t.detach().numpy() for t in results] + [x.grad.numpy(), y.grad.numpy()]


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    wanted, found = outcome(torch, OPERATIONS[name]), outcome(lt, OPERATIONS[name])
    assert len(found) == len(wanted)
    for given, value in zip(found, wanted, strict=True):
        assert given.dtype == value.dtype and given.shape == value.shape
        np.testing.assert_allclose(given, value, rtol=1e-9, atol=1e-12)


WRITING = {"conj_physical_": 0, "exp2_": 0, "sinc_": 0, "logical_not_": 0, "addmm_": 2,
           "baddbmm_": 2, "addcmul_": 2, "addcdiv_": 2, "eq_": 1, "ne_": 1, "logical_and_": 1,
           "logical_or_": 1, "logical_xor_": 1, "lerp_": 2}
"""What writes its result to a complex tensor, and how many other operands it has."""


@pytest.mark.parametrize("name", WRITING)
def test_what_is_written_is_pytorchs(name: str) -> None:
    results = []
    for library in (torch, lt):
        random = np.random.default_rng(3)
        shape = (2, 3, 3) if name == "baddbmm_" else (3, 3)
        x, *others = [library.tensor(random.normal(size=shape) + 1j * random.normal(size=shape))
                      for _ in range(1 + WRITING[name])]
        shown = x[:]
        assert getattr(x, name)(*others) is x
        assert getattr(library.Tensor, name)(x, *others) is x
        results.append(shown.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)


def test_normally_distributed_numbers_have_half_the_variance_in_each_part() -> None:
    lt.manual_seed(0)
    x = lt.empty(100, 100, dtype=lt.complex64).normal_(2, 3)
    found = x.numpy()
    assert abs(found.mean() - 2) < 0.1
    for part in (found.real, found.imag):
        assert abs(part.var() - 4.5) < 0.3


@pytest.mark.parametrize("name", TRUTHS)
def test_truths_are_pytorchs(name: str) -> None:
    wanted, found = (TRUTHS[name](library, *operands(library)) for library in (torch, lt))
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
