"""`make fuzz`: random programs for as long as asked. PYTHONPATH=tests python -m fuzz --help"""
from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tqdm import tqdm

from fuzz.campaign import Campaign, Report
from fuzz.children import Settings, run
from fuzz.training import TrainingCampaign

PART = 10_000_000
"""Numbers of programs that a worker has."""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="make fuzz", description="run random programs on a device, "
                                "beside the interpreter and PyTorch")
    p.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    p.add_argument("--programs", type=int, default=0, help="how many instead, for each worker")
    p.add_argument("--device", default="cpu", help="what to test (default cpu)")
    p.add_argument("--seed", type=int, default=0, help="another seed gives other programs")
    p.add_argument("--first", type=int, default=0, help="the number of the first program")
    p.add_argument("--longest", type=int, default=10, help="statements of a program at most")
    p.add_argument("--small", type=float, default=0.85,
                   help="the share of programs that are small, and take a fifth of the time")
    p.add_argument("--training", action="store_true", help="training programs instead")
    p.add_argument("--together", type=int, default=6, help="programs that are computed together")
    p.add_argument("--workers", type=int, default=1, help="processes")
    p.add_argument("--quiet", action="store_true", help="no progress bar")
    return p


def work(options: argparse.Namespace, worker: int) -> Report:
    """What one process after the other does with its own part of the numbers."""
    total = Report()
    end = time.monotonic() + options.seconds
    first = options.first + worker * PART
    bar = tqdm(total=options.programs or None, unit=" programs", disable=options.quiet,
               position=worker, desc=f"worker {worker}")

    def goes_on(done: Report) -> bool:
        total.add(done)
        bar.update(done.programs)
        bar.set_postfix(findings=len(total.findings))
        return bool(options.programs) or time.monotonic() < end

    settings = Settings(options.device, options.seed, options.longest, options.together,
                        options.small, TrainingCampaign if options.training else Campaign)
    told: set[tuple[str, ...]] = set()
    for finding in run(settings, range(first, first + (options.programs or PART)), goes_on):
        if finding.sort not in told:
            told.add(finding.sort)
            tqdm.write(str(finding))
    bar.close()
    return total


def main() -> int:
    """Exit status 1 if something was found."""
    options = parser().parse_args()
    with ThreadPoolExecutor(options.workers) as pool:  # threads that wait for processes
        reports = list(pool.map(partial(work, options), range(options.workers)))
    for report in reports:
        print(report)
    return int(any(r.findings for r in reports))


if __name__ == "__main__":
    raise SystemExit(main())
