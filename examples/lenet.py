"""Train LeNet-5 on handwritten digits, show how it learns, and save the model and a picture.

    python examples/lenet.py                    1,797 small digits that come with the example
    python examples/lenet.py --mnist DIR        MNIST, from its four original files in DIR
    python examples/lenet.py --dtype bfloat16   mixed precision: convolutions and products in
                                                bfloat16, weights and the loss in float32
    mpiexec -n 2 python examples/lenet.py --distributed
                                                the same training, by two processes: each has a
                                                half of every batch (needs lazyten[distributed])

Needs the extra packages of lazyten[examples]: tqdm, matplotlib, safetensors. The network is that of
LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998,
with ReLU and max pooling in place of the original's sigmoids and averages.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from digits import Digits, load_embedded, load_mnist, shifted
from numpy.typing import NDArray
from options import Parser, at_least_one, command_line, run
from pictures import Epoch, save_pictures
from tqdm import tqdm

import lazyten as lt
from lazyten import nn

EPOCHS, MNIST_EPOCHS = 40, 10  # MNIST has 40 times as many images
SHIFT = 2  # each training image is moved by up to so many pixels each way, anew in every epoch
TEST_BATCH = 1000


def lenet() -> nn.Sequential:
    """LeNet-5: (n, 1, 32, 32) images -> (n, 10) logits."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),   # (n,  6, 14, 14)
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),  # (n, 16,  5,  5)
        nn.Flatten(),                                     # (n, 400)
        nn.Linear(400, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10))


class Trainer:
    """A network, its optimizer, and the digits to train on and to test with."""

    def __init__(self, train: Digits, test: Digits, args: argparse.Namespace) -> None:
        lt.manual_seed(args.seed)
        self.random = np.random.default_rng(args.seed)
        self.train, self.test = train, test
        self.device, self.batch_size = args.device, args.batch_size
        self.epochs, self.rate = args.epochs, args.lr
        self.model = lenet().to(self.device)
        self.rank, self.size = (lt.distributed.rank(), lt.distributed.size()) \
            if args.distributed else (0, 1)
        self.trained = nn.parallel.DistributedDataParallel(self.model) if args.distributed \
            else self.model
        self.optimizer = lt.optim.Adam(self.model.parameters(), lr=args.lr)
        self.autocast = lt.autocast(self.device, lt.bfloat16, enabled=args.dtype == "bfloat16")
        self.learn = lt.jit(self._learn)  # recorded once, then one native call a step

    def epoch(self, number: int, title: str) -> Epoch:
        """See every image once, in a new order, then test. The first epoch has number 0.

        Every step has the same shape, so it is compiled once: the last images of the order, if
        they do not fill a batch, wait for the next epoch.
        """
        for group in self.optimizer.param_groups:  # smaller and smaller steps, for a steady end
            group["lr"] = self.rate * (1 - number / self.epochs)
        order = self.random.permutation(len(self.train))
        starts = range(0, len(order) - self.batch_size + 1, self.batch_size)
        seen = len(starts) * self.batch_size
        loss_sum, right, began = 0.0, 0, time.perf_counter()
        with tqdm(total=seen, desc=title, unit=" images", leave=False,
                  disable=None if self.rank == 0 else True) as bar:
            for start in starts:
                loss, hits = self.step(order[start:start + self.batch_size])
                loss_sum += loss
                right += hits
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update(self.batch_size)
        rate = seen / (time.perf_counter() - began)
        test_accuracy = float(np.mean(self.predict() == self.test.labels))
        return Epoch(loss_sum / len(starts), right / seen, test_accuracy, rate)

    def step(self, batch: NDArray[np.intp]) -> tuple[float, int]:
        """Learn from the images at these positions; gives the mean loss and how many were right."""
        part = slice(self.rank, None, self.size)  # of several processes each has its own
        images = shifted(self.train.images[batch], SHIFT, self.random)[part]
        labels = self.train.labels[batch][part]
        loss, right = self.learn(lt.tensor(images, device=self.device),
                                 lt.tensor(labels, device=self.device))
        return loss.item(), right.item()

    def _learn(self, images: lt.Tensor, labels: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        """One step of training: the loss before it, and how many predictions were right."""
        with self.autocast:
            logits = self.trained(images)
            loss = nn.functional.cross_entropy(logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        right = (logits.argmax(1) == labels).sum()
        if self.size > 1:
            every = lt.distributed.functional.all_reduce
            return every(loss.detach(), "mean"), every(right)
        return loss, right

    def predict(self) -> NDArray[np.int64]:
        """The network's label for each test image."""
        count = len(self.test)
        size = min(TEST_BATCH, count)
        predicted = np.empty(count, np.int64)
        with lt.no_grad(), self.autocast:
            for start in range(0, count, size):
                part = slice(min(start, count - size), min(start + size, count))  # always full
                logits = self.model(lt.tensor(self.test.images[part], device=self.device))
                predicted[part] = logits.argmax(1).numpy()
        return predicted


def options() -> Parser:
    """All options; the defaults reach 99 % on the digits that come with the example."""
    parser = command_line("lenet.py", "Train LeNet-5 on handwritten digits.", batch_size=64,
                          lr=3e-3, output="lenet-out", things="images")
    parser.add_argument("--epochs", type=at_least_one, help="passes over the training images "
                        f"(default: {EPOCHS}, or {MNIST_EPOCHS} with --mnist)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32",
        help="what products are computed in; the rest is float32 (default: %(default)s)")
    parser.add_argument("--distributed", action="store_true",
        help="train with the other processes that mpiexec or srun has started")
    parser.add_argument("--mnist", type=Path, metavar="DIR",
        help="train on MNIST instead: the folder with train-images-idx3-ubyte and the other three "
             "files, plain or .gz")
    return parser


def prepare(arguments: list[str]) -> tuple[Trainer, argparse.Namespace]:
    """A trainer and the options, or one line of error on stderr and exit code 2."""
    command = options()
    args = command.parse_args(arguments)
    if args.epochs is None:
        args.epochs = MNIST_EPOCHS if args.mnist else EPOCHS
    with command.refusing():
        train, test = load_mnist(args.mnist) if args.mnist else load_embedded()
        if args.batch_size > len(train):
            command.error(f"argument --batch-size: only {len(train):,} images to train on")
        if args.distributed:
            lt.distributed.init()
            if args.batch_size % lt.distributed.size():
                command.error(f"argument --batch-size: {args.batch_size} images cannot be shared "
                              f"evenly by {lt.distributed.size()} processes")
        trainer = Trainer(train, test, args)
    command.make_folder(args.output)
    return trainer, args


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    trainer, args = prepare(arguments)
    history = []
    for number in range(args.epochs):
        title = f"epoch {number + 1:{len(str(args.epochs))}}/{args.epochs}"
        history.append(epoch := trainer.epoch(number, title))
        if trainer.rank > 0:
            continue
        print(f"{title}  loss {epoch.loss:.4f}  train {epoch.train_accuracy:.2%}  "
              f"test {epoch.test_accuracy:.2%}  {epoch.images_per_second:,.0f} images/s",
              flush=True)
    if trainer.rank > 0:
        return
    model, picture = args.output / "lenet.safetensors", args.output / "lenet.png"
    lt.save_safetensors(trainer.model.state_dict(), model)
    save_pictures(picture, history, trainer.test, trainer.predict())
    print(f"test accuracy {history[-1].test_accuracy:.2%} in {time.perf_counter() - began:.1f} s; "
          f"model: {model}; pictures: {picture}")


if __name__ == "__main__":
    run(main, "lenet.py")
