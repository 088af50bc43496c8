"""Factorizations of complex matrices, and eigenvalues of real ones, beside PyTorch's: values,
gradients, second gradients. What depends on the angle of a vector, which may be any, is not asked
for."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
Array = np.ndarray[Any, Any]


def matrix(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def square(n: int, *batch: int) -> Array:
    return matrix(*batch, n, n) + 3 * np.eye(n)


def hermitian(n: int, *batch: int) -> Array:
    a = matrix(*batch, n, n)
    return a + np.swapaxes(a, -1, -2).conj()


def positive(n: int, *batch: int) -> Array:
    a = matrix(*batch, n, n)
    return a @ np.swapaxes(a, -1, -2).conj() + np.eye(n)


SQUARES = {"0x0": square(0), "1x1": square(1), "3x3": square(3), "batch": square(4, 2, 1)}
REAL_SQUARES = {"real": matrix(5, 5, seed=3).real, "real batch": matrix(2, 3, 3, seed=5).real}
HERMITIANS = {"1x1": hermitian(1), "3x3": hermitian(3), "batch": hermitian(3, 2, 1)}
POSITIVES = {"1x1": positive(1), "3x3": positive(3), "batch": positive(3, 2, 1)}
RECTANGLES = {"3x3": square(3), "tall": matrix(5, 3), "wide": matrix(2, 3, 5),
              "column": matrix(3, 1)}
CASES: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {}


def add(name: str, function: Callable[..., Any], inputs: dict[str, Array], *others: Array) -> None:
    for kind, a in inputs.items():
        CASES[f"{name}-{kind}"] = function, (a, *others)


def of_svd(u: Any, s: Any, vh: Any) -> Any:
    """What of U and V does not depend on their angles."""
    k = s.shape[-1]
    return (u[..., :k] * s.cos().unsqueeze(-2)) @ vh[..., :k, :], s


def of_eigh(values: Any, v: Any) -> Any:
    return values, (v * values.cos().unsqueeze(-2)) @ v.mH


def order_of(values: Any) -> Any:
    return (values.detach().real + 1e-3 * values.detach().imag).argsort(-1)


def in_order(values: Any) -> Any:
    return values.gather(-1, order_of(values))


def of_eig(T: Any, values: Any, v: Any) -> Any:
    """The same, and how long each element of V is."""
    order = order_of(values)
    lengths = v.abs().mT.gather(-2, order.unsqueeze(-1).expand(v.shape))
    return in_order(values), lengths, (v * values.exp().unsqueeze(-2)) @ T.linalg.inv(v)


add("inv", lambda T, a: (T.linalg.inv(a), a.inverse()), SQUARES)
add("det", lambda T, a: (T.linalg.det(a), a.det(), T.logdet(a)), SQUARES)
add("det of singular", lambda T, a: T.det(a), {"rank 1": matrix(2, 1) @ matrix(1, 2, seed=1)})
add("slogdet", lambda T, a: tuple(T.linalg.slogdet(a)), SQUARES)
add("solve", lambda T, a, b: (T.linalg.solve(a, b), T.linalg.solve(a, b.mT, left=False)),
    {"3x3": square(3), "batch": square(3, 2, 1)}, matrix(3, 2))
for options in ({"upper": u, "left": s, "unitriangular": i} for u in (False, True)
                for s in (False, True) for i in (False, True)):
    add(f"solve_triangular-{tuple(options.values())}",
        lambda T, a, b, o=options: T.linalg.solve_triangular(a, b, **o),
        {"3x3": square(3)}, square(3, 2))
for upper in (False, True):
    add(f"cholesky-{upper}", lambda T, a, u=upper: T.linalg.cholesky(a, upper=u), POSITIVES)
    add(f"cholesky_solve-{upper}", lambda T, a, b, u=upper: b.cholesky_solve(
        T.linalg.cholesky(a, upper=u), u), {"3x3": positive(3)}, matrix(3, 2))
add("qr", lambda T, a: tuple(T.linalg.qr(a)), RECTANGLES)
for side in "LU":
    add(f"eigh-{side}", lambda T, a, s=side: of_eigh(*T.linalg.eigh(a, s)), HERMITIANS)
add("eigvalsh", lambda T, a: T.linalg.eigvalsh(a), HERMITIANS)
add("eig", lambda T, a: of_eig(T, *T.linalg.eig(a)), {"3x3": square(3), "batch": square(4, 2, 1),
                                                      **REAL_SQUARES})
add("eigvals", lambda T, a: in_order(T.linalg.eigvals(a)), {
    "1x1": square(1), "3x3": square(3), **REAL_SQUARES})
for full in (False, True):
    add(f"svd-{full}", lambda T, a, f=full: of_svd(*T.linalg.svd(a, f)), RECTANGLES)
add("svdvals", lambda T, a: T.linalg.svdvals(a), RECTANGLES)
add("lu", lambda T, a: tuple(T.linalg.lu(a)), RECTANGLES)
add("lu_factor", lambda T, a: tuple(T.linalg.lu_factor(a)), RECTANGLES)
for options in ({"left": s, "adjoint": i} for s in (False, True) for i in (False, True)):
    add(f"lu_solve-{tuple(options.values())}",
        lambda T, a, b, o=options: T.linalg.lu_solve(*T.linalg.lu_factor(a), b, **o),
        {"3x3": square(3)}, square(3, 2))
for options in ({}, {"rtol": 0.3}, {"hermitian": True}):
    add(f"pinv-{options}", lambda T, a, o=options: (
        T.linalg.pinv(a, **o), T.linalg.matrix_rank(a, **o)),
        HERMITIANS if options.get("hermitian") else RECTANGLES)
add("lstsq", lambda T, a, b: T.linalg.lstsq(a, b, driver="gelsd")[:3], {"tall": matrix(5, 3)},
    matrix(5, 2))
add("cond", lambda T, a: T.linalg.cond(a), {"3x3": square(3)})
for p in (2, -2, "nuc", "fro", 1, -1, float("inf")):
    add(f"matrix_norm-{p}", lambda T, a, p=p: (
        T.linalg.matrix_norm(a, p), T.linalg.norm(a[0], p)), {"3d": matrix(2, 3, 4)})
add("matrix_exp", lambda T, a: (a.matrix_exp(), T.linalg.matrix_exp(a * 4)), SQUARES)
for power in (3, 0, -2):
    add(f"matrix_power-{power}", lambda T, a, n=power: (
        T.linalg.matrix_power(a, n), a.matrix_power(n)), {"3x3": square(3), "batch": square(2, 2)})
add("householder_product", lambda T, a: T.linalg.householder_product(a, a.sum(-2) * 0.3),
    {"tall": matrix(5, 3)})
for options in ({"left": s, "transpose": i} for s in (False, True) for i in (False, True)):
    add(f"ormqr-{tuple(options.values())}", lambda T, a, b, o=options: T.ormqr(
        a, a.sum(-2) * 0.3, b if o["left"] else b.mT, **o), {"5x3": matrix(5, 3)}, matrix(5, 2))
add("cross", lambda T, a, b: (T.linalg.cross(a, b), T.cross(a, b, dim=-1)), {"3": matrix(2, 3)},
    matrix(2, 3, seed=1))
add("vander", lambda T, a: (T.linalg.vander(a), T.vander(a[0].detach(), N=5)), {"3": matrix(2, 3)})
add("diagonal", lambda T, a: T.linalg.diagonal(a), {"3x4": matrix(2, 3, 4)})


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are NumPy's anyway, and gradients of a hundred shapes take long to compile."""
    monkeypatch.setenv("DEVICE", "interpreter")


