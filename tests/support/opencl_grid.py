"""Devices that are OpenCL's first one taken for a GPU, so that kernels for thousands of work items,
in groups, are tested where there is no GPU: `opencl-grid` with small groups, `opencl-groups` with
groups and local memory like those of GPUs."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from lazyten.storage import device

NAME, GROUPS = "opencl-grid", "opencl-groups"
NAMES = NAME, GROUPS
UNOPTIMIZED = "-cl-opt-disable"
"""They are there for the text, which GPUs' compilers take; PoCL's optimizer, which takes twice as
long as all else, has the text of the device `opencl`."""


def runtime(index: int = 0) -> Any:
    """Every kernel in scalars, 8 work items a group."""
    from lazyten.codegen.targets.dialect import OPENCL
    from lazyten.runtimes.opencl.drivers import driver_of
    from lazyten.runtimes.opencl.opencl import OpenCLRuntime
    from lazyten.runtimes.opencl.targets import gpu_target

    made = OpenCLRuntime(index)
    made.builder.options = [*made.options, UNOPTIMIZED]
    made.builder.compiler = None  # it would make binaries, which PoCL takes long for
    driver = driver_of(made.device)
    language = replace(OPENCL, guards_choices=driver is not None and driver.guards_choices)
    made.target = replace(gpu_target(made.device), work_group=8, language=language)
    return made


def runtime_of_groups(index: int = 0) -> Any:
    """The same with 256 work items and 48 KiB a group."""
    made = runtime(index)
    made.target = replace(made.target, work_group=256, local_memory=48 << 10)
    return made


def register() -> None:
    """Let `device=NAME` and `device=GROUPS` be these runtimes."""
    for name, maker in ((NAME, "runtime"), (GROUPS, "runtime_of_groups")):
        device.BUILT_IN[name] = f"{__name__}:{maker}"
        device.NEEDS[name] = "pyopencl"
