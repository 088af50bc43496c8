"""What a mistake must say: an error of a kind, with these words."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def check_explained(call: Callable[[], Any], error: type[Exception], words: Sequence[str]) -> None:
    """The call raises the error, whose message has all the words."""
    with pytest.raises(error) as info:
        call()
    for word in words:
        assert word in str(info.value)
