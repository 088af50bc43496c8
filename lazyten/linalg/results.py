"""What functions give that give several tensors: tuples with PyTorch's names, `lt.return_types`."""
from __future__ import annotations

from typing import NamedTuple

from lazyten.frontend.core.functions import RETURNED, returned_by
from lazyten.frontend.tensor import Tensor


@returned_by("linalg_eigh")
class Eigh(NamedTuple):
    """A symmetric or Hermitian matrix is V diag(eigenvalues) V^H; these ascend."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@returned_by("linalg_eig")
class Eig(NamedTuple):
    """A matrix is V diag(eigenvalues) V^-1, of complex numbers; columns of V have length 1."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@returned_by("linalg_qr")
class QR(NamedTuple):
    """A matrix is Q R: columns of length 1 at right angles, and an upper triangle."""

    Q: Tensor
    R: Tensor


@returned_by("geqrf")
class Geqrf(NamedTuple):
    """R on and above the diagonal, the vectors of reflections below, and their factors."""

    a: Tensor
    tau: Tensor


@returned_by("linalg_svd")
class SVD(NamedTuple):
    """A matrix is U diag(S) Vh; S descends."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@returned_by("svd")
class OldSVD(NamedTuple):
    """A matrix is U diag(S) V^H."""

    U: Tensor
    S: Tensor
    V: Tensor


@returned_by("linalg_lu")
class LU(NamedTuple):
    """A matrix is P L U: a permutation, a lower triangle with a diagonal of 1, and an upper one."""

    P: Tensor
    L: Tensor
    U: Tensor


@returned_by("linalg_lu_factor")
class LUFactor(NamedTuple):
    """L below the diagonal and U on and above it; row i was exchanged with row pivots[i] - 1."""

    LU: Tensor
    pivots: Tensor


@returned_by("linalg_lu_factor_ex")
class LUFactorEx(NamedTuple):
    """As LUFactor. info: 0, or i where U[i - 1, i - 1] is 0."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


@returned_by("linalg_ldl_factor")
class LDLFactor(NamedTuple):
    """L below the diagonal, D on it, and where a block of D has two rows beside it; pivots as
    LAPACK's sytrf has them, from 1, negative in such a block."""

    LD: Tensor
    pivots: Tensor


@returned_by("linalg_ldl_factor_ex")
class LDLFactorEx(NamedTuple):
    """As LDLFactor. info: 0, or i where D[i - 1, i - 1] is 0."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


@returned_by("linalg_cholesky_ex")
class CholeskyEx(NamedTuple):
    """info: 0, or i where the first i rows and columns are not positive definite."""

    L: Tensor
    info: Tensor


@returned_by("linalg_inv_ex")
class InvEx(NamedTuple):
    """info: 0, or i where U[i - 1, i - 1] of the LU factors is 0."""

    inverse: Tensor
    info: Tensor


@returned_by("linalg_solve_ex")
class SolveEx(NamedTuple):
    """info: 0, or i where U[i - 1, i - 1] of the LU factors is 0."""

    result: Tensor
    info: Tensor


@returned_by("linalg_slogdet")
class Slogdet(NamedTuple):
    """A determinant is sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


@returned_by("linalg_lstsq")
class Lstsq(NamedTuple):
    """What is not computed is empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@returned_by("triangular_solve")
class TriangularSolve(NamedTuple):
    """The solution, and a copy of the matrix."""

    solution: Tensor
    cloned_coefficient: Tensor


RETURNED.update(lu_unpack=LU, qr=QR, slogdet=Slogdet)
globals().update(RETURNED)
__all__ = list(RETURNED)
