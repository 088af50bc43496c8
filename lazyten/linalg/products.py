"""Products of vectors and matrices."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.frontend import array_functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.complexes.computing import form
from lazyten.frontend.core.overriding import overridable
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError

matmul = takes_tensors(Tensor.matmul)


@overridable
def chain_matmul(*matrices: Tensor) -> Tensor:
    """multi_dot of matrices that are given one by one. (`lt.chain_matmul`.)"""
    for x in matrices:
        if not isinstance(x, Tensor) or x.ndim != 2:
            raise ShapeError(f"chain_matmul: {x!r:.60} is not a matrix; give tensors of two axes")
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


@takes_tensors
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product of vectors of 3 along an axis; the others broadcast."""
    return input.cross(other, dim)


@takes_tensors
@form("linalg.diagonal")
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The elements where the positions on two axes are equal, by default the last; a view."""
    return A.diagonal(offset, dim1, dim2)


@takes_tensors
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of products along an axis; the others broadcast."""
    return (x * y).sum(dim)


@takes_tensors
@form("linalg.vander")
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """(.., n) to (.., n, N): the powers 0 to N - 1 of each element; N is n unless given. (Those of
    `lt.vander` decrease, and it takes vectors alone.)"""
    x = x if x.shape else x.reshape(1)
    count = x.shape[-1] if N is None else shapes.as_int(N, "vander", "N")
    if count < 2:
        raise ArgumentError(f"linalg.vander: N={count}; give 2 or more")
    powers = array_functions.vander(x.reshape(x.numel()), count, increasing=True)
    return powers.reshape(*x.shape, count)


@overridable
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices, in the order of the fewest multiplications; the first and the last
    may be vectors. (The order: T. Cormen et al., Introduction to Algorithms, 15.2.)"""
    if not isinstance(tensors, list | tuple) or len(tensors) < 2 or not all(
            isinstance(x, Tensor) and x.ndim for x in tensors):
        raise ArgumentError(f"multi_dot of a {type(tensors).__name__}: give a list of 2 matrices "
                            f"or more")
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

    cuts = {ends: k for ends, (_, k) in best.items()}
    return _product(tensors, cuts, 0, len(tensors) - 1)


def _product(tensors: Sequence[Tensor], cuts: dict[tuple[int, int], int], i: int,
             j: int) -> Tensor:
    """The product of tensors i to j. cuts: the last of the first factor, by i and j."""
    if i == j:
        return tensors[i]
    k = cuts[i, j]
    return _product(tensors, cuts, i, k).matmul(_product(tensors, cuts, k + 1, j))
