"""Eigenvalues of symmetric matrices and singular values; and what they tell of a matrix."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.limits import finfo
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Shape
from lazyten.linalg import host
from lazyten.linalg.host import Array, adjoint, check_matrix, check_same_type, takes_matrices
from lazyten.linalg.results import SVD, Eigh, Lstsq
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, GradientError, ShapeError

Tolerance = Tensor | float | None
ANGLE = 1e-2
"""Up to that derivatives by an angle count as rounding."""


def gaps(values: Tensor) -> Tensor:
    """values[j] - values[i] at [i, j], and 1 on the diagonal."""
    found = values.unsqueeze(-2) - values.unsqueeze(-1)
    return found + found.new_ones(values.shape[-1]).diag_embed()


def _beside(x: Tensor) -> Tensor:
    """What is beside the diagonal of x, and 0 on it."""
    return x.tril(-1) + x.triu(1)


def check_angles(inner: Tensor, operation: str) -> None:
    """GradientError where a result depends on the angle of complex eigenvectors V, of which none is
    the right one: V^H G then has imaginary numbers on its diagonal."""
    if inner.is_complex() and np.abs(host.all_values_of(inner, operation).diagonal(
            0, -2, -1).imag).max(initial=0) > ANGLE:
        raise GradientError(f"{operation}: what is differentiated changes with the angle of "
                            f"complex eigenvectors, which may be any; take what does not, such as "
                            f"abs() of them")


class _Eigh(Function):
    """V diag(w) V^H = A: dw = diag(V^H dA V), and dV of what is beside the diagonal, divided by
    differences of eigenvalues (M. Giles, Collected matrix derivative results, 2008). Infinite where
    eigenvalues repeat and V is used."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, side: str) -> Any:
        values = host.values_of(a, "linalg.eigh")
        read = np.triu(values) if side == "U" else np.tril(values)
        bad: Array = np.asarray(~np.isfinite(read).all((-1, -2)))
        safe = np.where(bad[..., None, None], 0, values).astype(values.dtype)
        w, v = np.linalg.eigh(safe, "U" if side == "U" else "L")
        w[bad], v[bad] = np.nan, np.nan
        found, vectors = host.tensor_of(w, a), host.tensor_of(v, a)
        host.save(ctx, found, vectors)
        ctx.set_materialize_grads(False)
        return found, vectors

    @staticmethod
    def backward(ctx: Any, of_values: Tensor | None, of_vectors: Tensor | None) -> Any:
        values, v = ctx.saved_tensors
        if of_vectors is None:
            assert of_values is not None  # one of both has a gradient
            return (v * of_values.unsqueeze(-2)) @ v.mH, None
        inner = v.mH @ of_vectors
        check_angles(inner, "linalg.eigh")
        inner = _beside(inner - inner.mH) / (2 * gaps(values))
        if of_values is not None:
            inner = inner + of_values.diag_embed()
        return v @ inner @ v.mH, None


class _SVD(Function):
    """U diag(s) V^H = A (J. Townsend, Differentiating the singular value decomposition, 2016).
    Infinite where singular values repeat, or are 0, and U or V is used; columns that stand for no
    singular value have no gradient."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, full: bool) -> Any:
        values = host.finite_values_of(a, "linalg.svd")
        u, s, vh = (host.tensor_of(x, a) for x in np.linalg.svd(values, full))
        host.save(ctx, u, s, vh)
        ctx.set_materialize_grads(False)
        return u, s, vh

    @staticmethod
    def backward(ctx: Any, of_u: Tensor | None, of_s: Tensor | None, of_vh: Tensor | None) -> Any:
        u, s, vh = ctx.saved_tensors
        (m, n), k = (u.shape[-2], vh.shape[-1]), s.shape[-1]
        u, vh = u[..., :k], vh[..., :k, :]
        row, column = s.unsqueeze(-2), s.unsqueeze(-1)
        inner = s.new_zeros((*s.shape, k)) if of_s is None else of_s.diag_embed()
        beside: list[Tensor] = []
        if of_u is not None:
            of_u = of_u[..., :k]
            part = u.mH @ of_u
            part = part - part.mH
            inner = inner + _beside(part) * row / gaps(s * s)
            if part.is_complex():
                inner = inner + (part.diagonal(0, -2, -1) / (2 * s)).diag_embed()
            if m > k:
                over = of_u / row
                beside.append((over - u @ (u.mH @ over)) @ vh)
        if of_vh is not None:
            of_vh = of_vh[..., :k, :]
            part = vh @ of_vh.mH
            inner = inner + column * _beside(part - part.mH) / gaps(s * s)
            if n > k:
                over = of_vh / column
                beside.append(u @ (over - (over @ vh.mH) @ vh))
        return sum(beside, u @ inner @ vh), None


@takes_matrices
def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues, ascending, and eigenvectors, in columns, of symmetric or Hermitian matrices, of
    which the lower or the upper triangle is read. NaN where that has one, or an infinity."""
    check_matrix(A, "linalg.eigh", square=True)
    side = str(UPLO).upper()
    if side not in ("L", "U"):
        raise ArgumentError(f"linalg.eigh: UPLO={UPLO!r} is neither 'L' nor 'U'")
    return Eigh(*_Eigh.apply(A, side))


