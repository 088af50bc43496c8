"""Element types: what they are called, how wide they are, and how two of them combine.

A leaf module: everything else imports it. Promotion follows PyTorch: categories bool < int < float,
tensors with dimensions outrank zero-dim tensors of the same category, and Python scalars are weak
(they change the category, never the width).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.support.errors import DTypeError

Scalar = bool | int | float


class DType:
    """One element type. Compared with `is`. (No dataclass: libraries take the fields of those for
    parts of a batch.)

    kind: 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 's' a float that is only stored, 'c'
    complex: of tensors alone, no node has it (frontend/complexes/).
    numpy: the NumPy type whose bytes a buffer of this type holds (uint16 for bfloat16).
    compute: the NumPy type that the reference semantics computes in (float32 for narrower floats,
    whose results are then rounded to nearest even).
    itemsize: bytes an element.
    """

    __slots__ = ("__weakref__", "bits", "compute", "itemsize", "kind", "name", "numpy")

    def __init__(self, name: str, kind: str, bits: int, numpy: np.dtype[np.generic],
                 compute: np.dtype[np.generic]) -> None:
        self.name, self.kind, self.bits = name, kind, bits
        self.numpy, self.compute = numpy, compute
        self.itemsize = max(bits // 8, 1)

    @property
    def is_float(self) -> bool:
        return self.kind in "fs"

    @property
    def is_floating_point(self) -> bool:
        """PyTorch's word for it."""
        return self.is_float

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def component(self) -> DType:
        """The type of the two parts of a complex type; itself of any other."""
        return _COMPONENT.get(self, self)

    @property
    def is_signed(self) -> bool:
        return self.kind not in "ub"

    @property
    def is_stored(self) -> bool:
        """An 8-bit float: it is moved and converted, and has no arithmetic."""
        return self.kind == "s"

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer; bool is not one."""
        return self.kind in "iu"

    @property
    def is_half(self) -> bool:
        """A 16-bit float: stored in two bytes, computed in float32."""
        return self.kind == "f" and self.bits == 16

    @property
    def is_narrow(self) -> bool:
        """A float of 8 or 16 bits: kernels decode it to float32."""
        return self.is_float and self.bits < 32

    @property
    def significand_bits(self) -> int:
        """Of a float: how many bits its significand has, the leading one among them."""
        return {"float8_e4m3fn": 4, "float8_e5m2": 3, "float16": 11, "bfloat16": 8,
                "float32": 24, "float64": 53}[self.name]

    @property
    def min(self) -> Scalar:
        """The least value: -inf for floats."""
        if self.is_float:
            return float("-inf")
        if self.kind == "b":
            return False
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def max(self) -> Scalar:
        """The greatest value: inf for floats."""
        if self.is_float:
            return float("inf")
        if self.kind == "b":
            return True
        return (1 << (self.bits - (self.kind == "i"))) - 1

    def __repr__(self) -> str:
        return f"{package()}.{self.name}"

    def __reduce__(self) -> Any:
        return _named, (self.name,)  # of this module, whatever `lazyten run` has the class say

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


def package() -> str:
    """What names of lazyten's begin with where they are printed: `lazyten`, or `torch` where
    that stands in for PyTorch (run.py), and DType says so."""
    return DType.__module__.partition(".")[0]


def _make(name: str, kind: str, bits: int, stored: str, compute: str = "") -> DType:
    return DType(name, kind, bits, np.dtype(stored), np.dtype(compute or stored))


bool_ = _make("bool", "b", 1, "bool")
int8 = _make("int8", "i", 8, "int8")
int16 = _make("int16", "i", 16, "int16")
int32 = _make("int32", "i", 32, "int32")
int64 = _make("int64", "i", 64, "int64")
uint8 = _make("uint8", "u", 8, "uint8")
uint16 = _make("uint16", "u", 16, "uint16")
uint32 = _make("uint32", "u", 32, "uint32")
uint64 = _make("uint64", "u", 64, "uint64")
float8_e4m3fn = _make("float8_e4m3fn", "s", 8, "uint8", "float32")
float8_e5m2 = _make("float8_e5m2", "s", 8, "uint8", "float32")
float16 = _make("float16", "f", 16, "float16", "float32")
bfloat16 = _make("bfloat16", "f", 16, "uint16", "float32")
float32 = _make("float32", "f", 32, "float32")
float64 = _make("float64", "f", 64, "float64")

complex64 = _make("complex64", "c", 64, "complex64")
complex128 = _make("complex128", "c", 128, "complex128")
COMPLEX: dict[DType, DType] = {float32: complex64, float64: complex128}
"""The complex types by that of their parts."""
_COMPONENT = {whole: part for part, whole in COMPLEX.items()}


def _named(name: str) -> DType:
    """What a pickle has of a type."""
    return BY_NAME[name] if name in BY_NAME else next(d for d in _COMPONENT if d.name == name)


INDEX = int64
"""The type of index arithmetic inside kernels."""

ALL: tuple[DType, ...] = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
                          float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64)
BY_NAME: dict[str, DType] = {d.name: d for d in ALL}
"""What nodes and memory are of; complex tensors are pairs of floats there."""
ARITHMETIC: tuple[DType, ...] = tuple(d for d in ALL if not d.is_stored)
FLOATS: tuple[DType, ...] = tuple(d for d in ARITHMETIC if d.is_float)
INTS: tuple[DType, ...] = tuple(d for d in ALL if d.is_int)

_by_numpy: dict[np.dtype[np.generic], DType] = {}
"""Those that were asked for: a name takes NumPy a microsecond."""

default_float = float32
default_int = int64


def from_numpy(dtype: np.dtype[np.generic] | type | str) -> DType:
    """The element type of a NumPy array. Raises DTypeError for what lazyten cannot hold."""
    kind = np.dtype(dtype)
    found = _by_numpy.get(kind)
    if found is None:
        found = BY_NAME.get(kind.name) or next(
            (d for d in COMPLEX.values() if d.numpy == kind), None)
        if found is not None:
            _by_numpy[kind] = found
    if found is None:
        names = np.dtype(dtype).names
        if names:
            raise DTypeError(f"tensor: NumPy type {np.dtype(dtype)} has fields, and a tensor "
                             f"none; give one of them, for example array[{names[0]!r}]")
        raise DTypeError(f"tensor: NumPy type {np.dtype(dtype)} has no lazyten equivalent; convert "
                         f"the array first, for example with .astype('float32'). "
                         f"Types: {', '.join(BY_NAME)}")
    return found


def as_dtype(dtype: DType | str | type | np.dtype[np.generic]) -> DType:
    """Accept a DType, its name, a Python type (as wide as Python's numbers are) or a NumPy type.
    Raises DTypeError otherwise."""
    if isinstance(dtype, DType):
        return dtype
    if dtype is bool:
        return bool_
    if dtype is int:
        return default_int
    if dtype is float:
        return float64
    if dtype is complex:
        return complex128
    if isinstance(dtype, str) and dtype in BY_NAME:
        return BY_NAME[dtype]
    try:
        return from_numpy(dtype)
    except Exception:  # NumPy may ask anything of what it is given
        raise DTypeError(f"dtype {dtype!r:.60} is not an element type; use one of "
                         f"{', '.join(BY_NAME)}") from None


def as_floating(dtype: DType | str | type | np.dtype[np.generic], operation: str) -> DType:
    """What `as_dtype` gives, for the result of an operation that is no whole number. DTypeError for
    a type of those."""
    found = as_dtype(dtype)
    if not found.is_float and not found.is_complex:
        raise DTypeError(f"{operation} with dtype={found.name}: what it gives are floats; pass a "
                         f"float type, and convert the result if you want whole numbers")
    return found


def complex_of(part: DType) -> DType:
    """The complex type whose parts are of a type, or hold what is: complex64, or complex128."""
    return complex128 if part.component is float64 else complex64


def of_scalar(value: Scalar | complex) -> DType:
    """The element type that a Python scalar makes when nothing else decides."""
    if isinstance(value, complex):
        return complex_of(default_float)
    if isinstance(value, bool):
        return bool_
    return default_int if isinstance(value, int) else default_float


_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "s": 2, "c": 3}


def category(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    return _CATEGORY[dtype.kind]


def promote(a: DType, b: DType) -> DType:
    """The type that holds a value of either, by PyTorch's table.

    A float and an integer give the float; two floats the wider (float16 with bfloat16: float32);
    a signed and an unsigned integer the next wider signed one. uint64, uint32 and uint16 with a
    signed type no wider than themselves have no common type in PyTorch; here they give the next
    wider signed type, and int64 for uint64. DTypeError for an 8-bit float and another type.
    """
    if a is b:
        return a
    if a.is_stored or b.is_stored:
        raise DTypeError(f"{a.name} and {b.name} have no common type: 8-bit floats only store "
                         f"numbers; convert first, for example with .float()")
    if a.is_complex or b.is_complex:
        wide = float64 in (a.component, b.component)
        return complex128 if wide else complex64
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if a.is_float:
        if a.bits == b.bits:
            return float32
        return a if a.bits > b.bits else b
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return {8: int16, 16: int32}.get(unsigned.bits, int64)


def promote_types(type1: DType | str | type, type2: DType | str | type) -> DType:
    """`promote` for users: also of names, Python's and NumPy's types."""
    return promote(as_dtype(type1), as_dtype(type2))
