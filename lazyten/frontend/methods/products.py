"""Products of vectors and matrices, as methods."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from lazyten.frontend.core.functions import combined
from lazyten.frontend.core.handle import Handle
from lazyten.frontend.core.in_place import in_place
from lazyten.frontend.core.keywords import also_named, numbers_among
from lazyten.frontend.core.mixed_precision import LOW, casting
from lazyten.frontend.core.overriding import overridable
from lazyten.frontend.core.tensor_core import TensorCore
from lazyten.frontend.methods.views import ViewMethods
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.operators.arrays import products, strided, windows
from lazyten.operators.arrays.indexing import apply
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

Tensor = TypeVar("Tensor", bound="ProductMethods[Any]")


class ProductMethods(ViewMethods[Tensor]):
    """Products of vectors and matrices."""

    __slots__ = ()

    @casting(LOW)
    def matmul(self, other: Any) -> Tensor:
        """The matrix product of the last two axes, the others broadcast: (.., n, k) and (.., k, m)
        give (.., n, m). A vector of k counts as a row before it, and as a column behind; that axis
        is then gone. ShapeError unless both have the same k."""
        right = self._operand(other, "matmul")
        if not isinstance(right, Handle):
            raise DTypeError(f"matmul of a tensor and the number {right!r}: multiply with *")
        return self._result(windows.matmul(self.node, right.node), self, right)

    __matmul__ = matmul

    def __rmatmul__(self, other: Any) -> Tensor:
        left = self._operand(other, "matmul")
        if not isinstance(left, Handle):
            raise DTypeError(f"matmul of the number {left!r} and a tensor: multiply with *")
        product: Tensor = left.matmul(self)
        return product

    @also_named(tensor="other")
    def dot(self, other: Tensor) -> Tensor:
        """The sum of products of two vectors of one length."""
        self._tensor(other, "dot")
        if self.ndim != 1 or self.shape != other.shape:
            raise ShapeError(f"dot of shapes {self.shape} and {other.shape}: both must have one "
                             f"axis, of one size; use matmul")
        return self._binary("dot", windows.matmul, other)

    @casting(LOW)
    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices."""
        return _product(self, mat2, "mm", 2, 2)

    @casting(LOW)
    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of two batches of matrices: (b, m, k) and (b, k, n)."""
        other = self._tensor(mat2, "bmm")
        if self.ndim == other.ndim == 3 and self.shape[0] != other.shape[0]:
            raise ShapeError(f"bmm of shapes {self.shape} and {other.shape}: the batches, axis 0, "
                             f"must be equal; use matmul to broadcast")
        return _product(self, other, "bmm", 3, 3)

    @casting(LOW)
    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector."""
        return _product(self, vec, "mv", 2, 1)

    def outer(self, vec2: Tensor) -> Tensor:
        """Every element of a vector times every one of another."""
        other = self._tensor(vec2, "outer")
        if self.ndim != 1 or other.ndim != 1:
            raise ShapeError(f"outer of shapes {self.shape} and {other.shape}: both must have one "
                             f"axis; flatten() them")
        flat = combined(self, "outer", products.kron, other)
        table: Tensor = flat._reshaped((self.shape[0], other.shape[0]))
        return table

    ger = outer

    def inner(self, other: Tensor) -> Tensor:
        """Sums of products over the last axes; of a number, its product."""
        right = self._tensor(other, "inner")
        if not self.shape or not right.shape:
            return combined(self, "inner", ew.mul, right)
        return combined(self, "inner", lambda a, b: products.tensordot(
            a, b, [len(a.shape) - 1], [len(b.shape) - 1]), right)

    def vdot(self, other: Tensor) -> Tensor:
        """The sum of products of two vectors."""
        if self.ndim != 1 or self._tensor(other, "vdot").ndim != 1:
            raise ShapeError(f"vdot of shapes {self.shape} and {other.shape}: both must have one "
                             f"axis; use matmul")
        return combined(self, "vdot", windows.matmul, other)

    @casting(LOW)
    @numbers_among("beta", "alpha")
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
        """beta * self + alpha * (mat1 @ mat2), of matrices."""
        return _plus_product(self, mat1, mat2, "addmm", (2, 2), beta, alpha)

    addmm_ = in_place(addmm)

    @casting(LOW)
    @numbers_among("beta", "alpha")
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
        """beta * self + alpha * (mat @ vec)."""
        return _plus_product(self, mat, vec, "addmv", (2, 1), beta, alpha)

    addmv_ = in_place(addmv)

    @casting(LOW)
    @numbers_among("beta", "alpha")
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1,
                alpha: Scalar = 1) -> Tensor:
        """beta * self + alpha * (batch1 @ batch2), of batches of matrices."""
        return _plus_product(self, batch1, batch2, "baddbmm", (3, 3), beta, alpha)

    baddbmm_ = in_place(baddbmm)

    @numbers_among("beta", "alpha")
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
        """beta * self + alpha * outer(vec1, vec2)."""
        left, right = self._tensor(vec1, "addr"), self._tensor(vec2, "addr")
        if left.ndim != 1 or right.ndim != 1:
            raise ShapeError(f"addr of shapes {left.shape} and {right.shape}: both must have one "
                             f"axis; flatten() them")
        return _plus_product(self, left._reshaped((left.numel(), 1)),
                             right._reshaped((1, right.numel())), "addr", (2, 2), beta, alpha)

    addr_ = in_place(addr)

    @numbers_among("beta", "alpha")
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1,
               alpha: Scalar = 1) -> Tensor:
        """beta * self + alpha * the sum of batch1 @ batch2 over the batch."""
        each = _product(self._tensor(batch1, "addbmm"), batch2, "addbmm", 3, 3)
        total: Tensor = each._unary(lambda x: reductions.sum(x, (0,), dtype=x.dtype))
        number, other = _factors(self, alpha, beta, "addbmm")
        part: Tensor = total if number == 1 else total._unary(lambda x: ew.mul(x, number))
        if other == 0:
            return part
        return combined(self, "addbmm", lambda x, y: ew.add(
            x if other == 1 else ew.mul(x, other), y), part)

    addbmm_ = in_place(addbmm)

    def matrix_power(self, n: int) -> Tensor:
        """Each matrix in the last two axes times itself, n times; of its inverse for n < 0."""
        times = products.matrix_exponent(self.shape, n)
        if times < 0:
            inverse: Any = self
            inverse = inverse.inverse()
            return cast("Tensor", inverse.matrix_power(-times))
        return self._unary(lambda x: products.power(x, times))

    def cov(self, *, correction: int = 1, fweights: Tensor | None = None,
            aweights: Tensor | None = None) -> Tensor:
        """The covariances of the rows of a matrix: each column is an observation. fweights: how
        often each was seen, in whole numbers; aweights: how much each counts."""
        number = float(shapes.as_number(correction, "cov", "correction"))
        if fweights is not None and not self._tensor(fweights, "cov").dtype.is_int:
            raise DTypeError(f"cov: fweights of {fweights.dtype.name} are how often each "
                             f"observation was seen; give whole numbers, or use aweights")
        if aweights is not None and not self._tensor(aweights, "cov").dtype.is_float:
            raise DTypeError(f"cov: aweights of {aweights.dtype.name} are how much each "
                             f"observation counts; give floats, or use fweights")
        given = [None if w is None else self._tensor(w, "cov") for w in (fweights, aweights)]
        nodes = [None if w is None else w.node for w in given]
        return self._given(products.covariance(self.node, number, *nodes),
                           *[w for w in given if w is not None])

    def corrcoef(self) -> Tensor:
        """The correlations of the rows of a matrix: each column is an observation."""
        return self._unary(products.correlation)

    def adjoint(self) -> Tensor:
        """The last two axes exchanged; a view. A zero-dim tensor is itself."""
        if not self.shape:
            return self._same()
        if self.ndim < 2:
            raise ShapeError(f"adjoint of shape {self.shape}: it needs at least 2 axes")
        order = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return self._moved((Op.PERMUTE, order))

    @property
    def mH(self) -> Tensor:
        """The last two axes exchanged; a view."""
        return self.adjoint()

    @property
    @overridable
    def H(self) -> Tensor:
        """A matrix transposed."""
        if self.ndim not in (0, 2):
            raise ShapeError(f"H of shape {self.shape}: it is for 2 axes; use mH")
        return self.adjoint()

    def kron(self, other: Tensor) -> Tensor:
        """Each element times all of `other`, side by side."""
        return combined(self, "kron", products.kron, self._tensor(other, "kron"))

    def cross(self, other: Tensor, dim: int | None = None) -> Tensor:
        """The vector product along an axis of size 3: the first one, unless dim says which. (That
        of `linalg.cross` is the last.)"""
        right = self._tensor(other, "cross")
        return combined(self, "cross", lambda a, b: products.cross(a, b, dim), right)

    @casting(LOW)
    @also_named(a="self", b="other")
    def tensordot(self, other: Tensor, dims: Any = 2) -> Tensor:
        """Sums of products over the last `dims` axes and the first of `other`, or over the pairs of
        two lists of axes."""
        right = self._tensor(other, "tensordot")
        first, second = _pairs(self.ndim, right.ndim, dims)
        return combined(self, "tensordot", lambda a, b: products.tensordot(a, b, first, second),
                        right)

    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise ShapeError(f"trace of shape {self.shape}: it is for 2 axes; use diagonal().sum()")
        return self._unary(lambda x: reductions.sum(
            apply(strided.diagonal(x.shape, 0, 0, 1), x), (0,)))

    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix with this vector on a diagonal; of a matrix, a copy of the diagonal."""
        number = shapes.as_int(diagonal, "diag", "the diagonal")
        if self.ndim == 1:
            return self._unary(lambda x: products.diagonal_matrix(x, number))
        if self.ndim != 2:
            raise ShapeError(f"diag of shape {self.shape}: it is for 1 or 2 axes; use diagonal() "
                             f"or diag_embed()")
        return self._unary(lambda x: apply(strided.diagonal(x.shape, number, 0, 1), x))

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Matrices in axes dim1 and dim2 of the result, with the last axis on a diagonal."""
        if not self.shape:
            raise ShapeError("diag_embed of a zero-dim tensor: it needs at least 1 axis")
        number = shapes.as_int(offset, "diag_embed", "the offset")
        first, second = [shapes.axis(a, self.ndim + 1, "diag_embed") for a in (dim1, dim2)]
        if first == second:
            raise ArgumentError(f"diag_embed: both axes are {first}; name two")
        made: ViewMethods[Tensor] = self._unary(lambda x: products.diagonal_matrix(x, number))
        return made.movedim((-2, -1), (first, second))


