"""Tell texts apart by convolutions over their words: good reviews from bad ones, for example.

    python examples/text_classifier.py --data reviews.tsv   lines such as `positive<TAB>what a film`
    python examples/text_classifier.py --data reviews       folders such as pos/ and neg/ of .txt
    python examples/text_classifier.py                      docstrings of Python's own library, by
                                                            the package that they are from

One text in five is held out. No reviews come with lazyten: name a file of your own for sentiment.
Needs the extra packages of lazyten[examples]. The network is that of Kim, "Convolutional neural
networks for sentence classification", 2014: filters over 3, 4 and 5 words, and of each filter its
strongest answer anywhere in the text.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from curves import draw_confusion, draw_curves, save
from digits import split
from loop import Epoch, full_batches, predict, train
from matplotlib.figure import Figure
from numpy.typing import NDArray
from options import Parser, at_least_one, command_line, run
from texts import PADDING, UNKNOWN, Texts, encode, load, load_embedded, vocabulary

import lazyten as lt
from lazyten import nn
from lazyten.utils.data import TensorDataset

NAME = "text_classifier.py"


class TextClassifier(nn.Module):
    """(n, length) numbers of words -> (n, classes) logits."""

    def __init__(self, words: int, classes: int, width: int = 64, filters: int = 64,
                 sizes: tuple[int, ...] = (3, 4, 5)) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=PADDING)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, filters, size, padding=size // 2) for size in sizes)
        self.dropout = nn.Dropout(0.5)
        self.classify = nn.Linear(filters * len(sizes), classes)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = self.dropout(self.embed(x)).transpose(1, 2)  # (n, width, length)
        strongest = [convolve(x).relu().amax(2) for convolve in self.convolutions]
        return self.classify(self.dropout(lt.cat(strongest, 1)))


def options() -> Parser:
    parser = command_line(NAME, "Tell texts apart by convolutions over their words.", epochs=20,
                          batch_size=64, lr=4e-3, output="text-classifier-out", things="texts")
    parser.add_argument("--data", type=Path, metavar="PATH", help="a file of lines "
                        "label<TAB>text, or a folder with a folder of .txt files for each label "
                        "(default: docstrings of Python's library, by package)")
    parser.add_argument("--length", type=at_least_one, default=64,
                        help="words of a text that are read (default: %(default)s)")
    parser.add_argument("--words", type=at_least_one, default=20_000,
                        help="most words to know, the most common ones (default: %(default)s)")
    return parser


def fit(args: argparse.Namespace, data: Texts) -> tuple[nn.Module, list[Epoch],
                                                        NDArray[np.int64], NDArray[np.int64]]:
    """Train; gives the model, the epochs, and true and predicted labels of held-out texts."""
    lt.manual_seed(args.seed)
    learned, tested = (part.tolist() for part in split(data.labels, args.seed))
    numbers = vocabulary([data.texts[i] for i in learned], args.words)
    encoded = encode(data.texts, numbers, args.length)
    print(f"{len(learned):,} texts to learn from, {len(tested):,} held out, {len(numbers):,} words,"
          f" {len(data.classes)} classes; the most common one is "
          f"{np.bincount(data.labels[tested]).max() / len(tested):.2%} of those held out")
    x, y = (lt.tensor(values[learned], device=args.device) for values in (encoded, data.labels))
    loader = full_batches(TensorDataset(x, y), args.batch_size)
    model = TextClassifier(len(numbers) + UNKNOWN + 1, len(data.classes)).to(args.device)
    optimizer = lt.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)

    @lt.jit
    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    held, labels = lt.tensor(encoded[tested], device=args.device), data.labels[tested]

    def test() -> dict[str, float]:
        return {"accuracy": float(np.mean(predict(model.eval(), held) == labels))}

    falling = lt.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=args.epochs)
    history = train(args.epochs, loader, step, test, schedulers=[falling])
    return model, history, labels, predict(model.eval(), held)


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    command = options()
    args = command.begin(arguments)
    with command.refusing():
        data = load(args.data) if args.data else load_embedded()
        model, history, labels, predicted = fit(args, data)
    file, picture = args.output / "model.safetensors", args.output / "text_classifier.png"
    lt.save_safetensors(model.state_dict(), file)
    figure = Figure(figsize=(13, 5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_curves(left, {"training loss": [epoch.loss for epoch in history]}, title="Loss",
                ylabel="cross-entropy (nats)")
    accuracies = [100 * epoch.tested["accuracy"] for epoch in history]
    draw_curves(middle, {"held-out texts": accuracies}, title="Accuracy",
                ylabel="right answers (%)")
    draw_confusion(right, labels, predicted, data.classes)
    save(figure, picture)
    print(f"held-out accuracy {history[-1].tested['accuracy']:.2%} in "
          f"{time.perf_counter() - began:.1f} s; model: {file}; picture: {picture}")


if __name__ == "__main__":
    run(main, NAME)
