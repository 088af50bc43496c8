"""The gradient of a tensor, and what shares or takes over its storage."""
from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any, Self, TypeVar
from weakref import ref

from lazyten.autodiff import hooks
from lazyten.autodiff.twins import free_number, said
from lazyten.execution import background
from lazyten.execution.lineage import Lineage
from lazyten.frontend.core import handle
from lazyten.frontend.core.forms import handles_of, is_sparse
from lazyten.frontend.core.handle import Handle, forget_with, held_as_rows, leaves, shape_after
from lazyten.frontend.core.overriding import overridable
from lazyten.frontend.core.writing import Writing
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, alias, elementwise, make
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.operators.arrays.indexing import apply
from lazyten.operators.math.gradients import written_over
from lazyten.storage import levels, tracing
from lazyten.storage.storage import Storage
from lazyten.support.errors import GradientError
from lazyten.support.grad_mode import is_grad_enabled

Tensor = TypeVar("Tensor", bound="Gradients[Any]")


class Gradients(Writing[Tensor]):
    """`.grad`, `.data`, and copies of the handle."""

    __slots__ = ()

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward() has collected; None before, and for tensors that are no
        leaves."""
        if tracing.active is not None:
            tracing.gradient_used(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            tracing.gradient_used(self, "cleared")
            self._grad = None
            return
        if not is_sparse(value):
            self._tensor(value, "grad =")
        if value is self:
            raise GradientError(f"grad = the tensor of shape {self.shape} itself: a tensor cannot "
                                f"be its own gradient; give a clone()")
        if value.shape != self.shape or value.dtype is not self.dtype:
            raise GradientError(f"grad = a tensor of {value.dtype.name} {value.shape}: it must be "
                                f"like this one, {self.dtype.name} {self.shape}")
        tracing.gradient_used(self, "replaced")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _collect(self, part: Node, create_graph: bool = False) -> Storage:
        """Add to `.grad`: in place if there is one, and no gradient flows through it; or, as
        gradients are to flow through it, a new sum."""
        levels.check_write(self._storage.serial, self.shape, "calls backward() into .grad of")
        tracing.gradient_used(self)
        if create_graph:
            held: Any = self._grad
            held = held.to_dense() if is_sparse(held) else held
            whole = elementwise(Op.ADD, held.node, part) if held is not None else \
                alias(part) if part.op in MOVEMENT else part
            given = self.grad = self._of(whole, self.device, True, one_of=True)
            return given._storage
        if (held_as_rows or self._grad is not None) and (rows := self._as_rows(part)) is not None:
            return rows
        part = make(Op.DETACH, part.dtype, (part,))
        if self._grad is None:
            self._grad = self._of(part, self.device, one_of=True)
        else:
            background.before_sum(self._grad._storage)
            self._grad._write(elementwise(Op.ADD, self._grad.detach().node, part), False,
                              one_of=True)
        return self._grad._storage

    def _as_rows(self, part: Node) -> Storage | None:
        """Add to `.grad` what is held as rows, or is added to what is; None if neither is so. Gives
        the storage of what is to be computed with others of the pass."""
        held = self._grad
        if not is_sparse(held) and (held is not None or self._leaf_id not in held_as_rows):
            return None
        rows = handle.results._rows_of_gradient(self, part)
        if rows is None and held is None:
            return None
        given = rows
        if rows is None:
            given = self._of(make(Op.DETACH, part.dtype, (part,)), self.device)
        self._grad = given if held is None else handle.results._sum_of_gradients(held, given)
        storage: Storage = handles_of(self._grad)[-1]._storage
        return storage

    @property
    def data(self) -> Tensor:
        """detach(); what is assigned is the new value, and `.grad` stays. Memory is shared with it
        from then on, unless this tensor requires gradients: then it gets a copy."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        tracing.refuse_unless_made(self, "assigning to .data of a tensor from outside")
        given = self._tensor(value, "data =")
        if not given.dtype.is_float and self.requires_grad:
            raise GradientError(f"data = a tensor of {given.dtype.name}, of one that requires "
                                f"gradients: only floats have gradients; convert with .float()")
        if given._storage is self._storage and given._moves == self._moves:
            return  # as of `x.data -= 1`
        if not self.requires_grad:
            tracing.storage_replaced()
            view = given.detach()
            self._storage, self._moves, self._lineage = view._storage, view._moves, view._lineage
            return
        if not self.is_leaf:
            self._show_instead(given)
            return
        other = given._storage.leaf_id
        if other not in (None, self._leaf_id) and other in leaves and given._lineage is not None:
            warnings.warn(f"data = the data of another tensor that requires gradients, of shape "
                          f"{given.shape}, copies it: what is written to one does not show in the "
                          f"other, as it would in PyTorch; to tie two weights, assign the "
                          f"parameter itself", stacklevel=2)
        collected = self._grad
        self._become(given)
        self._grad = collected

    def _show_instead(self, given: Tensor) -> None:
        """Have another value from now on, whose gradients go on to what made the one before."""
        if (given.shape, given.dtype, given.device) != (self.shape, self.dtype, self.device):
            raise GradientError(f"data = {given.dtype.name} {given.shape} on '{given.device}', of "
                                f"{self.dtype.name} {self.shape} on '{self.device}' that an "
                                f"operation made, to which gradients flow: they would not fit; "
                                f"detach() it first")
        tracing.storage_replaced()
        shown = self._of(written_over(self.node, given.detach().node), self.device, True)
        shown._storage.retaining = tuple([r for r in self._storage.retaining if r() is self])
        self._storage, self._moves, self._lineage = shown._storage, (), None

    def _become(self, value: Tensor) -> None:
        """Take over another tensor's value, dtype and device; go on collecting gradients."""
        tracing.storage_replaced()
        required, before = self.requires_grad, self._storage
        is_leaf = self.is_leaf
        self._storage, self._moves = value.detach().clone()._storage, ()
        self._lineage, self._grad = None, None
        if required:
            if is_leaf:
                self._storage.leaf_id = before.leaf_id  # what was recorded before has it, too
            self.requires_grad_()
            if hooks.is_told(self._leaf_id):
                forget_with(self._storage, self._leaf_id)

    def _shown_as(self, view: Tensor, operation: str) -> Self:
        """Make this tensor itself a view of its storage."""
        tracing.refuse_unless_made(self, f"{operation} of a tensor from outside")
        if is_grad_enabled() and self.requires_grad and self.is_leaf:
            raise GradientError(f"{operation} on a leaf that requires gradients: its gradient has "
                                f"the shape that it had; use the method that gives a view")
        self._storage, self._moves, self._lineage = view._storage, view._moves, view._lineage
        return self

    @overridable
    def __copy__(self) -> Tensor:
        return self._view(self._storage, self._moves, self._lineage)

    def _copied_storage(self, memo: dict[int, Any]) -> Storage:
        """The storage's deep copy, which aliases share. GradientError for what is no leaf."""
        if not self.is_leaf:
            raise GradientError("deepcopy of a tensor that an operation made and gradients flow "
                                "through: only leaves can be copied; use detach() or clone()")
        storage: Storage | None = memo.get(id(self._storage))
        if storage is None:
            self._storage.refresh()
            storage = memo[id(self._storage)] = Storage(self._storage.value, self.device)
        return storage

    @overridable
    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        storage = self._copied_storage(memo)
        is_apart = not self.requires_grad and self._storage.requires_grad
        result = memo[id(self)] = self._view(storage, self._moves, Lineage() if is_apart else None)
        if self.requires_grad:
            result.requires_grad_()
        vars(result).update(deepcopy(vars(self), memo))
        if self._grad is not None:
            result.grad = self._grad.__deepcopy__(memo)
        return result


