"""`lt.linalg` and `lt.special` beside PyTorch's, values and gradients."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
rng = np.random.default_rng(0)
A, B, C = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(2, 3, 4))
V, POSITIVE = rng.normal(size=4), rng.uniform(0.1, 3, (3, 4))
CALLS: dict[str, Callable[..., Any]] = {
    **{f"vector_norm-{p}-{dim}-{keep}": lambda T, p=p, dim=dim, keep=keep: (
        lambda x: T.linalg.vector_norm(x, p, dim, keep))
       for p in (2, 1, 3.5, 0, math.inf, -math.inf) for dim in (None, 1, (0, 2)) for keep in (
           False, True)},
    **{f"matrix_norm-{p}-{dim}-{keep}": lambda T, p=p, dim=dim, keep=keep: (
        lambda x: T.linalg.matrix_norm(x, p, dim, keep))
       for p in ("fro", 1, -1, math.inf, -math.inf) for dim in ((-2, -1), (2, 0)) for keep in (
           False, True)},
    "norm": lambda T: lambda x: T.linalg.norm(x),
    "norm-axis": lambda T: lambda x: T.linalg.norm(x, 1, 2),
    "norm-matrix": lambda T: lambda x: T.linalg.norm(x, 1, (0, 1)),
    "norms-of-no-elements": lambda T: lambda x: T.stack([T.linalg.norm(y, p) for y in (
        x[0, :0], x[0, :, :0], x[0, :0, :0]) for p in (1, 2, math.inf, "fro", "nuc")]),
    "norm-fro": lambda T: lambda x: T.linalg.norm(x[0], "fro"),
    "norm-of-a-matrix": lambda T: lambda x: T.linalg.norm(x[0], math.inf),
    "cross": lambda T: lambda x: T.linalg.cross(x, x.flip(0) + 1, dim=1),
    "diagonal": lambda T: lambda x: T.linalg.diagonal(x, offset=1),
    "vecdot": lambda T: lambda x: T.linalg.vecdot(x, x[:1] + 1, dim=1),
    "multi_dot": lambda T: lambda x: T.linalg.multi_dot([x[0, 0, :3], x[0], x[1].T, x[0], x[1, 0]]),
    "matrix_power": lambda T: lambda x: T.linalg.matrix_power(x[:, :, :3], 3),
    **{name: lambda T, name=name: lambda x: getattr(T.special, name)(x) for name in (
        "erf", "erfc", "exp2", "expm1", "expit", "ndtr", "sinc", "round")},
    **{f"{name}-positive": lambda T, name=name: lambda x: getattr(T.special, name)(x.abs() + 0.1)
       for name in ("digamma", "psi", "gammaln", "log1p", "entr")},
    "logit": lambda T: lambda x: T.special.logit(x.sigmoid()),
    "erfinv": lambda T: lambda x: T.special.erfinv(x.tanh()),
    "softmax": lambda T: lambda x: T.special.softmax(x, 1) + T.special.log_softmax(x, 0),
    "xlogy": lambda T: lambda x: T.special.xlogy(x, x.abs()) + T.special.xlog1py(x, x.abs()),
    "multigammaln": lambda T: lambda x: T.special.multigammaln(x.abs() + 3, 4),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    results = []
    for T in (lt, torch):
        x = T.tensor(C).requires_grad_()
        y = CALLS[name](T)(x)
        ((y * T.tensor(rng_like(y.shape))).sum() + 0 * x.sum()).backward()
        results.append((y.detach().numpy(), None if x.grad is None else x.grad.numpy()))
    (ours, our_gradient), (theirs, their_gradient) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(0 if our_gradient is None else our_gradient, their_gradient,
                               rtol=1e-8, atol=1e-11)


def rng_like(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(1).normal(size=tuple(shape))


def test_points_where_formulas_end() -> None:
    points = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    for name in ("entr", "ndtr"):
        ours, theirs = [getattr(T.special, name)(T.tensor(points)).tolist() for T in (lt, torch)]
        np.testing.assert_allclose(ours, theirs)
    x, y = np.meshgrid(points, [*points, -2.0])
    ours, theirs = [T.special.xlog1py(T.tensor(x), T.tensor(y)).numpy() for T in (lt, torch)]
    np.testing.assert_allclose(ours, theirs)


def test_what_norms_and_products_do_not_take_is_refused() -> None:
    with pytest.raises(lt.ArgumentError, match=r"matrix_norm: ord=3 is not one of"):
        lt.linalg.matrix_norm(lt.eye(2), 3)
    with pytest.raises(lt.ArgumentError, match="must name 2 axes"):
        lt.linalg.matrix_norm(lt.eye(2), dim=(0,))
    with pytest.raises(lt.ShapeError, match="dim="):
        lt.linalg.norm(lt.ones(2, 2, 2), 1)
    with pytest.raises(lt.ArgumentError, match="multi_dot of a list: give a list of 2"):
        lt.linalg.multi_dot([lt.eye(2)])
