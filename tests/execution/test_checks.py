"""CHECK: stray positions, NaN, infinities and overflow, in the kernels that devices run."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import nvrtc
import pytest
from c_kernels import every_op, leaf, products
from cuda_text import check as compile_for_cuda
from graphs import SIZES, arrays, expressions
from guarded_memory import run_guarded
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten import CheckError
from lazyten.codegen import pipeline
from lazyten.codegen.checks.report import LOW, Finding, key_of, read_key
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, from_plain, structure, to_plain
from lazyten.ir.node import Node, cast, elementwise, expand, index, make, reduce, rewrite
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer
from lazyten.support import check_mode
from lazyten.support.errors import ArgumentError, InternalError

Array = np.ndarray[Any, Any]
ALL = check_mode.KINDS


def launch(device: str, kernel: Kernel, inputs: list[Array]) -> list[Array]:
    """A kernel's outputs, as stored, for inputs as they are stored."""
    program, = executor(device).build([kernel])
    made = [Buffer(device, o.dtype, o.numel) for o in kernel.outputs]
    given_values = [Buffer.from_numpy(v, d, device)
                    for v, (d, _) in zip(inputs, kernel.inputs, strict=True)]
    program.launch([b.handle for b in (*made, *given_values)])
    return [b.numpy() for b in made]


def kernel_of(outputs: list[Node], *inputs: tuple[DType, int], checks: Any = ALL) -> Kernel:
    return Kernel("checked", tuple(outputs), inputs, None, None, checks)


def message(device: str, kernel: Kernel, inputs: list[Array]) -> str:
    """The error of a launch; empty if there is none."""
    try:
        launch(device, kernel, inputs)
    except CheckError as error:
        return str(error)
    return ""


# ---- values --------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nan": (lambda x: x.log() * 2, r"element \[1, 2\] of output, float32\[3, 5\], is nan, .*"
                                   r"LOG2 at test_checks.py:\d+ made it of -1.0, element \[1, 2\]"),
    "inf": (lambda x: 1 / (x + 1), r"element \[1, 2\] .* is inf, .*DIV at .* of 1.0, 0.0"),
    "in a sum": (lambda x: x.sqrt().sum(1), r"element \[1\] of output, float32\[3\], is nan.*"
                                            r"SQRT at .* of -1.0, element \[1, 2\]"),
    "half": (lambda x: (x * 70000).half(), r"element \[0, 0\] .*float16.* is inf, .*"
                                           r"the conversion to float16 at .* of 70000.0"),
    "cast": (lambda x: (x * 100 + 56).to(lt.uint8) + 1,
             r"element \[1, 2\] .*uint8.* is 1, .*conversion to uint8 at .* of -44.0"),
    "nan cast": (lambda x: x.log().int(), r"is 0, from an integer that .*to int32 at .* of nan"),
    "product": (lambda x: (x.long() + 2**40) * (x.long() + 2**40),
                r"MUL at .* of 1099511627777, 1099511627777, element \[0, 0\]"),
    "difference": (lambda x: x.to(lt.int8) * 100 - 100,
                   r"element \[1, 2\] .* is 56, .*SUB at .* of -100, 100"),
    "sum": (lambda x: (x.int() * 2**30).sum(dtype=lt.int32),
            r"element \[\] of output, int32\[\], is .*REDUCE at"),
}


@pytest.mark.few(13)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_value_is_reported_with_its_element_and_line(device: str, mistake: str) -> None:
    compute, pattern = MISTAKES[mistake]
    values = np.ones((3, 5), np.float32)
    values[1, 2] = -1
    x = lt.tensor(values, device=device)
    y = compute(x)
    with lt.check(), pytest.raises(CheckError, match=f"^kernel .*test_checks.py:.*{pattern}"):
        y.realize()
    assert y.shape == compute(x).realize().shape  # without checks it is a value like any other


def fine(x: Any) -> list[Any]:
    """What gives no error for an x of -1, 0, 1 and 2."""
    return [lt.where(x > 0, x.log(), 0.0), x.masked_fill(x > 0, -np.inf).softmax(0),
            lt.where(x > 0, 1 / x, 3.0).int(), x.int().sum(), x.max(), (x * 1e4).half(),
            x.long() * (2**63 - 1) // 2, (x * 63.5 - 0.9).to(lt.int8),
            (x + 1).to(lt.uint8), x.to(lt.uint8) - 1, (x * 2.0**31 - 2.0**31).clamp(max=0).int(),
            lt.arange(4, device=x.device) * 3, x.long().prod(), -x.int(), lt.rand(3)]


