"""Mixed precision, accumulated gradients and checkpoints: how to train what memory is short for.

    python examples/mixed_precision.py                      bfloat16, all three
    python examples/mixed_precision.py --dtype float16      float16, with a GradScaler
    python examples/mixed_precision.py --dtype float32 --accumulate 1 --no-checkpoint

A transformer looks at handwritten digits as 16 patches. Products are computed in 16 bits, weights
and the loss in float32; a step adds the gradients of several small batches; and blocks keep only
what comes in, and compute the rest again on the way back. What a step's memory is with and without
each is measured, printed and drawn. One digit in five is held out. Needs the extra packages of
lazyten[examples]. The network is that of Dosovitskiy et al., "An image is worth 16x16 words", 2021.
"""
from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from curves import draw_curves, save
from digits import SIZE, Digits, load_embedded
from loop import Epoch, full_batches, predict, train
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from options import Parser, at_least_one, command_line, run

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional as F
from lazyten.testing import peak_bytes
from lazyten.utils.checkpoint import checkpoint
from lazyten.utils.data import TensorDataset

NAME = "mixed_precision.py"
PATCH = 8  # pixels on a side
CLASSES = 10


class Transformer(nn.Module):
    """(n, 1, 32, 32) images -> (n, 10) logits; blocks are checkpointed if `saving`."""

    def __init__(self, layers: int, width: int, heads: int = 4) -> None:
        super().__init__()
        self.saving = False
        self.embed = nn.Conv2d(1, width, PATCH, stride=PATCH)
        self.position = nn.Parameter(0.1 * lt.randn((SIZE // PATCH) ** 2, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True,
                                       norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, CLASSES)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.saving else block(x)
        return self.classify(self.norm(x).mean(1))


class Trainer:
    """A model, its optimizer, and how it learns from pieces of batches."""

    def __init__(self, args: argparse.Namespace, dtype: str, pieces: int, saving: bool) -> None:
        lt.manual_seed(args.seed)
        self.model = Transformer(args.layers, args.width).to(args.device)
        self.model.saving = saving
        self.optimizer = lt.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.pieces, self.seen = pieces, 0
        low = lt.float16 if dtype == "float16" else lt.bfloat16
        self.autocast = lt.autocast(args.device, low, enabled=dtype != "float32")
        self.scaler = lt.amp.GradScaler(args.device, enabled=dtype == "float16")
        self.learn, self.update = lt.jit(self._learn), lt.jit(self._update)

    def piece(self, x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        """Learn from a piece of a batch, the last one of a batch updates; gives the mean loss."""
        loss = self.learn(x, y)
        self.seen += 1
        if self.seen % self.pieces == 0:
            self.update()
        return loss * self.pieces

    def _learn(self, x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        """Add the gradients of a piece to those of the pieces before."""
        with self.autocast:
            loss = F.cross_entropy(self.model(x), y) / self.pieces
        self.scaler.scale(loss).backward()
        return loss.detach()

    def _update(self) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=False)  # the next piece adds to zeros

    def predict(self, x: lt.Tensor) -> lt.Tensor:
        with self.autocast:
            return self.model(x)


def memory(args: argparse.Namespace, data: Digits) -> dict[str, int]:
    """The most bytes in use while a batch is learned, above what was before, of ways to train."""
    ways = {"float32": ("float32", 1, False), args.dtype: (args.dtype, 1, False),
            f"{args.accumulate} pieces": ("float32", args.accumulate, False),
            "checkpoints": ("float32", 1, True), "all three": (args.dtype, args.accumulate, True)}
    peaks = {}
    for name, way in ways.items():
        trainer = Trainer(args, *way)
        lt.realize(*trainer.model.parameters())
        loader = full_batches(tensors(data, args), args.batch_size // trainer.pieces)
        pieces = list(itertools.islice(loader, trainer.pieces))
        peaks[name] = peak_bytes(lambda learn=trainer.piece, pieces=pieces:
                                 [learn(*piece).item() for piece in pieces], device=args.device)
    return peaks


def tensors(data: Digits, args: argparse.Namespace) -> TensorDataset:
    return TensorDataset(*(lt.tensor(values, device=args.device)
                           for values in (data.images, data.labels)))


def fit(args: argparse.Namespace, learned: Digits, tested: Digits) -> tuple[nn.Module, list[Epoch]]:
    trainer = Trainer(args, args.dtype, args.accumulate, args.checkpoint)
    images = lt.tensor(tested.images, device=args.device)
    falling = lt.optim.lr_scheduler.CosineAnnealingLR(trainer.optimizer, args.epochs)

    def test() -> dict[str, float]:
        found = predict(trainer.predict, images)
        return {"accuracy": float(np.mean(found == tested.labels))}

    loader = full_batches(tensors(learned, args), args.batch_size // args.accumulate)
    history = train(args.epochs, loader, trainer.piece, test, schedulers=[falling])
    return trainer.model, history


def draw_memory(axes: Axes, peaks: dict[str, int]) -> None:
    bars = axes.bar(list(peaks), [peak / 2**20 for peak in peaks.values()])
    axes.bar_label(bars, fmt="%.1f")
    axes.set(title="Memory of one step", ylabel="most in use (MiB)")


def options() -> Parser:
    parser = command_line(NAME, "Mixed precision, accumulated gradients and checkpoints.",
                          epochs=16, batch_size=128, lr=2e-3, output="mixed-precision-out",
                          things="digits")
    add = parser.add_argument
    add("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16",
        help="what products are computed in (default: %(default)s)")
    add("--accumulate", type=at_least_one, default=4, metavar="PIECES",
        help="pieces of a batch, whose gradients are added (default: %(default)s)")
    add("--checkpoint", action=argparse.BooleanOptionalAction, default=True,
        help="compute what blocks made again on the way back")
    add("--layers", type=at_least_one, default=4, help="blocks (default: %(default)s)")
    add("--width", type=at_least_one, default=128,
        help="numbers for a patch; a multiple of 4 (default: %(default)s)")
    return parser


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    command = options()
    args = command.begin(arguments)
    if args.batch_size % args.accumulate:
        command.error(f"argument --accumulate: {args.accumulate} pieces do not divide a batch of "
                      f"{args.batch_size} evenly")
    if args.width % 4:
        command.error(f"argument --width: {args.width} is not a multiple of 4, the heads")
    learned, tested = load_embedded()
    with command.refusing():
        full_batches(tensors(learned, args), args.batch_size)
        peaks = memory(args, learned)
        for name, peak in peaks.items():
            print(f"a step's memory, {name + ':':12} {peak / 2**20:6.1f} MiB", flush=True)
        model, history = fit(args, learned, tested)
    file, picture = args.output / "model.safetensors", args.output / "mixed_precision.png"
    lt.save_safetensors(model.state_dict(), file)
    figure = Figure(figsize=(14, 4.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_curves(left, {"training loss": [epoch.loss for epoch in history]}, title="Loss",
                ylabel="cross-entropy (nats)")
    draw_curves(middle, {"held-out digits": [100 * e.tested["accuracy"] for e in history]},
                title="Accuracy", ylabel="right answers (%)")
    draw_memory(right, peaks)
    save(figure, picture)
    print(f"held-out accuracy {history[-1].tested['accuracy']:.2%} in "
          f"{time.perf_counter() - began:.1f} s; model: {file}; picture: {picture}")


if __name__ == "__main__":
    run(main, NAME)
