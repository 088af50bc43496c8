"""`lt.version`: which lazyten this is, under PyTorch's names. For no library of PyTorch's is it
built, so their versions are None."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

__version__ = "0.1.0"
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None


class TorchVersion(str):
    """A version as text, which compares as a version with other texts and with tuples of numbers:
    '2.13.0' is more than '2.2', and at least (2, 13)."""

    __slots__ = ()

    def _compared(self, other: Any, compare: Callable[[Any, Any], bool]) -> bool:
        text = other if isinstance(other, str) or not isinstance(other, Iterable) else \
            ".".join(map(str, other))
        if not isinstance(text, str):
            raise TypeError(f"a version does not compare with {type(other).__name__} {other!r:.40}")
        mine, theirs = _order(self), _order(text)
        if mine is None or theirs is None:
            return compare(str(self), text)
        return compare(mine, theirs)

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, lambda a, b: a < b)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, lambda a, b: a <= b)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, lambda a, b: a >= b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str | tuple) and self._compared(other, lambda a, b: a == b)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:[._-]?(a|alpha|b|beta|c|rc|pre|dev)[._-]?(\d*))?"
                      r"(?:\.post(\d+))?(?:\+([\w.]+))?")


def _order(text: str) -> tuple[Any, ...] | None:
    """What versions are compared by (PEP 440): numbers without zeros at their end, what comes
    before a release and after it, and whether it is a build of one's own. None for other texts."""
    found = _VERSION.fullmatch(text.strip().lower())
    if found is None:
        return None
    numbers = [int(n) for n in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    stage = {"dev": 0, "a": 1, "b": 2, "c": 3, "r": 3, "p": 3}.get(
        "dev" if found[2] == "dev" else (found[2] or "")[:1], 4)
    return tuple(numbers), stage, int(found[3] or 0), int(found[4] or -1), found[5] or ""
