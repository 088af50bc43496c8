"""The cache of what is likely to come again."""
import gc
from collections.abc import Iterator

import pytest

from lazyten.support.remembered import Remembered


def test_what_came_again_stays_and_the_older_half_of_the_rest_goes() -> None:
    cache = Remembered[int](limit=4, fresh=10)
    for n in range(10):
        cache.add(n, n)
    assert cache.get(3) == 3
    for n in range(10, 12):
        cache.add(n, n)
    assert [n for n in range(12) if cache.get(n) is not None] == [3, 7, 8, 9, 10, 11]


def test_a_key_that_is_added_again_weighs_once() -> None:
    cache = Remembered[int](limit=4, fresh=10)
    for _ in range(100):
        cache.add("one", 1, weight=5)
    cache.add("other", 2, weight=5)
    assert cache.get("one") == 1
    assert cache.get("other") == 2


@pytest.fixture
def collecting() -> Iterator[None]:
    """Memory is collected at nearly each object that is made."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


def test_others_add_and_drop_wherever_memory_is_collected(collecting: None) -> None:
    cache = Remembered[int](limit=8, fresh=8)
    added = 0

    def another(phase: str, _: object) -> None:
        nonlocal added
        if phase == "stop":
            added += 1
            cache.add(("another", added), added)
            cache.drop(("another", added - 1))
            if added % 2:
                cache.get(("another", added))
    gc.callbacks.append(another)
    try:
        for n in range(200):
            cache.add((n,), n)
            cache.get((n - 1,))
    finally:
        gc.callbacks.remove(another)
    assert added
    assert len(cache) <= 8 + 8 + 1
