"""`lt.mps` and `lt.xpu`: devices that lazyten has no runtime for, so that programs which ask find
that out. (Apple's and Intel's GPUs may be there by OpenCL: the device 'opencl'.)"""
from __future__ import annotations

from typing import Any

from lazyten.random import manual_seed as manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all",
           "synchronize"]

manual_seed_all = manual_seed


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def synchronize(device: Any = None) -> None:
    """Nothing: nothing runs there."""


def empty_cache() -> None:
    """Nothing: nothing is kept there."""
