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

import numpy as np
from numpy.typing import NDArray

UNSIGNED_BYTE = 0x08  # the only element type that MNIST uses
IMAGE_SHAPE = (28, 28)
CLASSES = 10
REMEDY = "download the file again"


class IdxError(Exception):
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
    data = _contents(path)
    magic = bytes([0, 0, UNSIGNED_BYTE, axes])
    header = len(magic) + 4 * axes
    if data[:4] != magic:
        raise IdxError(f"{path}: expected an IDX file of unsigned bytes with {axes} axes, which "
                       f"starts with the bytes {magic.hex(' ')}; found "
                       f"{data[:4].hex(' ') or 'an empty file'}: check that images and labels are "
                       f"not swapped, or {REMEDY}")
    if len(data) < header:
        raise IdxError(f"{path}: expected a header of {header} bytes, found {len(data)} bytes: "
                       f"the file is cut short; {REMEDY}")
    shape = struct.unpack(f">{axes}I", data[4:header])
    expected, found = math.prod(shape), len(data) - header
    if found != expected:
        fault = "cut short" if found < expected else "too long"
        raise IdxError(f"{path}: its header says shape {shape}, so expected {expected} bytes after "
                       f"it, found {found}: the file is {fault}; {REMEDY}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def _contents(path: Path) -> bytes:
    """All bytes of a file, unpacked if its name ends with .gz."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IdxError(f"{path}: cannot be read: {error.strerror or error}") from error
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise IdxError(f"{path}: expected gzip data, found that it does not unpack ({error}): "
                       f"{REMEDY}, or unpack it yourself if it is not compressed") from error
