"""A variational autoencoder of handwritten digits: it learns to compress them and to draw new ones.

    python examples/vae.py               digits of 8x8 pixels that come with the example
    python examples/vae.py --latent 2    a code of two numbers: the picture then shows their map

Each pixel counts the inked dots of a block of 4x4, so what the decoder gives is the probability of
ink, and a pixel is binomial: the bound is of a probability of the very numbers in the file. One
digit in five is held out. Needs the extra packages of lazyten[examples]. The model is that of
Kingma and Welling, "Auto-encoding variational Bayes", 2014.
"""
from __future__ import annotations

import argparse
import time

import numpy as np
from curves import draw_curves, draw_image, save
from digits import BRIGHTEST, EMBEDDED, split
from loop import Epoch, full_batches, train
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray
from options import Parser, at_least_one, command_line, run

import lazyten as lt
from lazyten import nn
from lazyten.distributions import Binomial, Independent, Normal, kl_divergence
from lazyten.utils.data import TensorDataset

NAME = "vae.py"
SIDE = 8
PIXELS = SIDE * SIDE
SHOWN = 10  # digits in a row of the picture


class VAE(nn.Module):
    """Counts of ink (n, 64) -> how a code is distributed -> how the counts are."""

    def __init__(self, latent: int, width: int = 256) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(PIXELS, width), nn.ReLU(), nn.Dropout(0.1),
                                     nn.Linear(width, width), nn.ReLU(),
                                     nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Dropout(0.1),
                                     nn.Linear(width, width), nn.ReLU(), nn.Linear(width, PIXELS))

    def encode(self, x: lt.Tensor) -> Independent:
        mean, log_variance = self.encoder(x / (BRIGHTEST / 2) - 1).chunk(2, 1)
        return Independent(Normal(mean, (0.5 * log_variance).exp(), validate_args=False), 1)

    def decode(self, code: lt.Tensor) -> Independent:
        return Independent(Binomial(BRIGHTEST, logits=self.decoder(code), validate_args=False), 1)

    def forward(self, x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        """What the counts and what the code cost, each (n,) and in nats: their sum is the bound."""
        posterior = self.encode(x)
        zero = lt.zeros(len(x), self.latent, device=x.device)
        prior = Independent(Normal(zero, zero + 1, validate_args=False), 1)
        return -self.decode(posterior.rsample()).log_prob(x), kl_divergence(posterior, prior)


def load() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Counts 0..16 of ink, (n, 64): to train on, and to test with."""
    with np.load(EMBEDDED) as file:
        counts = file["images"].reshape(-1, PIXELS).astype(np.float32)
        learned, tested = split(file["labels"].astype(np.int64))
    return counts[learned], counts[tested]


def fit(args: argparse.Namespace, learned: NDArray[np.float32],
        held: lt.Tensor) -> tuple[VAE, list[Epoch]]:
    lt.manual_seed(args.seed)
    model = VAE(args.latent).to(args.device)
    optimizer = lt.optim.Adam(model.parameters(), lr=args.lr)
    data = TensorDataset(lt.tensor(learned, device=args.device))
    falling = lt.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=args.epochs)

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        model.train()
        optimizer.zero_grad()
        pixels, code = model(x)
        loss = (pixels + code).mean()
        loss.backward()
        optimizer.step()
        return loss

    @lt.jit
    def bound(x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        with lt.no_grad():
            pixels, code = model.eval()(x)
            return pixels.mean(), code.mean()

    def test() -> dict[str, float]:
        pixels, code = (part.item() for part in bound(held))
        return {"bound": pixels + code, "pixels": pixels, "code": code}

    loader = full_batches(data, args.batch_size)
    return model, train(args.epochs, loader, step, test, schedulers=[falling])


def draw_rows(figure: SubFigure, title: str, rows: NDArray[np.float32]) -> None:
    """Rows of digits (r, c, 64) of ink between 0 and 1."""
    figure.suptitle(title)
    for axes, image in zip(figure.subplots(*rows.shape[:2]).flat, rows.reshape(-1, SIDE, SIDE),
                           strict=True):
        draw_image(axes, image)


def new_digits(model: VAE, device: str) -> tuple[str, NDArray[np.float32]]:
    """Drawn from random codes; with two numbers a code, over a map of likely ones."""
    lines = SHOWN // 2 + 1
    if model.latent == 2:
        title = "What the decoder draws over the map of codes"
        likely = [Normal(0.0, 1.0).icdf(lt.linspace(0.05, 0.95, count)).numpy()
                  for count in (SHOWN, lines)]
        codes = lt.tensor(np.stack(np.meshgrid(*likely), -1).reshape(-1, 2))
    else:
        title = "What the decoder draws from random codes"
        codes = lt.randn(lines * SHOWN, model.latent)
    with lt.no_grad():
        ink = model.decode(codes.to(device)).mean / BRIGHTEST
    return title, ink.numpy().reshape(lines, SHOWN, PIXELS)


def draw(model: VAE, history: list[Epoch], held: lt.Tensor, device: str) -> Figure:
    with lt.no_grad():
        shown = held[:: len(held) // SHOWN][:SHOWN]  # they are sorted by class
        again = model.decode(model.encode(shown).mean).mean
    figure = Figure(figsize=(15, 5.5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    draw_curves(left.subplots(), {"training": [epoch.loss for epoch in history],
                                  "held out": [epoch.tested["bound"] for epoch in history]},
                title="Bound of the negative log-likelihood", ylabel="nats a digit")
    above, below = right.subfigures(2, 1, height_ratios=(1, 2.4))
    draw_rows(above, "Held-out digits, and what is left of them in their codes",
              np.stack([shown.numpy(), again.numpy()]) / BRIGHTEST)
    draw_rows(below, *new_digits(model, device))
    return figure


def options() -> Parser:
    parser = command_line(NAME, "A variational autoencoder of handwritten digits.", epochs=100,
                          batch_size=64, lr=2e-3, output="vae-out", things="digits")
    parser.add_argument("--latent", type=at_least_one, default=8,
                        help="numbers in a code (default: %(default)s)")
    return parser


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    command = options()
    args = command.begin(arguments)
    learned, tested = load()
    with command.refusing():
        held = lt.tensor(tested, device=args.device)
        model, history = fit(args, learned, held)
    model.eval()
    file, picture = args.output / "model.safetensors", args.output / "vae.png"
    lt.save_safetensors(model.state_dict(), file)
    save(draw(model, history, held, args.device), picture)
    bound = history[-1].tested["bound"]
    print(f"held-out bound {bound:.2f} nats ({bound / np.log(2) / PIXELS:.3f} bits a pixel) in "
          f"{time.perf_counter() - began:.1f} s; model: {file}; picture: {picture}")


if __name__ == "__main__":
    run(main, NAME)