def weighted(T: Any, results: list[Any]) -> Any:
    total: Any = 0
    for number, x in enumerate(results):
        if x.requires_grad:
            weight = matrix(*x.shape, seed=number)
            product = x * T.tensor(weight if x.is_complex() else weight.real)
            total = total + (product.real if x.is_complex() else product).sum()
    return total


def gradients(T: Any, results: list[Any], leaves: list[Any], again: bool) -> list[Any]:
    """The first gradients, or those of the sum of their squares."""
    total = weighted(T, results)
    if isinstance(total, int):
        return []
    found = T.autograd.grad(total, leaves, create_graph=again, allow_unused=True)
    found = [T.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]
    return gradients(T, found, leaves, False) if again else found


def close(ours: list[Any], theirs: list[Any], rtol: float, atol: float) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype)[8:] == str(b.dtype)[6:]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().resolve_conj().numpy(), rtol,
                                   atol)


ONCE = ("det of singular", "svd-True", "matrix_power-0")
"""What lazyten has no second gradient of, or PyTorch no right one."""


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    function, arrays = CASES[name]
    again = name.endswith("3x3") and not name.startswith(ONCE)
    found: list[list[list[Any]]] = []
    for T in (lt, torch):
        leaves = [T.tensor(a).requires_grad_() for a in arrays]
        given = function(T, *leaves)
        results = list(given) if isinstance(given, tuple | list) else [given]
        found.append([results, gradients(T, results, leaves, False)])
        if again:
            given = function(T, *leaves)
            results = list(given) if isinstance(given, tuple | list) else [given]
            found[-1].append(gradients(T, results, leaves, True))
    mine, theirs = found
    close(mine[0], theirs[0], 1e-8, 1e-10)
    close(mine[1], theirs[1], 1e-7, 1e-8)
    if again:
        close(mine[2], theirs[2], 1e-6, 1e-6)


def test_complex64_stays_and_is_near() -> None:
    a = matrix(4, 4).astype(np.complex64)
    for name in ("inv", "eigvals", "det", "matrix_exp", "pinv"):
        mine, theirs = (getattr(T.linalg, name)(T.tensor(a)) for T in (lt, torch))
        assert mine.dtype is lt.complex64
        if name == "eigvals":
            mine, theirs = (np.sort_complex(x.numpy()) for x in (mine, theirs))
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), 2e-4, 2e-4)
    assert lt.linalg.eigvalsh(lt.tensor(a)).dtype is lt.float32


class _Half:
    """|x|^2 and x / 2 + i Im(x), with gradients written by hand."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        ctx.save_for_backward(x, scale)
        return (x * x.conj()).real * scale, x / 2

    @staticmethod
    def backward(ctx: Any, of_square: Any, of_half: Any) -> Any:
        x, scale = ctx.saved_tensors
        return 2 * of_square * scale * x + of_half / 2, (of_square * (x * x.conj()).real).sum()


def test_a_function_of_the_user_takes_and_gives_complex_tensors(device: str) -> None:
    found = []
    for T in (lt, torch):
        half = type("Half", (_Half, T.autograd.Function), {})
        where = {"device": device} if T is lt else {}
        x = T.tensor(matrix(3, 2), **where).requires_grad_()
        scale = T.tensor(0.7, dtype=T.float64, **where).requires_grad_()
        square, halved = half.apply(x, scale)  # type: ignore[attr-defined]
        assert halved.is_complex() and not square.is_complex()
        first, of_scale = T.autograd.grad(
            (square * halved.imag).sum(), [x, scale], create_graph=True)
        second, = T.autograd.grad((first * first.conj()).real.sum(), [x])
        found.append([square, halved, first, of_scale, second])
    close(*found, 1e-10, 1e-12)
