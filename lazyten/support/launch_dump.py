"""Launches kept in files: the environment variable LAZYTEN_DUMP, and `lt.dump_kernels`.

realization.py looks here before each launch, and has launch_file.py write it, so that of a crash
there is one, too.
"""
from __future__ import annotations

import os

from lazyten.support.paths import path_of
from lazyten.support.variables import Variable

_DUMP = Variable("LAZYTEN_DUMP")
_folders: list[str] = []


def folder() -> str:
    """Where launches are kept; empty if they are not."""
    return _folders[-1] if _folders else _DUMP.text if _DUMP.is_set() else ""


class dump_kernels:
    """Within this block each launch, in any thread, is kept in a file of `folder`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = str(path_of(folder, "dump_kernels", "a folder"))

    def __enter__(self) -> None:
        _folders.append(self.folder)

    def __exit__(self, *exc: object) -> None:
        _folders.remove(self.folder)
