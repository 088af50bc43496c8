"""Factors that are triangles: Cholesky's, LU and QR; and what solves with them."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.functions import cat, eye
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.linalg import host
from lazyten.linalg.host import adjoint, check_matrix, check_same_type, takes_matrices
from lazyten.linalg.results import LU, QR, CholeskyEx, LUFactor, LUFactorEx
from lazyten.linalg.solving import SINGULAR, identity, solve_triangular
from lazyten.support.errors import ArgumentError, DTypeError, GradientError

NOT_POSITIVE = ("the matrix is not positive definite: its first {} rows and columns are not; add a "
                "multiple of the identity, or take cholesky_ex, which tells instead")


NO_FACTOR = ("number {} on the diagonal is 0, so what the factor is of is singular, and has no "
             "inverse; pinv takes such matrices")


class _Cholesky(Function):
    """L L^H = A gives dA -> L phi(L^-1 dA L^-H), where phi takes the lower triangle and half of the
    diagonal (I. Murray, Differentiation of the Cholesky decomposition, 2016); the gradient is
    Hermitian. upper: the upper triangle of A is read; L is the same."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, upper: bool, checks: bool, operation: str) -> Any:
        values = host.values_of(a, operation)
        values = adjoint(values) if upper else values
        info = np.zeros(values.shape[:-2], np.int32)
        try:
            factor = np.linalg.cholesky(values)  # which reads the lower triangle alone
            failed = not np.isfinite(factor).all()
        except np.linalg.LinAlgError:
            failed = True
        if failed:
            values = np.tril(values)
            values = values + adjoint(np.tril(values, -1))
            info = host.first_not_positive(values)
            if checks:
                host.refuse_failed(info, operation, NOT_POSITIVE)
            bad = info[..., None, None] != 0
            safe = np.where(bad, np.eye(values.shape[-1], dtype=values.dtype), values)
            factor = np.where(bad, np.nan, np.linalg.cholesky(safe)).astype(values.dtype)
        result = host.tensor_of(factor, a)
        host.save(ctx, result)
        return result, host.info_of(info, a)

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Any:
        (lower,) = ctx.saved_tensors
        inverse = solve_triangular(lower, identity(lower, lower.shape[-1]), upper=False)
        inner = (lower.mH @ g).tril()
        inner = (inner + inner.tril(-1).mH) / 2
        return inverse.mH @ inner @ inverse, None, None, None


@takes_matrices
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L, lower triangular, of which L L^H is A, or its adjoint if `upper`; of A the triangle of
    that side is read. LinAlgError for what is not positive definite."""
    return _factor(A, upper, True, "linalg.cholesky")[0]


@takes_matrices
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """`cholesky`, and for each matrix 0, or how many rows are not positive definite; its factor is
    NaN then."""
    return CholeskyEx(*_factor(A, upper, check_errors, "linalg.cholesky_ex"))


def _factor(A: Tensor, upper: bool, checks: bool, operation: str) -> tuple[Tensor, Tensor]:
    check_matrix(A, operation, square=True)
    lower, info = _Cholesky.apply(A, upper, checks, operation)
    return lower.mH if upper else lower, info


@takes_matrices
@also_named(input2="L")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X of which L L^H X is B, or L^H L X if L is upper triangular. (`lt.cholesky_solve`.)"""
    check_matrix(B, "cholesky_solve")
    check_matrix(L, "cholesky_solve", square=True)
    lower = L.mH if upper else L
    return solve_triangular(lower.mH, solve_triangular(lower, B, upper=False), upper=True)


