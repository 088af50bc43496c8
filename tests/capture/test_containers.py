"""Containers that a jitted function reads: what they hold is noticed, whatever changes it."""
from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt


class Shown(tuple[Any, ...]):
    """A tuple that shows what a list has."""

    def __iter__(self) -> Any:
        return iter(SHOWN)


SHOWN = [2.0, 3.0]


class Copied(dict[str, Any]):
    """A dict whose values are given as a list."""

    def values(self) -> Any:
        return [*super().values()]


def moved(some: list[Any], others: list[Any]) -> None:
    """The last of one list becomes the first of another, as objects in a row are the same then."""
    others.insert(0, some.pop())


def records() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Containers that functions read, and what changes them after calls that found them as they
    were."""
    both, inner, arrays = [[2.0, 3.0], [5.0]], {"k": [2.0]}, {"a": np.ones(2)}
    part: Any = functools.partial(lambda x, k: x * k, k=[2.0])
    own, double = Shown([1.0]), {"f": lambda x: x * 2}
    counted = collections.defaultdict(list, {"k": [2.0]})
    tuples, copied = ([2.0], ([3.0],)), Copied(k=2.0)
    return {
        "moved": (lambda x: x * 9 * len(both[0]) + len(both[1]), lambda: moved(*both)),
        "inner": (lambda x: x * inner["k"][0], lambda: inner["k"].__setitem__(0, 7.0)),
        "another key": (lambda x: x * len(inner["k"]) + ("z" in inner),
                        lambda: inner.__setitem__("z", [])),
        "array": (lambda x: x * float(arrays["a"].sum()), lambda: arrays["a"].__setitem__(0, 5.0)),
        "partial": (lambda x: part(x) if isinstance(part.keywords["k"], float)
                    else x * part.keywords["k"][0], lambda: part.keywords["k"].__setitem__(0, 4.0)),
        "partial's keywords": (lambda x: x * len(part.keywords),
                               lambda: part.keywords.__setitem__("more", 1)),
        "own items": (lambda x: x * next(iter(own)), lambda: SHOWN.insert(0, 9.0)),
        "functions": (lambda x: double["f"](x), lambda: double.__setitem__("f", lambda x: x * 3)),
        "default": (lambda x: x * counted["k"][0], lambda: counted["k"].__setitem__(0, 8.0)),
        "values as a list": (lambda x: x * copied["k"], lambda: copied.__setitem__("k", 3.0)),
        "in tuples": (lambda x: x * tuples[1][0][0], lambda: tuples[1][0].__setitem__(0, 6.0)),
    }


@pytest.mark.parametrize("name", sorted(records()))
def test_what_containers_hold_is_noticed_after_calls_that_found_it_the_same(name: str) -> None:
    function, change = records()[name]
    call = lt.jit(function)
    for _ in range(4):
        assert call(lt.ones(2)).tolist() == function(lt.ones(2)).tolist()
    before = function(lt.ones(2)).tolist()
    change()
    assert function(lt.ones(2)).tolist() != before
    for _ in range(3):
        assert call(lt.ones(2)).tolist() == function(lt.ones(2)).tolist()


def test_a_list_that_is_made_anew_with_the_same_items_is_no_other_trace() -> None:
    held: dict[str, Any] = {"k": [2.0, [3.0]]}

    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        return x * held["k"][0] * held["k"][1][0]

    for _ in range(4):
        held["k"] = [2.0, [3.0]]
        assert call(lt.ones(2)).tolist() == [6, 6]
    assert call.cache_size == 1
    held["k"] = [2.0, [4.0]]
    assert call(lt.ones(2)).tolist() == [8, 8]


class Busy(np.ndarray[Any, Any]):
    """An array of a queue that another thread changes, and changes back, as this one looks on."""

    queue: collections.deque[Any]

    def tobytes(self, order: Any = "C") -> bytes:
        self.queue.append(self.queue.pop())
        return super().tobytes(order)


class Looked:
    """The same of an object whose attributes are looked at."""

    queue: collections.deque[Any]

    @property
    def __wrapped__(self) -> None:
        self.queue.append(self.queue.pop())


def test_a_container_that_another_thread_changes_meanwhile_is_looked_at_as_it_was() -> None:
    queue = collections.deque[Any]([np.ones(2).view(Busy), Looked(), 3.0])
    Busy.queue = Looked.queue = queue
    call = lt.jit(lambda x: x * queue[2])
    for _ in range(3):
        assert call(lt.ones(2)).tolist() == [3, 3]
