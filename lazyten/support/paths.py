"""Paths that users give: their check, and files written to them, whole or not at all."""
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

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


def write_files(files: Mapping[Path, bytes], operation: str) -> None:
    """Write files, which appear once all of them are complete. ArgumentError if that fails; then
    what was there still is. A link stays one, and what is no file, such as /dev/null, is written
    to."""
    partial = {path: _beside(path) for path in files}
    try:
        for path, content in files.items():
            with writing(path, operation):
                partial[path].write_bytes(content)
        for path, written in partial.items():
            with writing(path, operation):
                if written != path:
                    os.replace(written, os.path.realpath(path))
    finally:
        for path, written in partial.items():
            if written != path:
                with suppress(OSError):
                    written.unlink()


def _beside(path: Path) -> Path:
    """Where a file is written until it is complete: of this thread alone."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        return path
    place = Path(os.path.realpath(path))
    return place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}")


@contextmanager
def writing(path: Path, operation: str,
            remedy: str = "give a file in a folder that can be written") -> Iterator[None]:
    """What the system says against writing is an ArgumentError."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(f"{operation}: cannot write {path}: {error.strerror or error}; "
                            f"{remedy}") from error
