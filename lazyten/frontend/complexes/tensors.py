"""Complex tensors: pairs of floats in memory, shown as complex numbers."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self

import numpy as np

from lazyten.autodiff.hooks import RemovableHandle
from lazyten.frontend.complexes.indices import index_of_pairs
from lazyten.frontend.core import pickling
from lazyten.frontend.core.forms import Complex
from lazyten.frontend.core.keywords import MemoryFormat, contiguous_format, preserve_format
from lazyten.frontend.core.operands import tensors_given
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import stack
from lazyten.frontend.methods.conversion import where_to
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.movement import Moves
from lazyten.ir.node import Shape
from lazyten.ir.ops import Op
from lazyten.operators.math import shapes
from lazyten.storage.placement import gpu
from lazyten.support.errors import (
    ComplexError,
    DTypeError,
    GradientError,
    NoAxisError,
    ShapeError,
    not_complex,
)

Array = np.ndarray[Any, Any]


class ComplexTensor(Complex, Tensor):
    """A tensor of complex numbers: a handle of a real tensor whose last axis has the two parts.

    It has no node and no storage of its own, so whoever knows nothing of it gets a ComplexError.
    What a method does is its form (forms.py); methods without one are refused, too."""

    __slots__ = ("_collected", "_parts")
    _parts: Tensor
    _collected: tuple[Tensor, Tensor] | None

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each axis."""
        return Size(self._parts.shape[:-1])

    @property
    def dtype(self) -> DType:
        """complex64 or complex128."""
        return dt.COMPLEX[self._parts.dtype]

    @property
    def device(self) -> Any:
        """The device that the values are on: its name, a string."""
        return self._parts.device

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours on each axis, or on one. ShapeError where the parts of a
        number are not side by side, or pairs not evenly spaced."""
        steps = self._parts.stride()
        if steps[-1] != 1 or any(s % 2 for s in steps[:-1]):
            raise ShapeError(f"stride of a complex view of shape {self.shape}: its elements are "
                             f"not evenly spaced in memory; contiguous() makes a copy that is")
        strides = tuple(s // 2 for s in steps[:-1])
        return strides if dim is None else strides[shapes.axis(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        """Where the first element is in the storage, in elements."""
        return self._parts.storage_offset() // 2

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Whether the elements are in memory in row-major order without gaps."""
        return self._parts.is_contiguous() if memory_format is contiguous_format else False

    def is_complex(self) -> bool:
        """True."""
        return True

    def untyped_storage(self) -> Any:
        """The identity of the storage, which view_as_real() shares."""
        return self._parts.untyped_storage()

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._parts.data_ptr()

    @property
    def grad_fn(self) -> Any:
        """The operation that made this tensor, if gradients flow back through it."""
        return self._parts.grad_fn

    @property
    def real(self) -> Tensor:
        """The real parts; a view."""
        return self._parts[..., 0]

    @real.setter
    def real(self, value: Any) -> None:
        self._parts[..., 0] = value

    @property
    def imag(self) -> Tensor:
        """The imaginary parts; a view."""
        return self._parts[..., 1]

    @imag.setter
    def imag(self, value: Any) -> None:
        self._parts[..., 1] = value

    # ---- values ----------------------------------------------------------------------------------

    def realize(self) -> Self:
        """Compute the value now; gives this tensor."""
        self._parts.realize()
        return self

    def numpy(self, *, force: bool = False) -> Array:
        """The values as a new NumPy array."""
        return self._as_array()

    def _first(self) -> None:
        """Read as an array: it is of two numbers."""
        return None

    def _as_array(self) -> Array:
        parts = np.ascontiguousarray(self._parts._as_array())
        return parts.view(self.dtype.numpy).reshape(self.shape)

    def tolist(self) -> Any:
        """The values as nested lists of Python's complex numbers."""
        return self._as_array().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The values as a NumPy array, a copy."""
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __complex__(self) -> complex:
        return complex(self.item())

    def _no_number(self, kind: str) -> NoReturn:
        raise DTypeError(f"{kind} of a complex tensor: it is no real number; use .real, or abs()")

    def __float__(self) -> float:
        self._no_number("float")

    def __int__(self) -> int:
        self._no_number("int")

    def __index__(self) -> int:
        self._no_number("an index")

    def _shows_dtype(self) -> bool:
        return not self.numel() or self.dtype is not dt.complex_of(dt.default_float)

    def describe(self) -> str:
        """What kind of tensor its pairs are."""
        return f"complex: {self.dtype} {self.shape}, of pairs:\n{self._parts.describe()}"

    # ---- views -----------------------------------------------------------------------------------

    def _moved(self, *moves: tuple[Op, Any]) -> Any:
        return of_parts(self._parts._moved(*[of_pairs(op, arg) for op, arg in moves]))

    def _restrided(self, moves_of: Callable[[Shape], Moves]) -> Any:
        raise not_complex("as_strided")

    def _reshaped(self, new: Shape) -> Any:
        return of_parts(self._parts._reshaped((*new, 2)))

    def view(self, *shape: Any) -> Any:
        """reshape() that is a view or a ShapeError; as a dtype of floats, `view_as_real` with the
        pairs in the last axis."""
        if len(shape) == 1 and isinstance(shape[0], DType):
            return self._shown_in(shape[0])
        new = shapes.reshaped(self.shape, shape, "view")
        return of_parts(self._parts.view((*new, 2)))

    def _shown_in(self, dtype: DType) -> Any:
        if dtype is self.dtype:
            return of_parts(self._parts._moved())
        if dtype is not self._parts.dtype or not self.ndim:
            raise DTypeError(f"view of {self.dtype.name} {self.shape} as {dtype.name}: its parts "
                             f"are {self._parts.dtype.name}; use view_as_real()")
        return self._parts.view((*self.shape[:-1], 2 * self.shape[-1]))

    @property
    def mH(self) -> Any:
        """The last two axes exchanged, conjugated."""
        return self.adjoint()

    @property
    def H(self) -> Any:
        """A matrix transposed and conjugated."""
        if self.ndim not in (0, 2):
            raise ShapeError(f"H of shape {self.shape}: it is for matrices; use mH")
        return self.adjoint()

    def __getitem__(self, index: Any) -> Any:
        return of_parts(self._parts[index_of_pairs(index, self.shape)])

    def __setitem__(self, index: Any, value: Any) -> None:
        place = index_of_pairs(index, self.shape)
        if isinstance(value, Complex | complex | np.complexfloating) \
                or isinstance(value, np.ndarray) and value.dtype.kind == "c":
            self._parts[place] = pairs(value, self)
        else:  # real numbers: in the same places, with 0 beside them
            self._parts[(*place, 0)] = value
            self._parts[(*place, 1)] = 0

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise NoAxisError("iteration over a zero-dim tensor: it has no axes; use item()")
        return (self[i] for i in range(self.shape[0]))

    def __reversed__(self) -> Any:
        return self.flip(0) if self.shape else self

    def contiguous(self, memory_format: MemoryFormat = contiguous_format) -> Any:
        """Itself if its elements are in row-major order, else a copy that is."""
        if memory_format is not contiguous_format:
            raise not_complex("contiguous with a memory_format")
        return self if self.is_contiguous() else of_parts(self._parts.contiguous())

    def clone(self, memory_format: Any = None) -> Any:
        """A tensor of its own with the same value."""
        return of_parts(self._parts.clone())

    def _shown_as(self, view: Any, operation: str) -> Self:
        self._parts._shown_as(view._parts, operation)
        return self

    # ---- gradients -------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow back through this tensor."""
        return self._parts.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self._parts.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Collect gradients for this tensor in `.grad`, or stop. Gives this tensor."""
        self._parts.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._parts.is_leaf

    @property
    def grad(self) -> Any:
        """The gradient that backward() has collected: d/d real + i d/d imaginary; None before."""
        found = self._parts.grad
        if found is None:
            return None
        if self._collected is None or self._collected[0] is not found:
            self._collected = found, of_parts(found)
        return self._collected[1]

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, ComplexTensor):
            raise GradientError(f"grad = {type(value).__name__} of a complex tensor: it must be a "
                                f"tensor of {self.dtype.name} {self.shape}")
        self._parts.grad = None if value is None else value._parts

    def detach(self) -> Any:
        """The same values, through which no gradient flows."""
        return of_parts(self._parts.detach())

    def detach_(self) -> Self:
        """detach, of this tensor itself."""
        self._parts.detach_()
        return self

    @property
    def data(self) -> Any:
        """detach(); what is assigned is the new value, and `.grad` stays."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self._parts.data = pairs(value, self)

    def _become(self, value: Any) -> None:
        self._parts._become(value._parts)

    def backward(self, gradient: Any = None, retain_graph: bool | None = None,
                 create_graph: bool = False, inputs: Any = None) -> None:
        """Add the gradient of this tensor, weighted with `gradient`, to `.grad` of every leaf."""
        chosen = inputs if inputs is None else [
            t._parts if isinstance(t, ComplexTensor) else t
            for t in ([inputs] if isinstance(inputs, Tensor) else inputs)]
        self._parts.backward(self._weight(gradient), retain_graph, create_graph, chosen)

    def _weight(self, gradient: Any) -> Tensor:
        """What a gradient of this tensor is weighted with, as pairs."""
        if gradient is None:
            raise GradientError("backward of a complex tensor: a gradient without weights is for a "
                                "real number; take .real or abs() first, or pass gradient=")
        return pairs(gradient, self)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Have `hook` called with this tensor's gradient in each backward pass."""
        def of_pairs(gradient: Tensor) -> Tensor | None:
            given = hook(of_parts(gradient))
            return None if given is None else pairs(given, self)
        return self._parts.register_hook(of_pairs)

    def retain_grad(self) -> None:
        """Collect this tensor's gradient in `.grad` too, though it is no leaf."""
        self._parts.retain_grad()

    @property
    def retains_grad(self) -> bool:
        """Whether `.grad` collects the gradient of this tensor, which is no leaf."""
        return self._parts.retains_grad

    def __copy__(self) -> Any:
        return of_parts(self._parts.__copy__())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return of_parts(self._parts.__deepcopy__(memo))

    def __reduce_ex__(self, protocol: Any) -> pickling.Reduced:
        return _of_kind, (type(self), self._parts), pickling.attributes_of(self)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Have `hook` called with this leaf after each time that backward() added to its `.grad`.
        """
        return self._parts.register_post_accumulate_grad_hook(lambda _: hook(self))

    # ---- other places ----------------------------------------------------------------------------

    def to(self, *args: Any, dtype: Any = None, device: str | None = None,
           memory_format: MemoryFormat = preserve_format, non_blocking: bool = False,
           copy: bool = False) -> Any:
        """This tensor in another complex type, on another device, or both. To a real type only
        the real parts would be left: DTypeError; say .real."""
        dtype, device, copy = where_to(args, dtype, device, copy)
        kind = self.dtype if dtype is None else dt.as_dtype(dtype)
        made = of_parts(self._parts.to(dtype=self._component(kind), device=device, copy=copy), self)
        return made if memory_format in (preserve_format, contiguous_format) \
            else made.contiguous(memory_format)

    def _component(self, kind: DType) -> DType:
        if not kind.is_complex:
            raise DTypeError(f"{self.dtype.name} to {kind.name}: the imaginary parts would be "
                             f"lost; use .real, .imag or abs()")
        return kind.component

    def _cast(self, dtype: DType) -> Any:
        return self.to(dtype=dtype)

    def cpu(self, memory_format: MemoryFormat = preserve_format) -> Any:
        """This tensor on the cpu."""
        return self.to(device="cpu", memory_format=memory_format)

    def cuda(self, device: Any = None, non_blocking: bool = False,
             memory_format: MemoryFormat = preserve_format) -> Any:
        """This tensor on an NVIDIA GPU."""
        return self.to(device=gpu(device), memory_format=memory_format)

    def _operand(self, value: Any, operation: str) -> Any:
        raise ComplexError

    def _tensor(self, value: Any, operation: str) -> Any:
        tensors_given(operation, value)
        return value


def of_pairs(op: Op, arg: Any) -> tuple[Op, Any]:
    """A movement of complex numbers as one of their pairs."""
    if op in (Op.RESHAPE, Op.EXPAND):
        return op, (*arg, 2)
    if op is Op.PERMUTE:
        return op, (*arg, len(arg))
    if op is Op.PAD:
        return op, (*arg, (0, 0))
    return (op, (*arg, (0, 2))) if op is Op.SHRINK else (op, arg)


def _refused(self: ComplexTensor) -> NoReturn:
    raise ComplexError


for _name in ("_storage", "_moves", "_lineage", "_grad", "_value", "_tracker", "node"):
    setattr(ComplexTensor, _name, property(_refused))


# ---- complex numbers and pairs -------------------------------------------------------------------

def of_parts(parts: Tensor, same: ComplexTensor | None = None) -> ComplexTensor:
    """The complex tensor whose pairs these are; `same` if they are its own."""
    if same is not None and parts is same._parts:
        return same
    return _of_kind(ComplexTensor, parts)


def _of_kind(kind: type[ComplexTensor], parts: Tensor) -> ComplexTensor:
    """What a pickle has: the tensor of a class whose pairs these are."""
    result: ComplexTensor = object.__new__(kind)
    result._parts, result._collected = parts, None
    return result


def pairs_of(x: Tensor) -> Tensor:
    """The pairs that a complex tensor is made of; a real one itself."""
    return x._parts if isinstance(x, ComplexTensor) else x


def joined(real: Tensor, imaginary: Tensor) -> Tensor:
    """Pairs of real and imaginary parts."""
    return stack([real, imaginary], -1)


def pairs(value: Any, like: ComplexTensor) -> Tensor:
    """A value as pairs of another tensor's type, on its device: complex or real, a tensor, an
    array or a number."""
    kind, where = like._parts.dtype, like.device
    if isinstance(value, ComplexTensor):
        return value._parts.to(dtype=kind)
    if isinstance(value, Tensor):
        real = value.to(dtype=kind)
        return joined(real, real.new_zeros(real.shape))
    array = np.asarray(value, like.dtype.numpy)
    both = np.stack([array.real, array.imag], -1)
    return Tensor._copy_of(np.ascontiguousarray(both), kind, where)
