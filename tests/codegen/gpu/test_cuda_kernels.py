"""Kernels, copies and training on the device `cuda-on-cpu`, with threads in any order; or on a GPU,
where `make test-gpu` runs the tests."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from cuda_on_cpu import ORDERS
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import DRAWN, check_every_op, check_random_kernels, run_all, values
from lenet_steps import batches, lenet, load, train, weights
from numpy.testing import assert_allclose, assert_array_equal
from slow_rows import slow_but
from tensor_core_kernels import CORES, product

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.ON_GPU and cuda_on_cpu.missing() is not None,
    reason=cuda_on_cpu.missing() or "")
NAME = "cuda" if cuda_on_cpu.ON_GPU else cuda_on_cpu.NAME
MIB = 1 << 20


@pytest.fixture(autouse=True)
def in_order() -> Iterator[None]:
    """Each test leaves the order as it was."""
    yield
    cuda_on_cpu.run_in_order(0)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", DRAWN, ids=lambda d: d.name)
def test_every_op_gives_the_bits_that_it_gives_on_the_cpu(dtype: DType) -> None:
    check_every_op(NAME, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", slow_but(dt.ARITHMETIC, dt.float32, dt.bool_),
                         ids=lambda d: d.name)
@given(data=st.data(), order=st.sampled_from(ORDERS))
@examples(2)
def test_random_kernels_agree_with_the_interpreter(dtype: DType, data: st.DataObject,
                                                   order: int) -> None:
    cuda_on_cpu.run_in_order(order)
    check_random_kernels(NAME, dtype, data)


def kinds_of_kernel(where: str) -> list[lt.Tensor]:
    """Products, convolutions, reductions, row kernels, gathers and scatters."""
    a, b = (lt.tensor(values(*s), device=where) for s in ((65, 130), (130, 47)))
    x, w = (lt.tensor(values(*s), device=where) for s in ((2, 4, 13, 12), (5, 4, 3, 3)))
    wide = lt.tensor(values(70, 257), device=where)
    rows = lt.tensor([3, 0, 3, 41], device=where)
    half = a[:32].half()
    return [a @ b, (b.T @ a.T).contiguous(), wide.T.contiguous() + 1, wide.softmax(1),
            lt.nn.functional.conv2d(x, w, padding=1), lt.nn.functional.max_pool2d(x, 2),
            wide.cumsum(1), wide.sum(), wide.max(0).values, wide.argmax(1), wide.var(1),
            (half @ half.T).float(), wide[rows],
            lt.zeros(70, 257, device=where).index_add(0, rows, wide[:4])]


@pytest.mark.slow
def test_kinds_of_kernel_agree_with_the_interpreter_in_any_order() -> None:
    wanted = [t.numpy() for t in kinds_of_kernel("interpreter")]
    for order in ORDERS:
        cuda_on_cpu.run_in_order(order)
        here = kinds_of_kernel(NAME)
        lt.realize(*here)
        for number, (got, expected) in enumerate(zip(here, wanted, strict=True)):
            tolerance = 1e-2 if number == 11 else 2e-4
            assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance,
                            err_msg=str(number))


@pytest.mark.slow
def test_the_order_of_threads_does_not_change_a_bit() -> None:
    found = []
    for order in ORDERS:
        cuda_on_cpu.run_in_order(order)
        results = kinds_of_kernel(NAME)
        lt.realize(*results)
        found.append([t.numpy().tobytes() for t in results])
    assert found[1:] == found[:1] * 2


@pytest.mark.slow
@pytest.mark.parametrize("core", slow_but(CORES, next(iter(CORES))))
def test_products_by_tensor_cores_are_exact_in_any_order(core: str) -> None:
    dtype = CORES[core]
    given = Given(f"tensor(i0, i1, r0.2: {core}) tile(i0:2) local(i1:2) group(r0.2:32) "
                  "stage(argument 1, local) stage(argument 2, local) parallel(i0*i1:1)")
    kernel = replace(product(dtype, 70, 40, 64), decisions=given)
    a, b = (np.random.default_rng(n).integers(-2, 3, (n, m)) for n, m in ((70, 64), (64, 40)))
    stored = [ops.encode(x.astype(np.float32), dtype) for x in (a, b)]
    for order in ORDERS:
        cuda_on_cpu.run_in_order(order)
        (out,), = run_all(NAME, [kernel], [stored])
        assert_array_equal(ops.decode(out, dtype).reshape(70, 40), a @ b)


@pytest.mark.slow
def test_steps_of_lenet_are_those_of_the_interpreter() -> None:
    given, (images, labels) = weights(seed=4), batches(2, 2)
    models = {d: load(lenet(lt.nn), d, given) for d in (NAME, "interpreter")}
    losses = {d: train(lt, m, d, images, labels) for d, m in models.items()}
    assert_allclose(losses[NAME], losses["interpreter"], rtol=1e-5)
    here, there = (m.state_dict() for m in models.values())
    for name, value in here.items():
        change = np.abs(value.numpy() - given[name]).max()
        assert change > 0
        assert_allclose(value.numpy(), there[name].numpy(), rtol=1e-4,
                        atol=float(change) * 1e-3, err_msg=name)


@pytest.mark.parametrize("size", [1, 1000, 4 * MIB, 4 * MIB + 1, 13 * MIB + 5])
def test_arrays_of_any_number_of_parts_come_back(size: int) -> None:
    given = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    x = lt.tensor(given, device=NAME)
    wanted = given.copy()
    given[:] = 0  # it is the caller's again
    assert_array_equal(x.numpy(), wanted)


@pytest.mark.slow
def test_captured_training_steps_give_what_they_give_on_the_cpu() -> None:
    def losses(device: str) -> list[float]:
        lt.manual_seed(0)
        w = lt.tensor(values(6, 3), device=device).requires_grad_()
        optimizer = lt.optim.Adam([w], lr=0.1)
        x, y = (lt.tensor(values(20, n, seed=n), device=device) for n in (6, 3))

        @lt.jit
        def step() -> lt.Tensor:
            optimizer.zero_grad()
            loss = ((x @ w).tanh() - y).square().mean()
            loss.backward()
            optimizer.step()
            return loss
        return [float(step()) for _ in range(8)]
    assert_allclose(losses(NAME), losses("cpu"), rtol=1e-5)
