"""Train a residual network on a folder of images, one folder for each class.

    python examples/resnet.py --data flowers --mirror --size 64   flowers/rose/1.jpg and so on
    python examples/resnet.py                                     handwritten digits, as PNG files

One image in five is held out. Needs the extra packages of lazyten[examples]. The network is that of
He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015, for small images:
three stages of 16, 32 and 64 channels, 6n + 2 layers deep.
"""
from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from curves import draw_curves, draw_guess, save, wrong_first
from digits import split
from image_folder import Augmented, ImageFolder, write_digits
from loop import Epoch, full_batches, predict, train
from matplotlib.figure import Figure
from numpy.typing import NDArray
from options import Parser, at_least_one, command_line, not_negative, run

import lazyten as lt
from lazyten import nn

NAME = "resnet.py"
STAGES = (16, 32, 64)
ROWS, COLUMNS = 4, 12
SHIFT = 2


class Residual(nn.Module):
    """Two convolutions whose result is added to what came in; `stride` 2 halves the image."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outside),
            nn.ReLU(), nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside))
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return (self.convolutions(x) + self.shortcut(x)).relu()


def resnet(depth: int, classes: int) -> nn.Sequential:
    """(n, 3, size, size) images in 0..1 -> (n, classes) logits; `depth` is 6n + 2."""
    inside = STAGES[0]
    layers = [nn.Conv2d(3, inside, 3, padding=1, bias=False), nn.BatchNorm2d(inside), nn.ReLU()]
    for outside in STAGES:
        for block in range((depth - 2) // 6):
            layers.append(Residual(inside, outside, 2 if block == 0 and inside != outside else 1))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def fit(args: argparse.Namespace, data: ImageFolder) -> tuple[nn.Module, list[Epoch], list[int],
                                                              NDArray[np.int64]]:
    """Train; gives the model, the epochs, and the held-out positions with their predictions."""
    lt.manual_seed(args.seed)
    learned, tested = (part.tolist() for part in split(data.labels, args.seed))
    print(f"{len(learned):,} images to learn from, {len(tested):,} held out, "
          f"{len(data.classes)} classes: {', '.join(data.classes)[:60]}")
    loader = full_batches(Augmented(data, learned, SHIFT, args.mirror, args.seed),
                          args.batch_size, workers=args.workers)
    model = resnet(args.depth, len(data.classes)).to(args.device)
    optimizer = lt.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4,
                             nesterov=True)

    @lt.jit
    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    images = lt.tensor(np.stack([data[i][0] for i in tested]), device=args.device)

    def test() -> dict[str, float]:
        found = predict(model.eval(), images)
        return {"accuracy": float(np.mean(found == data.labels[tested]))}

    falling = lt.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    history = train(args.epochs, loader, lambda x, y: step(x.to(args.device), y.to(args.device)),
                    test, schedulers=[falling])
    return model, history, tested, predict(model.eval(), images)


def draw(data: ImageFolder, history: list[Epoch], tested: list[int],
         predicted: NDArray[np.int64]) -> Figure:
    """Learning curves above, held-out images with what was said of them below."""
    figure = Figure(figsize=(13, 9.5), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(4, 5.5))
    left, right = above.subplots(1, 2)
    draw_curves(left, {"training loss": [epoch.loss for epoch in history]}, title="Loss",
                ylabel="cross-entropy (nats)")
    draw_curves(right, {"held-out images": [100 * e.tested["accuracy"] for e in history]},
                title="Accuracy", ylabel="right answers (%)")
    wrong = int((predicted != data.labels[tested]).sum())
    below.suptitle(f"Held-out images: {wrong} wrong of {len(tested):,}, marked in red")
    grid = below.subplots(ROWS, COLUMNS).flat
    for axes in grid:
        axes.axis("off")
    chosen = wrong_first(data.labels[tested], predicted, ROWS * COLUMNS)
    for axes, i in zip(below.axes, chosen, strict=False):
        axes.axis("on")
        draw_guess(axes, data[tested[i]][0], data.classes[predicted[i]],
                   data.classes[data.labels[tested[i]]])
    return figure


def options() -> Parser:
    parser = command_line(NAME, "Train a residual network on a folder of images.", epochs=12,
                          batch_size=32, lr=0.1, output="resnet-out", things="images")
    add = parser.add_argument
    add("--data", type=Path, metavar="DIR", help="a folder with a folder of images for each class "
        "(default: handwritten digits, written as PNG files to a temporary folder)")
    add("--size", type=at_least_one, default=32,
        help="pixels on a side that images are scaled to (default: %(default)s)")
    add("--depth", type=at_least_one, default=8,
        help="layers: 8, 14, 20, 26 or another 6n + 2 (default: %(default)s)")
    add("--mirror", action="store_true", help="mirror images at random: not for digits")
    add("--workers", type=not_negative, default=0,
        help="processes that read images ahead (default: %(default)s)")
    return parser


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    command = options()
    args = command.begin(arguments)
    if args.depth < 8 or args.depth % 6 != 2:
        command.error(f"argument --depth: expected 8, 14, 20 or another 6n + 2, found {args.depth}")
    with ExitStack() as stack, command.refusing():
        folder = args.data
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            write_digits(folder)
        data = ImageFolder(folder, args.size)
        model, history, tested, predicted = fit(args, data)
        figure = draw(data, history, tested, predicted)
    file, picture = args.output / "model.safetensors", args.output / "resnet.png"
    lt.save_safetensors(model.state_dict(), file)
    save(figure, picture)
    print(f"held-out accuracy {history[-1].tested['accuracy']:.2%} in "
          f"{time.perf_counter() - began:.1f} s; model: {file}; picture: {picture}")


if __name__ == "__main__":
    run(main, NAME)
