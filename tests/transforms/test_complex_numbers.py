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


def test_a_checkpoint_takes_and_gives_complex_and_sparse_tensors(device: str) -> None:
    real = lt.tensor([1.0, 2.0], device=device).requires_grad_()
    z = lt.complex(real, lt.tensor([0.5, -1.0], device=device))
    y, unchanged = lt.checkpoint(lambda a: (a * a, 3), z)
    y.real.sum().backward()
    assert y.tolist() == [0.75 + 1j, 3 - 4j] and unchanged == 3
    assert real.grad is not None and real.grad.tolist() == [2, 4]
    values = lt.tensor([3.0, 4.0], device=device).requires_grad_()
    sparse = lt.sparse_coo_tensor(lt.tensor([[0, 2]], device=device), values, (3,))
    squares = lt.checkpoint(lambda s: s * s, sparse)
    squares.to_dense().sum().backward()
    assert squares.to_dense().tolist() == [9, 0, 16]
    assert values.grad is not None and values.grad.tolist() == [6, 8]


def test_a_module_hook_sees_complex_gradients_and_may_change_them() -> None:
    z = lt.tensor([1 + 2j, 3 - 1j]).requires_grad_()
    model, seen = lt.nn.Identity(), list[list[complex]]()

    def hook(module: Any, inputs: Any, outputs: Any) -> Any:
        seen.append(outputs[0].tolist())
        return (inputs[0] * 1j,)

    model.register_full_backward_hook(hook)
    result = model(z * 2)
    assert result.dtype is lt.complex64
    result.imag.sum().backward()
    assert seen == [[1j, 1j]] and z.grad is not None and z.grad.tolist() == [-2, -2]
    with pytest.raises(lt.ArgumentError, match=r"gradient of a complex tensor of shape \(2,\)"):
        model.register_full_backward_hook(lambda m, inputs, outputs: (lt.ones(2, 2),))
        model(z * 2).imag.sum().backward()
