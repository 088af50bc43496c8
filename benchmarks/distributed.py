"""Times collectives beside raw mpi4py, and training steps beside PyTorch's: `mpiexec -n 2 python -m
benchmarks.distributed`, with LAZYTEN_NUM_THREADS=1 for a core a rank; `--steps` times steps alone.

For each collective and size: microseconds of it by mpi4py (begun, and Test until it is there, on
NumPy arrays of float32), and in a jitted function, whose call it is all of; the median of rounds in
turns. Then how much of an all_reduce goes on beside products that do not need it.

Steps are milliseconds of LeNet and a GPT, each rank with its part of one batch, by
DistributedDataParallel: lazyten's in `lt.jit` and eagerly, and, where it is installed, PyTorch's,
which joins the same processes by gloo and computes with one thread, too. They take turns, so that
other work of the machine meets all; median and least of rounds.
"""
from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lazyten as lt
from benchmarks.nets import Library, Net, Tensor, gpt, lenet
from lazyten import distributed as dist
from lazyten import nn

ROUNDS, TURN = 15, 20
SIZES = (1, 1_000, 100_000, 1_000_000, 4_000_000)
STEPS, PRODUCT = 10, 512
NETS: dict[str, Callable[[Library], Net]] = {"LeNet": lenet, "GPT": partial(gpt, depth=2)}
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
    return [pick(own) for own in rounds(calls, turn)]


def rounds(calls: list[Callable[[], object]], turn: int) -> list[list[float]]:
    """Microseconds of each in every round, as they take turns."""
    found: list[list[float]] = [[] for _ in calls]
    for number in range(ROUNDS + 2):
        for own, call in zip(found, calls, strict=True):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(turn):
                call()
            if number > 1:
                own.append((time.perf_counter() - start) / turn * 1e6)
    return found


def training_step(library: Library, model: Any, lr: float) -> Callable[[Tensor, Tensor], Tensor]:
    """A step of SGD on examples and their labels, which gives the loss."""
    optimizer = library.optim.SGD(model.parameters(), lr=lr)

    def learn(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return learn


def learner(model: nn.Module, lr: float) -> Callable[[lt.Tensor, lt.Tensor], lt.Tensor]:
    """training_step() of lazyten, jitted."""
    return lt.jit(training_step(lt, model, lr))


def _joined_by_gloo() -> Library | None:
    """PyTorch, whose processes are these, of one thread each; None where it is not installed."""
    if find_spec("torch") is None:
        return None
    import torch
    torch.set_num_threads(1)
    place = [tempfile.mkdtemp()] if dist.rank() == 0 else [None]
    dist.broadcast_object_list(place, 0)
    torch.distributed.init_process_group(
        "gloo", init_method=(Path(str(place[0])) / "ranks").as_uri(), rank=dist.rank(),
        world_size=dist.size())
    return torch


def _step(library: Library, make: Callable[[Library], Net], jitted: bool) -> Callable[[], object]:
    """A step of this rank's part of one batch."""
    library.manual_seed(0)
    whole, inputs, labels = make(library)
    model = library.nn.parallel.DistributedDataParallel(whole)
    learn = learner(model, 0.01) if jitted else training_step(library, model, 0.01)
    own = len(inputs) // dist.size()
    x, y = inputs[:own].clone(), labels[:own].clone()
    return lambda: learn(x, y).item()


def _steps() -> list[str]:
    torch = _joined_by_gloo()
    ways = {"lt.jit": (lt, True), "lazyten": (lt, False),
            **({} if torch is None else {"PyTorch": (torch, False)})}
    lines = [f"{dist.size()} ranks, one batch for all: milliseconds of a step, median and least",
             f"{'':>6} " + " ".join(f"{way:>15}" for way in ways)]
    for name, make in NETS.items():
        found = rounds([_step(library, make, jitted) for library, jitted in ways.values()], STEPS)
        lines.append(f"{name:>6} " + " ".join(
            f"{statistics.median(own) / 1e3:>7.2f} {min(own) / 1e3:>7.2f}" for own in found))
    if torch is not None:
        torch.distributed.destroy_process_group()
    return lines


def _collectives() -> list[str]:
    lines = [f"{dist.size()} ranks, microseconds of collectives of float32",
             f"{'':>15} {'numbers':>10} {'mpi4py':>9} {'lazyten':>9} {'more':>7}"]
    for name, kind in COLLECTIVES.items():
        for count in SIZES:
            plain, own = microseconds(pair(kind, count), TURN if count < 1_000_000 else 3)
            lines.append(f"{name:>15} {count:>10,} {plain:>9,.1f} {own:>9,.1f} "
                         f"{own - plain:>7,.1f}")
    alone, beside, both = overlap()
    return [*lines, f"all_reduce of {SIZES[-1]:,}: {alone:.2f} ms, products: {beside:.2f} ms, "
                    f"both: {both:.2f} ms"]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", action="store_true", help="no collectives by themselves")
    only_steps = parser.parse_args().steps
    dist.init()
    lines = [] if only_steps or dist.size() == 1 else _collectives()
    lines += _steps()
    if dist.rank() == 0:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
