"""The device `opencl-grid`: OpenCL's first device taken for a GPU, so that kernels for thousands of
work items, in groups, are tested where there is no GPU."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from lazyten import device

NAME = "opencl-grid"


def runtime(index: int = 0) -> Any:
    """Every kernel in scalars, an output block a work item, 8 of them a group."""
    from lazyten.runtimes.opencl import OpenCLRuntime, gpu_capabilities

    made = OpenCLRuntime(index)
    made.capabilities = replace(gpu_capabilities(made.device), work_group=8)
    return made


def register() -> None:
    """Let `device=NAME` be this runtime."""
    device.BUILT_IN[NAME] = f"{__name__}:runtime"
    device.NEEDS[NAME] = "pyopencl"
