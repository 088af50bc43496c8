"""From numbers to a perceptron, for courses: the same network twice, by hand and with tensors.

    python examples/course.py

First with numbers that know what they were made of (scalars.py, 60 lines): a neuron is a sum of
products, a perceptron is two layers of neurons, learning is a step against the gradient. Then the
same with lazyten: the same points, weights and steps, so the same losses, many times faster. The
points are two half-moons that interlock, drawn at random. Needs the extra packages of
lazyten[examples].
"""
from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
from curves import draw_curves, save
from loop import bar
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from options import Parser, at_least_one, command_line, run
from scalars import Scalar

import lazyten as lt
from lazyten import nn

NAME = "course.py"
NOISE = 0.1
MARGIN = 0.5  # around the points, in the picture


class Weights(NamedTuple):
    """Of a perceptron with two inputs and one output: (hidden, 2), (hidden,), (hidden,), ()."""

    first: NDArray[np.float64]
    first_bias: NDArray[np.float64]
    second: NDArray[np.float64]
    second_bias: NDArray[np.float64]


def half_moons(count: int, random: np.random.Generator) -> tuple[NDArray[np.float64],
                                                                 NDArray[np.float64]]:
    """Points (count, 2), and for each which of the moons it is from, 0 or 1."""
    label = np.arange(count) % 2
    angle = random.uniform(0, np.pi, count)
    moon = np.stack([np.cos(angle), np.sin(angle)], 1)
    points = np.where(label[:, None] == 0, moon, [1.0, 0.5] - moon)
    return points + random.normal(0, NOISE, points.shape), label.astype(np.float64)


def initial(hidden: int, random: np.random.Generator) -> Weights:
    return Weights(random.normal(0, 1, (hidden, 2)), np.zeros(hidden),
                   random.normal(0, hidden ** -0.5, hidden), np.zeros(()))


# ---- by hand ----

class Neuron:
    """A sum of products of inputs and weights, and a bias."""

    def __init__(self, weights: NDArray[np.float64], bias: float) -> None:
        self.weights, self.bias = [Scalar(float(w)) for w in weights], Scalar(float(bias))

    def __call__(self, inputs: list[Scalar]) -> Scalar:
        return sum((w * x for w, x in zip(self.weights, inputs, strict=True)), self.bias)


class ByHand:
    """A perceptron of scalars; the output is above 0 for a point of the second moon."""

    def __init__(self, weights: Weights) -> None:
        self.hidden = [Neuron(*pair) for pair in zip(weights.first, weights.first_bias,
                                                     strict=True)]
        self.output = Neuron(weights.second, weights.second_bias)

    def __call__(self, point: NDArray[np.float64]) -> Scalar:
        inputs = [Scalar(float(x)) for x in point]
        return self.output([neuron(inputs).tanh() for neuron in self.hidden])

    def step(self, points: NDArray[np.float64], labels: NDArray[np.float64], rate: float) -> float:
        """Learn from all points; gives the mean loss before."""
        total = Scalar(0.0)
        for point, label in zip(points, labels, strict=True):
            logit = self(point)
            total = total + logit.softplus() - float(label) * logit  # binary cross-entropy
        loss = total * (1 / len(points))
        loss.backward()
        for neuron in (*self.hidden, self.output):
            for weight in (*neuron.weights, neuron.bias):
                weight.value -= rate * weight.gradient
                weight.gradient = 0.0
        return loss.value


# ---- with tensors ----

def with_tensors(weights: Weights, device: str) -> nn.Sequential:
    """The same perceptron, (n, 2) -> (n, 1)."""
    hidden = len(weights.first)
    model = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 1))
    given = (weights.first, weights.first_bias, weights.second[None], weights.second_bias[None])
    for parameter, values in zip(model.parameters(), given, strict=True):
        parameter.data = lt.tensor(values, dtype=lt.float32)
    return model.to(device)


def learn(model: nn.Module, points: NDArray[np.float64], labels: NDArray[np.float64],
          args: argparse.Namespace) -> list[float]:
    """The loss before each step."""
    x = lt.tensor(points, dtype=lt.float32, device=args.device)
    y = lt.tensor(labels[:, None], dtype=lt.float32, device=args.device)
    optimizer = lt.optim.SGD(model.parameters(), lr=args.lr)

    @lt.jit
    def step() -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return [step().item() for _ in range(args.epochs)]


# ---- the two side by side ----

def logits(model: nn.Module, points: NDArray[np.float64], device: str) -> NDArray[np.float32]:
    with lt.no_grad():
        return model(lt.tensor(points, dtype=lt.float32, device=device))[:, 0].numpy()


def draw_regions(axes: Axes, points: NDArray[np.float64], labels: NDArray[np.float64],
                 model: nn.Module, title: str, device: str) -> None:
    """What the perceptron says of each place, and the points."""
    (left, low), (right, high) = points.min(0) - MARGIN, points.max(0) + MARGIN
    x, y = np.meshgrid(np.linspace(left, right, 120), np.linspace(low, high, 120))
    surface = logits(model, np.stack([x.ravel(), y.ravel()], 1), device).reshape(x.shape)
    axes.contourf(x, y, 1 / (1 + np.exp(-surface)), levels=20, cmap="RdBu", alpha=0.6)
    axes.scatter(*points.T, c=labels, cmap="RdBu", edgecolors="black", s=20)
    axes.set(title=title)


def options() -> Parser:
    parser = command_line(NAME, "From numbers to a perceptron: by hand, then with tensors.",
                          batch_size=60, lr=1.0, epochs=200, output="course-out", things="points")
    parser.add_argument("--hidden", type=at_least_one, default=8,
                        help="neurons of the hidden layer (default: %(default)s)")
    return parser


def main(arguments: list[str]) -> None:
    command = options()
    args = command.begin(arguments)
    random = np.random.default_rng(args.seed)
    (points, labels), (test, expected) = (half_moons(args.batch_size, random) for _ in range(2))
    weights = initial(args.hidden, random)

    began = time.perf_counter()
    by_hand = ByHand(weights)
    slow = [by_hand.step(points, labels, args.lr) for _ in bar(range(args.epochs), "by hand")]
    hand_time = time.perf_counter() - began
    accuracy = np.mean([(by_hand(point).value > 0) == label
                        for point, label in zip(test, expected, strict=True)])
    print(f"by hand       loss {slow[0]:.4f} -> {slow[-1]:.4f}  held out {accuracy:.2%}  "
          f"{hand_time:.2f} s", flush=True)

    with command.refusing():
        model = with_tensors(weights, args.device)
        untrained = with_tensors(weights, args.device)
        began = time.perf_counter()
        fast = learn(model, points, labels, args)
    fast_time = time.perf_counter() - began
    accuracy = np.mean((logits(model, test, args.device) > 0) == expected)
    print(f"with tensors  loss {fast[0]:.4f} -> {fast[-1]:.4f}  held out {accuracy:.2%}  "
          f"{fast_time:.2f} s")

    picture = args.output / "course.png"
    figure = Figure(figsize=(14, 4.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_curves(left, {"by hand": slow, "with tensors": fast}, title="Loss", xlabel="step",
                ylabel="cross-entropy (nats)")
    draw_regions(middle, points, labels, untrained, "Before learning", args.device)
    draw_regions(right, test, expected, model, "Afterwards, with held-out points", args.device)
    save(figure, picture)
    print(f"losses differ by at most {np.abs(np.subtract(slow, fast)).max():.1g}; "
          f"picture: {picture}")


if __name__ == "__main__":
    run(main, NAME)
