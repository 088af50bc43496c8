"""Factorizations of `lt.linalg` beside PyTorch's: values, gradients, second gradients, errors."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
Array = np.ndarray[Any, Any]


def matrix(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def square(n: int, *batch: int, seed: int = 0) -> Array:
    return matrix(*batch, n, n, seed=seed) + 3 * np.eye(n)


def positive(n: int, *batch: int) -> Array:
    a = matrix(*batch, n, n)
    return a @ np.swapaxes(a, -1, -2) + np.eye(n)


def symmetric(n: int, *batch: int) -> Array:
    a = matrix(*batch, n, n, seed=4)
    return a + np.swapaxes(a, -1, -2)


def low_rank(m: int, n: int) -> Array:
    return matrix(2, m, 2, seed=1) @ matrix(2, 2, n, seed=2)


SQUARES = {"0x0": square(0), "1x1": square(1), "3x3": square(3), "batch": square(4, 2, 1),
           "empty batch": square(2, 0)}
POSITIVES = {"0x0": positive(0), "1x1": positive(1), "3x3": positive(3), "batch": positive(4, 2, 1)}
SYMMETRICS = {"0x0": symmetric(0), "1x1": symmetric(1), "3x3": symmetric(3),
              "batch": symmetric(4, 2, 1)}
RECTANGLES = {**SQUARES, "tall": matrix(5, 3), "wide": matrix(2, 3, 5), "0x3": matrix(0, 3),
              "3x0": matrix(3, 0), "column": matrix(3, 1)}

Case = tuple[Callable[..., Any], tuple[Array, ...]]
CASES: dict[str, Case] = {}


def add(name: str, function: Callable[..., Any], inputs: dict[str, Array], *others: Array) -> None:
    for kind, a in inputs.items():
        CASES[f"{name}-{kind}"] = function, (a, *others)


def signless_svd(u: Any, s: Any, vh: Any) -> Any:
    """What of U and V does not depend on their signs."""
    k = s.shape[-1]
    return (u[..., :k] * s.cos().unsqueeze(-2)) @ vh[..., :k, :], s


def signless_eigh(values: Any, vectors: Any) -> Any:
    return values, (vectors * values.cos().unsqueeze(-2)) @ vectors.mT


for upper in (False, True):
    add(f"cholesky-{upper}", lambda T, a, u=upper: T.linalg.cholesky(a, upper=u), POSITIVES)
add("cholesky old", lambda T, a: (T.cholesky(a), a.cholesky(True)), POSITIVES)
add("inv", lambda T, a: (T.linalg.inv(a), a.inverse()), SQUARES)
add("det", lambda T, a: (T.linalg.det(a), a.det(), a.logdet()), SQUARES)
add("det of singular", lambda T, a: T.det(a),
    {"rank 2": low_rank(3, 3), "rank 0": np.zeros((1, 1)), "rank 2 of 4": low_rank(4, 4)})
add("slogdet", lambda T, a: T.slogdet(a)[1], SQUARES)
add("slogdet signs", lambda T, a: tuple(T.linalg.slogdet(-a)), {"3x3": square(3)})
add("solve", lambda T, a, b: (T.linalg.solve(a, b), T.linalg.solve(a, b.mT, left=False)),
    {"3x3": square(3), "batch": square(3, 2, 1)}, matrix(3, 2))
add("solve vector", lambda T, a, b: T.linalg.solve(a, b), {"3x3": square(3)}, matrix(3))
add("solve vectors", lambda T, a, b: T.linalg.solve(a, b), {"batch": square(3, 2)}, matrix(2, 3))
for options in ({"upper": u, "left": s, "unitriangular": i} for u in (False, True)
                for s in (False, True) for i in (False, True)):
    add(f"solve_triangular-{tuple(options.values())}",
        lambda T, a, b, o=options: T.linalg.solve_triangular(a, b, **o),
        {"3x3": square(3), "batch": square(3, 2, 1)}, square(3, 2))
add("triangular_solve", lambda T, a, b: T.triangular_solve(b, a, transpose=True)[0],
    {"3x3": square(3)}, matrix(3, 2))
for mode in ("reduced", "complete"):
    add(f"qr-{mode}", lambda T, a, mode=mode: tuple(T.linalg.qr(a, mode)), {
        k: v for k, v in RECTANGLES.items() if mode == "reduced" or v.shape[-2] <= v.shape[-1]})
add("qr r", lambda T, a: T.linalg.qr(a.detach(), "r")[1], RECTANGLES)
add("qr old", lambda T, a: tuple(a.qr()), RECTANGLES)
for side in "LU":
    add(f"eigh-{side}", lambda T, a, s=side: signless_eigh(*T.linalg.eigh(a, s)), SYMMETRICS)
    add(f"eigvalsh-{side}", lambda T, a, s=side: T.linalg.eigvalsh(a, s), SYMMETRICS)
for full in (True, False):
    add(f"svd-{full}", lambda T, a, f=full: signless_svd(*T.linalg.svd(a, f)), RECTANGLES)
add("svd old", lambda T, a: (a.svd()[0].abs(), T.svd(a)[2].abs()), RECTANGLES)
add("svd values", lambda T, a: (T.linalg.svdvals(a), a.detach().svd(compute_uv=False)[0].sum()),
    RECTANGLES)
add("lu", lambda T, a: tuple(T.linalg.lu(a)), RECTANGLES)
add("lu factor", lambda T, a: tuple(T.linalg.lu_factor(a)), RECTANGLES)
add("lu old", lambda T, a: (*a.lu(), *T.lu_unpack(*T.lu(a)), *T.lu_unpack(*a.lu(), True, False)),
    RECTANGLES)
for options in ({"left": s, "adjoint": i} for s in (False, True) for i in (False, True)):
    add(f"lu_solve-{tuple(options.values())}",
        lambda T, a, b, o=options: T.linalg.lu_solve(*T.linalg.lu_factor(a), b, **o),
        {"3x3": square(3), "batch": square(3, 2)}, square(3, 2))
add("lu_solve old", lambda T, a, b: T.lu_solve(b, *T.lu(a)), {"3x3": square(3)}, matrix(3, 2))
for upper in (False, True):  # the factor is a triangle, and its gradient is read there
    add(f"cholesky_solve-{upper}", lambda T, a, b, u=upper: (
        b.cholesky_solve(T.linalg.cholesky(a, upper=u), u),
        T.cholesky_inverse(T.linalg.cholesky(a, upper=u), u)), {"3x3": positive(3)}, matrix(3, 2))
for options in ({}, {"rtol": 0.3}, {"atol": 0.5}, {"hermitian": True}):
    add(f"pinv-{options}", lambda T, a, o=options: T.linalg.pinv(a, **o),
        SYMMETRICS if options.get("hermitian") else {**RECTANGLES, "rank 2": low_rank(4, 3)})
    add(f"matrix_rank-{options}", lambda T, a, o=options: T.linalg.matrix_rank(a, **o),
        SYMMETRICS if options.get("hermitian") else {**RECTANGLES, "rank 2": low_rank(4, 3)})
add("pinverse", lambda T, a: a.pinverse(), {"tall": matrix(5, 3)})
for driver in (None, "gels", "gelsy", "gelsd", "gelss"):
    add(f"lstsq-{driver}", lambda T, a, b, d=driver: T.linalg.lstsq(a, b, driver=d)[:3],
        {"tall": matrix(2, 5, 3), "square": square(5, 2)}, matrix(2, 5, 2))
add("lstsq wide", lambda T, a, b: T.linalg.lstsq(a, b)[:3], {"wide": matrix(3, 5)}, matrix(3, 2))
add("lstsq rank", lambda T, a, b: T.linalg.lstsq(a, b, driver="gelsd"), {"2": low_rank(4, 3)},
    matrix(2, 4, 2))
add("lstsq of one matrix", lambda T, a, b: T.linalg.lstsq(a, b, driver="gelsd"),
    {"1": matrix(1, 4, 3)}, matrix(2, 4, 2))
for p in (None, 2, -2, "fro", "nuc", 1, -1, math.inf, -math.inf):
    add(f"cond-{p}", lambda T, a, p=p: T.linalg.cond(
        a if p in (None, 2, -2) else a.detach(), p), {"batch": square(3, 2)})  # (PyTorch fails)
for p in (2, -2, "nuc"):
    for keep in (False, True):
        add(f"matrix_norm-{p}-{keep}", lambda T, a, p=p, keep=keep: (
            T.linalg.matrix_norm(a, p, (0, 2), keep), T.linalg.norm(a[0], p)),
            {"3d": matrix(3, 2, 4)})
add("norm nuc", lambda T, a: (T.norm(a, "nuc"), a.norm("nuc", (1, 0), True), T.nuclear_norm(a)),
    {"tall": matrix(5, 3)})
add("matrix_exp", lambda T, a: (a.matrix_exp(), T.linalg.matrix_exp(a * 4)), SQUARES)
add("matrix_power", lambda T, a: (T.linalg.matrix_power(a, -2), a.matrix_power(-1)), SQUARES)
add("tensorinv", lambda T, a: T.linalg.tensorinv(a, ind=1), {"6": matrix(6, 2, 3)})
add("tensorsolve", lambda T, a, b: T.linalg.tensorsolve(a, b), {"6": matrix(2, 3, 6)}, matrix(2, 3))
add("tensorsolve dims", lambda T, a, b: T.linalg.tensorsolve(a, b, (0, 2)),
    {"24": matrix(6, 4, 4, 3, 2)}, matrix(4, 3, 2))
for name in ("cholesky_ex", "inv_ex", "lu_factor_ex"):
    add(name, lambda T, a, name=name: tuple(getattr(T.linalg, name)(a)), POSITIVES)
add("solve_ex", lambda T, a, b: tuple(T.linalg.solve_ex(a, b)), {"3x3": square(3)}, matrix(3, 2))
TALL = {"tall": matrix(5, 3), "square": square(3), "batch": matrix(2, 1, 4, 2),
        "column": matrix(3, 1), "3x0": matrix(3, 0), "0x0": square(0)}
for few in (False, True):  # with vectors and factors of no factorization, too
    add(f"householder_product-{few}", lambda T, a, few=few: (
        T.linalg.householder_product(a, a[..., :1, :a.shape[-1] - few].sum(-2) * 0.3),
        T.orgqr(a, a.sum(-2) * 0.3), a.orgqr(a.mean(-2))), {
            k: v for k, v in TALL.items() if v.shape[-1]} if few else TALL)
for options in ({"left": s, "transpose": i} for s in (False, True) for i in (False, True)):
    add(f"ormqr-{tuple(options.values())}", lambda T, a, b, o=options: (
        T.ormqr(a, a.sum(-2) * 0.3, b if o["left"] else b.mT, **o),
        (a * 0.5).ormqr(a.mean(-2), b if o["left"] else b.mT, **o)),
        {"5x3": matrix(5, 3), "5x5": matrix(5, 5)}, matrix(5, 2))
    add(f"ormqr of many-{tuple(options.values())}", lambda T, a, b, o=options: T.ormqr(
        a, a.sum(-2) * 0.3, b if o["left"] else b.mT, **o),
        {"batch": matrix(2, 4, 3)}, matrix(2, 4, 2))
add("geqrf", lambda T, a: (*T.geqrf(a.detach()), *a.detach().geqrf()), RECTANGLES)
HOLLOW = np.round(symmetric(7) * 2) * (1 - np.eye(7))
add("ldl_factor", lambda T, a: tuple(T.linalg.ldl_factor(a.detach())),
    {**SYMMETRICS, "hollow": HOLLOW, "large": symmetric(90), "not symmetric": matrix(4, 4)})
add("ldl_factor_ex", lambda T, a: tuple(T.linalg.ldl_factor_ex(a.detach())), {
    **SYMMETRICS, "zeros": np.zeros((3, 3)), "one of two": np.stack([np.eye(2), np.zeros((2, 2))])})
add("ldl_solve", lambda T, a, b: T.linalg.ldl_solve(*T.linalg.ldl_factor(a.detach()), b.detach()),
    {"7x7": symmetric(7), "batch": symmetric(7, 2, 1), "hollow": HOLLOW}, matrix(7, 3))
GRAM = positive(9, 2)


def of_low_rank(u: Any, s: Any, v: Any) -> Any:
    return s, (u * s.unsqueeze(-2)) @ v.mT


for q, niter in ((None, 2), (2, 0), (5, None)):  # (gradients of more columns than the rank are NaN)
    add(f"svd_lowrank-{q}-{niter}", lambda T, a, b, q=q, n=niter: of_low_rank(*T.svd_lowrank(
        (a @ b if q == 2 else (a @ b).detach()), q, n)), {
            "tall": matrix(8, 2), "wide": matrix(5, 2), "batch": matrix(2, 8, 2)}, matrix(2, 7))
add("svd_lowrank less M", lambda T, a, b: of_low_rank(*T.svd_lowrank(
    (a @ b + 3).detach(), 6, M=T.full((7,), 3.0, dtype=a.dtype))),
    {"tall": matrix(8, 2)}, matrix(2, 7))
for center in (True, False):
    add(f"pca_lowrank-{center}", lambda T, a, b, c=center: of_low_rank(*T.pca_lowrank(
        a @ b if not c else (a @ b + 1).detach(), 2 + c, center=c)),
        {"tall": matrix(8, 2), "batch": matrix(2, 8, 2)}, matrix(2, 7))
for options in ({"largest": s, "k": k, "n": 3} for s in (True, False) for k in (1, 3)):
    add(f"lobpcg-{tuple(options.values())}", lambda T, a, o=options: signless_eigh(
        *T.lobpcg(a @ a.mT / 9, tol=1e-12, **o)), {"9x9": square(9), "batch": square(9, 2)})
    add(f"lobpcg with B-{tuple(options.values())}", lambda T, a, b, o=options: signless_eigh(
        *T.lobpcg((a @ a.mT / 9).detach(), B=b.detach(), tol=1e-12, **o)),
        {"9x9": square(9)}, positive(9))
add("lobpcg from X", lambda T, a, x: signless_eigh(*T.lobpcg(
    a.detach(), X=x.detach(), iK=T.linalg.inv(a.detach()), tol=1e-12, largest=False)),
    {"9x9": positive(9)}, matrix(9, 2))


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are NumPy's anyway, and gradients of a hundred shapes take long to compile."""
    monkeypatch.setenv("DEVICE", "interpreter")


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def weighted(T: Any, results: list[Any]) -> Any:
    total: Any = 0
    for number, x in enumerate(results):
        if x.requires_grad:
            weight = np.random.default_rng(number).normal(size=tuple(x.shape))
            total = total + (x * T.tensor(weight, dtype=x.dtype)).sum()
    return total


