"""`lt.cpu`: the processor."""
from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

__all__ = ["current_device", "device_count", "is_available", "set_device", "stream", "synchronize"]


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1: its cores are threads of one device."""
    return 1


def current_device() -> str:
    """'cpu'."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Nothing: a kernel has run when its call returns."""


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def stream(stream: Any) -> AbstractContextManager[None]:
    """Nothing: launches are in the order of the program."""
    return nullcontext()
