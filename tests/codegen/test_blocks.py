"""Reductions in blocks, and chunks of loops: the right values, whatever the sizes."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decided_kernels import some
from hypothesis import example, given
from hypothesis import strategies as st
from kernel_checks import computed

import lazyten as lt
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.optimize.optimize import decide
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Given, Kernel
from lazyten.schedule.schedule import schedule

Array = np.ndarray[Any, Any]
Arrays = list[Array]
SMALL = Target("small", 16, 8, l1_bytes=1 << 10, l2_bytes=4 << 10, threads=True)
"""Caches so small that matrices of a test do not fit."""
AVX512 = Target("avx512", 64, 32, 48 << 10, 12, 2 << 20, threads=True)


def kernel_of(tensor: lt.Tensor) -> Kernel:
    graph = Graph([tensor._storage.value], tensor.device)
    inputs = [(b.dtype, b.size) for b in graph.buffers]
    step, = schedule(graph.normalized(), inputs).steps
    return step.kernel


@pytest.mark.slow
@given(m=st.integers(2, 40), n=st.integers(2, 40), k=st.integers(3, 60), data=st.data())
def test_a_sum_in_blocks_is_the_sum(m: int, n: int, k: int, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([lt.float32, lt.float64, lt.int32]))
    a, b = some(m, k, dtype=dtype), some(k, n, dtype=dtype)
    kernel = kernel_of((a @ b) * 3 + 1 if data.draw(st.booleans()) else a @ b)
    line = f"block(r0.2:{data.draw(st.integers(2, k - 1))})"
    if n > 4:
        line += f" vector(i1:4) tile(i1:{data.draw(st.integers(1, (n - 1) // 4))})"
    for choice in (" stage(argument 1)", " stage(argument 2)", " outermost(i1)", " parallel(i0:3)"):
        line += choice if data.draw(st.booleans()) else ""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, s.numel()).astype(dtype.numpy) for s in (a, b)]
    np.testing.assert_array_equal(
        computed(replace(kernel, decisions=Given(line)), arrays, threads=2),
        computed(kernel, arrays, "interpreter"), err_msg=line)


@pytest.mark.slow
@given(m=st.integers(64, 90), n=st.integers(64, 90), k=st.integers(50, 200),
       transposed=st.tuples(st.booleans(), st.booleans()), batch=st.sampled_from([(), (3,)]))
@example(m=64, n=73, k=192, transposed=(False, True), batch=())
def test_what_small_caches_lead_to_computes_the_same_bits_on_any_threads(
        m: int, n: int, k: int, transposed: tuple[bool, bool], batch: tuple[int, ...]) -> None:
    a = some(*batch, k, m).transpose(-1, -2) if transposed[0] else some(*batch, m, k)
    b = some(*batch, n, k).transpose(-1, -2) if transposed[1] else some(*batch, k, n)
    kernel = kernel_of(a @ b)
    line = str(decide(merge_ranges(lower(kernel)), SMALL))
    assert ("block(" in line) is not ("vector(r" in line)  # a sum in lanes has no blocks
    kernel = replace(kernel, decisions=Given(line))
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=size).astype(np.float32) for _, size in kernel.inputs]
    one, two = (computed(kernel, arrays, threads=t) for t in (1, 2))
    assert one.tobytes() == two.tobytes()
    expected = computed(replace(kernel, decisions=None), arrays, "interpreter")
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4, err_msg=line)


def test_only_a_product_too_large_for_the_caches_gets_blocks() -> None:
    def decided(size: int, target: Target) -> str:
        product = some(size, size) @ some(size, size)
        return str(decide(merge_ranges(lower(kernel_of(product))), target))
    assert "block(r0.2:512)" in decided(2048, AVX2)
    assert "block" not in decided(512, AVX2)
    assert "block" not in decided(2048, replace(AVX2, l2_bytes=64 << 20))
    assert "parallel(i1:8)" in decided(2048, AVX2)
    assert "outermost(i1)" in decided(2048, replace(AVX2, threads=False))


def convolved(channels: int, size: int, taps: int = 3) -> Kernel:
    """One image of size x size results of as many channels."""
    image, weights = some(1, channels, size + taps - 1, size + taps - 1), \
        some(64, channels, taps, taps)
    return kernel_of(lt.nn.functional.conv2d(image, weights))


def test_a_long_sum_of_windows_is_in_blocks_that_the_first_cache_keeps() -> None:
    def decided(kernel: Kernel) -> str:
        return str(decide(merge_ranges(lower(kernel)), AVX512))
    assert "block(r0.5:16)" in decided(convolved(64, 56))
    assert "block(r0.5:8)" in decided(convolved(64, 64))  # of a tile with twice as many weights
    assert "block" not in decided(convolved(32, 56))  # 288 products in a row
    assert "block" not in decided(convolved(64, 12))  # too little to compile loops twice
    assert "block" not in decided(convolved(1024, 7))  # few results read the same weights
    assert "block" not in decided(convolved(64, 56, 8))  # 64 products of one channel
    assert "block" not in decided(convolved(64, 700))  # sums would take 125 MB
    assert "block(r0.5:16)" in decided(convolved(8192, 12))  # of 8 they would be 1024 in a row


def test_windows_in_blocks_give_the_sum() -> None:
    kernel = convolved(64, 28)
    line = str(decide(merge_ranges(lower(kernel)), AVX2))
    assert "block(r0.5:" in line
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-4, 5, size).astype(np.float32) for _, size in kernel.inputs]
    np.testing.assert_array_equal(
        computed(replace(kernel, decisions=Given(line)), arrays, threads=2),
        computed(kernel, arrays, "interpreter"))


@pytest.mark.parametrize("combine", [
    lambda a, b: (a[:, :, None] * b).amax(1), lambda a, b: (a[:, :, None] * b).prod(1),
    lambda a, b: (a[:, :, None] * b).sum(1) * (a[:, :, None] + b).sum(1)])
def test_only_one_sum_alone_gets_blocks(combine: Callable[..., lt.Tensor]) -> None:
    kernel = kernel_of(combine(some(80, 150), some(150, 80)))
    line = str(decide(merge_ranges(lower(kernel)), SMALL))
    assert "block(" in str(decide(merge_ranges(lower(kernel_of(some(80, 150) @ some(150, 80)))),
                                  SMALL))
    assert "block(" not in line


def decided(tensor: lt.Tensor) -> str:
    return str(decide(merge_ranges(lower(kernel_of(tensor))), AVX2))


def test_a_sum_over_long_rows_that_are_read_once_takes_a_few_of_them_at_a_time() -> None:
    assert "block(r0.2:8) parallel(i0:10)" in decided(some(4096) @ some(4096, 4096))
    assert "block(r0.0:8)" in decided(some(4096, 4096).sum(0))
    assert "block(r0.2:8)" in decided(some(4096, 4096).T @ some(4096))


@pytest.mark.parametrize("tensor", [
    lambda: some(4096) @ some(4096, 2048), lambda: some(4096, 4096) @ some(4096),
    lambda: some(4104) @ some(4104, 4096), lambda: some(8) @ some(8, 1 << 17),
    lambda: some(3, 1024, 4096).sum(1),
    lambda: some(1024, 4096).amax(0), lambda: (some(1024, 4096) * some(4096)).sum(1)],
    ids=["short rows", "along the rows", "a long sum", "few rows", "other loops", "no sum",
         "over a row"])
def test_other_reductions_go_through_all_rows(tensor: Callable[[], lt.Tensor]) -> None:
    assert "block(" not in decided(tensor())


def test_rows_that_are_read_again_are_taken_as_far_as_the_cache_keeps_them() -> None:
    """With AVX2 that takes a third of the time that going through all rows takes."""
    assert "block(r0.2:32)" in decided(some(40, 1024) @ some(1024, 4096))


def test_long_rows_that_are_read_across_are_read_from_a_few_pages_at_a_time() -> None:
    def across(*shape: int) -> lt.Tensor:
        return some(*shape).mT @ some(*shape[:-1], 64)
    assert "block(r0.3:32)" in decided(across(16, 1024, 1024))
    assert "block(" not in decided(across(16, 1024, 512)), "two rows a page"
    assert "block(" not in decided(across(16, 32, 4096)), "few rows"
    assert "block(" not in decided(across(2, 48, 1024)), "the second cache holds them"


@pytest.mark.parametrize("rows", [200, 201])
def test_what_is_read_across_in_blocks_of_rows_is_the_product(rows: int) -> None:
    kernel = kernel_of(some(2, rows, 1024).mT @ some(2, rows, 20))
    line = str(decide(merge_ranges(lower(kernel)), AVX2))
    assert f"block(r0.3:{25 if rows == 200 else 29})" in line
    rng = np.random.default_rng(rows)
    arrays = [rng.integers(-4, 5, size).astype(np.float32) for _, size in kernel.inputs]
    found = computed(replace(kernel, decisions=Given(line)), arrays, threads=2)
    a, b = arrays[0].reshape(2, rows, 1024), arrays[1].reshape(2, rows, 20)
    np.testing.assert_array_equal(found.reshape(2, 1024, 20), a.swapaxes(1, 2) @ b)


@pytest.mark.parametrize(("k", "n"), [(9, 70_000), (24, 1 << 16), (41, 60_001)])
@pytest.mark.parametrize("compute", [lambda u, m: u @ m * 2, lambda u, m: (m * m).sum(0)])
def test_a_few_rows_at_a_time_give_the_sum_on_any_threads(
        k: int, n: int, compute: Callable[..., lt.Tensor]) -> None:
    kernel = kernel_of(compute(some(k), some(k, n)))
    line = str(decide(merge_ranges(lower(kernel)), AVX2))
    assert ":8) parallel(" in line
    rng = np.random.default_rng(k)
    arrays = [rng.integers(-4, 5, size).astype(np.float32) for _, size in kernel.inputs]
    kernel = replace(kernel, decisions=Given(line))
    expected = computed(replace(kernel, decisions=None), arrays, "interpreter")
    for threads in (1, 2):
        np.testing.assert_array_equal(computed(kernel, arrays, threads=threads), expected)
