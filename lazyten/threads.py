"""How many threads a kernel may run on: `lt.set_num_threads`, `lt.get_num_threads`.

The number changes how fast a kernel is and never what it computes. Runtimes that have threads read
it at the start of every launch, from C code too, so it is kept where both can reach it: `COUNT`.
"""
from __future__ import annotations

import ctypes
import os
from numbers import Integral
from typing import SupportsIndex

from lazyten.errors import ArgumentError

VARIABLE = "LAZYTEN_NUM_THREADS"
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
    if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
        raise ArgumentError(f"set_num_threads({count!r:.60}): a kernel runs on at least 1 thread; "
                            f"give an integer, such as the {usable_cores()} cores of this machine "
                            "that lazyten may use")
    COUNT.value = min(int(count), ctypes.c_int32(-1).value & 0x7FFFFFFF)


def _default() -> int:
    text = os.environ.get(VARIABLE)
    if not text:
        return usable_cores()
    if not text.strip().isdecimal() or int(text) < 1:
        raise ArgumentError(f"{VARIABLE}={text!r}: give a number of threads, 1 or more, or leave "
                            "it out to use all cores")
    return min(int(text), 0x7FFFFFFF)
