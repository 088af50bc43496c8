"""Kernels of every kind, and what LLVM makes of them for processors that this machine is not.

`python tests/support/cross_kernels.py neon conv2d` prints the assembly of one of PROGRAMS
for a processor named in runtimes/host/processors.py.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import llvmlite.binding as llvm
import numpy as np

import lazyten as lt
from lazyten import nn
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.generated import Generated
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.cpu.cpu import OPTIMIZATION, parse
from lazyten.runtimes.host.processors import PROCESSORS, machine_of
from lazyten.schedule.schedule import schedule


def given(*shape: int, dtype: lt.DType = lt.float32) -> lt.Tensor:
    """A tensor in memory."""
    return lt.tensor(np.ones(shape), dtype=dtype, device="cpu")


PROGRAMS: dict[str, Callable[[], lt.Tensor]] = {
    "elementwise": lambda: given(1000) * 2 + given(1000),
    "transcendental": lambda: given(1000).exp().sin() + given(1000).log() ** given(1000),
    "double": lambda: given(300, dtype=lt.float64).exp() * given(300, dtype=lt.float64),
    "reduction": lambda: given(100, 300).sum(1),
    "maximum": lambda: given(100, 300).amax(0),
    "matmul": lambda: given(65, 130) @ given(130, 47),
    "conv2d": lambda: nn.functional.conv2d(given(2, 3, 12, 13), given(8, 3, 3, 3)),
    "shared by threads": lambda: given(1000, 1000).exp(),
    "softmax": lambda: given(37, 70).softmax(1),
    "float16": lambda: given(500, dtype=lt.float16) * 2 + given(500, dtype=lt.float16),
    "bfloat16": lambda: given(40, 50, dtype=lt.bfloat16) @ given(50, 33, dtype=lt.bfloat16),
    "int64 division": lambda: given(500, dtype=lt.int64) // given(500, dtype=lt.int64),
    "narrow integers": lambda: given(9, 130, dtype=lt.uint8).int() @ given(
        40, 130, dtype=lt.int8).int().T,
    "convolution of narrow integers": lambda: nn.functional.conv2d(
        given(1, 8, 20, 20, dtype=lt.uint8).int(), given(16, 8, 3, 3, dtype=lt.int8).int()),
    "sort": lambda: given(20, 16).sort(1).values,
    "transpose": lambda: given(65, 130).T.contiguous(),
    "gather": lambda: given(50, 8)[given(40, dtype=lt.int64)],
}
"""What is compiled, by name."""


def kernels_of(result: lt.Tensor) -> list[Kernel]:
    """The kernels that compute a tensor."""
    graph = Graph([result._storage.value], result.device)
    return [s.kernel for s in schedule(graph.normalized(),
                                       [(b.dtype, b.size) for b in graph.buffers]).steps]


@cache
def machine(processor: str) -> llvm.TargetMachine:
    """LLVM for this processor, as the cpu runtime uses it. DeviceError where it cannot."""
    return machine_of(processor, OPTIMIZATION)


def texts(program: str, processor: str) -> list[Generated]:
    """What the code generator writes for a processor."""
    target = replace(PROCESSORS[processor].target, threads=True)
    return [generate(kernel, target) for kernel in kernels_of(PROGRAMS[program]())]


def assembly(kernel: Generated, processor: str) -> str:
    """A kernel's assembly."""
    text: str = machine(processor).emit_assembly(parse(kernel))
    return text


if __name__ == "__main__":
    print(*(assembly(kernel, sys.argv[1]) for kernel in texts(sys.argv[2], sys.argv[1])), sep="\n")