@takes_matrices
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L L^H, or of L^H L if L is upper triangular. LinAlgError if a number on the
    diagonal is 0. (`lt.cholesky_inverse`.)"""
    check_matrix(L, "cholesky_inverse", square=True)
    diagonal = host.all_values_of(L.diagonal(0, -2, -1), "cholesky_inverse")
    host.refuse_failed(host.first_zero(diagonal), "cholesky_inverse", NO_FACTOR)
    return cholesky_solve(identity(L, L.shape[-1]), L, upper)


class _LU(Function):
    """P L U = A: of square blocks dL = L tril(L^-1 P^T dA U^-1, -1) and dU with its triu; what is
    beside or below the square block follows (P. Seeger et al., Auto-differentiating linear algebra,
    2017)."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, operation: str) -> Any:
        packed, pivots, info = host.eliminated(host.values_of(a, operation))
        m, n = packed.shape[-2:]
        k = min(m, n)
        lower = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=packed.dtype)
        p = host.tensor_of(host.permutation(pivots, m).astype(packed.dtype), a)
        left, right = host.tensor_of(lower, a), host.tensor_of(np.triu(packed[..., :k, :]), a)
        host.save(ctx, p, left, right)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(p)
        return p, left, right, host.tensor_of(pivots, a), host.info_of(info, a)

    @staticmethod
    def backward(ctx: Any, _: Any, of_l: Tensor | None, of_u: Tensor | None, *__: Any) -> Any:
        p, lower, upper = ctx.saved_tensors
        of_l = lower.new_zeros(lower.shape) if of_l is None else of_l
        of_u = upper.new_zeros(upper.shape) if of_u is None else of_u
        k = lower.shape[-1]
        l1, u1 = lower[..., :k, :], upper[..., :k]
        l2, of_l2, u2, of_u2 = lower[..., k:, :], of_l[..., k:, :], upper[..., k:], of_u[..., k:]
        below = l1.mH @ of_l[..., :k, :]
        above = of_u[..., :k] @ u1.mH
        if u2.shape[-1]:
            below = below - of_u2 @ u2.mH
        if l2.shape[-2]:
            above = above - l2.mH @ of_l2
        inner = _divided(l1.mH, below.tril(-1) + above.triu())
        found = solve_triangular(u1.mH, inner, upper=False, left=False)
        if u2.shape[-1]:
            found = cat([found, _divided(l1.mH, of_u2)], -1)
        if l2.shape[-2]:
            found = cat([found, solve_triangular(u1.mH, of_l2, upper=False, left=False)], -2)
        return p @ found, None


def _divided(l1: Tensor, b: Tensor) -> Tensor:
    """L^-H b, of L^H with a diagonal of 1."""
    return solve_triangular(l1, b, upper=True, unitriangular=True)


def _pivoted(A: Tensor, pivot: bool, operation: str) -> Any:
    check_matrix(A, operation)
    if not pivot:
        raise ArgumentError(f"{operation}: pivot=False is not there, as on PyTorch's CPU; leave it "
                            f"out")
    return _LU.apply(A, operation)


@takes_matrices
def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """P, L and U of (..., m, n): of shapes (m, m), (m, k) and (k, n), k the lesser of m and n."""
    return LU(*_pivoted(A, pivot, "linalg.lu")[:3])


@takes_matrices
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """L and U in one matrix, the rows exchanged, from 1 (int32), and 0 or which pivot is 0."""
    _, left, right, pivots, info = _pivoted(A, pivot, "linalg.lu_factor")
    if check_errors:
        name = "linalg.lu_factor"
        host.refuse_failed(host.all_values_of(info, name), name, SINGULAR)
    (m, k), n = left.shape[-2:], right.shape[-1]
    below, above = left.tril(-1), right
    if n > k:
        below = cat([below, A.new_zeros((*A.shape[:-1], n - k))], -1)
    if m > k:
        above = cat([above, A.new_zeros((*A.shape[:-2], m - k, n))], -2)
    return LUFactorEx(below + above, pivots, info)


@takes_matrices
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """L and U in one matrix, and the rows exchanged, from 1 (int32). LinAlgError for a singular
    matrix, which lu_solve() could not take."""
    return LUFactor(*lu_factor_ex(A, pivot=pivot, check_errors=True)[:2])


