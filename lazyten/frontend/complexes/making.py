"""Complex tensors of other things: parts, lengths and angles, numbers and arrays; and new ones."""
from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from lazyten.frontend import functions, interop, random_functions
from lazyten.frontend.arguments import takes_out, takes_tensors
from lazyten.frontend.complexes.computing import Pair, carry_out, form, from_array, rule
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.core.handle import DTypeLike
from lazyten.frontend.core.keywords import MemoryFormat, preserve_format
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.operators.math import shapes
from lazyten.storage import data as _data
from lazyten.storage.placement import placed
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError, not_complex


@rule
def put_side_by_side(a: Pair, b: Pair) -> Pair:
    """Real numbers as parts."""
    return Pair(a.real, b.real)


@rule
def turned(size: Pair, at: Pair) -> Pair:
    """A length at an angle."""
    return Pair(size.real * at.real.cos(), size.real * at.real.sin())


@takes_out
def complex(real: Tensor, imag: Tensor) -> ComplexTensor:
    """The complex tensor of these real and imaginary parts, of one float type."""
    _check_parts(real, imag, "complex")
    found: ComplexTensor = carry_out("put_side_by_side", real, imag, called="complex")
    return found


@takes_out
def polar(abs: Tensor, angle: Tensor) -> ComplexTensor:
    """The complex tensor of these lengths and angles, of one float type."""
    _check_parts(abs, angle, "polar")
    found: ComplexTensor = carry_out("turned", abs, angle, called="polar")
    return found


def _check_parts(a: object, b: object, operation: str) -> None:
    for x in (a, b):
        if not isinstance(x, Tensor) or isinstance(x, ComplexTensor):
            raise DTypeError(f"{operation} of {type(x).__name__} {x!r:.40}: give two real tensors")
        if x.dtype not in dt.COMPLEX:
            raise DTypeError(f"{operation} of {x.dtype.name}: parts are float32 or float64; "
                             f"convert first, for example with .float()")
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    if a.dtype is not b.dtype:
        raise DTypeError(f"{operation} of {a.dtype.name} and {b.dtype.name}: both parts are of one "
                         f"type; convert one")


def view_as_complex(input: Tensor) -> ComplexTensor:
    """The complex numbers whose two parts are in the last axis, of size 2; a view."""
    if not isinstance(input, Tensor) or isinstance(input, ComplexTensor) \
            or input.dtype not in dt.COMPLEX:
        what = input.dtype.name if isinstance(input, Tensor) else type(input).__name__
        raise DTypeError(f"view_as_complex of {what}: give a tensor of float32 or float64")
    if not input.ndim or input.shape[-1] != 2:
        raise ShapeError(f"view_as_complex of shape {input.shape}: the last axis has the two parts "
                         f"of each number, so its size is 2")
    return of_parts(input[...])


def view_as_real(input: ComplexTensor) -> Tensor:
    """The two parts of each number, in a new last axis; a view."""
    if not isinstance(input, ComplexTensor):
        raise DTypeError(f"view_as_real of {getattr(input, 'dtype', type(input).__name__)}: it is "
                         f"not complex")
    return input._parts[...]


@takes_tensors
def imag(input: Tensor) -> Tensor:
    """The imaginary parts of a complex tensor; a view."""
    raise DTypeError(f"imag of {input.dtype.name}: it has no imaginary parts")


# ---- functions that make tensors, of a complex dtype ---------------------------------------------

def _kind(dtype: Any, default: DType | None = None) -> DType:
    kind = default if dtype is None else dt.as_dtype(dtype)
    return dt.complex_of(dt.default_float) if kind is None else kind


def _new(parts: Tensor, requires_grad: bool) -> ComplexTensor:
    found = of_parts(parts)
    return found.requires_grad_() if requires_grad else found


def _number(value: Any, kind: DType) -> Any:
    """A value as a number of Python. DTypeError for what is none."""
    if isinstance(value, Tensor):
        value = value.item()
    if not isinstance(value, int | float | builtins.complex | np.number):
        raise DTypeError(f"{value!r:.40} is no number that {kind.name} can be")
    return np.asarray(value).astype(kind.numpy).item()


