"""Products of complex matrices and tensors: products of their parts, added up."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.frontend import array_functions, functions
from lazyten.frontend.complexes.computing import Pair, carry_out, form, rule
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import FORMS
from lazyten.operators.arrays import products
from lazyten.support.errors import DTypeError, ShapeError, not_complex


def of_products(multiply: Callable[[Any, Any], Any], a: Pair, b: Pair) -> Pair:
    """What a bilinear product makes of the parts of two values."""
    real, imag = multiply(a.real, b.real), None
    if a.imag is not None and b.imag is not None:
        real = real - multiply(a.imag, b.imag)
    if b.imag is not None:
        imag = multiply(a.real, b.imag)
    if a.imag is not None:
        other = multiply(a.imag, b.real)
        imag = other if imag is None else imag + other
    return Pair(real, imag)


METHODS = ("matmul", "mm", "bmm", "mv", "dot", "outer", "inner", "kron", "tensordot")


@rule
def bilinear(a: Pair, b: Pair, name: str, *others: Any) -> Pair:
    """A product that is a method of tensors."""
    def multiply(x: Any, y: Any) -> Any:
        return getattr(x, name)(y, *others)
    return of_products(multiply, a, b)


def _product(name: str) -> Any:
    def multiplied(self: Any, other: Any, *others: Any, **named: Any) -> Any:
        if named and name != "tensordot":
            raise not_complex(f"{name} with {', '.join(named)}")
        for x in (self, other):
            if np.isscalar(x):
                raise DTypeError(f"{name} of {x!r:.40}: both operands are tensors; multiply by a "
                                 f"number with *")
        return carry_out("bilinear", self, other, others=(name, *others, *named.values()),
                         called=name)
    return multiplied


for _name in METHODS:
    form(_name)(_product(_name))
form("__matmul__")(_product("matmul"))
form("ger")(_product("outer"))
form("linalg.matmul")(_product("matmul"))


@form("__rmatmul__")
def _rmatmul(self: Any, other: Any) -> Any:
    return _product("matmul")(other, self)


@form("matrix_power")
def _matrix_power(self: Any, n: Any) -> Any:
    times = products.matrix_exponent(self.shape, n)
    if not times:
        return self.real.matrix_power(0).to(dtype=self.dtype)
    return products.raised(self.inverse() if times < 0 else self, abs(times), operator.matmul)


@form("vdot")
def _vdot(self: Any, other: Any) -> Any:
    return _product("dot")(carry_out("conj", self) if isinstance(self, ComplexTensor) else self,
                           other)


@form("cov")
def _cov(self: Any, **named: Any) -> Any:
    """From the covariances of all parts: of z and w the mean of z times w conjugated."""
    if self.ndim > 2:
        raise ShapeError(f"cov of shape {self.shape}: give a matrix with a row for each variable")
    rows = self if self.ndim == 2 else self.reshape(1, -1)
    n = rows.shape[0]
    parts = functions.cat([rows.real, rows.imag]).cov(**named)
    found = carry_out("put_together", parts[:n, :n] + parts[n:, n:], parts[n:, :n] - parts[:n, n:])
    return found if n > 1 else found.reshape(())


@form("corrcoef")
def _corrcoef(self: Any) -> Any:
    found = _cov(self)
    if not found.ndim:
        return found / found
    deviations = found.diagonal().real.sqrt()
    found = found / deviations[:, None] / deviations
    return carry_out("put_together", found.real.clamp(-1, 1), found.imag.clamp(-1, 1))


@form("vander")
def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    count = array_functions.columns_of_powers(x, N)
    powers = [functions.ones_like(x)]
    while len(powers) < count:
        powers.append(powers[-1] * x)
    found = functions.stack(powers, 1)[:, :count]
    return found if increasing else found.flip(1)


@form("cross", "linalg.cross")
def _cross(input: Any, other: Any, dim: int = -1) -> Any:
    return carry_out("bilinear", input, other, others=("cross", dim), called="cross")


@form("linalg.vecdot")
def _vecdot(x: Any, y: Any, dim: int = -1) -> Any:
    return (FORMS["conj"](x) * y if isinstance(x, ComplexTensor) else x * y).sum(dim)


@rule
def linear_map(input: Pair, weight: Pair) -> Pair:
    """Rows by a matrix that is transposed."""
    return of_products(lambda x, w: x @ (w.T if w.ndim == 2 else w), input, weight)


@form("nn.linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    found = carry_out("linear_map", input, weight)
    return found if bias is None else found + bias


@rule
def einsum(*values: Any) -> Pair:
    """A sum of products of two values, or of one; the last is the equation."""
    *given, equation = values
    if len(given) == 1:
        one = given[0]
        return Pair(functions.einsum(equation, one.real), functions.einsum(equation, one.imag))
    return of_products(lambda x, y: functions.einsum(equation, x, y), *given)


@form("einsum")
def _einsum(equation: Any, *operands: Any) -> Any:
    if not isinstance(equation, str):
        equation, operands = products.equation_of((equation, *operands))
    one = len(operands) == 1 and isinstance(operands[0], list | tuple)
    tensors = list(operands[0] if one else operands)
    if len(tensors) <= 2:
        return carry_out("einsum", *tensors, others=(equation,))
    left, right = _terms(equation)
    while len(tensors) > 2:  # the first two, keeping what others or the result name
        rest = "".join(left[2:]) + right
        kept = "".join(dict.fromkeys(c for c in left[0] + left[1] if c in rest))
        joined = functions.einsum(f"{left[0]},{left[1]}->{kept}", tensors[0], tensors[1])
        tensors, left = [joined, *tensors[2:]], [kept, *left[2:]]
    return functions.einsum(f"{left[0]},{left[1]}->{right}", *tensors)


def _terms(equation: str) -> tuple[list[str], str]:
    """The terms of an equation, and of its result. ComplexError for '...', of three operands."""
    text = equation.replace(" ", "")
    if "." in text:
        raise not_complex("einsum of three operands with '...'")
    left, arrow, right = text.partition("->")
    if not arrow:
        right = "".join(sorted(c for c in set(left) if c != "," and left.count(c) == 1))
    return left.split(","), right


@form("addmm", "baddbmm", "addmv")
def _addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    found = _product("matmul")(mat1, mat2)
    found = found if alpha == 1 else found * alpha
    return found if beta == 0 else found + self * beta


@form("addr")
def _addr(self: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _addmm(self, vec1.unsqueeze(1), vec2.unsqueeze(0), beta=beta, alpha=alpha)


@form("addbmm")
def _addbmm(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _addmm(self, batch1.movedim(0, 1).flatten(1), batch2.flatten(0, 1), beta=beta,
                  alpha=alpha)


@form("addcmul")
def _addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    return self + value * (tensor1 * tensor2)


@form("addcdiv")
def _addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    return self + value * (tensor1 / tensor2)


@form("lerp")
def _lerp(self: Any, end: Any, weight: Any) -> Any:
    return self + weight * (end - self)


