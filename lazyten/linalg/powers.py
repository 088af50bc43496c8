"""Powers and exponentials of matrices, and of tensors that stand for matrices."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyten.autograd.custom_function import Function
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor
from lazyten.linalg import host
from lazyten.linalg.host import check_matrix, takes_matrices
from lazyten.linalg.solving import inv, solve
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError

matrix_power = takes_matrices(Tensor.matrix_power)


class _Exponential(Function):
    """exp of [[A^H, G], [0, A^H]] has the gradient of G in its corner (N. Higham, Functions of
    matrices, 2008, theorem 3.6)."""

    takes_batches = True

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        host.save(ctx, a)
        return host.tensor_of(host.exponential(host.values_of(a, "linalg.matrix_exp")), a)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (a,) = ctx.saved_tensors
        n = a.shape[-1]
        above, below = cat([a.mH, g], -1), cat([a.new_zeros(a.shape), a.mH], -1)
        return _Exponential.apply(cat([above, below], -2))[..., :n, n:]


@takes_matrices
def matrix_exp(A: Tensor) -> Tensor:
    """1 + A + A^2 / 2 + A^3 / 6 + ..., of square matrices."""
    check_matrix(A, "linalg.matrix_exp", square=True)
    result: Tensor = _Exponential.apply(A)
    return result


@takes_matrices
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a matrix, whose first `ind` axes are the rows."""
    ind = shapes.as_int(ind, "linalg.tensorinv", "ind")
    rows, columns = A.shape[:ind], A.shape[ind:]
    if ind < 1 or math.prod(rows) != math.prod(columns):
        raise ShapeError(f"linalg.tensorinv of shape {A.shape} with ind={ind}: the first {ind} "
                         f"axes must have as many elements as the others")
    return inv(A.reshape(math.prod(rows), math.prod(columns))).reshape(*columns, *rows)


@takes_matrices
@also_named(other="B")
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X of which tensordot(A, X, X.ndim) is B. dims: axes of A that come last first."""
    if dims is not None and not isinstance(dims, Sequence):
        raise ArgumentError(f"linalg.tensorsolve: dims={dims!r:.60} is not a sequence of axes")
    moved = A if dims is None else A.movedim(tuple(dims), tuple(range(-len(dims), 0)))
    rest = moved.shape[B.ndim:]
    if math.prod(rest) != B.numel() or moved.numel() != B.numel() ** 2:
        raise ArgumentError(f"linalg.tensorsolve of shapes {A.shape} and {B.shape}: axes of A "
                            f"after the first {B.ndim} must have as many elements as B")
    matrix = moved.reshape(B.numel(), B.numel())
    return solve(matrix, B.reshape(-1)).reshape(*rest)
