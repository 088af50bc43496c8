"""Some singular values, or eigenvalues, of large matrices: the largest, by random projections and
by iteration."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.functions import eye, where
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import randn
from lazyten.frontend.tensor import Tensor
from lazyten.linalg import host
from lazyten.linalg.host import Array, check_matrix, check_same_type, takes_matrices
from lazyten.linalg.solving import solve_triangular
from lazyten.linalg.spectra import eigh, svd
from lazyten.linalg.triangles import cholesky, qr
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError

# ---- by random projections -----------------------------------------------------------------------

def _basis(a: Tensor, q: int, times: int) -> Tensor:
    """q columns, or as many as there are rows, that span nearly what the columns of `a` do (N.
    Halko and others, Finding structure with randomness, 2009, algorithm 4.4)."""
    start = randn((a.shape[-1], q), dtype=a.dtype, device=a.device)
    found: Tensor = qr(a @ start).Q
    for _ in range(times):
        found = qr(a @ qr(a.mH @ found).Q).Q
    return found


def _count(number: int, operation: str, what: str) -> int:
    found = shapes.as_int(number, operation, what)
    if not 0 <= found < 1 << 31:
        raise ArgumentError(f"{operation}: {what}={found} is below 0, or more than can be done")
    return found


@takes_matrices
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
                ) -> tuple[Tensor, Tensor, Tensor]:
    """U (..., m, q), S (..., q) and V (..., n, q), nearly those of the q largest singular values of
    matrices A (..., m, n), or of A - M: exact where no more are above 0. By a random projection,
    which niter rounds make better. (`lt.svd_lowrank`.)"""
    name = "svd_lowrank"
    check_matrix(A, name)
    count = 6 if q is None else _count(q, name, "q")
    times = 2 if niter is None else _count(niter, name, "niter")
    if M is not None:
        check_same_type(A, M, name)
        A = A - M.broadcast_to(A.shape)
    a = A.mH if A.shape[-2] < A.shape[-1] else A
    columns = _basis(a, min(count, a.shape[-1]), times)
    u, s, vh = svd(columns.mH @ a, False)
    left, right = columns @ u, vh.mH
    return (left, s, right) if a is A else (right, s, left)


@takes_matrices
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
                ) -> tuple[Tensor, Tensor, Tensor]:
    """`svd_lowrank` of rows less their mean, unless `center` is False: the columns of V are
    principal directions, S^2 / (m - 1) the variances. q: min(6, m, n) unless given.
    (`lt.pca_lowrank`.)"""
    check_matrix(A, "pca_lowrank")
    least = min(A.shape[-2:])
    count = min(6, least) if q is None else _count(q, "pca_lowrank", "q")
    if count > least:
        raise ArgumentError(f"pca_lowrank of shape {A.shape}: q={count} is more than {least}, the "
                            f"lesser of its rows and columns")
    times = _count(niter, "pca_lowrank", "niter")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, times)


# ---- by iteration --------------------------------------------------------------------------------

class _Conjugate:
    """Eigenvectors of one symmetric matrix by A. Knyazev's method (Toward the optimal
    preconditioned eigensolver, 2001): each round takes the best of what the vectors, their
    residuals and the last change span, in an orthonormal basis of it."""

    def __init__(self, a: Array, x: Array, conditioner: Array | None, largest: bool) -> None:
        self.a, self.conditioner, self.sign = a, conditioner, -1 if largest else 1
        start = a @ x
        self.size = float(np.linalg.norm(start) / max(np.linalg.norm(x), np.finfo(a.dtype).tiny))
        self.changes = x[:, :0]
        self.take(np.linalg.qr(x)[0], x.shape[1])

    def take(self, basis: Array, count: int) -> None:
        """The best `count` vectors in a space, of which the first `count` are those of before."""
        values, mixed = np.linalg.eigh(self.sign * (basis.T @ self.a @ basis))
        mixed = mixed[:, :count]
        self.values, self.vectors = self.sign * values[:count], basis @ mixed
        self.changes = basis[:, count:] @ mixed[count:]
        self.residuals = self.a @ self.vectors - self.vectors * self.values

    def errors(self) -> Array:
        """Of each vector, its residual over what rounding is relative to."""
        scale: Array = self.size + np.abs(self.values)
        found: Array = np.linalg.norm(self.residuals, axis=0) / np.where(scale > 0, scale, 1)
        return found

    def step(self) -> bool:
        """A round; False if there is no direction to go."""
        more = self.residuals if self.conditioner is None else self.conditioner @ self.residuals
        outside = np.concatenate([more, self.changes], 1)
        outside = outside / np.maximum(np.linalg.norm(outside, axis=0), np.finfo(more.dtype).tiny)
        for _ in range(2):  # once leaves what rounding adds
            outside = outside - self.vectors @ (self.vectors.T @ outside)
        u, s, _ = np.linalg.svd(outside, full_matrices=False)
        u = u[:, s > 10 * len(u) * np.finfo(u.dtype).eps]
        if not u.shape[1]:
            return False
        u = np.linalg.qr(u - self.vectors @ (self.vectors.T @ u))[0]
        self.take(np.concatenate([self.vectors, u], 1), self.vectors.shape[1])
        return True


class _Extreme(Function):
    """Some eigenvalues d and vectors X of A: dd = diag(X^T dA X), and dX of all other vectors,
    divided by differences of eigenvalues, for which all of them are computed."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, start: Tensor, conditioner: Tensor | None, k: int,
                largest: bool, rounds: int, tolerance: float) -> Any:
        values, first = host.finite_values_of(a, "lobpcg"), host.values_of(start, "lobpcg")
        m, n = start.shape[-2:]
        inner = None if conditioner is None else np.broadcast_to(
            host.values_of(conditioner, "lobpcg"), values.shape).reshape(-1, m, m)
        found = []
        for number, (one, x) in enumerate(zip(values.reshape(-1, m, m), first.reshape(-1, m, n),
                                              strict=True)):
            work = _Conjugate(one, x, None if inner is None else inner[number], largest)
            left = rounds
            while left and (work.errors()[:k] >= tolerance).any() and work.step():
                left -= 1
            found.append((work.values[:k], work.vectors[:, :k]))
        batch = a.shape[:-2]
        eigenvalues, vectors = (
            host.tensor_of(np.array([f[i] for f in found], values.dtype).reshape(*batch, *size), a)
            for i, size in enumerate(((k,), (m, k))))
        ctx.largest = largest
        host.save(ctx, a, vectors)
        ctx.set_materialize_grads(False)
        return eigenvalues, vectors

    @staticmethod
    def backward(ctx: Any, of_values: Tensor | None, of_vectors: Tensor | None) -> Any:
        a, x = ctx.saved_tensors
        m, k = x.shape[-2:]
        values, v = eigh(a)
        if ctx.largest:
            values, v = values.flip(-1), v.flip(-1)
        mine = v[..., :k]
        own = eye(m, k, dtype=a.dtype, device=a.device).bool()
        inner = a.new_zeros(x.shape)
        if of_vectors is not None:
            signs = (mine.detach() * x.detach()).sum(-2, keepdim=True).sign()
            gaps = values[..., :k].unsqueeze(-2) - values.unsqueeze(-1)
            inner = where(own, 0.0, v.mT @ (of_vectors * signs) / where(own, 1.0, gaps))
        if of_values is not None:
            inner = where(own, of_values.unsqueeze(-2), inner)
        found = v @ inner @ mine.mT
        return (found + found.mT) / 2, *[None] * 6


