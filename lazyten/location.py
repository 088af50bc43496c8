"""Where in the user's program an operation was written: the first frame outside this package."""
from __future__ import annotations

import os
import sys
from threading import local
from types import FrameType
from typing import NamedTuple


class Location(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


_OURS: dict[str, bool] = {}


class _Override(local):
    """The locations set by `attribute_to` in this thread, innermost last."""

    def __init__(self) -> None:
        self.locations: list[Location] = []


_override = _Override()


def _is_ours(name: str, file: str) -> bool:
    return name == "lazyten" or name.startswith(("lazyten.", "namedtuple_")) or file.startswith(
        "<frozen ")


def user_location(above: int = 1) -> Location | None:
    """The innermost frame that is not lazyten's own, or the one set by `attribute_to`.

    above: how many callers up the search starts; those below are known to be lazyten's own.
    """
    locations = _override.locations
    if locations:
        return locations[-1]
    frame: FrameType | None = sys._getframe(above)
    while frame is not None:
        file = frame.f_code.co_filename
        try:
            ours = _OURS[file]
        except KeyError:
            ours = _OURS[file] = _is_ours(frame.f_globals.get("__name__", ""), file)
        if not ours:
            return tuple.__new__(Location, (file, frame.f_lineno))
        frame = frame.f_back
    return None


class attribute_to:
    """Within this block new nodes belong to `location` (a gradient belongs to its forward line)."""

    def __init__(self, location: Location | None) -> None:
        self.location = location

    def __enter__(self) -> None:
        if self.location is not None:
            _override.locations.append(self.location)

    def __exit__(self, *exc: object) -> None:
        if self.location is not None:
            _override.locations.pop()
