"""The grammar of decisions: what a text such as `tile(i0:3, i1:4) vector(i1:8)` is made of.

In: text. Out: its parts, or an ArgumentError for what cannot be read for any kernel. Whether a part
fits a kernel is the code generator's business (codegen/optimize/decision_text.py). Called from
there, and by tuning/records.py for each line of a file.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from lazyten.support.errors import ArgumentError

PLAIN = "plain loops"
"""A kernel without any decision."""
_PART = re.compile(r"\s*(\w+)\(([^()]*)\)\s*")
_RANGE = re.compile(r"[ir]\d+(\.\d+)*")
_STAGE = re.compile(r"argument (\d+)(?:, load (\d+))?(?:(, local)(?:, (\d+) buffers)?)?")
MOST = 1 << 31
"""No range is so long that a number above this could fit it."""

Fail = Callable[[str], NoReturn]


class Part(NamedTuple):
    """One decision. text: as it was given. ranges: the names of ranges in it, numbers: the numbers,
    in order; of a stage these are the argument, its load and the buffers. word: the tensor core, or
    'local'."""

    name: str
    text: str
    ranges: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    word: str = ""


def parts(text: str, where: str) -> list[Part]:
    """The parts of a text. Raises ArgumentError, which starts with `where` and the part."""
    found: list[Part] = []
    position = 0
    while position < len(text) and text.strip() != PLAIN:
        match = _PART.match(text, position)
        given = text[position:].strip() if match is None else match[0].strip()

        def fail(problem: str, given: str = given) -> NoReturn:
            raise ArgumentError(f"{where}: {given:.80}: {problem}")

        if match is None:
            fail("cannot be read; parts look like tile(i0:3, i1:4) or vector(i1:8), and a kernel "
                 f"without any is {PLAIN!r}")
        name, inside = match[1], match[2]
        if name not in FORMS:
            fail(f"there is no such decision; there are {', '.join(FORMS)}")
        if name != "stage" and any(part.name == name for part in found):
            fail(f"{name} comes twice; name all its ranges in one")
        found.append(FORMS[name](Part(name, given), inside, fail))
        position = match.end()
    return found


def _range(text: str, fail: Fail) -> str:
    name = text.strip()
    if not _RANGE.fullmatch(name):
        fail(f"{name!r} is no range; those of the output are i0, i1, .., those of reductions "
             f"r0.0, r0.1, ..")
    return name


def _count(text: str, fail: Fail) -> int:
    number = text.strip()
    if not (number.isascii() and number.isdecimal()) or not 1 <= int(number[:20]) <= MOST:
        fail(f"{number!r:.40} is not a number of at least 1, and at most {MOST}")
    return int(number)


def _counts(part: Part, inside: str, fail: Fail) -> Part:
    """Ranges and a number each, as in i0:3, i1:4."""
    ranges, numbers = [], []
    for item in inside.split(","):
        name, colon, number = item.partition(":")
        if not colon:
            fail(f"{item.strip()!r} needs a number, as in i0:4")
        ranges.append(_range(name, fail))
        numbers.append(_count(number, fail))
    _once(ranges, fail)
    return part._replace(ranges=tuple(ranges), numbers=tuple(numbers))


def _once(ranges: list[str], fail: Fail) -> None:
    for number, name in enumerate(ranges):
        if name in ranges[:number]:
            fail(f"{name} comes twice")


def _outermost(part: Part, inside: str, fail: Fail) -> Part:
    """One range."""
    return part._replace(ranges=(_range(inside, fail),))


def _parallel(part: Part, inside: str, fail: Fail) -> Part:
    """Ranges and one number for all, as in i0*i1:4."""
    names, _, grain = inside.partition(":")
    ranges = [_range(name, fail) for name in names.split("*")]
    _once(ranges, fail)
    return part._replace(ranges=tuple(ranges), numbers=(_count(grain, fail),))


def _tensor(part: Part, inside: str, fail: Fail) -> Part:
    """Rows, columns and reduction, and a core, as in i0, i1, r0.2: m16n8k16_f16. Of a streamed sum
    the reduction of the product in its rows comes after its own."""
    names, _, core = inside.partition(":")
    ranges = [_range(name, fail) for name in names.split(",")]
    if not 3 <= len(set(ranges)) == len(ranges) <= 4 or not re.fullmatch(r"\w+", core.strip()):
        fail("write rows, columns, reduction and a tensor core, as in i0, i1, r0.2: m16n8k16_f16")
    return part._replace(ranges=tuple(ranges), word=core.strip())


def _stage(part: Part, inside: str, fail: Fail) -> Part:
    """An argument, perhaps one of its loads, and where it is kept."""
    match = _STAGE.fullmatch(inside.strip())
    if match is None:
        fail("write stage(argument N)")
    numbers = (int(match[1][:20]), int((match[2] or "0")[:20]), int((match[4] or "1")[:20]))
    return part._replace(numbers=numbers, word="local" if match[3] else "")


FORMS: dict[str, Callable[[Part, str, Fail], Part]] = {
    "tile": _counts, "unroll": _counts, "vector": _counts, "block": _counts, "local": _counts,
    "group": _counts, "tensor": _tensor, "outermost": _outermost, "stage": _stage,
    "parallel": _parallel}
"""How the inside of each decision is read."""
