"""Draw how a network learned and what it says about the digits it was tested with.

In: figures of each epoch, the test digits and the labels predicted for them. Out: one PNG file.
Called by examples/lenet.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from digits import Digits
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

matplotlib.use("Agg")  # draws into files: needs no screen

ROWS, COLUMNS = 4, 12
RIGHT, WRONG = "#1b7837", "#c51b1b"


class Epoch(NamedTuple):
    """What one pass over the training images gave; accuracies are between 0 and 1."""

    loss: float
    train_accuracy: float
    test_accuracy: float
    images_per_second: float


def save_pictures(path: Path, history: Sequence[Epoch], test: Digits,
                  predicted: NDArray[np.int64]) -> None:
    """Learning curves above, test digits with the predicted labels below."""
    figure = Figure(figsize=(12, 9.5), layout="constrained")
    halves = figure.subfigures(2, 1, squeeze=False, height_ratios=(4, 5.5))
    _draw_curves(halves[0, 0], history)
    _draw_digits(halves[1, 0], test, predicted)
    figure.savefig(path, dpi=110)


def _draw_curves(figure: SubFigure, history: Sequence[Epoch]) -> None:
    left, right = figure.subplots(1, 2)
    epochs = range(1, len(history) + 1)
    left.plot(epochs, [epoch.loss for epoch in history], marker=".", label="training loss")
    left.set(title="Loss", xlabel="epoch", ylabel="cross-entropy (nats)")
    for label, values in (("training", [epoch.train_accuracy for epoch in history]),
                          ("test", [epoch.test_accuracy for epoch in history])):
        right.plot(epochs, 100 * np.array(values), marker=".", label=f"{label} accuracy")
    right.set(title="Accuracy", xlabel="epoch", ylabel="right answers (%)")
    for axes in (left, right):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.legend()


def _draw_digits(figure: SubFigure, test: Digits, predicted: NDArray[np.int64]) -> None:
    """The wrong ones first, as many as fit, then right ones, all in a random order."""
    wrong = predicted != test.labels
    order = np.random.default_rng(0).permutation(len(test))
    chosen = order[np.argsort(~wrong[order], kind="stable")][:ROWS * COLUMNS]
    figure.suptitle(f"Test digits and predictions: {wrong.sum()} wrong of {len(test):,}, "
                    f"marked in red")
    grid = figure.subplots(ROWS, COLUMNS).flat
    for axes, i in zip(grid, chosen, strict=False):
        colour = WRONG if wrong[i] else RIGHT
        text = f"{predicted[i]}, not {test.labels[i]}" if wrong[i] else str(predicted[i])
        axes.imshow(test.images[i, 0], cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(text, color=colour, fontsize=9)
        axes.spines[:].set(color=colour, linewidth=3 if wrong[i] else 1)
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[])
