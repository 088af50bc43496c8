"""What some ops have as their argument: loop variables, kernel arguments, checked positions."""
from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """RANGE's argument: a loop variable 0 <= i < extent.

    kind: 'loop' a plain loop, 'reduce' a loop of an ACCUMULATE, 'block' one whose iterations are
    combined apart, 'unroll' one instance a value (a register tile), 'vector' the lanes of a vector
    register, 'parallel' a loop that threads share, 'local' the work items of a group, 'serial' a
    loop whose iterations may store to one place, and so stays as it is.
    `order` sorts loops, outermost first.
    """

    order: tuple[int, ...]
    extent: int
    kind: str


class Param(NamedTuple):
    """PARAM's argument: kernel argument number `slot`, a flat array of `size` elements.

    held: it has a block of a value, other elements for each block.
    """

    slot: int
    size: int
    held: bool = False


class IndexBound(NamedTuple):
    """CHECKED's argument: 0 <= index < size, or -size <= index where it may count `from_end`.

    The others tell what the user knows it as: an index or a label, on an axis, for an operation.
    """

    operation: str
    axis: int
    size: int
    from_end: bool = True
    called: str = "index"


class ValueBound(NamedTuple):
    """CHECKED's argument where it has flags: all are 0, or the `operation`'s `rule` is broken."""

    operation: str
    rule: str
    size: int = 1
    from_end: bool = False


class LocalArray(NamedTuple):
    """STAGE's argument: array `number` of a group, of `size` elements in all its `buffers`.
    width, apart: where it is in swizzled rows, the elements of one, and from its part of the lines
    to the next part."""

    number: int
    size: int
    buffers: int = 1
    width: int = 0
    apart: int = 0
