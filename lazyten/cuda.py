"""`lt.cuda`: the device `cuda` under PyTorch's names; it says honestly where there is none.

Memory is counted and kept for reuse by the runtime (`lt.memory_stats`), and random numbers do not
depend on the device, so there is one generator for all.
"""
from __future__ import annotations

from collections.abc import Iterable

from lazyten import amp
from lazyten.frontend.tensor import KINDS, Tensor
from lazyten.frontend.tensor_types import TensorType
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused
from lazyten.random import get_rng_state as _state
from lazyten.random import initial_seed, manual_seed, seed
from lazyten.random import set_rng_state as _set_state
from lazyten.storage.device import executor, missing, runtime_class
from lazyten.storage.memory_use import empty_cache as _empty_cache
from lazyten.storage.memory_use import memory_stats, reset_peak
from lazyten.storage.placement import Device, gpu
from lazyten.support.errors import DeviceError, OutOfMemoryError

__getattr__ = _later("lazyten.cuda")
_initialized = False  # what programs look at before they save the random state of each GPU
__all__ = [
    "OutOfMemoryError",
    "amp",
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "synchronize",
]
__path__: list[str] = []  # so that cuda.amp can be imported, which is lazyten.amp
globals().update(refused(
    "cuda", "launches are in the order of the program, on one stream, and may be later than they "
    "are called; time with time.perf_counter() around lazyten.realize(x), and let lazyten.jit make "
    "one call of a whole step",
    "CUDAGraph", "Event", "ExternalStream", "Stream", "StreamContext", "current_stream",
    "default_stream", "graph", "graph_pool_handle", "make_graphed_callables", "set_stream",
    "stream"))
globals().update(refused(
    "cuda", "`python -m lazyten doctor` and cuda.get_device_name() tell what there is",
    "get_arch_list", "get_device_capability", "get_device_properties", "mem_get_info",
    "get_gencode_flags", "get_per_process_memory_fraction", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "nvtx", "set_per_process_memory_fraction",
    "clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw",
    "temperature", "utilization", "profiler", "comm"))
globals().update(refused(
    "cuda", "lazyten.memory_stats() and cuda.empty_cache() are what there is of its allocator",
    "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_enable", "change_current_allocator", "get_allocator_backend",
    "host_memory_stats", "use_mem_pool"))
globals().update(refused(
    "cuda", "lazyten calls no library of the GPU's maker but its driver and its compiler",
    "cudart", "current_blas_handle", "jiterator", "nccl", "sparse", "tunable"))

manual_seed_all = manual_seed
seed_all = seed
globals().update({f"{kind}Tensor": TensorType(kind, "cuda") for kind in KINDS})


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


def set_device(device: str | int) -> None:
    """Nothing, if 'cuda' means this GPU already, or for a number below 0. DeviceError for another.
    """
    if isinstance(device, int) and device < 0:
        return
    if (_device(device).index or 0) != current_device():
        raise DeviceError(f"cuda.set_device({device!r}): 'cuda' means GPU {current_device()}; name "
                          f"another where it is used, as in device='cuda:1'")


def device(device: str | int | None) -> Device:
    """A GPU, for `with`: new tensors of the block are made on it."""
    return _device(device)


def is_initialized() -> bool:
    """Whether a GPU can be used: there is nothing to initialize."""
    return is_available()


def init() -> None:
    """Nothing: a device is initialized when it is first used."""


def ipc_collect() -> None:
    """Nothing: memory is not shared between processes."""


def get_rng_state(device: str | int | None = None) -> Tensor:
    """`lt.get_rng_state`: the generator is the same on all devices."""
    state: Tensor = _state()
    return state


def set_rng_state(new_state: Tensor, device: str | int | None = None) -> None:
    """`lt.set_rng_state`: the generator is the same on all devices."""
    _set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """A state for each GPU, all the same."""
    return [_state()] * device_count()


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """What `get_rng_state_all` gave."""
    for state in new_states:
        _set_state(state)


def is_bf16_supported(including_emulation: bool = True) -> bool:
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


def is_current_stream_capturing() -> bool:
    """False: nothing is captured into a graph of the driver."""
    return False


def can_device_access_peer(device: str | int, peer_device: str | int) -> bool:
    """False: GPUs do not read each other's memory; tensors move through this machine's."""
    return False


def is_tf32_supported() -> bool:
    """Whether products of float32 may be rounded to tf32, where there is a GPU."""
    return is_available()


def get_sync_debug_mode() -> int:
    """0: nothing warns of waiting for the GPU."""
    return 0


max_memory_reserved, reset_max_memory_allocated = memory_reserved, reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats
has_half = True
