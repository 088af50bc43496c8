"""How many threads a kernel may run on: `lt.set_num_threads`, `lt.get_num_threads`.

The number changes how fast a kernel is and never what it computes. Runtimes that have threads read
it at the start of every launch, from C code too, so it is kept where both can reach it: `COUNT`.
"""
from __future__ import annotations

import ctypes
import operator
import os
from typing import SupportsIndex

from lazyten.support.errors import ArgumentError

VARIABLE = "LAZYTEN_NUM_THREADS"
MOST = 1 << 31
"""Larger numbers mean the same as this one."""
COUNT = ctypes.c_int64(0)
"""The number of threads, or 0 as long as nobody has asked for it or set it."""


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads a large kernel on device 'cpu' runs on.

    At first LAZYTEN_NUM_THREADS, or else as many as there are cores that this process may use.
    Raises ArgumentError if that variable is not a number of threads.
    """
    if COUNT.value == 0:
        COUNT.value = _default()
    return COUNT.value


def set_num_threads(count: SupportsIndex) -> None:
    """Let large kernels on device 'cpu' run on `count` threads, this one among them.

    Results do not depend on it, to the last bit. A launch that is under way keeps what it has.
    Raises ArgumentError unless `count` is an integer of at least 1.
    """
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)
    except TypeError:
        number = 0
    if number < 1:
        raise ArgumentError(f"set_num_threads({count!r:.60}): give an integer of at least 1, such "
                            f"as the {usable_cores()} cores that this process may use")
    COUNT.value = min(number, MOST)


def _default() -> int:
    text = os.environ.get(VARIABLE)
    if not text:
        return usable_cores()
    if not text.strip().isdecimal() or int(text) < 1:
        raise ArgumentError(f"{VARIABLE}={text!r}: give a number of threads, 1 or more, or leave "
                            "it out to use all cores")
    return min(int(text), MOST)
