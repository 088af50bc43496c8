"""A function at sizes that vary: `python -m benchmarks.dynamic_shapes [--torch]`.

For each case: the seconds of all first calls at some sizes, with a jitted function for all of them
(`dynamic`), with one that is compiled for each (`static`); how many kernels each compiled; and the
milliseconds of a later call at some of the sizes, the fastest of several, dynamic, static, and
PyTorch's eager if asked for.
"""
from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import lazyten as lt
from lazyten.support import observers
from lazyten.support.observers import Observer, Span

SIZES = (200, 77, 130, 512, 64, 301, 33, 450, 256, 19, 100, 411, 350, 97, 222, 83)
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


CASES = {"perceptron": perceptron, "attention": attention, "convolutions": convolutions}


def fastest(call: Callable[[], object]) -> float:
    """Milliseconds of the fastest call."""
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def first_calls(step: Step, batches: Sequence[tuple[Any, ...]]) -> tuple[float, int]:
    """Seconds of a call at each size, and kernels that were compiled for them."""
    compiled = Compiled()
    start = time.perf_counter()
    with observers.told(compiled):
        for batch in batches:
            step(*batch).numpy()
    return time.perf_counter() - start, compiled.kernels


def lines(name: str, with_torch: bool) -> Iterator[str]:
    """What is to be told of a case."""
    calls: dict[str, Step] = {}
    batches: dict[str, dict[int, tuple[Any, ...]]] = {}
    for which in ("dynamic", "static"):
        lt.manual_seed(0)
        step, batch, dims = CASES[name](lt)
        calls[which] = lt.jit(step, dynamic=dims if which == "dynamic" else None)
        batches[which] = {n: batch(n) for n in SIZES}
        for given in batches[which].values():
            lt.realize(*given)
        seconds, kernels = first_calls(calls[which], [batches[which][n] for n in SIZES])
        yield f"{name}, {which}: {len(SIZES)} sizes in {seconds:.2f} s, {kernels} kernels compiled"
    if with_torch:
        torch = import_module("torch")
        calls["torch"], batch, _ = CASES[name](torch)
        batches["torch"] = {n: batch(n) for n in SIZES}
    for n in TIMED:
        found: dict[str, float] = {}
        for _ in range(REPEATS):
            for which, step in calls.items():
                given = batches[which][n]

                def call(step: Step = step, given: tuple[Any, ...] = given) -> object:
                    return step(*given).numpy()
                found[which] = min(found.get(which, float("inf")), fastest(call))
        yield f"  size {n}: " + ", ".join(f"{which} {ms:.3f} ms" for which, ms in found.items()) \
            + f"; {found['dynamic'] / found['static']:.2f} of static"


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
