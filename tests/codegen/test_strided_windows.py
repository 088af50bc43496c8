"""Windows with a stride, and what their gradients need: sums over whole tiles, loops that are
divided, packing of what such loops read."""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from window_loops import divided, loop, times, total

import lazyten as lt
from lazyten.codegen.loops.packing import is_packable, local_loads, packable_loads
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param
from lazyten.ir.node import Node, cast, const, elementwise, index, make, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.nn import functional as F
from lazyten.symbolic.simplify import simplify


def input_gradient(shape: tuple[int, ...], weight: tuple[int, ...], **options: int) -> Node:
    x, w = lt.zeros(*shape).requires_grad_(), lt.rand(*weight).realize()
    output = F.conv2d(x, w, **options)
    output.backward(lt.rand(*output.shape).realize())
    assert x.grad is not None
    return x.grad.node


@pytest.mark.parametrize(("kernel", "stride", "padding", "taps"), [
    (3, 1, 1, 3), (3, 2, 1, 2), (7, 2, 3, 4), (4, 2, 1, 2), (5, 3, 2, 2), (3, 2, 0, 2),
    (2, 2, 0, 1)])
def test_an_element_s_gradient_sums_the_taps_that_reach_it(kernel: int, stride: int, padding: int,
                                                           taps: int) -> None:
    gradient = input_gradient((2, 3, 24, 24), (5, 3, kernel, kernel), stride=stride,
                              padding=padding)
    reduces = [n for n in toposort([gradient]) if n.op is Op.REDUCE]
    assert [n.src[0].numel // n.numel for n in reduces] == [5 * taps * taps]


@pytest.mark.parametrize(("size", "kernel", "stride", "windows"), [
    (4, 4, 1, 1), (5, 4, 1, 2), (7, 5, 1, 3), (4, 3, 2, 1), (7, 5, 2, 2), (9, 4, 3, 2)])
def test_few_windows_make_no_longer_sums_than_there_are_windows(size: int, kernel: int, stride: int,
                                                                windows: int) -> None:
    gradient = input_gradient((2, 3, size, size), (5, 3, kernel, kernel), stride=stride)
    reduces = [n for n in toposort([gradient]) if n.op is Op.REDUCE]
    terms = min(windows, -(-kernel // stride))
    assert [n.src[0].numel // n.numel for n in reduces] == [5 * terms * terms]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_depthwise_gradient_pads_no_products(stride: int) -> None:
    gradient = input_gradient((2, 4, 10, 10), (4, 1, 3, 3), stride=stride, padding=1, groups=4)
    padded = [n.src[0] for n in toposort([gradient]) if n.op is Op.PAD]
    assert padded and not any(below.op is Op.MUL for p in padded for below in toposort([p]))


SOME_AXES = [c for n in range(4) for c in itertools.combinations(range(3), n)]


@pytest.mark.few(67)
@pytest.mark.parametrize("summed", SOME_AXES, ids=str)
@pytest.mark.parametrize("repeated", SOME_AXES, ids=str)
@pytest.mark.parametrize(("stride", "padding", "dilation"), [
    (1, 2, 1), (2, 1, 1), *(pytest.param(*row, marks=pytest.mark.slow)
                            for row in ((1, 0, 1), (1, 1, 2)))])
def test_gradients_are_right_where_weights_or_cotangents_are_the_same_along_axes(
        summed: tuple[int, ...], repeated: tuple[int, ...], stride: int, padding: int,
        dilation: int) -> None:
    """Such factors are neither padded nor slid: what is 0 in the padding must be so by the other
    factor, also where both are the same. The convolution of each unit vector is its matrix."""
    rng = np.random.default_rng(0)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    values = rng.normal(size=(2, 2, 7))
    given = rng.normal(size=[1 if a in repeated else n for a, n in enumerate((3, 2, 3))])
    x = lt.tensor(values, device="interpreter", requires_grad=True)
    w = lt.tensor(given, device="interpreter", requires_grad=True)
    result = F.conv1d(x, w.expand(3, 2, 3), **options)
    ((result.sum(summed, keepdim=True) if summed else result) ** 2).sum().backward()

    def convolved(x: object, w: object) -> np.ndarray[Any, Any]:
        with lt.no_grad():
            return F.conv1d(lt.tensor(x, device="interpreter"),
                            lt.tensor(w, device="interpreter").expand(3, 2, 3), **options).numpy()
    y = convolved(values, given)
    slope = np.broadcast_to(2 * y.sum(summed, keepdims=True), y.shape)
    units = np.eye(14).reshape(-1, 2, 7)
    expected = np.einsum("noi,coi->nc", slope, convolved(units, given)).reshape(values.shape)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12, atol=1e-12)
    units = np.eye(given.size).reshape(-1, *given.shape)
    expected = np.array([(slope * convolved(values, unit)).sum() for unit in units])
    expected = expected.reshape(given.shape)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@given(tiles=st.integers(2, 6), size=st.integers(2, 5), start=st.integers(0, 4),
       cut=st.integers(0, 4), taps=st.integers(1, 3))
@examples(30)
def test_a_reduction_read_in_tiles_from_anywhere_is_right(tiles: int, size: int, start: int,
                                                          cut: int, taps: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(tiles, taps, 3)), rng.normal(size=(size, taps, 5))
    stop = max(tiles * size - cut, start + 1)
    expected = np.einsum("qtx,pty->xyqp", a, b).reshape(3, 5, tiles * size)[..., start:stop]
    left, right = lt.tensor(a, device="cpu"), lt.tensor(b, device="cpu")
    product = left.reshape(tiles, 1, taps, 3, 1) * right.reshape(1, size, taps, 1, 5)
    result = product.sum(2).permute(2, 3, 0, 1).reshape(3, 5, tiles * size)[..., start:stop]
    np.testing.assert_allclose((2 * result).numpy(), 2 * expected, rtol=1e-12, atol=1e-12)


def load(position: Node) -> Node:
    param = make(Op.PARAM, dt.float32, (), Param(1, 1 << 20))
    return make(Op.LOAD, dt.float32, (param, simplify(position)))


@pytest.mark.parametrize(("extent", "by"), [(12, 2), (12, 3), (13, 2), (14, 4)])
def test_a_loop_that_a_reduction_s_index_divides_becomes_two(extent: int, by: int) -> None:
    i, k = loop(0, extent), loop(1000, 3, "reduce")
    position = total(times(divided(i, by, Op.IDIV), 40), times(divided(i, by, Op.MOD), 4), k)
    summed = make(Op.ACCUMULATE, dt.float32, (load(position), k), Op.ADD)
    param = make(Op.PARAM, dt.float32, (), Param(0, extent))
    sink = make(Op.SINK, dt.bool_, (make(Op.STORE, dt.bool_, (param, i, summed)),))
    merged = merge_ranges(sink)
    store, = merged.src
    outer, inner = sorted((r for r in toposort([store.src[1]]) if r.op is Op.RANGE),
                          key=lambda r: r.arg.order)
    assert (outer.arg.extent, inner.arg.extent) == (math.ceil(extent / by), by)
    read, = (n for n in toposort([merged]) if n.op is Op.LOAD)
    seen = set()
    for q, p in itertools.product(range(outer.arg.extent), range(by)):
        at, where = (int(simplify(e).value) for e in substitute(
            [store.src[1], read.src[1]], {outer: index(q), inner: index(p),
                                          **{r: index(0) for r in merged_reductions(merged)}}))
        assert where == at // by * 40 + at % by * 4
        seen.add(at)
    assert seen == set(range(extent))


def merged_reductions(sink: Node) -> list[Node]:
    return [r for n in toposort([sink]) if n.op is Op.ACCUMULATE for r in n.src[1:]]


@given(strides=st.lists(st.integers(1, 12), min_size=2, max_size=2), shift=st.integers(0, 3),
       by=st.integers(2, 3), factors=st.tuples(st.integers(1, 6), st.integers(1, 6)),
       extents=st.tuples(*[st.integers(2, 4)] * 3))
def test_what_can_be_packed_is_read_once(strides: list[int], shift: int, by: int,
                                         factors: tuple[int, int], extents: tuple[int, ...]
                                         ) -> None:
    ranges = [loop(a, n) for a, n in enumerate(extents)]
    moved = elementwise(Op.ADD, ranges[2], index(shift))
    read = load(total(times(ranges[0], strides[0]), times(ranges[1], strides[1]),
                      times(divided(moved, by, Op.IDIV), factors[0]),
                      times(divided(moved, by, Op.MOD), factors[1])))
    if is_packable(read):
        positions = [simplify(substitute([read.src[1]], dict(zip(ranges, map(index, at),
                                                                 strict=True)))[0]).value
                     for at in itertools.product(*map(range, extents))]
        assert len(set(positions)) == len(positions)


def test_a_load_that_divides_a_short_loop_can_be_packed() -> None:
    i, p = loop(0, 8), loop(1, 2)
    phase = elementwise(Op.ADD, p, index(1))
    position = total(times(i, 4), times(divided(phase, 2, Op.IDIV), 2), divided(phase, 2, Op.MOD))
    assert is_packable(load(position))
    assert not is_packable(load(total(times(i, 2), times(divided(phase, 2, Op.IDIV), 2))))


def test_a_load_at_a_position_that_is_summed_up_is_not_packed() -> None:
    """The ranges of the sum are not the load's, and are bound before it: nothing to copy along."""
    own = loop(0, 4, "reduce")
    less = elementwise(Op.CMPLT, cast(own, dt.float32), const(2.5, dt.float32))
    count = make(Op.ACCUMULATE, dt.INDEX, (cast(less, dt.INDEX), own), Op.ADD)
    for position in (count, total(count, times(loop(1, 3), 5))):
        assert not is_packable(load(position))
        sink = make(Op.SINK, dt.bool_, (make(Op.STORE, dt.bool_, (
            make(Op.PARAM, dt.float32, (), Param(1, 3)), loop(1, 3), load(position))),))
        assert packable_loads(sink) == local_loads(sink) == {}
