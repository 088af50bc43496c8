"""The machine's limits, measured in the same run: multiply-adds in registers and a large copy.

`Roofline.sample` is called by `__main__` before each row and keeps the best of all samples;
table.py prints rates as shares of them. The multiply-adds are one loop of machine code over
accumulators that stay in registers, so nothing but the processor's arithmetic units limits it.
"""
from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import numpy as np

from benchmarks.numpy_operations import Array

CHAINS = 12  # independent accumulators: latency times units is 8 or 10; with 2 constants, 16 fit
STEPS = 200_000  # a sample takes a millisecond or so
REPEATS = 5
COPY_BYTES = 128 << 20
COPIES = 2


def lanes() -> int:
    """float32 lanes of the widest vector that this processor has."""
    features = llvm.get_host_cpu_features()
    return next((n for feature, n in (("avx512f", 16), ("avx", 8)) if features.get(feature)), 4)


def constant(value: float, width: int) -> str:
    """A vector literal with `value` in every lane."""
    return "<" + ", ".join([f"float {value:.1f}"] * width) + ">"


def multiply_add_code(width: int) -> str:
    """LLVM IR of `float peak(i64 steps)`: in each step, x = x / 2 + 1 for CHAINS vectors."""
    vector, chains = f"<{width} x float>", range(CHAINS)
    fma = f"@llvm.fma.v{width}f32"
    half, one = (f"{vector} {constant(x, width)}" for x in (0.5, 1.0))
    return "\n".join((
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        "define float @peak(i64 %steps) {",
        "entry:", "  br label %loop",
        "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %x{n} = phi {vector} [ {constant(n, width)}, %entry ], [ %y{n}, %loop ]"
          for n in chains),
        *(f"  %y{n} = call {vector} {fma}({vector} %x{n}, {half}, {one})" for n in chains),
        "  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %steps",
        "  br i1 %more, label %loop, label %end",
        "end:", f"  %s0 = fadd {vector} %y0, %y0",
        *(f"  %s{n} = fadd {vector} %s{n - 1}, %y{n}" for n in chains[1:]),
        f"  %sum = extractelement {vector} %s{CHAINS - 1}, i32 0", "  ret float %sum", "}"))


def compiled(code: str) -> tuple[llvm.ExecutionEngine, Callable[[int], float]]:
    """Machine code for this processor, and its function; the first must outlive the second."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(code), machine)
    engine.finalize_object()
    address = engine.get_function_address("peak")
    return engine, ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)


class Roofline:
    """The best multiply-add and copy rates seen so far, on `threads` threads.

    `best` holds FLOP/s under 'FLOP', and bytes read plus written a second under 'B'.
    """

    def __init__(self, threads: int) -> None:
        self.threads, self.width = threads, lanes()
        self.engine, self.peak = compiled(multiply_add_code(self.width))
        self.pool = ThreadPoolExecutor(threads)
        self.source: Array = np.ones((threads, COPY_BYTES // threads), np.uint8)
        self.target = np.ones_like(self.source)
        self.best = {"FLOP": 0.0, "B": 0.0}

    def sample(self) -> None:
        """Measure both once more."""
        flops = 2.0 * self.width * CHAINS * STEPS * self.threads
        self._keep("FLOP", flops, REPEATS, lambda thread: self.peak(STEPS))
        self._keep("B", 2.0 * self.source.nbytes, COPIES, self._copy)

    def _keep(self, unit: str, work: float, repeats: int, run: Callable[[int], object]) -> None:
        for _ in range(repeats):
            start = time.perf_counter()
            list(self.pool.map(run, range(self.threads)))
            self.best[unit] = max(self.best[unit], work / (time.perf_counter() - start))

    def _copy(self, thread: int) -> None:
        np.copyto(self.target[thread], self.source[thread])
