"""A frame that begins again where one was computed gives what a new one would give."""
from __future__ import annotations

import gc
from threading import Thread
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.storage.deferred import IN_VAIN
from lazyten.storage.frames import Frame, here

OFTEN = 8
"""So many times a place is run until a frame rests there, and its program is known."""


def _tensors(count: int) -> tuple[list[lt.Tensor], list[Any]]:
    arrays = [np.arange(4, dtype=np.float32) * (n + 1) for n in range(count)]
    return [lt.tensor(a).realize() for a in arrays], arrays


def _look(x: Any, y: Any) -> float:
    return float((x * 2 + y).sum())


def _rests() -> list[Frame]:
    return [f for f in here.resting.values() if isinstance(f, Frame)]


def test_a_place_that_reads_the_same_storages_has_one_frame() -> None:
    (x, y), _ = _tensors(2)
    here.resting.clear()
    for _ in range(OFTEN):
        _look(x, y)
    (frame,) = _rests()
    x += 1  # computed by a frame of another place
    x.realize()
    assert _look(x, y) == float((x.numpy() * 2 + y.numpy()).sum())
    assert frame in _rests()


def test_a_frame_that_rests_keeps_no_memory() -> None:
    (x, y), _ = _tensors(2)
    here.resting.clear()
    for _ in range(OFTEN):
        _look(x, y)
    assert _rests()
    buffer = x._storage.buffer
    assert buffer is not None
    gone, storage = ref(buffer), ref(x._storage)
    del x, buffer
    gc.collect()
    assert gone() is None and storage() is None
    z, w = lt.ones(4).realize(), lt.ones(4).realize()
    assert _look(z, y) == float(2 * 4 + y.numpy().sum())
    assert _look(z, w) == 12


def test_a_place_whose_storages_are_others_each_time_soon_has_a_new_frame_each_time() -> None:
    here.resting.clear()
    fixed, _ = _tensors(1)
    kept: list[lt.Tensor] = []
    for n in range(20):
        x = lt.full((4,), float(n)).realize()
        kept.append(x)
        assert _look(fixed[0], x) == 12 + 4 * n
        assert all(len(f.readers) < 2 + IN_VAIN for f in _rests())
    assert not any(len(f.readers) > 1 for f in _rests())


def test_what_a_frame_has_in_memory_besides_is_read_as_it_was() -> None:
    (x, y), (a, b) = _tensors(2)
    kept: list[lt.Tensor] = []
    for n in range(OFTEN):
        copy = x.clone()  # a value that is memory already
        kept.append(copy)
        found = float((copy + y).sum())  # an assertion would hold what it is made of
        assert found == (a + n + b).sum()
        x += 1
        x.realize()
    assert [k.tolist() for k in kept] == [(a + n).tolist() for n in range(OFTEN)]


class _Looks(lt.autograd.Function):
    """x times a sum that forward() looks at, after it has saved both."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        total = float((x * y).sum())
        return x * y * total / float((y * x).sum())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y, g * x


@pytest.mark.parametrize("is_pending", [False, True])
def test_what_a_function_has_saved_before_it_looks_is_there_for_its_gradient(
        is_pending: bool) -> None:
    (y,), (a,) = _tensors(1)
    x = lt.ones(4, requires_grad=True)
    for n in range(OFTEN):
        y += 1
        if not is_pending:
            y.realize()
        x.grad = None
        _Looks.apply(x, y).sum().backward()
        assert x.grad is not None and x.grad.tolist() == (a + n + 1).tolist()


class _Outside(lt.optim.Optimizer):
    """Changes a gradient, looks at it, and writes to an element that it does not have."""

    def step(self, closure: Any = None) -> Any:
        grad = self.param_groups[0]["params"][0].grad
        grad.add_(1)
        assert float(grad.sum()) == 16
        grad[lt.tensor([9])] = 1.0


def test_a_step_that_fails_gives_pending_values_back_though_their_frame_has_ended() -> None:
    for _ in range(OFTEN):
        p = lt.ones(4, requires_grad=True)
        p.grad = lt.tensor([0.0, 1, 2, 3]).realize()
        p.grad.mul_(2)  # pending
        with pytest.raises(lt.IndexingError):
            _Outside([p], {}).step()
        assert p.grad.tolist() == [0, 2, 4, 6]


ACTIONS = ("look", "other", "update", "assign", "share", "cut", "alive", "grad", "thread")


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(0, 3)),
                min_size=4, max_size=30))
def test_any_course_gives_what_numpy_gives(course: list[tuple[str, int, int]]) -> None:
    tensors, arrays = _tensors(4)
    kept: list[lt.Tensor] = []
    for _ in range(OFTEN):
        _look(tensors[0], tensors[1])
    for action, i, j in course:
        x, y, a, b = tensors[i], tensors[j], arrays[i], arrays[j]
        if action == "update":
            arrays[i] = a + 1
            x += 1
        elif action == "assign":
            tensors[i], arrays[i] = lt.tensor(a * 2).realize(), a * 2
        elif action == "share":
            view = x.numpy() * 0 + 3
            tensors[i], arrays[i] = lt.from_numpy(view), view
            view += 1  # written by others
        elif action == "cut":
            assert float((x[1:3] * 2 + y[:2]).sum()) == float((a[1:3] * 2 + b[:2]).sum())
        elif action == "alive":
            kept.append(x + y)
        elif action == "grad":
            w = lt.tensor(a, requires_grad=True)
            loss = _look_with_grad(w, y)
            assert w.grad is not None and w.grad.tolist() == b.tolist()
            assert loss == float((a * b).sum())
        elif action == "thread":
            assert _look_in_thread(x, y) == float((a * 2 + b).sum())
        assert _look(tensors[i], tensors[j]) == float((arrays[i] * 2 + arrays[j]).sum())
    for k in kept:
        assert np.isfinite(k.numpy()).all()


def _look_in_thread(x: Any, y: Any) -> float:
    found: list[float] = []
    thread = Thread(target=lambda: found.append(_look(x, y)))
    thread.start()
    thread.join()
    return found[0]


def _look_with_grad(w: Any, y: Any) -> float:
    loss = (w * y).sum()
    loss.backward()
    return float(loss)


@pytest.mark.parametrize("keeps", [False, True])
def test_values_that_are_pending_when_a_frame_ends_are_computed_from_it(keeps: bool) -> None:
    (x, y), (a, b) = _tensors(2)
    pending: list[lt.Tensor] = []
    for n in range(OFTEN):
        z = x + y
        if keeps or n == OFTEN - 1:
            pending.append(z - n)
        assert float(z.sum()) == float((a + b).sum())
    for _ in range(3):
        _look(x, y)
    first = 0 if keeps else OFTEN - 1
    for n, p in enumerate(pending, first):
        assert p.tolist() == (a + b - n).tolist()
