"""Predicts what a training step takes on 1 to 4,096 ranks, from what is measured on one machine:
`python -m benchmarks.scaling --plot docs/scaling.png`.

It starts itself under mpiexec with 1, 2 and 4 ranks of one thread each. A jitted step for several
batches gives a line, `start + batch * example`: of one rank, and, for more, of two that train at
once and have nothing to do with each other, as busy cores are slower. Two ranks give latency and
bandwidth of an all_reduce by mpi4py, and what lazyten adds to one, once and a byte. Then a step of
DistributedDataParallel takes

    step(k, batch) = start + batch * example
                     + buckets * (added + 2 * log2(k) * latency) + bytes * added_a_byte
                     + 2 * (k - 1) / k * bytes / bandwidth

which is Rabenseifner's all_reduce, one after the other and after all computing: nothing is hidden
behind it. Steps measured on 2 and 4 ranks are printed beside. Ranks that have no core of their own
compute at the rate of their share: `cores`. Each time is the least of 15 rounds, as the machine may
have other work.
"""
from __future__ import annotations

import argparse
import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import environ, sched_getaffinity
from pathlib import Path
from typing import Any

import numpy as np

import lazyten as lt
from benchmarks.distributed import COLLECTIVES, NETS, learner, microseconds, pair
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed.link import LONG, SHORT, Link

BATCHES = {"LeNet": (8, 16, 32), "GPT": (2, 4, 8)}
"""Examples a rank; the last is what ranks have in the prediction."""
RANKS = tuple(2 ** i for i in range(13))


@dataclass(frozen=True, slots=True)
class Network:
    """latency: seconds of one message; bandwidth: bytes a second; added, added_a_byte: seconds that
    lazyten adds to a collective."""

    latency: float
    bandwidth: float
    added: float
    added_a_byte: float

    @classmethod
    def of(cls, raw: Sequence[float], own: Sequence[float]) -> Network:
        """Of microseconds of two ranks' all_reduces, a short and a long one: by mpi4py, and by
        lazyten."""
        short, long = (x * 1e-6 for x in raw)
        line = Link.of(short, long)
        more, most = (max(y * 1e-6 - x, 0.0) for x, y in zip((short, long), own, strict=True))
        nbytes = 4 * (LONG - SHORT)
        return cls(line.latency / 2, line.bandwidth, more, max(most - more, 0) / nbytes)

    def seconds(self, ranks: int, nbytes: int, buckets: int) -> float:
        """What averaging so many bytes in so many buckets takes."""
        if ranks == 1:
            return 0.0
        return buckets * (self.added + 2 * math.log2(ranks) * self.latency) \
            + nbytes * self.added_a_byte + 2 * (ranks - 1) / ranks * nbytes / self.bandwidth


@dataclass(frozen=True, slots=True)
class Work:
    """A network's step on one rank: seconds at the start, and for each example; and the bytes and
    buckets of its gradients."""

    start: float
    example: float
    nbytes: int
    buckets: int

    @classmethod
    def of(cls, batches: Sequence[int], seconds: Sequence[float], nbytes: int, buckets: int
           ) -> Work:
        """The line through measured steps."""
        example, start = np.polyfit(batches, seconds, 1)
        return cls(max(float(start), 0.0), max(float(example), 0.0), nbytes, buckets)

    def step(self, network: Network, ranks: int, batch: float, cores: int | None = None) -> float:
        """Seconds of a step of `batch` examples a rank. cores: how many all ranks share."""
        slower = 1.0 if cores is None else max(1.0, ranks / cores)
        return slower * (self.start + batch * self.example) \
            + network.seconds(ranks, self.nbytes, self.buckets)


def measured() -> dict[str, Any]:
    """On each rank: microseconds of steps by network and batch, together and each for itself, and
    of all_reduces; what gradients are."""
    dist.init()
    found: dict[str, Any] = {"steps": {}, "apart": {}, "gradients": {}}
    for name, make in NETS.items():
        lt.manual_seed(0)
        whole, x, y = make(lt)
        model = nn.parallel.DistributedDataParallel(copy.deepcopy(whole))
        buckets = list(model._buckets())
        found["gradients"][name] = [sum(p.numel() * 4 for b in buckets for p in b), len(buckets)]
        batches = BATCHES[name]
        times = microseconds([_step(own, x[:b], y[:b]) for own in (whole, model)
                              for b in batches], 20, min)
        found["apart"][name], found["steps"][name] = times[:len(batches)], times[len(batches):]
    if dist.size() > 1:
        reduce = COLLECTIVES["all_reduce"]
        found["raw"] = [microseconds([pair(reduce, n)[0]], turn, min)[0]
                        for n, turn in ((SHORT, 20), (LONG, 5))]
        found["own"] = [microseconds([pair(reduce, n)[1]], turn, min)[0]
                        for n, turn in ((SHORT, 20), (LONG, 5))]
    return found


