"""`lt.mps` and `lt.xpu`: devices that lazyten has no runtime for, so that programs which ask find
that out. (Apple's and Intel's GPUs may be there by OpenCL: the device 'opencl'.)"""
from __future__ import annotations

from typing import Any

from lazyten.pytorch.refusals import refused
from lazyten.random import get_rng_state as get_rng_state
from lazyten.random import manual_seed as manual_seed
from lazyten.random import set_rng_state as set_rng_state

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all",
           "synchronize"]

manual_seed_all = manual_seed
globals().update(refused(
    "xpu", "there is no such device; is_available() says so", "current_device", "device",
    "get_device_capability", "get_device_name", "get_device_properties", "mem_get_info",
    "set_device", "Event", "Stream", "current_stream", "stream"))


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


def memory_allocated(device: Any = None) -> int:
    """0: nothing is kept there."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
current_allocated_memory = driver_allocated_memory = recommended_max_memory = memory_allocated
reset_peak_memory_stats = synchronize


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no such device."""
    return False
