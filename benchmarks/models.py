"""A small ResNet and a small GPT with one training step each, in the API lazyten shares with torch.

`training_step(framework, model)` is called by cases.py and gives a function that does one step of
SGD with momentum and returns the loss. `reference_losses` computes the losses in float64 with torch
in a process of its own: nobody wrote these gradients in NumPy.
"""
from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np

from benchmarks.frameworks import Framework, NotWritten, Tensor, load, to_float64, usable_cores
from benchmarks.numpy_operations import Array

RATE = 0.01
MOMENTUM = 0.9
TIMEOUT_S = 120.0  # for the reference

STAGES = (16, 32, 64, 128)  # a quarter of ResNet-18: channels of each pair of blocks
IMAGES = (16, 3, 32, 32)
CLASSES = 10

LAYERS, WIDTH, HEADS, LENGTH, SEQUENCES, VOCABULARY = 4, 128, 4, 64, 8, 256

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class Model:
    """Shapes of the parameters, FLOP of a step's products (forward, and two products backward for
    each but those of the batch), one batch, and the loss: `loss(torch or lazyten, p, x, y)`."""

    shapes: Mapping[str, tuple[int, ...]]
    flops: float
    batch: Callable[[np.random.Generator], tuple[Array, Array]]
    loss: Callable[[Tensor, Parameters, Tensor, Tensor], Tensor]

    def parameters(self) -> dict[str, Array]:
        """Normal numbers of variance 2 / fan-in; scales ('.scale') 1 and shifts ('.shift') 0."""
        random = np.random.default_rng(0)
        values: dict[str, Array] = {}
        for name, shape in self.shapes.items():
            if name.endswith((".scale", ".shift")):
                values[name] = np.full(shape, name.endswith(".scale"), np.float32)
            else:
                deviation = (2 / np.prod(shape[1:])) ** 0.5
                values[name] = (random.standard_normal(shape) * deviation).astype(np.float32)
        return values


# ---- ResNet-18 of a quarter width, a scale and a shift a channel instead of batch norm --------

def blocks() -> Iterator[tuple[str, int, int, int]]:
    """Name, channels in, channels out and stride of each of the eight residual blocks."""
    for stage, (before, channels) in enumerate(pairwise((STAGES[0], *STAGES))):
        yield f"{stage}.0", before, channels, 1 if stage == 0 else 2
        yield f"{stage}.1", channels, channels, 1


