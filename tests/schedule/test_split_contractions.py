"""Contractions with few results are two kernels on devices of many work items
(lazyten/schedule/split_reductions.py)."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cuda_on_cpu
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from opencl_grid import GROUPS

import lazyten as lt
from lazyten.execution.plans import making
from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.nn import functional as F
from lazyten.schedule import split_reductions as partial
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.storage.device import executor
from lazyten.support.observers import OnRun, told

Array = np.ndarray[Any, Any]
BUSY = 1 << 16
"""Work items of a GPU."""


def plan(value: lt.Tensor, items: int) -> Schedule:
    """What would be run on a device that so many work items keep busy."""
    graph = Graph([value._storage.value], value.device)
    return schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers], items=items)


def zeros(*shape: int) -> lt.Tensor:
    return lt.zeros(*shape).realize()


def parts(value: lt.Tensor, items: int = BUSY) -> int:
    """How many parts a reduction is computed in; 1 for one kernel."""
    steps = plan(value, items).steps
    assert len(steps) in (1, 2)
    if len(steps) == 1:
        return 1
    return steps[0].kernel.outputs[0].numel // steps[1].kernel.outputs[0].numel


@pytest.mark.parametrize(("value", "wanted"), [
    (lambda: zeros(64, 8192) @ zeros(8192, 64), 32),        # 256 elements of the sum in each part
    (lambda: zeros(256, 4096) @ zeros(4096, 256), 4),       # as many as fill the device
    (lambda: zeros(8, 96, 4096) @ zeros(8, 4096, 96), 4),   # a divisor of the sum's length
    (lambda: zeros(100, 10007) @ zeros(10007, 100), 27),    # a prime: with a rest
    (lambda: zeros(512, 4096) @ zeros(4096, 512), 1),       # results for all
    (lambda: zeros(256, 256) @ zeros(256, 256), 1),         # little work
    (lambda: zeros(4096, 8192) @ zeros(8192), 1),           # a group can share a row
    (lambda: zeros(1000, 1 << 16).sum(1), 1),
    (lambda: (zeros(2000, 1 << 15) * 2 + zeros(1 << 15)).sum(1), 1),
    (lambda: F.conv2d(zeros(1, 64, 66, 66), zeros(16, 64, 64, 64)), 64),
])
def test_contractions_with_results_for_few_items_are_cut(value: Callable[[], lt.Tensor],
                                                         wanted: int) -> None:
    assert parts(value()) == wanted
    assert parts(value(), items=0) == 1


@pytest.mark.parametrize(("shape", "wanted"), [
    ((1 << 22,), 256), ((8, 1 << 18), 32), ((60, 1 << 16), 4), ((128, 1 << 16), 1), ((1 << 19,), 1),
])
def test_a_sum_that_groups_share_has_groups_for_the_whole_device(shape: tuple[int, ...],
                                                                 wanted: int) -> None:
    assert parts(zeros(*shape).sum(-1)) == wanted


def test_what_follows_the_sum_is_in_the_second_kernel() -> None:
    made = plan((zeros(64, 8192) @ zeros(8192, 64) + zeros(64)).relu(), BUSY)
    assert [s.kernel.name for s in made.steps] == ["reduce_64_64_32_256", "reduce_64_64_32"]


def test_halves_are_added_up_in_float32() -> None:
    a, b = (lt.zeros(s, dtype=dt.float16).realize() for s in ((64, 8192), (8192, 64)))
    first, second = plan(a @ b, BUSY).steps
    assert [s.kernel.outputs[0].dtype for s in (first, second)] == [dt.float32, dt.float16]


def test_devices_say_how_many_items_keep_them_busy() -> None:
    assert executor("cpu").items == executor("interpreter").items == 0


@contextmanager
def everything_cut(device: str, items: int | None = None) -> Iterator[list[int]]:
    """Small contractions are cut, too; gives the number of kernels of each plan that is run.
    items: in place of what the device says."""
    counts: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial, "MANY_PRODUCTS", 1)
        patch.setattr(partial, "LEAST_WORK", 3)
        patch.setattr(partial, "REUSE", 2)
        patch.setattr(making, "_plans", OrderedDict())
        if items is not None:
            patch.setattr(type(executor(device)), "items", items)
        with told(OnRun(lambda _, plan: counts.append(len(plan.schedule.steps)))):
            yield counts


CONTRACTIONS: dict[str, Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = {
    "product": lambda a, b: a.sum(0) @ b.sum(0).T,
    "batched": lambda a, b: a @ b.transpose(1, 2),
    "two axes": lambda a, b: lt.einsum("bik,bjk->ij", a, b),
    "with more": lambda a, b: ((a @ b.transpose(1, 2)) * 2 - 3).relu() + 1,
    "windows": lambda a, b: F.conv1d(a.reshape(-1, 1, a.shape[2]),
                                     b.reshape(-1, 1, b.shape[2])[:, :, :b.shape[2] // 2 + 1]),
    "not of products": lambda a, b: (a[:, :, None] - b[:, None]).abs().sum(-1),
    "greatest": lambda a, b: (a[:, :, None] - b[:, None]).amax(-1),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Array, Array]:
    """A contraction and whole numbers for it, so that sums are exact in any order."""
    batch, m, n, k = (draw(st.integers(1, most)) for most in (3, 20, 20, 100))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    a, b = (rng.integers(-3, 4, (batch, s, k)).astype(np.float32) for s in (m, n))
    return draw(st.sampled_from(sorted(CONTRACTIONS))), a, b


@pytest.mark.slow
@given(case=cases(), items=st.integers(1, 5000))
def test_what_is_cut_has_the_same_value(case: tuple[str, Array, Array], items: int) -> None:
    name, a, b = case
    wanted = CONTRACTIONS[name](lt.tensor(a), lt.tensor(b)).numpy()
    with everything_cut("interpreter", items):
        x, y = (lt.tensor(v, device="interpreter") for v in (a, b))
        assert_array_equal(CONTRACTIONS[name](x, y).numpy(), wanted)


@pytest.mark.opencl
def test_products_are_cut_on_opencl() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((40, 208), (208, 24)))
    with everything_cut(GROUPS) as kernels:
        got = (lt.tensor(a, device=GROUPS) @ lt.tensor(b, device=GROUPS)).numpy()
        assert_array_equal(got, a @ b)
        assert kernels == [2]


@pytest.mark.slow
@pytest.mark.skipif(cuda_on_cpu.missing() is not None, reason=cuda_on_cpu.missing() or "")
def test_products_are_cut_on_cuda_and_are_the_same_bits_in_any_order() -> None:
    a, b = (np.random.default_rng(0).normal(size=s).astype(np.float32)
            for s in ((40, 208), (208, 24)))
    x, y = (lt.tensor(v, device=cuda_on_cpu.NAME) for v in (a, b))
    found = set()
    with everything_cut(cuda_on_cpu.NAME) as kernels:
        for order in cuda_on_cpu.ORDERS:
            cuda_on_cpu.run_in_order(order)
            values = (x @ y).numpy()
            assert_allclose(values, a @ b, rtol=1e-4, atol=1e-4)
            found.add(values.tobytes())
        cuda_on_cpu.run_in_order(0)
        assert kernels == [2] * len(cuda_on_cpu.ORDERS)
    assert len(found) == 1
