"""What only a fresh process shows: the time to import a framework and to its first training step.

`measure` (called by `__main__`) starts the processes; `report` runs in them. Caches on disk go to
an empty folder, so the first process is a user's first ever and the second finds what that kept.
"""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from benchmarks.cases import LENET_FLOPS
from benchmarks.frameworks import hold_to_cores, load, package_of
from benchmarks.lenet import training_step
from benchmarks.measure import Row, Timing, rotated

BATCH = 32
LATER_STEPS = 30
TIMEOUT_S = 300.0  # for one process

IMPORT = "import"
COLD = "import and first LeNet step, no cache"
COLD_STEP = "first LeNet step after import, no cache"
WARM_STEP = "the same, second process"
LATER = f"LeNet step in that process, batch {BATCH}"
ROWS = (IMPORT, COLD, COLD_STEP, WARM_STEP, LATER)
QUICK_ROWS = (IMPORT,)

CACHE_VARIABLES = ("LAZYTEN_CACHE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")
TIME_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
TIME_STEP = ("import time; t = time.perf_counter(); "
             "from benchmarks.fresh import report; report({!r}, {}, t)")


def report(name: str, threads: int, start: float) -> None:
    """Print, as JSON, seconds from `start` to the import and the first step, and of a later one."""
    hold_to_cores(threads)
    framework = load(name, threads)
    imported = time.perf_counter()
    step = training_step(framework, BATCH)
    step()
    first = time.perf_counter()
    later = []
    for _ in range(LATER_STEPS):
        before = time.perf_counter()
        step()
        later.append(time.perf_counter() - before)
    print(json.dumps({"import": imported - start, "first": first - start,
                      "later": statistics.median(later)}))


@dataclass
class Sample:
    """Seconds for each of ROWS that could be measured, and what stopped the others."""

    seconds: dict[str, float] = field(default_factory=dict)
    problem: str = ""


def run(code: str, environment: dict[str, str]) -> str:
    """What a new Python prints; CalledProcessError when it fails."""
    return subprocess.run([sys.executable, "-c", code], env=environment, check=True,
                          capture_output=True, text=True, timeout=TIMEOUT_S).stdout


def sample(name: str, threads: int, steps: bool) -> Sample:
    """One sample of each row, from three new processes; without `steps`, of the first, from one."""
    result = Sample()
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | dict.fromkeys(CACHE_VARIABLES, cache)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as packages are installed: compiled
        code = TIME_STEP.format(name, threads)
        try:
            result.seconds[IMPORT] = float(run(TIME_IMPORT.format(package_of(name)), environment))
            if not steps:
                return result
            cold, warm = (json.loads(run(code, environment)) for _ in range(2))
        except subprocess.CalledProcessError as error:
            result.problem = (error.stderr.strip().splitlines() or ["failed"])[-1]
        except subprocess.TimeoutExpired:
            result.problem = "timed out"
        else:
            result.seconds |= {
                COLD: cold["first"], COLD_STEP: cold["first"] - cold["import"],
                WARM_STEP: warm["first"] - warm["import"], LATER: warm["later"]}
    return result


def timing(samples: Sequence[Sample], row: str) -> Timing | str:
    """A row's samples of one framework, or why one is missing."""
    if all(row in sample.seconds for sample in samples):
        return Timing(tuple(sample.seconds[row] for sample in samples))
    return next(sample.problem for sample in samples if row not in sample.seconds)


def measure(rows: Sequence[str], names: Sequence[str], rounds: int, threads: int) -> list[Row]:
    """Those of ROWS that are asked for, the frameworks taken in turns."""
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    steps = any(row not in QUICK_ROWS for row in rows)
    for name in names:
        sample(name, threads, steps)  # not counted: modules may have no bytecode yet
    with tqdm(total=rounds * len(names), desc="new processes", unit="run", leave=False,
              disable=None) as bar:
        for i in range(rounds):
            for name in rotated(names, i):
                samples[name].append(sample(name, threads, steps))
                bar.update()
    flops = LENET_FLOPS * BATCH
    return [Row(row, {name: timing(samples[name], row) for name in names},
                *((flops, "FLOP") if row == LATER else ())) for row in rows]
