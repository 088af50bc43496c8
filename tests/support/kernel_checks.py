"""Kernels on any device: random ones against the interpreter, and every op against the cpu.

All kernels of a check are one program, as compiling is slow on some devices.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from c_kernels import every_op, leaf
from graphs import SIZES, arrays, expressions
from hypothesis import strategies as st

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Kernel
from lazyten.ir.ops import Op
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer

Array = np.ndarray[Any, Any]
DRAWN = [d if d in (dt.float32, dt.float16, dt.int64, dt.uint8, dt.bool_)
         else pytest.param(d, marks=pytest.mark.slow) for d in dt.ARITHMETIC]
"""Element types of random kernels where each takes a driver's compiler a second: one of each kind,
and in `make test-all` the others. All have the ops, one by one."""


def run_all(device: str, kernels: Sequence[Kernel],
            inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Outputs of kernels on their inputs, as stored; all are one program."""
    runtime = executor(device)
    results = []
    for program, kernel, values in zip(runtime.build(kernels), kernels, inputs, strict=True):
        outs = [Buffer(device, o.dtype, o.numel) for o in kernel.outputs]
        ins = [Buffer.from_numpy(v.reshape(-1), dtype, device)
               for v, (dtype, _) in zip(values, kernel.inputs, strict=True)]
        program.launch([b.handle for b in (*outs, *ins)])
        results.append([b.numpy() for b in outs])
    return results


def computed(kernel: Kernel, inputs: Sequence[Array], device: str = "cpu",
             threads: int = 1) -> Array:
    """What a kernel of one output computes from these arrays, flat."""
    before = lt.get_num_threads()
    lt.set_num_threads(threads)
    (output,), = run_all(device, [kernel], [inputs])
    lt.set_num_threads(before)
    return output


@st.composite
def kernels(draw: st.DrawFn, dtype: DType) -> tuple[Kernel, list[Array]]:
    """A random kernel and what it reads."""
    shapes = draw(st.lists(st.lists(SIZES, max_size=4).map(tuple), min_size=1, max_size=2))
    shapes = [s for s in shapes if 0 < np.prod(s) <= 2000] or [(3, 4)]
    values = [ops.encode(draw(arrays(dtype, s)), dtype) for s in shapes]
    node = draw(expressions(dtype, [leaf(1 + i, s, dtype) for i, s in enumerate(shapes)]))
    return Kernel("random", (node,), tuple((dtype, v.size) for v in values)), values


def check_random_kernels(on: str, dtype: DType, data: st.DataObject) -> None:
    """A dozen random kernels give what the interpreter says."""
    drawn = data.draw(st.lists(kernels(dtype), min_size=12, max_size=12))
    drawn = [(kernel, values) for kernel, values in drawn if kernel.outputs[0].numel]
    found = run_all(on, [k for k, _ in drawn], [v for _, v in drawn])
    for (kernel, values), (got,) in zip(drawn, found, strict=True):
        node = kernel.outputs[0]
        stored = {1 + i: v.reshape(-1) for i, v in enumerate(values)}
        expected, = evaluate([node], stored)
        result = ops.decode(got, dtype).reshape(node.shape)
        exact = np.abs(expected) < 200
        np.testing.assert_array_equal(result[exact], expected[exact])
        np.testing.assert_allclose(result, expected, rtol=2.0**-6 if dtype.is_half else 2.0**-18)


def edges(dtype: DType, count: int) -> Array:
    """Values of a dtype, as stored: limits, zeros, NaN and random bits."""
    rng = np.random.default_rng(dtype.bits)
    if dtype is dt.bool_:
        return rng.random(count) < 0.5
    bits = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.7, np.inf, -np.inf, np.nan, 1e-40, 7.0, 88.7]
        small = ops.encode(rng.normal(size=count // 2).astype(dtype.compute) * 20, dtype)
        bits[:count // 2] = small
    else:
        special = [0, 1, 2, 3, 7, 40, dtype.max, dtype.min, int(dtype.max) - 1]
        bits[:count // 2] = bits[:count // 2] % dtype.numpy.type(11)
    bits[:len(special)] = ops.encode(np.array(special, dtype.compute), dtype)
    return rng.permutation(bits)


def check_every_op(on: str, dtype: DType) -> None:
    """Each op gives the bits that it gives on the cpu, in vectors where there are any, and for the
    last few elements beside them. Only a MULACC may round once or twice, and which NaN comes out is
    nobody's promise."""
    made = every_op(dtype, 250)
    inputs = [[np.roll(edges(d, size), 17 * i) for i, (d, size) in enumerate(k.inputs)]
              for k in made]
    here, there = run_all(on, made, inputs), run_all("cpu", made, inputs)
    for kernel, found, expected in zip(made, here, there, strict=True):
        for node, got, wanted in zip(kernel.outputs, found, expected, strict=True):
            a, b = ops.decode(got, node.dtype), ops.decode(wanted, node.dtype)
            same = (got == wanted) | (a != a) & (b != b)
            if node.op is Op.MULACC and node.dtype.is_float:
                with np.errstate(all="ignore"):
                    same |= np.abs(a - b) <= np.abs(b) * 1e-2
            assert same.all(), (node.op, node.dtype, a[~same][:5], b[~same][:5])


def values(*shape: int, seed: int = 0) -> Array:
    """Random floats."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