@pytest.mark.few(1)
def test_values_that_are_no_mistake_are_not_reported(device: str) -> None:
    x = lt.tensor([0.0, 1.0, 0.0, 1.0], device=device)
    with lt.check():
        lt.realize(*fine(x)[:3], *fine(x)[3:])


def test_what_an_input_has_already_is_not_reported(device: str) -> None:
    x = lt.tensor([1.0, np.inf, 2.0], device=device)
    y = lt.tensor([1.0, np.nan, 2.0], device=device)
    with lt.check():
        assert (x * 2)[1].item() == np.inf
        assert np.isnan((y + 1).numpy()[1])
        with pytest.raises(CheckError, match=r"\[1\].* is nan, .*SUB at .* of inf, inf"):
            (x - x).realize()


def test_the_kinds_to_look_for_can_be_chosen(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = lt.tensor([0.0], device=device)
    with lt.check("nan, overflow"):
        assert (1 / x).item() == np.inf
        with lt.check("0"):
            assert np.isnan((x / x).item())
        with lt.check("inf"):
            assert np.isnan((x * 2 / x).item())
            with pytest.raises(CheckError, match="is inf"):
                (3 / x).realize()
        with pytest.raises(CheckError, match="is nan"):
            (x / x).realize()
    monkeypatch.setenv("CHECK", "1")
    with pytest.raises(CheckError, match="is inf"):
        (2 / x).realize()
    monkeypatch.setenv("CHECK", "0")
    assert (2 / x).item() == np.inf
    monkeypatch.setenv("CHECK", "nans")
    with pytest.raises(ArgumentError, match="CHECK='nans': there is no check 'nans'; write 1 for"):
        (3 / x).realize()


def test_a_jitted_function_is_checked(device: str) -> None:
    @lt.jit
    def f(x: lt.Tensor) -> lt.Tensor:
        return (x + 1).log()

    good, bad = lt.tensor([0.0, 1.0], device=device), lt.tensor([0.0, -3.0], device=device)
    assert np.isnan(f(bad).numpy()[1])
    with lt.check():
        for _ in range(3):
            assert_array_equal(f(good).numpy()[0], 0)
            with pytest.raises(CheckError, match=r"element \[1\] .*LOG2 at .* of -2.0"):
                f(bad)
    assert np.isnan(f(bad).numpy()[1])


def test_of_several_outputs_the_one_at_fault_is_named(device: str) -> None:
    x = lt.tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device)
    with lt.check(), pytest.raises(CheckError, match=r"\[0\] of output 1, float32\[3\]"):
        lt.realize(x.sum(0), (x - 1).log().sum(0))


def test_the_first_element_is_reported_however_many_threads_there_are() -> None:
    values = np.ones((512, 1024), np.float32)
    for i, j in ((500, 3), (77, 5), (77, 900), (300, 0)):
        values[i, j] = -1
    x = lt.tensor(values, device="cpu")
    seen = set()
    before = lt.get_num_threads()
    try:
        for threads in (1, 2, 3):
            lt.set_num_threads(threads)
            with lt.check(), pytest.raises(CheckError) as raised:
                x.sin().exp().log().sqrt().sin().log().realize()
            seen.add(str(raised.value))
    finally:
        lt.set_num_threads(before)
    assert len(seen) == 1 and "element [77, 5] of output" in seen.pop()


INTS = (dt.int8, dt.int16, dt.int32, dt.int64)


@st.composite
def integer_kernels(draw: st.DrawFn) -> tuple[Kernel, list[Array]]:
    """Kernels of one integer type whose values overflow now and then."""
    dtype = draw(st.sampled_from(INTS))
    shape = tuple(draw(st.lists(SIZES.filter(bool), min_size=1, max_size=2)))
    x: Node = leaf(1, shape, dtype)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["unary", "binary", "where", "reduce", "cast"]))
        if kind == "unary" and x.op is not Op.NEG:  # -(-x) is x, which overflows nowhere
            x = elementwise(Op.NEG, x)
        elif kind == "cast":
            x = cast(elementwise(Op.MUL, *[cast(x, dt.float32)] * 2), dtype)
        elif kind == "reduce":
            axes = draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))
            x = expand(reduce(x, draw(st.sampled_from([Op.ADD, Op.MUL])), axes), shape)
        elif kind != "unary":
            other = leaf(1, shape, dtype)
            value = elementwise(draw(st.sampled_from([Op.ADD, Op.SUB, Op.MUL])), x, other)
            x = elementwise(Op.WHERE, elementwise(Op.CMPLT, x, other), value, x) \
                if kind == "where" else value
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bits = draw(st.integers(2, dtype.bits - 1))
    values = rng.integers(-(1 << bits - 1), 1 << bits - 1, shape).astype(dtype.numpy)
    size = int(np.prod(shape))
    return kernel_of([x], (dtype, size), checks=("overflow",)), [values]


