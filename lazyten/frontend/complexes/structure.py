"""Views of complex tensors, and what does the same with each of their parts."""
from __future__ import annotations

from collections.abc import Sequence
from inspect import unwrap
from typing import Any

import numpy as np

from lazyten.frontend import array_functions, functions
from lazyten.frontend.complexes.arithmetic import length, product
from lazyten.frontend.complexes.computing import carry_out, complex_like, form
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts, pairs
from lazyten.frontend.core.forms import FORMS, is_complex
from lazyten.frontend.core.in_place import shown_as
from lazyten.frontend.core.keywords import MemoryFormat, contiguous_format
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType, as_dtype, bool_
from lazyten.operators.math import reductions, shapes
from lazyten.support.errors import DTypeError, ShapeError, not_complex
from lazyten.support.trees import of_kind

# ---- written in terms of views, of real tensors as of complex ones -------------------------------

VIEWS = (
    "reshape", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze", "permute",
    "transpose", "t", "expand", "expand_as", "diagonal", "movedim", "swapaxes", "ravel",
    "tensor_split", "hsplit", "vsplit", "dsplit", "select", "narrow", "split", "split_with_sizes",
    "chunk", "unbind", "unfold")
"""Methods that ask a tensor for its shape, and for a view through some moves."""
SHOWN = ("squeeze", "unsqueeze", "transpose", "t", "swapaxes")
"""Those with a twin by which the tensor itself becomes the view."""

for _name in VIEWS:
    FORMS[_name] = unwrap(getattr(Tensor, _name))
for _name in SHOWN:
    FORMS[f"{_name}_"] = shown_as(FORMS[_name])


def _joining(name: str, function: Any) -> Any:
    """The form of a function of `lazyten` that is written in terms of others that have one."""
    @form(name)
    def composed(*args: Any, **kwargs: Any) -> Any:
        return unwrap(function)(*args, **kwargs)
    return composed


for _name, _function in (("hstack", functions.hstack), ("vstack", functions.vstack),
                         ("dstack", functions.dstack), ("row_stack", functions.vstack),
                         ("atleast_1d", array_functions.atleast_1d),
                         ("atleast_2d", array_functions.atleast_2d),
                         ("atleast_3d", array_functions.atleast_3d),
                         ("broadcast_tensors", functions.broadcast_tensors)):
    _joining(_name, _function)