def _step(model: nn.Module, x: lt.Tensor, y: lt.Tensor) -> Callable[[], object]:
    learn = learner(model, 0.001)
    lt.realize(x, y)
    return lambda: learn(x, y).item()


def _points(ranks: int) -> dict[str, Any]:
    """What rank 0 of so many measures."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    done = subprocess.run(
        [str(mpiexec), "-n", str(ranks), sys.executable, "-m", "benchmarks.scaling", "--measure"],
        env={**environ, "LAZYTEN_NUM_THREADS": "1"}, text=True, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _table(points: dict[int, dict[str, Any]], works: dict[str, dict[bool, Work]], network: Network,
           cores: int) -> list[str]:
    lines = [f"latency {network.latency * 1e6:.1f} us, bandwidth {network.bandwidth / 1e9:.2f} "
             f"GB/s, lazyten adds {network.added * 1e6:.0f} us a collective; {cores} cores",
             f"{'':>6} {'ranks':>5} {'batch':>5} {'measured ms':>12} {'predicted ms':>13} "
             f"{'off':>6}"]
    for name, work in works.items():  # of one rank, and of several
        for ranks, point in points.items():
            for batch, us in zip(BATCHES[name], point["steps"][name], strict=True):
                ms = work[ranks > 1].step(network, ranks, batch, cores) * 1e3
                lines.append(f"{name:>6} {ranks:>5} {batch:>5} {us / 1e3:>12.2f} {ms:>13.2f} "
                             f"{ms / us * 1e3 - 1:>+6.0%}")
    lines.append(f"{'predicted ms, a core a rank':<34}" + " ".join(f"{k:>6}" for k in RANKS))
    for name, work in works.items():
        batch = BATCHES[name][-1]
        own = " ".join(f"{work[k > 1].step(network, k, batch) * 1e3:>6.2f}" for k in RANKS)
        few = " ".join(f"{work[k > 1].step(network, k, batch / k) * 1e3:>6.2f}"
                       for k in RANKS if k <= batch)
        lines += [f"{f'{name}, {batch} examples a rank':<34}{own}",
                  f"{f'{name}, {batch} of all ranks together':<34}{few}"]
    return lines


def _plot(path: str, points: dict[int, dict[str, Any]], works: dict[str, dict[bool, Work]],
          network: Network, cores: int) -> None:
    from matplotlib.figure import Figure
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots(1, len(works))
    for axis, (name, work) in zip(axes, works.items(), strict=True):
        batch = BATCHES[name][-1]
        few = [k for k in RANKS if k <= batch]
        axis.plot(RANKS, [work[k > 1].step(network, k, batch) * 1e3 for k in RANKS],
                  label=f"predicted, {batch} examples a rank")
        axis.plot(few, [work[k > 1].step(network, k, batch / k) * 1e3 for k in few],
                  label=f"predicted, {batch} of all ranks together")
        axis.plot(list(points), [p["steps"][name][-1] / 1e3 for p in points.values()], "ko",
                  label=f"measured, {batch} a rank, {cores} cores")
        axis.plot(list(points), [work[k > 1].step(network, k, batch, cores) * 1e3 for k in points],
                  "kx", label=f"predicted of these, {cores} cores")
        axis.set(title=name, xscale="log", yscale="log", xlabel="ranks", ylabel="ms a step")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13))
    figure.savefig(path, dpi=100)


def main() -> None:
    """Print the table, and draw it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true", help="what a rank does")
    parser.add_argument("--plot", help="a file for the plot")
    parser.add_argument("--latency", type=float, help="microseconds, in place of what is measured")
    parser.add_argument("--bandwidth", type=float, help="GB/s, in place of what is measured")
    given = parser.parse_args()
    if given.measure:
        found = measured()
        if dist.rank() == 0:
            print(json.dumps(found))
        return
    points = {ranks: _points(ranks) for ranks in (1, 2, 4)}
    network = Network.of(points[2]["raw"], points[2]["own"])
    network = Network(given.latency * 1e-6 if given.latency else network.latency,
                      given.bandwidth * 1e9 if given.bandwidth else network.bandwidth,
                      network.added, network.added_a_byte)
    works = {name: {several: Work.of(
        BATCHES[name], [us * 1e-6 for us in points[1 + several]["apart"][name]],
        *points[2]["gradients"][name]) for several in (False, True)} for name in NETS}
    cores = len(sched_getaffinity(0))
    print("\n".join(_table(points, works, network, cores)))
    if given.plot:
        _plot(given.plot, points, works, network, cores)


if __name__ == "__main__":
    main()
