"""Jitted functions that are given views which begin elsewhere each time: one captured call."""
from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

ROWS, WIDTH = 64, 16
DATA = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) / 100
PLACES = (0, 5, 8, 33, 60, 1, 8)


def whole(device: str) -> lt.Tensor:
    return lt.tensor(DATA, device=device).realize()


@pytest.mark.parametrize("width", [16, 3])
def test_rows_from_anywhere_are_one_captured_call(device: str, width: int) -> None:
    x = lt.tensor(DATA[:, :width].copy(), device=device).realize()

    @lt.jit
    def run(rows: lt.Tensor, scale: lt.Tensor) -> lt.Tensor:
        return (rows * scale).sum(1)
    scale = lt.tensor(2.0, device=device)
    for n in PLACES:
        expected = (DATA[n:n + 4, :width] * 2).sum(1)
        np.testing.assert_allclose(run(x[n:n + 4], scale).numpy(), expected, rtol=1e-6)
    if width == 16 or x._storage.buffer.view() is not None:
        assert run.cache_size <= 2  # 2: the first, and one for copies of rows that are not aligned


def test_training_on_batches_of_one_array_is_traced_once() -> None:
    lt.manual_seed(0)
    data = lt.tensor(DATA).realize()
    targets = (data.sum(1) * 10).to(lt.int64).remainder(3).realize()
    net = nn.Linear(WIDTH, 3)
    optimizer = lt.optim.Adam(net.parameters())

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss
    jitted = lt.jit(step)
    losses = [jitted(data[i:i + 8], targets[i:i + 8]).item() for i in range(0, ROWS, 8)]
    assert jitted.cache_size == 1
    lt.manual_seed(0)
    net = nn.Linear(WIDTH, 3)
    optimizer = lt.optim.Adam(net.parameters())
    assert losses == pytest.approx(
        [step(data[i:i + 8], targets[i:i + 8]).item() for i in range(0, ROWS, 8)], rel=1e-5)


def added(x: lt.Tensor) -> lt.Tensor:
    x += 1
    return x.sum()


def offset(x: lt.Tensor) -> lt.Tensor:
    return x.sum() + x.storage_offset()


def neighbours(x: lt.Tensor) -> lt.Tensor:
    return x.as_strided((2, 2), (1, 1), 17)


