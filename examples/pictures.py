"""Draw how a network learned and what it says about the digits it was tested with.

In: figures of each epoch, the test digits and the labels predicted for them. Out: one PNG file.
Called by examples/lenet.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from curves import draw_curves, draw_guess, save, wrong_first
from digits import Digits
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

ROWS, COLUMNS = 4, 12


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
    left, right = halves[0, 0].subplots(1, 2)
    draw_curves(left, {"training loss": [epoch.loss for epoch in history]},
                title="Loss", ylabel="cross-entropy (nats)")
    draw_curves(right, {"training accuracy": [100 * epoch.train_accuracy for epoch in history],
                        "test accuracy": [100 * epoch.test_accuracy for epoch in history]},
                title="Accuracy", ylabel="right answers (%)")
    _draw_digits(halves[1, 0], test, predicted)
    save(figure, path)


def _draw_digits(figure: SubFigure, test: Digits, predicted: NDArray[np.int64]) -> None:
    wrong = int((predicted != test.labels).sum())
    figure.suptitle(f"Test digits and predictions: {wrong} wrong of {len(test):,}, marked in red")
    chosen = wrong_first(test.labels, predicted, ROWS * COLUMNS)
    grid = figure.subplots(ROWS, COLUMNS).flat
    for axes, i in zip(grid, chosen, strict=False):
        draw_guess(axes, test.images[i, 0], str(predicted[i]), str(test.labels[i]))
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[])
