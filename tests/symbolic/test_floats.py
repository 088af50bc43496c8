"""What may become of a kernel's floats at a size that nobody has made code for."""
from __future__ import annotations

import math

import pytest

from lazyten.symbolic.formulas import Floats, goes_on


@pytest.mark.parametrize(("seen", "now", "expected"), [
    ((0.5, 0.5, 0.5), 0.5, True),
    ((0.5, 0.5, 0.5), 0.25, False),
    ((0.0, 0.0, 0.0), -0.0, False),
    ((math.nan, math.nan), math.nan, True),
    ((0.1, 0.2, 0.3), 0.7, True),
    ((0.1, 0.2, 0.3), -0.7, False),
    ((0.1, 0.2, 0.3), 0.25, False),  # a division by it may be a product
    ((0.1, 0.2, 0.3), 3.0, False),
    ((0.1, 0.2, 0.3), 0.0, False),
    ((0.1, 0.2, 0.3), math.inf, False),
    ((0.1, 0.5, 0.0), 1.0, True),  # one code served all kinds
])
def test_a_floatgoes_on_as_it_was_at_all_samples(seen: tuple[float, ...], now: float,
                                                  expected: bool) -> None:
    assert goes_on(seen, now) is expected


def test_a_float_is_one_of_the_graphs_where_these_agree() -> None:
    graphs = [(0.1, 0.5, 0.1), (0.2, 0.5, 0.2), (0.3, 0.5, 0.3)]
    floats = Floats(graphs)
    column = (0.1, 0.2, 0.3)
    assert floats.value(column, (0.7, 0.5, 0.7)) == 0.7
    assert floats.value(column, (0.7, 0.5, 0.9)) is None
    assert floats.value((0.25, 0.25, 0.25), (0.7, 0.5, 0.7)) == 0.25
    assert floats.value((0.2, 0.4, 0.6), (0.7, 0.5, 0.7)) is None
    assert floats.go_on((0.7, 0.5, 0.9)) and not floats.go_on((0.7, 0.6, 0.7))
