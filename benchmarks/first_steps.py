"""What the first training step of a network costs: `python -m benchmarks.first_steps [NET ..]`.

Each row is two new processes: one whose cache on disk is empty, and one that finds what that kept.
First steps come after importing and building the model, and end with the loss as a number. The
processor's seconds, of all threads, are there beside the clock's, which depend on what else the
machine does.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from benchmarks.nets import NETS

LATER_STEPS = 5
USUAL = ("lenet", "lstm", "gpt12", "resnet18", "unet", "mobilenetv2", "googlenet")
MODES = ("jitted", "eager")
HEAD = f"{'':22}{'first step':>21}{'in a second process':>23}{'second':>9}{'later':>11}"


class Costs(NamedTuple):
    """Of a process: the processor's and the clock's seconds of its first step, the processor's of
    its second, the clock's of the fastest of some later ones; and the last loss, in hexadecimal."""

    first: float
    first_clock: float
    second: float
    later_clock: float
    loss: str


def training_step(library: str, net: str, jitted: bool) -> Callable[[], float]:
    """A function that does one step of SGD and gives the loss."""
    torch = import_module(library)
    torch.manual_seed(0)
    model, x, y = NETS[net](torch)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> object:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    compiled = torch.jit(step) if jitted else step
    return lambda: float(compiled().item())


def timed(step: Callable[[], float]) -> tuple[float, float, float]:
    """Seconds of the processor and of the clock, and the result."""
    processor, clock = time.process_time(), time.perf_counter()
    result = step()
    return time.process_time() - processor, time.perf_counter() - clock, result


def report(library: str, net: str, jitted: bool) -> None:
    """Print, as JSON, what steps of a net cost in this process."""
    step = training_step(library, net, jitted)
    first, second, *later = (timed(step) for _ in range(2 + LATER_STEPS))
    print(json.dumps(Costs(*first[:2], second[0], min(clock for _, clock, _ in later),
                           later[-1][2].hex())))


def run(library: str, net: str, jitted: bool, cache: str) -> Costs:
    """What `report` prints in a new process with this cache."""
    code = f"from benchmarks.first_steps import report; report({library!r}, {net!r}, {jitted})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env=os.environ | {"LAZYTEN_CACHE": cache})
    return Costs(*json.loads(done.stdout))


def main() -> None:
    """Print a row for each net and mode."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_steps")
    parser.add_argument("nets", nargs="*", default=USUAL, metavar="NET",
                        help=f"of {', '.join(NETS)}")
    parser.add_argument("--library", default="lazyten", help="or torch, which is not jitted")
    parser.add_argument("--modes", default="", help="of steps, separated by commas: jitted, eager")
    options = parser.parse_args()
    usual = ("eager",) if options.library == "torch" else MODES
    print(f"{HEAD}\n{'':22}" + f"{'cpu s':>10} {'clock s':>10} " * 2 + f"{'cpu s':>9}{'ms':>9}")
    for net in options.nets:
        for mode in options.modes.split(",") if options.modes else usual:
            with tempfile.TemporaryDirectory() as cache:
                cold, warm = (run(options.library, net, mode == "jitted", cache) for _ in "12")
            print(f"{net:13} {mode:8}" + "".join(f"{c.first:10.2f} {c.first_clock:10.2f} "
                                                 for c in (cold, warm))
                  + f"{cold.second:9.2f}{cold.later_clock * 1e3:9.2f}  loss {cold.loss}",
                  flush=True)


if __name__ == "__main__":
    main()