@takes_matrices
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, ascending."""
    return eigh(A, UPLO).eigenvalues


@takes_matrices
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U, S and V^H of matrices (..., m, n), of k = min(m, n) singular values: (..., m, m), (..., k)
    and (..., n, n), or with k columns and rows unless `full_matrices`. driver: for GPUs, unused."""
    check_matrix(A, "linalg.svd")
    if driver is not None:
        raise ArgumentError(f"linalg.svd: driver={driver!r} is for cuSOLVER; leave it out")
    return SVD(*_SVD.apply(A, full_matrices))


@takes_matrices
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, descending."""
    return svd(A, False, driver=driver).S


# ---- what is left out as zero --------------------------------------------------------------------

def _smallest(largest: Array, sizes: tuple[int, ...], a: Tensor, atol: Tolerance,
              rtol: Tolerance) -> Array:
    """Where singular values count as 0: at most atol, or rtol times the largest."""
    name = "a tolerance"
    absolute, relative = (host.values_of(t, name) if isinstance(t, Tensor) else
                          None if t is None else shapes.as_number(t, "linalg", name)
                          for t in (atol, rtol))
    if relative is None:
        usual = finfo(a.dtype).eps * max(sizes)
        relative = usual if absolute is None else np.where(np.asarray(absolute) > 0, 0, usual)
    if absolute is None:
        absolute = 0.0
    bound: Array = np.maximum(np.asarray(absolute), np.asarray(relative) * largest)
    return bound


class _Pseudoinverse(Function):
    """dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P (G. Golub and V. Pereyra, 1973),
    where the rank stays."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, atol: Tolerance, rtol: Tolerance, hermitian: bool) -> Any:
        values = host.finite_values_of(a, "linalg.pinv")
        if hermitian:
            s, u = np.linalg.eigh(values)
            vh = adjoint(u)
        else:
            u, s, vh = np.linalg.svd(values, full_matrices=False)
        size = np.abs(s)
        bound = _smallest(size.max(-1, initial=0), a.shape[-2:], a, atol, rtol)
        over = np.where(size > bound[..., None], s, np.inf)
        result = adjoint(vh) @ (adjoint(u) / over[..., None])
        found = host.tensor_of(result.astype(values.dtype), a)
        host.save(ctx, a, found)
        return found

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, p = ctx.saved_tensors
        return _of_pseudoinverse(a, p, g), None, None, None


def _of_pseudoinverse(a: Tensor, p: Tensor, g: Tensor) -> Tensor:
    """The gradient for a matrix of that for its pseudoinverse p."""
    left, right = g.mH @ p, p @ g.mH
    first = (left - a @ (p @ left)) @ p.mH
    second = p.mH @ (right - (right @ p) @ a)
    return first + second - p.mH @ g @ p.mH


@takes_matrices
def pinv(A: Tensor, rcond: Tolerance = None, hermitian: bool = False, *, atol: Tolerance = None,
         rtol: Tolerance = None) -> Tensor:
    """The pseudoinverse (..., n, m) of (..., m, n): singular values (absolute eigenvalues, if
    `hermitian`) of at most max(atol, rtol * the largest) count as 0. rtol, or rcond as it was
    called, is max(m, n) * eps unless atol or it is given. Differentiable where the rank stays."""
    check_matrix(A, "linalg.pinv", square=hermitian)
    result: Tensor = _Pseudoinverse.apply(A, _each(atol, A), _each(
        rcond if rtol is None else rtol, A), hermitian)
    return result


def _each(bound: Tolerance, a: Tensor) -> Tolerance:
    """A tolerance that is a tensor, for each matrix."""
    return bound.expand(broadcast_shapes(bound.shape, a.shape[:-2])) if isinstance(
        bound, Tensor) else bound


