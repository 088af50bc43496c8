"""Views by strides of what transforms give a function, beside torch.func."""
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

Program = Callable[[Any, Any, Any], Any]

PROGRAMS: dict[str, Program] = {
    "steps of other examples": lambda f, x, y: f.vmap(
        lambda r: r.as_strided((2,), (1,)), in_dims=1)(x),
    "steps of its own": lambda f, x, y: f.vmap(lambda r: r.as_strided((3,), (4,)), in_dims=1)(x),
    "of a transposed tensor": lambda f, x, y: f.vmap(lambda r: r.as_strided((3,), (4,)))(x.t()),
    "of every second column": lambda f, x, y: f.vmap(
        lambda r: r.as_strided((2,), (1,)))(x[1:, ::2]),
    "in chunks": lambda f, x, y: f.vmap(
        lambda r: r.as_strided((2,), (4,)), in_dims=1, chunk_size=2)(x),
    "strides": lambda f, x, y: f.vmap(
        lambda r: r.as_strided(r.shape, r.stride()) * r.stride(0), in_dims=2)(y),
    "a view of a view": lambda f, x, y: f.vmap(
        lambda r: r[1:].t().as_strided((2,), (1,)), in_dims=1)(y),
    "a copy": lambda f, x, y: f.vmap(
        lambda r: r.contiguous().as_strided((2,), (1,)), in_dims=1)(x),
    "reshaped, which copies": lambda f, x, y: f.vmap(
        lambda r: r.reshape(-1).as_strided((2,), (1,)), in_dims=1)(y),
    "contiguous": lambda f, x, y: f.vmap(lambda r: r * r.is_contiguous(), in_dims=1)(y),
    "vmap of vmap": lambda f, x, y: f.vmap(lambda r: f.vmap(
        lambda s: s.as_strided((2,), (1,)), in_dims=1)(r), in_dims=2)(y),
    "vmap of grad": lambda f, x, y: f.vmap(f.grad(
        lambda r: (r.as_strided((2,), (4,)) ** 2).sum()), in_dims=1)(x),
    "grad of vmap": lambda f, x, y: f.grad(lambda q: (f.vmap(
        lambda r: r.as_strided((2,), (1,)), in_dims=1)(q) ** 2).sum())(x),
    "vmap of jvp": lambda f, x, y: f.vmap(lambda r: f.jvp(
        lambda s: s.as_strided((2,), (4,)) ** 2, (r,), (r * 2,))[1], in_dims=1)(x),
    "jvp of a transposed tensor": lambda f, x, y: f.jvp(
        lambda r: r.as_strided((2,), (1,)) ** 2, (x.t(),), (x.t() * 2,))[1],
    "jvp of a part": lambda f, x, y: f.jvp(
        lambda r: r.as_strided((2,), (2,)) ** 2, (x[1:, ::2],), (x[1:, ::2] + 1,))[1],
    "jacrev": lambda f, x, y: f.jacrev(lambda r: r.as_strided((2,), (1,), 1) ** 2)(x.t()),
    "jacfwd": lambda f, x, y: f.jacfwd(lambda r: r.as_strided((2,), (1,), 5) ** 2)(x[1:]),
    "hessian": lambda f, x, y: f.hessian(
        lambda r: (r[1:].as_strided((2,), (1,)) ** 3).sum())(x.t()),
    "vjp": lambda f, x, y: f.vjp(lambda r: r.as_strided((2, 2), (1, 4)), x.t())[1](x[:2, :2])[0],
}


def _run(program: Program, functions: Any, make: Any) -> Any:
    return program(functions, make(np.arange(12, dtype=np.float32).reshape(3, 4)),
                   make(np.arange(24, dtype=np.float32).reshape(2, 3, 4)))


@pytest.mark.torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_of_an_argument_are_those_that_it_has_outside(name: str) -> None:
    expected = _run(PROGRAMS[name], torch.func, torch.from_numpy)
    np.testing.assert_array_equal(_run(PROGRAMS[name], lt.func, lt.from_numpy).numpy(),
                                  expected.numpy())


def test_what_as_strided_shows_of_an_argument_is_not_written() -> None:
    with pytest.raises(lt.TransformError, match="argument"):
        lt.func.vmap(lambda r: r.as_strided((2,), (1,)).mul_(2), in_dims=1)(lt.ones(3, 4))


def test_an_argument_that_shows_elements_twice_has_no_gradient_by_strides() -> None:
    x = lt.ones(1, 3).expand(2, 3)
    assert lt.func.grad(lambda r: (r * r.stride(0)).sum())(x).tolist() == [[0.0] * 3] * 2
    with pytest.raises(lt.ShapeError, match="more than once"):
        lt.func.grad(lambda r: r.as_strided((2,), (1,)).sum())(x)


def test_gradients_reach_what_strides_show_outside_of_a_view() -> None:
    """PyTorch leaves out what the view itself does not show."""
    x = lt.arange(6.0).requires_grad_()
    view = (x * 1)[:2]
    shown = view.as_strided((3,), (2,), 1)
    assert shown.tolist() == [1, 3, 5]
    (shown * shown).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 2, 0, 6, 0, 10]


def test_a_write_over_what_is_read_reads_what_was_there() -> None:
    x = lt.arange(6)
    every_other = x.as_strided((3,), (2,))
    every_other[1:].copy_(every_other[:-1])
    assert x.tolist() == [0, 1, 0, 3, 2, 5]
    y = lt.arange(6).reshape(2, 3)
    assert lt.sum(y, 0, out=y) is y and y.tolist() == [3, 5, 7]
