"""LeNet where there is no Python: trained and used from C, and in a web page.

    python examples/deploy.py                  programs in deploy-out, and a page to draw on

An epoch of training steps runs in C, with the losses that Python has; then Python trains on, and
writes the network as C (for `classify`, with the test images) and as a module of WebAssembly, in
one HTML file: open deploy-out/digit.html and draw a digit with the mouse.

Needs the extra packages of lazyten[examples], and for what is in C a C compiler, `cc` or CC.
"""
from __future__ import annotations

import argparse
import base64
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from digits import Digits, load_embedded, shifted
from lenet import SHIFT, lenet
from loop import bar
from numpy.typing import NDArray
from options import Parser, command_line, run

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional

NAME = "deploy.py"
SOURCES = Path(__file__).parent / "deploy"
BLOCK = 4  # a pixel of the data counts the ink of so many rows and columns of a scan
Batch = tuple[NDArray[np.float32], NDArray[np.int64]]
Step = Callable[[lt.Tensor, lt.Tensor], lt.Tensor]


class Page(nn.Module):
    """From a drawing of 32 x 32 numbers to probabilities, by way of images like those of the data:
    blocks of 4 x 4 become a pixel, and pixels 4 x 4 again."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, drawing: lt.Tensor) -> lt.Tensor:
        """(1, 1, 32, 32) -> (1, 10)."""
        small = functional.avg_pool2d(drawing, BLOCK)
        return self.network(functional.interpolate(
            small, scale_factor=BLOCK, mode="bilinear")).softmax(1)


def training_step(model: nn.Module, optimizer: lt.optim.Optimizer) -> Step:
    """The function that learns from a batch; gives the loss."""
    def step(images: lt.Tensor, labels: lt.Tensor) -> lt.Tensor:
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return step


def batches(digits: Digits, size: int, random: np.random.Generator) -> list[Batch]:
    """An epoch in a new order, each image moved a little; what fills no batch is left out."""
    order = random.permutation(len(digits))
    parts = [order[i:i + size] for i in range(0, len(order) - size + 1, size)]
    return [(shifted(digits.images[p], SHIFT, random), digits.labels[p]) for p in parts]


def tensors(batch: Batch, device: str) -> list[lt.Tensor]:
    """The images and the labels on a device."""
    return [lt.tensor(array, device=device) for array in batch]


def built(name: str, program: str, folder: Path) -> list[str] | None:
    """A program of SOURCES with an exported one, compiled: its command. None without a compiler."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        return None
    made = folder / name
    files = [SOURCES / f"{name}.c", folder / f"{program}.c"]
    subprocess.run([*compiler, "-O2", "-s", f"-I{folder}", "-o", made, *files, "-lm"], check=True)
    return [str(made.resolve())]


def output_of(command: list[str]) -> NDArray[np.float64]:
    """The numbers that a program prints."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return np.array(done.stdout.split(), np.float64)


def train_in_c(step: Step, epoch: list[Batch], folder: Path, device: str) -> None:
    """The step as a program, and an epoch of it in C, beside the same in Python."""
    made = lt.export(step, tensors(epoch[0], device), folder / "step.c", output_names=["loss"])
    print(f"step.c: {made.state_bytes:,} bytes of state, {made.workspace_bytes:,} of workspace")
    data = folder / "batches.bin"
    data.write_bytes(b"".join(array.tobytes() for batch in epoch for array in batch))
    command = built("train", "step", folder)
    losses = [step(*tensors(batch, device)).item() for batch in bar(epoch, "an epoch")]
    if command is None:
        print("there is no C compiler: step.c is not tried")
        return
    found = output_of([*command, str(data)])
    print(f"train: {len(found)} steps in C, loss {found[0]:.4f} -> {found[-1]:.4f}; Python's "
          f"differ by at most {np.abs(found - losses).max():.1g}")


def classify_in_c(model: nn.Module, test: Digits, folder: Path, device: str) -> None:
    """The network as a program, and what it says of the test images."""
    image = lt.tensor(test.images[:1], device=device)
    lt.export(model, image, folder / "lenet.c", input_names=["image"], output_names=["scores"])
    data = folder / "images.bin"
    data.write_bytes(test.images.tobytes())
    command = built("classify", "lenet", folder)
    if command is None:
        print("there is no C compiler: lenet.c is not tried")
        return
    right = np.mean(output_of([*command, str(data)]) == test.labels)
    size = os.path.getsize(command[0])
    print(f"classify: {size:,} bytes, {right:.2%} of {len(test)} test images")


def write_page(model: nn.Module, folder: Path, device: str) -> Path:
    """The page with the network in it."""
    drawing = lt.zeros(1, 1, 32, 32, device=device)
    made = lt.export(Page(model).eval(), drawing, folder / "digit.wasm",
                     output_names=["probabilities"])
    module = base64.b64encode(made.files[0].read_bytes()).decode()
    page = folder / "digit.html"
    text = (SOURCES / "page.html").read_text("utf8")
    page.write_text(text.replace("@MODULE@", module), "utf8")
    return page


def options() -> Parser:
    return command_line(NAME, "LeNet from C and in a web page.", batch_size=64, lr=3e-3, epochs=20,
                        output="deploy-out", things="images")


def deploy(args: argparse.Namespace, train: Digits, test: Digits) -> None:
    """Train, and write all programs."""
    lt.manual_seed(args.seed)
    random = np.random.default_rng(args.seed)
    model = lenet().to(args.device)
    optimizer = lt.optim.Adam(model.parameters(), lr=args.lr)
    step = training_step(model, optimizer)
    train_in_c(step, batches(train, args.batch_size, random), args.output, args.device)
    learn = lt.jit(step)
    for number in bar(range(1, args.epochs), "training on"):
        optimizer.param_groups[0]["lr"] = args.lr * (1 - number / args.epochs)
        for batch in batches(train, args.batch_size, random):
            learn(*tensors(batch, args.device))
    model.eval()
    classify_in_c(model, test, args.output, args.device)
    print(f"page: {write_page(model, args.output, args.device)}")


def main(arguments: list[str]) -> None:
    command = options()
    args = command.begin(arguments)
    train, test = load_embedded()
    if args.batch_size > len(train):
        command.error(f"argument --batch-size: only {len(train):,} images to train on")
    with command.refusing():
        deploy(args, train, test)


if __name__ == "__main__":
    run(main, NAME)
