"""The check of what users give as the path of a file or a folder."""
from __future__ import annotations

import os
from pathlib import Path

from lazyten.support.errors import ArgumentError, DTypeError


def path_of(path: object, operation: str, what: str = "a file") -> Path:
    """The path. DTypeError for what is none, ArgumentError for one that no system can have."""
    if not isinstance(path, str | os.PathLike):
        raise DTypeError(f"{operation}: the path is {type(path).__name__} {path!r:.60}; give the "
                         f"path of {what}, as a string or a Path")
    name = os.fspath(path)
    if not isinstance(name, str) or not name or "\0" in name:
        raise ArgumentError(f"{operation}: the path {name!r:.60} cannot be one; give the path of "
                            f"{what}, as a string without NUL")
    return Path(name)