class _Rank(Function):
    """How many singular values count."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, atol: Tolerance, rtol: Tolerance, hermitian: bool) -> Any:
        values = host.finite_values_of(a, "linalg.matrix_rank")
        s = np.abs(np.linalg.eigvalsh(values)) if hermitian else np.linalg.svd(
            values, compute_uv=False)
        bound = _smallest(s.max(-1, initial=0), a.shape[-2:], a, atol, rtol)
        return host.tensor_of(np.asarray((s > bound[..., None]).sum(-1), np.int64), a)


@takes_matrices
def matrix_rank(A: Tensor, tol: Tolerance = None, hermitian: bool = False, *,
                atol: Tolerance = None, rtol: Tolerance = None) -> Tensor:
    """How many singular values (absolute eigenvalues, if `hermitian`) are larger than max(atol,
    rtol * the largest), as int64; see `pinv`. tol: atol, with an rtol of 0."""
    check_matrix(A, "linalg.matrix_rank", square=hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    found: Tensor = _Rank.apply(A, _each(atol, A), _each(rtol, A), hermitian)
    return found


# ---- least squares -------------------------------------------------------------------------------

class _LeastSquares(Function):
    """A^+ B, of which the gradient is that of the pseudoinverse."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rcond: float) -> Any:
        name = "linalg.lstsq"
        values, right = host.finite_values_of(a, name), host.values_of(b, name)
        u, s, vh = np.linalg.svd(values, full_matrices=False)
        counts = s > rcond * s.max(-1, initial=0)[..., None]
        over = np.where(counts, s, np.inf)[..., None]
        x = adjoint(vh) @ ((adjoint(u) @ right) / over)
        ctx.rcond = rcond
        host.save(ctx, a, b)
        return (host.tensor_of(x.astype(values.dtype), a),
                host.tensor_of(np.asarray(counts.sum(-1), np.int64), a),
                host.tensor_of(s, a).detach())

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> Any:
        a, b = ctx.saved_tensors
        p = pinv(a, rtol=ctx.rcond)
        return _of_pseudoinverse(a, p, g @ b.mH), p.mH @ g, None


def _of_each(found: Tensor, batch: Shape, own: Shape) -> Tensor:
    """What was found of matrices that were expanded to a batch, for each that there was."""
    if 0 in batch:
        return found
    return found[(0,) * (len(batch) - len(own)) + tuple(slice(0, n) for n in own)]


@takes_matrices
@also_named(b="B")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Lstsq:
    """X of (..., n, k) with the least |A X - B|, and the least |X| among them, of (..., m, n) and
    (..., m, k). It is found by singular values, of which those of at most rcond times the largest
    count as 0 (max(m, n) * eps unless given).

    driver: what else PyTorch's LAPACK driver gives: 'gelsy' (the default) the rank, 'gelsd' and
    'gelss' also singular values and residuals |A X - B|^2 of each column, 'gels' the latter alone.
    Residuals are empty where m <= n or a rank is less than n.
    """
    name, how = "linalg.lstsq", "gelsy" if driver is None else driver
    check_matrix(A, name)
    check_same_type(A, B, name)
    if how not in ("gels", "gelsy", "gelsd", "gelss"):
        raise ArgumentError(f"{name}: driver={driver!r} is not one of gels, gelsy, gelsd, gelss")
    m, n = A.shape[-2:]
    is_vector = B.ndim == 1 or A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    b = B.unsqueeze(-1) if is_vector else B
    if b.ndim < 2 or b.shape[-2] != m:
        raise ShapeError(f"{name} of shapes {A.shape} and {B.shape}: B needs {m} rows, as A has")
    batch = broadcast_shapes(A.shape[:-2], b.shape[:-2])
    a, b = A.expand(*batch, m, n), b.expand(*batch, m, b.shape[-1])
    bound = finfo(A.dtype).eps * max(m, n) if rcond is None else \
        float(shapes.as_number(rcond, name, "rcond"))
    x, rank, values = _LeastSquares.apply(a, b, bound)
    empty = values.detach().new_empty((0,))
    full = how != "gelsy" and m > n and (how == "gels" or bool(
        (host.all_values_of(rank, name) == n).all()))
    residuals = (a @ x - b).abs().square().sum(-2) if full else empty
    rank, values = (_of_each(v, batch, A.shape[:-2]) for v in (rank, values))
    return Lstsq(x.squeeze(-1) if is_vector else x, residuals,
                 empty.long() if how == "gels" else rank,
                 values if how in ("gelsd", "gelss") else empty)
