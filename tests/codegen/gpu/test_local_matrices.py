"""Products by tensor cores that read shared memory by themselves, run on the processor, and
NVIDIA's compiler. Numbers are small, so that results are exact in any order."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cuda_on_cpu
import numpy as np
import nvrtc
import pytest
from cuda_on_cpu import NAME, ORDERS
from cuda_programs import Program, driver, results
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import run_all
from numpy.testing import assert_array_equal
from slow_rows import slow_but
from tensor_core_kernels import CORES, GPU, HOPPER, LOCAL_CORES, kernel_of, product

import lazyten as lt
from lazyten.codegen.gpu.gpu import decide_grid
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.optimize.decision_text import parse
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.tensor_cores import TABLE
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Given, Kernel
from lazyten.support.errors import ArgumentError

__all__ = ["driver"]

needs_compiler = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                    reason=cuda_on_cpu.missing() or "")
STAGED = "stage(argument 1, local{buffers}) stage(argument 2, local{buffers})"
TWO_BUFFERS = STAGED.format(buffers=", 2 buffers")
FIRST = next(iter(LOCAL_CORES))


@st.composite
def decisions(draw: st.DrawFn, core: str, m: int, n: int, k: int) -> str:
    """Decisions that use such a tensor core in a product."""
    rows, columns, depth = TABLE[core].shape
    parts = [f"tensor(i0, i1, r0.2: {core})"]
    sides = {"i0": (rows, m), "i1": (columns, n)}
    for name in ("tile", "local"):
        axis, count = draw(st.sampled_from(["i0", "i1"])), draw(st.sampled_from([1, 2]))
        size, extent = sides[axis]
        if count > 1 and count * size <= extent and TABLE[core].size(("cg",)) < 32:
            parts.append(f"{name}({axis}:{count})")
            sides[axis] = count * size, extent
    part = depth * draw(st.integers(1, min(k // depth, max(256 // columns, 2))))
    buffers = f", {draw(st.integers(2, 4))} buffers" if part < k and draw(st.booleans()) else ""
    grid = "*".join(axis for axis, (size, extent) in sides.items() if extent > size)
    parts += [f"group(r0.2:{part})", STAGED.format(buffers=buffers)]
    parts += [f"parallel({grid}:1)"] if grid else []
    return " ".join(parts)


def small(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)


def run(kernel: Kernel, arrays: list[np.ndarray[Any, Any]], dtype: DType,
        order: int = 0) -> np.ndarray[Any, Any]:
    """What a kernel gives for these numbers, flat."""
    cuda_on_cpu.run_in_order(order)
    stored = [ops.encode(np.ascontiguousarray(x), dtype) for x in arrays]
    (out,), = run_all(NAME, [kernel], [stored])
    cuda_on_cpu.run_in_order(0)
    return ops.decode(out, kernel.outputs[0].dtype)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("core", slow_but(LOCAL_CORES, FIRST))
@given(data=st.data(), order=st.sampled_from(ORDERS))
@examples(3)
def test_products_of_small_numbers_are_exact(core: str, data: st.DataObject, order: int) -> None:
    dtype, (rows, columns, _) = LOCAL_CORES[core], TABLE[core].shape
    m, n, k = (data.draw(st.integers(least, least + 80)) for least in (rows, columns, 16))
    if data.draw(st.booleans()):  # rows of whole accesses
        m, n, k = (size // 8 * 8 for size in (m, n, k))
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    text = data.draw(decisions(core, m, n, k))
    kernel = replace(product(dtype, m, n, k, transposed), decisions=Given(text))
    a, b = small((m, k), 0), small((k, n), 1)
    arrays = [x.T if side in transposed else x for side, x in (("a", a), ("b", b))]
    assert_array_equal(run(kernel, arrays, dtype, order).reshape(m, n), a @ b, err_msg=text)


@needs_compiler
@pytest.mark.parametrize("transposed", slow_but(["", "a", "b", "ab"], "ab"))
def test_operands_are_read_along_either_side(transposed: str) -> None:
    text = (f"tensor(i0, i1, r0.2: {FIRST}) tile(i1:2) local(i0:2) group(r0.2:32) {TWO_BUFFERS} "
            "parallel(i0*i1:1)")
    kernel = replace(product(dt.float16, 192, 136, 96, transposed), decisions=Given(text))
    source = generate(kernel, HOPPER).source
    turned = f"<{int('a' in transposed)}, {int('b' not in transposed)}>("
    assert source.count(f"lazyten_mma_{FIRST}{turned}") == 2 * 2  # two tiles, two steps of 16
    assert source.count("lazyten_copy_16(") == source.count("lazyten_copy_") > 0
    a, b = small((192, 96), 0), small((96, 136), 1)
    arrays = [x.T if side in transposed else x for side, x in (("a", a), ("b", b))]
    assert_array_equal(run(kernel, arrays, dt.float16, 1).reshape(192, 136), a @ b)


@needs_compiler
@pytest.mark.parametrize("part", slow_but([48, 96, 112, 128], 128))
@pytest.mark.parametrize("transposed", slow_but(["a", "b"], "b"))
def test_a_part_of_the_reduction_has_any_number_of_steps(part: int, transposed: str) -> None:
    """Of rows of up to 128 bytes in memory, which are swizzled, it may be several, or one and a
    half."""
    m, n, k = 192, 136, 2 * part + 8
    text = (f"tensor(i0, i1, r0.2: {FIRST}) local(i0:2) group(r0.2:{part}) {TWO_BUFFERS} "
            "parallel(i0*i1:1)")
    kernel = replace(product(dt.float16, m, n, k, transposed), decisions=Given(text))
    assert generate(kernel, HOPPER).source.count(f"lazyten_mma_{FIRST}") == part // 16
    a, b = small((m, k), 0), small((k, n), 1)
    arrays = [x.T if side in transposed else x for side, x in (("a", a), ("b", b))]
    assert_array_equal(run(kernel, arrays, dt.float16, 1).reshape(m, n), a @ b)


@pytest.mark.slow
@needs_compiler
def test_a_sum_over_two_axes_is_in_parts_of_both() -> None:
    a, b = small((72, 3, 64), 0), small((64, 3, 72), 1)
    left, right = (lt.tensor(x).half().realize() for x in (a, b))
    kernel = kernel_of(lt.einsum("ixy,yxj->ij", left, right))
    for chosen in ("r0.2:32", "r0.1:3, r0.2:32", "r0.1:2, r0.2:16"):
        text = f"tensor(i0, i1, r0.2: {FIRST}) group({chosen}) {TWO_BUFFERS} parallel(i0*i1:1)"
        found = run(replace(kernel, decisions=Given(text)), [a, b], dt.float16)
        assert_array_equal(found.reshape(72, 72), np.einsum("ixy,yxj->ij", a, b), err_msg=text)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("made", [
    lambda a, b, c: (a @ b[0] + c).relu(),
    lambda a, b, c: (a @ b[0]).float() * 2,
    lambda a, b, c: a.unsqueeze(0) @ b,
], ids=["epilogue", "float32", "batch"])
def test_what_is_around_a_product_stays(made: Callable[..., lt.Tensor]) -> None:
    arrays = [small(shape, i) for i, shape in enumerate(((128, 64), (3, 64, 72), (72,)))]
    tensors = [lt.tensor(x).half().realize() for x in arrays]
    wanted = made(*map(lt.tensor, arrays)).numpy()
    kernel = kernel_of(made(*tensors))
    *batch, rows, columns = (f"i{i}" for i in range(wanted.ndim))
    text = (f"tensor({rows}, {columns}, r0.{wanted.ndim}: {FIRST}) group(r0.{wanted.ndim}:32) "
            f"{TWO_BUFFERS} parallel({'*'.join([*batch, rows, columns])}:1)")
    used = arrays[:len(kernel.inputs)]
    for order in ORDERS:
        found = run(replace(kernel, decisions=Given(text)), used, dt.float16, order)
        assert_array_equal(found.reshape(wanted.shape), wanted)


SMALL = replace(product(dt.float16, 64, 64, 128), decisions=Given(
    f"tensor(i0, i1, r0.2: {FIRST}) group(r0.2:16) {STAGED.format(buffers=', 3 buffers')}"))


def run_text(driver: Any, source: str) -> bool:
    """Whether a program of that kernel is right in all orders of threads."""
    a, b = small((64, 128), 0), small((128, 64), 1)
    program = Program(driver, source, "kernel_reduce_64_64_128")
    stored = [ops.encode(x, dt.float16) for x in (a, b)]
    found = results(program, np.zeros((64, 64), dt.float16.numpy), stored, 128)
    return all((ops.decode(x, dt.float16) == a @ b).all() for x in found)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("line", "message"), [
    ("", None), ("lazyten_wait_1();", ""), ("lazyten_matrix_wait();", ""),
    ("__syncthreads();", "what the last barrier has not shown it"),
    ("lazyten_matrix_fence();", "without a fence in front"),
    ("lazyten_proxy_fence();", "what the last barrier has not shown it"),
])
def test_the_stand_in_sees_what_is_missing(driver: Any, line: str, message: str | None) -> None:
    made = generate(SMALL, HOPPER)
    assert line in made.source
    source = "\n".join([*made.declares, made.source.replace(line, "")])
    try:
        if not message:
            assert run_text(driver, source) == (message is None)
            return
        with pytest.raises(driver.DriverError) as error:
            run_text(driver, source)
        assert message in str(error.value)
    finally:
        cuda_on_cpu.driver().fake_repair()


@pytest.mark.few(2)
@pytest.mark.skipif(nvrtc.library() is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("core", LOCAL_CORES)
def test_the_instructions_compile_for_hopper_alone(core: str) -> None:
    text = (f"tensor(i0, i1, r0.2: {core}) local(i0:2) group(r0.2:32) {TWO_BUFFERS} "
            "parallel(i0*i1:1)")
    kernel = replace(product(LOCAL_CORES[core], 256, 512, 128, "a"), decisions=Given(text))
    made = generate(kernel, HOPPER)
    program = "\n".join([*made.declares, made.source])
    assert nvrtc.compile_cuda(program, ["-arch=sm_90a", "-fmad=false"])
    with pytest.raises(AssertionError, match="wgmma"):
        nvrtc.compile_cuda(program, ["-arch=sm_90", "-fmad=false"])


def test_copies_for_later_go_on_while_tensor_cores_compute() -> None:
    source = generate(SMALL, HOPPER).source
    body = source[source.index("for ("):]
    order = ("lazyten_wait_1()", "lazyten_proxy_fence()", "__syncthreads()",
             "lazyten_matrix_fence()", f"lazyten_mma_{FIRST}", "lazyten_copy_16(",
             "lazyten_commit()", "lazyten_matrix_wait()")
    places = [body.index(line) for line in order]
    assert places == sorted(places)


def test_a_gpu_that_has_them_gives_them_products_of_halves() -> None:
    for dtype, used in ((dt.float16, True), (dt.bfloat16, True), (dt.float32, False)):
        sink = merge_ranges(lower(product(dtype, 512, 512, 512)))
        found = decide_grid(Model(sink, HOPPER))
        assert (found.tensor is not None and found.tensor.core.is_local) == used
        assert parse(str(found), sink, HOPPER) == found
        tensor = decide_grid(Model(sink, GPU)).tensor
        assert tensor is None or tensor.core.name in CORES


def test_both_factors_must_be_in_local_memory() -> None:
    sink = merge_ranges(lower(product(dt.float16, 512, 512, 512)))
    with pytest.raises(ArgumentError, match="reads both factors from local memory"):
        parse(f"tensor(i0, i1, r0.2: {FIRST}) group(r0.2:32) stage(argument 2, local)", sink,
              HOPPER)


def test_which_gpus_have_them() -> None:
    from lazyten.runtimes.cuda.compiler import own_name
    from lazyten.runtimes.cuda.cuda import target_of
    from lazyten.runtimes.cuda.driver import Properties

    assert [own_name(number) for number in (80, 90, 100)] == ["80", "90a", "100"]
    for architecture, cores in ((75, ()), (80, CORES), (89, CORES), (90, TABLE), (100, CORES)):
        found = target_of(Properties("a GPU", architecture, 1 << 30, 48 << 10, 1024, 32,
                                     1 << 16, 16, 1 << 22))
        assert set(found.tensor_cores) == set(cores)
