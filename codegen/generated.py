"""Generated."""
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generated:
    name: str
    source: str
    declares: tuple[str, ...]
    loops: str
