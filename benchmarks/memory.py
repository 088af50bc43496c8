"""The memory that training steps of a network take: `python -m benchmarks.memory [NET ..]`.

Each figure is of a new process, whose programs are on disk from one before, and that of its later
steps: by how much the pages that it has in memory at most are more than with the model alone, which
has parameters and no gradients or states. What a compiler took is not in it. Linux only.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.first_steps import USUAL, training_step
from benchmarks.nets import NETS

FIRST_STEPS, LATER_STEPS = 6, 3
MODES = ("torch", "lazyten", "jitted")
MIB = 1 << 20


def _pages(name: str) -> int:
    """A figure of the system about this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def report(net: str, mode: str) -> None:
    """Print the MiB that steps take in this process."""
    library = "torch" if mode == "torch" else "lazyten"
    step = training_step(library, net, mode == "jitted")
    before = _pages("VmRSS")
    for _ in range(FIRST_STEPS):
        step()
    Path("/proc/self/clear_refs").write_text("5")  # the most from now on
    for _ in range(LATER_STEPS):
        step()
    print((_pages("VmHWM") - before) / MIB)


def measured(net: str, mode: str, cache: str) -> float:
    """What `report` prints in a new process with this cache."""
    code = f"from benchmarks.memory import report; report({net!r}, {mode!r})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env=os.environ | {"LAZYTEN_CACHE": cache})
    return float(done.stdout)


def main() -> None:
    """Print a row for each net."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("nets", nargs="*", default=USUAL, metavar="NET",
                        help=f"of {', '.join(NETS)}")
    options = parser.parse_args()
    modes = [mode for mode in MODES if mode != "torch" or find_spec("torch")]
    print(f"{'MiB':14}" + "".join(f"{mode:>10}" for mode in modes))
    for net in options.nets:
        with tempfile.TemporaryDirectory() as cache:
            found = {mode: [measured(net, mode, cache) for _ in "12"][-1] for mode in modes}
        print(f"{net:14}" + "".join(f"{found[mode]:10.1f}" for mode in modes), flush=True)


if __name__ == "__main__":
    main()
