"""What is neither a product nor a network, beside PyTorch: `python -m benchmarks.kernels`.

Scans, sorting, searching, greatest divisors, sums at places, pads, copies, pooling, transforms,
many small matrices. lazyten's are jitted. Both run in one process by turns, on one thread, and a
time is the processor's, the least of SECONDS a row, in microseconds. Results are compared first.

    python -m benchmarks.kernels 'sort|gcd'         # rows whose names a pattern is found in
    python -m benchmarks.kernels --threads 2        # then times are the clock's
"""
from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

import lazyten as lt
from lazyten.nn import functional

SECONDS = 0.5
LEAST_ROUNDS = 5
MI = 1_000_000
SQUARE = (1000, 1000)
IMAGES = (16, 64, 56, 56)
Array = np.ndarray[Any, Any]


class Row(NamedTuple):
    """run: of a framework's module, its functions of networks, and tensors of `inputs`."""

    name: str
    run: Callable[..., Any]
    inputs: tuple[Array, ...]


class Inputs:
    """Random arrays, the same in each run."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def floats(self, *shape: int) -> Array:
        """Normally distributed float32."""
        return self.random.standard_normal(shape, np.float32)

    def integers(self, below: int, *shape: int) -> Array:
        """int64 from 0."""
        return self.random.integers(0, below, shape)

    def positive(self, *shape: int) -> Array:
        """Positive definite matrices of float32."""
        x = self.floats(*shape)
        return x @ x.swapaxes(-1, -2) + 4 * np.eye(shape[-1], dtype=np.float32)


def scans(given: Inputs) -> Iterator[Row]:
    """Each element from those up to it."""
    x = given.floats(*SQUARE)
    yield Row("cummax 1000x1000, last axis", lambda m, f, x: m.cummax(x, 1), (x,))
    yield Row("cummax 1000x1000, first axis", lambda m, f, x: m.cummax(x, 0), (x,))
    yield Row("cumsum 1000x1000", lambda m, f, x: m.cumsum(x, 1), (x,))
    yield Row("cumsum 1000x1000 of int64", lambda m, f, x: m.cumsum(x, 1),
              (given.integers(100, *SQUARE),))
    yield Row("cumsum 10^6 of bool", lambda m, f, x: m.cumsum(x, 0),
              (given.integers(2, MI).astype(bool),))
    yield Row("logcumsumexp 1000x1000", lambda m, f, x: m.logcumsumexp(x, 1), (x,))


def orders(given: Inputs) -> Iterator[Row]:
    """Sorting, and what comes first."""
    for shape in ((MI,), SQUARE):
        size = "x".join(map(str, shape)) if len(shape) > 1 else "10^6"
        yield Row(f"sort {size}", lambda m, f, x: m.sort(x, stable=True), (given.floats(*shape),))
        yield Row(f"sort {size} of int64", lambda m, f, x: m.sort(x, stable=True),
                  (given.integers(1 << 40, *shape),))
        yield Row(f"topk {size}, 10", lambda m, f, x: m.topk(x, 10), (given.floats(*shape),))


def integers(given: Inputs) -> Iterator[Row]:
    """Greatest divisors, and sums at places."""
    x, y = (given.integers(1 << 40, MI) for _ in range(2))
    yield Row("gcd 10^6 of int64", lambda m, f, x, y: m.gcd(x, y), (x, y))
    yield Row("gcd 10^6 of int32", lambda m, f, x, y: m.gcd(x, y),
              (x.astype(np.int32), y.astype(np.int32)))
    yield Row("scatter_add 10^6 to 1000",
              lambda m, f, x, at: m.zeros(1000).scatter_add(0, at, x),
              (given.floats(MI), given.integers(1000, MI)))
    yield Row("bincount 10^6", lambda m, f, x: m.bincount(x), (given.integers(1000, MI),))


def copies(given: Inputs) -> Iterator[Row]:
    """Pads and repetitions."""
    x = given.floats(*IMAGES)
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield Row(f"pad {mode} 16x64x56x56 by 2",
                  lambda m, f, x, mode=mode: f.pad(x, (2, 2, 2, 2), mode=mode), (x,))
    yield Row("tile 256x256, 4x4", lambda m, f, x: m.tile(x, (4, 4)), (given.floats(256, 256),))
    yield Row("repeat_interleave 10^5, 8", lambda m, f, x: m.repeat_interleave(x, 8),
              (given.floats(MI // 10),))


def pools(given: Inputs) -> Iterator[Row]:
    """Windows that share an image out."""
    for size in (56, 50):
        for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
            yield Row(f"{name} 16x64x{size}x{size} to 7",
                      lambda m, f, x, name=name: getattr(f, name)(x, 7),
                      (given.floats(16, 64, size, size),))


def others(given: Inputs) -> Iterator[Row]:
    """Transforms, matrices, and activations."""
    yield Row("rfft 256x1024", lambda m, f, x: m.view_as_real(m.fft.rfft(x)),
              (given.floats(256, 1024),))
    yield Row("cholesky 1000x4x4", lambda m, f, x: m.linalg.cholesky(x),
              (given.positive(1000, 4, 4),))
    yield Row("inv 1000x4x4", lambda m, f, x: m.linalg.inv(x), (given.positive(1000, 4, 4),))
    yield Row("gelu 10^6", lambda m, f, x: f.gelu(x), (given.floats(MI),))


def rows() -> Iterator[Row]:
    """All rows."""
    given = Inputs()
    for kind in (scans, orders, integers, copies, pools, others):
        yield from kind(given)


def measured(row: Row, clock: Callable[[], float], seconds: float) -> tuple[float, float]:
    """The least time of a call of lazyten and of PyTorch, by turns for `seconds`, in us."""
    import torch
    function = row.run  # not the row, whose arrays lt.jit would look through in each call
    run = lt.jit(lambda *inputs: function(lt, functional, *inputs))
    ours = [lt.tensor(x) for x in row.inputs]
    lt.realize(*ours)
    theirs = [torch.from_numpy(x) for x in row.inputs]
    calls: list[Callable[[], Any]] = [
        lambda: run(*ours), lambda: function(torch, torch.nn.functional, *theirs)]
    check(row.name, *(call() for call in calls))
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < LEAST_ROUNDS or time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start = clock()
            call()
            taken.append(clock() - start)
    return min(times[0]) * 1e6, min(times[1]) * 1e6


def check(name: str, ours: Any, theirs: Any) -> None:
    """AssertionError where results differ by more than rounding."""
    pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-3, 1e-3, err_msg=name)


def main(given_rows: Iterable[Row], words: str | None, width: int, seconds: float) -> None:
    """Print the table of these rows, `words` being the help. A row that fails is told of."""
    import torch
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("pattern", nargs="?", default="", help="rows whose names it is found in")
    parser.add_argument("--threads", type=int, default=1, help="for both (default: 1)")
    parser.add_argument("--worse", type=float, default=0, help="print rows of this ratio and up")
    given = parser.parse_args()
    lt.set_num_threads(given.threads)
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.threads == 1 else time.perf_counter
    print(f"{'least us':{width}}{'lazyten':>10}{'torch':>10}{'ratio':>8}")
    for row in given_rows:
        if re.search(given.pattern, row.name):
            try:
                ours, theirs = measured(row, clock, seconds)
            except Exception as error:
                print(f"{row.name:{width}} {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            if ours >= given.worse * theirs:
                print(f"{row.name:{width}}{ours:10.0f}{theirs:10.0f}{ours / theirs:8.2f}",
                      flush=True)


if __name__ == "__main__":
    main(rows(), __doc__, 36, SECONDS)
