"""LeNet-5 and its training step in every framework, from the same weights on the same images.

`training_step(framework, batch)` returns a function that does one step and gives the loss. It is
called by cases.py and fresh.py. Images are [batch, 1, 28, 28], labels 0..9; convolutions 5x5 to 6
and 16 channels (the first padded by 2), ReLU and 2x2 max pooling after each, then 120, 84 and 10
outputs; SGD with momentum on the mean cross entropy.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.frameworks import Framework, NotWritten, Tensor
from benchmarks.lenet_numpy import NumpyLenet
from benchmarks.numpy_operations import Array

RATE = 0.01
MOMENTUM = 0.9

SHAPES: dict[str, tuple[int, ...]] = {  # named as in the Sequential of `torch_step`
    "0": (6, 1, 5, 5), "3": (16, 6, 5, 5), "7": (120, 400), "9": (84, 120), "11": (10, 84),
}


def initial_weights() -> dict[str, Array]:
    """Weights and biases uniform within 1 / sqrt(fan-in), float32, the same ones every time."""
    random = np.random.default_rng(0)
    weights = {}
    for layer, shape in SHAPES.items():
        bound = 1 / np.sqrt(np.prod(shape[1:]))
        weights[f"{layer}.weight"] = random.uniform(-bound, bound, shape).astype(np.float32)
        weights[f"{layer}.bias"] = random.uniform(-bound, bound, shape[0]).astype(np.float32)
    return weights


def images_and_labels(batch: int) -> tuple[Array, Array]:
    """Random images, float32, and labels, int64."""
    random = np.random.default_rng(1)
    images = random.random((batch, 1, 28, 28), dtype=np.float32)
    return images, random.integers(0, 10, batch)


def numpy_step(framework: Framework, images: Array, labels: Array,
               jit: bool) -> Callable[[], float]:
    """The step written out in NumPy, gradients by hand."""
    weights = [framework.array(w) for w in initial_weights().values()]
    model = NumpyLenet(weights, RATE, MOMENTUM)
    inputs = framework.array(images)
    return lambda: model.step(inputs, labels)


def torch_step(framework: Framework, images: Array, labels: Array,
               jit: bool) -> Callable[[], float]:
    """The step in torch's API, which is also lazyten's."""
    nn = framework.module.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    model.load_state_dict({k: framework.array(w) for k, w in initial_weights().items()})
    optimizer = framework.module.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    x, y = framework.array(images), framework.array(labels)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = framework.compile(step) if jit else step
    return lambda: float(compiled().item())


def jax_step(framework: Framework, images: Array, labels: Array,
             jit: bool) -> Callable[[], float]:
    """The step as one jitted function whose weights and velocities are donated."""
    jax = framework.module
    jnp, lax, relu = jax.numpy, jax.lax, jax.nn.relu

    def convolve(x: Tensor, padding: int, w: Tensor, b: Tensor) -> Tensor:
        x = relu(lax.conv(x, w, (1, 1), [(padding, padding)] * 2) + b[:, None, None])
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss_of(weights: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        x = convolve(x, 2, *weights[0:2])
        x = convolve(x, 0, *weights[2:4]).reshape(len(y), -1)
        x = relu(x @ weights[4].T + weights[5])
        x = relu(x @ weights[6].T + weights[7])
        scores = jax.nn.log_softmax(x @ weights[8].T + weights[9])
        return -scores[jnp.arange(len(y)), y].mean()

    def update(weights: list[Tensor], velocities: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        velocities = [MOMENTUM * v + g for v, g in zip(velocities, gradients, strict=True)]
        return loss, [w - RATE * v for w, v in zip(weights, velocities, strict=True)], velocities

    compiled = jax.jit(update, donate_argnums=(0, 1))
    weights = [framework.array(w) for w in initial_weights().values()]
    velocities = [jnp.zeros_like(w) for w in weights]
    x, y = framework.array(images), framework.array(labels)

    def step() -> float:
        nonlocal weights, velocities
        loss, weights, velocities = compiled(weights, velocities, x, y)
        return float(loss.item())

    return step


def tinygrad_step(framework: Framework, images: Array, labels: Array,
                  jit: bool) -> Callable[[], float]:
    """The step captured by TinyJit. Tensors are parameters unless told otherwise."""
    tinygrad = framework.module
    weights = [framework.array(w) for w in initial_weights().values()]
    optimizer = tinygrad.nn.optim.SGD(weights, lr=RATE, momentum=MOMENTUM)
    x, y = (framework.array(data).is_param_(False) for data in (images, labels))

    def forward() -> Tensor:
        z = x.conv2d(weights[0], weights[1], padding=2).relu().max_pool2d(2)
        z = z.conv2d(weights[2], weights[3]).relu().max_pool2d(2).flatten(1)
        z = z.linear(weights[4].T, weights[5]).relu()
        z = z.linear(weights[6].T, weights[7]).relu()
        return z.linear(weights[8].T, weights[9])

    @tinygrad.TinyJit  # type: ignore[untyped-decorator]
    def captured() -> Tensor:
        optimizer.zero_grad()
        loss = forward().sparse_categorical_crossentropy(y)
        loss.backward()
        return loss.realize(*optimizer.schedule_step())

    def step() -> float:
        with tinygrad.Context(TRAINING=1):
            return float(captured().item())

    return step


STEPS = {"lazyten": torch_step, "numpy": numpy_step, "torch": torch_step, "jax": jax_step,
         "tinygrad": tinygrad_step}


def training_step(framework: Framework, batch: int, jit: bool = True) -> Callable[[], float]:
    """A function that does one training step on `batch` fixed images and returns the loss.

    Without `jit`, lazyten and torch call the operations one by one; the others, which do that
    always or never, raise NotWritten.
    """
    if not jit and framework.name not in ("lazyten", "torch"):
        raise NotWritten
    return STEPS[framework.name](framework, *images_and_labels(batch), jit)
