"""Lengths of vectors and distances between them, along an axis of tensors."""
from __future__ import annotations

import typing

from lazyten.frontend.arguments import takes_tensors, written
from lazyten.frontend.array_functions import check_power
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import composites, shapes
from lazyten.support.errors import ArgumentError, DTypeError


@recorded
def vector_norm(x: Tensor, p: float, dim: int, operation: str) -> Tensor:
    """The p-norm along an axis, which keeps size 1; its gradient at 0 is 0."""
    axis = shapes.axis(dim, x.ndim, operation)
    power = float(shapes.as_number(p, operation, "p"))
    if not x.dtype.is_float:
        raise DTypeError(f"{operation} of {x.dtype.name}: a norm is a float; convert with .float()")
    axes = (axis,) if x.shape else ()
    return x._special(lambda node: composites.norm(node, power, axes, True))


@takes_tensors
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
              out: Tensor | None = None) -> Tensor:
    """x over its p-norm along an axis, or over `eps` if that is more; in the same shape, and within
    `out` if that is given."""
    result = input / vector_norm(input, p, dim, "normalize").clamp(min=eps)
    return result if out is None else typing.cast(Tensor, written(result, out, "normalize"))


@takes_tensors
@casting(WIDE)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; lengths count as `eps` at least."""
    shape = shapes.broadcast([x1.shape, x2.shape], "cosine_similarity")
    a, b = (normalize(x.expand(shape), 2.0, dim, eps) for x in (x1, x2))
    return (a * b).sum(shapes.axis(dim, len(shape), "cosine_similarity"))


@takes_tensors
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6,
                      keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    x1, x2 = x1._unary(composites.exact), x2._unary(composites.exact)
    gap = vector_norm(x1 - x2 + eps, p, -1, "pairwise_distance")
    return gap if keepdim or not gap.ndim else gap.squeeze(-1)


@takes_tensors
@casting(WIDE)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows (rows, features), row 0 with 1 first."""
    rows = input.shape[0] if input.ndim == 2 else -1
    if rows < 0:
        raise ArgumentError(f"pdist: the input has shape {input.shape}; it needs (rows, features)")
    check_power(p, "pdist")
    pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
    if not pairs:
        return input.sum(1)[:0]
    first, second = (input[[pair[k] for pair in pairs]] for k in (0, 1))
    return vector_norm(first - second, p, 1, "pdist").squeeze(1)