@given(integer_kernels())
def test_machine_code_finds_the_overflows_that_the_interpreter_finds(
        made: tuple[Kernel, list[Array]]) -> None:
    assert message("cpu", *made) == message("interpreter", *made)


def test_a_product_overflows_only_if_all_of_it_does() -> None:
    """Not where a loop has come to before its last iteration, which a 0 is in."""
    values = np.full(21, 3, np.int8)
    values[-1] = 0
    kernel = kernel_of([reduce(leaf(1, (21,), dt.int8), Op.MUL, (0,))], (dt.int8, 21),
                       checks=("overflow",))
    assert message("cpu", kernel, [values]) == message("interpreter", kernel, [values]) == ""


@pytest.mark.few(15)
@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL])
def test_overflow_is_found_exactly_where_python_says_so(device: str, dtype: DType, op: Op) -> None:
    low, high = int(dtype.min), int(dtype.max)
    edge = [low, low + 1, low // 2, -3, -2, -1, 0, 1, 2, 3, high // 2, high // 2 + 1, high - 1,
            high]
    node = make(op, dtype, (leaf(1, (1,), dtype), leaf(2, (1,), dtype)))
    kernel = kernel_of([node], (dtype, 1), (dtype, 1))
    exact = {Op.ADD: int.__add__, Op.SUB: int.__sub__, Op.MUL: int.__mul__}[op]
    program, = executor(device).build([kernel])
    buffers = [Buffer(device, dtype, 1) for _ in range(3)]
    for a in edge:
        for b in edge:
            for buffer, value in zip(buffers[1:], (a, b), strict=True):
                executor(device).copy_in(buffer.handle, np.asarray([value], dtype.numpy))
            try:
                program.launch([x.handle for x in buffers])
            except CheckError:
                assert not low <= exact(a, b) <= high, (a, b)
            else:
                assert low <= exact(a, b) <= high, (a, b)


# ---- positions -----------------------------------------------------------------------------------

def misplaced(monkeypatch: pytest.MonkeyPatch, op: Op, by: int) -> None:
    """From here on lowering makes a mistake: every LOAD, or STORE, is `by` elements off."""
    right = pipeline.lower

    def off(node: Node) -> Node | None:
        if node.op is not op:
            return None
        place = elementwise(Op.ADD, node.src[1], index(by))
        return make(op, node.dtype, (node.src[0], place, *node.src[2:]), node.arg)
    monkeypatch.setattr(pipeline, "lower", lambda kernel: rewrite([right(kernel)], off)[0])
    monkeypatch.delenv("LAZYTEN_VERIFY")  # which would refuse the kernel


def transposed(m: int, n: int) -> Node:
    return make(Op.PERMUTE, dt.float32, (leaf(1, (m, n), dt.float32),), (1, 0))


KERNELS: dict[str, tuple[Node, list[tuple[DType, int]]]] = {
    "copy": (elementwise(Op.NEG, leaf(1, (1003,), dt.float32)), [(dt.float32, 1003)]),
    "one vector": (elementwise(Op.NEG, leaf(1, (8,), dt.float32)), [(dt.float32, 8)]),
    "one element": (elementwise(Op.NEG, leaf(1, (1,), dt.int64)), [(dt.int64, 1)]),
    "bytes": (elementwise(Op.NOT, leaf(1, (100,), dt.bool_)), [(dt.bool_, 100)]),
    "halves": (elementwise(Op.NEG, leaf(1, (5, 33), dt.float16)), [(dt.float16, 165)]),
    "transpose": (transposed(20, 12), [(dt.float32, 240)]),
    "sum": (reduce(leaf(1, (7, 133), dt.float64), Op.ADD, (1,)), [(dt.float64, 931)]),
    "product": (products(9, 21, 17), [(dt.float32, 189), (dt.float32, 357)]),
    "large": (elementwise(Op.EXP, leaf(1, (300_001,), dt.float32)), [(dt.float32, 300_001)]),
}


