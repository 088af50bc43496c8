"""The methods of sparse tensors: their forms; and a refusal of every other one."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lazyten.frontend.core.forms import SPARSE_FORMS, install_forms
from lazyten.frontend.tensor import Tensor
from lazyten.sparse import (
    arithmetic,
    arrangement,
    conversions,
    making,
    printing,
    products,
    reductions,
)
from lazyten.sparse.compressed import CompressedTensor
from lazyten.sparse.coordinates import CooTensor
from lazyten.sparse.tensors import SparseTensor
from lazyten.support.errors import not_sparse

WHERE_FORMS_ARE = arithmetic, arrangement, conversions, making, printing, products, reductions
KEPT = frozenset((
    "dim", "size", "element_size", "nelement", "ndimension", "is_floating_point", "is_signed",
    "is_conj", "is_neg", "is_pinned", "get_device", "is_inference", "is_nonzero", "__hash__",
    "__format__", "__init_subclass__", "__class_getitem__", "__init__", "__new__",
    "__torch_function__", "realize", "record_stream"))
"""What is written in terms of shape, dtype and device."""


def install() -> None:
    """Give the class of sparse tensors its methods: whatever tensors have is there or refused."""
    install_forms(SparseTensor, Tensor, KEPT, lambda name, method: SPARSE_FORMS.get(name)
                  or SPARSE_FORMS.get(method.__name__), not_sparse)
    for name, moved in {"T": arrangement.t, "H": arrangement.adjoint}.items():
        setattr(SparseTensor, name, property(moved))
    for kind in (CooTensor, CompressedTensor):
        for name, own in vars(kind).items():
            if inspect.isfunction(own) and name[0] != "_":
                SPARSE_FORMS.setdefault(name, _method(name))


def _method(name: str) -> Callable[..., Any]:
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)
    return called


install()
