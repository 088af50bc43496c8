"""`lt.accelerator`: the GPU, if there is one."""
from __future__ import annotations

from types import ModuleType

from lazyten import cuda
from lazyten.platform import no_device, processor
from lazyten.storage.placement import Device, gpu
from lazyten.support.errors import DeviceError

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "device_count",
           "empty_cache", "is_available", "max_memory_allocated", "max_memory_reserved",
           "memory_allocated", "memory_reserved", "reset_peak_memory_stats", "set_device_idx",
           "set_device_index", "synchronize"]

is_available, device_count = cuda.is_available, cuda.device_count
synchronize, empty_cache = cuda.synchronize, cuda.empty_cache
memory_allocated, memory_reserved = cuda.memory_allocated, cuda.memory_reserved
max_memory_allocated, max_memory_reserved = cuda.max_memory_allocated, cuda.max_memory_reserved
reset_peak_memory_stats = cuda.reset_peak_memory_stats


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device 'cuda' where there is a GPU; None where there is not."""
    return Device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The number of the GPU that 'cuda' means. DeviceError if there is none."""
    if not cuda.is_available():
        raise DeviceError("accelerator.current_device_index: there is no GPU here; ask "
                          "accelerator.is_available() first")
    return cuda.current_device()


def set_device_index(device: Device | str | int | None) -> None:
    """`cuda.set_device`."""
    cuda.set_device(gpu(device))


current_device_idx, set_device_idx = current_device_index, set_device_index


def get_device_module(device: Device | str | None = None) -> ModuleType:
    """The functions of a device's kind: `lt.cpu` or `lt.cuda`, or those of none such; of the
    accelerator, or of the host where there is none, if no device is given."""
    kind = Device(device).type if device is not None else "cuda" if is_available() else "cpu"
    return {"cpu": processor, "cuda": cuda}.get(kind, no_device)
