"""CUDA text through NVRTC."""
from __future__ import annotations

import nvrtc

from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import Target
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.contract import program_text, with_distinct_names

GPU = Target("cuda", 4, 64, threads=True, language="cuda", most_lanes=1, work_group=256,
             local_memory=48 << 10)


def program(kernels: list[Kernel]) -> str:
    """The kernels as one program."""
    return program_text([generate(k, GPU) for k in with_distinct_names(kernels)])


def check(kernels: list[Kernel], architecture: str) -> None:
    code = nvrtc.compile_cuda(program(kernels), [f"-arch={architecture}", "-fmad=false"])
    assert code.startswith(b"\x7fELF")
