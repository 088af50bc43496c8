"""What the examples' pictures share: learning curves, and files that need no screen."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

matplotlib.use("Agg")  # draws into files: needs no screen

RIGHT, WRONG = "#1b7837", "#c51b1b"


def draw_curves(axes: Axes, curves: Mapping[str, Sequence[float]], *, title: str, ylabel: str,
                xlabel: str = "epoch", x: Sequence[int] | None = None) -> None:
    """A line a name, over 1, 2, 3 and so on unless `x` gives other places."""
    for label, values in curves.items():
        axes.plot(x or range(1, len(values) + 1), values, marker=".", label=label)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(alpha=0.3)
    if len(curves) > 1:
        axes.legend()


def draw_confusion(axes: Axes, labels: NDArray[np.int64], predicted: NDArray[np.int64],
                   classes: Sequence[str]) -> None:
    """How often each class (a row) was taken for each other one (a column), counted."""
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    axes.imshow(counts / counts.sum(1, keepdims=True).clip(1), cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        dark = count > counts[row].sum() / 2
        axes.text(column, row, str(count), ha="center", va="center", fontsize=8,
                  color="white" if dark else "black")
    axes.set(title=f"Held out: {np.trace(counts):,} right of {counts.sum():,}",
             xlabel="predicted", ylabel="true")
    axes.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
    axes.set_yticks(range(len(classes)), classes)


def draw_image(axes: Axes, image: NDArray[np.float32]) -> None:
    """One image, without ticks: (height, width) of ink or (3, height, width) of light, in 0..1."""
    if image.ndim == 3:
        axes.imshow(image.transpose(1, 2, 0), vmin=0, vmax=1)
    else:
        axes.imshow(image, cmap="gray_r", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])


def draw_guess(axes: Axes, image: NDArray[np.float32], guess: str, true: str) -> None:
    """One image with what was said of it, in red and with what it is where that was wrong."""
    draw_image(axes, image)
    colour = RIGHT if guess == true else WRONG
    axes.set_title(guess if guess == true else f"{guess}, not {true}", color=colour, fontsize=9)
    axes.spines[:].set(color=colour, linewidth=1 if guess == true else 3)


def wrong_first(labels: NDArray[np.int64], predicted: NDArray[np.int64],
                count: int) -> NDArray[np.intp]:
    """Positions of `count` examples: the wrong ones, as many as fit, then right ones, at random."""
    order = np.random.default_rng(0).permutation(len(labels))
    wrong = predicted != labels
    return order[np.argsort(~wrong[order], kind="stable")][:count]


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=110)
