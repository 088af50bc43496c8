"""Whose line a node belongs to."""
from __future__ import annotations

from threading import Thread

from lazyten.location import Location, attribute_to, user_location

THERE = Location("there.py", 7)


def test_the_line_is_the_callers_unless_it_is_set() -> None:
    here = user_location()
    assert here is not None and here.file == __file__
    with attribute_to(THERE):
        assert user_location() == THERE
        with attribute_to(None):
            assert user_location() == THERE
    assert user_location() != THERE


def test_one_thread_does_not_set_the_line_of_another() -> None:
    seen: list[Location | None] = []
    with attribute_to(THERE):
        thread = Thread(target=lambda: seen.append(user_location()))
        thread.start()
        thread.join()
    assert seen != [THERE] and len(seen) == 1
