"""Times collectives beside raw mpi4py, and a step of LeNet: `mpiexec -n 2 python -m
benchmarks.distributed`, with LAZYTEN_NUM_THREADS=1 for a core a rank.

For each collective and size: microseconds of it by mpi4py (begun, and Test until it is there, on
NumPy arrays of float32), and in a jitted function, whose call it is all of; the median of rounds in
turns. Then how much of an all_reduce goes on beside products that do not need it, and the
milliseconds of a jitted step of LeNet, with one batch for all ranks together.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import lazyten as lt
from benchmarks.nets import lenet
from lazyten import distributed as dist
from lazyten import nn

ROUNDS, TURN = 15, 20
SIZES = (1, 1_000, 100_000, 1_000_000, 4_000_000)
STEPS, PRODUCT = 30, 512
Array = np.ndarray[Any, Any]


class Collective(NamedTuple):
    """begin: with a communicator, what is sent and what is received, as flat arrays. jitted: the
    same of a tensor. Of `rows` each rank sends, or receives, as many as there are ranks."""

    begin: Callable[[Any, Array, Array], Any]
    jitted: Callable[[lt.Tensor], lt.Tensor]
    sends_rows: bool = False
    receives_rows: bool = False


COLLECTIVES = {
    "all_reduce": Collective(lambda c, x, y: c.Iallreduce(x, y), dist.functional.all_reduce),
    "all_gather": Collective(lambda c, x, y: c.Iallgather(x, y), dist.functional.all_gather,
                             receives_rows=True),
    "reduce_scatter": Collective(lambda c, x, y: c.Ireduce_scatter_block(x, y),
                                 dist.functional.reduce_scatter, sends_rows=True),
    "all_to_all": Collective(lambda c, x, y: c.Ialltoall(x, y), dist.functional.all_to_all,
                             sends_rows=True, receives_rows=True),
    "broadcast": Collective(lambda c, x, y: c.Ibcast(x), dist.functional.broadcast),
}


def pair(kind: Collective, count: int) -> list[Callable[[], object]]:
    """A collective of so many numbers a row by mpi4py, and by lazyten."""
    from mpi4py import MPI
    size = dist.size()
    sent = np.ones((size, count) if kind.sends_rows else count, np.float32)
    received = np.empty((size, count) if kind.receives_rows else count, np.float32)
    x, jitted = lt.tensor(sent).realize(), lt.jit(kind.jitted)

    def raw() -> None:
        request = kind.begin(MPI.COMM_WORLD, sent, received)
        while not request.Test():
            pass
    return [raw, lambda: lt.realize(jitted(x))]


def overlap() -> tuple[float, float, float]:
    """Milliseconds of an all_reduce, of products that do not need it, and of both in one jitted
    function, the all_reduce first."""
    x, w = lt.ones(SIZES[-1]).realize(), lt.rand(PRODUCT, PRODUCT).realize()

    def products(w: lt.Tensor) -> lt.Tensor:
        for _ in range(4):
            w = w @ w / PRODUCT
        return w
    reduce = dist.functional.all_reduce
    calls = [lt.jit(reduce), lt.jit(products), lt.jit(lambda x, w: [reduce(x), products(w)])]
    found = microseconds([lambda: lt.realize(calls[0](x)), lambda: lt.realize(calls[1](w)),
                          lambda: lt.realize(*calls[2](x, w))], 3)
    alone, beside, both = (f / 1e3 for f in found)
    return alone, beside, both


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
    lines = [f"{dist.size()} ranks, microseconds of collectives of float32",
             f"{'':>15} {'numbers':>10} {'mpi4py':>9} {'lazyten':>9} {'more':>7}"]
    for name, kind in COLLECTIVES.items() if dist.size() > 1 else ():
        for count in SIZES:
            plain, own = microseconds(pair(kind, count), TURN if count < 1_000_000 else 3)
            lines.append(f"{name:>15} {count:>10,} {plain:>9,.1f} {own:>9,.1f} "
                         f"{own - plain:>7,.1f}")
    if dist.size() > 1:
        alone, beside, both = overlap()
        lines.append(f"all_reduce of {SIZES[-1]:,}: {alone:.2f} ms, products: {beside:.2f} ms, "
                     f"both: {both:.2f} ms")
    step, = microseconds([_step()], STEPS)
    lines.append(f"LeNet, one batch by {dist.size()} ranks: {step / 1e3:.2f} ms a step")
    if dist.rank() == 0:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
