"""The threads of NumPy's products and factorizations: one, where others have work to do, too.

OpenBLAS's threads wait for each other in loops, so that on a machine with other work two of them
take up to some hundred times as long as one for small matrices, as those of a network's layers.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this block products of matrices take one thread, if NumPy has OpenBLAS in it."""
    with at_most(1):
        yield


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Within this block products and factorizations take so many threads, or as many as before if
    those were fewer."""
    limit = _limit()
    if limit is None:
        yield
        return
    before = limit(count)
    try:
        if before < count:
            limit(before)
        yield
    finally:
        limit(before)


@cache
def _limit() -> Callable[[int], int] | None:
    """A function that sets how many threads there are, and gives how many there were."""
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    for path in folder.glob("*openblas*"):
        try:
            found = ctypes.CDLL(str(path)).openblas_set_num_threads_local
        except (OSError, AttributeError):
            continue
        found.argtypes, found.restype = [ctypes.c_int], ctypes.c_int
        return found
    return None
