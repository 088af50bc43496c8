"""What the examples' command lines share: numbers that are checked, one line of error, Ctrl-C.

A wrong argument, a file that cannot be used or a device that is not there ends an example with one
line on stderr and code 2; Ctrl-C with one line and code 130.
"""
from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import lazyten as lt
from lazyten.support.errors import LazytenError

INTERRUPTED = 130  # what shells give for Ctrl-C


class DataError(Exception):
    """A file or folder of the user's that cannot be used: which, what was found, what to do."""


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line} (--help lists the options)\n")

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """In the block a LazytenError or a DataError is an error of the command line."""
        try:
            yield
        except (DataError, LazytenError) as error:
            self.error(str(error))

    def begin(self, arguments: list[str]) -> argparse.Namespace:
        """The options, once it is known that the device computes and the folder can be made."""
        options = self.parse_args(arguments)
        with self.refusing():
            lt.zeros(1, device=options.device).realize()
        self.make_folder(options.output)
        return options

    def make_folder(self, folder: Path) -> None:
        """Make the folder for results now, not after minutes of training."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"argument --output: cannot make {folder}: {error.strerror}")


def command_line(name: str, description: str, *, batch_size: int, lr: float, output: str,
                 epochs: int | None = None, things: str = "examples") -> Parser:
    """A parser with the options that all examples have, and these defaults.

    `things` is what a batch is made of. Without `epochs` the caller says how long to train.
    """
    parser = Parser(prog=name, description=description)
    add = parser.add_argument
    add("--device", default=lt.Device.default(), help="where to compute (default: %(default)s)")
    if epochs is not None:
        add("--epochs", type=at_least_one, default=epochs,
            help="passes over what there is to train on (default: %(default)s)")
    add("--batch-size", type=at_least_one, default=batch_size,
        help=f"{things} in a step (default: %(default)s)")
    add("--lr", type=positive, default=lr,
        help="the learning rate at the start; it falls to 0 (default: %(default)s)")
    add("--seed", type=not_negative, default=0,
        help="of the weights and all that is random (default: %(default)s)")
    add("--output", type=Path, metavar="DIR", default=Path(output),
        help="folder for the model and the picture, made if missing (default: %(default)s)")
    return parser


def run(main: Callable[[list[str]], None], name: str) -> None:
    """Call `main` with the arguments of the command line; Ctrl-C ends it with one line."""
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        print(f"{name}: stopped by Ctrl-C", file=sys.stderr)
        sys.exit(INTERRUPTED)


def at_least_one(text: str) -> int:
    if (value := _whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return value


def not_negative(text: str) -> int:
    if (value := _whole(text)) < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, found {text}")
    return value


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}") from None
