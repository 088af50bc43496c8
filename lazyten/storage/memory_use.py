"""How much memory tensors take: `lt.memory_stats`, `lt.reset_peak` and `lt.empty_cache`."""
from __future__ import annotations

from lazyten.devices.executor import Executor, MemoryStats
from lazyten.storage.device import executor
from lazyten.storage.placement import placed


def memory_stats(device: str | None = None) -> MemoryStats:
    """Bytes of a device's memory: `in_use` now, `pooled` for reuse, and the `peak` of in_use.

    Memory is handed out in blocks, and whole blocks are counted: on 'cpu' up to an eighth, or 63
    bytes, more than was asked for. Memory between the kernels of a schedule counts while they run;
    a jitted function keeps its own. device: the default device if None.
    """
    return _executor(device).memory_stats()


def reset_peak(device: str | None = None) -> None:
    """Let the `peak` of `memory_stats` be what is in use now."""
    _executor(device).reset_peak()


def empty_cache(device: str | None = None) -> None:
    """Give memory that no tensor uses back to the system; by itself it is kept for reuse."""
    _executor(device).empty_cache()


def _executor(device: str | None) -> Executor:
    return executor(placed(device))
