"""The functions of `lazyten`, and methods of tensors, whose names or arguments are others than
those of `lt.linalg`, as in PyTorch."""
from __future__ import annotations

from lazyten.frontend.tensor import Tensor
from lazyten.linalg import solving, spectra, triangles
from lazyten.linalg.host import takes_matrices
from lazyten.linalg.norms import matrix_norm
from lazyten.linalg.results import QR, LUFactor, LUFactorEx, OldSVD, TriangularSolve


@takes_matrices
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """See `linalg.cholesky`."""
    return triangles.cholesky(input, upper=upper)


@takes_matrices
def inverse(input: Tensor) -> Tensor:
    """See `linalg.inv`."""
    return solving.inv(input)


@takes_matrices
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """See `linalg.pinv`; rcond is its rtol."""
    return spectra.pinv(input, rtol=rcond)


@takes_matrices
def qr(input: Tensor, some: bool = True) -> QR:
    """See `linalg.qr`: reduced, or complete unless `some`."""
    return triangles.qr(input, "reduced" if some else "complete")


@takes_matrices
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> OldSVD:
    """U, S and V (not V^T, as `linalg.svd` gives); U and V are zeros unless `compute_uv`."""
    u, s, vh = spectra.svd(input, not some or not compute_uv)
    if not compute_uv:
        return OldSVD(u.new_zeros(u.shape), s, vh.new_zeros(vh.shape))
    return OldSVD(u, s, vh.mH)


@takes_matrices
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> LUFactor | LUFactorEx:
    """See `linalg.lu_factor`; get_infos: with 0 for each matrix, or which pivot is 0."""
    found = triangles.lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    return found if get_infos else LUFactor(*found[:2])


@takes_matrices
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """See `linalg.lu_solve`."""
    return triangles.lu_solve(LU_data, LU_pivots, b)


@takes_matrices
def triangular_solve(b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> TriangularSolve:
    """See `linalg.solve_triangular`; of A^T if `transpose`."""
    a = A.mT if transpose else A
    found = solving.solve_triangular(a, b, upper=upper is not transpose,
                                     unitriangular=unitriangular)
    return TriangularSolve(found, A.clone())


@takes_matrices
def nuclear_norm(input: Tensor, dim: tuple[int, int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of singular values."""
    return matrix_norm(input, "nuc", dim, keepdim)
