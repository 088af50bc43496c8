"""What the forward() of a hand-written operation leaves for its backward(): a context.

In: tensors, which may be templates of a frame (storage/frames.py). Out: the same tensors when
backward() asks for them, whose gradients flow as they did then.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import ref

from lazyten.autograd import saving
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.core.forms import in_floats, is_sparse
from lazyten.frontend.recorded.slots import go_on_with, templates_of
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.storage import tracing
from lazyten.storage.deferred import deferred
from lazyten.storage.frames import Frame, here
from lazyten.storage.storage import Storage
from lazyten.support.errors import DTypeError, GradientError
from lazyten.support.grad_mode import enable_grad
from lazyten.support.trees import Branch, flatten, unflatten


class _Saved(NamedTuple):
    """A tensor for backward(): its value when it was saved, over real memory or a frame's; and if
    it was a leaf, that, and which of its values it had."""

    node: Node
    device: str
    requires_grad: bool
    is_template: bool
    is_complex: bool
    leaf: tuple[Storage, int] | None = None

    def as_leaf(self) -> Tensor | None:
        """The leaf itself, as what backward() computes of it may be differentiated for it; None
        where it was none, or was changed since."""
        if self.leaf is None:
            return None
        storage, version = self.leaf
        if storage.leaf_id is None or storage.version != version:
            return None
        shown: Tensor = Tensor._view(storage, (), None)
        return shown


class Outputs(NamedTuple):
    """Those of a call that have gradients, its inputs, and their gradient while somebody has one of
    them."""

    values: tuple[Node, ...]
    inputs: tuple[Node, ...]
    rule: Callable[[], Any]

    def over(self, frame: Frame) -> Outputs:
        """The same over real memory."""
        return self._replace(values=tuple(map(frame.real, self.values)),
                             inputs=tuple(map(frame.real, self.inputs)))


class FunctionContext:
    """What forward() leaves for backward(): saved tensors, and any attributes.

    needs_input_grad: for each argument of apply(), whether its gradient is wanted.
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self._inputs: list[Tensor] = [
            in_floats(a) for a in args if isinstance(a, Tensor) and not is_sparse(a)]
        self._before = here.current
        self._saved: list[_Saved | None] = []
        self._packed: list[saving.Packed | None] | None = None
        self._forward: tuple[Branch | None, list[_Saved | None]] | None = None
        self._structure: Branch | None = None
        self._without_gradient: set[int] = set()
        self._dirty: set[int] = set()
        self._materialize = True
        self._frame: Callable[[], Frame | None] | None = None
        self._outputs: Outputs | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward(), with the values they have now; of sparse ones what they
        hold. What is no tensor is left out if no gradient is wanted, and else a DTypeError."""
        if not any(self.needs_input_grad):
            tensors = tuple(t if isinstance(t, Tensor) else None for t in tensors)
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise DTypeError(f"save_for_backward: {t!r:.40} is not a tensor; make it an "
                                 f"attribute of ctx")
        parts, self._structure = flatten(tensors)
        self._saved = [None if t is None else self._kept(t) for t in parts]
        packing = saving.current()
        self._packed = None if packing is None else [
            None if t is None or isinstance(t, ComplexTensor) else saving.Packed(packing, t)
            for t in parts]

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp(), which `saved_tensors` has there in place of those for backward().
        """
        parts, structure = flatten(tensors)
        self._forward = structure, [None if t is None else self._kept(t) for t in parts]

    @property
    def saved_for_forward(self) -> tuple[Tensor | None, ...] | None:
        """What save_for_forward() was given; None if it was not called."""
        if self._forward is None:
            return None
        with self._going_forward():
            return self.saved_tensors

    @contextmanager
    def _going_forward(self) -> Iterator[None]:
        """Within this block saved_tensors are those for jvp(), if there are any."""
        before = self._structure, self._saved, self._packed
        if self._forward is not None:
            self._structure, self._saved, self._packed = *self._forward, None
        try:
            yield
        finally:
            self._structure, self._saved, self._packed = before

    def _go_on(self) -> None:
        """Record in the frame that knows the inputs, if forward() has looked at a value, and what
        came after that may have begun another."""
        current = here.current()
        if current is None or current is not self._before():
            go_on_with(self._inputs)

    def _kept(self, t: Tensor) -> _Saved:
        parts, is_complex = in_floats(t), isinstance(t, ComplexTensor)
        storage = parts._storage
        leaf = (storage, storage.version) if parts.requires_grad and parts.is_leaf \
            and not parts._moves and tracing.active is None else None
        with enable_grad():
            self._go_on()
            found = templates_of([parts])
        if found is None or self._frame is not None and self._frame() is not found[0]:
            return _Saved(parts.node, t.device, t.requires_grad, False, is_complex, leaf)
        frame = found[0]
        self._frame = lambda: frame
        return _Saved(found[1][0], t.device, t.requires_grad, True, is_complex, leaf)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward() was given."""
        if self._structure is None:
            return ()
        parts = [None if s is None else shown(self._tensor(s), s.is_complex) for s in self._saved]
        if self._packed is not None:
            parts = [t if t is None or packed is None
                     else saving.attached(packed.tensor(), t.node, t.requires_grad)
                     for t, packed in zip(parts, self._packed, strict=True)]
        given: tuple[Tensor | None, ...] = unflatten(iter(parts), self._structure)
        return given

    def _tensor(self, saved: _Saved) -> Tensor:
        """A new tensor of what was saved, of pairs if it was complex; an output has its gradient,
        for second derivatives."""
        leaf = saved.as_leaf()
        if leaf is not None:
            return leaf
        frame = None if self._frame is None else self._frame()
        if frame is None and saved.is_template:
            raise GradientError("saved_tensors of a call whose results are gone: keep one of them, "
                                "or keep what is asked for as an attribute of ctx")
        node, outputs = saved.node, self._outputs
        rule = outputs and outputs.rule()
        if outputs and rule and node in outputs.values \
                and saved.is_template is (frame is not None):
            node = rule.attached(outputs.values, outputs.inputs)[outputs.values.index(node)]
        requires_grad = saved.requires_grad or node is not saved.node
        if frame is None or not saved.is_template:
            return Tensor._of(node, saved.device, requires_grad)
        return Tensor._view(deferred(frame, node, requires_grad), (), None)

    def _stay_in(self, frame: Frame | None) -> None:
        """What was saved is asked for in this frame, which has the rules and holds them; if it was
        saved in another, over real memory."""
        saved_in = None if self._frame is None else self._frame()
        if saved_in is not None and saved_in is not frame:
            self._leave(saved_in)
        self._frame = None if frame is None else ref(frame)

    def _leave(self, frame: Frame) -> None:
        """What was saved in a frame is asked for over real memory from now on."""
        if self._frame is None:
            return
        self._frame = None
        def real(saved: list[_Saved | None]) -> list[_Saved | None]:
            return [s and s._replace(node=frame.real(s.node) if s.is_template else s.node,
                                     is_template=False) for s in saved]

        self._saved = real(self._saved)
        self._forward = self._forward and (self._forward[0], real(self._forward[1]))
        self._outputs = self._outputs and self._outputs.over(frame)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """No gradient flows through these outputs."""
        self._without_gradient |= {id(t) for t in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients of outputs that are not used are zeros for backward(), or None."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """forward() has written to these arguments, and gives them back: backward() is the gradient
        of what they have become."""
        self._dirty |= {id(t) for t in tensors}


class WholeContext(FunctionContext):
    """The context of a call for all examples of a vmap, which notes what is left there."""

    def __init__(self, ctx: FunctionContext) -> None:
        super().__init__(())
        self.needs_input_grad = ctx.needs_input_grad
        self._noted: tuple[Tensor | None, ...] = ()
        self._names = set(vars(self))

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""
        self._noted = tensors

    def hand_over(self, ctx: FunctionContext, one: Callable[[Any], Any]) -> None:
        """Leave the same in the context of a call for one example. one: makes a tensor of all
        examples that of one."""
        ctx.save_for_backward(*[one(t) for t in self._noted])
        for name in set(vars(self)) - self._names - {"_names"}:
            setattr(ctx, name, getattr(self, name))


def shown(parts: Tensor, is_complex: bool) -> Tensor:
    """A tensor of pairs as the complex one that it stands for; another itself."""
    return of_parts(parts) if is_complex else parts
