"""Target."""
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    name: str = "host"
    vector_bytes: int = 32
    vector_registers: int = 16