def _start(A: Tensor, X: Tensor | None, n: int) -> Tensor:
    """The vectors that iteration starts from. ShapeError where they do not fit."""
    m = A.shape[-1]
    if m < 3 * n:
        raise ArgumentError(f"lobpcg of shape {A.shape}: {n} vectors need {3 * n} rows or more; "
                            f"linalg.eigh gives all eigenvalues of a small matrix")
    if X is None:
        return randn((*A.shape[:-2], m, n), dtype=A.dtype, device=A.device)
    check_same_type(A, X, "lobpcg")
    if X.shape[:-1] != A.shape[:-1]:
        raise ShapeError(f"lobpcg of shapes {A.shape} and {X.shape}: X needs the shape "
                         f"{(*A.shape[:-1], n)}, a column a vector")
    return X.detach()


@checks_tensors
def lobpcg(A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None,
           n: int | None = None, iK: Tensor | None = None, niter: int | None = None,
           tol: float | None = None, largest: bool | None = None, method: str | None = None,
           tracker: None = None, ortho_iparams: dict[str, int] | None = None,
           ortho_fparams: dict[str, float] | None = None,
           ortho_bparams: dict[str, bool] | None = None) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues (..., k), descending, and vectors (..., m, k) of symmetric matrices
    (..., m, m); the smallest, ascending, with largest=False. With a positive definite B those of
    A x = value * B x. (`lt.lobpcg`.)

    X (..., m, n): what iteration starts from, random unless given; n of k or more is the number of
    vectors in it. iK: approximates the inverse of A. Up to niter rounds (1000; -1: no limit), until
    residuals are below tol (the root of eps). Gradients need all eigenvalues. method and the
    parameters of PyTorch's 'ortho' are checked and not needed: bases are orthonormal here.
    """
    name = "lobpcg"
    check_matrix(A, name, square=True)
    if method not in (None, "basic", "ortho") or tracker is not None:
        raise ArgumentError(f"{name}: method={method!r} must be 'basic' or 'ortho', and a tracker "
                            f"is not there; leave both out")
    usual = 1 if X is None else X.shape[-1]
    wanted = usual if k is None else shapes.as_int(k, name, "k")
    count = X.shape[-1] if X is not None else \
        wanted if n is None else shapes.as_int(n, name, "n")
    if not 1 <= wanted <= count:
        raise ArgumentError(f"{name}: k={wanted} eigenvalues of {count} vectors: k must be 1 or "
                            f"more, and no more than n, or than the columns of X")
    start = _start(A, X, count)
    rounds = 1000 if niter is None else shapes.as_int(niter, name, "niter")
    tolerance = math.sqrt(finfo(A.dtype).eps) if tol is None else \
        float(shapes.as_number(tol, name, "tol"))
    options = wanted, largest is not False, rounds, tolerance
    if B is None:
        values, vectors = _Extreme.apply((A + A.mT) / 2, start, iK, *options)
        return values, vectors
    check_same_type(A, B, name)
    if B.shape != A.shape:
        raise ShapeError(f"{name} of shapes {A.shape} and {B.shape}: A and B must have one shape")
    lower = cholesky((B + B.mT) / 2)  # with B = L L^T it is L^-1 A L^-T, whose vectors are L^T x
    inner = solve_triangular(lower, solve_triangular(lower, (A + A.mT) / 2, upper=False).mT,
                             upper=False)
    conditioner = None if iK is None else (lower.mT @ iK @ lower).detach()
    values, vectors = _Extreme.apply((inner + inner.mT) / 2, (lower.mT @ start).detach(),
                                     conditioner, *options)
    return values, solve_triangular(lower.mT, vectors, upper=True)
