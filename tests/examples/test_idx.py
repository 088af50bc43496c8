"""examples/idx.py: what it reads from real files, and what it says about every damaged one."""
from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from digits import load_mnist
from idx import IdxError, read, read_images_and_labels

Bytes = NDArray[np.uint8]
PLAIN, PACKED = "train-{}-idx{}-ubyte", "train-{}-idx{}-ubyte.gz"
SPELLINGS = [PLAIN, PACKED, "train-{}.idx{}-ubyte", "train-{}.idx{}-ubyte.gz"]


def idx_bytes(array: Bytes) -> bytes:
    """The bytes of an IDX file, written from the format's description."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


def write_pair(folder: Path, images: Bytes, labels: Bytes, spelling: str = PLAIN) -> None:
    for kind, array in (("images", images), ("labels", labels)):
        data = idx_bytes(array)
        path = folder / spelling.format(kind, array.ndim)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def digits(count: int) -> tuple[Bytes, Bytes]:
    random = np.random.default_rng(count)
    images = random.integers(0, 256, (count, 28, 28), np.uint8)
    return images, random.integers(0, 10, count, np.uint8)


def failure(folder: Path) -> str:
    with pytest.raises(IdxError) as caught:
        read_images_and_labels(folder, "train")
    return str(caught.value)


@given(array=hnp.arrays(np.uint8, hnp.array_shapes(max_dims=4)), packed=st.booleans())
def test_an_array_written_as_idx_reads_back_the_same(
        tmp_path_factory: pytest.TempPathFactory, array: Bytes, packed: bool) -> None:
    path = tmp_path_factory.mktemp("idx") / ("array.gz" if packed else "array")
    path.write_bytes(gzip.compress(idx_bytes(array)) if packed else idx_bytes(array))
    assert_array_equal(read(path, array.ndim), array, strict=True)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_of_the_file_names_is_found(tmp_path: Path, spelling: str) -> None:
    images, labels = digits(7)
    write_pair(tmp_path, images, labels, spelling)
    found_images, found_labels = read_images_and_labels(tmp_path, "train")
    assert_array_equal(found_images, images, strict=True)
    assert_array_equal(found_labels, labels.astype(np.int64), strict=True)


def test_mnist_is_padded_to_32_by_32_and_scaled_to_one(tmp_path: Path) -> None:
    train, test = digits(5), digits(3)
    write_pair(tmp_path, *train)
    write_pair(tmp_path, *test, spelling="t10k-{}-idx{}-ubyte")
    for loaded, (images, labels) in zip(load_mnist(tmp_path), (train, test), strict=True):
        assert loaded.images.shape == (len(images), 1, 32, 32)
        assert loaded.images.dtype == np.float32
        assert_array_equal(np.round(255 * loaded.images[:, 0, 2:30, 2:30]), images)
        assert np.count_nonzero(loaded.images) == np.count_nonzero(images)
        assert_array_equal(loaded.labels, labels)


def test_a_missing_file_is_named_in_every_spelling(tmp_path: Path) -> None:
    message = failure(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in message
    for spelling in SPELLINGS:
        assert spelling.format("images", 3) in message


@pytest.mark.parametrize("cut", [1, 784, 5 * 784, 5 * 784 + 1, 5 * 784 + 12])
def test_a_file_cut_short_is_refused_with_both_sizes(tmp_path: Path, cut: int) -> None:
    images, labels = digits(5)
    write_pair(tmp_path, images, labels)
    path = tmp_path / "train-images-idx3-ubyte"
    data = path.read_bytes()[:-cut]
    path.write_bytes(data)
    message = failure(tmp_path)
    assert str(path) in message and "cut short; download the file again" in message
    if len(data) < 16:
        assert f"expected a header of 16 bytes, found {len(data)} bytes" in message
    else:
        assert f"expected 3920 bytes after it, found {3920 - cut}" in message


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path, *digits(5))
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes() + b"\0")
    assert "expected 5 bytes after it, found 6 or more: the file is too long" in failure(tmp_path)


def test_what_unpacks_to_far_more_than_its_header_says_is_not_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = digits(5)
    write_pair(tmp_path, images, labels, PACKED)
    bomb = gzip.compress(idx_bytes(labels) + bytes(1 << 26), 1)
    (tmp_path / PACKED.format("labels", 1)).write_bytes(bomb)
    asked = []
    read_some = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda file, count=-1: asked.append(count) or (
        read_some(file, count)))
    assert "found 6 or more: the file is too long" in failure(tmp_path)
    assert min(asked) >= 0
    assert max(asked) <= images.size + 1


@pytest.mark.parametrize("packed", [False, True])
def test_a_header_that_says_more_than_is_read_is_refused(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("array.gz" if packed else "array")
    data = struct.pack(">BBBB3I", 0, 0, 8, 3, 1 << 31, 1 << 31, 1 << 31)
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(IdxError, match="more than 1,073,741,824 are not read"):
        read(path, 3)


@pytest.mark.parametrize(("start", "found"), [
    (b"\x89PNG", "89 50 4e 47"),        # another format
    (b"\x00\x00\x08\x01", "00 00 08 01"),  # labels in place of images
    (b"\x00\x00\x0d\x03", "00 00 0d 03"),  # floats
    (b"", "an empty file"),
    (b"\x00\x00", "00 00"),
])
def test_a_wrong_magic_is_shown_beside_the_right_one(
        tmp_path: Path, start: bytes, found: str) -> None:
    write_pair(tmp_path, *digits(5))
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(start + path.read_bytes()[4:] if len(start) == 4 else start)
    message = failure(tmp_path)
    assert str(path) in message and f"bytes 00 00 08 03; found {found}:" in message
    assert "download the file again" in message


@pytest.mark.parametrize("damage", ["not gzip", "cut", "checksum", "not deflate"])
def test_damaged_gzip_is_refused(tmp_path: Path, damage: str) -> None:
    write_pair(tmp_path, *digits(5), spelling=PACKED)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    data = path.read_bytes()
    path.write_bytes({"not gzip": gzip.decompress(data), "cut": data[:len(data) // 2],
                      "checksum": data[:-8] + b"\0\0\0\0" + data[-4:],
                      "not deflate": data[:10] + b"\7" + data[11:],  # after a header of 10 bytes
                      }[damage])
    message = failure(tmp_path)
    assert str(path) in message and "expected gzip data" in message
    assert "download the file again" in message


def test_unequal_counts_name_both_files_and_counts(tmp_path: Path) -> None:
    images, labels = digits(5)
    write_pair(tmp_path, images, labels[:4])
    message = failure(tmp_path)
    assert f"{tmp_path / 'train-images-idx3-ubyte'} has 5 images" in message
    assert f"{tmp_path / 'train-labels-idx1-ubyte'} has 4 labels" in message


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    images, labels = digits(5)
    write_pair(tmp_path, images[:, :, :27].copy(), labels)
    assert "expected images of shape (28, 28), found (28, 27)" in failure(tmp_path)


def test_labels_above_nine_are_refused(tmp_path: Path) -> None:
    images, labels = digits(5)
    labels[2] = 10
    write_pair(tmp_path, images, labels)
    assert "expected labels 0 to 9, found 10" in failure(tmp_path)


def test_files_without_images_are_refused(tmp_path: Path) -> None:
    write_pair(tmp_path, np.empty((0, 28, 28), np.uint8), np.empty(0, np.uint8))
    assert "expected images, found none" in failure(tmp_path)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(IdxError, match="cannot be read: Is a directory"):
        read(tmp_path, axes=3)
