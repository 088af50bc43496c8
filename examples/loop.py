"""A training loop with a progress bar, one line an epoch and the figures of it.

In: a loader of batches, a step that learns from one, and a test. Out: an `Epoch` for each pass.
Called by the examples but lenet.py, which spells its loop out.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from options import DataError
from tqdm import tqdm

import lazyten as lt
from lazyten.utils.data import DataLoader, Dataset

Item = TypeVar("Item")


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training set gave: its mean loss, and the figures of the test."""

    loss: float
    tested: Mapping[str, float]


def bar(items: Iterable[Item], title: str, unit: str = " steps") -> Iterator[Item]:
    """The items, with a bar on a terminal that goes away at the end; nothing elsewhere."""
    return iter(tqdm(items, desc=title, unit=unit, leave=False, disable=None))


def train(epochs: int, loader: DataLoader, step: Callable[..., lt.Tensor],
          test: Callable[[], Mapping[str, float]], *,
          schedulers: Sequence[lt.optim.lr_scheduler.LRScheduler] = ()) -> list[Epoch]:
    """Let `step` learn from each batch, `epochs` times, test after each, and print a line."""
    history = []
    for number in range(epochs):
        title = f"epoch {number + 1:{len(str(epochs))}}/{epochs}"
        began = time.perf_counter()
        losses = [step(*batch).item() for batch in bar(loader, title)]
        history.append(epoch := Epoch(float(np.mean(losses)), test()))
        for scheduler in schedulers:
            scheduler.step()
        tested = "  ".join(f"test {figure(*item)}" for item in epoch.tested.items())
        print(f"{title}  loss {epoch.loss:.4f}  {tested}  {time.perf_counter() - began:.2f} s",
              flush=True)
    return history


def figure(name: str, value: float) -> str:
    """A figure as it is printed: accuracies in percent."""
    return f"{name} {value:.2%}" if name == "accuracy" else f"{name} {value:.4f}"


def full_batches(data: Dataset, size: int, *, workers: int = 0) -> DataLoader:
    """Batches in a new order each time, all of one size: so a step is compiled once.

    What does not fill a batch waits for the next epoch. Raises DataError if nothing does.
    """
    if size > len(data):
        raise DataError(f"argument --batch-size: only {len(data):,} to train on")
    return DataLoader(data, batch_size=size, shuffle=True, drop_last=True, num_workers=workers,
                      persistent_workers=workers > 0)


def predict(model: Callable[[lt.Tensor], lt.Tensor], inputs: lt.Tensor,
            size: int = 256) -> NDArray[np.int64]:
    """The class that the model finds the most likely for each input (n, ...), without gradients.

    All batches have the same size, so that one compiled program serves: the last overlaps.
    """
    count = len(inputs)
    size = min(size, count)
    found = np.empty(count, np.int64)
    with lt.no_grad():
        for start in range(0, count, size):
            start = min(start, count - size)
            found[start:start + size] = model(inputs[start:start + size]).argmax(1).numpy()
    return found
