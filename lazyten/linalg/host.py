"""Matrices to NumPy and back: what they must be, and what NumPy lacks.

A factorization is one element after the other, which fused kernels are not made for: its values are
a library's work, on the host. So it computes what is pending and ends a trace of lt.jit (the call
goes on in Python); under vmap it is a Function that takes batches, and computes those of all
examples. What is another matrix for each row of a Jacobian is refused.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from lazyten.autograd.for_examples import examples_of
from lazyten.autograd.function_context import FunctionContext
from lazyten.execution.blas import at_most
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.complexes.computing import from_array
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.node import const
from lazyten.storage import levels
from lazyten.storage.placement import has_values
from lazyten.support.errors import DTypeError, LinAlgError, ShapeError, TransformError
from lazyten.support.threads import get_num_threads

P = ParamSpec("P")
R = TypeVar("R")
Array = np.ndarray[Any, Any]
ALONE = 512
"""Up to so many rows threads have less to share than they may wait for each other."""
SMALL = 64
"""Up to so many rows a library's elimination takes less time than rows one by one."""


class BatchedError(TransformError):
    """The values of a matrix are asked for that is another for each row of a Jacobian."""


def values_of(x: Tensor, operation: str) -> Array:
    """The values, in NumPy, or on a device without values an identity of their shape. BatchedError
    where each row of a Jacobian has its own."""
    if not has_values(x.device):
        return _identity(x)
    try:
        return x.detach().numpy()
    except TransformError as error:
        raise BatchedError(f"{operation}: NumPy computes it, of values, and here each row of a "
                           f"Jacobian has its own; compute the rows one by one, by grad(), or "
                           f"jacrev(..., chunk_size=1) around a vmap that takes them") from error


def _identity(x: Tensor) -> Array:
    """What any factorization takes, for its shape."""
    values = np.ones(x.shape, x.dtype.numpy)
    return values if x.ndim < 2 else values * np.eye(*x.shape[-2:], dtype=values.dtype)


def all_values_of(x: Tensor, operation: str) -> Array:
    """`values_of`, under vmap of all examples: for what is decided for all of them together."""
    given = examples_of([x])
    if given is None:
        return values_of(x, operation)
    with levels.outside(given.level):
        return all_values_of(given.args[0], operation)


def is_one_for_many(a: Tensor, b: Tensor) -> bool:
    """Whether b is another for each example of a vmap, and a is not: one inverse is enough."""
    return examples_of([b]) is not None and examples_of([a]) is None


def finite_values_of(x: Tensor, operation: str) -> Array:
    """`values_of`. LinAlgError for NaN and infinity, with which iterations do not converge."""
    values = values_of(x, operation)
    if not np.isfinite(values).all():
        raise LinAlgError(f"{operation}: there is a NaN or an infinity in the matrix; look for the "
                          f"operation it comes from with autograd.detect_anomaly or CHECK=nan")
    return values


def tensor_of(values: Any, like: Tensor) -> Tensor:
    """A tensor of these values where another one is."""
    array = np.asarray(values, order="C")
    return from_array(array, like.device) if array.dtype.kind == "c" else \
        Tensor._copy_of(array, None, like.device)


def info_of(info: Array, like: Tensor) -> Tensor:
    """A tensor of what tells of each matrix whether it failed: most often none has."""
    if info.any():
        return tensor_of(info, like)
    kind = dt.from_numpy(info.dtype)
    return Tensor._of(const(0, kind, info.shape), like.device)


def save(ctx: FunctionContext, *tensors: Tensor) -> None:
    """Keep tensors for backward(), if a gradient may be asked for."""
    if any(ctx.needs_input_grad):
        ctx.save_for_backward(*tensors)


def adjoint(a: Array) -> Array:
    """The last two axes exchanged, conjugated."""
    return np.swapaxes(a, -1, -2).conj()


