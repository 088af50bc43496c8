"""Inverses, solutions and determinants."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.complexes.making import complex
from lazyten.frontend.functions import eye, where
from lazyten.frontend.tensor import Tensor
from lazyten.linalg import host
from lazyten.linalg.host import Array, BatchedError, check_matrix, check_same_type, takes_matrices
from lazyten.linalg.results import InvEx, Slogdet, SolveEx
from lazyten.support.errors import GradientError, ShapeError

SINGULAR = ("the matrix is singular: number {} on the diagonal of its LU factors is 0; pinv and "
            "lstsq take such matrices")


def identity(like: Tensor, n: int) -> Tensor:
    """The identity of n rows for each matrix of a batch."""
    return eye(n, dtype=like.dtype, device=like.device).expand(*like.shape[:-2], n, n)


def _solved(a: Array, b: Array, checks: bool, operation: str) -> tuple[Array, Array]:
    """a^-1 b, and `info`: zeros, or for a singular matrix which pivot is 0; NaN is there then."""
    none = np.zeros(a.shape[:-2], np.int32)
    try:
        return np.linalg.solve(a, b), none
    except np.linalg.LinAlgError:
        info = host.first_singular(a)
        info[(info == 0) & (np.linalg.det(a) == 0)] = a.shape[-1]
    if checks:
        host.refuse_failed(info if info.any() else none + a.shape[-1], operation, SINGULAR)
    safe = np.where(info[..., None, None] != 0, np.eye(a.shape[-1], dtype=a.dtype), a)
    bad = np.broadcast_to(info[..., None, None] != 0, (*info.shape, 1, 1))
    return np.where(bad, np.nan, np.linalg.solve(safe, b)).astype(a.dtype), info


class _Inverse(Function):
    """d(A^-1) = -A^-1 dA A^-1."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, checks: bool, operation: str) -> Any:
        given = host.values_of(a, operation)
        one = np.broadcast_to(np.eye(given.shape[-1], dtype=given.dtype), given.shape)
        values, info = _solved(given, one, checks, operation)
        result = host.tensor_of(values, a)
        host.save(ctx, result)
        return result, host.info_of(info, a)

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Any:
        (x,) = ctx.saved_tensors
        return -(x.mH @ g @ x.mH), None, None


class _Solve(Function):
    """d(A^-1 B) = A^-1 (dB - dA X). Of matrices with the same axes before the last two."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, checks: bool, operation: str) -> Any:
        x, info = _solved(host.values_of(a, operation), host.values_of(b, operation), checks,
                          operation)
        result = host.tensor_of(x, a)
        host.save(ctx, a, result)
        return result, host.info_of(info, a)

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Any:
        a, x = ctx.saved_tensors
        of_b = solve(a.mH, g)
        return -(of_b @ x.mH), of_b, None, None


class _Triangular(Function):
    """As _Solve, for a triangle: the gradient of the rest of the matrix is 0."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, upper: bool, unit: bool) -> Any:
        name = "linalg.solve_triangular"
        x = host.substituted(host.values_of(a, name), host.values_of(b, name), upper, unit)
        result = host.tensor_of(x, a)
        ctx.how = upper, unit
        host.save(ctx, a, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, x = ctx.saved_tensors
        upper, unit = ctx.how
        of_b = solve_triangular(a.mH, g, upper=not upper, unitriangular=unit)
        whole = -(of_b @ x.mH)
        return whole.triu(int(unit)) if upper else whole.tril(-int(unit)), of_b, None, None


class _Determinant(Function):
    """d det A = det A tr(A^-1 dA); where A is singular, of its cofactors."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        values = host.values_of(a, "linalg.det")
        with np.errstate(all="ignore"):
            result = host.tensor_of(np.asarray(np.linalg.det(values), values.dtype), a)
        host.save(ctx, a, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, determinant = ctx.saved_tensors
        if (host.all_values_of(determinant, "linalg.det") == 0).any():
            return g[..., None, None] * _Cofactors.apply(a)
        return (g * determinant.conj())[..., None, None] * inv(a).mH


class _Cofactors(Function):
    """The conjugate of det(A) times A^-H, without a division: A = U S V^H gives the conjugate of
    det(U V^H) times U C V^H, where C has the products of all singular values but one."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        u, s, vh = np.linalg.svd(host.values_of(a, "linalg.det"))
        n = s.shape[-1]
        others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1).astype(s.dtype)
        sign = (np.linalg.det(u) * np.linalg.det(vh)).conj()[..., None, None]
        return host.tensor_of((sign * (u * others[..., None, :]) @ vh).astype(u.dtype), a)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        raise GradientError("det of a singular matrix has no second derivative here: its gradient "
                            "is of cofactors, which are not differentiated")


