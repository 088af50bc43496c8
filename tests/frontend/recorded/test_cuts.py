"""Parts of memory by plain indices: views that are made without looking anything up."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans

import lazyten as lt
from lazyten.frontend.recorded import lookup
from lazyten.frontend.recorded.cuts import Cut
from lazyten.storage.shared_memory import SharedMemory

Array = np.ndarray[Any, Any]
DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
PARTS = [0, 2, -1, -3, 3, -4, slice(None), slice(1, None), slice(-2, -1), slice(2, 1),
         slice(0, 9), slice(1, 3, 1), slice(None, None, 2), slice(-9, 2)]
INDICES = [*PARTS, (), *itertools.product(PARTS, PARTS), (0, 0, 0)]
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x, "transposed": lambda x: x.T, "a part": lambda x: x[1:, 1:],
    "of one row": lambda x: x[:1], "of no axis": lambda x: x[1, 2]}


@pytest.mark.parametrize("name", VIEWS)
def test_a_part_is_the_one_that_numpy_shows(name: str) -> None:
    x, values = VIEWS[name](lt.tensor(DATA)), VIEWS[name](DATA)
    for index in INDICES:
        try:
            expected = values[index]
        except IndexError:
            with pytest.raises(lt.IndexingError):
                x[index]
            continue
        found = x[index]
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal((found + 0.5).numpy(), expected + 0.5)


def test_parts_of_memory_are_not_looked_up() -> None:
    x = lt.tensor(DATA)
    known = len(lookup._known)
    rows = [part for i in range(3) for part in (x[i], x[i:i + 1], x[i, 1], x[i][2])]
    assert len(lookup._known) == known and all(type(row._value) is Cut for row in rows)


def test_what_is_written_to_a_part_or_the_whole_is_seen_by_both() -> None:
    x, expected = lt.tensor(DATA), DATA.copy()
    for step in range(8):
        row, own = x[step % 3], expected[step % 3]
        if step % 2:
            row += step
            own += step
        else:
            x *= 0.5
            expected *= 0.5
        np.testing.assert_array_equal(row.numpy(), own)
        np.testing.assert_array_equal(x[:, 1].numpy(), expected[:, 1])
        np.testing.assert_array_equal((x * 2).numpy(), expected * 2)


def test_gradients_flow_through_parts_of_what_requires_them_alone() -> None:
    for _ in range(3):
        w, x = lt.tensor(DATA, requires_grad=True), lt.tensor(DATA)
        (w[1] * x[2, :]).sum().backward()
        assert w.grad is not None and x.grad is None
        np.testing.assert_array_equal(w.grad.numpy(), [[0] * 4, DATA[2], [0] * 4])
        with lt.no_grad():
            assert not w[1].requires_grad
        row = x[0]
        x.requires_grad_()
        assert row.requires_grad
        (row * 3).sum().backward()
        assert x.grad is not None and x.grad[0].tolist() == [3] * 4


def test_a_part_that_begins_elsewhere_in_each_step_is_what_is_there() -> None:
    x, y = lt.tensor(DATA), lt.tensor(DATA[:, 0])
    for step in range(24):
        if step == 16:
            x, y = lt.tensor(-DATA), lt.tensor(-DATA[:, 0])
        i, j = step % 3, (step // 3 + step) % 3
        values = -DATA if step >= 16 else DATA
        assert (x[i] * x[j]).sum().item() == (values[i] * values[j]).sum()
        expected = values[i, :1] + values[j:j + 1, 1:]
        assert (y[i:i + 1] + x[j:j + 1, 1:]).tolist() == expected.tolist()


ARRAYS: dict[str, Callable[[], Array]] = {
    "in a row": lambda: DATA.copy(), "of other bytes": lambda: DATA.astype(">f4"),
    "transposed": lambda: DATA.T.copy().T, "with gaps": lambda: np.repeat(DATA, 2, 1)[:, ::2]}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_part_of_shared_memory_is_what_others_have_written_there(name: str) -> None:
    array = ARRAYS[name]()
    x = lt.from_numpy(array)
    for step in range(12):
        row, own = x[step % 3, 1:], array[step % 3, 1:]
        before, values = row * 2, own * 2
        array += 1
        after = row * 2
        np.testing.assert_array_equal(row.numpy(), own)
        row += 0.5
        assert after.tolist() == (own * 2 - 1).tolist() and before.tolist() == values.tolist()
        np.testing.assert_array_equal(x.numpy(), array)
        np.testing.assert_array_equal((x + row.sum()).numpy(), array + own.sum())


def test_a_part_of_shared_memory_is_read_without_a_look_at_the_rest(
        monkeypatch: pytest.MonkeyPatch) -> None:
    array = DATA.copy()
    x = lt.from_numpy(array)

    def refused(*_: object) -> bool:
        raise AssertionError("all of it is compared")
    monkeypatch.setattr(SharedMemory, "holds", refused)
    for step in range(6):
        row = x[step % 3]
        assert row.tolist() == array[step % 3].tolist()
        assert (row + 1).sum().item() == (array[step % 3] + 1).sum()


@pytest.mark.parametrize("shown", [lambda x, i: x[:, i], lambda x, i: x[i]],
                         ids=["columns", "rows"])
def test_parts_that_vary_compile_nothing_anywhere(shown: Callable[[Any, int], Any]) -> None:
    lookup.forget()
    values = np.arange(60, dtype=np.float32).reshape(12, 5)
    x = lt.tensor(values)
    for step in range(12):
        i = step // 2 if step < 8 else 4  # which has not been there
        part, own = shown(x, i), shown(values, i)
        with counted_plans() as made:
            assert (part * 2).tolist() == (own * 2).tolist()
        assert step < 8 or not made


def test_parts_of_any_size_that_begin_elsewhere_in_each_step_are_what_is_there() -> None:
    values = np.arange(120_000, dtype=np.float32).reshape(6, 20_000) % 1000
    x = lt.tensor(values)
    for step in range(12):
        i = (step * 5 + step // 6) % 5
        for shown in (lambda x, i=i: x[i], lambda x, i=i: x[i:i + 2],
                      lambda x, i=i: x[1:, i:i + 4_000], lambda x, i=i: x.T[16 * i],
                      lambda x, i=i: x[:, :160].T.reshape(40, 24)[i]):
            part, own = shown(x), shown(values)
            assert ((part * 2).reshape(-1)[::97].numpy() == (own * 2).reshape(-1)[::97]).all()
        x *= 0.5
        values *= 0.5
        x.realize()


LISTED: dict[str, Callable[[list[int]], Any]] = {
    "a list": lambda i: i, "an array": np.array, "an array of few bytes": lambda i: np.array(
        i, np.int8), "of two axes": lambda i: np.array([i, i]), "of both axes": lambda i: (i, i),
    "beside a slice": lambda i: (slice(1, None), np.array(i)), "a mask": lambda i: [
        j in i for j in range(4)]}


@pytest.mark.parametrize("name", LISTED)
def test_places_that_are_listed_are_looked_up_for_any_numbers(name: str) -> None:
    lookup.forget()
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    x = lt.tensor(values)
    for step in range(8):
        index = LISTED[name]([step % 4, (3 * step + 1) % 4, -1 - step % 3])
        with counted_plans() as made:
            found = (x[index] * 2).sum(0).tolist()
        assert found == (values[index] * 2).sum(0).tolist()
        with counted_plans() as made_to_write:
            x[index] = values[index] = step
            assert x.tolist() == values.tolist()
        assert name == "a mask" or step < 4 or not made + made_to_write
    for wrong in ([0, 4], np.array([-5, 1])):
        with pytest.raises(lt.IndexingError, match="outside axis 0"):
            x[wrong].tolist()


@pytest.mark.parametrize("shown", [
    lambda x, i: x[i][2:4], lambda x, i: x[i:i + 2].T, lambda x, i: x[i:i + 2][:, 1],
    lambda x, i: x[i][1], lambda x, i: x.T[1:][:, i].reshape(2, -1)])
def test_views_of_parts_that_vary_compile_nothing(shown: Callable[[Any, int], Any]) -> None:
    lookup.forget()
    values = np.arange(72, dtype=np.float32).reshape(12, 6)[:, :5]
    x = lt.tensor(values)
    for step in range(10):
        part, own = shown(x, step), shown(values, step)
        with counted_plans() as made:
            assert (part + 1).tolist() == (own + 1).tolist()
        assert step < 4 or not made


def test_a_class_that_takes_operations_over_is_asked_for_its_own_parts_alone() -> None:
    asked: list[str] = []

    class Asked(lt.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x, own = lt.tensor(DATA), lt.tensor(DATA).as_subclass(Asked)
    assert type(x[1]._value) is Cut and not asked
    assert type(own[1]) is Asked and own[[0, 1], 2].tolist() == [2, 6]
    place = lt.tensor([1]).as_subclass(Asked)
    assert x[np.array([0]), place].tolist() == [1] and asked.count("__getitem__") == 3


@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 4, 3)])
def test_what_masks_of_as_many_elements_show_is_recorded_once(
        shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x, rng = lt.arange(72.0).reshape(6, 4, 3).realize(), np.random.default_rng(0)
    weight, selected, calls = lt.ones(3, requires_grad=True), lt.Tensor._selected, []
    monkeypatch.setattr(lt.Tensor, "_selected", lambda *args: calls.append(args) or selected(*args))
    for step in range(6):
        flat = np.zeros(math.prod(shape), bool)
        flat[rng.permutation(flat.size)[:4]] = True
        mask = flat.reshape(shape)
        shown = (x * weight if len(shape) < 3 else x)[lt.tensor(mask)]
        assert np.array_equal(shown.numpy(), x.numpy()[mask])
        if step == 3:
            calls.clear()
    assert not calls


def test_a_mask_that_does_not_fit_is_an_error_as_ever() -> None:
    x = lt.zeros(3, 2).realize()
    for mask in (lt.ones(2, dtype=lt.bool_), lt.ones(3, 2, 1, dtype=lt.bool_)):
        with pytest.raises(lt.IndexingError, match="shape"):
            x[mask]
    assert x[lt.zeros(3, dtype=lt.bool_)].shape == (0, 2)
