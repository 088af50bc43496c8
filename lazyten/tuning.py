"""lt.tune and lt.load_decisions."""
from __future__ import annotations

import os

from lazyten import decisions
from lazyten.realization import rebuild_plans


def load_decisions(path: str | os.PathLike[str]) -> int:
    """Use a file's decisions, which `lt.tune` writes, for all kernels that they are about, those
    in use among them. Gives how many decisions there are.

    Raises ArgumentError, naming file and line, for a line that cannot be read; also for decisions
    that do not fit their kernel, now if that is in use and when it is compiled if not.
    """
    before = decisions.loaded()
    count = decisions.load(path)
    try:
        rebuild_plans()
    except BaseException:
        decisions.restore(before)
        raise
    return count
