"""`lt._utils`: several tensors as one flat one, as programs that average gradients use it."""
from __future__ import annotations

from collections.abc import Iterable

from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements (n,) of all tensors, which are of one type, one after the other."""
    return cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of such a tensor in the shapes of the others, of which it has as many elements."""
    like = list(tensors)
    parts = flat.split([t.numel() for t in like])
    return tuple(part.view(t.shape) for part, t in zip(parts, like, strict=True))
