"""The CUDA dialect: NVIDIA's compiler takes every op on every dtype, for two kinds of GPU."""
from __future__ import annotations

import numpy as np
import nvrtc
import pytest
from c_kernels import every_op
from cuda_text import check, program
from golden_text import Golden
from slow_rows import OF_EACH_KIND, slow_but

import lazyten as lt
from lazyten import nn
from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.schedule.schedule import schedule

needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None,
                                 reason="the package nvidia-cuda-nvrtc is not installed")


@pytest.mark.few(4)
@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", slow_but(dt.ALL, *OF_EACH_KIND), ids=lambda d: d.name)
def test_every_op_compiles_for_cuda(dtype: DType, architecture: str) -> None:
    check(every_op(dtype, 100), architecture)


@pytest.mark.few(1)
@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_kernels_of_a_training_step_compile_for_cuda(architecture: str) -> None:
    model = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(6 * 14 * 14, 10))
    images = lt.tensor(np.zeros((8, 1, 32, 32), np.float32))
    labels = lt.tensor(np.zeros(8, np.int64))
    nn.functional.cross_entropy(model(images), labels).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    index = lt.tensor(np.zeros(5, np.int64))
    values = [*gradients, images.reshape(8, 1024).softmax(1), labels.float().cumsum(0),
              lt.zeros(9, 4).contiguous().index_add(0, index, lt.ones(5, 4) * 2)]
    graph = Graph([v._storage.value for v in values], values[0].device)
    steps = schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers]).steps
    assert len(steps) > 8
    check([s.kernel for s in steps], architecture)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_what_the_work_items_of_a_group_share_compiles_for_cuda(architecture: str) -> None:
    x = lt.tensor(np.zeros((256, 256), np.float32))
    images, filters = x.reshape(16, 16, 16, 16), lt.tensor(np.zeros((32, 16, 3, 3), np.float32))
    values = [x @ x, x.half().contiguous() @ x.half().contiguous(), x.softmax(1), x.T.contiguous(),
              (x > 0).any(1), x.double().sum(0), nn.functional.conv2d(images, filters)]
    graph = Graph([v._storage.value for v in values], values[0].device)
    steps = schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers]).steps
    kernels = [s.kernel for s in steps]
    check(kernels, architecture)
    assert program(kernels).count("__shared__") > len(values)


@needs_nvrtc
def test_the_compiler_refuses_what_is_wrong() -> None:
    with pytest.raises(AssertionError, match="identifier \"nonsense\" is undefined"):
        nvrtc.compile_cuda("__global__ void k(int *p) { *p = nonsense; }", ["-arch=sm_80"])


def test_cuda_kernel_text(golden: Golden) -> None:
    assert program(every_op(dt.bool_, 100)[-1:]) == golden
