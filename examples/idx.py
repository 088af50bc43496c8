"""Read IDX files, the format that MNIST's images and labels come in.

In: a file of bytes, plain or gzip. Out: a NumPy array. Every way in which a file can be wrong is an
IdxError that says which file, what was expected, what was found and what to do. Called by
examples/digits.py.

The format: two zero bytes, a byte for the element type, a byte for the number of axes, the extents
as big-endian 32-bit integers, then the elements in row-major order.
"""
from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from options import DataError

UNSIGNED_BYTE = 0x08  # the only element type that MNIST uses
IMAGE_SHAPE = (28, 28)
CLASSES = 10
LARGEST = 1 << 30
"""Bytes: twenty times MNIST's images. A small damaged file may unpack to far more."""
REMEDY = "download the file again"


class IdxError(DataError):
    """A missing or damaged IDX file, or two that do not belong together."""


def read_images_and_labels(folder: Path, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 28, 28) of 0..255 and labels (n,) of 0..9; `name` is MNIST's 'train' or 't10k'."""
    image_file = find(folder, f"{name}-images", axes=3)
    label_file = find(folder, f"{name}-labels", axes=1)
    images, labels = read(image_file, axes=3), read(label_file, axes=1)
    if len(images) != len(labels):
        raise IdxError(f"{image_file} has {len(images)} images but {label_file} has {len(labels)} "
                       f"labels: take both files from one download")
    if len(images) == 0:
        raise IdxError(f"{image_file}: expected images, found none: {REMEDY}")
    if images.shape[1:] != IMAGE_SHAPE:
        raise IdxError(f"{image_file}: expected images of shape {IMAGE_SHAPE}, found "
                       f"{images.shape[1:]}: use MNIST's files, or others made like them")
    if labels.max() >= CLASSES:
        raise IdxError(f"{label_file}: expected labels 0 to {CLASSES - 1}, found {labels.max()}: "
                       f"use MNIST's files, or others made like them")
    return images, labels.astype(np.int64)


def find(folder: Path, name: str, axes: int) -> Path:
    """The file of that name in the folder, in whichever of its four spellings is there."""
    spellings = [f"{name}{mark}idx{axes}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    for spelling in spellings:
        if (folder / spelling).is_file():
            return folder / spelling
    raise IdxError(f"{folder} has none of {', '.join(spellings)}: put MNIST's four files there, "
                   f"or name the folder that has them")


def read(path: Path, axes: int) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes with that many axes."""
    magic = bytes([0, 0, UNSIGNED_BYTE, axes])
    header = len(magic) + 4 * axes
    with _opened(path) as file:
        start = _next(file, header, path)
        if start[:4] != magic:
            raise IdxError(f"{path}: expected an IDX file of unsigned bytes with {axes} axes, "
                           f"which starts with the bytes {magic.hex(' ')}; found "
                           f"{start[:4].hex(' ') or 'an empty file'}: check that images and labels "
                           f"are not swapped, or {REMEDY}")
        if len(start) < header:
            raise IdxError(f"{path}: expected a header of {header} bytes, found {len(start)} "
                           f"bytes: the file is cut short; {REMEDY}")
        shape = struct.unpack(f">{axes}I", start[4:])
        expected = math.prod(shape)
        if expected > LARGEST:
            raise IdxError(f"{path}: its header says shape {shape}, which is {expected:,} bytes, "
                           f"and more than {LARGEST:,} are not read; {REMEDY}")
        elements = _next(file, expected + 1, path)  # what is too long need not be read to its end
    if len(elements) != expected:
        fault = "cut short" if len(elements) < expected else "too long"
        found = f"{expected + 1} or more" if len(elements) > expected else len(elements)
        raise IdxError(f"{path}: its header says shape {shape}, so expected {expected} bytes after "
                       f"it, found {found}: the file is {fault}; {REMEDY}")
    return np.frombuffer(elements, np.uint8).reshape(shape)


def _opened(path: Path) -> IO[bytes]:
    """The file, to be read as it is unpacked if its name ends with .gz."""
    try:
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise IdxError(f"{path}: cannot be read: {error.strerror or error}") from error


def _next(file: IO[bytes], count: int, path: Path) -> bytes:
    """The next bytes, as many as there are up to `count`: never more, however well they pack."""
    try:
        return file.read(count)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise IdxError(f"{path}: expected gzip data, found that it does not unpack ({error}): "
                       f"{REMEDY}, or unpack it yourself if it is not compressed") from error
    except OSError as error:
        raise IdxError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise IdxError(f"{path}: {count:,} bytes are more than there is memory for; {REMEDY}, or "
                       f"use a machine with more") from None
