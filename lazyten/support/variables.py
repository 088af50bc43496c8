"""Environment variables that are looked at all the time: `os.environ.get` takes a microsecond."""
from __future__ import annotations

import os
from collections.abc import Callable, Container
from functools import partial
from operator import contains
from typing import Any


class EnvVar:
    """One environment variable, read at its present value.

    name: by which the system knows it. is_set: whether it has a value, which is quicker to ask than
    what it is.
    """

    __slots__ = ("is_set", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        table: Container[Any] = getattr(os.environ, "_data", os.environ)  # encoded, as they are
        key: Any = name if table is os.environ else os.environ.encodekey(name)
        self.is_set: Callable[[], bool] = partial(contains, table, key)

    @property
    def text(self) -> str:
        """Its value; empty if it is not set."""
        return os.environ.get(self.name, "") if self.is_set() else ""
