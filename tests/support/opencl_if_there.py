"""Whether tests can use OpenCL: those that do have the marker `opencl`, and conftest.py skips them
where there is no device that works."""
from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from lazyten.support.errors import DeviceError


@cache
def lacking() -> str | None:
    """What is missing; None if there is a device. It is asked for when the first such test runs."""
    if find_spec("pyopencl") is None:
        return "the extra lazyten[opencl] is not installed"
    from lazyten.runtimes.opencl.devices import describe, device_of
    from lazyten.runtimes.opencl.drivers import UNKNOWN, check_usable, driver_of
    try:
        device = device_of(0)
        check_usable(driver_of(device) or UNKNOWN, device, describe(device))
    except DeviceError as error:
        return str(error)
    return None
