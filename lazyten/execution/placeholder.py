"""What stands in a graph where memory will be, when the graph is computed with other values."""
from __future__ import annotations

from typing import Any

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, make, reshape
from lazyten.ir.ops import Op
from lazyten.support.errors import JitError


class Placeholder:
    """Stands in a traced graph where a Buffer will be; `number` of a source or host input."""

    __slots__ = ("__weakref__", "dtype", "kind", "number", "size")

    def __init__(self, kind: str, number: int, dtype: DType, size: int) -> None:
        self.kind, self.number, self.dtype, self.size = kind, number, dtype, size

    def node(self, shape: Shape) -> Node:
        """The GRAPH node that reads it as an array of `shape`."""
        return reshape(make(Op.BUFFER, self.dtype, (), self), shape)

    @property
    def handle(self) -> Any:
        """Asked for when a tensor that leaked out of a trace is computed: JitError."""
        raise JitError("this tensor was made inside a jitted function and kept outside by a Python "
                       "side effect, so it has no value; return it from the function instead")
