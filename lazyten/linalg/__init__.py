"""`lt.linalg`: norms, products and factorizations of matrices, under PyTorch's names.

In and out: tensors (..., m, n). NumPy computes the values of a factorization on the host, in
float32 or float64; its gradient is made of operations of tensors, with the factors themselves in
it, so it fuses and can be differentiated again. lt.jit goes on in Python where values are asked
for; under vmap it computes the values of all examples. Matrices may be complex: mH of a
real one is its transpose, so one formula is for both.

Files, in reading order:

- host.py: Matrices to NumPy and back: what they must be, and what NumPy lacks.
- results.py: What functions give that give several tensors: tuples with PyTorch's names.
- solving.py: Inverses, solutions and determinants.
- triangles.py: Factors that are triangles: Cholesky's, LU and QR; and what solves with them.
- reflections.py: Products of Householder's reflections: Q of a QR factorization.
- indefinite.py: Symmetric matrices that need not be positive: L D L^T.
- spectra.py: Eigenvalues and singular values; pseudoinverses, ranks, least squares.
- eigenvalues.py: Eigenvalues of any square matrices: complex numbers.
- partial.py: Some singular values, or eigenvalues, of large matrices.
- powers.py: Powers and exponentials of matrices, and of tensors that stand for matrices.
- norms.py: Norms of vectors and matrices, and condition numbers.
- products.py: Products of vectors and matrices.
- older.py: Functions of `lazyten` and methods of tensors with other names or arguments.
"""
from __future__ import annotations

from lazyten.frontend.arguments import name_functions
from lazyten.linalg.eigenvalues import eig, eigvals
from lazyten.linalg.indefinite import ldl_factor, ldl_factor_ex, ldl_solve
from lazyten.linalg.norms import cond, matrix_norm, norm, vector_norm
from lazyten.linalg.powers import matrix_exp, matrix_power, tensorinv, tensorsolve
from lazyten.linalg.products import cross, diagonal, matmul, multi_dot, vander, vecdot
from lazyten.linalg.reflections import householder_product
from lazyten.linalg.solving import det, inv, inv_ex, slogdet, solve, solve_ex, solve_triangular
from lazyten.linalg.spectra import eigh, eigvalsh, lstsq, matrix_rank, pinv, svd, svdvals
from lazyten.linalg.triangles import (
    cholesky,
    cholesky_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
)
from lazyten.support.errors import LinAlgError

__all__ = ["LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig",
           "eigh", "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor",
           "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve",
           "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
           "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd",
           "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm"]
name_functions(__name__, globals())
