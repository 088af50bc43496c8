"""Symmetric matrices that need not be positive: L D L^T, with blocks of one and two rows in D.

NumPy has no such factorization: it is that of J. Bunch and L. Kaufman (Some stable methods for
calculating inertia and solving symmetric linear systems, 1977), kept as LAPACK's sytrf keeps it.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyten.autograd.custom_function import Function
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.tensor import Tensor
from lazyten.linalg import host
from lazyten.linalg.host import Array, check_matrix, check_same_type
from lazyten.linalg.results import LDLFactor, LDLFactorEx
from lazyten.support.errors import DTypeError, GradientError, ShapeError

ALPHA = (1 + math.sqrt(17)) / 8
"""A diagonal element at least this much of what is beside it may be a block of its own."""


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """How many rows the block at k gets, and the row that is exchanged with the last of them."""
    beside = np.abs(a[k + 1:, k])
    most = beside.max(initial=0)
    if not most or abs(a[k, k]) >= ALPHA * most:
        return 1, k
    row = k + 1 + int(beside.argmax())
    others = np.abs(np.delete(a[row, k:], row - k)).max()
    if abs(a[k, k]) * others >= ALPHA * most * most:
        return 1, k
    return (1, row) if abs(a[row, row]) >= ALPHA * others else (2, row)


def _factored(a: Array) -> tuple[Array, Array, int]:
    """L and D of one symmetric matrix, in its lower triangle, pivots, and `info`."""
    a, n = np.tril(a) + np.tril(a, -1).T, a.shape[-1]
    pivots, info, k = np.zeros(n, np.int32), 0, 0
    while k < n:
        size, row = _pivot(a, k)
        last, after = k + size - 1, k + size
        a[[last, row], k:] = a[[row, last], k:]
        a[k:, [last, row]] = a[k:, [row, last]]
        pivots[k:after] = row + 1 if size == 1 else -row - 1
        if size == 1 and a[k, k] == 0:
            info = info or k + 1
        else:
            below = a[after:, k:after].copy()
            a[after:, k:after] = np.linalg.solve(a[k:after, k:after].T, below.T).T
            a[after:, after:] -= a[after:, k:after] @ below.T
        k = after
    return np.tril(a), pivots, info


def _substituted(a: Array, pivots: Array, b: Array) -> Array:
    """x of L D L^T x = b, of one matrix."""
    n, x, k = len(a), np.array(b), 0
    blocks = []
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        blocks.append((k, k + size, abs(int(pivots[k])) - 1))
        k += size
    with np.errstate(all="ignore"):
        for k, after, row in blocks:
            x[[after - 1, row]] = x[[row, after - 1]]
            x[after:] -= a[after:, k:after] @ x[k:after]
            d = np.tril(a[k:after, k:after])
            x[k:after] = x[k:after] / d if after - k == 1 else \
                np.linalg.solve(d + np.tril(d, -1).T, x[k:after])
        for k, after, row in reversed(blocks):
            x[k:after] -= a[after:, k:after].T @ x[after:]
            x[[after - 1, row]] = x[[row, after - 1]]
    return x


class _LDL(Function):
    """L D L^T = A, which has no gradient, as in PyTorch."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, checks: bool, operation: str) -> Any:
        values = host.values_of(a, operation)
        batch, n = values.shape[:-2], values.shape[-1]
        found = [_factored(one) for one in values.reshape(math.prod(batch), n, n)]
        info = np.array([i for _, _, i in found], np.int32).reshape(batch)
        if checks:
            host.refuse_failed(info, operation, "D, which is to be divided by, has 0 as number {} "
                               "on its diagonal: the matrix is singular")
        packed = np.array([x for x, _, _ in found], values.dtype).reshape(values.shape)
        pivots = np.array([p for _, p, _ in found], np.int32).reshape(*batch, n)
        return tuple(host.tensor_of(x, a) for x in (packed, pivots, info))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise GradientError("linalg.ldl_factor has no gradient; linalg.solve, linalg.lu_factor and "
                            "linalg.cholesky have one")


class _Solve(Function):
    """A^-1 B is linear in B, and A is symmetric."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, factors: Tensor, pivots: Tensor, b: Tensor) -> Any:
        name = "linalg.ldl_solve"
        a, p, right = (host.values_of(x, name) for x in (factors, pivots, b))
        n, count = b.shape[-2:]
        parts = [_substituted(*one) for one in zip(
            a.reshape(-1, n, n), p.reshape(-1, n), right.reshape(-1, n, count), strict=True)] \
            if right.size else []
        host.save(ctx, factors, pivots)
        return host.tensor_of(np.array(parts, right.dtype).reshape(right.shape), b)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        factors, pivots = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            raise GradientError("linalg.ldl_solve has no gradient of the factors; linalg.solve has "
                                "that of the matrix")
        return None, None, _Solve.apply(factors, pivots, g)


@checks_tensors
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False
                  ) -> LDLFactorEx:
    """L and D in one matrix, of symmetric matrices (..., n, n) of which the lower triangle is read;
    the rows exchanged, from 1 (int32), and 0 or which element of D is 0. hermitian: as without."""
    name = "linalg.ldl_factor_ex"
    check_matrix(A, name, square=True)
    return LDLFactorEx(*_LDL.apply(A, check_errors, name))


@checks_tensors
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDLFactor:
    """`ldl_factor_ex` without what tells whether D has a 0: LinAlgError then."""
    check_matrix(A, "linalg.ldl_factor", square=True)
    return LDLFactor(*_LDL.apply(A, True, "linalg.ldl_factor")[:2])


@checks_tensors
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X (..., n, k) of which A X is B, for A that `ldl_factor` was given. Axes before the matrices
    broadcast. It has a gradient of B alone."""
    name = "linalg.ldl_solve"
    check_matrix(LD, name, square=True)
    check_same_type(LD, B, name)
    n = LD.shape[-1]
    if B.ndim < 2 or B.shape[-2] != n:
        raise ShapeError(f"{name} of shapes {LD.shape} and {B.shape}: B needs {n} rows, as the "
                         f"factors have")
    if pivots.shape != LD.shape[:-1]:
        raise ShapeError(f"{name}: pivots have shape {pivots.shape}, and must have "
                         f"{LD.shape[:-1]}, as ldl_factor gives them")
    if pivots.dtype.name != "int32":
        raise DTypeError(f"{name}: pivots of {pivots.dtype.name} must be int32, from 1, as "
                         f"ldl_factor gives them")
    batch = broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    result: Tensor = _Solve.apply(LD.expand(*batch, n, n), pivots.expand(*batch, n),
                                  B.expand(*batch, *B.shape[-2:]))
    return result