class _Permutation(Function):
    """P of P L U, of pivots."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, pivots: Tensor, rows: int, dtype: DType) -> Any:
        found = host.permutation(host.values_of(pivots, "lu_unpack"), rows)
        return host.tensor_of(found.astype(dtype.numpy), pivots)


@takes_matrices
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True,
              unpack_pivots: bool = True) -> LU:
    """P, L and U of what `lu_factor` gives; empty what is not asked for. (`lt.lu_unpack`.)"""
    name = "lu_unpack"
    check_matrix(LU_data, name)
    if LU_pivots.dtype.name != "int32":
        raise DTypeError(f"{name}: pivots of {LU_pivots.dtype.name} must be int32, from 1, as "
                         f"lu_factor gives them")
    empty = LU_data.detach().new_empty((0,))
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    p, left, right = empty, empty, empty
    if unpack_pivots:
        p = _Permutation.apply(LU_pivots, m, LU_data.dtype)
    if unpack_data:
        one = eye(m, k, dtype=LU_data.dtype, device=LU_data.device)
        left, right = LU_data[..., :k].tril(-1) + one, LU_data[..., :k, :].triu()
    return LU(p, left, right)


@takes_matrices
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True,
             adjoint: bool = False) -> Tensor:
    """X of which A X is B for A that `lu_factor` was given, or X A unless `left`; for A^H if
    `adjoint`."""
    check_matrix(LU, "linalg.lu_solve", square=True)
    check_same_type(LU, B, "linalg.lu_solve")
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    p, _, _ = lu_unpack(LU, pivots, unpack_data=False)
    if adjoint:
        inner = solve_triangular(LU.mH, B, upper=False)
        return p @ solve_triangular(LU.mH, inner, upper=True, unitriangular=True)
    inner = solve_triangular(LU, p.mT @ B, upper=False, unitriangular=True)
    return solve_triangular(LU, inner, upper=True)


class _QR(Function):
    """Q R = A: gradient (gQ + Q copyltu(R gR^H - gQ^H Q)) R^-H of a square R, where copyltu has the
    lower triangle on both sides; a wide matrix is its square part, of which R's rest follows
    (S. Walter, L. Lehmann, 2010)."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, mode: str) -> Any:
        values = host.values_of(a, "linalg.qr")
        ctx.refused = mode == "r" or mode == "complete" and a.shape[-2] > a.shape[-1]
        ctx.mode = mode
        ctx.set_materialize_grads(False)
        if mode == "r":
            r = host.tensor_of(np.linalg.qr(values, "r"), a)
            return r[..., :0, :0].reshape(0), r
        q, r = (host.tensor_of(x, a) for x in np.linalg.qr(
            values, "complete" if mode == "complete" else "reduced"))
        host.save(ctx, q, r)
        return q, r

    @staticmethod
    def backward(ctx: Any, of_q: Tensor | None, of_r: Tensor | None) -> Any:
        if ctx.refused:
            raise GradientError(f"linalg.qr with mode={ctx.mode!r} has no gradient; take "
                                f"mode='reduced'")
        q, r = ctx.saved_tensors
        m, n = q.shape[-2], r.shape[-1]
        square, of_rest = r[..., :m], None
        of_q = q.new_zeros(q.shape) if of_q is None else of_q
        of_r = r.new_zeros(r.shape) if of_r is None else of_r
        if n > m:
            of_rest, of_r = of_r[..., m:], of_r[..., :m]
            of_q = of_q + q @ (r[..., m:] @ of_rest.mH)
        inner = _mirrored(square @ of_r.mH - of_q.mH @ q)
        found = solve_triangular(square.mH, of_q + q @ inner, upper=False, left=False)
        return found if of_rest is None else cat([found, q @ of_rest], -1), None


def _mirrored(x: Tensor) -> Tensor:
    """The Hermitian matrix with the lower triangle of x, and the real part of its diagonal."""
    lower = x.tril()
    both = lower + lower.mH
    return both - both.triu().tril() / 2


@takes_matrices
def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q of (..., m, k) and R of (..., k, n), k the lesser of m and n, for matrices (..., m, n).

    mode: 'reduced'; 'complete' for k = m; 'r' for R alone, with an empty Q and no gradient.
    """
    check_matrix(A, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"linalg.qr: mode={mode!r} is not one of 'reduced', 'complete', 'r'")
    return QR(*_QR.apply(A, mode))
