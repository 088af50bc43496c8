"""Environment variables that are looked at all the time: `os.environ.get` takes a microsecond."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class Variable:
    """One environment variable, read at its present value."""

    __slots__ = ("_key", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._key: Any = os.environ.encodekey(name)

    @property
    def text(self) -> str:
        """Its value; empty if it is not set."""
        table: Mapping[Any, Any] | None = getattr(os.environ, "_data", None)
        if table is None or self._key in table:  # decoded there
            return os.environ.get(self._name, "")
        return ""
