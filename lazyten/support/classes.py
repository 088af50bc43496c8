"""Which classes are lazyten's."""
from __future__ import annotations


def is_our_class(kind: type) -> bool:
    """Whether a class is of lazyten, by PyTorch's name, too: as `lazyten run` has Tensor show."""
    return kind.__module__.partition(".")[0] in ("lazyten", "torch")
