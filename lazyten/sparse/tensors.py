"""Sparse tensors: a tensor of values, and tensors of whole numbers that say where these are.

What coordinates and compressed rows have in common: a shape, an element type, a device, gradients.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from lazyten.autodiff.hooks import RemovableHandle
from lazyten.frontend.core import pickling
from lazyten.frontend.core.forms import Sparse
from lazyten.frontend.core.keywords import Layout
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.storage import tracing
from lazyten.support.errors import (
    DTypeError,
    GradientError,
    NoAxisError,
    SparseError,
    SparseLayoutError,
    not_sparse,
)

Array = np.ndarray[Any, Any]


class SparseTensor(Sparse, Tensor):
    """A tensor of which only some elements are held; the others are 0.

    It has no node and no storage of its own, so whoever knows nothing of it gets a SparseError.
    What a method does is its form; methods without one are refused. Gradients are those of the
    values: a tensor that is a leaf has values of its own, which are the leaf.
    """

    __slots__ = ("_collects", "_elements", "_is_own", "_size")
    _elements: Tensor
    _size: Size
    _is_own: bool
    _collects: bool

    def _begin(self, elements: Tensor, size: Sequence[int]) -> None:
        self._elements, self._size = elements, Size(size)
        self._is_own = self._collects = False

    def with_values(self, values: Tensor) -> Any:
        """Other values at the same places."""
        raise NotImplementedError

    @property
    def held_places(self) -> tuple[Tensor, ...]:
        """The tensors that say where the values are."""
        raise NotImplementedError

    def taken_apart(self) -> tuple[tuple[Any, ...], Hashable]:
        """What it holds, and the shape and the like."""
        return (*self.held_places, self._elements), (tuple(self._size), *self._about())

    def _about(self) -> tuple[Hashable, ...]:
        return ()

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each axis."""
        return self._size

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._elements.dtype

    @property
    def device(self) -> Any:
        """The device that the values are on: its name, a string."""
        return self._elements.device

    @property
    def layout(self) -> Layout:
        """How the elements are stored."""
        raise NotImplementedError

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return Tensor.size(self) if dim is None else Tensor.size(self, dim)

    def numel(self) -> int:
        """The number of elements, the zeros among them."""
        return math.prod(self._size)

    def _nnz(self) -> int:
        """How many values there are, zeros among them that are held."""
        return int(self._elements.shape[0])

    def stride(self, dim: int | None = None) -> NoReturn:
        """Refused: nothing is evenly spaced."""
        raise SparseLayoutError("stride of a sparse tensor: its elements have no strides; use "
                                "values().stride()")

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False, as in PyTorch."""
        return False

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.dtype.is_complex

    def data_ptr(self) -> NoReturn:
        """Refused: there is no one memory."""
        raise SparseLayoutError("data_ptr of a sparse tensor: it has several tensors' memory; use "
                                "that of values() and indices()")

    # ---- values ----------------------------------------------------------------------------------

    def realize(self) -> Self:
        """Compute the values, and where they are; gives this tensor."""
        for part in self.taken_apart()[0]:
            part.realize()
        return self

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Refused, as in PyTorch."""
        raise DTypeError("numpy of a sparse tensor: use to_dense().numpy(), or the arrays of "
                         "indices() and values()")

    def _values(self) -> Any:
        """The values, as they are held, through which no gradient flows."""
        return self._elements.detach()

    def _as_array(self) -> NoReturn:
        raise SparseError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self.numpy()

    def _number(self, *_: Any) -> Any:
        if self.numel() != 1:
            raise SparseLayoutError(f"the value of a sparse tensor of shape {self.shape}: it has "
                                    f"{self.numel()} elements, and item() is for one")
        return self.to_dense().item()  # type: ignore[attr-defined]  # loaded when it is asked for

    item = __float__ = __int__ = __bool__ = __index__ = __complex__ = _number

    def __len__(self) -> int:
        if not self._size:
            raise NoAxisError("len of a zero-dim tensor: it has no axes; numel() is 1")
        return self._size[0]

    # ---- gradients -------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow back through this tensor."""
        return self._elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Collect gradients for this tensor in `.grad`, or stop. Gives this tensor."""
        if requires_grad and not self.requires_grad:
            tracing.refuse("requires_grad_() of a sparse tensor", "call it outside")
            self._elements = self._elements.detach().clone().requires_grad_()
            self._is_own = True
        elif not requires_grad and self.requires_grad:
            if not self._is_own:
                raise GradientError("requires_grad = False on a tensor that an operation made: "
                                    "only leaves can be switched off; use detach()")
            self._elements.requires_grad_(False)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return not self.requires_grad or self._is_own

    @property
    def grad_fn(self) -> Any:
        """The operation that made this tensor, if gradients flow back through it."""
        return None if self.is_leaf else self._elements.grad_fn

    @property
    def grad(self) -> Any:
        """The gradient that backward() has collected: sparse, at the places of the values."""
        if not (self._is_own or self._collects) or self._elements.grad is None:
            return None
        return self._gradient_of(self._elements.grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            raise GradientError("grad = a tensor, of a sparse one: only None can be assigned; "
                                "backward() collects the gradient")
        self._elements.grad = None

    def _gradient_of(self, values: Tensor) -> Any:
        return self.with_values(values)

    def retain_grad(self) -> None:
        """Collect this tensor's gradient in `.grad` too, though it is no leaf."""
        if not self.is_leaf:
            self._elements = self._elements + 0  # which is no leaf, and this tensor's alone
            self._elements.retain_grad()
            self._collects = True

    @property
    def retains_grad(self) -> bool:
        """Whether `.grad` collects the gradient of this tensor, which is no leaf."""
        return self._collects

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Have `hook` called with this tensor's gradient in each backward pass; it gives None."""
        def of_values(gradient: Tensor) -> None:
            if hook(self._gradient_of(gradient)) is not None:
                raise GradientError("a hook of a sparse tensor gives a gradient in place of the "
                                    "one it got: register it on values()")
        return self._elements.register_hook(of_values)

    def backward(self, gradient: Any = None, *_: Any, **options: Any) -> None:
        """Refused: reduce the tensor first."""
        raise GradientError("backward of a sparse tensor: a gradient is for a dense one; reduce "
                            "it first, with lazyten.sparse.sum()")

    def detach(self) -> Any:
        """The same values, through which no gradient flows."""
        return self.with_values(self._elements.detach())

    def detach_(self) -> Self:
        """detach, of this tensor itself."""
        self._elements, self._is_own = self._elements.detach(), False
        return self

    @property
    def data(self) -> Any:
        """detach(); what is assigned is the new value."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self._become(value.detach().clone())

    def _become(self, value: Any) -> None:
        """Be another tensor of this layout, from now on."""
        if type(value) is not type(self):
            raise not_sparse(f"a write of a {type(value).__name__} to a {type(self).__name__}")
        if self._is_own and self.requires_grad:
            raise GradientError("a write to a sparse leaf that requires gradients: write to what "
                                "detach() gives, inside no_grad()")
        tracing.refuse("a write to a sparse tensor",
                       "use the operation that gives a new one")
        self._size, self._elements = value._size, value._elements
        self._take_places(value)

    def _take_places(self, value: Any) -> None:
        raise NotImplementedError

    # ---- copies ----------------------------------------------------------------------------------

    def clone(self, memory_format: Any = None) -> Any:
        """A tensor of its own with the same value."""
        return self.with_values(self._elements.clone())

    def __copy__(self) -> Any:
        return self.with_values(self._elements)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise GradientError("deepcopy of a tensor that an operation made and gradients flow "
                                "through: only leaves can be copied; use detach() or clone()")
        found = memo.get(id(self))
        if found is None:
            parts, rest = self.taken_apart()
            found = self.put_together([part.detach().clone() for part in parts], rest)
            memo[id(self)] = found
            if self.requires_grad:
                found.requires_grad_()
        return found

    def __reduce_ex__(self, protocol: Any) -> pickling.Reduced:
        (*places, values), rest = self.taken_apart()
        parts = [*places, values.detach()]
        return _rebuilt, (type(self), parts, rest, self.requires_grad), \
            pickling.attributes_of(self)


def _rebuilt(kind: Any, parts: list[Tensor], rest: Any, flows: bool) -> Any:
    """What a pickle has: the tensor with these parts, a leaf if gradients flow through it."""
    result = kind.put_together(parts, rest)
    return result.requires_grad_() if flows else result


def _refused(self: SparseTensor) -> NoReturn:
    raise SparseError


for _name in ("_storage", "_moves", "_lineage", "_grad", "_value", "_tracker", "node"):
    setattr(SparseTensor, _name, property(_refused))


def is_traced() -> bool:
    """Whether a function is recorded, so that nothing can be looked at."""
    return tracing.current() is not None


def read(x: Tensor, operation: str) -> Array:
    """Whole numbers of a tensor, which an operation has to look at."""
    tracing.refuse(f"{operation} of sparse tensors, which looks at where their values are,",
                   "do it outside, and give the result as an argument")
    return x.detach()._as_array().astype(np.int64, copy=False)


def whole_numbers(array: Array, device: Any) -> Tensor:
    """int64 numbers as a tensor."""
    return Tensor._copy_of(np.ascontiguousarray(array, np.int64), device=device)
