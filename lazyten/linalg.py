"""`lt.linalg`: norms and products of matrices, under PyTorch's names.

What takes a factorization of a matrix (inverses, determinants, solving, singular values,
eigenvalues) is not there: it is done one element after the other, which fused kernels are not made
for. Asking for it is an AttributeError that says so.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from lazyten.frontend import array_functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError

Axes = int | Sequence[int] | None
matmul, matrix_power = takes_tensors(Tensor.matmul), takes_tensors(Tensor.matrix_power)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"lazyten.linalg has no {name!r}: it has norms and products, and nothing "
                         f"that factorizes a matrix; NumPy has, outside of gradients and lt.jit")


def chain_matmul(*matrices: Tensor) -> Tensor:
    """multi_dot of matrices that are given one by one. (`lt.chain_matmul`.)"""
    for x in matrices:
        if not isinstance(x, Tensor) or x.ndim != 2:
            raise ShapeError(f"chain_matmul: {x!r:.60} is not a matrix; give tensors of two axes")
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


@takes_tensors
def vector_norm(x: Tensor, ord: float = 2, dim: Axes = None, keepdim: bool = False, *,
                dtype: DTypeLike | None = None) -> Tensor:
    """(sum of |x| ** ord) ** (1 / ord) over some axes, or all; the largest or the smallest absolute
    value for infinities, the number of elements that are not 0 for 0."""
    order = shapes.as_number(ord, "vector_norm", "ord")
    axes = tuple(range(x.ndim)) if dim is None and keepdim else dim
    return (x if dtype is None else x.to(dtype=dtype)).norm(order, axes, keepdim)


@takes_tensors
def matrix_norm(A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1),
                keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """'fro': the root of the sum of squares. 1 and -1: the largest and the smallest sum of a
    column's absolute values; infinities: of a row's. ArgumentError for 2, -2 and 'nuc', which need
    singular values."""
    first, second = (shapes.axis(d, A.ndim, "matrix_norm") for d in dim)
    values = A if dtype is None else A.to(dtype=dtype)
    if ord == "fro":
        return vector_norm(values, 2, (first, second), keepdim)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"matrix_norm: ord={ord!r} is not one of 'fro', 1, -1, inf and -inf; "
                            f"others need singular values, which lazyten does not compute")
    summed, rest = (first, second) if abs(float(ord)) == 1 else (second, first)
    sums = values.abs().sum(summed, keepdim=True)
    result = sums.amax(rest, True) if float(ord) > 0 else sums.amin(rest, True)
    return result if keepdim else result.squeeze((first, second))


@takes_tensors
def norm(A: Tensor, ord: float | str | None = None, dim: Axes = None, keepdim: bool = False, *,
         dtype: DTypeLike | None = None) -> Tensor:
    """`matrix_norm` of two axes, or of a matrix if ord is given; else `vector_norm`, of all
    elements if neither ord nor dim is given."""
    if isinstance(dim, Sequence) and len(dim) == 2 or ord is not None and dim is None \
            and A.ndim == 2 or isinstance(ord, str):
        axes = (-2, -1) if dim is None or isinstance(dim, int) else tuple(dim)
        return matrix_norm(A, "fro" if ord is None else ord, axes, keepdim, dtype=dtype)
    if ord is not None and dim is None and A.ndim != 1:
        raise ShapeError(f"linalg.norm of shape {A.shape} with ord={ord!r}: say over which axes, "
                         f"with dim=")
    assert not isinstance(ord, str)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@takes_tensors
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product of vectors of 3 along an axis; the others broadcast."""
    return input.cross(other, dim)


@takes_tensors
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The elements where the positions on two axes are equal, by default the last; a view."""
    return A.diagonal(offset, dim1, dim2)


@takes_tensors
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of products along an axis; the others broadcast."""
    return (x * y).sum(dim)


@takes_tensors
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """(.., n) to (.., n, N): the powers 0 to N - 1 of each element; N is n unless given. (Those of
    `lt.vander` decrease, and it takes vectors alone.)"""
    x = x if x.shape else x.reshape(1)
    count = x.shape[-1] if N is None else shapes.as_int(N, "vander", "N")
    if count < 2:
        raise ArgumentError(f"linalg.vander: N={count}; give 2 or more")
    powers = array_functions.vander(x.reshape(x.numel()), count, increasing=True)
    result: Tensor = powers.reshape(*x.shape, count)
    return result


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices, in the order of the fewest multiplications; the first and the last
    may be vectors. (The order: T. Cormen et al., Introduction to Algorithms, 15.2.)"""
    if len(tensors) < 2:
        raise ArgumentError(f"multi_dot of {len(tensors)} tensors: give 2 or more")
    rows = [*(x.shape[0] if x.ndim == 2 else 1 for x in tensors[:1]),
            *(x.shape[0] for x in tensors[1:])]
    sizes = [*rows, tensors[-1].shape[1] if tensors[-1].ndim == 2 else 1]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(tensors))}
    for length in range(1, len(tensors)):
        for i in range(len(tensors) - length):
            best[i, i + length] = min(
                (best[i, k][0] + best[k + 1, i + length][0]
                 + sizes[i] * sizes[k + 1] * sizes[i + length + 1], k)
                for k in range(i, i + length))

    def product(i: int, j: int) -> Any:
        return tensors[i] if i == j else product(i, best[i, j][1]).matmul(
            product(best[i, j][1] + 1, j))
    result: Tensor = product(0, len(tensors) - 1)
    return result