# ---- views that are alike, such as x[0] twice ----------------------------------------------------

FEW = 16
"""So many views of a storage are remembered without a look whether they are still there."""


def become_apart(view: Handle[Any], source: Handle[Any]) -> None:
    """Give a new view, that gradients flow through, a gradient of its own: where another view of
    the storage has its moves, there are some among them that change nothing, as many as it takes.
    source: what it is a view of, whose hooks last as long as it does."""
    storage, moves, given = view._storage, view._moves, source._moves
    views = storage.views
    hooked = getattr(source, "_hooked", None)
    if hooked is not None:
        view._hooked = hooked
    if views is None:
        storage.views = {moves: ref(view)}
        return
    if moves in views and _is_taken(storage, moves):
        first = len(given) if moves[:len(given)] == given else 0
        moves = view._moves = _in_a_guise(storage, moves, first)
        view._value = None
    elif len(views) >= FEW and not len(views) & (len(views) - 1):  # now and then
        views = storage.views = {m: r for m, r in views.copy().items() if r() is not None}
    views[moves] = ref(view)


def _in_a_guise(storage: Storage, moves: Moves, given: int) -> Moves:
    """Moves that are taken, with moves among them that change nothing and say a number: one more
    than that of a view that is there, and mostly no more."""
    axes = tuple(range(len(shape_after(storage.shape, moves[:given]))))
    digits: tuple[tuple[Op, Any], ...] = (Op.PERMUTE, axes), (Op.FLIP, ())

    def guised(number: int) -> Moves:
        return *moves[:given], *said(number, digits), *moves[given:]

    return guised(free_number(lambda number: _is_taken(storage, guised(number))))


def _is_taken(storage: Storage, moves: Moves) -> bool:
    """Whether another view has these moves, or hooks are called with the gradients of one that
    had."""
    found = None if storage.views is None else storage.views.get(moves)
    if found is None:
        return False
    other = found()
    return other is not None and other._moves == moves and other._storage is storage \
        or _is_hooked(storage, moves)


def _is_hooked(storage: Storage, moves: Moves) -> bool:
    frame, template = storage._mark(), storage._template
    if frame is not None and frame.hooks and template is not None:
        if storage.leaf_id is not None:
            template = make(Op.LEAF, template.dtype, (template,),
                            frame.leaf_number(storage.leaf_id))
        if frame.has_hooks(apply(moves, template)):
            return True
    return storage._frame is None and hooks.were_registered() \
        and hooks.is_of_value(apply(moves, storage.node))
