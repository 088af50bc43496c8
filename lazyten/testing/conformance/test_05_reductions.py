"""Stage 5: sums, products, maxima and scans along any axes, of any size."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.testing.conformance.test_04_views import on
from lazyten.testing.conformance.values import whole
from lazyten.testing.diagnosis import NAN_LOST, Array, Nonconformance, expect_values
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

SHAPES = [(1,), (7, 1, 5), (33, 65), (4, 3, 5, 6)]
LONG = 100_003
Reduction = Callable[[Any], Any]


def _sum_type(a: Array) -> Any:
    """What sums of an array are of: integers are added up in int64."""
    return a.dtype if a.dtype.kind == "f" else np.int64


REDUCTIONS: dict[str, tuple[Reduction, Reduction]] = {
    "the sum of all": (lambda t: t.sum(), lambda a: a.sum(dtype=_sum_type(a))),
    "the sum of the last axis": (lambda t: t.sum(-1), lambda a: a.sum(-1, dtype=_sum_type(a))),
    "the sum of the first axis": (lambda t: t.sum(0), lambda a: a.sum(0, dtype=_sum_type(a))),
    "the sum of the last axis, in its own type": (
        lambda t: t.sum(-1, dtype=t.dtype), lambda a: a.sum(-1, dtype=a.dtype)),
    "the maximum of all": (lambda t: t.amax(), lambda a: a.max()),
    "the maximum of the last axis": (lambda t: t.amax(-1), lambda a: a.max(-1)),
    "the minimum of the first axis": (lambda t: t.amin(0), lambda a: a.min(0)),
    "the position of the maximum": (lambda t: t.argmax(-1), lambda a: a.argmax(-1)),
    "the product of signs": (lambda t: (t > 0).to(t.dtype).prod(-1),
                             lambda a: (a > 0).astype(a.dtype).prod(-1, dtype=_sum_type(a))),
    "a cumulative sum": (lambda t: t.cumsum(0), lambda a: a.cumsum(0, dtype=_sum_type(a))),
}
LOGIC: dict[str, tuple[Reduction, Reduction]] = {
    "any": (lambda t: t.any(-1), lambda a: a.any(-1)),
    "all": (lambda t: t.all(0), lambda a: a.all(0)),
    "a count": (lambda t: t.sum(), lambda a: a.sum()),
}


@advice("A reduction is wrong although elementwise ops are right: its accumulator is a variable "
        "that starts with the combiner's identity, and loops run to their end, the last "
        "one included.")
@pytest.mark.parametrize("dtype", dt.ARITHMETIC, ids=lambda d: d.name)
def test_reductions_along_all_axes(device: str, card: Scorecard, dtype: DType) -> None:
    if dtype not in card.dtypes:
        pytest.skip("the device does not claim it")
    found = []
    for number, shape in enumerate(SHAPES):
        values = whole(dtype, shape, number)
        if dtype.is_half:  # sums of up to 2,000 small numbers are exact in no 16 bits
            values = values * (np.arange(values.size).reshape(shape) % 7 == 0)
        x = on(device, values, dtype)
        for name, (function, expected) in (LOGIC if dtype is dt.bool_ else REDUCTIONS).items():
            want = np.asarray(expected(values))
            found.append((f"{dtype.name}{list(shape)}, {name}", function(x), want))
    lt.realize(*[tensor for _, tensor, _ in found])
    for name, tensor, want in found:
        expect_values(tensor, want.astype(tensor.numpy().dtype), name)


@advice("A long sum is wrong: it is made by two kernels, the first of which has an axis of parts, "
        "or by several work items. Each part starts from 0, and the second kernel comes after.")
@pytest.mark.parametrize("size", [0, 1, 1000, LONG, 1 << 21])
def test_long_sums_are_exact_for_whole_numbers(device: str, size: int) -> None:
    values = np.arange(size, dtype=np.int64) % 7
    x = lt.tensor(values, device=device).realize()
    lt.realize(total := x.sum(), short := x.float().sum())
    expect_values(total, values.sum(), f"the sum of {size:,} integers")
    expect_values(short, np.asarray(values.sum(), np.float32), f"the sum of {size:,} floats")


@advice(NAN_LOST)
def test_a_maximum_is_nan_if_any_element_is(device: str) -> None:
    values = whole(dt.float32, (9, 130), 1)
    for row in range(1, 9):
        values[row, 17 * row - 10] = np.nan
    x = lt.tensor(values, device=device)
    expect_values(x.amax(1), values.max(1), "the maximum of rows with NaN")
    expect_values(x.amin(1), values.min(1), "the minimum of rows with NaN")
    expect_values(x.sum(1), values.sum(1), "the sum of rows with NaN")


@advice("The error of a sum grows too fast with its length: it is added up in blocks. Compile "
        "without options that reorder floating-point sums.")
def test_long_sums_of_floats_keep_their_bound(device: str) -> None:
    values = np.random.default_rng(5).random(LONG).astype(np.float32)
    got, exact = lt.tensor(values, device=device).sum().item(), values.astype(np.float64).sum()
    if abs(got - exact) > exact * 2**-24 * 300:
        raise Nonconformance(f"the sum of {LONG:,} floats is {got}, not {exact}")
