"""Scores, their softmax and its product in one pass, on the driver for tests and beside NumPy."""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import cuda_on_cpu
import numpy as np
import pytest
from slow_rows import slow_but
from tensor_core_kernels import HOPPER

import lazyten as lt
from lazyten.codegen.gpu import gpu_stream
from lazyten.codegen.gpu.gpu_stream import pays, stream_candidates, streamed_loops
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.loops.stops import stop_of
from lazyten.codegen.loops.streaming import stream, streams
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.native_half import NativeHalves
from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import const, elementwise, index, make
from lazyten.ir.ops import Op
from lazyten.schedule.schedule import schedule

Array = np.ndarray[Any, Any]

needs_compiler = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                    reason=cuda_on_cpu.missing() or "")
HALVES = ("float16", "bfloat16")
STREAMING = replace(HOPPER, halves=NativeHalves(HALVES, HALVES), busy_warps=4096)
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


@needs_compiler
@pytest.mark.parametrize("is_divided", [True, False])
def test_a_row_of_which_nothing_is_seen_is_nan(is_divided: bool,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody chooses 0 for it."""
    monkeypatch.setattr(gpu_stream, "pays", lambda sink, target: streams(sink))
    q, k, v = inputs(np.random.default_rng(6), 48, 64, 16, 8, lt.float16, cuda_on_cpu.NAME)
    row, key = positions(48, 64, cuda_on_cpu.NAME)
    hidden = (row == 5) | (key > row + 3)
    scores = lt.where(hidden, -math.inf, (q.float() @ k.float().transpose(-1, -2)) * 0.25)
    weights = scores.softmax(-1) if is_divided else (scores - scores.amax(-1, keepdim=True)).exp()
    result = weights.half() @ v
    del scores, weights
    found = result.to(lt.float32).numpy()
    assert np.isnan(found[:, 5]).all() and np.isfinite(np.delete(found, 5, 1)).all()


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


def kernel_of_attention(shape: tuple[int, ...], keys: int, dtype: lt.DType = lt.float16,
                        causal: bool = False) -> Kernel:
    """In one kernel, whether that pays or not."""
    of_keys = (*shape[:-2], keys, shape[-1])
    q, k, v = (lt.tensor(np.zeros(s, np.float32)).to(dtype).realize()
               for s in (shape, of_keys, of_keys))
    return kernels_of(lt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal))[-1]


@pytest.mark.parametrize(("dtype", "is_streamed"), [
    (lt.float16, True), (lt.bfloat16, True), (lt.float32, False)])
def test_weights_that_would_lose_bits_are_not_streamed(dtype: lt.DType, is_streamed: bool) -> None:
    assert streams(streamed_loops(kernel_of_attention((64, 16), 64, dtype), STREAMING)) \
        is is_streamed


@pytest.mark.parametrize(("shape", "keys", "is_quicker"), [
    ((8, 16, 2048, 64), 2048, True), ((8, 16, 2048, 128), 2048, True),
    ((32, 12, 128, 64), 128, True), ((1, 1, 128, 64), 512, False), ((2, 128, 64), 512, False)])
def test_few_rows_of_many_keys_are_three_passes(shape: tuple[int, ...], keys: int,
                                                is_quicker: bool) -> None:
    sink = streamed_loops(kernel_of_attention(shape, keys), STREAMING)
    assert streams(sink) and pays(sink, STREAMING) is is_quicker


def test_groups_have_fewer_rows_where_there_are_few() -> None:
    rows = []
    for batch in (1, 256):
        sink = streamed_loops(kernel_of_attention((batch, 512, 64), 512), STREAMING)
        best = stream_candidates(sink, STREAMING)[0]
        assert best.tensor is not None
        tile = dict(best.tile).get(best.tensor.row, 1)
        rows.append(16 * tile * dict(best.local)[best.tensor.row])
    assert rows[0] < rows[1] == 128


# ---- where the pass ends -------------------------------------------------------------------------

HIDDEN: dict[str, Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = {
    "causal": lambda row, key: key > row,
    "ahead": lambda row, key: key > row + 19,
    "behind": lambda row, key: key >= row - 40,
    "window": lambda row, key: (key > row) | (key < row - 12),
    "steps": lambda row, key: key * 3 > row * 2,
    "after": lambda row, key: key < row,
    "odd": lambda row, key: (key + row) % 2 == 1,
}


def masked(q: lt.Tensor, k: lt.Tensor, v: lt.Tensor, hidden: lt.Tensor) -> lt.Tensor:
    scores = (q.float() @ k.float().transpose(-1, -2)) * q.shape[-1]**-0.5
    weights = lt.where(hidden, -math.inf, scores).softmax(-1)
    return lt.where(hidden, 0, weights).to(v.dtype) @ v


def positions(rows: int, keys: int, device: str) -> tuple[lt.Tensor, lt.Tensor]:
    return lt.arange(rows, device=device)[:, None], lt.arange(keys, device=device)


@pytest.mark.parametrize(("mask", "ends"), [
    ("causal", True), ("ahead", True), ("behind", True), ("window", True), ("steps", True),
    ("after", False), ("odd", False)])
def test_a_pass_ends_behind_what_a_group_sees(mask: str, ends: bool) -> None:
    q, k, v = half(128, 16), half(256, 16), half(256, 16)
    value = masked(q, k, v, HIDDEN[mask](*positions(128, 256, q.device)))
    source = generate(kernels_of(value)[-1], STREAMING).source
    stops = re.findall(r"for \(\w+ \w+ = 0; \w+ < (\w+);", source)
    assert [stop for stop in stops if not stop.isdigit()] == stops[:1] if ends \
        else all(map(str.isdigit, stops))


@needs_compiler
@pytest.mark.parametrize(("rows", "keys"), [(70, 200), (130, 64)])
@pytest.mark.parametrize("mask", slow_but(list(HIDDEN), "causal"))
def test_what_a_pass_leaves_out_has_no_weight(mask: str, rows: int, keys: int,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stream, "pays", lambda sink, target: streams(sink))
    rng = np.random.default_rng(8)
    arrays = inputs(rng, rows, keys, 16, 8, lt.float16, cuda_on_cpu.NAME)
    result = masked(*arrays, HIDDEN[mask](*positions(rows, keys, cuda_on_cpu.NAME)))
    hidden = HIDDEN[mask](*positions(rows, keys, "cpu")).numpy()
    assert_near(result, expected(*wide(*arrays), hidden, 0.25), lt.float16)


def test_a_stop_is_the_first_iteration_from_which_on_all_is_hidden() -> None:
    group, own, along = (make(Op.RANGE, dt.INDEX, (), Range((i,), extent, kind))
                         for i, (extent, kind) in enumerate(
                             [(5, "parallel"), (4, "unroll"), (9, "reduce")]))
    score = make(Op.LOAD, dt.float32, (make(Op.PARAM, dt.float32, (), Param(0, 64)), along))
    for rows, keys, offset in product((1, 2, 4), (1, 3), (-7, 0, 6)):
        row = elementwise(Op.ADD, elementwise(Op.MUL, group, index(rows)), own)
        row = elementwise(Op.ADD, row, index(offset))
        key = elementwise(Op.MUL, along, index(keys))
        hidden = elementwise(Op.WHERE, elementwise(Op.CMPLT, row, key),
                             const(-math.inf, dt.float32), score)
        found = stop_of({hidden: -math.inf}, along)
        assert found is not None
        for place in range(5):
            seen = [i for i in range(100) if i * keys <= place * rows + 3 + offset]
            stop = sum(place * n for n in found.terms.values()) + found.constant
            assert max(stop // found.step, 0) == len(seen)
