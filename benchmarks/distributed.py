"""Times collectives beside raw mpi4py, and a step of LeNet: `mpiexec -n 2 python -m
benchmarks.distributed`, with LAZYTEN_NUM_THREADS=1 for a core a rank.

For each size: microseconds of an all_reduce of float32 by mpi4py (Iallreduce, and Test until it is
there, on NumPy arrays), and in a jitted function, whose call it is all of; the median of rounds in
turns. Then the milliseconds of a jitted step of LeNet, with one batch for all ranks together.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import lazyten as lt
from benchmarks.nets import lenet
from lazyten import distributed as dist
from lazyten import nn

ROUNDS, TURN = 15, 20
SIZES = (1, 1_000, 100_000, 1_000_000, 4_000_000)
STEPS = 30


def raw(count: int) -> Callable[[], object]:
    """An all_reduce of so many numbers by mpi4py."""
    from mpi4py import MPI
    sent, received = np.ones(count, np.float32), np.empty(count, np.float32)

    def call() -> None:
        request = MPI.COMM_WORLD.Iallreduce(sent, received, MPI.SUM)
        while not request.Test():
            pass
    return call


def jitted(count: int) -> Callable[[], object]:
    """The same by lazyten."""
    x, reduce = lt.ones(count).realize(), lt.jit(dist.functional.all_reduce)

    def call() -> None:
        lt.realize(reduce(x))
    return call


def microseconds(calls: list[Callable[[], object]], turn: int,
                  pick: Callable[[list[float]], float] = statistics.median) -> list[float]:
    """The median of each, in turns, or what `pick` gives of its rounds."""
    found: list[list[float]] = [[] for _ in calls]
    for number in range(ROUNDS + 2):
        for own, call in zip(found, calls, strict=True):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(turn):
                call()
            if number > 1:
                own.append((time.perf_counter() - start) / turn * 1e6)
    return [pick(own) for own in found]


def learner(model: nn.Module, lr: float) -> Callable[[lt.Tensor, lt.Tensor], lt.Tensor]:
    """A jitted step of SGD on examples and their labels, which gives the loss."""
    optimizer = lt.optim.SGD(model.parameters(), lr=lr)

    @lt.jit
    def learn(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return learn


def _step() -> Callable[[], object]:
    lt.manual_seed(0)
    whole, images, labels = lenet(lt)
    learn = learner(nn.parallel.DistributedDataParallel(whole), 0.01)
    own = len(images) // dist.size()
    return lambda: learn(images[:own], labels[:own]).item()


def main() -> None:
    """Print the figures."""
    dist.init()
    lines = [f"{dist.size()} ranks, microseconds of an all_reduce of float32",
             f"{'numbers':>10} {'mpi4py':>9} {'lazyten':>9} {'more':>7}"]
    for count in SIZES if dist.size() > 1 else ():
        plain, own = microseconds([raw(count), jitted(count)],
                                  TURN if count < 1_000_000 else 3)
        lines.append(f"{count:>10,} {plain:>9,.1f} {own:>9,.1f} {own - plain:>7,.1f}")
    step, = microseconds([_step()], STEPS)
    lines.append(f"LeNet, one batch by {dist.size()} ranks: {step / 1e3:.2f} ms a step")
    if dist.rank() == 0:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
