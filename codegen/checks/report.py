"""What a checked kernel reports: an array of int64, one record for each work item.

A record has a word for each kind of check, 0 where nothing was found. A word is a key: the greatest
of two tells of the site with the lower number and, of one site, of the lower position. So what is
found does not depend on the order of loops, nor on how they are shared.
"""
from __future__ import annotations

from typing import NamedTuple

from lazyten.support.check_mode import KINDS

WORDS = len(KINDS)
WORD = {kind: number for number, kind in enumerate(KINDS)}
POSITION_BITS = 43
LOW = (1 << POSITION_BITS) - 1
MOST_SITES = 1 << 19


class Finding(NamedTuple):
    """site: for bounds, twice the argument's number, and one more for a store; otherwise the number
    of the argument that is stored. position: of the element in that argument."""

    site: int
    position: int


def key_of(site: int) -> int:
    """The upper bits of a site's keys; the lower ones are those of `~position`."""
    return (MOST_SITES - site) << POSITION_BITS


def read_key(key: int) -> Finding:
    """What a key says."""
    low = key & LOW
    inverted = low - (1 << POSITION_BITS) if low >> (POSITION_BITS - 1) else low
    return Finding(MOST_SITES - (key >> POSITION_BITS), ~inverted)