def takes_matrices(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: `checks_tensors`, for what is written for real and for complex matrices; a
    library has as many threads for them as kernels have, and one for ALONE rows or less."""
    @wraps(function)
    def on_threads(*args: P.args, **kwargs: P.kwargs) -> R:
        rows = max((x.shape[-1] for x in (*args, *kwargs.values())
                    if isinstance(x, Tensor) and x.shape), default=0)
        with at_most(1 if rows <= ALONE else get_num_threads()):
            return function(*args, **kwargs)
    return checks_tensors(on_threads, complex_too=True)


def check_matrix(x: Tensor, operation: str, *, square: bool = False) -> None:
    """ShapeError and DTypeError for what is no (..., m, n) of float32, float64, complex64 or
    complex128."""
    if x.ndim < 2:
        raise ShapeError(f"{operation} of shape {x.shape}: give 2 axes or more, (..., m, n)")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{operation} of shape {x.shape}: the last two axes, {x.shape[-2]} and "
                         f"{x.shape[-1]}, must be equal: it is for square matrices")
    check_floats(x, operation)


def check_floats(x: Tensor, operation: str) -> None:
    """DTypeError unless it is of float32 or float64, or complex."""
    if x.dtype not in dt.COMPLEX and not x.dtype.is_complex:
        raise DTypeError(f"{operation} of {x.dtype.name}: it takes float32 and float64, and "
                         f"complex numbers of these; convert with .float() or .double()")


def check_same_type(a: Tensor, b: Tensor, operation: str) -> None:
    """DTypeError for a pair of different types."""
    if a.dtype is not b.dtype:
        raise DTypeError(f"{operation} of {a.dtype.name} and {b.dtype.name}: convert one of them")


def refuse_failed(info: Array, operation: str, why: str) -> None:
    """LinAlgError for the first matrix of a batch whose `info` is not 0: `why`, of that number."""
    bad = np.argwhere(info)
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        which = f" (matrix {at[0] if len(at) == 1 else at} of the batch)" if at else ""
        raise LinAlgError(f"{operation}{which}: {why.format(int(info[at]))}")


def substituted(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """x of which a @ x is b, for a triangle `a`; what is on its other side is not read."""
    n = a.shape[-1]
    if 0 < n <= SMALL:
        found = _eliminated_in_order(a, b, upper, unit)
        if found is not None:
            return found
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    with np.errstate(all="ignore"):
        for i in range(n - 1, -1, -1) if upper else range(n):
            known = slice(i + 1, n) if upper else slice(i)
            x[..., i:i + 1, :] -= a[..., i:i + 1, known] @ x[..., known, :]
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
    return x


def _eliminated_in_order(a: Array, b: Array, upper: bool, unit: bool) -> Array | None:
    """The same by LAPACK's elimination, which finds nothing to do below the diagonal of an upper
    triangle, nor rows to exchange; a lower one is turned. None for zeros on the diagonal, NaN and
    infinities, with which it would."""
    triangle = np.triu(a) if upper else np.tril(a)[..., ::-1, ::-1]
    if unit:
        diagonal = np.arange(a.shape[-1])
        triangle[..., diagonal, diagonal] = 1
    if not np.isfinite(triangle).all():
        return None
    try:
        x = np.linalg.solve(triangle, b if upper else b[..., ::-1, :])
    except np.linalg.LinAlgError:
        return None
    return x if upper else x[..., ::-1, :]


def eliminated(a: Array) -> tuple[Array, Array, Array]:
    """L and U in one array, the rows that were exchanged, from 1, and `info`: 0, or the first
    i of which U[i - 1, i - 1] is 0. Partial pivoting, as in LAPACK's getf2, which takes the
    magnitudes of both parts of a complex number together for its size."""
    sizes = (lambda x: np.abs(x.real) + np.abs(x.imag)) if a.dtype.kind == "c" else np.abs
    lu, (m, n) = np.array(a), a.shape[-2:]
    flat = lu.reshape(math.prod(a.shape[:-2]), m, n)
    each, k = np.arange(len(flat)), min(m, n)
    pivots, info = np.zeros((len(flat), k), np.int32), np.zeros(len(flat), np.int32)
    with np.errstate(all="ignore"):
        for j in range(k):
            row = j + sizes(flat[:, j:, j]).argmax(1)
            pivots[:, j] = row + 1
            flat[each, j], flat[each, row] = flat[each, row].copy(), flat[each, j].copy()
            zero = flat[:, j, j] == 0
            info[(info == 0) & zero] = j + 1
            below = flat[:, j + 1:, j] / np.where(zero, 1, flat[:, j, j])[:, None]
            flat[:, j + 1:, j] = below
            flat[:, j + 1:, j + 1:] -= below[:, :, None] * flat[:, None, j, j + 1:]
    batch = a.shape[:-2]
    return flat.reshape(a.shape), pivots.reshape(*batch, k), info.reshape(batch)


def permutation(pivots: Array, rows: int) -> Array:
    """P of P L U, of the rows that were exchanged."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1]).astype(np.int64) - 1
    order = np.tile(np.arange(rows), (len(flat), 1))
    each = np.arange(len(flat))
    for j in range(flat.shape[1]):
        other = flat[:, j]
        order[each, j], order[each, other] = order[each, other], order[each, j]
    result = np.zeros((len(flat), rows, rows), np.float64)
    result[each[:, None], order, np.arange(rows)] = 1
    return result.reshape(*pivots.shape[:-1], rows, rows)


def first_zero(rows: Array) -> Array:
    """Of each row of numbers: 0, or the number of the first that is 0, counted from 1."""
    zeros = rows == 0
    found: Array = np.where(zeros.any(-1), zeros.argmax(-1) + 1, 0) if rows.shape[-1] else \
        np.zeros(rows.shape[:-1], np.int64)
    return found


def first_singular(a: Array) -> Array:
    """`info` of `eliminated`."""
    return eliminated(a)[2]


def first_not_positive(a: Array) -> Array:
    """Of each symmetric matrix: 0, or the least i of which the first i rows and columns are not
    positive definite."""
    flat = a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:])
    info = np.zeros(len(flat), np.int32)
    for number, one in enumerate(flat):
        if _is_positive(one):
            continue
        low, high = 0, len(one)  # the first `low` are, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _is_positive(one[:middle, :middle]) else (low, middle)
        info[number] = high
    return info.reshape(a.shape[:-2])


