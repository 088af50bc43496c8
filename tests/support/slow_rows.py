"""Rows of a test of which `make test` takes some, and `make test-slow` the others: those that a
test names, or `few(n)` of them."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest

from lazyten.ir import dtype as dt

OF_EACH_KIND = (dt.float32, dt.float16, dt.int64, dt.uint8, dt.bool_, dt.float8_e4m3fn)
"""Element types, where a test of each takes long: as long as others of its size, or of its kind."""


def slow_but(rows: Iterable[Any], *quick: Any) -> list[Any]:
    """All of these rows, of which those that are not `quick` are slow."""
    rows = list(rows)
    assert {*quick} - {*OF_EACH_KIND} <= {*rows}, "what is quick is one of the rows"
    return [row if row in quick else pytest.param(row, marks=pytest.mark.slow) for row in rows]


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Gives all rows of a test marked `few(n)` but n the marker `slow`. Which n, follows from their
    names alone: the same in each process, and no device or type is left out of all tests."""
    rows: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            rows[item.nodeid.partition("[")[0]].append(item)
    for found in rows.values():
        marker = found[0].get_closest_marker("few")
        assert marker is not None
        for item in sorted(found, key=lambda i: crc32(i.nodeid.encode()))[marker.args[0]:]:
            item.add_marker(pytest.mark.slow)
