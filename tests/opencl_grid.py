"""The device `opencl-grid`: OpenCL's first device taken for a GPU, so that the mapping of kernels to
thousands of work items, in groups, is tested where there is none."""
from __future__ import annotations

from dataclasses import replace

from typing import Any

from lazyten import device

NAME = "opencl-grid"


def GridRuntime(index: int = 0) -> Any:  # noqa: N802
    """Every kernel in scalars, an output block a work item, 8 of them a group."""
    from lazyten.runtimes.opencl import OpenCLRuntime, gpu_capabilities  # noqa: PLC0415

    runtime = OpenCLRuntime(index)
    runtime.capabilities = replace(gpu_capabilities(runtime.device), work_group=8)
    return runtime


def register() -> None:
    """Let `device=NAME` be this runtime."""
    device.BUILT_IN[NAME] = f"{__name__}:GridRuntime"
    device.NEEDS[NAME] = "pyopencl"
