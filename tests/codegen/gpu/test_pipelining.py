"""Operands that are copied to local memory ahead: buffers that take turns, and cp.async."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import nvrtc
import pytest
from c_kernels import leaf
from cuda_on_cpu import ORDERS
from cuda_programs import Program, driver, results
from kernel_checks import run_all
from opencl_grid import GROUPS
from slow_rows import slow_but
from tensor_core_kernels import GPU, product
from work_group_cases import Case, case, check_results

import lazyten as lt
from lazyten.codegen.gpu.gpu import decide_grid
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.optimize.decision_text import parse
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.native_half import NativeHalves
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import const, elementwise, expand, make, reduce
from lazyten.ir.ops import Op
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError

__all__ = ["driver"]
ASYNC = replace(GPU, async_copies=True)
needs_compiler = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                    reason=cuda_on_cpu.missing() or "")
BOTH = "stage(argument 1, local, {n} buffers) stage(argument 2, local, {n} buffers)"
TILES = "tile(i0:2, i1:3) local(i0:4, i1:8) group(r0.2:{part}) "
PRODUCTS: dict[str, tuple[Callable[..., lt.Tensor], list[tuple[int, ...]]]] = {
    # tails of the reduction, and none; every layout of the operands; vectors in a tile
    TILES.format(part=9) + BOTH.format(n=2): (lambda a, b: a @ b, [(21, 50), (50, 37)]),
    TILES.format(part=16) + BOTH.format(n=3) + " parallel(i0*i1:1)": (
        lambda a, b: a @ b, [(40, 64), (64, 48)]),
    TILES.format(part=8) + BOTH.format(n=4) + " parallel(i1:1)": (
        lambda a, b: a.T @ b.T, [(48, 40), (48, 48)]),
    "tile(i0:2) vector(i0:4, i1:4) local(i0:4, i1:8) group(r0.2:12) " + BOTH.format(n=2): (
        lambda a, b: a @ b, [(64, 72), (72, 64)]),
    # more buffers than parts, a last part of one element, one operand ahead of the other
    TILES.format(part=16) + BOTH.format(n=4): (lambda a, b: a @ b, [(21, 17), (17, 37)]),
    TILES.format(part=8) + "stage(argument 1, local, 2 buffers) stage(argument 2, local)": (
        lambda a, b: a @ b, [(21, 40), (40, 37)]),
    # loops of outputs and of the reduction around that of the copies
    "local(i1:4, i3:8) group(r0.7:3) " + BOTH.format(n=2) + " parallel(i0:1)": (
        lambda x, w: lt.nn.functional.conv2d(x.reshape(2, 3, 12, 13), w),
        [(2 * 3 * 12 * 13,), (5, 3, 3, 3)]),
    # positions that count down: their bases are below 0
    "tile(i0:2) local(i0:16) group(r0.0:5) stage(argument 1, local, 2 buffers)": (
        lambda a: (a.flip((0, 1)) * 2).sum(0), [(26, 48)]),
}


def cases() -> list[Case]:
    """The kernels above, on small integers, with their decisions."""
    rng = np.random.default_rng(0)
    made = []
    for number, (text, (fn, shapes)) in enumerate(PRODUCTS.items()):
        c = case(fn, *(rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes))
        kernel = replace(c.kernel, name=f"pipelined_{number}", decisions=Given(text))
        made.append(replace(c, kernel=kernel))
    return made


@pytest.mark.slow
@needs_compiler
def test_what_is_copied_ahead_is_there_in_time_in_any_order_of_threads() -> None:
    made = cases()
    kept = executor(cuda_on_cpu.NAME).build([c.kernel for c in made])  # compiled once
    try:
        for order in ORDERS:
            cuda_on_cpu.run_in_order(order)
            check_results(made, cuda_on_cpu.NAME)
        assert all("lazyten_wait_" in program.source for program in kept)
    finally:
        cuda_on_cpu.run_in_order(0)


@pytest.mark.opencl
def test_a_device_without_copies_ahead_copies_on_the_spot() -> None:
    check_results(cases(), GROUPS)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("buffers", slow_but([2, 3], 3))
def test_each_wait_and_barrier_of_the_loop_is_needed(driver: object, buffers: int) -> None:
    text = (f"tile(i0:2, i1:2) local(i0:8, i1:8) group(r0.2:16) {BOTH.format(n=buffers)} "
            "parallel(i0*i1:1)")
    kernel = replace(product(dt.float32, 32, 32, 96), decisions=Given(text))
    made = generate(kernel, ASYNC)
    a, b = (np.random.default_rng(n).integers(-2, 3, (32, s)).astype(np.float32)
            for n, s in ((1, 96), (2, 96)))
    b = b.reshape(96, 32)

    def is_right(source: str) -> bool:
        program = Program(driver, "\n".join([*made.declares, source]), f"kernel_{made.name}")
        return all(np.array_equal(out, a @ b) for out in results(
            program, np.zeros((32, 32), np.float32), [a, b], made.groups[0], 4))
    wait, barrier = f"lazyten_wait_{buffers - 2}();", "__syncthreads();"
    assert made.source.count(wait) == made.source.count(barrier) == 1
    assert is_right(made.source)
    assert not is_right(made.source.replace(barrier, ""))
    assert not is_right(made.source.replace(wait, f"lazyten_wait_{buffers - 1}();"))


@needs_compiler
@pytest.mark.parametrize(("depth", "buffers"), [(32, 2), (48, 3), (40, 3), (32, 4)])
def test_what_has_a_buffer_for_each_part_is_copied_before_the_loop(
        driver: object, depth: int, buffers: int) -> None:
    text = (f"tile(i0:2, i1:2) local(i0:8, i1:8) group(r0.2:16) {BOTH.format(n=buffers)} "
            "parallel(i0*i1:1)")
    made = generate(replace(product(dt.float32, 32, 32, depth), decisions=Given(text)), ASYNC)
    before, loop = made.source.split("for (", 1)
    assert "lazyten_copy" in before and "lazyten_copy" not in loop
    a, b = (np.random.default_rng(n).integers(-2, 3, s).astype(np.float32)
            for n, s in ((1, (32, depth)), (2, (depth, 32))))
    program = Program(driver, "\n".join([*made.declares, made.source]), f"kernel_{made.name}")
    for out in results(program, np.zeros((32, 32), np.float32), [a, b], made.groups[0], 4):
        np.testing.assert_array_equal(out, a @ b)


def test_aligned_neighbours_are_one_copy_of_16_bytes() -> None:
    text = ("tensor(i0, i1, r0.2: m16n8k16_f16) tile(i0:2, i1:2) local(i0:2, i1:2) group(r0.2:32) "
            + BOTH.format(n=2) + " parallel(i0*i1:1)")
    for transposed in ("", "a", "b", "ab"):
        kernel = product(dt.float16, 128, 128, 128, transposed)
        source = generate(replace(kernel, decisions=Given(text)), ASYNC).source
        assert source.count("lazyten_copy_16(") > 0 == source.count("lazyten_copy_8(")
        unaligned = replace(kernel, decisions=Given(text), unaligned=(1, 2))
        assert "lazyten_copy" not in generate(unaligned, ASYNC).source
    # Elements of 4 bytes need not be neighbours, and those that are outside are zeros.
    masked = Given(TILES.format(part=9) + BOTH.format(n=2))
    source = generate(replace(product(dt.float32, 21, 37, 50), decisions=masked), ASYNC).source
    assert "? 4 : 0);" in source and "lazyten_copy_16" not in source


@pytest.mark.parametrize("dtype", [dt.float16, dt.float32], ids=lambda d: d.name)
def test_products_are_copied_ahead_where_the_device_can(dtype: dt.DType) -> None:
    sink = merge_ranges(lower(product(dtype, 4096, 4096, 4096)))
    assert "2 buffers" not in str(decide_grid(Model(sink, GPU)))
    target = replace(ASYNC, local_memory=227 << 10)
    found = decide_grid(Model(sink, target))
    assert all(s.buffers >= 2 for s in found.staged) and len(found.staged) == 2
    assert parse(str(found), sink, target) == found


@pytest.mark.parametrize(("text", "message"), [
    (TILES.format(part=50) + BOTH.format(n=2), "nothing can be copied ahead: no loop of one"),
    (TILES.format(part=9) + BOTH.format(n=5), "there are at most 4 buffers"),
    (TILES.format(part=9) + "stage(argument 1, local, 2 buffers) "
     "stage(argument 2, local, 3 buffers)", "as many for each operand"),
    (TILES.format(part=9) + "stage(argument 1, 2 buffers)", "write stage"),
    (TILES.format(part=9) + BOTH.format(n=2), "more than the local memory"),
])
def test_what_cannot_be_copied_ahead_says_why(text: str, message: str) -> None:
    sink = merge_ranges(lower(product(dt.float32, 21, 37, 50)))
    small = replace(ASYNC, local_memory=2 << 10)
    with pytest.raises(ArgumentError, match=message):
        parse(text, sink, small)
    parse(TILES.format(part=9) + BOTH.replace(", {n} buffers", ""), sink, small)


def nested(m: int, k: int, n: int) -> Kernel:
    """Row sums of what is positive in a product, as one kernel."""
    a = expand(leaf(1, (m, 1, k), dt.float32), (m, n, k))
    b = expand(make(Op.PERMUTE, dt.float32, (leaf(2, (1, k, n), dt.float32),), (0, 2, 1)),
               (m, n, k))
    products = reduce(make(Op.MUL, dt.float32, (a, b)), Op.ADD, (2,))
    positive = elementwise(Op.MAX, products, const(0.0, dt.float32, products.shape))
    return Kernel("nested", (reduce(positive, Op.ADD, (1,)),),
                  ((dt.float32, m * k), (dt.float32, k * n)))


@pytest.mark.slow
@needs_compiler
def test_a_loop_around_that_of_the_copies_begins_them_anew() -> None:
    text = "local(i0:8) group(r1.2:4) stage(argument {slot}, local, 2 buffers) parallel(i0:1)"
    kernel = nested(16, 24, 20)
    a, b = (np.random.default_rng(n).integers(-3, 4, s).astype(np.float32)
            for n, s in ((1, (16, 24)), (2, (24, 20))))
    (out,), = run_all(cuda_on_cpu.NAME, [
        replace(kernel, decisions=Given(text.format(slot=1)))], [[a, b]])
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0).sum(1))
    with pytest.raises(ArgumentError, match="no loop of one reduction"):
        generate(replace(kernel, decisions=Given(text.format(slot=2))), ASYNC)


@pytest.mark.skipif(nvrtc.library() is None, reason="nvidia-cuda-nvrtc is not installed")
def test_gpus_without_such_copies_copy_on_the_spot() -> None:
    text = (f"tile(i0:2, i1:2) local(i0:8, i1:8) group(r0.2:16) {BOTH.format(n=3)} "
            "parallel(i0*i1:1)")
    made = generate(replace(product(dt.float32, 64, 64, 64), decisions=Given(text)), GPU)
    program = "\n".join([*made.declares, made.source])
    for architecture in ("sm_75", "sm_80"):
        assert nvrtc.compile_cuda(program, [f"-arch={architecture}", "-fmad=false"])


def test_what_a_gpu_has_follows_from_its_architecture() -> None:
    from lazyten.runtimes.cuda.cuda import target_of
    from lazyten.runtimes.cuda.driver import Properties

    for architecture, halves, copies in ((75, ("float16",), False),
                                         (80, ("float16", "bfloat16"), True)):
        found = target_of(Properties("a GPU", architecture, 1 << 30, 48 << 10, 1024, 32,
                                     1 << 16, 16, 1 << 22))
        assert found.halves == NativeHalves(halves, halves)
        assert found.async_copies == copies
