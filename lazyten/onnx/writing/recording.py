"""A function of tensors as a graph, by calling it with stand-ins that have no values.

In: a function or module, and shapes and types of what it will be given. Out: the nodes that it
returns, and the tensors of them. What it does must follow from shapes.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import lazyten as lt
from lazyten.capture.dims import like
from lazyten.execution.realization import realize
from lazyten.ir.node import Node, Shape, make
from lazyten.ir.ops import Op
from lazyten.onnx.listening import Listener
from lazyten.storage import tracing
from lazyten.storage.placeholder import Placeholder
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.location import of_no_line
from lazyten.support.trees import flatten


class _Listener(Listener):
    """What a file cannot do is an error; nothing else matters."""

    without_bits = True
    inside = "a function that is exported, which is recorded without values"

    def __init__(self, of_any_size: bool) -> None:
        super().__init__()
        self.of_any_size = of_any_size
        self.fresh: WeakSet[Any] = WeakSet()
        self.waiting: dict[Any, None] = {}

    def refused(self, error: JitError) -> None:
        """What happens next cannot be part of a graph."""
        raise error

    def host_input(self, refresh: Callable[[], Any], dtype: Any, size: int, device: str,
                   name: str = "") -> Node:
        """Random numbers, and counters of optimizers."""
        raise ArgumentError("onnx.export: the function draws random numbers, or takes a step of an "
                            "optimizer; export model.eval()")

    def action(self, run: Callable[[], None], keep: tracing.Keep | None = None) -> None:
        """Something Python has to do at each call."""
        raise ArgumentError("onnx.export: the function draws random numbers, or changes what is "
                            "not a tensor; export model.eval()")

    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
        """Something Python has to do behind each call."""
        raise ArgumentError("onnx.export: the function takes a step of an optimizer")

    def to_be_written(self, storage: Any) -> None:
        """A storage is about to be written: a model's own would hold what has no value."""
        if storage not in self.fresh:
            raise ArgumentError("onnx.export: the function writes to a tensor that it has not made "
                                "(statistics of a layer that trains, perhaps: export model.eval())")

    def created(self, storage: Any) -> None:
        """A storage was made."""
        self.fresh.add(storage)

    def touched(self, storage: Any) -> None:
        """A storage is read: a file has the values of one from before, not how to compute them."""
        if storage not in self.fresh and storage.buffer is None:
            self.waiting[storage] = None


def record(function: Callable[..., Any], inputs: Sequence[lt.Tensor],
           shapes: Sequence[Shape], of_any_size: bool = False) -> list[Node]:
    """What a function of tensors of the inputs' types, but these shapes, returns. of_any_size: as
    operations that are the same at any size, if they can be.

    ArgumentError for what a file cannot do. The nodes read inputs as BUFFERs of Placeholders.
    """
    copies = [like(x, shape) for x, shape in zip(inputs, shapes, strict=True)]
    with _stand_ins(copies, of_any_size) as listener:
        try:
            found = function(*copies)
        except JitError as error:
            raise ArgumentError(f"onnx.export: the function looks at a value, or changes what a "
                                f"file cannot: {error}") from error
        results = [x for x in flatten(found)[0] if isinstance(x, lt.Tensor)]
        if any(x.is_complex() for x in (*results, *inputs)):
            raise ArgumentError("onnx.export: the format has no complex numbers; give and return "
                                "their parts, lazyten.view_as_real(x)")
        roots = [x.node for x in results]
    if listener.waiting:
        realize(listener.waiting)
        return record(function, inputs, shapes, of_any_size)
    if not roots:
        raise ArgumentError("onnx.export: the function returns no tensor")
    return roots


@contextmanager
def _stand_ins(tensors: Sequence[lt.Tensor], of_any_size: bool) -> Iterator[_Listener]:
    """Within the block the tensors have no values."""
    listener = _Listener(of_any_size)
    for i, tensor in enumerate(tensors):
        with of_no_line():
            node = Placeholder("source", i, tensor.dtype, tensor.numel()).node(tuple(tensor.shape))
            # which keeps a reshape of an input from being one with that of its memory
            tensor._storage._node = make(Op.DETACH, tensor.dtype, (node,))
            listener.fresh.add(tensor._storage)
    with tracing.turn, lt.no_grad(), tracing.listening(listener):
        yield listener
