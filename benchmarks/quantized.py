"""Quantized models beside float32: `python -m benchmarks.quantized [lenet] [linear]`.

Two tables: LeNet, trained as `make lenet` trains it, with its accuracy on the digits held out, and
a linear layer of 4096 x 4096 weights for several numbers of rows. Times are of jitted calls, all
kinds in turns; of each the least of the rounds, which other programs on the machine change least.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import lazyten as lt
from benchmarks.measure import least
from lazyten import nn
from lazyten.quantization import convert, nbytes_of, prepare

EXAMPLES = Path(__file__).parents[1] / "examples"
ROUNDS, TURN_S = 15, 0.02
BATCHES = 1, 32, 360
ROWS = 1, 16, 128
FEATURES = 4096
KINDS: dict[str, dict[str, Any]] = {
    "int8 weights": {"weights": "int8"}, "int4 weights": {"weights": "int4"},
    "int4 weights, zero points": {"weights": "int4", "symmetric": False}}


def timed(models: Sequence[nn.Module], inputs: Sequence[lt.Tensor]) -> list[list[float]]:
    """Milliseconds of each model, a list an input."""
    def call(model: nn.Module, x: lt.Tensor) -> Callable[[], object]:
        jitted = lt.no_grad()(lt.jit(model))
        return lambda: jitted(x).realize()
    return [[1e3 * s for s in least([call(model, x) for model in models], ROUNDS, TURN_S)]
            for x in inputs]


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lines of a table in Markdown."""
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (
        heads, ["---"] * len(heads), *rows))


def trained(epochs: int) -> Any:
    """A trainer of examples/lenet.py that has trained."""
    sys.path.append(str(EXAMPLES))
    lenet: Any = import_module("lenet")
    trainer, _ = lenet.prepare(["--epochs", str(epochs), "--output", "/tmp"])
    for number in range(epochs):
        trainer.epoch(number, f"epoch {number + 1}/{epochs}")
    return trainer


def trained_for_integers(trainer: Any) -> nn.Module:
    """LeNet that learned for two epochs more what integers leave of it."""
    trainer.model = prepare(trainer.model)
    trainer.optimizer = lt.optim.Adam(trainer.model.parameters(), lr=trainer.rate)
    trainer.learn = lt.jit(trainer._learn)
    for number in range(trainer.epochs - 2, trainer.epochs):
        trainer.epoch(number, "for integers")
    return convert(trainer.model)


def quantized_lenets(trainer: Any) -> dict[str, nn.Module]:
    """The trained LeNet and what quantization makes of it, by name."""
    model = trainer.model.eval()
    examples = [lt.tensor(trainer.train.images[i:i + 64]) for i in range(0, 512, 64)]
    found = {"float32": model, **{name: lt.quantize(model, **kind)
                                  for name, kind in KINDS.items()}}
    for observer in ("minmax", "percentile"):
        found[f"int8 products, {observer}"] = lt.quantize(model, examples=examples,
                                                          observer=observer)
    return found | {"int8 products, trained for": trained_for_integers(trainer)}


def accuracy(model: nn.Module, digits: Any) -> float:
    """The share of images whose label the model finds."""
    with lt.no_grad():
        return float(np.mean(model(lt.tensor(digits.images)).argmax(1).numpy() == digits.labels))


def lenet_table(epochs: int) -> str:
    """Bytes, accuracy and times of LeNets."""
    trainer = trained(epochs)
    models = quantized_lenets(trainer)
    times = timed([*models.values()], [lt.tensor(trainer.test.images[:n]) for n in BATCHES])
    rows = [[name, f"{nbytes_of(model):,}", f"{accuracy(model, trainer.test):.2%}",
             *(f"{column[i]:.3f}" for column in times)]
            for i, (name, model) in enumerate(models.items())]
    return table(["LeNet", "bytes", "accuracy", *(f"{n} images, ms" for n in BATCHES)], rows)


def linear_table() -> str:
    """Bytes and times of linear layers."""
    layer = nn.Linear(FEATURES, FEATURES)
    inputs = [lt.tensor(np.random.default_rng(n).normal(size=(n, FEATURES)).astype(np.float32))
              for n in ROWS]
    models: dict[str, nn.Module] = {
        "float32": layer, "int8 weights": lt.quantize(layer),
        "int8 weights, groups of 128": lt.quantize(layer, group_size=128),
        "int4 weights, groups of 128": lt.quantize(layer, "int4", group_size=128),
        "int8 products": lt.quantize(layer, examples=inputs)}
    times = timed([*models.values()], inputs)
    rows = [[name, f"{nbytes_of(model):,}", *(f"{column[i]:.3f}" for column in times)]
            for i, (name, model) in enumerate(models.items())]
    return table([f"Linear({FEATURES}, {FEATURES})", "bytes", *(f"{n} rows, ms" for n in ROWS)],
                 rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantized")
    parser.add_argument("tables", nargs="*", default=["lenet", "linear"], metavar="lenet | linear")
    parser.add_argument("--epochs", type=int, default=40, help="of training LeNet (40)")
    args = parser.parse_args(arguments)
    print("\n\n".join(lenet_table(args.epochs) if name == "lenet" else linear_table()
                      for name in args.tables))


if __name__ == "__main__":
    main()
