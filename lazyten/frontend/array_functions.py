"""Functions of `lazyten` that arrange, pair and fill tensors, made of others."""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyten.frontend.arguments import fills_out, takes_out, takes_tensors
from lazyten.frontend.core.forms import made_of_others
from lazyten.frontend.core.keywords import making
from lazyten.frontend.core.overriding import overridable
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import (
    _tensors,
    cat,
    empty,
    hstack,
    linspace,
    meshgrid,
    ones_like,
    stack,
    vstack,
    zeros,
)
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError


def is_tensor(x: object) -> bool:
    """Whether x is a tensor."""
    return isinstance(x, Tensor)


@overridable
def _assert(condition: object, message: str) -> None:
    """AssertionError with this message unless the condition is true: Python's `assert`, as a
    function. (A condition that is a tensor of one element is computed for it.)"""
    assert condition, message


def _assert_async(input: object, assert_msg: str = "") -> None:
    """_assert, under the name of PyTorch's that does not wait for the condition; this one does."""
    _assert(input, assert_msg)


@takes_tensors
def numel(input: Tensor) -> int:
    """How many elements there are."""
    return input.numel()


concatenate, row_stack = cat, vstack


def broadcast_shapes(*sizes: Any) -> Size:
    """What shapes broadcast to."""
    given = [shapes.new_shape([s], "broadcast_shapes") for s in sizes]
    return Size(shapes.broadcast(given, "broadcast_shapes"))


def _at_least(tensors: tuple[Any, ...], axes: int) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    wide = []
    for t in given:
        if not isinstance(t, Tensor):
            raise DTypeError(f"atleast_{axes}d: {t!r:.40} is no tensor; wrap it in "
                             f"lazyten.tensor()")
        if axes == 3 and 1 <= t.ndim <= 2:  # a vector is a row, a matrix is one of a depth of 1
            shape = (1, *t.shape, 1) if t.ndim == 1 else (*t.shape, 1)
        else:
            shape = (1,) * (axes - t.ndim) + t.shape
        wide.append(t if t.ndim >= axes else t.reshape(shape))
    return wide[0] if len(tensors) == 1 and given is tensors else tuple(wide)


@overridable
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least 1 axis."""
    return _at_least(tensors, 1)


@overridable
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least 2 axes; vectors are rows."""
    return _at_least(tensors, 2)


@overridable
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least 3 axes; a vector is (1, n, 1), a matrix (n, m, 1)."""
    return _at_least(tensors, 3)


@takes_out
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side, vectors as columns."""
    return hstack([t.reshape(t.numel(), 1) if t.ndim < 2 else t
                   for t in _tensors(tensors, "column_stack")])


@overridable
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with these matrices along its diagonal, and 0 elsewhere; vectors are rows."""
    blocks = [_at_least((t,), 2) for t in _tensors(tensors, "block_diag")]
    wrong = [b.shape for b in blocks if b.ndim > 2]
    if wrong or not blocks:
        raise ShapeError(f"block_diag of {wrong[0] if wrong else 'nothing'}: give matrices")
    columns = [b.shape[1] for b in blocks]
    rows = []
    for number, block in enumerate(blocks):
        left, right = sum(columns[:number]), sum(columns[number + 1:])
        rows.append(block.pad((left, right)))
    return cat(rows, 0)


@overridable
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element from each of these vectors, as rows."""
    vectors = _tensors(tensors, "cartesian_prod")
    for x in vectors:
        if x.ndim != 1:
            raise ShapeError(f"cartesian_prod of shape {x.shape}: give vectors")
    if len(vectors) == 1:
        return vectors[0]
    return stack([grid.reshape(-1) for grid in meshgrid(*vectors)], 1)


