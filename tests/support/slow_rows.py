"""Rows of a test of which `make test` takes some, one of each kind, and `make test-slow` others."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from lazyten.ir import dtype as dt

OF_EACH_KIND = (dt.float32, dt.float16, dt.int64, dt.uint8, dt.bool_, dt.float8_e4m3fn)
"""Element types, where a test of each takes long: as long as others of its size, or of its kind."""


def slow_but(rows: Iterable[Any], *quick: Any) -> list[Any]:
    """All of these rows, of which those that are not `quick` are slow."""
    rows = list(rows)
    assert {*quick} - {*OF_EACH_KIND} <= {*rows}, "what is quick is one of the rows"
    return [row if row in quick else pytest.param(row, marks=pytest.mark.slow) for row in rows]
