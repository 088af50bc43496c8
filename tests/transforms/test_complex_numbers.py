"""vmap of functions that take and give complex numbers, beside torch.func."""
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

Program = Callable[[Any, Any, Any], Any]

PROGRAMS: dict[str, Program] = {
    "made inside": lambda m, x, z: m.func.vmap(lambda r: m.complex(r, r * 2))(x),
    "by a transform": lambda m, x, z: m.func.vmap(m.fft.fft)(x),
    "given": lambda m, x, z: m.func.vmap(lambda r: r * r.conj() + 1j)(z),
    "real results": lambda m, x, z: m.func.vmap(lambda r: r.abs(), in_dims=1)(z),
    "another axis": lambda m, x, z: m.func.vmap(m.fft.fft, in_dims=1, out_dims=-1)(z),
    "an axis in front": lambda m, x, z: m.func.vmap(m.fft.fft, in_dims=-1, out_dims=0)(z),
    "in chunks": lambda m, x, z: m.func.vmap(m.fft.ifft, out_dims=1, chunk_size=2)(z),
    "what all share": lambda m, x, z: m.func.vmap(
        lambda r, w: r @ w.T, in_dims=(0, None))(z, z),
    "both kinds": lambda m, x, z: m.func.vmap(
        lambda r, s: {"a": r * s, "b": (s.sum(), r * m.tensor(1j))}, out_dims=0)(x, z)["b"][1],
    "nested": lambda m, x, z: m.func.vmap(m.func.vmap(lambda r: r * 1j), in_dims=1)(z),
    "a constant": lambda m, x, z: m.func.vmap(lambda r: m.tensor(2j))(x),
}


def _run(program: Program, library: Any, make: Any) -> Any:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    return program(library, make(x), make((x + 1j * (x % 5)).astype(np.complex64)))


@pytest.mark.torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_vmap_takes_complex_numbers(name: str) -> None:
    expected = _run(PROGRAMS[name], torch, torch.from_numpy).numpy()
    found = _run(PROGRAMS[name], lt, lt.from_numpy).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
