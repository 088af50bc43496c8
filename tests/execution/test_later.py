"""A sequence that is worked out at the first look."""
from __future__ import annotations

from lazyten.support.later import Later


def test_it_is_made_once_and_when_somebody_looks() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return [4, 5, 6]
    later = Later(make)
    assert not made
    assert list(later) == [4, 5, 6] and len(later) == 3 and later[1:] == [5, 6] and later[-1] == 6
    assert 5 in later and len(made) == 1