def _is_positive(a: Array) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(a)).all())
    except np.linalg.LinAlgError:
        return False


def exponential(a: Array) -> Array:
    """The matrix exponential, by scaling, a Pade approximant of degree 13, and squaring (N. Higham,
    The scaling and squaring method for the matrix exponential revisited, 2005)."""
    if a.shape[-1] == 0:
        return a
    wide = a.astype(np.result_type(a, np.float64))
    norm = float(np.abs(wide).sum(-2).max(initial=0))
    if not np.isfinite(norm):
        return np.full_like(a, np.nan)
    times = max(0, int(np.ceil(np.log2(norm / 5.371920351148152)))) if norm else 0
    wide = wide / 2.0 ** times
    b = (64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
         129060195264000., 10559470521600., 670442572800., 33522128640., 1323241920., 40840800.,
         960960., 16380., 182., 1.)
    one, two = np.eye(a.shape[-1]), wide @ wide
    four = two @ two
    six = two @ four
    odd = wide @ (six @ (b[13] * six + b[11] * four + b[9] * two)
                  + b[7] * six + b[5] * four + b[3] * two + b[1] * one)
    even = (six @ (b[12] * six + b[10] * four + b[8] * two)
            + b[6] * six + b[4] * four + b[2] * two + b[0] * one)
    result = np.linalg.solve(even - odd, even + odd)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(times):
            result = result @ result
        return result.astype(a.dtype)
