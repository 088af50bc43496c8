"""Runs kernels of every kind on Oclgrind: `python oclgrind_kernels.py vectors|grid|groups|wrong`.

Results are compared with the interpreter's; what Oclgrind sees is in its log. test_oclgrind.py
starts this. Memory has the size that was asked for, to the byte, so that nothing stray goes into
what a pool has left over.
"""
from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl
from c_kernels import every_op, leaf, products
from graphs import SIZES, expressions
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from programs import results

import lazyten as lt
from lazyten import nn
from lazyten.codegen import pipeline
from lazyten.execution.trial import random_values
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import Node, elementwise, index, make, rewrite
from lazyten.ir.ops import Op
from lazyten.runtimes.opencl.opencl import OpenCLRuntime
from lazyten.runtimes.opencl.targets import cpu_target
from lazyten.storage.device import executor
from lazyten.storage.placement import canonical
from lazyten.support.errors import CheckError

Array = np.ndarray[Any, Any]
LEAST = 8
"""Bytes of memory that is asked for with fewer: its first element may be read whatever its size."""


def started(mapping: str) -> OpenCLRuntime:
    """Oclgrind, with kernels as a GPU gets them or, for 'vectors', as a processor does."""
    runtime = executor(canonical("opencl:oclgrind"))
    assert isinstance(runtime, OpenCLRuntime)
    # It cannot run some optimized instructions.
    runtime.builder.options = [*runtime.options, "-cl-opt-disable"]
    if mapping == "vectors":
        # It takes sums of the halves of 16 lanes, even written by hand, for uninitialized.
        runtime.target = replace(cpu_target(runtime.device), vector_bytes=32,
                                       most_lanes=8)
    if mapping == "groups":
        # Operands are copied ahead, though nothing copies by itself here.
        runtime.target = replace(runtime.target, work_group=64,
                                       local_memory=16 << 10, async_copies=True)
    flags = pyopencl.mem_flags.READ_WRITE
    kept: list[Any] = []  # Oclgrind frees memory that queued kernels are going to use

    def exact(nbytes: int) -> Any:
        kept.append(pyopencl.Buffer(runtime.context, flags, max(nbytes, LEAST)))
        return kept[-1]
    runtime.alloc, runtime.free = exact, lambda handle: None  # type: ignore[method-assign]
    return runtime


# ---- kernels -------------------------------------------------------------------------------------

DECISIONS = ("tile(i0:3) vector(i1:8)", "vector(i1:8) stage(argument 2)",
             "tile(i0:2) vector(i1:4) stage(argument 1)", "unroll(r0.2:2) vector(r0.2:4)",
             "vector(i1:8) block(r0.2:8)", "vector(i1:8) outermost(i1)",
             "vector(i1:4) parallel(i0:2)",
             "tile(i0:4) vector(i1:8) parallel(i0*i1:2)", "plain loops")


def decided(mapping: str) -> list[Kernel]:
    """A product with tails on all sides, by every kind of decision."""
    given_texts = DECISIONS if mapping == "vectors" else ("plain loops", "tile(i0:2, i1:3)")
    inputs = ((dt.float32, 11 * 21), (dt.float32, 21 * 17))
    return [Kernel(f"product_{n}", (products(11, 21, 17),), inputs, None, Given(text))
            for n, text in enumerate(given_texts)]


def ahead() -> list[Kernel]:
    """Products whose operands are copied to local memory ahead, with tails on all sides."""
    text = ("tile(i0:2, i1:3) local(i0:2, i1:4) group(r0.2:{part}) stage(argument 1, local, "
            "{n} buffers) stage(argument 2, local, {n} buffers)")
    inputs = ((dt.float32, 11 * 21), (dt.float32, 21 * 17))
    return [Kernel(f"ahead_{n}", (products(11, 21, 17),), inputs, None,
                   Given(text.format(part=part, n=n))) for part, n in ((4, 2), (7, 3))]


def drawn(dtype: dt.DType, count: int) -> list[Kernel]:
    """Kernels of random moves, ops and reductions, the same ones every time."""
    found: list[Kernel] = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate],
              deadline=None)
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        shapes = data.draw(st.lists(st.lists(SIZES.filter(bool), min_size=1, max_size=3).map(tuple),
                                    min_size=1, max_size=2))
        shapes = [s if np.prod(s) <= 600 else (3, 17) for s in shapes]
        leaves = [leaf(1 + i, s, dtype) for i, s in enumerate(shapes)]
        node = data.draw(expressions(dtype, leaves))
        if node.numel:
            found.append(Kernel("drawn", (node,), tuple((dtype, int(np.prod(s))) for s in shapes)))
    draw()
    return found


def kernels(mapping: str) -> list[Kernel]:
    """All that are run one by one."""
    found = decided(mapping)
    for dtype in (dt.float32, dt.int32, dt.int64, dt.uint8, dt.bool_, dt.float16, dt.bfloat16):
        found += every_op(dtype, 19)
    for dtype in (dt.float32, dt.int16, dt.bool_, dt.float16):
        found += drawn(dtype, 15)
    return found


