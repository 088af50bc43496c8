"""What is known of OpenCL's drivers: a row for each that was seen to work, with its limits.

A driver's compiler runs inside the process, so that whatever it aborts on ends the process. A row
keeps that from it, by limits that the device's target takes over; code generation knows no
driver. Called by opencl.py; a driver without a row is tried in a process of its own first
(trial.py).
"""
from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import Any

from lazyten.support.errors import DeviceError

ClDevice = Any  # a pyopencl.Device: the package has no types


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver that works within limits.

    platform: how the name of its platform begins. versions: how its own version may begin.
    vector_bytes: of the widest vector, most_lanes: of any vector. call_lanes: most lanes of what
    built-in functions are called with. linker: a program that it calls, and ends the process if
    there is none. lost: of a device that it compiles nothing for, as a regular expression that
    its version has. settings: environment variables that it reads when it is started.
    guards_choices: whether it is kept from what it makes of integers that are compared and chosen
    from (see Dialect). rank: of drivers for the same kind of device the lowest comes first. apart:
    whether it compiles in processes of its own, from which binaries come: PoCL compiles each kernel
    several times for one.
    """

    platform: str = ""
    versions: tuple[str, ...] = ("",)
    vector_bytes: int = 64
    most_lanes: int = 16
    call_lanes: int = 16
    linker: str = ""
    lost: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    guards_choices: bool = False
    rank: int = 0
    apart: bool = False


UNKNOWN = Driver()
"""No limits are known."""

DRIVERS = (
    # With AVX-512 its built-in functions of 64-byte vectors end the process while they are compiled
    # (sqrt: "LLVM ERROR: Cannot select"), give programs without kernels, never return, or compute
    # something else (fmod). Four doubles are 32 bytes. Nor does code generation take all vectors
    # that its optimizer makes of scalars (16 bytes of one: "Cannot select"): it is to make none.
    # A processor that its LLVM does not know is 'generic', for which clang compiles nothing.
    Driver("Portable Computing Language", ("1.", "2.", "3."), vector_bytes=32, call_lanes=4,
           linker="ld", lost=r"x86_64.*-generic$", settings=(("POCL_WORK_GROUP_METHOD", "loops"),)),
    # Of processors. It is to make no vectors of work items: kernels have their own, and compile in
    # half the time. The greater or the smaller of integers of 32 or 64 bits ends the process
    # (SIGSEGV) or is another number, where one is the complement of something or the least that
    # there is: by its functions `max` and `min`, and where it finds them in a comparison and a
    # choice.
    Driver("Intel(R) OpenCL", ("2026.",), settings=(("CL_CONFIG_USE_VECTORIZER", "False"),),
           guards_choices=True, rank=-1, apart=True),
    Driver("Oclgrind"),
)


def driver_of(device: ClDevice) -> Driver | None:
    """The row of a device's driver; None if it has none."""
    platform, version = device.platform.name.strip(), device.driver_version.strip()
    return next((d for d in DRIVERS if platform.startswith(d.platform)
                 and version.startswith(d.versions)), None)


def apply_settings() -> None:
    """Set what drivers read from the environment, where the user has not; before any is started."""
    for driver in DRIVERS:
        for name, value in driver.settings:
            os.environ.setdefault(name, value)


def check_usable(driver: Driver, device: ClDevice, described: str) -> None:
    """DeviceError where a driver cannot compile for a device, or would end the process for want of
    its linker."""
    if driver.lost and re.search(driver.lost, device.version.strip()):
        raise DeviceError(f"OpenCL device {described} cannot be used: its compiler, of version "
                          f"{device.driver_version.strip()}, does not know this processor, which "
                          "is newer. On Linux another OpenCL device comes with pip install "
                          "'lazyten[opencl-intel]', for processors of AMD, too")
    if driver.linker and shutil.which(driver.linker) is None:
        raise DeviceError(f"OpenCL device {described} links kernels with the system's linker, and "
                          f"there is no {driver.linker!r}: install gcc (Debian and Ubuntu: apt "
                          "install gcc)")
