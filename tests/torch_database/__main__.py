"""`make coverage`: what lazyten has of PyTorch's database of operators. ARGS=--help tells more."""
from __future__ import annotations

import argparse
import os
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch
from tqdm import tqdm

from torch_database.comparison import Outcome, outcome
from torch_database.page import PAGE, page
from torch_database.unsupported import why_not
from torch_database.variants import variants


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="make coverage", description="compare lazyten with PyTorch on "
                                "the samples of PyTorch's database of operators")
    p.add_argument("names", nargs="*", help="entries (default: all, which takes minutes)")
    p.add_argument("--samples", type=int, default=6, help="so many of each at most (default 6)")
    p.add_argument("--device", default="cpu", help="what computes (default cpu)")
    p.add_argument("--dtype", help="another element type than float32")
    p.add_argument("--verbose", action="store_true", help="show what is known to be wrong, too")
    p.add_argument("--workers", type=int, default=2, help="processes")
    return p


def main() -> int:
    """Exit status 1 if entries are wrong that are not known to be. (Of a few samples those that are
    known to be may all be right.)"""
    options = parser().parse_args()
    os.environ["DEVICE"] = options.device
    kind = getattr(torch, options.dtype) if options.dtype else None
    names = options.names or [n for n, v in variants().items() if kind is None or kind in v.dtypes]
    check = partial(outcome, most=options.samples, kind=kind)
    found: list[Outcome] = []
    with ProcessPoolExecutor(options.workers, initializer=quietly) as pool:
        for result in tqdm(pool.map(check, names, chunksize=4), total=len(names), unit=" forms",
                           disable=None):
            found.append(result)
            if options.verbose or is_wrong(result):
                tqdm.write(f"{result.name}: {result.result} {result.why}")
    print(", ".join(f"{n} {what}" for what, n in Counter(r.result for r in found).most_common()))
    wrong = [result.name for result in found if is_wrong(result)]
    if wrong and kind is None:
        print(f"{len(wrong)} are wrong that unsupported.py does not know: {' '.join(wrong)}")
    known = [r.name for r in found if r.result == "right" and r.name in why_not()]
    if known:
        print(f"{len(known)} are right here that unsupported.py names: {' '.join(known)}")
    if not wrong and not options.names and kind is None:
        PAGE.write_text(page(), encoding="utf8")
    return int(bool(wrong))


def is_wrong(result: Outcome) -> bool:
    """Whether an entry is wrong that the table does not name."""
    return result.result != "right" and result.name not in why_not()


def quietly() -> None:
    """What a worker starts with."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


if __name__ == "__main__":
    raise SystemExit(main())
