"""Which sizes to look at, around those that are asked for.

In: the sizes of a computation. Out: its region, whose sizes have their kernels in common, and sizes
in and around it at which the computation is looked at, so that formulas hold in all of it.
"""
from __future__ import annotations

from collections.abc import Sequence

FACTOR = 4
"""The largest size of a region is so many times the least: one decision is good for all of it."""
LEAST = 8
"""Sizes below this are each a region: code for so few iterations has no loops."""

Region = tuple[int, int]
"""Sizes from the first to the last."""


def region_of(size: int) -> Region:
    """The sizes that have their kernels in common with this one, where nobody knows a greatest: up
    to four times LEAST, up to four times that, and so on."""
    if size < LEAST:
        return size, size
    low, high = LEAST, LEAST * FACTOR
    while high < size:
        low, high = high + 1, high * FACTOR
    return low, high


def samples(regions: Sequence[Region]) -> list[Sequence[tuple[int, ...]]]:
    """Sizes to look at, for some regions of Dims: of each the first that the function takes.

    Around the regions, so that these are inside of what is known, but for those of one size; beyond
    a greatest size only if the function does not mind. The greatest first, as decisions are made
    for it, then the least, where they must fit, and the greatest again, in case they did not.
    """
    if all(low == high for low, high in regions):
        return []
    ends = [(low, high) if low == high else (_odd(low - 1, -number), _odd(high + 1, number))
            for number, (low, high) in enumerate(regions)]
    inner = [low if low == high else high - number for number, (low, high) in enumerate(regions)]
    least, most = tuple(low for low, _ in ends), tuple(high for _, high in ends)
    rows: list[Sequence[tuple[int, ...]]] = [(most, tuple(inner)), (least,), (most, tuple(inner))]
    if len(ends) == 2 and all(low < high for low, high in regions):
        (a, b), (c, d) = ends
        rows += [((a, d),), ((b, c),)]
    for turn, share in enumerate(SHARES):
        rows.append((tuple(low if low == high else _odd(int(low + (high - low) * share), number) + (
            turn == len(SHARES) - 1 - number) for number, (low, high) in enumerate(ends)),))
    return rows


SHARES = (0.31, 0.64, 0.5)
"""How far between the ends more sizes lie, at the last an even one of the first Dim, at the last
but one of the second: what all samples leave when divided, sizes must leave, too."""


def _odd(size: int, number: int) -> int:
    """An odd size near this one, another for each Dim, as most sizes fill no vectors or tiles."""
    return max(size + 2 * number + (size + 1) % 2 * (1 if number >= 0 else -1), 1)
