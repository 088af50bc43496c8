"""`set_float32_matmul_precision`: what products of float32 may lose, and where nothing changes."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cuda_on_cpu
import numpy as np
import pytest
from tensor_core_kernels import GPU, product
from torch_if_there import torch

import lazyten as lt
from lazyten.codegen.optimize.candidates import candidates
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import from_plain, structure, to_plain
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError

needs_cuda = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                reason=cuda_on_cpu.missing() or "")
TF32 = "lazyten_mma_m16n8k8_tf32("
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def highest() -> Iterator[None]:
    """Each test leaves the default."""
    yield
    lt.set_float32_matmul_precision("highest")


@pytest.mark.torch
def test_names_and_default_are_torchs() -> None:
    assert lt.get_float32_matmul_precision() == torch.get_float32_matmul_precision() == "highest"
    for name in ("high", "medium", "highest"):
        lt.set_float32_matmul_precision(name)
        assert lt.get_float32_matmul_precision() == name
    with pytest.raises(ArgumentError, match="no precision 'low'; use one of 'highest', 'high'"):
        lt.set_float32_matmul_precision("low")


def test_a_product_of_floats_is_given_to_tensor_cores_where_it_may() -> None:
    kernel = product(dt.float32, 256, 256, 256)
    allowed = replace(kernel, tf32=True)
    assert TF32 in generate(allowed, GPU).source
    assert TF32 not in generate(kernel, GPU).source
    assert any("tf32" in text for text in candidates(allowed, GPU))
    assert not any("tf32" in text for text in candidates(kernel, GPU))
    assert structure(kernel) != structure(allowed) == structure(from_plain(to_plain(allowed)))
    without = replace(GPU, tensor_cores=("m16n8k16_f16",))
    assert generate(allowed, without).source == generate(kernel, without).source
    assert generate(allowed, AVX2).source == generate(kernel, AVX2).source


def arrays() -> tuple[Array, Array]:
    r = np.random.default_rng(0)
    return (r.normal(size=(256, 200)).astype(np.float32),
            r.normal(size=(200, 264)).astype(np.float32))


def share_of_tf32s_bound(got: Array, a: Array, b: Array) -> float:
    """The largest error, where 1 is what rounding both factors to 11 bits may cost."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    bound = np.abs(a) @ np.abs(b) * (2.0**-10 + 2.0**-22)
    return float((np.abs(got - a @ b) / bound).max())


@pytest.mark.few(1)
@needs_cuda
@pytest.mark.parametrize("name", ["high", "medium"])
def test_values_are_within_tf32s_bound_and_exact_again_afterwards(name: str) -> None:
    a, b = arrays()
    x, y = (lt.tensor(v, device=cuda_on_cpu.NAME) for v in (a, b))
    exact = (x @ y).numpy()
    assert share_of_tf32s_bound(exact, a, b) < 0.01
    lt.set_float32_matmul_precision(name)
    assert 0.01 < share_of_tf32s_bound((x @ y).numpy(), a, b) < 1
    lt.set_float32_matmul_precision("highest")
    assert (x @ y).numpy().tobytes() == exact.tobytes()


@pytest.mark.slow
@needs_cuda
def test_a_jitted_function_follows_the_precision() -> None:
    a, b = arrays()
    x, y = (lt.tensor(v, device=cuda_on_cpu.NAME) for v in (a, b))
    product_of = lt.jit(lambda x, y: x @ y)
    for name, low, high in (("highest", 0, 0.01), ("high", 0.01, 1), ("highest", 0, 0.01)):
        lt.set_float32_matmul_precision(name)
        for _ in range(2):
            assert low <= share_of_tf32s_bound(product_of(x, y).numpy(), a, b) < high


def test_devices_without_tensor_cores_compute_as_before(device: str) -> None:
    a, b = arrays()
    x, y = (lt.tensor(v, device=device) for v in (a, b))
    exact = (x @ y).numpy()
    lt.set_float32_matmul_precision("medium")
    rounded = (x @ y).numpy()
    if getattr(executor(device), "target", AVX2).tensor_cores:
        assert share_of_tf32s_bound(rounded, a, b) < 1
    else:
        assert rounded.tobytes() == exact.tobytes()
