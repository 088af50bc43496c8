"""Where in the user's program an operation was written: the first frame outside this package."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from types import CodeType, FrameType
from typing import Any, NamedTuple


class Location(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


class Instruction:
    """Code with the offset of an instruction, of which there is one at a time: to compare code by
    what it does, and to hash it, takes as long as it is."""

    __slots__ = ("code", "offset")

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code, self.offset = code, offset


Place = Location | Instruction
"""A line, or an instruction. Which line that is takes long to find out, as long as the code, and is
seldom asked."""
MOST = 1 << 14
"""So many instructions are known, to be forgotten where there are more: those of code that is made
again and again."""
_instructions: dict[tuple[int, int], Instruction] = {}
"""By the ids of their code, which they keep, and their offsets."""

_OURS: dict[str, bool] = {}


class _Override(local):
    """The places set by `attribute_to` and of_no_line() in this thread, innermost last."""

    def __init__(self) -> None:
        self.places: list[Place | None] = []


_override = _Override()


def is_ours(name: str, file: str) -> bool:
    """Whether a module of that name and file is lazyten's own."""
    return name == "lazyten" or name.startswith(("lazyten.", "namedtuple_")) or file.startswith(
        "<frozen ")


def is_our_class(kind: type) -> bool:
    """Whether a class is of lazyten, by PyTorch's name, too: as `lazyten run` has Tensor show. A
    class of PyTorch itself is none: none of its bases is."""
    return _root(kind) == "lazyten" or _root(kind) == "torch" and any(
        _root(base) == "lazyten" for base in kind.__mro__)


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def is_found_by_name(thing: Any) -> bool:
    """Whether a function, or what stands for one, is where it says: in its module, by its name. A
    pickle holds nothing else of it."""
    place: Any = sys.modules.get(getattr(thing, "__module__", None) or "")
    for part in getattr(thing, "__qualname__", "").split("."):
        place = getattr(place, part, None)
    return place is thing


def user_location() -> Location | None:
    """The line of the innermost frame that is not lazyten's own, or the one set by
    `attribute_to`."""
    return located(user_place())


def located(place: Place | None) -> Location | None:
    """The line of a place."""
    if place is None or isinstance(place, Location):
        return place
    code, offset = place.code, place.offset
    line = next((line for first, end, line in code.co_lines() if first <= offset < end), None)
    return Location(code.co_filename, line or code.co_firstlineno)


def user_place(above: int = 1) -> Place | None:
    """The place of `user_location`.

    above: how many callers up the search starts; those below are known to be lazyten's own.
    """
    places = _override.places
    if places:
        return places[-1]
    frame: FrameType | None = sys._getframe(above)
    while frame is not None:
        file = frame.f_code.co_filename
        try:
            ours = _OURS[file]
        except KeyError:
            ours = _OURS[file] = is_ours(frame.f_globals.get("__name__", ""), file)
        if not ours:
            code, offset = frame.f_code, frame.f_lasti
            return _instructions.get((id(code), offset)) or _noted(code, offset)
        frame = frame.f_back
    return None


def _noted(code: CodeType, offset: int) -> Instruction:
    """An instruction that was not known."""
    if len(_instructions) >= MOST:
        _instructions.clear()
    return _instructions.setdefault((id(code), offset), Instruction(code, offset))


class attribute_to:
    """Within this block new nodes belong to `place` (a gradient belongs to its forward line)."""

    def __init__(self, place: Place | None) -> None:
        self.place = place

    def __enter__(self) -> None:
        if self.place is not None:
            _override.places.append(self.place)

    def __exit__(self, *exc: object) -> None:
        if self.place is not None:
            _override.places.pop()


@contextmanager
def of_no_line() -> Iterator[None]:
    """Within this block new nodes belong to no line: they are shared by what many lines do."""
    _override.places.append(None)
    try:
        yield
    finally:
        _override.places.pop()
