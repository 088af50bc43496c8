"""The methods of complex tensors: their forms; and a refusal of every other one."""
from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable
from typing import Any

from lazyten.frontend.complexes import arithmetic, functions, making, products, structure
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import FORMS, name_of
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ForeignOperandError, not_complex

WHERE_FORMS_ARE = arithmetic, functions, structure, products, making
KEPT = frozenset((
    "dim", "size", "numel", "element_size", "nelement", "ndimension", "is_floating_point",
    "is_signed", "is_conj", "is_neg", "is_pinned", "get_device", "is_inference", "item",
    "record_stream", "is_nonzero", "__len__", "__hash__", "__bool__", "__format__", "__repr__",
    "__delitem__", "__reduce_ex__", "__init_subclass__", "__class_getitem__", "__init__",
    "__new__"))
"""What is written in terms of shape, dtype, device and values, of numbers of any kind."""


def install() -> None:
    """Give the class of complex tensors its methods: whatever tensors have is there or refused."""
    for name, own in list(vars(ComplexTensor).items()):  # as functions of `lazyten`, too
        if inspect.isfunction(own) and (name[0] != "_" or name == "__getitem__"):
            FORMS.setdefault(name, own)
    of_tensors = ChainMap(*[dict(vars(part)) for part in Tensor.__mro__])
    for name in sorted(of_tensors):
        method = of_tensors[name]
        if name in KEPT or name in vars(ComplexTensor) or not inspect.isfunction(method) \
                or name.startswith("_") and not name.startswith("__"):
            continue
        function = FORMS.get(f"Tensor.{name}") or FORMS.get(name) or FORMS.get(name_of(method))
        setattr(ComplexTensor, name, _named(name, function or _refusal(name)))
    for name in ("cfloat", "cdouble"):
        setattr(Tensor, name, _named(name, FORMS[name]))


def _refusal(name: str) -> Callable[..., Any]:
    def refused(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise not_complex(name)
    return refused


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a method of this name; an operator leaves the work to an operand of a class
    that has its own."""
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except ForeignOperandError:
            if name.startswith("__"):
                return NotImplemented
            raise
    method.__name__, method.__qualname__ = name, f"ComplexTensor.{name}"
    method.__doc__ = getattr(Tensor, name).__doc__ if hasattr(Tensor, name) else None
    return method


install()