def run(runtime: OpenCLRuntime, made: list[Kernel]) -> None:
    """Launch kernels on small whole numbers, and compare what they give."""
    rng = np.random.default_rng(0)
    for kernel, program in zip(made, runtime.build(made), strict=True):
        values = [random_values(rng, dtype, size) if dtype.kind != "f"
                  else ops.encode(rng.integers(-3, 4, size).astype(dtype.compute), dtype)
                  for dtype, size in kernel.inputs]
        outputs = [np.empty(o.numel, o.dtype.numpy) for o in kernel.outputs]
        handles = [runtime.alloc(v.nbytes) for v in (*outputs, *values)]
        for handle, value in zip(handles[len(outputs):], values, strict=True):
            runtime.copy_in(handle, value)
        program.launch(handles)
        leaves = {len(outputs) + i: v for i, v in enumerate(values)}
        for node, got, handle, wanted in zip(kernel.outputs, outputs, handles,
                                             evaluate(kernel.outputs, leaves), strict=False):
            runtime.copy_out(got, handle)
            np.testing.assert_allclose(ops.decode(got, node.dtype).astype(np.float64),
                                       wanted.reshape(-1).astype(np.float64), rtol=1e-2, atol=1e-3,
                                       err_msg=f"{kernel.name} {node}")


# ---- programs ------------------------------------------------------------------------------------

def shared(device: str) -> list[Array]:
    """What work items share: tiles and operands in local memory, reductions, rows."""
    r = np.random.default_rng(0)

    def t(*shape: int) -> Any:
        return lt.tensor(r.normal(size=shape).astype(np.float32), device=device)
    outputs = [t(65, 40) @ t(40, 66), t(40, 65).T @ t(66, 40).T, t(37, 70).softmax(1),
               t(40, 50).T.contiguous(), t(9, 300).sum(1), t(300, 9).sum(0), t(5, 400).argmax(1),
               nn.functional.conv2d(t(2, 3, 12, 13), t(8, 3, 3, 3)), t(40, 70).var(1),
               t(40, 256).flip(0).sum(1)]
    lt.realize(*outputs)
    return [o.double().numpy() for o in outputs]


def misplaced(runtime: OpenCLRuntime) -> None:
    """Checked kernels whose index is wrong: they tell, and touch nothing."""
    right = pipeline.lower
    os.environ.pop("LAZYTEN_VERIFY", None)  # which would refuse them
    nodes = {"product": (products(9, 21, 17), ((dt.float32, 189), (dt.float32, 357))),
             "copy": (elementwise(Op.NEG, leaf(1, (37,), dt.float16)), ((dt.float16, 37),)),
             "transpose": (make(Op.PERMUTE, dt.float32, (leaf(1, (17, 9), dt.float32),), (1, 0)),
                           ((dt.float32, 153),))}
    for op in (Op.LOAD, Op.STORE):
        def off(node: Node, op: Op = op) -> Node | None:
            if node.op is not op:
                return None
            place = elementwise(Op.ADD, node.src[1], index(3))
            return make(op, node.dtype, (node.src[0], place, *node.src[2:]), node.arg)
        pipeline.lower = lambda kernel, off=off: rewrite([right(kernel)], off)[0]
        for name, (node, inputs) in nodes.items():
            kernel = Kernel(f"{name}_{op.name.lower()}", (node,), inputs, None, None, ("bounds",))
            program, = runtime.build([kernel])
            handles = [runtime.alloc(node.numel * node.dtype.itemsize)]
            for dtype, size in inputs:
                handles.append(runtime.alloc(size * dtype.itemsize))
                runtime.copy_in(handles[-1], np.zeros(size, dtype.numpy))
            try:
                program.launch(handles)
            except CheckError:
                continue
            raise AssertionError(f"{name}: a stray {op.name} went unseen")
    pipeline.lower = right


def stray(runtime: OpenCLRuntime) -> None:
    """A kernel that no check guards, to see that Oclgrind tells."""
    source = "kernel void wrong(global float *p) { p[1000] = p[1]; }"
    kernel = pyopencl.Program(runtime.context, source).build().wrong
    kernel(runtime.queue, (1,), (1,), pyopencl.Buffer(runtime.context, 1, 64))
    runtime.synchronize()


def main(mapping: str) -> None:
    """Run what there is for a mapping; 'wrong' is the stray kernel alone."""
    runtime = started(mapping)
    if mapping == "wrong":
        stray(runtime)
        return
    oclgrind, program = canonical("opencl:oclgrind"), results
    if mapping == "groups":
        program = shared
        run(runtime, ahead())
    else:
        run(runtime, kernels(mapping))
    pairs = zip(program(oclgrind), program("interpreter"), strict=True)
    for number, (got, wanted) in enumerate(pairs):
        np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-3, err_msg=str(number))
    misplaced(runtime)


if __name__ == "__main__":
    main(sys.argv[1])
