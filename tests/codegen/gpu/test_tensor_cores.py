"""Products by tensor cores: fragments' layouts, run on the processor, and NVIDIA's compiler."""
from __future__ import annotations

import re
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import nvrtc
import pytest
from cuda_on_cpu import ORDERS
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import run_all
from loop_values import evaluate_at
from numpy.testing import assert_array_equal
from slow_rows import slow_but
from tensor_core_kernels import CORES, GPU, product

from lazyten.codegen.gpu.gpu import decide_grid
from lazyten.codegen.gpu.local_memory import MOST_COPIES
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.optimize.decision_text import parse
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.tensor_cores import TABLE, TensorCore
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.kernel import Given
from lazyten.support.errors import ArgumentError

needs_compiler = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                    reason=cuda_on_cpu.missing() or "")


@st.composite
def decisions(draw: st.DrawFn, core: str, m: int, n: int, k: int) -> str:
    """Decisions that use a tensor core in a product."""
    depth = 8 if "k8_" in core else 16
    rows = draw(st.sampled_from([1, 2, 3] if m >= 48 else [1]))
    columns = draw(st.sampled_from([1, 2] if n >= 16 else [1]))
    warps = draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    if warps[0] * rows * 16 > m or warps[1] * columns * 8 > n:
        warps = 1, 1
    parts = [f"tensor(i0, i1, r0.2: {core})"]
    named = [(f"i{i}", t) for i, t in enumerate((rows, columns)) if t > 1]
    parts += [f"tile({', '.join(f'{r}:{t}' for r, t in named)})"] if named else []
    shared = [(f"i{i}", w) for i, w in enumerate(warps) if w > 1]
    parts += [f"local({', '.join(f'{r}:{w}' for r, w in shared)})"] if shared else []
    if draw(st.booleans()):
        side = max(16 * rows * warps[0], 8 * columns * warps[1])
        most = MOST_COPIES * 32 * warps[0] * warps[1] // (side * depth)
        part = depth * draw(st.integers(1, min(k // depth, 2, most)))
        parts += [f"group(r0.2:{part})"]
        buffers = f", {draw(st.integers(2, 4))} buffers" if part < k and draw(st.booleans()) else ""
        parts += [f"stage(argument {slot}, local{buffers})" for slot in (1, 2)
                  if draw(st.booleans())]
    grid = [f"i{i}" for i, (extent, size) in enumerate(
        ((m, 16 * rows * warps[0]), (n, 8 * columns * warps[1]))) if extent > size]
    parts += [f"parallel({'*'.join(grid)}:1)"] if grid else []
    return " ".join(parts)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("core", slow_but(CORES, next(iter(CORES))))
@given(data=st.data(), order=st.sampled_from(ORDERS))
@examples(2)
def test_products_of_small_numbers_are_exact(core: str, data: st.DataObject, order: int) -> None:
    dtype = CORES[core]
    m, n, k = (data.draw(st.integers(least, least + 60)) for least in (16, 8, 16))
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    kernel = product(dtype, m, n, k, transposed)
    text = data.draw(decisions(core, m, n, k))
    kernel = replace(kernel, decisions=Given(text))
    assert f"lazyten_mma_{core}(" in generate(kernel, GPU).source
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, b = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    stored = [ops.encode(np.ascontiguousarray(x.T if side in transposed else x), dtype)
              for side, x in (("a", a), ("b", b))]
    cuda_on_cpu.run_in_order(order)
    (out,), = run_all(cuda_on_cpu.NAME, [kernel], [stored])
    cuda_on_cpu.run_in_order(0)
    assert_array_equal(ops.decode(out, dtype).reshape(m, n), a @ b, err_msg=text)


@pytest.mark.few(1)
@pytest.mark.skipif(nvrtc.library() is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("core", CORES)
def test_the_instructions_compile(core: str, architecture: str) -> None:
    text = (f"tensor(i0, i1, r0.2: {core}) tile(i0:2, i1:2) local(i0:2, i1:4) group(r0.2:32) "
            "stage(argument 1, local) stage(argument 2, local) parallel(i0*i1:1)")
    made = generate(replace(product(CORES[core], 128, 128, 128), decisions=Given(text)), GPU)
    program = "\n".join([*made.declares, made.source])
    assert nvrtc.compile_cuda(program, [f"-arch={architecture}", "-fmad=false"])


STAGED = ("tensor(i0, i1, r0.2: {core}) tile(i0:2, i1:2) local(i0:2, i1:2) group(r0.2:32) "
          "stage(argument 1, local, {n} buffers) stage(argument 2, local, {n} buffers) "
          "parallel(i0*i1:1)")


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_rows_in_local_memory_are_read_by_matrices(transposed: str) -> None:
    given = Given(STAGED.format(core="m16n8k16_f16", n=2))
    source = generate(replace(product(dt.float16, 128, 128, 128, transposed), decisions=given),
                      replace(GPU, async_copies=True)).source
    turned = ("a" in transposed) * 2 + ("b" not in transposed)
    assert source.count("lazyten_matrices_4") == 2 + 1  # two blocks of 16 rows, two of 8 columns
    assert source.count("lazyten_matrices_4_transposed") == turned
    assert not re.search(r"ushort\d? x\d+ = \*?\(?\(?l\d", source)


def test_what_is_in_no_rows_is_read_element_by_element() -> None:
    text = STAGED.format(core="m16n8k16_f16", n=1).replace(", 1 buffers", "")
    given = Given(text.replace("stage(argument 2, local) ", ""))
    source = generate(replace(product(dt.float16, 128, 128, 128), decisions=given), GPU).source
    assert source.count("lazyten_matrices_4(") == 2 == source.count("lazyten_matrices")
    assert re.search(r"ushort x\d+ = p2\[", source)


@needs_compiler
def test_groups_have_more_local_memory_than_kernels_may_declare() -> None:
    given = Given(STAGED.format(core="m16n8k16_f16", n=2).replace("2 buffers", "4 buffers").replace(
        "tile(i0:2, i1:2) local(i0:2, i1:2)", "tile(i0:2, i1:4) local(i0:4, i1:2)"))
    kernel = replace(product(dt.float16, 256, 128, 128), decisions=given)
    target = replace(GPU, async_copies=True, local_memory=227 << 10)
    made = generate(kernel, target)
    assert made.local and made.local[0] > 48 << 10 and "__shared__" not in made.source
    assert not generate(replace(kernel, decisions=Given(STAGED.format(core="m16n8k16_f16", n=2))),
                        target).local
    a, b = (np.random.default_rng(i).integers(-1, 2, shape).astype(np.float16)
            for i, shape in enumerate(((256, 128), (128, 128))))
    for order in ORDERS:
        cuda_on_cpu.run_in_order(order)
        (out,), = run_all(cuda_on_cpu.NAME, [kernel], [[a, b]])
        assert_array_equal(ops.decode(out, dt.float16).reshape(256, 128), a @ b)
    cuda_on_cpu.run_in_order(0)


def test_a_product_of_halves_is_given_to_tensor_cores_and_one_of_floats_is_not() -> None:
    for dtype, used in ((dt.float16, True), (dt.bfloat16, True), (dt.float32, False)):
        sink = merge_ranges(lower(product(dtype, 512, 512, 512)))
        found = decide_grid(Model(sink, GPU))
        assert (found.tensor is not None) == used
        assert parse(str(found), sink, GPU) == found
        assert decide_grid(Model(sink, replace(GPU, tensor_cores=()))).tensor is None


@pytest.mark.parametrize(("text", "message"), [
    ("tensor(i0, i1: m16n8k16_f16)",
     r"write rows, columns, reduction and a tensor core, as in i0, i1, r0\.2: m16n8k16_f16"),
    ("tensor(i0, i1, r0.2: m16n8k16)", "there is no tensor core m16n8k16; there are m16n8k16_f16"),
    ("tensor(i0, i1, r0.2: m16n8k16_bf16)", "a sum of products of two bfloat16 can use it"),
    ("tensor(i0, r0.2, i1: m16n8k16_f16)", "one factor depends on the rows"),
    ("tensor(i0, i1, r0.2: m16n8k16_f16) unroll(r0.2:2)", "no work items or accumulators"),
    ("tensor(i0, i1, r0.2: m16n8k16_f16) local(i0:2) group(r0.2:24)", "is a multiple of 16"),
    ("tensor(i0, i1, r0.2: m16n8k16_f16) tile(i0:5)", "5 times 16 lanes are more than its extent"),
])
def test_what_tensor_cores_cannot_do_says_why(text: str, message: str) -> None:
    sink = merge_ranges(lower(product(dt.float16, 64, 64, 64)))
    with pytest.raises(ArgumentError, match=message):
        parse(text, sink, GPU)
    with pytest.raises(ArgumentError, match="this target has no tensor cores"):
        parse("tensor(i0, i1, r0.2: m16n8k16_f16)", sink, replace(GPU, tensor_cores=()))


MFMA = TensorCore(
    "mfma_16x16x16_f16", dt.float16, sizes=(("q", 4), ("g", 16), ("i", 4), ("one", 1)),
    strides=(("q", 16), ("g", 1)), rows=("g",), columns=("g",), own_rows=("q", "i"),
    own_columns=("g", "one"), inner=("q", "i"), a=("i",), b=("i",), c=("i", "one"), in_word=2,
    function="// v_mfma_f32_16x16x16f16")
"""AMD's, by 64 items: item l has row l % 16 of a and column l % 16 of b at k = 4 * (l // 16) + i,
and of the result row 4 * (l // 16) + i at column l % 16."""


def test_another_makers_instruction_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, i = np.arange(64)[:, None], np.arange(4)[None]
    digits = {"q": lane // 16, "g": lane % 16, "i": i, "one": 0 * i}
    at = {MFMA.range(digit): value + 0 * (lane + i) for digit, value in digits.items()}
    for axis, position in ((MFMA.rows, lane % 16), (MFMA.columns, lane % 16),
                           (MFMA.inner, lane // 16 * 4 + i), (MFMA.own_rows, lane // 16 * 4 + i),
                           (MFMA.own_columns, lane % 16)):
        assert_array_equal(evaluate_at(MFMA.at(axis), at), position + 0 * (lane + i))
    assert (MFMA.warp, MFMA.shape) == (64, (16, 16, 16))
    monkeypatch.setitem(TABLE, MFMA.name, MFMA)
    target = replace(GPU, warp=64, tensor_cores=(MFMA.name,))
    text = f"tensor(i0, i1, r0.2: {MFMA.name}) parallel(i0*i1:1)"
    made = generate(replace(product(dt.float16, 64, 64, 64), decisions=Given(text)), target)
    assert made.groups == (64,) and MFMA.function in made.declares
    words = r"(x\d+, ){7}x\d+"  # four elements of the result, two words of each operand
    assert re.search(rf"lazyten_mma_{MFMA.name}\({words}\);", made.source)
    found = decide_grid(Model(merge_ranges(lower(product(dt.float16, 512, 512, 512))), target))
    assert found.tensor is not None and found.tensor.core is MFMA
