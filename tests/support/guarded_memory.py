"""Kernels that run between pages that may not be touched."""
from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, make, reshape
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE


class Guarded:
    """Memory of `nbytes` with a forbidden page right after it, or right before it."""

    def __init__(self, nbytes: int, at_end: bool) -> None:
        pages = -(-nbytes // PAGE) or 1
        self.map = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (0, pages + 1):
            address = ctypes.c_void_p(start + page * PAGE)
            assert libc.mprotect(address, ctypes.c_size_t(PAGE), 0) == 0
        self.address = start + PAGE + (pages * PAGE - nbytes if at_end else 0)
        self.nbytes = nbytes

    def write(self, values: Array) -> None:
        ctypes.memmove(self.address, values.tobytes(), self.nbytes)

    def read(self, dtype: DType) -> Array:
        return np.frombuffer(ctypes.string_at(self.address, self.nbytes), dtype.numpy)


def run_guarded(runtime: CpuRuntime, kernel: Kernel, inputs: list[Array], at_end: bool) -> Array:
    output = kernel.outputs[0]
    out = Guarded(output.numel * output.dtype.itemsize, at_end)
    given_memory = []
    for values, (dtype, size) in zip(inputs, kernel.inputs, strict=True):
        memory = Guarded(size * dtype.itemsize, at_end)
        memory.write(values)
        given_memory.append(memory)
    program, = runtime.build([kernel])
    program.launch([out.address, *(m.address for m in given_memory)])
    return ops.decode(out.read(output.dtype), output.dtype).reshape(output.shape)


def check(node: Node, inputs: list[Array], dtypes: list[DType], at_end: bool) -> None:
    """A kernel gives between guards what the interpreter gives."""
    kernel = Kernel("guarded", (node,), tuple((d, v.size) for d, v in zip(dtypes, inputs,
                                                                         strict=True)))
    stored = {1 + i: v.reshape(-1) for i, v in enumerate(inputs)}
    expected, = evaluate([node], stored)
    got = run_guarded(CpuRuntime(0), kernel, inputs, at_end)
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2)


def leaf(slot: int, shape: tuple[int, ...], dtype: DType) -> Node:
    size = int(np.prod(shape))
    return reshape(make(Op.BUFFER, dtype, (), Slot(slot, size)), shape)
