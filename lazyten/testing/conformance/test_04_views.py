"""Stage 4: kernels read and write through views: every pattern on every element type."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.testing.conformance.values import whole
from lazyten.testing.diagnosis import Array, expect_values
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

SHAPE = (5, 6, 7)
View = Callable[[Any], Any]

VIEWS: dict[str, tuple[View, View]] = {
    "as it is": (lambda t: t, lambda a: a),
    "transpose": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "flip": (lambda t: t.flip(0, 2), lambda a: a[::-1, :, ::-1]),
    "slice": (lambda t: t[1:4, :, 2:], lambda a: a[1:4, :, 2:]),
    "step": (lambda t: t[:, ::2, ::3], lambda a: a[:, ::2, ::3]),
    "row": (lambda t: t[3, 1], lambda a: a[3, 1]),
    "broadcast": (lambda t: t[:, :1].expand(5, 9, 7),
                  lambda a: np.broadcast_to(a[:, :1], (5, 9, 7))),
    "reshape": (lambda t: t.permute(1, 0, 2).reshape(10, 21),
                lambda a: a.transpose(1, 0, 2).reshape(10, 21)),
    "pad": (lambda t: lt.nn.functional.pad(t, (1, 2, 0, 3)),
            lambda a: np.pad(a, ((0, 0), (0, 3), (1, 2)))),
    "windows": (lambda t: t.unfold(2, 3, 2), lambda a: sliding_window_view(a, 3, 2)[:, :, ::2]),
    "diagonal": (lambda t: t.diagonal(0, 1, 2), lambda a: a.diagonal(0, 1, 2)),
    "joined": (lambda t: lt.cat([t[:2], t.flip(0)], 0), lambda a: np.concatenate([a[:2], a[::-1]])),
    "repeated": (lambda t: t.repeat(1, 2, 1), lambda a: np.tile(a, (1, 2, 1))),
    "picked": (lambda t: t[[4, 0, 0, 2]], lambda a: a[[4, 0, 0, 2]]),
    "empty": (lambda t: t[:, 3:3], lambda a: a[:, 3:3]),
}
"""By name: the view of a tensor, and the same view of an array."""
NUMBERS: list[tuple[View, View]] = [
    (lambda t: t + t, lambda a: a + a), (lambda t: t * 3, lambda a: a * a.dtype.type(3)),
    (lambda t: t - 1, lambda a: a - a.dtype.type(1)),
    (lambda t: t.maximum(t * t), lambda a: np.maximum(a, a * a)),
    (lambda t: lt.where(t != 0, t, t + 5), lambda a: np.where(a != 0, a, a + a.dtype.type(5)))]
LOGIC: list[tuple[View, View]] = [
    (lambda t: ~t, lambda a: ~a), (lambda t: t ^ True, lambda a: ~a),
    (lambda t: t | t, lambda a: a)]
"""What is computed of a view: each with one of these, in turn."""


@pytest.fixture(params=dt.ARITHMETIC, ids=lambda d: d.name)
def dtype(request: pytest.FixtureRequest, card: Scorecard) -> DType:
    """Every element type that the device claims."""
    found: DType = request.param
    if found not in card.dtypes:
        pytest.skip("the device does not claim it")
    return found


def stored(values: Array, dtype: DType) -> Array:
    """Values as a tensor of a dtype holds them."""
    return np.asarray(ops.round_to(values, dtype))


def on(device: str, values: Array, dtype: DType) -> lt.Tensor:
    """A tensor in memory."""
    wide = lt.tensor(values, device=device)
    return (wide if wide.dtype is dtype else wide.to(dtype)).realize()


@advice("A view of an array is read wrongly: a kernel's index is index arithmetic in 64 bits, so "
        "look at its integer division, remainder and comparison with DEBUG=2, and at the masks of "
        "loads: one that is masked off gives 0.")
def test_every_view_is_read_on_every_dtype(device: str, dtype: DType) -> None:
    values = whole(dtype, SHAPE)
    x = on(device, values, dtype)
    functions = LOGIC if dtype is dt.bool_ else NUMBERS
    chosen = [functions[(i + dtype.bits) % len(functions)] for i in range(len(VIEWS))]
    pairs = zip(VIEWS.items(), chosen, strict=True)
    found = [(name, function(view(x)), stored(expected(of(values)), dtype))
             for (name, (view, of)), (function, expected) in pairs]
    lt.realize(*[tensor for _, tensor, _ in found])
    for name, tensor, want in found:
        expect_values(tensor, want, f"{dtype.name}, view {name!r}")


@advice("A write through a view reached other elements than the view's, or not all of them.")
def test_writes_through_views_are_seen_by_all(device: str, dtype: DType) -> None:
    values = whole(dtype, SHAPE, 1)
    changed = []
    for name in ("transpose", "slice", "step", "row"):
        view, of = VIEWS[name]
        x, want = on(device, values, dtype), values.copy()
        view(x)[...] = 1
        of(want)[...] = 1
        changed.append((name, x, want))
    lt.realize(*[x for _, x, _ in changed])
    for name, x, want in changed:
        expect_values(x, want, f"{dtype.name}, after a write through view {name!r}")


@advice("Index arrays are read as memory of their own; a position outside is never touched.")
def test_index_arrays_gather_and_scatter(device: str) -> None:
    values = whole(dt.float32, (50, 9), 2)
    rows = np.random.default_rng(3).integers(-50, 50, 70)
    x, index = on(device, values, dt.float32), on(device, rows, dt.int64)
    added = lt.zeros(50, 9, device=device).index_add(0, index % 50, x[index])
    want = np.zeros((50, 9), np.float32)
    np.add.at(want, rows % 50, values[rows])
    mask = x > 0
    lt.realize(added, x[index])
    expect_values(x[index], values[rows], "rows by number")
    expect_values(added, want, "rows added to where they came from")
    expect_values(x[mask], values[values > 0], "elements by mask")


@advice("A chain of views is read wrongly: compare the kernel's index arithmetic (DEBUG=2) with "
        "what the interpreter reads.")
def test_random_chains_of_views_are_read_right(device: str) -> None:
    rng = np.random.default_rng(4)
    names = [name for name in VIEWS if name not in ("as it is", "row", "diagonal", "reshape",
                                                    "windows", "broadcast", "empty", "picked")]
    found = []
    for _ in range(16):
        want = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
        tensor, chain = on(device, want, dt.float32), rng.choice(names, 3)
        for name in chain:
            view, of = VIEWS[name]
            tensor, want = view(tensor), of(want)
            if name == "step" and min(want.shape) < 2:
                break
        found.append((" of ".join(reversed(chain)), tensor * 2, want * 2))
    lt.realize(*[tensor for _, tensor, _ in found])
    for what, tensor, want in found:
        expect_values(tensor, want, what)
