"""Train a GPT of characters on a text, then let it write, with a cache of keys and values.

    python examples/gpt.py                         the language reference that comes with Python
    python examples/gpt.py --data shakespeare.txt  a text of your own, in UTF-8
    python examples/gpt.py --steps 4000            longer training, better text
    python examples/gpt.py --prompt "The "         what it goes on from

The last tenth of the text is held out. Needs the extra packages of lazyten[examples].
"""
from __future__ import annotations

import argparse
import pydoc_data.topics
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
from curves import draw_curves, save
from gpt_model import GPT, Shape, sample
from loop import bar
from matplotlib.figure import Figure
from numpy.typing import NDArray
from options import DataError, Parser, at_least_one, command_line, positive, run

import lazyten as lt
from lazyten.nn import functional as F

NAME = "gpt.py"
HELD_OUT = 10  # the last tenth
TESTS = 10  # as often as this the held-out text is looked at


class Text:
    """A text as numbers of its characters, and random pieces of it."""

    def __init__(self, text: str, block: int, seed: int) -> None:
        self.characters = sorted(set(text))
        self.numbers = {character: i for i, character in enumerate(self.characters)}
        values = np.array([self.numbers[c] for c in text], np.int64)
        split = len(values) - len(values) // HELD_OUT
        self.learned, self.tested = values[:split], values[split:]
        if len(self.tested) <= block:
            raise DataError(f"a text of {len(text):,} characters is too short: a tenth of it is "
                            f"held out and must be longer than --block, which is {block}")
        self.block, self.random = block, np.random.default_rng(seed)

    def batch(self, size: int) -> tuple[lt.Tensor, lt.Tensor]:
        """Characters (size, block) of random pieces, and the one after each."""
        starts = self.random.integers(0, len(self.learned) - self.block, size)
        return self._pieces(self.learned, starts)

    def held_out(self, most: int) -> tuple[lt.Tensor, lt.Tensor]:
        """At most so many pieces, from all over the held-out part."""
        starts = np.arange(0, len(self.tested) - self.block, self.block)
        return self._pieces(self.tested, starts[::-(-len(starts) // most)])

    def _pieces(self, values: NDArray[np.int64],
                starts: NDArray[np.intp]) -> tuple[lt.Tensor, lt.Tensor]:
        pieces = values[starts[:, None] + np.arange(self.block + 1)]
        return lt.tensor(pieces[:, :-1]), lt.tensor(pieces[:, 1:])


def options() -> Parser:
    parser = command_line(NAME, "Train a GPT of characters, then let it write.", batch_size=32,
                          lr=2e-3, output="gpt-out", things="pieces of text")
    add = parser.add_argument
    add("--data", type=Path, metavar="FILE",
        help="a text in UTF-8 (default: the language reference that comes with Python)")
    for name, default, words in (
            ("--steps", 1000, "batches to learn from"),
            ("--block", 64, "characters to look back on"),
            ("--layers", 3, "blocks of attention"), ("--heads", 4, "heads of attention"),
            ("--width", 96, "numbers for a character; a multiple of --heads"),
            ("--write", 400, "characters to write at the end")):
        add(name, type=at_least_one, default=default, help=f"{words} (default: %(default)s)")
    add("--prompt", default="The ", help="what is gone on from (default: %(default)r)")
    add("--temperature", type=positive, default=0.7,
        help="below 1 likelier characters are written more often (default: %(default)s)")
    return parser


def load(path: Path | None) -> str:
    """The text of a file, or of Python's language reference."""
    if path is None:
        return "\n\n".join(pydoc_data.topics.topics.values())
    try:
        return path.read_text("utf8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8, found the byte "
                        f"{error.object[error.start]:#x} at {error.start}: convert it") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def fit(args: argparse.Namespace, text: Text) -> tuple[GPT, dict[str, list[float]], list[int]]:
    """Train; gives the model, the losses in nats a character, and the steps that they are of."""
    lt.manual_seed(args.seed)
    model = GPT(Shape(len(text.characters), args.block, args.layers, args.heads, args.width))
    model.to(args.device)
    optimizer = lt.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    falling = lt.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps + 1)

    @lt.jit
    def learn(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        lt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    @lt.jit
    def test(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        with lt.no_grad():
            return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    held = [part.to(args.device) for part in text.held_out(128)]
    losses: dict[str, list[float]] = {"training": [], "held out": []}
    shown, recent, began = [], [], time.perf_counter()
    for number in bar(range(1, args.steps + 1), "learning"):
        recent.append(learn(*(part.to(args.device) for part in text.batch(args.batch_size))).item())
        falling.step()
        if number == args.steps or number % max(1, args.steps // TESTS) == 0:
            losses["training"].append(float(np.mean(recent)))
            losses["held out"].append(test(*held).item())
            shown.append(number)
            recent.clear()
            print(f"step {number:{len(str(args.steps))}}/{args.steps}  "
                  f"loss {losses['training'][-1]:.4f}  held out {losses['held out'][-1]:.4f}  "
                  f"{time.perf_counter() - began:.1f} s", flush=True)
    return model, losses, shown


def write(model: GPT, text: Text, args: argparse.Namespace) -> tuple[str, float]:
    """What the model writes after the prompt, and how many characters a second."""
    start = [text.numbers[c] for c in args.prompt]
    began = time.perf_counter()
    written = [text.characters[i] for i in sample(
        model, start, args.write, temperature=args.temperature, device=args.device)]
    return args.prompt + "".join(written), args.write / (time.perf_counter() - began)


def prepare(arguments: list[str]) -> tuple[Text, argparse.Namespace, Parser]:
    command = options()
    args = command.begin(arguments)
    if args.width % args.heads:
        command.error(f"argument --width: {args.width} is not a multiple of {args.heads} heads")
    with command.refusing():
        text = Text(load(args.data), args.block, args.seed)
    unknown = [c for c in args.prompt if c not in text.numbers]
    if unknown or not args.prompt:
        command.error(f"argument --prompt: expected one or more characters of the text, found "
                      f"{unknown[0]!r}" if unknown else "argument --prompt: it is empty")
    return text, args, command


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    text, args, command = prepare(arguments)
    with command.refusing():
        model, losses, steps = fit(args, text)
        written, speed = write(model, text, args)
    print(textwrap.indent(written, "    "))
    file, picture = args.output / "model.safetensors", args.output / "gpt.png"
    lt.save_safetensors(model.state_dict(), file)
    figure = Figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_curves(left, losses, title=f"Loss on {len(text.characters)} characters",
                ylabel="cross-entropy (nats a character)", xlabel="step", x=steps)
    right.axis("off")
    lines = [part for line in written.split("\n") for part in textwrap.wrap(
        line, 80, replace_whitespace=False, drop_whitespace=False) or [""]]
    right.text(0, 1, "\n".join(lines).replace("$", r"\$"), family="monospace", fontsize=8, va="top",
               in_layout=False)
    save(figure, picture)
    last = losses["held out"][-1]
    print(f"held-out loss {last:.4f} nats ({last / np.log(2):.3f} bits) a character in "
          f"{time.perf_counter() - began:.1f} s; wrote {speed:,.0f} characters/s; model: {file}; "
          f"picture: {picture}")


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # the text may have what a terminal lacks
    run(main, NAME)
