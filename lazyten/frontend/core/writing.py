"""Writing to a tensor, and so to all views of its storage."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from lazyten.autodiff import twins
from lazyten.execution import background
from lazyten.execution import realization as _realization
from lazyten.frontend.core.handle import Handle, of_its_own
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.core.operands import Operands, node_of
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, alias, cast, make, reshape
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.operators.arrays.strided import written_through
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.operators.math.gradients import flat_in, freed
from lazyten.storage import history, levels, tracing
from lazyten.support.errors import DTypeError, GradientError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled

Tensor = TypeVar("Tensor", bound="Writing[Any]")
_OF_OTHERS = MOVEMENT | {Op.LEAF}
"""Ops of values that are another tensor's, or a view of one: what was copied from it."""


class Writing(Operands[Tensor]):
    """What is written, and what gradients make of it."""

    __slots__ = ()

    def _write(self, value: Node, requires_grad: bool, replaces: bool = False,
               one_of: bool = False) -> Self:
        """Make `value` (of this tensor's shape and dtype) the value, seen by all views. replaces:
        the old value has no say in it. one_of: see _of."""
        if tracing.active is not None:
            tracing.to_be_written(self._storage)
        storage = self._storage
        if self._moves:  # what is not written stays
            storage.refresh()
        replaces = replaces and self.requires_grad and value.numel == storage.value.numel
        if self._lineage is not None and requires_grad and not self._lineage.follows:
            self._lineage.write(self._written(self._lineage.read(storage, ()), value, replaces))
            value, requires_grad = make(Op.DETACH, value.dtype, (value,)), False
        old = freed(storage.value) if storage.was_freed and requires_grad else storage.value
        value = self._written(old, value, replaces and requires_grad)
        if storage.keeps_graph and not requires_grad:  # what gradients passed by, they still do
            value = levels.written_over(old, value, not self._detached)
        keeps_graph = requires_grad or storage.keeps_graph
        if storage.shared is not None:
            value = _realization.computed(value, storage.device, keeps_graph)
        if requires_grad:
            value = of_its_own(alias(value) if value.op in _OF_OTHERS else value)
            twins.owned_by(storage, value)
        storage.assign(value, keeps_graph)
        for reference in storage.retaining:
            tensor = reference()
            if tensor is not None:
                tensor._retain_new_value()
        if one_of:
            history.note(storage)
        else:
            background.made(storage)
        return self

    def _written(self, old: Node, value: Node, replaces: bool) -> Node:
        """What `old`, shaped as the storage, becomes by writing `value` through this view."""
        if self._moves:
            value = written_through(self._moves, old, value)
        return flat_in(old, value) if replaces else value

    def _update(self, operation: str, value: Node, *others: Handle[Any],
                replaces: bool = False) -> Self:
        """What an in-place operation does: check that `value` fits, and write it. replaces: it does
        not depend on what is there."""
        tracked = is_grad_enabled()
        if tracked and self._storage.leaf_id is not None and not self._detached:
            raise GradientError(f"{operation} on a leaf that requires gradients would lose the "
                                f"value they are for; do it inside no_grad()")
        if value.shape != self.shape:
            raise ShapeError(f"{operation} on shape {self.shape} would give shape {value.shape}: "
                             f"an in-place result keeps the shape; use the operation that makes a "
                             f"new tensor")
        if dt.category(value.dtype) > dt.category(self.dtype):
            raise DTypeError(f"{operation} on {self.dtype.name} would give {value.dtype.name}, "
                             f"a dtype that does not fit in it; convert first, or make a new "
                             f"tensor")
        tensors: list[Handle[Any]] = [self, *others]
        flows = [t._keeps_graph for t in tensors if t.requires_grad]
        requires = tracked and any(flows)
        replaces = replaces or not value.dtype.is_float  # no gradient flows through it
        value = cast(value, self.dtype)
        if flows and not requires:
            value = levels.without_gradient(value)
        self._write(value, requires, replaces)
        if flows and tracked and self._lineage is None and not self._storage.keeps_graph:
            self._storage.end_graph()
        return self

    def _in_place(self, operation: str, function: Callable[..., Node], other: Any) -> Self:
        right = self._operand_here(other, operation)
        others = [right] if isinstance(right, Handle) else []
        return self._update(operation, function(self.node, node_of(right)), *others)

    @also_named(other="source")
    def copy_(self, source: Any, non_blocking: bool = False) -> Self:
        """Take over the values of `source`, broadcast to this shape and converted to this dtype.
        (non_blocking changes nothing: copies wait for nothing but the value.)"""
        return self._copy_from(source, "copy_")

    def _copy_from(self, source: Any, operation: str) -> Self:
        here, given = self._storage.device, source
        if isinstance(source, Handle) and source._storage.device != here:
            given = source._copied_to(here)
        other = self._operand(given, operation)
        node = other.node if isinstance(other, Handle) else ew.as_node(
            shapes.as_element(other, self.dtype, operation), self.dtype, ())
        if operation == "assignment":
            node = without_leading_ones(node, self.ndim)
        if shapes.broadcast([node.shape, self.shape], operation) != self.shape:
            raise ShapeError(f"{operation} of shape {node.shape} into {self.shape}: it does not "
                             f"broadcast to it; reshape it")
        wide = ew.broadcast_to(cast(node, self.dtype), self.shape)
        return self._update(operation, wide, *([other] if isinstance(other, Handle) else []),
                            replaces=True)

    def fill_(self, value: Any) -> Self:
        """Set every element to `value`, a number or a zero-dim tensor."""
        number = self._element(value, "fill_")
        return self._update("fill_", ew.as_node(node_of(number), self.dtype, self.shape),
                            *([number] if isinstance(number, Handle) else []), replaces=True)

    def zero_(self) -> Self:
        """Set every element to 0."""
        return self.fill_(0)


def without_leading_ones(x: Node, rank: int) -> Node:
    """x without those axes of size 1 in front that are more than `rank` axes."""
    extra = len(x.shape) - rank
    return reshape(x, x.shape[extra:]) if extra > 0 and set(x.shape[:extra]) == {1} else x
