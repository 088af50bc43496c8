"""The text of a sparse tensor, laid out as PyTorch lays it out."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core import printing
from lazyten.frontend.core.forms import sparse_form
from lazyten.frontend.tensor import Tensor
from lazyten.sparse.compressed import CompressedTensor
from lazyten.sparse.coordinates import CooTensor
from lazyten.storage.placement import default_device, has_values

PREFIX = "tensor("


def text_of(self: Any) -> str:
    """`tensor(indices=tensor(..), values=tensor(..), size=(..), nnz=.., layout=..)`."""
    if isinstance(self, CompressedTensor):
        names: tuple[str, ...] = ("crow_indices", "col_indices") if self.is_sparse_csr else \
            ("ccol_indices", "row_indices")
    else:
        names = ("indices",)
    parts = dict(zip(names, self.held_places, strict=True)) | {"values": self._elements}
    body = "".join(f"{name}={_text(x, len(PREFIX) + len(name) + 1)},\n{' ' * len(PREFIX)}"
                   for name, x in parts.items())
    start = body if isinstance(self, CooTensor) else body.rstrip()[:-1] + ", "
    suffixes = [f"nnz={self._nnz()}"]
    if self._elements._shows_dtype():
        suffixes.append(f"dtype={self.dtype}")
    if self.device != default_device():
        suffixes.append(f"device='{self.device}'")
    suffixes.append(f"layout={self.layout}")
    if self.requires_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes(f"{PREFIX}{start}size={tuple(self.shape)}", suffixes)


def _with_suffixes(text: str, suffixes: list[str]) -> str:
    for suffix in suffixes:
        last = len(text) - text.rfind("\n") - 1
        fits = last + len(suffix) + 3 <= printing.options.linewidth
        text += (", " if fits else ",\n" + " " * len(PREFIX)) + suffix
    return text + ")"


def _text(x: Tensor, indent: int) -> str:
    """`tensor(...)` of a part, with continuation lines further right."""
    shown = has_values(x.device)
    values = x.detach()._as_array() if shown else None
    if values is None or not values.size:
        body = "..." if values is None else "[]"
        return f"tensor({body}, size={tuple(x.shape)})"
    return f"tensor({printing.format_values(values, indent + len(PREFIX))})"


sparse_form("__repr__")(text_of)