@form("fft.fftshift")
def _shifted(input: Any, dim: Any = None) -> Any:
    axes = shapes.axes(dim, input.ndim, "fftshift")
    return input.roll([input.shape[a] // 2 for a in axes], axes) if input.shape else input


@form("fft.ifftshift")
def _shifted_back(input: Any, dim: Any = None) -> Any:
    axes = shapes.axes(dim, input.ndim, "ifftshift")
    return input.roll([(input.shape[a] + 1) // 2 for a in axes], axes) if input.shape else input


@form("nn.l1_loss")
def _l1_loss(input: Any, target: Any, *others: Any, **named: Any) -> Any:
    distance = length(input - target)
    reduction = named.pop("reduction", others[-1] if others else "mean")
    if named or len(others) > 1 or reduction not in ("mean", "sum", "none"):
        raise not_complex("l1_loss with these options")
    return distance.mean() if reduction == "mean" else distance.sum() if reduction == "sum" \
        else distance


@form("adjoint")
def adjoint(self: Any) -> Any:
    """The last two axes exchanged, conjugated."""
    return FORMS["conj"](FORMS["transpose"](self, -2, -1)) if self.ndim > 1 \
        else FORMS["conj"](self)


# ---- each part for itself ------------------------------------------------------------------------

LINEAR = (
    "sum", "mean", "cumsum", "flip", "fliplr", "flipud", "roll", "rot90", "tril", "triu", "gather",
    "index_select", "take_along_dim", "take", "diag", "diag_embed", "diagflat", "repeat", "tile",
    "repeat_interleave", "trace", "diff", "index_copy", "scatter_add", "masked_select",
    "select_scatter", "slice_scatter", "diagonal_scatter", "masked_scatter", "block_diag",
    "column_stack", "index_put", "put", "sum_to_size")
"""Operations that do the same with the real and with the imaginary parts, which have no say in one
another: they move elements, and add them up."""


def _each_part(function: Any, name: str) -> Any:
    def both(*args: Any, **kwargs: Any) -> Any:
        like = next((x for x in _tensors(args) if isinstance(x, ComplexTensor)), None)
        kind = kwargs.pop("dtype", None)
        if like is None or kind is not None and not as_dtype(kind).is_complex:
            raise not_complex(f"{name} with a real dtype" if like is not None else name)
        if kind is not None:
            args = tuple([x.to(dtype=kind) if isinstance(x, ComplexTensor) else x for x in args])
        halves = [function(*[_half(x, part) for x in args],
                           **{key: _half(x, part) for key, x in kwargs.items()})
                  for part in (0, 1)]
        return carry_out("put_together", *halves)
    return both


@form("nan_to_num")
def _nan_to_num(input: Any, *others: Any, **named: Any) -> Any:
    return carry_out("put_together", *(half.nan_to_num(*others, **named)
                                       for half in (input.real, input.imag)))


def _tensors(args: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for x in args:
        found += _tensors(x) if isinstance(x, list | tuple) else [x]
    return found


def _half(x: Any, part: int) -> Any:
    """One part of an argument, in which real floats are numbers without the second one."""
    if isinstance(x, ComplexTensor):
        return x._parts[..., part]
    if isinstance(x, complex):
        return x.imag if part else x.real
    if isinstance(x, list | tuple) and is_complex(x):
        return of_kind(type(x), [_half(one, part) for one in x])
    if part and isinstance(x, Tensor) and x.dtype.is_float:
        return x.new_zeros(x.shape)
    return 0.0 if part and type(x) is float else x


for _name in LINEAR:
    _found = getattr(Tensor, _name, None) or getattr(array_functions, _name)
    form(_name)(_each_part(_found, _name))

_index_added = _each_part(Tensor.index_add, "index_add")
_scattered = _each_part(Tensor.scatter, "scatter")


@form("index_add")
def _index_add(self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return _index_added(self, dim, index, source if alpha == 1 else product(source, alpha))


@form("scatter")
def _scatter(self: Any, dim: int, index: Any, src: Any = None, *, value: Any = None,
             reduce: str | None = None) -> Any:
    given = src if value is None else value
    if reduce == "multiply":
        raise not_complex("scatter with reduce='multiply'")
    return _scattered(self, dim, index, _in_two_parts(given), reduce=reduce)


def _in_two_parts(value: Any) -> Any:
    """A number as one that has two parts, where it would be taken for itself in each."""
    return complex(value) if isinstance(value, int | float | np.number) else value


@form("var")
def spread(self: Any, dim: Any = None, *others: Any, **named: Any) -> Any:
    """The variance: that of both parts, added up; real."""
    axes = tuple(range(self.ndim)) if dim is None or dim == () else dim
    return self.real.var(axes, *others, **named) + self.imag.var(axes, *others, **named)


@form("std")
def _std(self: Any, *args: Any, **named: Any) -> Any:
    return spread(self, *args, **named).sqrt()


@form("var_mean")
def _var_mean(self: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False,
              **named: Any) -> Any:
    axes, number = reductions.freedom(dim, correction, named.get("unbiased"), "var_mean")
    return (spread(self, axes, correction=number, keepdim=keepdim),
            self.mean(axes, keepdim=keepdim))


@form("std_mean")
def _std_mean(self: Any, *args: Any, **named: Any) -> Any:
    variance, mean = _var_mean(self, *args, **named)
    return variance.sqrt(), mean


def _of_truth(name: str) -> Any:
    """What an operation does with whether numbers are 0."""
    def found(self: Any, *args: Any, **named: Any) -> Any:
        others = [x != 0 if isinstance(x, ComplexTensor) else x for x in args]
        return getattr(self != 0, name)(*others, **named)
    return found


for _name in ("any", "all", "logical_not", "logical_and", "logical_or", "logical_xor"):
    form(_name)(_of_truth(_name))


@form("nonzero")
def _nonzero(self: Any, *, as_tuple: bool = False) -> Any:
    return (self != 0).nonzero(as_tuple=as_tuple)


@form("count_nonzero")
def _count_nonzero(self: Any, dim: Any = None) -> Any:
    return (self != 0).count_nonzero(dim)


@form("prod")
def _prod(self: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is not None:
        self = self.to(dtype=dtype)
    if dim is not None and not self.ndim:
        shapes.axis(dim, 0, "prod")
        return self.clone()
    line = self.reshape(-1) if dim is None else self.movedim(dim, -1)
    if not line.shape[-1]:
        line = functions.ones((*line.shape[:-1], 1), dtype=line.dtype, device=line.device)
    while line.shape[-1] > 1:  # by halves
        half = line.shape[-1] // 2
        rest = line[..., 2 * half:]
        line = functions.cat([line[..., :half] * line[..., half:2 * half], rest], -1)
    found = line[..., 0]
    return found.unsqueeze(dim) if keepdim and dim is not None else found


@form("cat", "concat", "concatenate")
def joined_along(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The tensors one after another along an axis."""
    found, like = _all_complex(tensors, "cat")
    if len({x.ndim for x in found}) > 1:  # vectors without elements fit to anything
        found = [x for x in found if x.shape != (0,)] or found[:1]
        like = next((x for x in found if isinstance(x, ComplexTensor)), like)
    axis = shapes.axis(dim, like.ndim, "cat")
    return of_parts(functions.cat([pairs(x, like) for x in found], axis))


@form("stack")
def _stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    found, like = _all_complex(tensors, "stack")
    axis = shapes.axis(dim, like.ndim + 1, "stack")
    return of_parts(functions.stack([pairs(x, like) for x in found], axis))


def _all_complex(tensors: Sequence[Any], operation: str) -> tuple[list[Any], ComplexTensor]:
    """Tensors, and one of the type that they have in common."""
    for number, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise DTypeError(f"{operation}: item {number} is {type(x).__name__} {x!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor()")
    kind = complex_like([x if x.ndim else x.unsqueeze(0) for x in tensors])
    first = next(x for x in tensors if isinstance(x, ComplexTensor))
    return list(tensors), ComplexTensor.to(first, dtype=kind)


@form("meshgrid")
def _meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if len({x.dtype for x in given}) > 1:
        raise DTypeError(f"meshgrid of {', '.join(x.dtype.name for x in given)}: they must have "
                         f"one type")
    halves = [functions.meshgrid(*[_half(x, part) for x in given], indexing=indexing)
              for part in (0, 1)]
    return tuple([carry_out("put_together", *both) for both in zip(*halves, strict=True)])


@form("as_strided")
def _as_strided(self: Any, size: Sequence[int], stride: Sequence[int],
                storage_offset: int | None = None) -> Any:
    start = self.storage_offset() if storage_offset is None else storage_offset
    return of_parts(self._parts.as_strided([*size, 2], [*(2 * s for s in stride), 1], 2 * start))


@form("argwhere")
def _argwhere(self: Any) -> Any:
    return (self != 0).argwhere()


_filled = _each_part(Tensor.index_fill, "index_fill")


@form("index_fill")
def _index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    if not isinstance(self, ComplexTensor):
        raise DTypeError(f"index_fill of {self.dtype.name} by a complex number: it does not fit; "
                         f"make the tensor complex first")
    return _filled(self, dim, index, _in_two_parts(value))


@form("numel")
def _numel(input: Any) -> Any:
    return input.numel()


# ---- padding, norms ------------------------------------------------------------------------------

@form("pad")
def padded(input: Any, padding: Sequence[int], value: Any = 0) -> Any:
    """A number around the last axes."""
    if not isinstance(input, ComplexTensor):
        raise DTypeError(f"pad of {input.dtype.name} with {value}: it does not fit; make the "
                         f"tensor complex first")
    found = of_parts(input._parts.pad((0, 0, *padding)))
    if value == 0:
        return found
    inside = functions.ones(input.shape, dtype=bool_, device=input.device).pad(padding)
    return functions.where(inside, found, complex(value))


@form("norm")
def _norm(self: Any, p: Any = 2, dim: Any = None, keepdim: bool = False,
          dtype: Any = None) -> Any:
    if p == "nuc":
        return FORMS["linalg.matrix_norm"](self, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if dtype is not None or isinstance(p, str) and p != "fro":
        raise not_complex(f"norm of the kind {p!r}")
    if p in (2, 2.0, "fro", None):  # of pairs as of numbers
        axes = shapes.axes(dim, self.ndim, "norm") if dim is not None or keepdim else None
        if axes is None:
            return self._parts.norm()
        found = self._parts.norm(2, (*axes, self.ndim), True)
        shape = [n for a, n in enumerate(found.shape[:-1]) if keepdim or a not in axes]
        return found.reshape(shape)
    return length(self).norm(p, dim, keepdim)


@form("nn.vector_norm")
def _norm_of_gradients(x: Any, p: Any, dim: Any, *others: Any, **named: Any) -> Any:
    return _norm(x, p, dim, True)


@form("linalg.vector_norm")
def _vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *,
                 dtype: Any = None) -> Any:
    return _norm(x, ord, dim, keepdim, dtype)


# ---- writing -------------------------------------------------------------------------------------

def _written(self: Any, value: Any) -> Any:
    """This tensor with the values of another, in its memory."""
    given = value if isinstance(value, ComplexTensor) else of_parts(pairs(value, self))
    if given.shape != self.shape:
        raise ShapeError(f"an in-place operation on shape {self.shape} would give shape "
                                f"{given.shape}: an in-place result keeps the shape")
    self._parts.copy_(given._parts)
    return self


def _in_place(name: str) -> Any:
    def written(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, ComplexTensor):
            raise DTypeError(f"{name}_ of a tensor of {self.dtype.name} would be complex, which "
                             f"does not fit in it; use the operation that makes a new tensor")
        return _written(self, FORMS[name](self, *args, **kwargs))
    return written


WRITING = ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "neg",
           "negative", "exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tan", "tanh",
           "reciprocal", "square", "sigmoid", "pow", "masked_fill", "index_add", "index_copy",
           "scatter", "scatter_add", "cumsum", "tril", "triu", "conj_physical", "sgn",
           "masked_scatter", "rsqrt", "log2", "log10", "log1p", "index_put", "expm1", "cumprod",
           "addmm", "addmv", "addbmm", "baddbmm", "addr", "addcmul", "addcdiv", "lerp", "eq", "ne",
           "logical_and", "logical_or", "logical_xor", "logical_not", "exp2", "sinc", "index_fill",
           "put", "nan_to_num",
           *(f"{arc}{name}{h}" for arc in ("a", "arc") for name in ("sin", "cos", "tan")
             for h in ("", "h")))
for _name in WRITING:
    form(f"{_name}_")(_in_place(_name))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    form(f"__i{_name}__")(FORMS[{"truediv": "div"}.get(_name, _name) + "_"])


@form("copy_")
def copied_into(self: Any, source: Any, non_blocking: bool = False) -> Any:
    """Take over the values of `source`, broadcast to this shape."""
    if not isinstance(self, ComplexTensor):
        raise DTypeError(f"copy_ of complex numbers into a tensor of {self.dtype.name}: the "
                         f"imaginary parts would be lost; copy .real")
    self._parts.copy_(pairs(source, self))
    return self


@form("fill_")
def _fill(self: Any, value: Any) -> Any:
    if not isinstance(self, ComplexTensor):
        raise DTypeError(f"fill_ of {self.dtype.name} by a complex number: it does not fit")
    self._parts.copy_(pairs(value, self))
    return self


@form("resize_")
def _resize(self: Any, *sizes: Any, memory_format: MemoryFormat = contiguous_format) -> Any:
    if memory_format is not contiguous_format:
        raise not_complex("resize_ with a memory_format")
    self._parts.resize_(*shapes.new_shape(sizes, "resize_"), 2)
    return self


@form("zero_")
def _zero(self: Any) -> Any:
    self._parts.zero_()
    return self


@form("__setitem__")
def _set_item(self: Any, index: Any, value: Any) -> None:
    if not isinstance(self, ComplexTensor):
        raise DTypeError(f"assignment of complex numbers to elements of a tensor of "
                         f"{self.dtype.name}: the imaginary parts would be lost; assign .real")
    self[index] = value


@form("result_type")
def _result_type(a: Any, b: Any) -> DType:
    for x in (a, b):
        if not isinstance(x, Tensor | bool | int | float | complex):
            raise DTypeError(f"result_type: {x!r:.40} is not a tensor or a number")
    return complex_like([a, b])


@form("is_same_size")
def _is_same_size(self: Any, other: Any) -> bool:
    return bool(self.shape == other.shape)
