"""What stands in a graph where memory will be, when the graph is computed with other values."""
from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, make, reshape
from lazyten.ir.ops import Op
from lazyten.support.errors import JitError


class Placeholder:
    """Stands in a traced graph where a Buffer will be; `number` of a source or host input.

    memory: what it stands for, once the traced function goes on for real; it is as good as that.
    """

    __slots__ = ("__weakref__", "dtype", "kind", "memory", "number", "size")

    def __init__(self, kind: str, number: int, dtype: DType, size: int) -> None:
        self.kind, self.number, self.dtype, self.size = kind, number, dtype, size
        self.memory: Any = None

    def bind(self, memory: Any) -> None:
        """Stand for this Buffer from now on."""
        self.memory = getattr(memory, "memory", None) or memory

    def node(self, shape: Shape) -> Node:
        """The GRAPH node that reads it as an array of `shape`."""
        if self.memory is not None:
            found: Node = self.memory.node(shape)
            return found
        return reshape(make(Op.BUFFER, self.dtype, (), self), shape)

    @property
    def device(self) -> str:
        """Where the memory is."""
        return str(self._bound.device)

    @property
    def handle(self) -> Any:
        """The runtime's name of the memory."""
        return self._bound.handle

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the contents; see Buffer."""
        found: np.ndarray[Any, Any] = self._bound.numpy()
        return found

    def view(self) -> np.ndarray[Any, Any] | None:
        """The contents themselves; see Buffer."""
        found: np.ndarray[Any, Any] | None = self._bound.view()
        return found

    @property
    def _bound(self) -> Any:
        """The memory. JitError for a tensor that leaked out of a trace."""
        if self.memory is None:
            raise JitError("this tensor was made inside a jitted function and kept outside by a "
                           "Python side effect, so it has no value; return it from the function "
                           "instead")
        return self.memory


class NeedsValue(BaseException):
    """An operation that is being recorded asks for a value, which a template has not."""


class Source(Placeholder):
    """Number `number` of the memory that a frame reads."""

    __slots__ = ()

    @property
    def handle(self) -> NoReturn:
        """A kernel is to read it."""
        raise NeedsValue

    def numpy(self) -> NoReturn:
        """Python is to read it."""
        raise NeedsValue

    view = numpy
