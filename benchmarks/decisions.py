"""Where the cost model is wrong: kernels of a network's training step, as decided and otherwise.

    python -m benchmarks.decisions gpt resnet --kernels 12 --others 8

Of each network of nets.py the kernels that take longest: seconds of processor time on one thread,
those that the model expects, and what the best of the decisions that the model likes next takes, as
a share. Where that is well below 1, the model is wrong there (docs/cost_models.md). Kernels are
timed on random inputs, in turns; `off` is how much longer a kernel takes than expected beside the
others of its network.
"""
from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import lazyten as lt
from benchmarks.nets import NETS, Net
from lazyten.devices.program import Program
from lazyten.execution.trial import Bench
from lazyten.ir.kernel import Given, Kernel
from lazyten.storage.device import executor
from lazyten.tuning.tuning import Launched, launches_of

TURN_S = 2e-3
"""How long a program is timed in its turn."""
TURNS = 12
DEVICE = "cpu"


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel. launches: in a step; seconds: of one; cycles: that the model expects; best: the
    share of the seconds that the best other decisions take, and those."""

    kernel: Kernel
    launches: int
    seconds: float
    cycles: float
    best: tuple[float, str]


def training_step(net: Net) -> list[lt.Tensor]:
    """The loss of a network's batch, and all gradients."""
    model, x, labels = net
    model.zero_grad()
    loss = lt.nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]


def seconds(bench: Bench, programs: Sequence[Program]) -> list[float]:
    """The least processor time of a launch of each, in turns."""
    least = [_once(bench, program, 1) for program in programs]
    for _ in range(TURNS):
        for i, program in enumerate(programs):
            if least[i] < 2 * least[0]:
                count = max(int(TURN_S / max(least[i], 1e-9)), 1)
                least[i] = min(least[i], _once(bench, program, count))
    return least


def _once(bench: Bench, program: Program, count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        program.launch(bench.handles)
    return (time.thread_time() - start) / count


def row(launched: Launched, estimates: Sequence[tuple[str, float]], others: int) -> Row:
    """A kernel and as many other decisions, of those that the model gives, its own first."""
    kernel, (_, cycles) = launched.kernel, estimates[0]
    bench, texts = Bench(DEVICE, kernel), [text for text, _ in estimates[1:others + 1]]
    decided = [replace(kernel, decisions=Given(text, "other decisions")) for text in texts]
    own, *times = seconds(bench, [bench.program, *bench.executor.build(decided)])
    bench.close()
    best = min(zip(times, texts, strict=True), default=(own, ""))
    return Row(kernel, launched.launches, own, cycles, (best[0] / own, best[1]))


def rows(net: Net, kernels: int, others: int) -> list[Row]:
    """Those of a network that take longest, by the model, and take decisions."""
    launched = launches_of(lambda: training_step(net))
    known = [(k, executor(DEVICE).estimates(k.kernel)) for k in launched]
    longest = sorted([(k, e) for k, e in known if e], key=lambda k: -k[0].launches * k[1][0][1])
    return [row(*k, others) for k in longest[:kernels]]


def lines(found: Sequence[Row]) -> Iterator[str]:
    """A table."""
    usual = statistics.median(r.seconds / r.cycles for r in found)
    yield f"{'kernel':40} {'launches':>8} {'us':>9} {'off':>5} {'best':>5}  other decisions"
    for r in sorted(found, key=lambda r: -r.launches * r.seconds):
        share, text = r.best
        yield (f"{r.kernel.name:40} {r.launches:8} {r.seconds * 1e6:9.1f} "
               f"{r.seconds / r.cycles / usual:5.2f} {share:5.2f}  {text if share < 1 else ''}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions",
                                     description="Compare kernels' decisions.")
    parser.add_argument("nets", nargs="*", default=[*NETS], help=", ".join(NETS))
    parser.add_argument("--kernels", type=int, default=12, help="of a network")
    parser.add_argument("--others", type=int, default=8, help="decisions of a kernel")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table a network."""
    options = parse(arguments)
    lt.set_num_threads(1)
    for name in options.nets:
        print(f"\n{name}")
        print("\n".join(lines(rows(NETS[name](lt), options.kernels, options.others))))


if __name__ == "__main__":
    main()