def values_and_gradients(T: Any, name: str, kind: str) -> tuple[list[Any], list[Any]]:
    function, arrays = CASES[name]
    leaves = [T.tensor(a, dtype=getattr(T, kind)).requires_grad_() for a in arrays]
    results = listed(function(T, *leaves))
    total = weighted(T, results)
    if isinstance(total, int):
        return results, []
    total.backward()
    return results, [T.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def close(ours: list[Any], theirs: list[Any], rtol: float, atol: float) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype)[8:] == str(b.dtype)[6:]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol, atol)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    mine, theirs = (values_and_gradients(T, name, "float64") for T in (lt, torch))
    close(mine[0], theirs[0], 1e-8, 1e-10)
    close(mine[1], theirs[1], 1e-7, 1e-8)


@pytest.mark.parametrize("name", [n for n in CASES if n.endswith(("3x3", "tall", "wide"))])
def test_float32_stays_and_is_near(name: str) -> None:
    (mine, _), (theirs, _) = (values_and_gradients(T, name, "float32") for T in (lt, torch))
    close(mine, theirs, 2e-3, 2e-4)


SECOND = {
    "inv": (lambda T, a: T.linalg.inv(a), square(3)),
    "solve": (lambda T, a: T.linalg.solve(a, T.tensor(matrix(3, 2))), square(3)),
    "solve_triangular": (lambda T, a: T.linalg.solve_triangular(
        a, T.tensor(matrix(3, 2)), upper=True), square(3)),
    "cholesky": (lambda T, a: T.linalg.cholesky(a), positive(3)),
    "det": (lambda T, a: T.linalg.det(a), square(3)),
    "logdet": (lambda T, a: T.logdet(a), positive(3)),
    "eigh": (lambda T, a: signless_eigh(*T.linalg.eigh(a))[1], symmetric(3)),
    "eigvalsh": (lambda T, a: T.linalg.eigvalsh(a), symmetric(3)),
    "svd": (lambda T, a: signless_svd(*T.linalg.svd(a, False))[0], matrix(4, 3)),
    "qr": (lambda T, a: T.linalg.qr(a)[1].square(), matrix(4, 3)),
    "lu": (lambda T, a: T.linalg.lu_factor(a)[0], square(3)),
    "pinv": (lambda T, a: T.linalg.pinv(a), matrix(4, 3)),
    "matrix_exp": (lambda T, a: T.matrix_exp(a), matrix(3, 3)),
    "householder_product": (lambda T, a: T.linalg.householder_product(a, a.sum(-2)), matrix(4, 3)),
    "ormqr": (lambda T, a: T.ormqr(a, a.sum(-2), a * a), matrix(4, 3)),
    "lobpcg": (lambda T, a: signless_eigh(*T.lobpcg(a @ a.mT, 2, tol=1e-13))[1], matrix(7, 7)),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_gradients_are_pytorchs(name: str) -> None:
    function, array = SECOND[name]
    found = []
    for T in (lt, torch):
        x = T.tensor(array).requires_grad_()
        first, = T.autograd.grad(weighted(T, [function(T, x)]), [x], create_graph=True)
        found.append([first, T.autograd.grad(weighted(T, [first]), [x])[0]])
    close(*found, 1e-6, 1e-7)


BAD: dict[str, Callable[[Any], Any]] = {
    **{f"{name} of {kind}": lambda T, name=name, make=make: getattr(T.linalg, name)(make(T))
       for name in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "inv_ex")
       for kind, make in {"2x3": lambda T: T.ones(2, 3), "a vector": lambda T: T.ones(2),
                          "float16": lambda T: T.eye(2).half(),
                          "int64": lambda T: T.eye(2).long()}.items()},
    **{f"{name} of {kind}": lambda T, name=name, make=make: getattr(T.linalg, name)(make(T))
       for name in ("qr", "svd", "svdvals", "pinv", "lu", "lu_factor")
       for kind, make in {"a vector": lambda T: T.ones(2), "int64": lambda T: T.eye(2).long()}
       .items()},
    "inv of singular": lambda T: T.linalg.inv(T.zeros(2, 2)),
    "one of a batch": lambda T: T.linalg.inv(T.stack([T.eye(2), T.ones(2, 2)])),
    "solve of singular": lambda T: T.linalg.solve(T.ones(2, 2), T.ones(2, 1)),
    "inv_ex that checks": lambda T: T.linalg.inv_ex(T.zeros(2, 2), check_errors=True),
    "not positive definite": lambda T: T.linalg.cholesky(-T.eye(2)),
    "cholesky of NaN": lambda T: T.linalg.cholesky(T.full((2, 2), math.nan)),
    "svd of NaN": lambda T: T.linalg.svd(T.full((2, 2), math.nan)),
    "rows that do not fit": lambda T: T.linalg.solve(T.eye(3), T.ones(2, 2)),
    "columns that do not fit": lambda T: T.linalg.solve_triangular(
        T.eye(3), T.ones(2, 2), upper=True, left=False),
    "types that differ": lambda T: T.linalg.solve(T.eye(2), T.ones(2, 2).double()),
    "a mode": lambda T: T.linalg.qr(T.eye(2), "full"),
    "a side": lambda T: T.linalg.eigh(T.eye(2), "Q"),
    "a driver": lambda T: T.linalg.lstsq(T.eye(2), T.eye(2), driver="none"),
    "pivot": lambda T: T.linalg.lu(T.eye(2), pivot=False),
    "pivots of int64": lambda T: T.linalg.lu_solve(T.eye(2), T.tensor([1, 2]), T.eye(2)),
    "lstsq of rows": lambda T: T.linalg.lstsq(T.ones(3, 2), T.ones(2, 2)),
    "tensorinv": lambda T: T.linalg.tensorinv(T.ones(2, 3), ind=1),
    "tensorsolve": lambda T: T.linalg.tensorsolve(T.ones(2, 3), T.ones(2)),
    "more columns than rows": lambda T: T.linalg.householder_product(T.ones(2, 3), T.ones(2)),
    "more factors than columns": lambda T: T.linalg.householder_product(T.ones(3, 2), T.ones(3)),
    "factors of no batch": lambda T: T.linalg.householder_product(T.ones(2, 3, 2), T.ones(2)),
    "factors of float64": lambda T: T.orgqr(T.ones(3, 2), T.ones(2).double()),
    "ormqr of rows": lambda T: T.ormqr(T.ones(3, 2), T.ones(2), T.ones(2, 3)),
    "ormqr of columns": lambda T: T.ormqr(T.ones(3, 2), T.ones(2), T.ones(3, 2), False),
    "geqrf of a vector": lambda T: T.geqrf(T.ones(2)),
    "gradient of geqrf": lambda T: T.geqrf(T.eye(2).requires_grad_())[0].sum().backward(),
    "ldl of 2x3": lambda T: T.linalg.ldl_factor(T.ones(2, 3)),
    "gradient of ldl": lambda T: T.linalg.ldl_factor(T.eye(2).requires_grad_())[0].sum().backward(),
    "ldl_solve of rows": lambda T: T.linalg.ldl_solve(
        *T.linalg.ldl_factor(T.eye(2)), T.ones(3, 1)),
    "ldl_solve of a vector": lambda T: T.linalg.ldl_solve(
        *T.linalg.ldl_factor(T.eye(2)), T.ones(3, 1)),
    "pivots of one": lambda T: T.linalg.ldl_solve(
        T.eye(2), T.ones(1, dtype=T.int32), T.ones(2, 1)),
    "q above the rank": lambda T: T.pca_lowrank(T.ones(3, 2), 3),
    "niter below 0": lambda T: T.pca_lowrank(T.ones(3, 2), 1, niter=-1),
    "lobpcg of few rows": lambda T: T.lobpcg(T.eye(4), 2),
    "an order": lambda T: T.linalg.matrix_norm(T.eye(2), 3),
    "gradient of r": lambda T: T.linalg.qr(T.eye(2).requires_grad_(), "r")[1].sum().backward(),
    "gradient of complete": lambda T: T.linalg.qr(
        T.ones(3, 2).requires_grad_(), "complete")[1].sum().backward(),
}


