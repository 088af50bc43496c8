"""Products for tensor cores, and the GPU that they are compiled for."""
from __future__ import annotations

from dataclasses import replace

import cuda_text
import numpy as np

import lazyten as lt
from lazyten.codegen.targets.tensor_cores import TABLE
from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.schedule.schedule import schedule

CORES = {"m16n8k16_f16": dt.float16, "m16n8k16_bf16": dt.bfloat16, "m16n8k8_tf32": dt.float32}
GPU = replace(cuda_text.GPU, tensor_cores=tuple(CORES))
LOCAL_CORES = {name: core.takes for name, core in TABLE.items() if core.is_local}
HOPPER = replace(GPU, tensor_cores=tuple(TABLE), async_copies=True, local_memory=227 << 10)


def product(dtype: DType, m: int, n: int, k: int, transposed: str = "") -> Kernel:
    """The kernel of a product of two arrays that are stored as they are or transposed."""
    a, b = (lt.tensor(np.zeros(s[::-1] if side in transposed else s, np.float32))
            .to(dtype).realize() for side, s in (("a", (m, k)), ("b", (k, n))))
    return kernel_of((a.T if "a" in transposed else a) @ (b.T if "b" in transposed else b))


def kernel_of(value: lt.Tensor) -> Kernel:
    """The one kernel of a value."""
    graph = Graph([value._storage.value], value.device)
    inputs = [(b.dtype, b.size) for b in graph.buffers]
    step, = schedule(graph.normalized(), inputs, items=1 << 16).steps
    return step.kernel
