"""16-bit floats in hardware: the bits of the software formulas, op by op."""
from __future__ import annotations

from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from c_kernels import leaf
from kernel_checks import Array, run_all
from tensor_core_kernels import GPU

from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.native_half import SOFTWARE, NativeHalves
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.evaluation import evaluate
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import cast, elementwise
from lazyten.ir.ops import Op

HALVES = [dt.float16, dt.bfloat16]
NAMES = tuple(d.name for d in HALVES)
needs_compiler = pytest.mark.skipif(
    not cuda_on_cpu.ON_GPU and cuda_on_cpu.missing() is not None,
    reason=cuda_on_cpu.missing() or "")
NAME = "cuda" if cuda_on_cpu.ON_GPU else cuda_on_cpu.NAME


def arithmetic(dtype: DType, size: int) -> Kernel:
    """A sum, a difference, a product, and some of them after each other."""
    a, b = (leaf(i, (size,), dtype) for i in (4, 5))
    made = [elementwise(op, a, b) for op in (Op.ADD, Op.SUB, Op.MUL)]
    last = elementwise(Op.NEG, elementwise(Op.ADD, elementwise(Op.MUL, made[0], b), made[1]))
    return Kernel("arithmetic", (*made, last), ((dtype, size),) * 2)


def conversions(dtype: DType, size: int) -> Kernel:
    """To float32, and from it."""
    wide = leaf(2, (size,), dt.float32)
    return Kernel("conversions", (cast(leaf(3, (size,), dtype), dt.float32), cast(wide, dtype)),
                  ((dt.float32, size), (dtype, size)))


def check_bits(kernel: Kernel, inputs: list[Array]) -> None:
    """What NAME gives is what the op table says, but for which NaN."""
    first = len(kernel.outputs)
    wanted = evaluate(kernel.outputs, {first + i: v for i, v in enumerate(inputs)})
    found, = run_all(NAME, [kernel], [inputs])
    for node, got, expected in zip(kernel.outputs, found, wanted, strict=True):
        bits, right = (v.view(f"u{v.itemsize}")
                       for v in (got, ops.encode(expected, node.dtype)))
        both_nan = np.isnan(ops.decode(got, node.dtype)) & np.isnan(expected)
        np.testing.assert_array_equal(bits[~both_nan], right[~both_nan])
        assert not np.isnan(expected).all()


@needs_compiler
@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)
def test_sums_and_products_of_any_two_patterns_are_rounded_once(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    every = np.arange(1 << 16, dtype=np.uint16)
    # Near each other, where sums cancel, and subnormal results; then any two.
    near = np.concatenate([every, every])
    other = np.concatenate([every ^ rng.integers(0, 64, 1 << 16).astype(np.uint16) ^ 0x8000,
                            rng.permutation(every)])
    check_bits(arithmetic(dtype, near.size), [near.view(dtype.numpy), other.view(dtype.numpy)])


@pytest.mark.few(1)
@needs_compiler
@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)
def test_conversions_of_any_pattern_are_those_of_the_op_table(dtype: DType) -> None:
    rng = np.random.default_rng(4)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    ties = ops.decode(every, dtype).view(np.uint32) + rng.choice(
        [0, 0x1000, 0x8000, 0xFFF, 0x1001, 0x7FFF, 0x8001], every.size).astype(np.uint32)
    check_bits(conversions(dtype, every.size), [ties.view(np.float32), every])
    random = rng.integers(0, 1 << 32, every.size, dtype=np.uint32)
    check_bits(conversions(dtype, every.size), [random.view(np.float32), every])


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)
def test_each_op_is_one_call_where_the_device_has_it(dtype: DType) -> None:
    short = {"float16": "f16", "bfloat16": "bf16"}[dtype.name]
    kernel = arithmetic(dtype, 100)
    native = generate(kernel, replace(GPU, halves=NativeHalves(NAMES, NAMES))).source
    assert [native.count(f"lazyten_{op}_{short}(") for op in ("add", "sub", "mul")] == [2, 1, 2]
    assert "float" not in native
    converted = generate(kernel, replace(GPU, halves=NativeHalves(NAMES))).source
    assert f"lazyten_to_{short}(" in converted and "lazyten_add" not in converted
    assert "lazyten" not in generate(kernel, replace(GPU, halves=SOFTWARE)).source


def test_opencl_converts_by_its_own_functions_and_computes_with_cl_khr_fp16() -> None:
    target = replace(GPU, language="opencl", halves=NativeHalves(("float16",), ("float16",)))
    sums, converted = (generate(kernel(dt.float16, 100), target)
                       for kernel in (arithmetic, conversions))
    assert any("cl_khr_fp16 : enable" in line and "as_half(x) + as_half(y)" in line
               for line in sums.declares)
    declared = "\n".join(converted.declares)
    assert "vload_half(0," in declared and "vstore_half_rte(" in declared
    assert "cl_khr_fp16" not in declared