@pytest.mark.parametrize("name", BAD)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)) as theirs:
        BAD[name](torch)
    with pytest.raises(lt.LazytenError) as ours:
        BAD[name](lt)
    failed = isinstance(theirs.value, torch.linalg.LinAlgError)
    assert failed == isinstance(ours.value, lt.linalg.LinAlgError)


def test_info_of_matrices_that_fail_is_pytorchs() -> None:
    given = np.stack([np.eye(3), np.diag([1.0, -1, 1]), np.zeros((3, 3)), matrix(3, 3)])
    for name in ("cholesky_ex", "inv_ex"):
        ours, theirs = (getattr(T.linalg, name)(T.tensor(given)) for T in (lt, torch))
        np.testing.assert_array_equal(ours.info.numpy(), theirs.info.numpy())
        np.testing.assert_allclose(ours[0][0].numpy(), theirs[0][0].numpy())
    ours, theirs = (T.linalg.lu_factor_ex(T.tensor(given)) for T in (lt, torch))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_results_have_pytorchs_names() -> None:
    a = np.eye(3)
    for name in ("eigh", "qr", "svd", "lu", "lu_factor", "lu_factor_ex", "cholesky_ex", "inv_ex",
                 "slogdet", "ldl_factor", "ldl_factor_ex"):
        theirs = getattr(torch.linalg, name)(torch.tensor(a))
        ours = getattr(lt.linalg, name)(lt.tensor(a))
        assert all(hasattr(theirs, field) for field in ours._fields) and len(ours) == len(theirs)
    for name in ("qr", "svd", "slogdet", "geqrf"):
        theirs, ours = getattr(torch, name)(torch.tensor(a)), getattr(lt, name)(lt.tensor(a))
        assert all(hasattr(theirs, field) for field in ours._fields)
    assert lt.linalg.lstsq(lt.eye(2), lt.eye(2))._fields == (
        "solution", "residuals", "rank", "singular_values")
