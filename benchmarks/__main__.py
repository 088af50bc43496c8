"""Times lazyten beside numpy, torch, JAX and tinygrad and prints a table: `python -m benchmarks`.

All frameworks are measured in one run, in turns (measure.py), each in a process of its own
(worker.py). A peer that is not installed is left out. Timings on a shared machine drift: compare
only within one table, never between two.
"""
from __future__ import annotations

import argparse
import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tqdm import tqdm

from benchmarks import fresh
from benchmarks.case import Case
from benchmarks.cases import CASES
from benchmarks.frameworks import NAMES, installed, package_of, thread_environment, usable_cores
from benchmarks.measure import PAUSE_S, Row, measure
from benchmarks.roofline import Roofline
from benchmarks.table import table_lines
from benchmarks.worker import RemoteRunner

ROUNDS = 7
TURN_S = 0.02
FRESH_ROUNDS = 2


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line's options."""
    cores = usable_cores()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare speeds.")
    parser.add_argument("--rows", default="", metavar="PATTERN",
                        help="only rows whose name matches this regular expression")
    parser.add_argument("--frameworks", default=",".join(NAMES), metavar="NAMES",
                        help="separated by commas, 'lazyten:opencl' for lazyten on a device; "
                             "by default all that are installed")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"turns of each framework ({ROUNDS})")
    parser.add_argument("--threads", type=int, default=cores, choices=range(1, cores + 1),
                        metavar="N", help=f"threads and cores a framework may use (all: {cores})")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="keep all samples here")
    parser.add_argument("--quick", action="store_true",
                        help="3 short rounds of the lighter rows: a smoke test")
    parser.add_argument("--list", action="store_true", help="only list the rows")
    return parser.parse_args(arguments)


def processor() -> str:
    """The processor's name as far as the system tells."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def versions(names: Sequence[str]) -> dict[str, str]:
    """The installed version of each framework."""
    found = {}
    for name in names:
        try:
            found[name] = version(package_of(name))
        except PackageNotFoundError:
            found[name] = "of unknown version"
    return found


def heading(names: Sequence[str], threads: int) -> dict[str, object]:
    """What the timings were taken on and with."""
    return {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform(),
            "python": platform.python_version(), "threads": threads, "versions": versions(names)}


def time_cases(cases: Sequence[Case], names: Sequence[str], rounds: int, turn_s: float,
               roofline: Roofline) -> Iterator[Row]:
    """A row for each case, every framework in a process of its own."""
    runners = {name: RemoteRunner(name, roofline.threads) for name in names}
    pause_s = PAUSE_S if roofline.threads > 1 else 0.0
    try:
        bar = tqdm(cases, unit="row", leave=False, disable=None)
        for case in bar:
            bar.set_description(case.name)
            roofline.sample()
            results = measure(case.name, runners, rounds, turn_s, pause_s, case.parts)
            yield Row(case.name, results, case.work, case.unit)
    finally:
        for runner in runners.values():
            runner.close()


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows with every sample, in seconds."""
    return [{"row": row.name, "work": row.work, "unit": row.unit,
             "results": {name: result if isinstance(result, str) else
                         {"median_s": result.median, "min_s": result.minimum,
                          "samples_s": result.samples}
                         for name, result in row.results.items()}} for row in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks that the command line asks for."""
    options = parse(arguments)
    cases = [case for case in CASES if re.search(options.rows, case.name)
             and not (options.quick and case.heavy)]
    fresh_rows = [row for row in (fresh.QUICK_ROWS if options.quick else fresh.ROWS)
                  if re.search(options.rows, row)]
    if options.list:
        print(*(case.name for case in cases), *fresh_rows, sep="\n")
        return
    asked = options.frameworks.split(",")
    names = sorted(filter(installed, asked), key=lambda name: NAMES.index(package_of(name)))
    os.environ.update(thread_environment(options.threads))  # the workers inherit it
    about = heading(names, options.threads)
    for key, value in about.items():
        print(f"{key}: {value}")
    for name in asked:
        if name not in names:
            print(f"note: {name} is not installed: its column is left out")

    rounds = options.rounds or (3 if options.quick else ROUNDS)
    turn_s = 0.005 if options.quick else TURN_S
    roofline = Roofline(options.threads)
    rows: list[Row] = []
    try:
        for row in time_cases(cases, names, rounds, turn_s, roofline):
            rows.append(row)
        if fresh_rows:
            fresh_rounds = 1 if options.quick else min(rounds, FRESH_ROUNDS)
            roofline.sample()
            rows += fresh.measure(fresh_rows, names, fresh_rounds, options.threads)
    except KeyboardInterrupt:
        print("note: interrupted: these are the rows so far")
    print("", *table_lines(rows, names, roofline.best if rows else {}), sep="\n")
    if options.output:
        samples = {**about, "limits": roofline.best, "rows": as_json(rows)}
        options.output.write_text(json.dumps(samples, indent=1))


if __name__ == "__main__":
    main()