@pytest.mark.few(32)
@pytest.mark.parametrize("by", [-1, 1, 10**9])
@pytest.mark.parametrize("op", [Op.LOAD, Op.STORE], ids=["load", "store"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_index_is_reported_and_touches_nothing(
        monkeypatch: pytest.MonkeyPatch, name: str, op: Op, by: int) -> None:
    """Arrays lie between pages that may not be touched; at the other end, too."""
    node, inputs = KERNELS[name]
    misplaced(monkeypatch, op, by)
    kernel = kernel_of([node], *inputs)
    values = [np.zeros(size, dtype.numpy) for dtype, size in inputs]
    verb, size = ("loads", inputs[0][1]) if op is Op.LOAD else ("stores", node.numel)
    first = max(by, size) if by > 0 else by
    position = rf"element {first} of (out|in)put 0, \w+\[{size}\]: there is none; nothing was"
    runtime = CpuRuntime(0)
    program = runtime.build([kernel])  # which run_guarded finds
    for at_end in (True, False):
        with pytest.raises(CheckError, match=f"kernel checked .* {verb} {position}"):
            run_guarded(runtime, kernel, values, at_end)
    del program


@pytest.mark.parametrize("by", [-1, 1, 10**9])
@pytest.mark.parametrize("op", [Op.LOAD, Op.STORE], ids=["load", "store"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_index_is_refused_where_kernels_are_verified(
        monkeypatch: pytest.MonkeyPatch, name: str, op: Op, by: int) -> None:
    node, inputs = KERNELS[name]
    misplaced(monkeypatch, op, by)
    monkeypatch.setenv("LAZYTEN_VERIFY", "1")
    with pytest.raises(InternalError, match="may be outside" if op is Op.LOAD else "are stored"):
        pipeline.generate(kernel_of([node], *inputs), AVX2)


@pytest.mark.few(3)
@pytest.mark.opencl
@pytest.mark.parametrize("mapping", ["opencl", "opencl-grid"])
@pytest.mark.parametrize("op", [Op.LOAD, Op.STORE], ids=["load", "store"])
@pytest.mark.parametrize("name", ["copy", "bytes", "product"])
def test_a_wrong_index_is_reported_by_opencl_devices(
        monkeypatch: pytest.MonkeyPatch, name: str, op: Op, mapping: str) -> None:
    node, inputs = KERNELS[name]
    misplaced(monkeypatch, op, 10**9)
    values = [np.zeros(size, dtype.numpy) for dtype, size in inputs]
    with pytest.raises(CheckError, match=rf"element {10**9} of (out|in)put 0"):
        launch(mapping, kernel_of([node], *inputs), values)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [dt.float32, dt.int8, dt.bfloat16], ids=lambda d: d.name)
@given(data=st.data())
@settings(max_examples=15)
def test_checks_change_no_result_and_find_nothing_in_good_kernels(dtype: DType,
                                                                  data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(SIZES.filter(bool), min_size=1, max_size=3)))
    if np.prod(shape) > 2000:
        shape = (3, 4)
    values = ops.encode(data.draw(arrays(dtype, shape)), dtype)
    node = data.draw(expressions(dtype, [leaf(1, shape, dtype)]))
    if not node.numel:
        return
    plain = kernel_of([node], (dtype, values.size), checks=())
    wanted, = launch("cpu", plain, [values])
    got, = launch("cpu", replace(plain, checks=("bounds", "nan")), [values])
    assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))


# ---- the report ----------------------------------------------------------------------------------

@given(site=st.integers(0, 1000), position=st.integers(-(1 << 42), (1 << 42) - 1))
def test_a_key_reads_back(site: int, position: int) -> None:
    assert read_key(key_of(site) | ~position & LOW) == Finding(site, position)


def test_the_kinds_are_part_of_what_a_program_is_kept_by() -> None:
    kernel = kernel_of([KERNELS["copy"][0]], (dt.float32, 1003), checks=())
    checked = replace(kernel, checks=("nan",))
    assert structure(kernel) != structure(checked) != structure(replace(kernel, checks=ALL))
    assert from_plain(to_plain(checked)) == checked
    a, b = (executor("cpu").build([k])[0] for k in (kernel, checked))
    assert "fcmp une" not in a.source and "fcmp une" in b.source


@pytest.mark.few(1)
@pytest.mark.skipif(nvrtc.library() is None, reason="the package nvidia-cuda-nvrtc is missing")
@pytest.mark.parametrize("dtype", [dt.float32, dt.int64, dt.float16], ids=lambda d: d.name)
def test_checked_kernels_compile_for_cuda(dtype: DType) -> None:
    compile_for_cuda([replace(k, checks=ALL) for k in every_op(dtype, 100)], "sm_90")
