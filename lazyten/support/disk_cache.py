"""Files that spare work which was done before: a folder of entries, found again by their key.

In: a key (a text that says everything the result depends on) and the result, as a few byte strings.
Out: the same byte strings, or nothing. Whatever is wrong with an entry or the folder, an entry that
cannot be kept or trusted counts as missing: callers do the work again. Runtimes keep compiled code
here; `python -m lazyten cache` shows and empties the folder.

Several processes and threads may share a folder: an entry is written under a name of its own and
then renamed, so a reader sees a whole entry or none.
"""
from __future__ import annotations

import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lazyten.support.errors import ArgumentError

MAGIC = b"lazyten entry 1\n"
DIGEST_BYTES = 32
SUFFIX, UNFINISHED = ".entry", ".unfinished"
DEFAULT_LIMIT = 256 << 20
TOUCH_SECONDS = 86400.0
"""An entry's time of last use is kept to this precision, so that a use seldom writes."""
UNFINISHED_SECONDS = 3600.0
"""A file that is unfinished for so long was left by a process that died."""


def default_folder() -> Path | None:
    """Where entries are kept: LAZYTEN_CACHE, or else lazyten's place in the user's cache folder.

    None where LAZYTEN_CACHE is 0 or off, or the user has no home.
    """
    chosen = os.environ.get("LAZYTEN_CACHE")
    if chosen:
        off = chosen.lower() in ("0", "off")
        return None if off else Path(os.path.expanduser(chosen)).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # as its specification says
        base = os.path.expanduser(os.path.join("~", ".cache"))
    return Path(base, "lazyten") if os.path.isabs(base) else None


def default_limit() -> int:
    """Bytes that a folder may take: LAZYTEN_CACHE_SIZE, or else 256 MiB."""
    text = os.environ.get("LAZYTEN_CACHE_SIZE") or str(DEFAULT_LIMIT)
    if not text.isdecimal():
        raise ArgumentError(f"LAZYTEN_CACHE_SIZE={text!r}: give a number of bytes; to keep nothing "
                            "on disk, set LAZYTEN_CACHE=0")
    return int(text)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the folder, finished or not, and when it was last used."""

    path: str
    size: int
    used: float


class DiskCache:
    """The entries of one folder. No method raises for what is wrong with files or the disk."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self.folder = folder
        self.limit = default_limit() if limit is None else limit
        self.writable = True
        share = int.from_bytes(os.urandom(4), "little") / 2**32
        self._until_eviction = int(share * self._unlooked)

    def get(self, key: str) -> list[bytes] | None:
        """What was put under `key`; None if there is nothing, or nothing to be trusted."""
        path = self._path(key)
        try:
            data, used = _read(path)
        except OSError:
            return None
        parts = unpack(data)
        if not parts or parts[0] != key.encode():
            return None
        if time.time() - used > TOUCH_SECONDS:
            with suppress(OSError):
                os.utime(path)
        return parts[1:]

    def put(self, key: str, parts: Sequence[bytes]) -> None:
        """Keep `parts` under `key`, if the disk lets us. The first failure is the last attempt."""
        if not self.writable:
            return
        data = pack([key.encode(), *parts])
        try:
            self._write(self._path(key), data)
        except OSError:
            self.writable = False
            return
        self._until_eviction -= len(data)
        if self._until_eviction < 0:
            self._evict()
            self._until_eviction = self._unlooked

    @property
    def _unlooked(self) -> int:
        """Bytes this process may write before it looks at the size, which takes a tenth of a second
        for ten thousand files; the first time a random part, as many processes write little."""
        return self.limit // 16

    def entries(self) -> list[Entry]:
        """The finished entries."""
        return [e for e in self._files() if e.path.endswith(SUFFIX)]

    def clear(self) -> int:
        """Remove all entries; how many there were. Other files in the folder stay."""
        files = list(self._files())
        for entry in files:
            _remove(entry.path)
        return sum(entry.path.endswith(SUFFIX) for entry in files)

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, hashlib.sha256(key.encode()).hexdigest() + SUFFIX)

    def _write(self, path: str, data: bytes) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        unfinished = os.path.join(self.folder, os.urandom(16).hex() + UNFINISHED)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with open(os.open(unfinished, flags, 0o600), "wb") as file:
                file.write(data)
            os.replace(unfinished, path)
        except OSError:
            _remove(unfinished)
            raise

    def _files(self) -> Iterator[Entry]:
        """What this class has put into the folder."""
        with suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                if file.name.endswith((SUFFIX, UNFINISHED)):
                    with suppress(OSError):  # another process has just removed it
                        status = file.stat(follow_symlinks=False)
                        yield Entry(file.path, status.st_size, status.st_mtime)

    def _evict(self) -> None:
        """If the folder is too large, remove what was unused longest until a quarter is free."""
        files = sorted(self._files(), key=lambda entry: entry.used)
        finished = []  # what somebody is writing now stays
        for entry in files:
            if entry.path.endswith(SUFFIX):
                finished.append(entry)
            elif time.time() - entry.used > UNFINISHED_SECONDS:
                _remove(entry.path)
        total = sum(entry.size for entry in finished)
        room = total - self.limit * 3 // 4 if total > self.limit else 0
        for entry in finished:
            if room <= 0:
                break
            _remove(entry.path)
            room -= entry.size


def pack(parts: Sequence[bytes]) -> bytes:
    """One byte string of several: magic, SHA-256 of the rest, count, lengths, contents."""
    lengths = struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts))
    body = b"".join([lengths, *parts])
    return MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes) -> list[bytes] | None:
    """The parts that `pack` was given; None if that is not what `data` is."""
    start = len(MAGIC) + DIGEST_BYTES
    body = data[start:]
    if data[:start] != MAGIC + hashlib.sha256(body).digest():
        return None
    count, = struct.unpack_from("<Q", body)
    parts, at = [], 8 * (count + 1)
    for length in struct.unpack_from(f"<{count}Q", body, 8):
        parts.append(body[at:at + length])
        at += length
    return parts


def _read(path: str) -> tuple[bytes, float]:
    """A file's contents and its time of last use. OSError unless only this user can write it."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # links, pipes: refused
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not _is_ours(status):
            raise PermissionError(path)
        return file.read(), status.st_mtime


def _is_ours(status: os.stat_result) -> bool:
    """Whether it is a plain file that nobody but this user can have written."""
    if not stat.S_ISREG(status.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # Windows: a profile's folders are the user's own
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
