"""Work that processes which share a folder divide among them: what one makes, others wait for.

In: a folder and keys. Out: whether a key is this process's to make. A claim is a lock of one byte
of one file, at a place that follows from the key: it ends with its process, however that ends, and
nothing is left to tidy up. Claims only save work. Where they cannot be had (another system, a file
system without locks) each process makes all it needs; threads of one process do not exclude each
other.
"""
from __future__ import annotations

import errno
import hashlib
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, lockf
    HAS_LOCKS = True
except ImportError:  # Windows
    HAS_LOCKS = False

NAME = "claims"
PLACES = 1 << 56
"""Bytes that may be locked; the file itself stays empty."""
PAUSE_SECONDS = 2e-3
PATIENCE_SECONDS = 10.0
"""How often to look whether others are done, and how long to wait for one key: a process that was
stopped keeps its claims."""
TAKEN = frozenset({errno.EACCES, errno.EAGAIN})


class Claims:
    """What the processes that use a folder are making now; without a folder, only this one."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else _file(str(folder))
        self.are_shared = self._file is not None

    def take(self, key: str) -> bool:
        """Claim a key; False if another process has claimed it."""
        if self._file is None:
            return True
        try:
            lockf(self._file, LOCK_EX | LOCK_NB, 1, _place(key))
        except OSError as error:
            return error.errno not in TAKEN
        return True

    def give_back(self, key: str) -> None:
        """End a claim: what it was for is there now, or will not be."""
        if self._file is not None:
            with suppress(OSError):  # it was none, where a file system has no locks
                lockf(self._file, LOCK_UN, 1, _place(key))

    def wait(self, key: str) -> bool:
        """Return when no other process has claimed a key; False after PATIENCE_SECONDS."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.take(key):
            if time.monotonic() > end:
                return False
            time.sleep(PAUSE_SECONDS)
        self.give_back(key)
        return True


def _place(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") % PLACES


@cache
def _file(folder: str) -> int | None:
    """The file whose bytes are locked; None where there are no locks. It stays open: whichever
    copy of it a process closes, all its locks are gone."""
    if not HAS_LOCKS:
        return None
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.open(os.path.join(folder, NAME), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
