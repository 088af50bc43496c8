"""Products of Householder's reflections: Q of a QR factorization.

As LAPACK keeps it: reflection i is 1 - tau[i] v v^H, where v has zeros above row i, 1 there, and
what a matrix has in column i below it. All of them multiplied are 1 - V T V^H (C. Bischof and C.
Van Loan, 1987), where T is (1 + diag(tau) triu(V^H V, 1))^-1 diag(tau) (T. Joffrain and others,
Accumulating Householder transformations, revisited, 2006): a few products of matrices, which have
gradients of all orders.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.functions import eye
from lazyten.frontend.tensor import Tensor
from lazyten.linalg import host
from lazyten.linalg.host import check_matrix, check_same_type, takes_matrices
from lazyten.linalg.results import Geqrf
from lazyten.linalg.solving import identity, solve_triangular
from lazyten.support.errors import GradientError, ShapeError


class _Reflections(Function):
    """LAPACK's geqrf, whose gradient is not there: that of Q and R is linalg.qr's."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        h, tau = np.linalg.qr(host.values_of(a, "geqrf"), "raw")
        return host.tensor_of(np.swapaxes(h, -1, -2), a), host.tensor_of(tau, a)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise GradientError("geqrf has no gradient; linalg.qr, which gives Q and R, has one")


@takes_matrices
def geqrf(input: Tensor) -> Geqrf:
    """R, and the reflections that Q is the product of, of matrices (..., m, n), as LAPACK keeps
    them: R on and above the diagonal of a matrix, their vectors below, and tau (..., min(m, n)).
    It has no gradient. (`lt.geqrf`.)"""
    check_matrix(input, "geqrf")
    return Geqrf(*_Reflections.apply(input))


def _checked(a: Tensor, tau: Tensor, operation: str) -> None:
    """ShapeError and DTypeError unless tau (..., k) fits a matrix (..., m, n) with k <= n <= m."""
    check_matrix(a, operation)
    check_same_type(a, tau, operation)
    m, n = a.shape[-2:]
    if tau.ndim != a.ndim - 1 or tau.shape[:-1] != a.shape[:-2]:
        raise ShapeError(f"{operation} of shapes {a.shape} and {tau.shape}: tau needs the axes "
                         f"{a.shape[:-2]} before its last, as the matrices have")
    if tau.shape[-1] > min(m, n):
        raise ShapeError(f"{operation} of shapes {a.shape} and {tau.shape}: {tau.shape[-1]} "
                         f"reflections need as many rows and columns, and there are {m} and {n}")


def _product(a: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """V and 1 + diag(tau) triu(V^H V, 1), of which all reflections multiplied are made."""
    m, k = a.shape[-2], tau.shape[-1]
    v = a[..., :k].tril(-1) + eye(m, k, dtype=a.dtype, device=a.device)
    return v, identity(a, k) + tau.unsqueeze(-1) * (v.mH @ v).triu(1)


@takes_matrices
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of reflections, whose vectors are below the diagonal of
    matrices (..., m, n) with n <= m; tau (..., k) with k <= n. `lt.orgqr` is the same."""
    name = "linalg.householder_product"
    _checked(A, tau, name)
    m, n = A.shape[-2:]
    if n > m:
        raise ShapeError(f"{name} of shape {A.shape}: {n} columns are more than {m} rows; the "
                         f"product has as many columns as rows")
    v, inner = _product(A, tau)
    right = solve_triangular(inner, tau.unsqueeze(-1) * v[..., :n, :].mH, upper=True,
                             unitriangular=True)
    return eye(m, n, dtype=A.dtype, device=A.device) - v @ right


@takes_matrices
@also_named(input2="tau")
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """See `linalg.householder_product`."""
    return householder_product(input, tau)


@takes_matrices
@also_named(input2="tau", input3="other")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
          ) -> Tensor:
    """Q @ other, or other @ Q unless `left`, where Q, (..., m, m), is the product of the
    reflections of `input` (..., m, k) and tau; Q^H if `transpose`. (`lt.ormqr`.)"""
    name = "ormqr"
    _checked(input, tau, name)
    check_matrix(other, name)
    check_same_type(input, other, name)
    if not left:
        return ormqr(input, tau, other.mH, True, not transpose).mH
    if other.shape[:-2] != input.shape[:-2] or other.shape[-2] != input.shape[-2]:
        raise ShapeError(f"{name} of shapes {input.shape} and {other.shape}: Q is of "
                         f"{input.shape[-2]} rows, which `other` needs as its rows, or as its "
                         f"columns with left=False, and the same axes before the last two")
    v, inner = _product(input, tau)
    scale, part = tau.unsqueeze(-1), v.mH @ other
    if transpose:
        return other - v @ (scale.conj() * solve_triangular(inner.mH, part, upper=False,
                                                     unitriangular=True))
    return other - v @ solve_triangular(inner, scale * part, upper=True, unitriangular=True)
