"""Cumulative sums: values along any axis, exact integers, small errors, gradients, and how little
memory they go through."""
from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from torch_if_there import torch

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Slot
from lazyten.ir.node import make, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math.scans import BLOCK, cumulative_argmax, cumulative_sum
from lazyten.schedule.schedule import Schedule, schedule

SIZES = st.integers(0, 3) | st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1, 63, 64, 65, 100])


@pytest.mark.slow
@given(shape=st.lists(SIZES, min_size=1, max_size=3), data=st.data())
@examples(40)
def test_integer_sums_are_exact_along_any_axis(shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    rng = np.random.default_rng(sum(shape))
    values = rng.integers(-1 << 40, 1 << 40, size=shape)
    found = lt.tensor(values, device="cpu").cumsum(axis)
    np.testing.assert_array_equal(found.numpy(), values.cumsum(axis))


@pytest.mark.parametrize("n", [1000, 4097, 100_003])
def test_errors_grow_with_the_logarithm_of_the_length(n: int) -> None:
    values = np.random.default_rng(n).random(n, np.float32)
    exact = values.astype(np.float64).cumsum()
    error = np.abs(lt.tensor(values, device="cpu").cumsum(0).numpy() - exact)
    assert (error / exact).max() <= np.log2(n) * 2**-24


def test_16_bit_floats_are_rounded_once() -> None:
    values = np.random.default_rng(0).random(500).astype(np.float16)
    exact = values.astype(np.float32).cumsum()
    found = lt.tensor(values, device="cpu").cumsum(0).numpy()
    np.testing.assert_allclose(found.astype(np.float32), exact, rtol=2**-11 + 2**-18)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_later_sums_only(special: float) -> None:
    values = np.arange(100, dtype=np.float32)
    values[37] = special
    found = lt.tensor(values, device="cpu").cumsum(0).numpy()
    np.testing.assert_array_equal(found, values.cumsum())


@pytest.mark.torch
@pytest.mark.parametrize(("shape", "axis"), [((100,), 0), ((3, 70), 1), ((70, 3), 0), ((3,), 0)])
def test_gradients_are_pytorchs(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=shape), rng.normal(size=shape)
    x = lt.tensor(values, device="cpu", requires_grad=True)
    (x.cumsum(axis) * lt.tensor(weights, device="cpu")).sum().backward()
    y = torch.tensor(values, requires_grad=True)
    (y.cumsum(axis) * torch.tensor(weights)).sum().backward()
    assert x.grad is not None and y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12, atol=1e-12)


def plan(n: int) -> Schedule:
    source = reshape(make(Op.BUFFER, dt.float32, (), Slot(0, n)), (n,))
    return schedule((cumulative_sum(source, 0),), [(dt.float32, n)])


@pytest.mark.parametrize(("n", "kernels"), [(BLOCK, 1), (BLOCK**2, 3), (BLOCK**3, 5)])
def test_each_level_is_two_kernels_and_the_last_is_one(n: int, kernels: int) -> None:
    assert len(plan(n).steps) == kernels


def test_what_is_stored_beside_the_result_is_a_fraction_of_it() -> None:
    n = BLOCK**4
    stored = sum(k.numel for s in plan(n).steps for k in s.kernel.outputs)
    assert n < stored < n * (1 + 2.5 / BLOCK)


def test_positions_of_extremes_are_scanned_in_the_bits_that_they_need() -> None:
    x = reshape(make(Op.BUFFER, dt.float32, (), Slot(0, 4000)), (4, 1000))
    made = schedule([cumulative_argmax(x, 1, least=False)], [(dt.float32, 4000)])
    wide = [size for dtype, size in made.arrays if dtype is dt.int64]
    assert wide == [4000]  # the result alone
