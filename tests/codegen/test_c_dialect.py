"""Plain C: the example runtime of examples/lazyten_c gives the cpu's bits."""
from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from c_kernels import every_op
from golden_text import Golden
from import_graph import CHECKOUT
from kernel_checks import run_all
from slow_rows import OF_EACH_KIND, slow_but

import lazyten as lt
from lazyten.codegen.pipeline import generate, renderer
from lazyten.codegen.targets.dialect import DIALECTS, C
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.ops import Op
from lazyten.storage import device as devices
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError
from lazyten.testing.conformance.values import FUNCTIONS, edges

TARGET = Target("c", 4, 16, language="c", most_lanes=1)
NAME = "c-example"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The example runtime as a device, whether or not its package is installed."""
    monkeypatch.setattr(sys, "path", [str(CHECKOUT / "examples/lazyten_c"), *sys.path])
    monkeypatch.setitem(devices.BUILT_IN, NAME, "lazyten_c:CRuntime")
    yield NAME


@pytest.mark.few(3)
@needs_cc
@pytest.mark.parametrize("dtype", slow_but(dt.ALL, *OF_EACH_KIND), ids=lambda d: d.name)
def test_every_op_in_c_gives_the_bits_that_it_gives_on_the_cpu(example: str, dtype: DType) -> None:
    """But for multiply-adds, which round once or twice, and functions, which are made of them: the
    conformance kit has their bounds. Which NaN comes out is nobody's promise."""
    kernels = every_op(dtype, 100)
    inputs = [[ops.encode(edges(d, size, i), d) for i, (d, size) in enumerate(k.inputs)]
              for k in kernels]
    results = [run_all(where, kernels, inputs) for where in (example, "cpu")]
    for kernel, found, expected in zip(kernels, *results, strict=True):
        for node, got, wanted in zip(kernel.outputs, found, expected, strict=True):
            a, b = ops.decode(got, node.dtype), ops.decode(wanted, node.dtype)
            same = (got == wanted) | (a != a) & (b != b)
            once_or_twice = node.op in (Op.MULACC, *FUNCTIONS) and node.dtype.is_float
            assert once_or_twice or same.all(), (node.op, a[~same][:5], b[~same][:5])


@needs_cc
def test_work_items_in_c_share_a_loop(example: str) -> None:
    """With threads a runtime calls a kernel once for each work item, by number."""
    runtime = executor(f"{example}:1")
    runtime.target = replace(runtime.target, threads=True)  # type: ignore[attr-defined]
    values = (np.arange(300 * 310, dtype=np.float32) % 5).reshape(300, 310)
    x = lt.tensor(values, device=f"{example}:1")
    np.testing.assert_array_equal((x @ x.T).numpy(), values @ values.T)
    made = generate(every_op(dt.float64, 1 << 20)[0], replace(TARGET, threads=True))
    assert max(made.work_items) > 1
    assert "item" in made.source.partition("{")[2]


def test_c_kernel_text(golden: Golden) -> None:
    made = generate(every_op(dt.bool_, 100)[-1], TARGET)
    assert "\n".join([*made.declares, made.source, ""]) == golden


def test_a_language_may_be_a_record_of_its_own() -> None:
    kernel = every_op(dt.bool_, 100)[-1]
    ours = replace(C, name="ours", kernel="extern void", head=())
    text = generate(kernel, replace(TARGET, language=ours)).source
    assert text == generate(kernel, TARGET).source.replace("void kernel", "extern void kernel") \
        .replace("\n                    ", "\n                           ")
    assert "ours" not in DIALECTS


def test_a_language_that_there_is_not_is_named() -> None:
    with pytest.raises(ArgumentError, match="'basic'; use one of llvm, opencl, clang-opencl"):
        renderer(Target(language="basic"))
