"""What a driver is tried with: `python -m lazyten.runtimes.opencl.trial_worker 0`.

In: the number of an OpenCL device. Out: 0 if it compiled and ran kernels of many kinds, and their
numbers are the interpreter's; if not, it ends with what is wrong, or as the driver ends it.
trial.py starts it.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, cast, expand, make, reduce, reshape, substitute
from lazyten.ir.ops import Op
from lazyten.runtimes.opencl.opencl import OpenCLRuntime

Array = np.ndarray[Any, Any]

SIZE = 75
"""Elements: whole vectors of 64 bytes, and a tail."""
ROWS, INNER, COLUMNS = 19, 33, 17
"""Of a product."""


def main() -> None:
    """Compile and run the kernels."""
    runtime = OpenCLRuntime(int(sys.argv[1]), is_trial=True)
    made = [kernel for dtype in (dt.float32, dt.float64, dt.float16, dt.int32, dt.uint8)
            if dtype in runtime.dtypes for kernel in (elementwise(dtype), product(dtype))]
    wrong = [found for kernel, program in zip(made, runtime.build(made), strict=True)
             for found in wrong_outputs(runtime, kernel, program)]
    if wrong:
        sys.exit(f"wrong numbers: {', '.join(wrong)}")


def wrong_outputs(runtime: OpenCLRuntime, kernel: Kernel, program: Any) -> list[str]:
    """The outputs of a kernel that are not what the interpreter computes."""
    inputs = [numbers(dtype, size) for dtype, size in kernel.inputs]
    outputs = [np.empty(n.numel, n.dtype.numpy) for n in kernel.outputs]
    handles = [runtime.alloc(array.nbytes) for array in (*outputs, *inputs)]
    for handle, array in zip(handles[len(outputs):], inputs, strict=True):
        runtime.copy_in(handle, array)
    program.launch(handles)
    wrong = []
    stored = {len(outputs) + i: array for i, array in enumerate(inputs)}
    for node, found, handle, expected in zip(kernel.outputs, outputs, handles,
                                             evaluate(kernel.outputs, stored), strict=False):
        runtime.copy_out(found, handle)
        values = ops.decode(found, node.dtype).reshape(node.shape)
        tolerance = 1e-2 if node.dtype.is_half else 1e-4
        if not np.allclose(values, expected, tolerance, tolerance, equal_nan=True):
            wrong.append(f"{node.op.name} of {node.src[0].dtype.name}")
    return wrong


def numbers(dtype: DType, size: int) -> Array:
    """Small numbers above 0, as stored, in halves where there are any."""
    values = np.random.default_rng(size).integers(1, 9, size) / (2 if dtype.is_float else 1)
    encoded: Array = ops.encode(values.astype(dtype.compute), dtype)
    return encoded


def elementwise(dtype: DType) -> Kernel:
    """Ops that a device's built-in functions, or long expressions, compute, and conversions."""
    x, y = (argument(i, SIZE, dtype) for i in range(2))
    made = [make(op, dtype, (x, y)) for op in (Op.MOD, Op.IDIV, Op.MAX, Op.MUL)]
    made += [cast(x, t) for t in (dt.float32, dt.int8, dt.int64) if t is not dtype]
    if dtype.is_float:
        made += [make(op, dtype, (x,)) for op in (Op.SQRT, Op.SIN, Op.EXP, Op.RECIPROCAL)]
    return numbered(f"elementwise_{dtype.name}", made, (dtype, SIZE), (dtype, SIZE))


def product(dtype: DType) -> Kernel:
    """A product of matrices, in tiles."""
    shape = ROWS, INNER, COLUMNS
    a = reshape(argument(0, ROWS * INNER, dtype), (ROWS, INNER, 1))
    b = reshape(argument(1, INNER * COLUMNS, dtype), (1, INNER, COLUMNS))
    products = make(Op.MUL, dtype, (expand(a, shape), expand(b, shape)))
    return numbered(f"product_{dtype.name}", [reduce(products, Op.ADD, (1,))],
                    (dtype, ROWS * INNER), (dtype, INNER * COLUMNS))


def argument(number: int, size: int, dtype: DType) -> Node:
    """An input, numbered among the inputs."""
    return make(Op.BUFFER, dtype, (), Slot(number, size))


def numbered(name: str, outputs: Sequence[Node], *inputs: tuple[DType, int]) -> Kernel:
    """A kernel of these outputs, whose inputs come after them."""
    later = {argument(i, size, dtype): argument(len(outputs) + i, size, dtype)
             for i, (dtype, size) in enumerate(inputs)}
    return Kernel(name, tuple(substitute(outputs, later)), inputs)


if __name__ == "__main__":
    main()
