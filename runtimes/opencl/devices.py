"""The OpenCL devices of this machine: which there are, and which one a number or a name means.

Called by the opencl runtime and by `device='opencl:NAME'`.
"""
from __future__ import annotations

import os
from functools import cache
from typing import Any

from lazyten.runtimes.opencl import intel as opencl_intel
from lazyten.runtimes.opencl.drivers import UNKNOWN, apply_settings, driver_of
from lazyten.support.errors import DeviceError

NO_CACHE = "PYOPENCL_NO_CACHE"
"""The environment variable that keeps pyopencl from a database of its own in the user's home."""


def _imported() -> Any:
    """The package pyopencl, if it is there: without its database, which lazyten has no use for, as
    what it keeps of a kernel is made sooner than found, and no kernel runs where a home cannot be
    written. Nothing changes where the program has imported it before."""
    added = NO_CACHE not in os.environ
    try:
        if added:
            os.environ[NO_CACHE] = "1"
        import pyopencl
    except ImportError:
        return None
    finally:
        if added:
            del os.environ[NO_CACHE]
    return pyopencl


installed = _imported()
"""The package pyopencl, or None."""

INSTALL = "pip install 'lazyten[opencl]'"
"""What brings pyopencl, and PoCL, which makes a device of most Linux machines' processors."""
FIRST = "LAZYTEN_OPENCL"
"""The environment variable that says what the names of the first devices contain."""
ClDevice = Any  # a pyopencl.Device: the package has no types


def package() -> Any:
    """The package pyopencl. DeviceError, with what to install, if it is not there."""
    if installed is None:
        raise DeviceError(f"device 'opencl' needs the package pyopencl: install it with {INSTALL}")
    return installed


@cache
def devices() -> tuple[ClDevice, ...]:
    """All devices: GPUs, then other accelerators, then processors; last what claims to be several
    of these, as simulators do. Within a kind by the ranks of their drivers, then in the order of
    the loader. What LAZYTEN_OPENCL names comes before all; DeviceError if there is nothing of it.
    """
    cl = package()
    apply_settings()
    kinds = [cl.device_type.GPU, cl.device_type.ACCELERATOR, cl.device_type.CPU]
    try:
        with opencl_intel.shown():
            found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error:  # no platform at all is an error of its own
        found = []

    def rank(device: ClDevice) -> tuple[int, int]:
        kind = device.type & ~cl.device_type.DEFAULT
        return (kinds.index(kind) if kind in kinds else len(kinds),
                (driver_of(device) or UNKNOWN).rank)
    return tuple(_chosen_first(sorted(found, key=rank)))


def _chosen_first(found: list[ClDevice]) -> list[ClDevice]:
    """The devices, those that the user wants before the others."""
    name = os.environ.get(FIRST, "")
    chosen = [d for d in found if name.lower() in describe(d).lower()]
    if found and not chosen:
        there = ", ".join(map(describe, found))
        raise DeviceError(f"{FIRST}={name!r}: no OpenCL device is called so; there are: {there}")
    return chosen + [d for d in found if d not in chosen]


def describe(device: ClDevice) -> str:
    """A device and its platform, for messages."""
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def identity(device: ClDevice) -> str:
    """What a device and its driver are, for what depends on them."""
    return "\n".join([device.platform.name, device.platform.version, device.name, device.version,
                      device.driver_version])


def described() -> list[str]:
    """Every device; DeviceError, with what to install, if there is none."""
    if not devices():
        raise DeviceError(f"device 'opencl': {_those_there()}")
    return [describe(d) for d in devices()]


def listing() -> str:
    """Every device with its number."""
    return ", ".join(f"'opencl:{i}' is {describe(d)}" for i, d in enumerate(devices()))


def device_number(name: str) -> int:
    """The number of the first device whose name or platform contains `name`, in any case.

    DeviceError lists the devices if there is none.
    """
    for number, device in enumerate(devices()):
        if name.lower() in describe(device).lower():
            return number
    raise DeviceError(f"device 'opencl:{name}': no OpenCL device is called so; {_those_there()}")


def device_of(number: int) -> ClDevice:
    """The device of this number; DeviceError lists the devices if there is none."""
    if number < len(devices()):
        return devices()[number]
    raise DeviceError(f"device 'opencl:{number}': there is no such OpenCL device; {_those_there()}")


def _those_there() -> str:
    if devices():
        return f"there are: {listing()}"
    intel = opencl_intel.note()
    return (f"no OpenCL device is installed: {INSTALL} brings one that runs on the processor, and "
            f"a GPU needs the driver of its maker{'' if intel is None else f' ({intel})'}")
