"""The marker `few(n)`: `make test` takes n rows of a test, `make test-slow` the others."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from zlib import crc32

import pytest


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