class _LogDeterminant(Function):
    """d log det A = tr(A^-1 dA): its real part is that of the logarithm, its imaginary part of the
    angle of a complex determinant."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        values = host.values_of(a, "linalg.slogdet")
        with np.errstate(all="ignore"):
            sign, log = np.linalg.slogdet(values)
        signs = host.tensor_of(np.asarray(sign, values.dtype), a)
        if not signs.is_complex():
            ctx.mark_non_differentiable(signs)
        host.save(ctx, a, signs)
        return signs, host.tensor_of(np.asarray(log, values.real.dtype), a)

    @staticmethod
    def backward(ctx: Any, of_sign: Tensor, g: Tensor) -> Any:
        a, sign = ctx.saved_tensors
        if sign.is_complex():
            g = complex(g, -(of_sign.conj() * sign).imag)
        return g[..., None, None] * inv(a).mH


@takes_matrices
def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices (..., n, n). LinAlgError for a singular one."""
    check_matrix(A, "linalg.inv", square=True)
    result: Tensor = _Inverse.apply(A, True, "linalg.inv")[0]
    return result


@takes_matrices
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:
    """`inv`, and for each matrix 0, or which pivot was 0; the inverse is NaN then."""
    check_matrix(A, "linalg.inv_ex", square=True)
    return InvEx(*_Inverse.apply(A, check_errors, "linalg.inv_ex"))


@takes_matrices
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of which A X is B, or X A unless `left`: (..., n, n) and (..., n, k), or (..., n).

    Axes before the matrices broadcast. LinAlgError for a singular matrix.
    """
    result: Tensor = _solution(A, B, left, True, "linalg.solve")[0]
    return result


@takes_matrices
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """`solve`, and for each matrix 0, or which pivot was 0; the solution is NaN then."""
    return SolveEx(*_solution(A, B, left, check_errors, "linalg.solve_ex"))


def _solution(A: Tensor, B: Tensor, left: bool, checks: bool, operation: str) -> Any:
    check_matrix(A, operation, square=True)
    check_same_type(A, B, operation)
    if B.ndim == 1 or A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]:
        if not left:
            raise ShapeError(f"{operation}: a vector is solved for with left=True alone; give B "
                             f"with 2 axes")
        x, info = _solution(A, B.unsqueeze(-1), True, checks, operation)
        return x.squeeze(-1), info
    if not left:
        x, info = _solution(A.mT, B.mT, True, checks, operation)
        return x.mT, info
    a, b = _together(A, B, True, operation)
    if not host.is_one_for_many(A, B):
        try:
            return _Solve.apply(a, b, checks, operation)
        except BatchedError:  # B is another for each row of a Jacobian
            pass
    inverse, info = _Inverse.apply(A, checks, operation)
    return inverse @ B, info


def _together(A: Tensor, B: Tensor, left: bool, operation: str) -> tuple[Tensor, Tensor]:
    """Both with the same axes before the last two. ShapeError where they do not fit."""
    if B.ndim < 2 or A.shape[-1] != B.shape[-2 if left else -1]:
        raise ShapeError(f"{operation} of shapes {A.shape} and {B.shape}: the matrix of n rows and "
                         f"columns, {A.shape[-1]}, needs as many {'rows' if left else 'columns'} "
                         f"of B")
    if A.shape[:-2] == B.shape[:-2]:
        return A, B
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    return A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])


@takes_matrices
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True,
                     unitriangular: bool = False) -> Tensor:
    """X of which A X is B, or X A unless `left`, for a triangle A: the other one is not read, nor
    the diagonal if `unitriangular` says that it is 1. Infinite where the diagonal has a 0."""
    name = "linalg.solve_triangular"
    check_matrix(A, name, square=True)
    check_same_type(A, B, name)
    if not left:
        _together(A, B, False, name)
        return solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    a, b = _together(A, B, True, name)
    if not host.is_one_for_many(A, B):
        try:
            result: Tensor = _Triangular.apply(a, b, upper, unitriangular)
            return result
        except BatchedError:  # B is another for each row of a Jacobian
            pass
    found: Tensor = _Triangular.apply(A, identity(A, A.shape[-1]), upper, unitriangular) @ B
    return found


@takes_matrices
def det(A: Tensor) -> Tensor:
    """The determinants of square matrices. A singular one has a gradient, and no second one."""
    check_matrix(A, "linalg.det", square=True)
    result: Tensor = _Determinant.apply(A)
    return result


@takes_matrices
def slogdet(A: Tensor) -> Slogdet:
    """The sign and the logarithm of the absolute value of determinants; 0 and -inf for singular
    matrices, whose gradient is a LinAlgError."""
    check_matrix(A, "linalg.slogdet", square=True)
    return Slogdet(*_LogDeterminant.apply(A))


@takes_matrices
def logdet(input: Tensor) -> Tensor:
    """The logarithm of determinants: NaN of negative ones, -inf of 0; of complex ones with the
    angle as its imaginary part. (`lt.logdet`.)"""
    sign, logarithm = slogdet(input)
    if sign.is_complex():
        return complex(logarithm, sign.angle())
    result: Tensor = where(sign < 0, logarithm.new_full((), float("nan")), logarithm)
    return result
