"""What functions give that give several tensors: tuples with PyTorch's names."""
from __future__ import annotations

from typing import NamedTuple

from lazyten.frontend.tensor import Tensor


class Eigh(NamedTuple):
    """A symmetric or Hermitian matrix is V diag(eigenvalues) V^H; these ascend."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Eig(NamedTuple):
    """A matrix is V diag(eigenvalues) V^-1, of complex numbers; columns of V have length 1."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """A matrix is Q R: columns of length 1 at right angles, and an upper triangle."""

    Q: Tensor
    R: Tensor


class Geqrf(NamedTuple):
    """R on and above the diagonal, the vectors of reflections below, and their factors."""

    a: Tensor
    tau: Tensor


class SVD(NamedTuple):
    """A matrix is U diag(S) Vh; S descends."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class OldSVD(NamedTuple):
    """A matrix is U diag(S) V^H."""

    U: Tensor
    S: Tensor
    V: Tensor


class LU(NamedTuple):
    """A matrix is P L U: a permutation, a lower triangle with a diagonal of 1, and an upper one."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """L below the diagonal and U on and above it; row i was exchanged with row pivots[i] - 1."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """As LUFactor. info: 0, or i where U[i - 1, i - 1] is 0."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LDLFactor(NamedTuple):
    """L below the diagonal, D on it, and where a block of D has two rows beside it; pivots as
    LAPACK's sytrf has them, from 1, negative in such a block."""

    LD: Tensor
    pivots: Tensor


class LDLFactorEx(NamedTuple):
    """As LDLFactor. info: 0, or i where D[i - 1, i - 1] is 0."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class CholeskyEx(NamedTuple):
    """info: 0, or i where the first i rows and columns are not positive definite."""

    L: Tensor
    info: Tensor


class InvEx(NamedTuple):
    """info: 0, or i where U[i - 1, i - 1] of the LU factors is 0."""

    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    """info: 0, or i where U[i - 1, i - 1] of the LU factors is 0."""

    result: Tensor
    info: Tensor


class Slogdet(NamedTuple):
    """A determinant is sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class Lstsq(NamedTuple):
    """What is not computed is empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class TriangularSolve(NamedTuple):
    """The solution, and a copy of the matrix."""

    solution: Tensor
    cloned_coefficient: Tensor
