"""Norms of vectors and matrices, and condition numbers."""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.complexes.computing import form
from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.linalg.host import check_matrix, takes_matrices
from lazyten.linalg.solving import inv_ex
from lazyten.linalg.spectra import svdvals
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Axes
from lazyten.support.errors import ArgumentError, ShapeError


@takes_tensors
def vector_norm(x: Tensor, ord: float = 2, dim: Axes = None, keepdim: bool = False, *,
                dtype: DTypeLike | None = None) -> Tensor:
    """(sum of |x| ** ord) ** (1 / ord) over some axes, or all; the largest or the smallest absolute
    value for infinities, the number of elements that are not 0 for 0."""
    order = shapes.as_number(ord, "vector_norm", "ord")
    axes = tuple(range(x.ndim)) if dim is None and keepdim else dim
    return (x if dtype is None else x.to(dtype=dtype)).norm(order, axes, keepdim)


@takes_tensors
@form("linalg.matrix_norm")
def matrix_norm(A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1),
                keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """'fro': the root of the sum of squares. 1 and -1: the largest and the smallest sum of a
    column's absolute values; infinities: of a row's. 2, -2 and 'nuc': the largest singular value,
    the smallest, and their sum."""
    if not isinstance(dim, Sequence) or len(shapes.axes(dim, A.ndim, "matrix_norm")) != 2:
        raise ArgumentError(f"matrix_norm: dim={dim!r:.60} must name 2 axes, which hold matrices")
    first, second = (shapes.axis(d, A.ndim, "matrix_norm") for d in dim)
    values = A if dtype is None else A.to(dtype=dtype)
    if ord == "fro":
        return vector_norm(values, 2, (first, second), keepdim)
    if ord in (2, -2, "nuc"):
        s = svdvals(values.movedim((first, second), (-2, -1)))
        found = s.sum(-1) if ord == "nuc" else _largest(s, -1) if ord == 2 else s.amin(-1)
        for axis in sorted((first, second)) if keepdim else ():
            found = found.unsqueeze(axis)
        return found
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"matrix_norm: ord={ord!r} is not one of 'fro', 'nuc', 1, -1, 2, -2, "
                            f"inf and -inf")
    summed, rest = (first, second) if abs(float(ord)) == 1 else (second, first)
    sums = values.abs().sum(summed, keepdim=True)
    result = _largest(sums, rest, True) if float(ord) > 0 else sums.amin(rest, True)
    return result if keepdim else result.squeeze((first, second))


def _largest(x: Tensor, axis: int, keepdim: bool = False) -> Tensor:
    """The largest along an axis of numbers that are not negative; 0 of none."""
    return x.amax(axis, keepdim) if x.shape[axis] else x.sum(axis, keepdim)


@takes_tensors
@form("linalg.norm")
def norm(A: Tensor, ord: float | str | None = None, dim: Axes = None, keepdim: bool = False, *,
         dtype: DTypeLike | None = None) -> Tensor:
    """`matrix_norm` of two axes, or of a matrix if ord is given; else `vector_norm`, of all
    elements if neither ord nor dim is given."""
    if ord is not None and dim is None and A.ndim not in (1, 2):
        raise ShapeError(f"linalg.norm of shape {A.shape} with ord={ord!r}: say over which axes, "
                         f"with dim=")
    if isinstance(dim, Sequence) and len(dim) == 2 or ord is not None and dim is None \
            and A.ndim == 2 or isinstance(ord, str):
        axes = (-2, -1) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        return matrix_norm(A, "fro" if ord is None else ord, axes, keepdim, dtype=dtype)
    assert not isinstance(ord, str)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@takes_matrices
def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """The condition number: the largest singular value divided by the smallest (p=None or 2), or
    the other way round (-2); else the norms (see `matrix_norm`) of A and its inverse multiplied,
    which is infinite for a singular matrix; 0 of a matrix without elements."""
    check_matrix(A, "linalg.cond", square=p not in (None, 2, -2))
    if 0 in A.shape[-2:]:
        return A.new_zeros(A.shape[:-2])
    if p in (None, 2, -2):
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    assert p is not None
    inverse, info = inv_ex(A)
    product = matrix_norm(A, p) * matrix_norm(inverse, p)
    result: Tensor = where(info == 0, product, product.new_full((), math.inf))
    return result