@form("tensor")
def _tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None,
            requires_grad: bool = False) -> Any:
    if isinstance(data, ComplexTensor):
        found = data.detach().clone().to(dtype=dtype or data.dtype, device=placed(device))
        return found.requires_grad_() if requires_grad else found
    if isinstance(data, Tensor):
        data = data.detach().numpy()
    if dtype is not None and not dt.as_dtype(dtype).is_complex:
        raise DTypeError(f"tensor of complex numbers with dtype={dt.as_dtype(dtype).name}: the "
                         f"imaginary parts would be lost; give their .real")
    array, kind = _data.to_array(data, dt.default_float)
    found = from_array(array, placed(device), _kind(dtype, kind))
    return found.requires_grad_() if requires_grad else found


@form("as_tensor")
def _as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Any:
    if isinstance(data, ComplexTensor):
        return data.to(dtype=dtype or data.dtype, device=device)
    if isinstance(data, np.ndarray) and _is_shareable(data):
        shared = _from_numpy(data)
        return shared.to(dtype=dtype or shared.dtype, device=device)
    return _tensor(data, dtype, device)


@form("new_tensor")
def _new_tensor(self: Any, data: Any, dtype: DTypeLike | None = None, device: str | None = None,
                requires_grad: bool = False) -> Any:
    return functions.tensor(data, _kind(dtype, self.dtype), device or self.device, requires_grad)


def _is_shareable(array: Any) -> bool:
    """Whether the numbers of a complex array lie as those of a complex tensor."""
    return array.dtype in (np.complex64, np.complex128) and bool(array.flags.c_contiguous)


@form("from_numpy")
def _from_numpy(array: Any) -> Any:
    if not _is_shareable(array):
        raise DTypeError(f"from_numpy of {array.dtype} {array.shape}: complex arrays are shared "
                         f"where they are of complex64 or complex128, in row-major order; use "
                         f"tensor()")
    part = np.float32 if array.dtype == np.complex64 else np.float64
    return of_parts(interop.from_numpy(array.reshape(*array.shape, 1).view(part)))


@form("__dlpack_device__")
def _dlpack_device(self: Any) -> Any:
    return self._parts.__dlpack_device__()


@form("__dlpack__")
def _dlpack(self: Any, *, max_version: Any = None, copy: bool | None = None,
            **options: Any) -> Any:
    parts = interop.Capsule(self._parts.__dlpack__(copy=copy, **options))
    array = np.ascontiguousarray(np.from_dlpack(parts)).view(self.dtype.numpy)
    return array.reshape(self.shape).__dlpack__(max_version=max_version)


@form("zeros", "empty")
def _zeros(*size: Any, dtype: Any = None, device: str | None = None,
           requires_grad: bool = False) -> Any:
    return _new(functions.zeros((*shapes.new_shape(size, "zeros"), 2), dtype=_kind(dtype).component,
                                device=device), requires_grad)


@form("ones")
def _ones(*size: Any, dtype: Any = None, device: str | None = None,
          requires_grad: bool = False) -> Any:
    return _full(shapes.new_shape(size, "ones"), 1, dtype, device, requires_grad)


@form("full")
def _full(size: Any, fill_value: Any, dtype: Any = None, device: str | None = None,
          requires_grad: bool = False) -> Any:
    kind = _kind(dtype)
    if not kind.is_complex:
        raise DTypeError(f"full of {fill_value!r} with dtype={kind.name}: it is complex")
    value = _number(fill_value, kind)
    shape = shapes.new_shape([size], "full")
    parts = [functions.full(shape, part, dtype=kind.component, device=device)
             for part in (value.real, value.imag)]
    return _new(functions.stack(parts, -1), requires_grad)


@form("full_like")
def _full_like(input: Any, fill_value: Any, dtype: Any = None, device: str | None = None,
               requires_grad: bool = False) -> Any:
    kind = _kind(dtype, input.dtype)
    where = device or input.device
    if not kind.is_complex:
        return functions.full(input.shape, fill_value, kind, where, requires_grad)
    return _full(input.shape, fill_value, kind, where, requires_grad)


@form("zeros_like", "empty_like", "new_empty_like")
def _zeros_like(input: Any, dtype: Any = None, device: str | None = None,
                requires_grad: bool = False) -> Any:
    return _full_like(input, 0, dtype, device, requires_grad)


@form("ones_like")
def _ones_like(input: Any, dtype: Any = None, device: str | None = None,
               requires_grad: bool = False) -> Any:
    return _full_like(input, 1, dtype, device, requires_grad)


@form("new_zeros", "new_empty")
def _new_zeros(self: Any, *size: Any, dtype: Any = None, device: str | None = None,
               requires_grad: bool = False) -> Any:
    return _new_full(self, shapes.new_shape(size, "new_zeros"), 0, dtype, device, requires_grad)


