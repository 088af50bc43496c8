"""What kernels may use of an OpenCL device.

In: what the device says of itself, and the limits of its driver. Out: a `Target`. Called by
opencl.py.
"""
from __future__ import annotations

from dataclasses import replace

from lazyten.codegen.targets.dialect import CLANG_OPENCL
from lazyten.codegen.targets.native_half import NativeHalves
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.runtimes.host.cache_sizes import host_caches
from lazyten.runtimes.host.host import named_target
from lazyten.runtimes.opencl.devices import ClDevice, package
from lazyten.runtimes.opencl.drivers import UNKNOWN, Driver

GPU_REGISTERS = 64
"""Registers of a work item that a register tile may fill."""
GPU_GROUP = 256
"""Work items of a group, where the device has room for so many."""


def target_of(device: ClDevice, driver: Driver) -> Target:
    """What kernels for a device may use, and how they are laid out."""
    cl = package()
    if device.type & ~cl.device_type.DEFAULT != cl.device_type.CPU:
        return gpu_target(device)
    return cpu_target(device, driver)


def cpu_target(device: ClDevice, driver: Driver = UNKNOWN) -> Target:
    """For processors: vectors, and a work item for each chunk of the outer loop."""
    unit = named_target() or _vector_unit(device)
    language = replace(CLANG_OPENCL, call_lanes=driver.call_lanes,
                       guards_choices=driver.guards_choices)
    return replace(unit, name="opencl-cpu", language=language, threads=True,
                   vector_bytes=min(unit.vector_bytes, driver.vector_bytes),
                   most_lanes=driver.most_lanes, local_memory=device.local_mem_size,
                   dtypes=_dtypes(device))


def _vector_unit(device: ClDevice) -> Target:
    """That of the device, and the machine's caches."""
    width = max(device.native_vector_width_float, 1) * 4
    return Target("", width, 32 if width == 64 else 16, **host_caches()._asdict())


def gpu_target(device: ClDevice) -> Target:
    """For devices that are no processors: scalars, and a work item for each output block."""
    return Target("opencl-gpu", 4, GPU_REGISTERS, threads=True, language="opencl", most_lanes=1,
                  work_group=min(GPU_GROUP, device.max_work_group_size,
                                 device.max_work_item_sizes[0]),
                  local_memory=device.local_mem_size, halves=_halves(device),
                  dtypes=_dtypes(device))


def _dtypes(device: ClDevice) -> frozenset[DType]:
    """All element types, but for float64 where the device has none."""
    return frozenset(dt.ALL if device.double_fp_config else set(dt.ALL) - {dt.float64})


def _halves(device: ClDevice) -> NativeHalves:
    """Every device converts float16. It may compute with them if it keeps small ones."""
    if "cl_khr_fp16" not in device.extensions.split():
        return NativeHalves(("float16",))
    config = package().device_fp_config
    needed = config.DENORM | config.INF_NAN | config.ROUND_TO_NEAREST
    exact = device.half_fp_config & needed == needed
    return NativeHalves(("float16",), ("float16",) if exact else ())


def divides_exactly(device: ClDevice) -> bool:
    """Whether it can divide floats, and take square roots, to 0.5 ulp."""
    flag = package().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return bool(device.single_fp_config & flag)
