"""Eigenvalues of any square matrices: complex numbers."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.tensor import Tensor
from lazyten.linalg import host
from lazyten.linalg.host import check_matrix, takes_matrices
from lazyten.linalg.results import Eig
from lazyten.linalg.solving import solve
from lazyten.linalg.spectra import check_angles, gaps


class _Eig(Function):
    """A V = V diag(w): dw = diag(V^-1 dA V), and dV is V times what is beside that diagonal,
    divided by differences of eigenvalues, less what would change the length of a column
    (C. Boeddeker and others, On the computation of complex-valued gradients, 2017). Infinite where
    eigenvalues repeat and V is used."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, operation: str) -> Any:
        values = host.finite_values_of(a, operation)
        kind = np.result_type(values, np.complex64)
        w, v = (host.tensor_of(x.astype(kind), a) for x in np.linalg.eig(values))
        ctx.operation, ctx.is_real = operation, not a.is_complex()
        host.save(ctx, w, v)
        ctx.set_materialize_grads(False)
        return w, v

    @staticmethod
    def backward(ctx: Any, of_values: Tensor | None, of_vectors: Tensor | None) -> Any:
        w, v = ctx.saved_tensors
        inner = v.new_zeros(v.shape)
        if of_vectors is not None:
            part = v.mH @ of_vectors
            check_angles(part, ctx.operation)
            longer = (v.mH @ v) * part.diagonal(0, -2, -1).real.unsqueeze(-2)
            inner = (part - longer) / gaps(w).conj()
        if of_values is not None:
            inner = inner + of_values.diag_embed()
        found = solve(v.mH, inner @ v.mH)
        return found.real if ctx.is_real else found, None


@takes_matrices
def eig(A: Tensor) -> Eig:
    """Eigenvalues (..., n), in no order, and eigenvectors (..., n, n), in columns of length 1, of
    square matrices (..., n, n), real or complex; they are complex. LinAlgError for NaN and
    infinity. `eigh` is for symmetric matrices, whose eigenvalues are real."""
    check_matrix(A, "linalg.eig", square=True)
    return Eig(*_Eig.apply(A, "linalg.eig"))


@takes_matrices
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues (..., n) of square matrices (..., n, n), complex, in no order."""
    check_matrix(A, "linalg.eigvals", square=True)
    found: Tensor = _Eig.apply(A, "linalg.eigvals")[0]
    return found
