"""`make fuzz`: random programs for as long as asked. PYTHONPATH=tests python -m fuzz --help"""
from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tqdm import tqdm

from fuzz.campaign import Campaign, Report

CHUNK = 60
"""Programs between two looks at the clock."""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="make fuzz", description="run random programs on a device, "
                                "beside the interpreter and PyTorch")
    p.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    p.add_argument("--programs", type=int, default=0, help="how many instead, for each worker")
    p.add_argument("--device", default="cpu", help="what to test (default cpu)")
    p.add_argument("--seed", type=int, default=0, help="another seed gives other programs")
    p.add_argument("--first", type=int, default=0, help="the number of the first program")
    p.add_argument("--longest", type=int, default=10, help="statements of a program at most")
    p.add_argument("--together", type=int, default=6, help="programs that are computed together")
    p.add_argument("--workers", type=int, default=1, help="processes")
    p.add_argument("--quiet", action="store_true", help="no progress bar")
    return p


GIGABYTES = 6
"""A process may hold that many; a program that wants more ends in a MemoryError, which is told."""


def work(options: argparse.Namespace, worker: int) -> Report:
    """One process: every so many programs from its own part of the numbers on."""
    resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
    campaign = Campaign(options.device, options.seed, options.longest, options.together)
    end = time.monotonic() + options.seconds
    first = options.first + worker * 10_000_000
    bar = tqdm(total=options.programs or None, unit=" programs", disable=options.quiet,
               position=worker, desc=f"worker {worker}")
    done = 0
    while done < options.programs if options.programs else time.monotonic() < end:
        count = min(CHUNK, options.programs - done) if options.programs else CHUNK
        for finding in campaign.run(range(first + done, first + done + count)):
            tqdm.write(str(finding))
        done += count
        bar.update(count)
        bar.set_postfix(findings=len(campaign.report.findings))
    bar.close()
    return campaign.report


def main() -> int:
    """Exit status 1 if something was found."""
    options = parser().parse_args()
    if options.workers == 1:
        reports = [work(options, 0)]
    else:
        with ProcessPoolExecutor(options.workers) as pool:
            tasks = [pool.submit(work, options, w) for w in range(options.workers)]
            reports = [t.result() for t in as_completed(tasks)]
    for report in reports:
        print(report)
    return int(any(r.findings for r in reports))


if __name__ == "__main__":
    raise SystemExit(main())
