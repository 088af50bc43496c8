"""Which checks kernels are compiled with: the environment variable CHECK, and `lt.check`.

realization.py puts the kinds into the kernels that it has compiled (`Kernel.checks`); the code
generator and the interpreter do the rest. docs/debug.md says what each kind finds.
"""
from __future__ import annotations

import threading
from functools import cache

from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.variables import EnvVar

KINDS = ("bounds", "overflow", "nan", "inf")
"""In the order in which they are looked at: of two findings, the first kind is reported."""

Kinds = tuple[str, ...]

_CHECK = EnvVar("CHECK")


class _Given(threading.local):
    kinds: Kinds | None = None


_given = _Given()


def active() -> Kinds:
    """The kinds of checks that what is computed in this thread gets."""
    if _given.kinds is not None:
        return _given.kinds
    text = _CHECK.text if _CHECK.is_set() else ""
    return _read(text, "CHECK") if text else ()


@cache
def _read(text: str, where: str) -> Kinds:
    """'1' is all kinds, '0' none; otherwise their names, with commas between them."""
    if text in ("0", "1"):
        return KINDS if text == "1" else ()
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise ArgumentError(f"{where}={text!r}: there is no check {unknown[0]!r}; write 1 for all, "
                            f"0 for none, or some of {', '.join(KINDS)} with commas between them")
    return tuple(kind for kind in KINDS if kind in names)


class check:
    """Within this block what is computed is checked.

    kinds: as in the environment variable CHECK, which it replaces. Values are computed when they
    are asked for: what was written before the block but is computed in it is checked too.
    """

    def __init__(self, kinds: str = "1") -> None:
        if not isinstance(kinds, str):
            raise DTypeError(f"check: kinds={kinds!r:.60}; give a text: 1 for all, 0 for none, or "
                             f"some of {', '.join(KINDS)} with commas between them")
        self.kinds = _read(kinds, "check: kinds")
        self._before: list[Kinds | None] = []

    def __enter__(self) -> None:
        self._before.append(_given.kinds)
        _given.kinds = self.kinds

    def __exit__(self, *exc: object) -> None:
        _given.kinds = self._before.pop()
