"""What a device can do at most, measured: operations a second, and bytes a second.

The limits are those of lazyten's own kernels: a large product of matrices, and sums of two arrays,
of sizes that fit in caches of different levels and in none. So a share of 1 says that no kernel of
the same operations and bytes is known to run faster here.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lazyten.devices.executor import Executor
from lazyten.execution.debug import flops, traffic
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, elementwise, make, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays.products import einsum
from lazyten.schedule.schedule import schedule
from lazyten.storage.device import executor
from lazyten.support.threads import get_num_threads

SIDE = 768
"""Of the matrices whose product is timed."""
STREAMS = (1 << 18, 1 << 21, 1 << 26)
"""Bytes that the sums read and write: about a second cache, a third one, and memory."""
SECONDS = 0.03
"""A kernel is timed again for so long; the least time counts."""
FEWEST = 3
"""Times, as memory is slow when it is touched first."""
BATCH_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class Limits:
    """flops: a second, by the bytes of a float. bandwidth: bytes a second, by how many bytes a
    kernel reads and writes at least."""

    flops: Mapping[int, float]
    bandwidth: Mapping[int, float]

    def least_seconds(self, work: int, moved: int, itemsize: int) -> float:
        """What a kernel takes that is limited by these alone: the roofline. work: operations;
        moved: bytes; itemsize: bytes of its widest float."""
        fits = [size for size in self.bandwidth if size <= moved] or [min(self.bandwidth)]
        peak = self.flops.get(itemsize) or self.flops[4]
        return max(work / peak, moved / self.bandwidth[max(fits)])


def limits_of(device: str) -> Limits | None:
    """The limits of a device with this number of threads; None for one that generates no code. Each
    call measures for some tenths of a second, and the best of all so far counts."""
    runs = executor(device)
    if not runs.target_label:
        return None
    best = _best.setdefault((device, get_num_threads()), {})
    dtypes = [dtype for dtype in (dt.float32, dt.float64) if dtype in runs.dtypes]
    for dtype in dtypes:
        _keep(best, ("flops", dtype.itemsize), runs, _product(runs, dtype), flops)
    for size in STREAMS:
        _keep(best, ("bytes", size), runs, _sum(runs, size // 12), traffic)
    return Limits({dtype.itemsize: best["flops", dtype.itemsize] for dtype in dtypes},
                  {size: best["bytes", size] for size in STREAMS})


_best: dict[tuple[str, int], dict[tuple[str, int], float]] = {}


def _keep(best: dict[tuple[str, int], float], key: tuple[str, int], runs: Executor, kernel: Kernel,
          count: Callable[[Kernel], int]) -> None:
    best[key] = max(best.get(key, 0.0), _rate(runs, kernel, count))


def _product(runs: Executor, dtype: DType) -> Kernel:
    a, b = (_input(number, SIDE * SIDE, dtype) for number in range(2))
    square = (SIDE, SIDE)
    return _kernel(runs, einsum("ij,jk->ik", [reshape(a, square), reshape(b, square)]),
                   SIDE * SIDE, dtype)


def _sum(runs: Executor, size: int) -> Kernel:
    a, b = (_input(number, size, dt.float32) for number in range(2))
    return _kernel(runs, elementwise(Op.ADD, a, b), size, dt.float32)


def _input(number: int, size: int, dtype: DType) -> Node:
    return make(Op.BUFFER, dtype, (), Slot(number, size))


def _kernel(runs: Executor, root: Node, size: int, dtype: DType) -> Kernel:
    made = schedule([root], [(dtype, size)] * 2, runs.has_offsets, 0, runs.items, runs.alignment)
    return max((step.kernel for step in made.steps), key=flops)


def _rate(runs: Executor, kernel: Kernel, count: Callable[[Kernel], int]) -> float:
    """Operations, or bytes, a second of a kernel."""
    program, = runs.build([kernel])
    handles = []
    try:
        for node in kernel.outputs:
            handles.append(runs.alloc(node.numel * node.dtype.itemsize))
        for dtype, size in kernel.inputs:
            handles.append(runs.alloc(size * dtype.itemsize))
            runs.copy_in(handles[-1], np.ones(size, dtype.numpy))

        def launch() -> None:
            for _ in range(times):
                program.launch(handles)
        taken: list[float] = []
        times, start = 1, time.perf_counter()
        while len(taken) < FEWEST or time.perf_counter() - start < SECONDS:
            taken.append(max(runs.seconds(launch), 1e-9) / times)
            times = max(1, int(BATCH_SECONDS / taken[-1]))
    finally:
        for handle in handles:
            runs.free(handle)
    return count(kernel) / min(taken)


