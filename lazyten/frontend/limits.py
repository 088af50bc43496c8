"""Facts about element types: finfo, iinfo, the default float type, which casts are safe."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core.forms import or_by_form
from lazyten.frontend.core.keywords import also_named, taking_aliases
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node
from lazyten.operators.math import composites
from lazyten.operators.math import elementwise as ew
from lazyten.storage import tracing
from lazyten.support.errors import ComplexError, DTypeError


class finfo:
    """The limits of a float type: bits, eps, max, min, tiny (the least normal number), resolution;
    of a complex one those of its parts."""

    def __init__(self, dtype: DTypeLike | None = None) -> None:
        kind = dt.default_float if dtype is None else dt.as_dtype(dtype)
        kind = kind.component if kind.is_complex else kind
        if not kind.is_float:
            raise DTypeError(f"finfo of {kind.name}: it is for floats; use iinfo")
        least_exponent = {"float8_e4m3fn": -6, "float8_e5m2": -14, "float16": -14,
                          "float64": -1022}.get(kind.name, -126)
        self.dtype, self.bits = kind.name, kind.bits
        self.eps = 2.0 ** (1 - kind.significand_bits)
        self.max = composites.largest(kind)
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** least_exponent
        digits = {"float16": 3, "bfloat16": 2, "float32": 6, "float64": 15}.get(kind.name, 0)
        self.resolution = 10.0 ** -digits

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
                f"eps={self.eps:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """The limits of an integer type: bits, max, min."""

    def __init__(self, dtype: DTypeLike) -> None:
        kind = dt.as_dtype(dtype)
        if not kind.is_int:
            raise DTypeError(f"iinfo of {kind.name}: it is for integers; use finfo")
        self.dtype, self.bits = kind.name, kind.bits
        self.max, self.min = int(kind.max), int(kind.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def get_default_dtype() -> DType:
    """The type that Python floats become; float32 at first."""
    return dt.default_float


def set_default_dtype(dtype: DTypeLike) -> None:
    """Make tensors of Python floats, and new tensors without a dtype, be of another float type."""
    kind = dt.as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"set_default_dtype({kind.name}): it must be a float type")
    tracing.refuse("set_default_dtype", "call it before the jitted function")
    dt.default_float = kind


def can_cast(from_: DTypeLike, to: DTypeLike) -> bool:
    """Whether a result of type `from_` may be written to a tensor of type `to`: a float not to
    integers, and nothing but bool to bool."""
    return dt.category(dt.as_dtype(from_)) <= dt.category(dt.as_dtype(to))


@or_by_form
@taking_aliases
@also_named(tensor="a", other="b", scalar="b", scalar1="a", scalar2="b")
def result_type(a: Tensor | Scalar, b: Tensor | Scalar) -> DType:
    """The dtype that an operation of two tensors or numbers gives."""
    operands: list[Node | Scalar] = [_operand(v) for v in (a, b)]
    return ew.result_type(operands)


def _operand(value: Any) -> Node | Scalar:
    if isinstance(value, Tensor):
        return value.node
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, complex):
        raise ComplexError
    raise DTypeError(f"result_type: {value!r:.40} is not a tensor or a number")
