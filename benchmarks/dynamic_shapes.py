"""A function at sizes that vary: `python -m benchmarks.dynamic_shapes [--torch]`.

For each case and way to call it: the seconds of first calls at some sizes, the milliseconds of a
first call at further sizes, and how many kernels were compiled. Ways: `dynamic`, a jitted function
that was told which axes vary; `jit`, one that was not; `eager`, without lt.jit; `own`, a jitted
function that forgets at each size what it knows of others; PyTorch's eager if asked for. Then the
milliseconds of a later call at some of the sizes, the fastest of several.
"""
from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import lazyten as lt
from lazyten.execution.plans.varying import forget_families
from lazyten.support import observers
from lazyten.support.observers import Observer, Span

SIZES = (200, 77, 130, 512, 64, 301, 33, 450, 256, 19, 100, 411, 350, 97, 222, 83)
FURTHER = (71, 140, 333, 280, 500, 150, 99, 47, 399, 205, 444, 180, 61, 311, 260, 122)
TIMED = (64, 97, 256, 411)
REPEATS, SECONDS = 5, 0.3
Step = Callable[..., Any]
Case = tuple[Step, Callable[[int], tuple[Any, ...]], dict[str, dict[int, lt.Dim]]]


class Compiled(Observer):
    """How many kernels were compiled."""

    def __init__(self) -> None:
        self.kernels = 0

    def compiled(self, names: str, span: Span) -> None:
        self.kernels += len(names.split(", "))


def perceptron(torch: Any) -> Case:
    """A training step of a perceptron with batches of any size."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    dim = lt.Dim("batch", 1, 512)
    return (step, lambda n: (torch.rand(n, 256), torch.randint(0, 64, (n,))),
            {"x": {0: dim}, "y": {0: dim}})


def attention(torch: Any) -> Case:
    """Causal attention over sequences of any length, forward."""
    nn = torch.nn
    mixing, out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(x: Any) -> Any:
        with torch.no_grad():
            b, t, c = x.shape
            q, k, v = mixing(x).reshape(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return out(y.transpose(1, 2).reshape(b, t, c))
    return forward, lambda n: (torch.rand(4, n, 64),), {"x": {1: lt.Dim("time", 1, 512)}}


def convolutions(torch: Any) -> Case:
    """A convolutional network with batches of any size, forward."""
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
                        nn.Linear(1024, 10))

    def forward(x: Any) -> Any:
        with torch.no_grad():
            return net(x)
    return forward, lambda n: (torch.rand(n, 3, 16, 16),), {"x": {0: lt.Dim("batch", 1, 512)}}


def generation(torch: Any) -> Case:
    """A transformer of two layers that reads a text of any length, forward."""
    nn = torch.nn
    tokens, out = nn.Embedding(65, 64), nn.Linear(64, 65)
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(x: Any) -> Any:
        with torch.no_grad():
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return out(net(tokens(x), mask=mask, is_causal=True))[:, -1].argmax(-1)
    return forward, lambda n: (torch.randint(0, 65, (1, n)),), {"x": {1: lt.Dim("time", 1, 512)}}


CASES = {"perceptron": perceptron, "attention": attention, "convolutions": convolutions,
         "generation": generation}


def fastest(call: Callable[[], object]) -> float:
    """Milliseconds of the fastest call."""
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def first_calls(step: Step, batches: Sequence[tuple[Any, ...]], forgets: bool) -> float:
    """Seconds of a call at each size."""
    start = time.perf_counter()
    for batch in batches:
        if forgets:
            forget_families()
        step(*batch).numpy()
    return time.perf_counter() - start


def worker(name: str, way: str, asked: Connection) -> None:
    """A process of its own for a way, so that none finds what others have compiled. It sends what
    first calls took, and then, for each size that is asked for, what a later call does."""
    torch = import_module("torch") if way == "torch" else lt
    torch.manual_seed(0)
    step, batch, dims = CASES[name](torch)
    call = step if way in ("eager", "torch") else lt.jit(
        step, dynamic=dims if way == "dynamic" else None)
    batches = {n: batch(n) for n in (*SIZES, *FURTHER)}
    if way != "torch":
        lt.realize(*(x for given in batches.values() for x in given))
    with observers.told(compiled := Compiled()):
        seconds = [first_calls(call, [batches[n] for n in sizes], way == "own")
                   for sizes in (SIZES, FURTHER)]
    asked.send((*seconds, compiled.kernels))
    while n := asked.recv():
        asked.send(fastest(lambda given=batches[n]: call(*given).numpy()))  # type: ignore[misc]


def lines(name: str, with_torch: bool) -> Iterator[str]:
    """What is to be told of a case."""
    workers: dict[str, Connection] = {}
    start = get_context("spawn")
    for way in ("dynamic", "jit", "eager", "own", *(["torch"] if with_torch else [])):
        workers[way], theirs = start.Pipe()
        start.Process(target=worker, args=(name, way, theirs), daemon=True).start()
        first, further, kernels = workers[way].recv()
        yield (f"{name}, {way}: {len(SIZES)} sizes in {first:.2f} s, then "
               f"{further / len(FURTHER) * 1e3:.1f} ms a size; {kernels} kernels compiled")
    for n in TIMED:
        found: dict[str, float] = {}
        for _ in range(REPEATS):
            for way, asked in workers.items():
                asked.send(n)
                found[way] = min(found.get(way, float("inf")), asked.recv())
        yield f"  size {n}: " + ", ".join(f"{way} {ms:.3f} ms" for way, ms in found.items()) \
            + f"; dynamic {found['dynamic'] / found['own']:.2f} of own"
    for asked in workers.values():
        asked.send(0)


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--torch", action="store_true", help="PyTorch's eager besides")
    given = parser.parse_args()
    for name in given.cases or CASES:
        for line in lines(name, given.torch):
            print(line, flush=True)


if __name__ == "__main__":
    main()
