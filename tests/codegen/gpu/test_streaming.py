"""Scores, their softmax and its product in one pass, on the driver for tests and beside NumPy."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cuda_on_cpu
import numpy as np
import pytest

import lazyten as lt
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.loops.streaming import stream, streams
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Kernel
from lazyten.schedule.schedule import schedule

Array = np.ndarray[Any, Any]

needs_compiler = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                    reason=cuda_on_cpu.missing() or "")
EPSILON = {lt.float16: 2.0**-11, lt.bfloat16: 2.0**-8}


@pytest.fixture(params=cuda_on_cpu.ORDERS)
def any_order(request: pytest.FixtureRequest) -> Iterator[None]:
    cuda_on_cpu.run_in_order(request.param)
    yield
    cuda_on_cpu.run_in_order(0)


def inputs(rng: np.random.Generator, rows: int, keys: int, depth: int, columns: int,
           dtype: lt.DType, device: str) -> list[lt.Tensor]:
    made = [lt.tensor(rng.normal(size=(2, *s)).astype(np.float32), device=device).to(dtype)
            for s in ((rows, depth), (keys, depth), (keys, columns))]
    return [x.realize() for x in made]


def expected(q: Array, k: Array, v: Array, hidden: Array | None, factor: float) -> Array:
    """In float64, by three passes; a row of which nothing is seen gives 0."""
    scores = q @ np.swapaxes(k, -1, -2) * factor
    if hidden is not None:
        scores = np.where(hidden, -math.inf, scores)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
    if hidden is not None:
        weights = np.where(hidden, 0, weights)
    return weights @ v


def wide(*tensors: lt.Tensor) -> list[Array]:
    return [t.to(lt.float64).numpy() for t in tensors]


def kernels_of(value: lt.Tensor) -> list[Kernel]:
    """With a device that says it streams all."""
    graph = Graph([value._storage.value], value.device)
    given = [(b.dtype, b.size) for b in graph.buffers]
    made = schedule(graph.normalized(), given, items=1 << 16, streams=lambda kernel: True)
    return [s.kernel for s in made.steps]


def half(*shape: int) -> lt.Tensor:
    return lt.tensor(np.zeros(shape, np.float32)).half().realize()


# ---- on a device ---------------------------------------------------------------------------------

@needs_compiler
@pytest.mark.parametrize(("rows", "keys", "depth", "columns", "dtype", "seen"), [
    (64, 64, 16, 16, lt.float16, "all"),
    (40, 77, 32, 8, lt.float16, "some"),
    (33, 160, 16, 24, lt.bfloat16, "causal"),
])
def test_attention_is_one_kernel_and_right(
        rows: int, keys: int, depth: int, columns: int, dtype: lt.DType, seen: str) -> None:
    rng = np.random.default_rng(rows)
    q, k, v = inputs(rng, rows, keys, depth, columns, dtype, cuda_on_cpu.NAME)
    hidden = {"all": None, "causal": np.arange(keys) > np.arange(rows)[:, None],
              "some": rng.random((rows, keys)) < 0.8}[seen]
    if seen == "some":
        hidden[3] = True  # type: ignore[index]
        hidden[5, :70] = True  # type: ignore[index]
    mask = None if seen != "some" else lt.tensor(~hidden, device=cuda_on_cpu.NAME)  # type: ignore[operator]
    result = lt.nn.functional.scaled_dot_product_attention(q, k, v, mask,
                                                           is_causal=seen == "causal")
    assert [line.split()[1][:6] for line in lt.explain(result).splitlines()
            if line[0].isdigit()].count("reduce") == 1
    assert_near(result, expected(*wide(q, k, v), hidden, depth**-0.5), dtype)


def assert_near(result: lt.Tensor, wanted: Array, dtype: lt.DType) -> None:
    """Weights are rounded, and the result."""
    found = result.to(lt.float64).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2 * EPSILON[dtype],
                               atol=2 * EPSILON[dtype] * np.nanmax(np.abs(wanted)))


@needs_compiler
@pytest.mark.usefixtures("any_order")
def test_what_is_not_finite_is_where_three_passes_have_it() -> None:
    rng = np.random.default_rng(5)
    q, k, v = (x.to(lt.float32).numpy()
               for x in inputs(rng, 32, 64, 16, 8, lt.float16, "cpu"))
    q[0, 1, 2], k[1, 40, 0], v[0, 50, 3], v[1, 2, 0] = math.nan, math.inf, math.inf, math.nan
    device = [lt.tensor(x, device=cuda_on_cpu.NAME).half().realize() for x in (q, k, v)]
    host = [lt.tensor(x, device="interpreter").half() for x in (q, k, v)]
    found, wanted = (lt.nn.functional.scaled_dot_product_attention(*x).to(lt.float32).numpy()
                     for x in (device, host))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=2e-3, atol=2e-3)


# ---- what is streamed ----------------------------------------------------------------------------

def test_what_others_read_is_stored() -> None:
    q, k, v = half(64, 16), half(64, 16), half(64, 16)
    scores = (q.float() @ k.float().T) * 0.25
    result = scores.softmax(1).half() @ v
    assert len(kernels_of(result)) == 1
    both = lt.cat([result.float().reshape(-1), scores.reshape(-1)])
    assert len(kernels_of(both)) > 1


@pytest.mark.parametrize("weights", ["exp", "other", "sum"])
def test_only_terms_in_proportion_to_a_weight_are_rescaled(weights: str) -> None:
    q, k, v = half(64, 16), half(64, 16), half(64, 16)
    scores = (q.float() @ k.float().T) * 0.25
    weight = (scores - scores.amax(1, keepdim=True)).exp()
    made = {"exp": weight, "other": weight + 1, "sum": weight * weight}[weights]
    kernel = kernels_of(made.half() @ v)[-1]
    sink = merge_ranges(lower(kernel))
    assert streams(stream(sink)) == (weights == "exp")
