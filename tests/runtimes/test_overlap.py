"""Two steps of a build at once: order, errors, and that Python switches threads as before."""
from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from lazyten.runtimes.overlap import SWITCH_SECONDS, overlapped

ITEMS = list(range(20))


@pytest.fixture(autouse=True)
def _interval_is_restored() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    assert sys.getswitchinterval() == before


def test_both_steps_of_every_item_in_order() -> None:
    seen: list[tuple[str, int]] = []

    def first(item: int) -> int:
        seen.append(("first", item))
        return 10 * item

    def second(made: int) -> str:
        seen.append(("second", made // 10))
        return str(made)
    assert overlapped(first, second, ITEMS) == [(10 * i, str(10 * i)) for i in ITEMS]
    for step in ("first", "second"):
        assert [item for name, item in seen if name == step] == ITEMS
    assert all(seen.index(("first", i)) < seen.index(("second", i)) for i in ITEMS)


def test_the_second_step_runs_beside_the_first_of_later_items() -> None:
    begun = threading.Event()

    def first(item: int) -> int:
        if item == 1:
            assert begun.wait(60), "the second step of item 0 has not begun"
            assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        return item
    overlapped(first, lambda made: begun.set(), [0, 1])


@pytest.mark.parametrize("usual", [True, False])
def test_garbage_is_collected_after_a_build_if_it_was_before(usual: bool) -> None:
    seen = []
    was = gc.isenabled()
    (gc.enable if usual else gc.disable)()
    try:
        overlapped(lambda i: i, lambda i: seen.append(gc.isenabled()), [0, 1])
        with pytest.raises(ZeroDivisionError):
            overlapped(lambda i: i, lambda i: 1 // 0, [0, 1])
        assert seen == [False, False]
        assert gc.isenabled() is usual
    finally:
        (gc.enable if was else gc.disable)()


def test_one_item_needs_no_thread() -> None:
    threads = []
    overlapped(lambda i: i, lambda i: threads.append(threading.current_thread()), [7])
    assert threads == [threading.current_thread()]
    assert overlapped(lambda i: i, lambda i: i, []) == []


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt()])
def test_an_error_of_the_first_step_ends_both(error: BaseException) -> None:
    done: list[int] = []

    def first(item: int) -> int:
        if item == 5:
            raise error
        return item
    with pytest.raises(type(error)):
        overlapped(first, done.append, ITEMS)
    assert done == ITEMS[:len(done)] and len(done) <= 5
    assert not [t for t in threading.enumerate() if "lazyten-compile" in t.name]


def test_an_error_of_the_second_step_is_raised() -> None:
    def second(made: int) -> int:
        return 1 // (made - 5)
    with pytest.raises(ZeroDivisionError):
        overlapped(lambda i: i, second, ITEMS)
    assert not [t for t in threading.enumerate() if "lazyten-compile" in t.name]


def test_builds_in_several_threads_share_the_interval() -> None:
    """The one that ends first does not restore it for the others, nor the last one a short one."""
    both, results = threading.Barrier(2), []

    def build() -> None:
        def first(item: int) -> int:
            if item == 1:
                both.wait(60)
            return item
        results.append(overlapped(first, lambda made: -made, ITEMS[:2]))
    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == 2 * [[(0, 0), (1, -1)]]
