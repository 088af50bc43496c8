"""benchmarks/gpu.py without a GPU: its rows run, and its ceilings compile for NVIDIA's GPUs."""
from __future__ import annotations

import nvrtc
import pytest

from benchmarks import gpu, gpu_ceilings


@pytest.mark.skipif(nvrtc.library() is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_ceilings_kernels_compile(architecture: str) -> None:
    code = nvrtc.compile_cuda(gpu_ceilings.source(), [f"-arch={architecture}"])
    assert code.startswith(b"\x7fELF")


def test_the_ceilings_work_is_counted_by_thread_and_warp() -> None:
    chained = gpu_ceilings.CHAINS * gpu_ceilings.STEPS
    assert gpu_ceilings.work_of("fp32", 3) == 2 * chained * 256 * 3
    assert gpu_ceilings.work_of("fp16", 3) == 2 * 16 * 8 * 16 * chained * 8 * 3
    assert gpu_ceilings.work_of("tf32", 3) == gpu_ceilings.work_of("bf16", 3) / 2
    assert gpu_ceilings.work_of("copy", 3) == 2 << 30


@pytest.mark.slow
def test_every_row_runs_and_one_that_fails_says_why() -> None:
    compared = {"lazyten": gpu.libraries("cpu")["lazyten"]}
    for case in gpu.cases(32):
        found = gpu.measure(case, compared, 1, 0.0)["lazyten"]
        if isinstance(found, str):
            assert (case.ceiling, found) == ("tf32", "no tf32")
        else:
            assert found > 0


def test_a_cell_is_the_rate_and_its_share_of_the_ceiling() -> None:
    case = next(c for c in gpu.products([1000]) if c.ceiling == "fp16")
    assert gpu.cell(case, 0.001, {"fp16": 4e12}) == "2.000 TFLOP/s   50%"
    assert gpu.cell(case, 0.001, {}) == "2.000 TFLOP/s"
    assert gpu.cell(case, "no such type", {}) == "no such type"
