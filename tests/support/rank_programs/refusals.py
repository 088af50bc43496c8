"""What ranks must not be able to do."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lazyten.support.errors import LazytenError


def refuse(call: Callable[[], Any], words: str, kind: type[Exception] = LazytenError) -> None:
    """The call must raise an error of this kind that says so: words are a pattern."""
    try:
        call()
    except kind as error:
        assert re.search(words, str(error)), error
    else:
        raise AssertionError(f"no error that says {words}")
