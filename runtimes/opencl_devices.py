"""The OpenCL devices of this machine: which there are, and which one a number or a name means.

Called by the opencl runtime and by `device='opencl:NAME'`.
"""
from __future__ import annotations

from functools import cache
from typing import Any

from lazyten.errors import DeviceError
from lazyten.runtimes.opencl_drivers import apply_settings

installed: Any = None
"""The package pyopencl, if it is there."""
try:
    import pyopencl
    installed = pyopencl
except ImportError:
    pass

INSTALL = "pip install 'lazyten[opencl]'"
"""What brings pyopencl, and PoCL, which makes a device of any Linux machine's processor."""
ClDevice = Any  # a pyopencl.Device: the package has no types


def package() -> Any:
    """The package pyopencl. DeviceError, with what to install, if it is not there."""
    if installed is None:
        raise DeviceError(f"device 'opencl' needs the package pyopencl: install it with {INSTALL}")
    return installed


@cache
def devices() -> tuple[ClDevice, ...]:
    """All devices: GPUs, then other accelerators, then processors; last what claims to be several
    of these, as simulators do. Within a kind in the order of the drivers."""
    cl = package()
    apply_settings()
    kinds = [cl.device_type.GPU, cl.device_type.ACCELERATOR, cl.device_type.CPU]
    try:
        found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error:  # no platform at all is an error of its own
        found = []

    def rank(device: ClDevice) -> int:
        kind = device.type & ~cl.device_type.DEFAULT
        return kinds.index(kind) if kind in kinds else len(kinds)
    return tuple(sorted(found, key=rank))


def describe(device: ClDevice) -> str:
    """A device and its platform, for messages."""
    return f"{device.name.strip()} ({device.platform.name.strip()})"


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
    return (f"no OpenCL device is installed: {INSTALL} brings one that runs on the processor, and "
            "a GPU needs the driver of its maker")
