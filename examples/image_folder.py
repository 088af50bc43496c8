"""Images in folders, a folder for each class, as a data set.

In: a folder such as flowers/ with rose/1.jpg and tulip/2.jpg. Out: images (3, size, size), float32
in 0..1, and labels. Every way in which a folder can be wrong is a DataError. Called by resnet.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from digits import load_embedded
from numpy.typing import NDArray
from options import DataError
from PIL import Image, ImageOps, UnidentifiedImageError

from lazyten.utils.data import Dataset

ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
FEWEST = 5  # images of a class, so that one is held out
FORM = "expected a folder for each class, with its images inside: DIR/rose/1.jpg, DIR/tulip/2.jpg"


class ImageFolder(Dataset):
    """Item i is an image (3, size, size) and the number of its class, in the order of the names.

    Images are cut to squares from the middle and scaled; each is read when it is asked for, so
    that a DataLoader's workers share the work. Raises DataError if the folder has fewer than two
    classes, a class too few images, or a file that says it is an image is none.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self.classes, self.files = _classes(folder)
        self.labels = np.array([self.classes.index(file.parent.name) for file in self.files],
                               np.int64)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[NDArray[np.float32], int]:
        return read_image(self.files[i], self.size), int(self.labels[i])


class Augmented(Dataset):
    """Some images of a data set, each moved by up to `shift` pixels and mirrored, at random."""

    def __init__(self, data: ImageFolder, positions: Sequence[int], shift: int, mirror: bool,
                 seed: int) -> None:
        self.data, self.positions, self.shift, self.mirror = data, positions, shift, mirror
        self.random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, i: int) -> tuple[NDArray[np.float32], int]:
        image, label = self.data[self.positions[i]]
        padded = np.pad(image, ((0, 0), *[(self.shift, self.shift)] * 2), mode="edge")
        down, right = self.random.integers(0, 2 * self.shift + 1, 2)
        image = padded[:, down:down + self.data.size, right:right + self.data.size]
        if self.mirror and self.random.random() < 0.5:
            image = image[:, :, ::-1]
        return np.ascontiguousarray(image), label


def read_image(path: Path, size: int) -> NDArray[np.float32]:
    """(3, size, size), the square in the middle of the image, scaled."""
    try:
        with Image.open(path) as file:
            image = ImageOps.fit(file.convert("RGB"), (size, size))
    except (OSError, UnidentifiedImageError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be read as an image: {error}: repair it, or take it out "
                        f"of the folder") from error
    return np.ascontiguousarray(np.asarray(image, np.float32).transpose(2, 0, 1) / 255)


def write_digits(folder: Path) -> None:
    """The digits that come with the examples as folder/3/0001.png and so on."""
    for kind, digits in zip(("learned", "tested"), load_embedded(), strict=True):
        for i, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
            home = folder / str(label)
            home.mkdir(parents=True, exist_ok=True)
            ink = np.round(255 * image[0]).astype(np.uint8)
            Image.fromarray(255 - ink).save(home / f"{kind}-{i:04}.png")


def _classes(folder: Path) -> tuple[list[str], list[Path]]:
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder: {FORM}")
    files = [file for file in sorted(folder.glob("*/*")) if file.suffix.lower() in ENDINGS]
    classes = sorted({file.parent.name for file in files})
    if len(classes) < 2:
        raise DataError(f"{folder}: found images in {len(classes)} of its folders: {FORM}")
    counts = {name: sum(file.parent.name == name for file in files) for name in classes}
    few = [name for name, count in counts.items() if count < FEWEST]
    if few:
        raise DataError(f"{folder / few[0]}: has {counts[few[0]]} images: {FEWEST} or more of a "
                        f"class are needed, as one in five is held out")
    return classes, files
