"""The last steps of reductions that a group shares: work items of a warp exchange values."""
from __future__ import annotations

from copy import copy
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from cuda_programs import Program, driver, results
from tensor_core_kernels import GPU
from work_group_cases import case

from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.dialect import CUDA
from lazyten.codegen.targets.generated import Generated
from lazyten.ir.kernel import Given

__all__ = ["driver"]
TREE = replace(GPU, language=replace(CUDA, lane_below="", lane=""))
ROWS = [("local(r0.1:8) parallel(i0:1)", "sum", "float32"),
        ("local(r0.1:32) parallel(i0:1)", "sum", "float64"),
        ("local(r0.1:256) parallel(i0:1)", "sum", "float32"),
        ("local(i0:4, r0.1:16) parallel(i0:1)", "sum", "float32"),
        ("local(i0:2, r0.1:8) parallel(i0:1)", "amax", "float32"),
        ("local(i0:8, r0.1:32) parallel(i0:1)", "any", "bool"),
        ("local(i0:64, r0.1:4)", "amax", "int64"),
        ("local(r0.1:64) parallel(i0:1)", "amax", "int8")]


@pytest.mark.skipif(cuda_on_cpu.missing() is not None, reason=cuda_on_cpu.missing() or "")
def test_they_give_the_bits_of_the_tree_in_any_order(driver: object) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(70, 600)) * 10.0 ** rng.integers(-3, 3, (70, 600))
    values[::7, 3] = [np.nan, 0.0] * 5
    made: list[tuple[np.ndarray, np.ndarray, Generated, Generated]] = []
    for number, (text, name, dtype) in enumerate(ROWS):
        given = (np.nan_to_num(values) > 220 if dtype == "bool" else
                 values.astype(dtype) if "float" in dtype else
                 np.nan_to_num(values).astype(np.int32).astype(dtype))
        c = case(lambda a, name=name: getattr(a, name)(1), given)
        kernel = replace(c.kernel, decisions=Given(text))
        texts = (generate(replace(kernel, name=f"{kind}_{number}"), target)
                 for kind, target in (("warp", GPU), ("tree", TREE)))
        made.append((given, np.zeros(c.wanted.shape, c.wanted.dtype), *texts))
    kernels = [g for *_, warp, tree in made for g in (warp, tree)]
    declares = dict.fromkeys(line for g in kernels for line in g.declares)
    source = "\n".join([*declares, *(g.source for g in kernels)])
    program = Program(driver, source, "kernel_warp_0")
    for given, out, *both in made:
        found = []
        for text in both:
            one = copy(program)
            one.function = program.context.function(program.module, f"kernel_{text.name}")
            group = text.groups[0]
            found += results(one, out, [given], group, -(-text.work_items[0] // group))
        assert all(f.tobytes() == found[0].tobytes() for f in found), both[0].source
        assert found[0].any()


def test_a_reduction_within_a_warp_needs_no_barrier() -> None:
    x = np.zeros((70, 600), np.float32)
    barriers, exchanges = {}, {}
    for items in (16, 32, 64, 256):
        kernel = replace(case(lambda a: a.sum(1), x).kernel,
                         decisions=Given(f"local(r0.1:{items}) parallel(i0:1)"))
        source = generate(kernel, GPU).source
        barriers[items] = source.count("__syncthreads")
        exchanges[items] = source.count("__shfl_down_sync")
    assert barriers == {16: 0, 32: 0, 64: 4, 256: 4}
    assert exchanges == {16: 4, 32: 5, 64: 5, 256: 5}


def test_opencl_keeps_the_tree() -> None:
    kernel = replace(case(lambda a: a.sum(1), np.zeros((70, 600), np.float32)).kernel,
                     decisions=Given("local(r0.1:32) parallel(i0:1)"))
    assert "> 0;" in generate(kernel, replace(GPU, language="opencl")).source