@form("new_ones")
def _new_ones(self: Any, *size: Any, dtype: Any = None, device: str | None = None,
              requires_grad: bool = False) -> Any:
    return _new_full(self, shapes.new_shape(size, "new_ones"), 1, dtype, device, requires_grad)


@form("new_full")
def _new_full(self: Any, size: Any, fill_value: Any, dtype: Any = None,
              device: str | None = None, requires_grad: bool = False) -> Any:
    kind, where = _kind(dtype, self.dtype), device or self.device
    make = _full if kind.is_complex else functions.full
    return make(size, fill_value, kind, where, requires_grad)


@form("randn")
def _randn(*size: Any, dtype: Any = None, device: str | None = None, generator: Any = None,
           requires_grad: bool = False) -> Any:
    """Of variance 1: each part of 1/2."""
    shape = (*shapes.new_shape(size, "randn"), 2)
    parts = random_functions.randn(shape, dtype=_kind(dtype).component, device=device,
                                   generator=generator)
    return _new(parts * math.sqrt(0.5), requires_grad)


@form("rand")
def _rand(*size: Any, dtype: Any = None, device: str | None = None, generator: Any = None,
          requires_grad: bool = False) -> Any:
    shape = (*shapes.new_shape(size, "rand"), 2)
    parts = random_functions.rand(shape, dtype=_kind(dtype).component, device=device,
                                  generator=generator)
    return _new(parts, requires_grad)


@form("randn_like")
def _randn_like(input: Any, dtype: Any = None, device: str | None = None, generator: Any = None,
                requires_grad: bool = False) -> Any:
    return random_functions.randn(input.shape, dtype=dtype or input.dtype,
                                  device=device or input.device, generator=generator,
                                  requires_grad=requires_grad)


@form("normal_")
def _normal(self: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """In place, of variance std ** 2, of which each part has half."""
    if not isinstance(std, int | float) or std < 0:
        raise ArgumentError(f"normal_: std={std!r:.40}; give a number, 0 or more")
    found = _randn(self.shape, dtype=self.dtype, device=self.device, generator=generator)
    return self.copy_(found * std + mean)


@form("rand_like")
def _rand_like(input: Any, dtype: Any = None, device: str | None = None, generator: Any = None,
               requires_grad: bool = False) -> Any:
    return random_functions.rand(input.shape, dtype=dtype or input.dtype,
                                 device=device or input.device, generator=generator,
                                 requires_grad=requires_grad)


@form("eye")
def _eye(n: int, m: int | None = None, dtype: Any = None, device: str | None = None,
         requires_grad: bool = False) -> Any:
    kind = _kind(dtype)
    real = functions.eye(n, m, kind.component, device)
    return _new(functions.stack([real, real * 0], -1), requires_grad)


@form("arange", "linspace", "scalar_tensor")
def _no_series(*args: Any, **kwargs: Any) -> Any:
    raise not_complex("a series of numbers with a complex dtype; make it real, and convert with "
                       ".to()")


# ---- to other types ------------------------------------------------------------------------------

@form("type")
def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is None:
        return f"{dt.package()}.Complex{'Float' if self.dtype is dt.complex64 else 'Double'}Tensor"
    return converted(self, dtype)


@form("to", "type_as")
def converted(self: Any, *args: Any, **kwargs: Any) -> Any:
    """A real tensor as a complex one, whose imaginary parts are 0."""
    if isinstance(self, ComplexTensor):
        if args and isinstance(args[0], Tensor):
            args = (args[0].dtype, *args[1:])
        return self.to(*args, **kwargs)
    kind, rest = kwargs.pop("dtype", None), []
    for x in args:
        given = x.dtype if isinstance(x, Tensor) else x
        if isinstance(given, str | bool) or given is None:
            rest.append(x)
        else:
            kind = dt.as_dtype(given)
    moved = self.to(*rest, dtype=dt.as_dtype(kind).component, **kwargs)
    return carry_out("put_side_by_side", moved, 0.0)


@form("cfloat")
def _cfloat(self: Any, memory_format: MemoryFormat = preserve_format) -> Any:
    return self.to(dt.complex64, memory_format=memory_format)


@form("cdouble")
def _cdouble(self: Any, memory_format: MemoryFormat = preserve_format) -> Any:
    return self.to(dt.complex128, memory_format=memory_format)