def _product(a: TensorCore[Tensor], b: Any, operation: str, left: int, right: int) -> Tensor:
    other = a._tensor(b, operation)
    if a.ndim != left or other.ndim != right:
        raise ShapeError(f"{operation} of shapes {a.shape} and {other.shape}: it is for {left} and "
                         f"{right} axes; use matmul")
    return combined(a, operation, windows.matmul, other)


def _factors(x: TensorCore[Tensor], alpha: Scalar, beta: Scalar,
             operation: str) -> tuple[Scalar, Scalar]:
    first, second = [shapes.as_number(v, operation, "alpha and beta") for v in (alpha, beta)]
    if not x.dtype.is_float and not (isinstance(first, int) and isinstance(second, int)):
        raise DTypeError(f"{operation} of {x.dtype.name} with alpha={alpha} and beta={beta}: "
                         f"integers need whole numbers; convert with .float()")
    return first, second


def _plus_product(x: TensorCore[Tensor], a: Any, b: Any, operation: str, ranks: tuple[int, int],
                  beta: Scalar, alpha: Scalar) -> Tensor:
    left, right = x._tensor(a, operation), x._tensor(b, operation)
    if (left.ndim, right.ndim) != ranks:
        raise ShapeError(f"{operation} of a product of shapes {left.shape} and {right.shape}: it "
                         f"is for {ranks[0]} and {ranks[1]} axes; use matmul")
    factors = _factors(x, alpha, beta, operation)

    def added(base: Node, first: Node, second: Node) -> Node:
        product = windows.matmul(first, second)
        product = product if factors[0] == 1 else ew.mul(product, factors[0])
        if shapes.broadcast([base.shape, product.shape], operation) != product.shape:
            raise ShapeError(f"{operation} of shape {base.shape} and a product of shape "
                             f"{product.shape}: the first must broadcast to it")
        if factors[1] == 0:  # NaN in what is not used does not count
            return product
        return ew.add(base if factors[1] == 1 else ew.mul(base, factors[1]), product)

    return combined(x, operation, lambda *nodes: ew.together(operation, added, *nodes), left, right)


def _pairs(left: int, right: int, dims: Any) -> tuple[Sequence[int], Sequence[int]]:
    if isinstance(dims, int):
        if not 0 <= dims <= min(left, right):
            raise ArgumentError(f"tensordot over {dims} axes of tensors of {left} and {right}; "
                                f"give 0 to {min(left, right)}")
        return range(left - dims, left), range(dims)
    given = dims.tolist() if hasattr(dims, "tolist") else dims
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(
            isinstance(axes, list | tuple | range) for axes in given):
        raise ArgumentError(f"tensordot: dims={dims!r:.60}; give a number, or two lists of axes")
    first, second = ([shapes.axis(a, rank, "tensordot") for a in axes]
                     for axes, rank in zip(given, (left, right), strict=True))
    if len(first) != len(second) or len(set(first)) != len(first) or (
            len(set(second)) != len(second)):
        raise ArgumentError(f"tensordot: dims={dims!r}; give two lists of as many axes, each once")
    return first, second
