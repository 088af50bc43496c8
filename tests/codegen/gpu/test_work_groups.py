"""Kernels for GPUs: what the work items of a group share, on a device with groups like a GPU's.

PoCL runs them, barriers and local memory too; test_oclgrind.py has a simulator look for races.
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from c_kernels import leaf
from decided_kernels import kernels_of
from golden_text import Golden
from hypothesis import given, settings
from hypothesis import strategies as st
from work_group_cases import (
    GPU,
    Case,
    case,
    cases,
    check_results,
    decided_cases,
    randomly_decided,
    run,
    zeros,
)

import lazyten as lt
from lazyten.codegen.gpu.gpu import decide_grid
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.optimize.decision_text import parse
from lazyten.codegen.pipeline import generate
from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import move, ranges_of
from lazyten.ir.ops import Op
from lazyten.runtimes.contract import with_distinct_names
from lazyten.schedule.schedule import schedule
from lazyten.support.errors import ArgumentError
from lazyten.support.passes import is_verifying


@pytest.mark.opencl
@given(drawn=st.lists(cases(), min_size=12, max_size=12))
@settings(max_examples=2)
def test_random_kernels_with_the_models_decisions_agree_with_the_interpreter(
        drawn: list[Case]) -> None:
    check_results(drawn)


@pytest.mark.slow
@pytest.mark.opencl
@given(found=decided_cases())
@settings(max_examples=3)
def test_whatever_decisions_are_accepted_give_the_same_values(found: list[Case]) -> None:
    check_results(found)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=40)
def test_whatever_decisions_are_accepted_are_proven_to_keep_each_element(
        data: st.DataObject) -> None:
    """LAZYTEN_VERIFY=1 raises otherwise; no device is needed."""
    kernel = data.draw(cases()).kernel
    text = randomly_decided(data.draw, kernel)
    given = None if text is None else Given(text)
    assert is_verifying()
    assert generate(replace(kernel, decisions=given), GPU).source


def test_one_element_that_a_group_reads_can_be_in_local_memory() -> None:
    kernel = case(lambda a, b: a + b, zeros(6, 5), zeros(5)).kernel
    text = "local(i0:2) stage(argument 2, local) parallel(i0:1)"
    made = generate(replace(kernel, decisions=Given(text)), GPU)
    assert "stage(argument 2, local)" in made.loops


@given(data=st.data())
@settings(max_examples=40)
def test_the_models_decisions_are_accepted_and_read_back(data: st.DataObject) -> None:
    kernel = data.draw(cases()).kernel
    sink = merge_ranges(lower(kernel))
    small = replace(GPU, work_group=data.draw(st.sampled_from([8, 64, 256])),
                    local_memory=data.draw(st.sampled_from([0, 1 << 10, 48 << 10])))
    decisions = decide_grid(Model(sink, small))
    assert parse(str(decisions), sink, small) == decisions


DECIDED: dict[str, tuple[Callable[..., lt.Tensor], list[tuple[int, ...]]]] = {
    "tile(i0:2, i1:3) local(i0:4, i1:8) group(r0.2:9) stage(argument 1, local) "
    "stage(argument 2, local) parallel(i0*i1:1)": (lambda a, b: a @ b, [(21, 50), (50, 37)]),
    "local(i1:32, r0.1:32) parallel(i0:1)": (lambda a: a / a.sum(1, keepdim=True), [(5, 100)]),
    "unroll(r0.1:2) local(i0:4, r0.1:16) parallel(i0:1)": (lambda a: a.sum(1), [(11, 100)]),
    "local(r1.1:16, r0.1:16) parallel(i0:1)": (
        lambda a: (a - a.amax(1, keepdim=True)).sum(1), [(9, 100)]),
    "tile(i0:3) local(i0:4, i1:16) stage(argument 1, local) parallel(i0*i1:1)": (
        lambda a: a.T.contiguous(), [(33, 41)]),
}
"""Decisions with uneven tiles, tails and every use of local memory, each with its kernel."""


@pytest.mark.slow
@pytest.mark.skipif(cuda_on_cpu.missing() is not None, reason=cuda_on_cpu.missing() or "")
def test_the_order_of_the_items_of_a_group_changes_no_value() -> None:
    rng = np.random.default_rng(0)
    made = [(case(fn, *(rng.integers(1, 5, shape).astype(np.float32) for shape in shapes)), text)
            for text, (fn, shapes) in DECIDED.items()]
    named = with_distinct_names([replace(c.kernel, decisions=Given(text)) for c, text in made])
    cases = [replace(c, kernel=kernel) for (c, _), kernel in zip(made, named, strict=True)]
    try:
        for order in cuda_on_cpu.ORDERS:
            cuda_on_cpu.run_in_order(order)
            for c, got, text in zip(cases, run(cases, cuda_on_cpu.NAME), DECIDED, strict=True):
                np.testing.assert_array_equal(got, c.wanted, err_msg=f"{text}, order {order}")
    finally:
        cuda_on_cpu.run_in_order(0)


def test_a_result_is_stored_by_the_first_items_alone() -> None:
    kernel = case(lambda a: a.sum(1), np.ones((11, 100), np.float32)).kernel
    for text, masked in (("local(i0:4, r0.1:16) parallel(i0:1)", True),
                         ("local(i0:4) parallel(i0:1)", False)):
        source = generate(replace(kernel, decisions=Given(text)), GPU).source
        assert bool(re.search(r"if \(x\d+\) p0\[", source)) == masked


def global_loads(kernel: Kernel, slot: int) -> int:
    """How many elements of an argument all work items read, by the loops of the text."""
    made = generate(kernel, GPU)
    around, total = [1], 0
    for line in made.source.splitlines():
        total += around[-1] * len(re.findall(rf"\bp{slot}\[", line))
        total += around[-1] * sum(map(int, re.findall(rf"(\d) \*\)\(p{slot}\b", line)))
        if line.endswith("{"):
            trips = re.search(r"< (\d+); \+\+", line)
            around.append(around[-1] * (int(trips[1]) if trips else 1))
        elif line.strip() == "}":
            around.pop()
    return total * made.work_items[-1]


@pytest.mark.parametrize("fn", [lambda a, b: a @ b, lambda a, b: a.T @ b, lambda a, b: a @ b.T])
def test_a_product_reads_each_operand_once_for_sixteen_rows_or_columns(
        fn: Callable[..., lt.Tensor]) -> None:
    kernel = case(fn, zeros(256, 256), zeros(256, 256)).kernel
    for slot in (1, 2):
        assert global_loads(kernel, slot) <= 256 * 256 * 256 // 16


def test_a_large_product_reads_each_operand_once_for_sixty_four_rows_or_columns() -> None:
    kernel = case(lambda a, b: a @ b, zeros(1024, 64), zeros(64, 1024)).kernel
    for slot in (1, 2):
        assert global_loads(kernel, slot) <= 1024 * 1024 * 64 // 64


def test_a_softmax_reads_its_rows_once() -> None:
    """Each item of a group keeps its part of the row."""
    kernel = case(lambda a: a.softmax(1), zeros(256, 512)).kernel
    assert global_loads(kernel, 1) == 256 * 512


@pytest.mark.opencl
def test_results_are_the_same_bits_each_time() -> None:
    r = np.random.default_rng(3)
    c = case(lambda a: a.sum(), r.normal(size=(300, 301)).astype(np.float32))
    first, = run([c])
    assert all(run([c])[0].tobytes() == first.tobytes() for _ in range(5))


def test_indices_have_64_bits_only_where_they_need_them() -> None:
    """A value of more than 2**31 elements, of which nothing is computed."""
    def text(rows: int) -> str:
        x = lt.zeros(1, 1).expand(rows, 1 << 16) + lt.arange(1 << 16) + lt.ones(rows, 1)
        graph = Graph([x._storage.value], x.device)
        steps = schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers]).steps
        return "".join(generate(s.kernel, GPU).source for s in steps)
    assert "ulong" not in text(1 << 14).replace("global ulong *", "")
    assert re.search(r"ulong i\d+ = get_global_id", text(1 << 18))


def test_a_position_beyond_32_bits_is_added_up_in_64() -> None:
    """Ten bytes in reverse order, from far inside a buffer: 5,000,000,000 minus a small number."""
    size, last = 6_000_000_000, 5_000_000_000
    part = move(Op.SHRINK, leaf(1, (size,), dt.uint8), ((last - 9, last + 1),))
    kernel = Kernel("reversed", (move(Op.FLIP, part, (0,)),), ((dt.uint8, size),))
    text = generate(kernel, GPU).source
    base, = re.findall(rf"p1\[(\w+) \+ {last}\]", text)
    assert re.search(rf"ulong {base} = ", text), text


@pytest.mark.parametrize(("text", "message"), [
    ("local(i0:3)", r"local\(i0:3\): work items are a power of two"),
    ("local(i0:128)", "1 times 128 work items are more than its extent, 64"),
    ("local(i0:32, i1:16)", "512 work items are more than a group has, 256"),
    ("local(i0:8, r0.2:4)", None),
    ("local(i0:8) vector(r0.2:2) group(r0.2:2)", "accumulators or lanes of its own"),
    ("local(i0:8) group(i1:4)", r"group\(i1:4\): only a reduction"),
    ("group(r0.2:8)", r"group: is for work items of a group: it needs local"),
    ("local(i0:8, r0.2:4) group(r0.2:8)", "has work items, accumulators or lanes of its own"),
    ("local(i0:8) group(r0.2:65)", "at least 2 elements and at most the 64 there are"),
    ("local(i0:8) stage(argument 0, local)", "cannot be in local memory.*argument 1, argument 2"),
    ("local(i0:2) tile(i0:32) group(r0.2:64) stage(argument 1, local)",
     "each work item would copy 2048 elements; the limit is 32"),
    ("local(i0:16, i1:16) tile(i0:4, i1:4) group(r0.2:64) stage(argument 1, local) "
     "stage(argument 2, local)", None),
    ("local(i0:8) parallel(i0:2)", "a group takes 1 iteration"),
])
def test_decisions_about_groups_that_do_not_fit_say_why(text: str, message: str | None) -> None:
    kernel = case(lambda a, b: a @ b, zeros(64, 64), zeros(64, 64)).kernel
    sink = merge_ranges(lower(kernel))
    if message is None:
        assert str(parse(text, sink, GPU)) != "plain loops"
    else:
        with pytest.raises(ArgumentError, match=message):
            parse(text, sink, GPU)


def test_a_target_without_groups_refuses_work_items() -> None:
    sink = merge_ranges(lower(case(lambda a: a.sum(1), zeros(64, 64)).kernel))
    with pytest.raises(ArgumentError, match="this target has no groups of work items"):
        parse("local(i0:8)", sink, replace(GPU, work_group=1))


def test_local_memory_that_is_too_small_is_named() -> None:
    sink = merge_ranges(lower(case(lambda a, b: a @ b, zeros(64, 64), zeros(64, 64)).kernel))
    text = "local(i0:8, i1:8) group(r0.2:16) stage(argument 1, local)"
    with pytest.raises(ArgumentError, match=r"[\d,]+ bytes are more than the local memory, 256"):
        parse(text, sink, replace(GPU, local_memory=256))
    assert math.prod(r.arg.extent for r in ranges_of([sink])) == 64**3


@pytest.mark.opencl
def test_a_sum_inside_another_leaves_the_outputs_to_work_items() -> None:
    """It would be done again in each step of the other in any case."""
    found = case(lambda x, d: ((x - x.mean(1, keepdim=True)) * d).sum(0),
                 np.arange(32, dtype=np.float32).reshape(8, 4), np.eye(8, 4, dtype=np.float32))
    assert generate(found.kernel, GPU).work_items == (4,)
    check_results([found])


def test_product_kernel_text(golden: Golden) -> None:
    """Tiles in local memory, padded; barriers; neighbours in an operand read by neighbours."""
    kernel = case(lambda a, b: a @ b, zeros(32, 48), zeros(48, 40)).kernel
    text = ("tile(i0:2, i1:2) local(i0:8, i1:8) group(r0.2:8) stage(argument 1, local) "
            "stage(argument 2, local) parallel(i0*i1:1)")
    made = generate(replace(kernel, decisions=Given(text)), GPU)
    assert "\n".join([made.loops, "", made.source, ""]) == golden


def test_row_kernel_text(golden: Golden) -> None:
    """Sums of rows that 32 work items share."""
    kernel = case(lambda a: a / a.sum(1, keepdim=True), zeros(30, 100)).kernel
    made = generate(replace(kernel, decisions=Given("local(i1:32, r0.1:32) parallel(i0:1)")), GPU)
    assert "\n".join([made.loops, "", made.source, ""]) == golden


def test_rows_that_fit_are_read_and_computed_once() -> None:
    x = lt.tensor(np.zeros((1024, 1024), np.float32)).realize()
    kernel, = kernels_of(x.softmax(1))
    held = generate(kernel, GPU)
    assert "unroll(" in held.decided and "tile(" in held.decided
    size = int(re.search(r"local\(i1:(\d+)", held.decided)[1])
    exponent = "<< 23u"  # one in each exp
    assert held.source.count(exponent) == 1024 // size  # not again for what is stored
    again = generate(replace(kernel, decisions=Given(
        "local(i1:64, r0.1:64, r1.1:64) parallel(i0:1)")), GPU)
    assert again.source.count(exponent) == 2 and again.source.count("for (uint") == 3
