"""Arrays that a graph is made for before they are known: examples, cotangents, tangents."""
from __future__ import annotations

import math
from typing import Any

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, make, reshape
from lazyten.ir.ops import Op
from lazyten.support.errors import TransformError
from lazyten.support.location import user_location


class Unknown:
    """BUFFER's argument where an array will be, flat. It has no value: TransformError."""

    __slots__ = ("__weakref__", "dtype", "size")

    def __init__(self, dtype: DType, size: int) -> None:
        self.dtype, self.size = dtype, size

    @property
    def handle(self) -> Any:
        """Asked for when something that is computed from it is computed."""
        raise TransformError(f"a value is asked for at {user_location()} (by print, item(), "
                             f"numpy(), bool() or a branch) that under vmap "
                             f"is another for each example, so Python cannot go one way for all "
                             f"of them: use where() for a choice, or return the tensor and look "
                             f"at it outside")

    def numpy(self) -> Any:
        """The contents, as of a Buffer."""
        return self.handle

    def view(self) -> Any:
        """The contents themselves, as of a Buffer."""
        return self.handle


def unknown(shape: Shape, dtype: DType) -> tuple[Node, Node]:
    """A new unknown array, and the flat one under it, which is what to replace: a RESHAPE of a
    RESHAPE is one, so the first may not be in the graph."""
    flat = make(Op.BUFFER, dtype, (), Unknown(dtype, math.prod(shape)))
    return reshape(flat, shape), flat
