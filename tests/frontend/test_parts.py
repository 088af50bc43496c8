"""Parts of tensors: boxes, and rows of elements as boxes."""
from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.frontend.parts import Box, Part, part_like, placement_of, row, sliced, whole

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(shape=SHAPES, size=st.integers(1, 7))
def test_rows_are_boxes_that_have_each_element_once(shape: tuple[int, ...], size: int) -> None:
    values = np.arange(math.prod(shape)).reshape(shape)
    length = -(-values.size // size)
    for rank in range(size):
        own = values.reshape(-1)[rank * length:(rank + 1) * length]
        placement = row(shape, rank, size)
        assert len(placement.pieces) <= max(1, 2 * len(shape) - 1)
        assert sum(piece.box.count for piece in placement.pieces) == len(own)
        inside = Box((0,) * len(shape), shape)
        for piece in placement.pieces:
            flat = own[piece.start:piece.start + piece.box.count]
            np.testing.assert_array_equal(flat.reshape(piece.box.sizes),
                                          values[piece.box.slices(inside)])


@given(data=st.data(), shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple))
def test_what_two_boxes_share_is_found_in_both(data: st.DataObject, shape: tuple[int, ...]) -> None:
    def drawn() -> Box:
        starts = [data.draw(st.integers(0, n - 1)) for n in shape]
        return Box(tuple(starts), tuple(data.draw(st.integers(1, n - a))
                                        for a, n in zip(starts, shape, strict=True)))
    a, b, values = drawn(), drawn(), np.arange(math.prod(shape)).reshape(shape)
    inside, shared = Box((0,) * len(shape), shape), a.shared(b)
    arrays = [values[box.slices(inside)] for box in (a, b)]
    both = np.intersect1d(*(array.reshape(-1) for array in arrays))
    if shared is None:
        assert not both.size
        return
    for box, array in zip((a, b), arrays, strict=True):
        np.testing.assert_array_equal(array[shared.slices(box)].reshape(-1), both)


def test_a_part_shares_memory_and_says_of_what_it_is_one() -> None:
    x = lt.zeros(2, 3)
    part = Part(x, sliced((4, 3), Box((2, 0), (2, 3))))
    x += 1
    assert part.tolist() == [[1.0] * 3] * 2 and placement_of(part).whole_shape == (4, 3)
    assert placement_of(x) == whole((2, 3)) and part_like(x, lt.zeros(2, 3)) is x
    assert type(part + 1) is lt.Tensor


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_state_knows_its_parts(copied: object) -> None:
    state = {"x": Part(lt.ones(2), row((3,), 1, 2))}
    found = copied(state)  # type: ignore[operator]
    assert placement_of(found["x"]) == row((3,), 1, 2)
