"""Elements of views that begin at another place each time (frontend/recorded/regions.py)."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.frontend.recorded.regions import elements, in_memory
from lazyten.storage.device import executor
from lazyten.storage.storage import Piece

SPANS = [slice(None), slice(1, 3), slice(2, 3), 1, slice(0, 1)]


@pytest.mark.parametrize("shape", [(16, 4, 4), (4, 1, 16), (3, 5), (64,), (4, 4, 0)])
def test_elements_of_a_part_are_those_that_numpy_shows(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = lt.tensor(values, device="cpu").realize()
    for index in itertools.product(SPANS, repeat=len(shape)):
        try:
            expected = values[index]
        except IndexError:
            continue
        for view, shown in ((x[index], expected), (x[index].T, expected.T)):
            whole: Any = in_memory(view)
            found = elements(view, whole)
            if found is None:
                assert shown.size == 0
                continue
            assert np.array_equal(found.numpy(), shown.reshape(-1))
            first = shown.__array_interface__["data"][0] - values.__array_interface__["data"][0]
            is_row = shown.flags.c_contiguous and first % executor("cpu").alignment == 0
            assert isinstance(found, Piece) is is_row or shown.size < 2
