"""Trains LeNet-5 on one batch of noise: what `make wheel-check` runs with nothing but the wheel."""
from importlib.metadata import distributions, version
from pathlib import Path

import numpy as np

import lazyten as lt
from lazyten import nn, optim

DECLARED = {"lazyten", "numpy", "llvmlite"}
INSTALLERS = {"pip", "setuptools", "wheel"}
STEPS = 5


def check_environment() -> None:
    """Only the wheel and its declared dependencies are here, and lazyten comes from the wheel."""
    installed = {d.metadata["Name"].lower() for d in distributions()} - INSTALLERS
    assert installed == DECLARED, f"installed: {installed}; declared: {DECLARED}"
    checkout = Path(__file__).resolve().parents[1]
    package = Path(lt.__file__).resolve().parent
    assert package.parent.name == "site-packages", f"lazyten was imported from {package}"
    assert not (checkout / "lazyten").samefile(package)
    assert (package / "py.typed").is_file(), "the wheel has no py.typed"


def lenet() -> nn.Sequential:
    """LeNet-5 for 28 x 28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def train() -> list[float]:
    """The losses of a few steps on one batch."""
    random = np.random.default_rng(0)
    images = lt.tensor(random.normal(size=(32, 1, 28, 28)).astype(np.float32))
    labels = lt.tensor(random.integers(0, 10, size=32))
    model = lenet()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


check_environment()
losses = train()
assert losses[-1] < losses[0], f"the loss did not fall: {losses}"
print(f"lazyten {version('lazyten')} from its wheel: loss {losses[0]:.4f} -> {losses[-1]:.4f} "
      f"in {STEPS} steps on one batch")
