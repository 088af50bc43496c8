"""examples/digits.py: the digits that come with the example, their split, scaling and shifting."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from digits import EMBEDDED, enlarge, load_embedded, shifted, split

COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # as UCI's description lists them


def test_the_file_holds_the_1797_digits_of_the_uci_test_set() -> None:
    with np.load(EMBEDDED) as file:
        images, labels = file["images"], file["labels"]
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == COUNTS
    assert images[0].tolist()[0] == [0, 0, 5, 13, 9, 1, 0, 0]  # first line of optdigits.tes
    assert EMBEDDED.stat().st_size < 64 * 1024


def test_loaded_digits_are_lenet_inputs_between_zero_and_one() -> None:
    train, test = load_embedded()
    assert (len(train), len(test)) == (1437, 360)
    for digits in (train, test):
        assert digits.images.shape == (len(digits), 1, 32, 32)
        assert digits.images.dtype == np.float32 and digits.labels.dtype == np.int64
        assert digits.images.min() == 0 and 0.95 < digits.images.max() <= 1
    assert np.bincount(np.concatenate([train.labels, test.labels])).tolist() == COUNTS


def test_images_keep_their_own_labels() -> None:
    """Halving twice by means undoes most of the enlargement: each digit is nearest to itself."""
    with np.load(EMBEDDED) as file:
        pixels, labels = file["images"].reshape(1797, 64) / 16, file["labels"]
    test = load_embedded()[1]
    small = test.images.reshape(-1, 8, 4, 8, 4).mean((2, 4)).reshape(-1, 64)
    nearest = ((small[:, None] - pixels) ** 2).sum(2).argmin(1)
    assert_array_equal(labels[nearest], test.labels)


@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=10), seed=st.integers(0, 99))
def test_a_split_is_disjoint_complete_and_even_over_classes(counts: list[int], seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    train, test = split(labels, seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    held_out = np.bincount(labels[test], minlength=len(counts))
    assert np.all(np.abs(held_out - np.array(counts) / 5) < 1)


def test_a_split_depends_only_on_its_seed() -> None:
    labels = np.arange(1000) % 10
    assert_array_equal(split(labels, 3)[1], split(labels, 3)[1])
    assert set(split(labels, 3)[1]) != set(split(labels, 4)[1])


@pytest.mark.parametrize(("height", "width", "size"), [(8, 8, 32), (8, 5, 32), (4, 4, 4)])
def test_enlarging_is_numpys_interpolation_along_both_axes(
        height: int, width: int, size: int) -> None:
    images = np.random.default_rng(0).random((3, height, width), np.float32)
    expected = images
    for axis, old in ((1, height), (2, width)):  # pixel i of n has its centre at (i + 0.5) / n
        expected = np.apply_along_axis(
            lambda line, old=old: np.interp((np.arange(size) + 0.5) / size,
                                            (np.arange(old) + 0.5) / old, line), axis, expected)
    assert_allclose(enlarge(images, size), expected, atol=1e-6)


@given(row=st.integers(2, 5), column=st.integers(2, 6), most=st.integers(0, 2))
def test_shifting_moves_each_image_by_at_most_the_given_pixels(
        row: int, column: int, most: int) -> None:
    images = np.zeros((200, 1, 8, 9), np.float32)
    images[:, 0, row, column] = np.arange(1, 201)
    moved = shifted(images, most, np.random.default_rng(0))
    assert moved.shape == images.shape and moved.dtype == np.float32
    which, _, rows, columns = np.nonzero(moved)
    assert_array_equal(moved[which, 0, rows, columns], np.arange(1, 201))
    moves = {(r - row, c - column) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)}
    reach = range(-most, most + 1)
    assert moves == {(down, right) for down in reach for right in reach}


def test_paper_comes_in_where_an_image_moves_away() -> None:
    moved = shifted(np.ones((200, 1, 8, 8), np.float32), 2, np.random.default_rng(0))
    assert set(np.unique(moved)) == {0, 1}
    assert moved[:, :, 2:6, 2:6].all()
