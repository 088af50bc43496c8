"""The folder of a checkpoint, which changes from one whole checkpoint to the next at one moment.

A new one is written to a folder beside it. The first is then moved into its place. Later ones have
files of other names, which are moved in among those that are there; then the index is replaced,
which says which files count; then the others are removed. So whenever a job ends there is a
whole checkpoint, the earlier one or the new one.
"""
from __future__ import annotations

import os
import re
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from lazyten.distributed.checkpoint.index import INDEX
from lazyten.support import paths
from lazyten.support.errors import ArgumentError

_FILE = re.compile(r"(\d+)-\d+\.safetensors")


def file_of(number: int, rank: int) -> str:
    """The name of a rank's file in the save of that number."""
    return f"{number}-{rank}.safetensors"


def partial_of(folder: Path) -> Path:
    """Where a new checkpoint is written."""
    return folder.with_name(f".{folder.name}.partial")


def writing(folder: Path, operation: str) -> AbstractContextManager[None]:
    """What the system refuses is an ArgumentError."""
    return paths.writing(folder, operation, "give a folder that all ranks can write")


def _files(folder: Path) -> dict[Path, int]:
    """The files of parts in a folder, and the numbers of their saves."""
    matches = {path: _FILE.fullmatch(path.name) for path in folder.iterdir()}
    return {path: int(match[1]) for path, match in matches.items() if match is not None}


def prepare(folder: Path, operation: str) -> int:
    """Make an empty folder for a new checkpoint; gives the number of this save, which no file has
    that is there. ArgumentError if something else is in its place."""
    with writing(folder, operation):
        is_there = folder.exists()
        if is_there and not (folder / INDEX).exists() and (
                not folder.is_dir() or any(folder.iterdir())):
            raise ArgumentError(f"{operation}: {folder} is there, and is no checkpoint; it would "
                                f"be lost: give another name, or remove it")
        partial = partial_of(folder)
        if partial.exists():  # of a job that was ended
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        return max(_files(folder).values(), default=-1) + 1 if is_there else 0


def commit(folder: Path, index: str, operation: str) -> None:
    """Write the index of a new checkpoint, and put all in its place."""
    partial = partial_of(folder)
    with writing(folder, operation):
        (partial / INDEX).write_text(index, "utf8")
        flush(partial / INDEX)
        flush(partial)
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
        if not folder.exists():
            partial.rename(folder)
            flush(folder.parent)
            return
        earlier = _files(folder)
        for path in _files(partial):
            path.replace(folder / path.name)
        flush(folder)
        (partial / INDEX).replace(folder / INDEX)
        flush(folder)
        for path in earlier:
            path.unlink(missing_ok=True)
        partial.rmdir()


def flush(path: Path) -> None:
    """Have the system write what it has of a file or a folder to the disk."""
    if os.name != "posix" and path.is_dir():
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