@takes_tensors
@made_of_others
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, in order, as rows."""
    if input.ndim != 1:
        raise ShapeError(f"combinations of shape {input.shape}: give a vector")
    count = shapes.as_int(r, "combinations", "r")
    if count < 0:
        raise ArgumentError(f"combinations: r={count}; give 0 or more")
    shapes.allocatable(count, "combinations")
    among = input.numel() + (count - 1 if with_replacement and count else 0)
    shapes.allocatable(max(math.comb(among, min(count, 1 << 16)), 1) * count, "combinations")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if not count:
        return zeros(0, dtype=input.dtype, device=input.device)
    rows = np.array(list(choose(range(input.numel()), count)), np.int64).reshape(-1, count)
    return input[Tensor._copy_of(rows, device=input.device)]


def _triangle(row: int, column: int, offset: int, lower: bool, dtype: DTypeLike | None,
              device: str | None, operation: str) -> Tensor:
    rows, columns = shapes.new_shape([row, column], operation)
    if not rows * columns:
        rows = columns = 0
    diagonal = min(max(shapes.as_int(offset, operation, "the offset"), -rows), columns)
    shapes.allocatable(rows * columns, operation)
    mask = np.tri(rows, columns, diagonal - (not lower), dtype=bool)
    return Tensor._copy_of(np.array(np.nonzero(mask if lower else ~mask)), dtype, device)


@making
def tril_indices(row: int, col: int, offset: int = 0, dtype: DTypeLike | None = None,
                 device: str | None = None) -> Tensor:
    """(2, n): rows and columns of the elements of a matrix on and below a diagonal."""
    return _triangle(row, col, offset, True, dtype, device, "tril_indices")


@making
def triu_indices(row: int, col: int, offset: int = 0, dtype: DTypeLike | None = None,
                 device: str | None = None) -> Tensor:
    """(2, n): rows and columns of the elements of a matrix on and above a diagonal."""
    return _triangle(row, col, offset, False, dtype, device, "triu_indices")


@fills_out
@making
def logspace(start: float, end: float, steps: int, base: float = 10.0,
             dtype: DTypeLike | None = None, device: str | None = None,
             requires_grad: bool = False) -> Tensor:
    """base to the power of `steps` numbers evenly spread from start to end."""
    number = float(shapes.as_number(base, "logspace", "base"))
    if dtype is not None and dt.as_dtype(dtype).is_int:
        start, end = [int(shapes.as_element(v, dt.int64, "logspace")) for v in (start, end)]
    powers = number ** linspace(start, end, steps, "float64", device)
    result = powers.to(dtype=dtype or dt.default_float)
    return result.requires_grad_() if requires_grad else result


@takes_tensors
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norms of the differences of all rows of x1 (.., P, M) and x2 (.., R, M): (.., P, R);
    the axes before broadcast. (compute_mode changes nothing: differences are always taken.)"""
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist of shapes {x1.shape} and {x2.shape}: give (.., P, M) and "
                         f"(.., R, M)")
    check_power(p, "cdist")
    if not x1.shape[-1]:  # p = inf asks for the greatest of none
        return (x1.unsqueeze(-2) * x2.unsqueeze(-3)).sum(-1)
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


def check_power(p: float, operation: str) -> None:
    """ArgumentError for the power of a norm of differences below 0."""
    if not shapes.as_number(p, operation, "p") >= 0:
        raise ArgumentError(f"{operation}: p={p!r}; give 0 or more, or infinity")


@takes_tensors
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector's elements as columns, N - 1 to 0, or 0 to N - 1 if increasing."""
    count = columns_of_powers(x, N)
    wide = x.reshape(-1, 1).expand(x.numel(), max(count - 1, 0))
    powers = cat([ones_like(x.reshape(-1, 1)), wide], 1)[:, :count].cumprod(1)
    return powers if increasing else powers.flip(1)


def columns_of_powers(x: Tensor, N: int | None) -> int:
    """How many columns `vander` gives of a vector. ShapeError and ArgumentError if it cannot."""
    if x.ndim != 1:
        raise ShapeError(f"vander of shape {x.shape}: give a vector")
    count = x.numel() if N is None else shapes.as_int(N, "vander", "N")
    if count < 0:
        raise ArgumentError(f"vander: N={count}; give 0 or more")
    return count


@takes_tensors
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The index on each axis of an array of `shape` at these positions in row-major order.
    ShapeError for a position in an array without elements."""
    if not indices.dtype.is_int:
        raise DTypeError(f"unravel_index of {indices.dtype.name}: positions are integers")
    indices, found = indices.long(), []
    sizes = shapes.sizes([shape], "unravel_index")  # of no array in memory: they may be any
    if any(n < 0 for n in sizes):
        raise ShapeError(f"unravel_index: shape {sizes} has a negative size; sizes are 0 or more")
    if 0 in sizes and indices.numel():
        raise ShapeError(f"unravel_index of {indices.numel()} positions in shape {sizes}, which "
                         f"has no elements; give another shape, or no positions")
    for size in reversed(sizes):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))


@takes_tensors
@made_of_others
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like this one, of which every element is a number, or a zero-dim tensor's value."""
    return input.clone().fill_(value)


@takes_tensors
@made_of_others
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Scalar = 0) -> Tensor:
    """More elements around the last axes: (before, after) of the last axis, then of the one before,
    and so on; negative numbers cut."""
    return input.pad(pad, value)


@takes_tensors
def real(input: Tensor) -> Tensor:
    """The real parts of a complex tensor; a real tensor itself."""
    return input


@making
def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: DTypeLike | None = None,
                  device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose values do not matter, in memory with these strides."""
    made = empty(0, dtype=dtype, device=device).new_empty_strided(size, stride)
    return made.requires_grad_() if requires_grad else made


@making
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int],
                   dtype: DTypeLike | None = None, device: str | None = None,
                   requires_grad: bool = False) -> Tensor:
    """A tensor whose values do not matter, whose axes follow each other in memory in this order."""
    shape = shapes.new_shape([size], "empty_permuted")
    order = shapes.sizes([physical_layout], "empty_permuted")
    if sorted(order) != list(range(len(shape))):
        raise ArgumentError(f"empty_permuted: physical_layout={order} for size={shape}; give each "
                            f"of its axes once")
    stride = [math.prod(shape[a] for a in order[order.index(axis) + 1:]) for axis in
              range(len(shape))]
    return empty_strided(shape, stride, dtype, device, requires_grad)
