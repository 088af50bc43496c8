"""Handwritten digits as LeNet wants them: (n, 1, 32, 32) float32 images in 0..1 and int64 labels.

In: the 1,797 digits of 8x8 pixels in data/digits.npz, or a folder with MNIST's IDX files. Out: one
set to train on and one to test with. Called by examples/lenet.py.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from idx import read_images_and_labels
from numpy.typing import NDArray

EMBEDDED = Path(__file__).parent / "data" / "digits.npz"
BRIGHTEST = 16  # an embedded pixel counts the dark ones among 4x4 of the original scan
SIZE = 32  # LeNet-5's input
TEST_EVERY = 5  # one digit in five is held out


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 32, 32) between 0, paper, and 1, ink; and their labels (n,)."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def load_embedded() -> tuple[Digits, Digits]:
    """The digits that come with this example: 1,437 to train on, 360 to test with."""
    with np.load(EMBEDDED) as file:
        pixels, labels = file["images"], file["labels"].astype(np.int64)
    images = enlarge(pixels.astype(np.float32) / BRIGHTEST, SIZE)[:, None]
    train, test = split(labels)
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])


def load_mnist(folder: Path) -> tuple[Digits, Digits]:
    """MNIST's 60,000 and 10,000 digits. Raises IdxError if a file is missing or damaged."""
    train, test = (_padded(*read_images_and_labels(folder, name)) for name in ("train", "t10k"))
    return train, test


def split(labels: NDArray[np.int64], seed: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions to train on and to test with: disjoint, every class in the same proportion.

    Shuffled, then sorted by class, every fifth position falls evenly on all classes.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    held_out = np.arange(len(labels)) % TEST_EVERY == 0
    return order[~held_out], order[held_out]


def enlarge(images: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """(n, h, w) -> (n, size, size) by bilinear interpolation between pixel centres."""
    rows, columns = (_interpolation(extent, size) for extent in images.shape[1:])
    enlarged: NDArray[np.float32] = np.matmul(rows @ images, columns.T)
    return enlarged


def shifted(images: NDArray[np.float32], most: int,
            random: np.random.Generator) -> NDArray[np.float32]:
    """(n, 1, h, w): each image moved by up to `most` pixels each way, with paper coming in."""
    count, _, height, width = images.shape
    padded = np.pad(images[:, 0], ((0, 0), (most, most), (most, most)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
    down, right = random.integers(0, 2 * most + 1, (2, count))
    moved: NDArray[np.float32] = windows[np.arange(count), down, right][:, None]
    return moved


def _interpolation(old: int, new: int) -> NDArray[np.float32]:
    """The (new, old) matrix whose row i weighs the old pixels nearest to new pixel i."""
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    distance = np.abs(centres.clip(0, old - 1)[:, None] - np.arange(old))
    weights: NDArray[np.float32] = (1 - distance).clip(0).astype(np.float32)
    return weights


def _padded(pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> Digits:
    """MNIST's 28x28 pixels of 0..255, with paper around them."""
    height, width = ((SIZE - extent) // 2 for extent in pixels.shape[1:])
    around = ((0, 0), (height, height), (width, width))
    images: NDArray[np.float32] = np.divide(np.pad(pixels, around), 255, dtype=np.float32)
    return Digits(images[:, None], labels)