KINDS: dict[str, tuple[Callable[[lt.Tensor], Any], Callable[[Any, int], Any]]] = {
    "written": (added, lambda d, n: (d[n:n + 2] + 1).sum()),
    "where it is": (offset, lambda d, n: d[n:n + 2].sum() + n * WIDTH),
    "strided": (neighbours, lambda d, n: np.array([[d[1, 1], d[1, 2]], [d[1, 2], d[1, 3]]])),
    "which storage": (lambda x: x * (2 if x.untyped_storage() else 3), lambda d, n: d[n:n + 2] * 2),
    "value": (lambda x: x * (2 if x.sum().item() > 60 else 3),
              lambda d, n: d[n:n + 2] * (2 if d[n:n + 2].sum() > 60 else 3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_depends_on_the_place_is_what_it_is_without_jit(device: str, kind: str) -> None:
    function, expected = KINDS[kind]
    run = lt.jit(function)
    for n in PLACES:
        x = whole(device)
        np.testing.assert_allclose(run(x[n:n + 2]).numpy(), expected(DATA, n), rtol=1e-5)
        changed = DATA.copy()
        changed[n:n + 2] += kind == "written"
        np.testing.assert_allclose(x.numpy(), changed)


GIVEN: dict[str, Callable[[lt.Tensor], Any]] = {
    "itself": lambda x: x, "a view": lambda x: x[1:], "in a list": lambda x: (x * 2, [x.view(-1)])}


@pytest.mark.parametrize("kind", GIVEN)
def test_what_gives_its_argument_gives_a_view_of_the_whole(device: str, kind: str) -> None:
    run = lt.jit(GIVEN[kind])
    for n in PLACES:
        x = whole(device)
        given = run(x[n:n + 2])
        while not isinstance(given, lt.Tensor):
            given = given[-1]
        given.fill_(-1)
        assert (x.numpy() == -1).sum() == given.numel()


def test_what_writes_the_whole_by_name_sees_it_in_a_view(device: str) -> None:
    x, expected = whole(device), DATA.copy()

    @lt.jit
    def run(rows: lt.Tensor) -> lt.Tensor:
        x.mul_(1.5)
        return rows.sum()
    for n in PLACES:
        expected *= np.float32(1.5)
        assert run(x[n:n + 2]).item() == pytest.approx(float(expected[n:n + 2].sum()), rel=1e-5)


def test_views_of_what_a_function_writes_come_later(device: str) -> None:
    state, other = lt.zeros(8, WIDTH, device=device).realize(), whole(device)

    @lt.jit
    def run(rows: lt.Tensor) -> lt.Tensor:
        state.add_(1)
        return rows.sum() + state.sum()
    expected = np.zeros((8, WIDTH))
    for rows, values in ((other[3:5], DATA[3:5]), (other[8:10], DATA[8:10]),
                         (state[2:4], expected[2:4]), (other[1:3], DATA[1:3]),
                         (state[4:6], expected[4:6])):
        expected += 1
        assert run(rows).item() == pytest.approx(float(values.sum() + expected.sum()), rel=1e-5)


def test_a_view_has_what_was_written_to_the_whole_between_calls(device: str) -> None:
    x, expected = whole(device), DATA.copy()
    run = lt.jit(lambda rows: rows * 2)
    for n in PLACES:
        x += 1
        expected += 1
        np.testing.assert_allclose(run(x[n:n + 2]).numpy(), expected[n:n + 2] * 2, rtol=1e-6)


def test_views_of_one_array_may_overlap_and_lie_in_lists(device: str) -> None:
    x = whole(device)

    @lt.jit
    def run(rows: list[lt.Tensor], named: dict[str, lt.Tensor], scale: float) -> lt.Tensor:
        return rows[0] * scale + rows[1] - named["third"]
    for n in PLACES[:4]:
        found = run([x[n:n + 4], x[n + 1:n + 5]], {"third": x[n:n + 4]}, n / 4)
        np.testing.assert_allclose(
            found.numpy(), DATA[n:n + 4] * np.float32(n / 4) + DATA[n + 1:n + 5] - DATA[n:n + 4],
            rtol=1e-5)


def test_views_through_which_gradients_flow_keep_them() -> None:
    w = lt.tensor(DATA, requires_grad=True)
    run = lt.jit(lambda rows: (rows * rows).sum())
    with lt.no_grad():
        plain = run(w[2:4])
    assert plain.item() == pytest.approx(float((DATA[2:4] ** 2).sum()), rel=1e-5)

    @lt.jit
    def gradient(rows: lt.Tensor) -> lt.Tensor:
        return lt.autograd.grad((rows * rows).sum(), rows)[0]
    for n in PLACES[:4]:
        np.testing.assert_allclose(gradient(w[n:n + 2]).numpy(), 2 * DATA[n:n + 2], rtol=1e-6)


def test_donated_views_are_refused_or_kept_as_before(device: str) -> None:
    x = whole(device)
    run = lt.jit(lambda rows: rows + 1, donate=0)
    found = run(x[4:8])
    np.testing.assert_allclose(found.numpy(), DATA[4:8] + 1)


def test_the_whole_is_freed_when_the_program_drops_it() -> None:
    x = whole("cpu")
    run = lt.jit(lambda rows: rows.sum(0))
    for n in PLACES:
        run(x[n:n + 2]).numpy()
    gone = weakref.ref(x._storage)
    memory = weakref.ref(x._storage.buffer)
    del x
    gc.collect()
    assert gone() is None
    assert memory() is None