def resnet_shapes() -> dict[str, tuple[int, ...]]:
    """The parameters' shapes by name."""
    convolutions = {"stem": (STAGES[0], 3, 3, 3)}
    for name, before, channels, stride in blocks():
        convolutions[f"{name}.a"] = (channels, before, 3, 3)
        convolutions[f"{name}.b"] = (channels, channels, 3, 3)
        if stride == 2:
            convolutions[f"{name}.skip"] = (channels, before, 1, 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in convolutions.items():
        each = shape[0], 1, 1
        shapes |= {name: shape, f"{name}.scale": each, f"{name}.shift": each}
    return {**shapes, "head": (CLASSES, STAGES[-1])}


def resnet_flops() -> float:
    """FLOP of one step's convolutions and linear layer; the images need no gradient."""
    images, _, height, width = IMAGES
    total = 0
    for name, shape in resnet_shapes().items():
        if len(shape) == 4:
            stage = 0 if name == "stem" else int(name[0])
            pixels = (height >> stage) * (width >> stage)
            total += (2 if name == "stem" else 3) * 2 * images * pixels * prod(shape)
    return total + 3 * 2 * images * prod(resnet_shapes()["head"])


def resnet_loss(library: Tensor, p: Parameters, x: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of ResNet-18 without batch norm, residuals halved to keep bounds."""
    functional = library.nn.functional

    def convolve(x: Tensor, name: str, stride: int = 1) -> Tensor:
        padding = p[name].shape[-1] // 2
        x = functional.conv2d(x, p[name], stride=stride, padding=padding)
        return x * p[f"{name}.scale"] + p[f"{name}.shift"]

    x = convolve(x, "stem").relu()
    for name, _, _, stride in blocks():
        inner = convolve(convolve(x, f"{name}.a", stride).relu(), f"{name}.b")
        skip = convolve(x, f"{name}.skip", stride) if stride == 2 else x
        x = (0.5 * (inner + skip)).relu()
    return functional.cross_entropy(functional.linear(x.mean((2, 3)), p["head"]), labels)


def image_batch(random: np.random.Generator) -> tuple[Array, Array]:
    """Random images and labels."""
    return random.random(IMAGES, dtype=np.float32), random.integers(0, CLASSES, IMAGES[0])


# ---- GPT: pre-norm blocks of causal attention and a GELU network, learned positions --------------

def gpt_shapes() -> dict[str, tuple[int, ...]]:
    """The parameters' shapes by name."""
    shapes: dict[str, tuple[int, ...]] = {"tokens": (VOCABULARY, WIDTH),
                                          "positions": (LENGTH, WIDTH)}
    for layer in range(LAYERS):
        shapes |= {f"{layer}.qkv": (3 * WIDTH, WIDTH), f"{layer}.out": (WIDTH, WIDTH),
                   f"{layer}.up": (4 * WIDTH, WIDTH), f"{layer}.down": (WIDTH, 4 * WIDTH)}
        for norm in ("norm1", "norm2"):
            shapes |= {f"{layer}.{norm}.scale": (WIDTH,), f"{layer}.{norm}.shift": (WIDTH,)}
    return {**shapes, "norm.scale": (WIDTH,), "norm.shift": (WIDTH,), "head": (VOCABULARY, WIDTH)}


def gpt_flops() -> float:
    """FLOP of one step's linear layers and attention; the one-hot rows need no gradient."""
    tokens = SEQUENCES * LENGTH
    matrices = {name: shape for name, shape in gpt_shapes().items() if len(shape) == 2}
    linear = sum((2 if name == "tokens" else 3) * 2 * tokens * prod(shape)
                 for name, shape in matrices.items() if name != "positions")
    return linear + 3 * LAYERS * 2 * (2 * tokens * LENGTH * WIDTH)


def gpt_loss(library: Tensor, p: Parameters, x: Tensor, following: Tensor) -> Tensor:
    """The mean cross entropy of the next token; x holds the tokens as one-hot rows."""
    functional = library.nn.functional

    def normalized(x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), p[f"{name}.scale"], p[f"{name}.shift"])

    def attend(x: Tensor, layer: int) -> Tensor:
        heads = functional.linear(x, p[f"{layer}.qkv"]).reshape(
            SEQUENCES, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = heads[0], heads[1], heads[2]
        scores = q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5
        later = library.triu(library.ones(LENGTH, LENGTH), 1).bool()
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return functional.linear(mixed.transpose(1, 2).reshape(SEQUENCES, LENGTH, WIDTH),
                                 p[f"{layer}.out"])

    x = x @ p["tokens"] + p["positions"]
    for layer in range(LAYERS):
        x = x + attend(normalized(x, f"{layer}.norm1"), layer)
        hidden = functional.gelu(functional.linear(normalized(x, f"{layer}.norm2"),
                                                   p[f"{layer}.up"]))
        x = x + functional.linear(hidden, p[f"{layer}.down"])
    scores = functional.linear(normalized(x, "norm"), p["head"])
    return functional.cross_entropy(scores.reshape(-1, VOCABULARY), following)


def token_batch(random: np.random.Generator) -> tuple[Array, Array]:
    """One-hot rows of random tokens, and the tokens that follow."""
    tokens = random.integers(0, VOCABULARY, (SEQUENCES, LENGTH + 1))
    return np.eye(VOCABULARY, dtype=np.float32)[tokens[:, :-1]], tokens[:, 1:].reshape(-1)


MODELS = {"resnet": Model(resnet_shapes(), resnet_flops(), image_batch, resnet_loss),
          "gpt": Model(gpt_shapes(), gpt_flops(), token_batch, gpt_loss)}


def training_step(framework: Framework, name: str) -> Callable[[], float]:
    """A function that does one training step of MODELS[name] on one batch and returns the loss."""
    if framework.name not in ("lazyten", "torch"):
        raise NotWritten
    library, model = framework.module, MODELS[name]
    p = {k: framework.array(v).requires_grad_() for k, v in model.parameters().items()}
    optimizer = library.optim.SGD(list(p.values()), lr=RATE, momentum=MOMENTUM)
    x, y = (framework.array(a) for a in model.batch(np.random.default_rng(1)))

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model.loss(library, p, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = framework.compile(step)
    return lambda: float(compiled().item())


def reference_losses(name: str, count: int) -> list[Array]:
    """The losses of the first `count` steps in float64; ImportError without torch."""
    code = f"from benchmarks.models import report; report({name!r}, {count})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            timeout=TIMEOUT_S, check=False)
    if result.returncode:
        raise ImportError("torch, which these losses are checked with, did not give them: "
                          + (result.stderr.strip().splitlines() or ["no reason"])[-1])
    return [np.asarray(loss) for loss in json.loads(result.stdout)]


def report(name: str, count: int) -> None:
    """Print torch's losses in float64 as JSON."""
    torch = load("torch", usable_cores())
    double = replace(torch, array=lambda x: torch.array(to_float64(x)))
    step = training_step(double, name)
    print(json.dumps([step() for _ in range(count)]))
