"""The command line of examples/lenet.py: a wrong argument ends it with one line and code 2."""
from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NoReturn

EPOCHS, MNIST_EPOCHS = 40, 10  # MNIST has 40 times as many images


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line} (--help lists the options)\n")


def lenet_options(default_device: str) -> Parser:
    """All options; the defaults reach 99 % on the digits that come with the example."""
    parser = Parser(prog="lenet.py", description="Train LeNet-5 on handwritten digits.")
    add = parser.add_argument
    add("--device", default=default_device, help="where to compute (default: %(default)s)")
    add("--epochs", type=_at_least_one,
        help=f"passes over the training images (default: {EPOCHS}, or {MNIST_EPOCHS} with --mnist)")
    add("--batch-size", type=_at_least_one, default=64,
        help="images in a step (default: %(default)s)")
    add("--lr", type=_positive, default=3e-3,
        help="Adam's learning rate at the start; it falls to 0 (default: %(default)s)")
    add("--dtype", choices=("float32", "bfloat16"), default="float32",
        help="what products are computed in; the rest is float32 (default: %(default)s)")
    add("--seed", type=_not_negative, default=0,
        help="of the weights, the order and the shifts of images (default: %(default)s)")
    add("--mnist", type=Path, metavar="DIR",
        help="train on MNIST instead: the folder with train-images-idx3-ubyte and the other three "
             "files, plain or .gz")
    add("--output", type=Path, metavar="DIR", default=Path("lenet-out"),
        help="folder for the model and the pictures, made if missing (default: %(default)s)")
    return parser


def parse(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """The options as given, with the number of epochs that suits the data if none was."""
    options = parser.parse_args(arguments)
    if options.epochs is None:
        options.epochs = MNIST_EPOCHS if options.mnist else EPOCHS
    return options


def _at_least_one(text: str) -> int:
    if (value := _whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return value


def _not_negative(text: str) -> int:
    if (value := _whole(text)) < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, found {text}")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}") from None


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value
