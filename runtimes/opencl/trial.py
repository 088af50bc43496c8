"""A driver is tried in a process of its own before the user's depends on it.

A driver's compiler runs in the process that calls it, and may end it. So one that has no row in
drivers.py compiles and runs kernels of many kinds first, in trial_worker.py. That it
passed is kept on disk, beside compiled kernels. In: the number of a device. Out: None, or why the
device cannot be used.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache

from lazyten.runtimes.code_cache import open_cache

COMMAND = (sys.executable, "-m", "lazyten.runtimes.opencl.trial_worker")
"""What is started, with the number of the device behind it."""
SECONDS = 120.0
"""How long it may take; PoCL takes 5 s."""


@cache
def failure(number: int, driver: str) -> str | None:
    """Why the device of this number cannot be used; None if it passes, or has passed before.

    driver: what the outcome depends on: names and versions. A failure is not kept for the next
    process, as its cause may be gone by then.
    """
    found: list[str] = []

    def tried(text: str) -> bytes:
        reason = _failure(number)
        if reason is not None:
            found.append(reason)
            raise _FailedError
        return b"passed"
    with suppress(_FailedError):
        open_cache(f"trial\n{driver}").translate_own("trial", tried)
    return found[0] if found else None


class _FailedError(Exception):
    """There is nothing to keep."""


def _failure(number: int) -> str | None:
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    env = {**os.environ, "DEBUG": "0", "LAZYTEN_PRINT_AFTER": "", "LAZYTEN_CACHE": "0",
           "PYTHONPATH": paths}
    try:
        done = subprocess.run([*COMMAND, str(number)], env=env, capture_output=True, text=True,
                              errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"its driver did not compile and run a few kernels within {SECONDS:.0f} s"
    except OSError as error:
        return f"its driver cannot be tried: {error}"
    if done.returncode == 0:
        return None
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    last = f": {said[-1].strip():.300}" if said else ""
    if done.returncode > 0:
        return f"its driver failed on a few kernels{last}"
    return (f"its driver ended the process that compiled a few kernels "
            f"({_signal_name(-done.returncode)}){last}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
