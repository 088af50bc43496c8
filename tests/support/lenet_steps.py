"""LeNet-5 on random images, for tests that compare training on two devices or in two libraries."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt

Array = np.ndarray[Any, Any]


def lenet(nn: Any) -> Any:
    """LeNet-5 of a library's `nn`: 28 x 28 images to 10 logits."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10))


def weights(seed: int = 0) -> dict[str, Array]:
    """Initial values for `lenet`, by name."""
    lt.manual_seed(seed)
    return {n: p.numpy() for n, p in lenet(lt.nn).state_dict().items()}


def batches(count: int, size: int) -> tuple[Array, Array]:
    """`count` batches of random images and labels."""
    rng = np.random.default_rng(1)
    images = rng.normal(size=(count, size, 1, 28, 28)).astype(np.float32)
    return images, rng.integers(0, 10, (count, size))


def train(library: Any, model: Any, device: str, images: Array, labels: Array) -> list[float]:
    """A step of SGD with momentum a batch; gives the losses."""
    optimizer = library.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for x, y in zip(images, labels, strict=True):
        optimizer.zero_grad()
        loss = library.nn.CrossEntropyLoss()(model(library.tensor(x, device=device)),
                                             library.tensor(y, device=device))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.item()))
    return losses


def load(model: lt.nn.Sequential, device: str, values: dict[str, Array]) -> lt.nn.Sequential:
    """Our model on a device with these values."""
    model.to(device)
    model.load_state_dict({n: lt.tensor(v, device=device) for n, v in values.items()})
    return model
