"""`lt.cuda`: the device `cuda` under PyTorch's names; it says honestly where there is none.

Memory is counted and kept for reuse by the runtime (`lt.memory_stats`), and random numbers do not
depend on the device, so there is one generator for all.
"""
from __future__ import annotations

from lazyten import amp
from lazyten.random import manual_seed
from lazyten.storage.device import executor, missing, runtime_class
from lazyten.storage.memory_use import empty_cache as _empty_cache
from lazyten.storage.memory_use import memory_stats, reset_peak
from lazyten.storage.placement import Device, gpu
from lazyten.support.errors import DeviceError

__all__ = [
    "amp", "current_device", "device_count", "empty_cache", "get_device_name", "is_available",
    "is_bf16_supported", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "memory_allocated", "memory_reserved", "reset_peak_memory_stats", "synchronize",
]

manual_seed_all = manual_seed


def _names() -> list[str]:
    """The GPUs that can be used."""
    if missing("cuda") is not None:
        return []
    try:
        return list(runtime_class("cuda").devices())
    except DeviceError:
        return []


def is_available() -> bool:
    """Whether there is an NVIDIA GPU, its driver, and the extra lazyten[cuda]."""
    return bool(_names())


def device_count() -> int:
    """How many GPUs can be used."""
    return len(_names())


def current_device() -> int:
    """The number of the GPU that 'cuda' means: the first, unless the default device is another."""
    default = Device.default()
    return default.index or 0 if default.type == "cuda" else 0


def _device(device: str | int | None) -> Device:
    return gpu(current_device() if device is None else device)


def get_device_name(device: str | int | None = None) -> str:
    """What a GPU is called. DeviceError if there is none."""
    return runtime_class("cuda").devices()[_device(device).index or 0]


def is_bf16_supported() -> bool:
    """Whether bfloat16 can be computed with: it is on every device, where there is one."""
    return is_available()


def synchronize(device: str | int | None = None) -> None:
    """Return when everything that was launched is done."""
    executor(_device(device)).synchronize()


def empty_cache() -> None:
    """Give memory that no tensor uses back; nothing to do where there is no GPU."""
    if is_available():
        _empty_cache(_device(None))


def memory_allocated(device: str | int | None = None) -> int:
    """Bytes that tensors have; 0 where there is no GPU."""
    return memory_stats(_device(device)).in_use if is_available() else 0


def memory_reserved(device: str | int | None = None) -> int:
    """Bytes that tensors have, and those kept for reuse; 0 where there is no GPU."""
    stats = memory_stats(_device(device)) if is_available() else None
    return stats.in_use + stats.pooled if stats else 0


def max_memory_allocated(device: str | int | None = None) -> int:
    """The most bytes that tensors had at a time; 0 where there is no GPU."""
    return memory_stats(_device(device)).peak if is_available() else 0


def reset_peak_memory_stats(device: str | int | None = None) -> None:
    """Count the most bytes anew from now on."""
    if is_available():
        reset_peak(_device(device))
