"""The methods of complex tensors: their forms; and a refusal of every other one."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lazyten.frontend.complexes import arithmetic, functions, making, products, structure
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import FORMS, as_method, install_forms, name_of
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import not_complex

WHERE_FORMS_ARE = arithmetic, functions, structure, products, making
KEPT = frozenset((
    "dim", "size", "numel", "element_size", "nelement", "ndimension", "is_floating_point",
    "is_signed", "is_conj", "is_neg", "is_pinned", "get_device", "is_inference", "item",
    "record_stream", "is_nonzero", "__len__", "__hash__", "__bool__", "__format__", "__repr__",
    "__delitem__", "__init_subclass__", "__class_getitem__", "__init__",
    "__new__"))
"""What is written in terms of shape, dtype, device and values, of numbers of any kind."""


def install() -> None:
    """Give the class of complex tensors its methods: whatever tensors have is there or refused."""
    for name, own in list(vars(ComplexTensor).items()):  # as functions of `lazyten`, too
        if inspect.isfunction(own) and (name[0] != "_" or name == "__getitem__"):
            FORMS.setdefault(name, own)
    for name in KEPT:
        if name[0] != "_":
            FORMS.setdefault(name, inspect.unwrap(getattr(Tensor, name)))
    install_forms(ComplexTensor, Tensor, KEPT, _form, not_complex)
    for name in ("cfloat", "cdouble"):
        setattr(Tensor, name, as_method(ComplexTensor, FORMS[name], name, FORMS[name]))


def _form(name: str, method: Callable[..., Any]) -> Callable[..., Any] | None:
    return FORMS.get(f"Tensor.{name}") or FORMS.get(name) or FORMS.get(name_of(method))


install()
