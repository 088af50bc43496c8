"""What a function says that it is called, and whether that is so: a pickle holds nothing else of
it."""
from __future__ import annotations

import sys
from typing import Any


def is_found_by_name(thing: Any) -> bool:
    """Whether a function, or what stands for one, is where it says: in its module, by its name."""
    place: Any = sys.modules.get(getattr(thing, "__module__", None) or "")
    for part in getattr(thing, "__qualname__", "").split("."):
        place = getattr(place, part, None)
    return place is thing
