"""Reductions of index arithmetic itself, not of what is read: sums, maxima and positions of
quotients and remainders of arange, with and without outer axes."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_values import evaluate_at, grid
from window_loops import divided, loop, times, total

import lazyten as lt
from lazyten.codegen.loops import ranges
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param
from lazyten.ir.node import Node, index, make, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.simplify import simplify

REDUCTIONS = ("sum", "amax", "amin", "argmax", "argmin")


@pytest.mark.parametrize("divisor", [2, 3, 4, 6, 12])
def test_a_sum_of_quotients_or_remainders_counts_each_element_once(device: str,
                                                                    divisor: int) -> None:
    counted = np.arange(12)
    here = lt.arange(12, device=device)
    assert (here % divisor).sum().item() == (counted % divisor).sum()
    assert (here // divisor).sum().item() == (counted // divisor).sum()
    assert (here % divisor).argmax().item() == divisor - 1
    assert (here // divisor).argmax().item() == 12 - divisor
    assert here.repeat(3).sum().item() == 3 * counted.sum()


def test_a_loss_of_computed_labels_is_that_of_stored_ones(device: str) -> None:
    scores = lt.tensor(np.linspace(-1, 1, 18).reshape(6, 3), device=device)
    stored = lt.tensor([0, 1, 2, 0, 1, 2], device=device)
    computed = lt.arange(6, device=device) % 3
    expected = lt.nn.functional.cross_entropy(scores, stored).item()
    assert lt.nn.functional.cross_entropy(scores, computed).item() == pytest.approx(expected)


@given(shape=st.lists(st.integers(1, 7), min_size=1, max_size=3), scale=st.integers(1, 3),
       start=st.integers(0, 5), first=st.integers(1, 9), then=st.integers(1, 4),
       ops=st.sampled_from(["%", "//", "%%", "//%", "%//", "////"]),
       name=st.sampled_from(REDUCTIONS), data=st.data())
def test_reductions_of_divided_indices_are_right_on_every_axis(
        shape: list[int], scale: int, start: int, first: int, then: int, ops: str, name: str,
        data: st.DataObject) -> None:
    axis = data.draw(st.none() | st.integers(0, len(shape) - 1))

    def reduced(counted: Any) -> Any:
        value = counted.reshape(tuple(shape)) * scale + start
        for op, by in zip(ops.replace("//", "/"), (first, then), strict=False):
            value = value % by if op == "%" else value // by
        return getattr(value, name)(*(() if axis is None else (axis,)))
    n = int(np.prod(shape))
    expected = reduced(np.arange(n).view(_Array))
    for device in ("cpu", "interpreter"):
        np.testing.assert_array_equal(reduced(lt.arange(n, device=device)).numpy(), expected)


@pytest.mark.parametrize("size", [2, 3, 9, 16, 17])
@pytest.mark.parametrize("name", ["nanmedian", "nanquantile"])
def test_what_is_read_at_a_position_that_is_a_count_is_what_numpy_finds(
        device: str, size: int, name: str) -> None:
    """The position is a sum over ranges of its own, of numbers that no memory holds."""
    x = lt.linspace(-1, 2, size, device=device)
    here = x.nanmedian(0)[0] if name == "nanmedian" else x.nanquantile(0.5, 0)
    expected = np.sort(np.linspace(-1, 2, size))[(size - 1) // 2]
    if name == "nanquantile":
        expected = np.quantile(np.linspace(-1, 2, size), 0.5)
    assert here.item() == pytest.approx(expected, abs=1e-6)


class _Array(np.ndarray[Any, Any]):
    """NumPy with the names of reductions that lazyten has."""

    def amax(self, *axis: int) -> Any:
        return self.max(*axis)

    def amin(self, *axis: int) -> Any:
        return self.min(*axis)


def test_a_sum_too_long_for_an_affine_form_keeps_its_loops_apart() -> None:
    i, j, k = (loop(1000 + a, n, "reduce") for a, n in enumerate((2, 3, 100)))
    quotients = [divided(k, by, Op.IDIV) for by in range(2, 80)]
    value = simplify(total(times(i, 3), times(j, 5), *quotients))
    summed = make(Op.ACCUMULATE, dt.INDEX, (value, i, j, k), Op.ADD)
    param = make(Op.PARAM, dt.INDEX, (), Param(0, 1))
    sink = make(Op.SINK, dt.bool_, (make(Op.STORE, dt.bool_, (param, index(0), summed)),))
    merged = merge_ranges(sink)
    assert summed_up(merged) == summed_up(sink)


def test_a_loop_that_is_split_in_vain_and_joined_again_is_split_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an index is not known to be simpler."""
    k = loop(1000, 12, "reduce")
    summed = make(Op.ACCUMULATE, dt.INDEX, (divided(k, 3, Op.IDIV), k), Op.ADD)
    param = make(Op.PARAM, dt.INDEX, (), Param(0, 1))
    sink = make(Op.SINK, dt.bool_, (make(Op.STORE, dt.bool_, (param, index(0), summed)),))
    splits = []

    def in_vain(sink: Node, r: Node, divisor: int) -> Node:
        splits.append(r)
        assert len(splits) < 9
        joined = make(Op.RANGE, dt.INDEX, (), r.arg._replace(order=(*r.arg.order, 0)))
        return ranges.replace_ranges(sink, {r: joined}, {r: (joined,)})
    monkeypatch.setattr(ranges, "_split_divided", in_vain)
    assert summed_up(merge_ranges(sink)) == summed_up(sink)
    assert len(splits) == 1


def summed_up(sink: Node) -> list[int]:
    """The elements of the only ACCUMULATE, sorted."""
    total, = (n for n in toposort([sink]) if n.op is Op.ACCUMULATE)
    return sorted(evaluate_at(total.src[0], grid([*total.src[1:]])).tolist())
