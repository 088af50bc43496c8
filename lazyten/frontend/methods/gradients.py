"""backward(), and methods that look at gradients on their way: hooks, and gradients of what is no
leaf."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import ref

from lazyten.autodiff import gradient as _gradient
from lazyten.autodiff import hooks
from lazyten.autodiff.hooks import RemovableHandle
from lazyten.autodiff.watching import runs_none
from lazyten.execution import background
from lazyten.frontend.core.handle import forget_with, leaves
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.frontend.recorded import gradients as recorded_gradients
from lazyten.frontend.recorded.slots import OnTensor, templates_of
from lazyten.ir.node import Node, cast, const
from lazyten.ir.ops import Op
from lazyten.operators.arrays import indexing
from lazyten.operators.math.gradients import before_writes
from lazyten.storage import tracing
from lazyten.storage.frames import hooked
from lazyten.support.errors import DTypeError, GradientError
from lazyten.support.grad_mode import enable_grad, of_backward


class GradientMethods(TensorCore[Tensor]):
    """backward() and hooks."""

    __slots__ = ()

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None,
                 create_graph: bool = False,
                 inputs: Tensor | Iterable[Tensor] | None = None) -> None:
        """Add the gradient of this tensor to `.grad` of every leaf that it was computed from, or of
        those among `inputs`.

        gradient: what this tensor's elements are weighted with; may be left out for one element.
        retain_graph: keep what is needed to call backward() again; as create_graph if left out.
        create_graph: gradients flow through `.grad`, so that it can be differentiated itself.
        Nothing is computed yet: the gradients are tensors as lazy as any.
        """
        retained = create_graph if retain_graph is None else retain_graph
        if gradient is None and inputs is None and not create_graph \
                and recorded_gradients.backward(self, retained):
            return
        if inputs is None:
            tracing.differentiated()
        cotangent, node = self._cotangent(gradient, create_graph), self.node
        if inputs is not None:
            parts = self._gradients_among(inputs, node, cotangent, create_graph)
        else:
            with hooks.users_walk(create_graph):
                parts = [(leaf.arg, part) for leaf, part in
                         _gradient.leaf_gradients(node, cotangent)]
        self._add_to_leaves(parts, retained, create_graph)

    def _gradients_among(self, inputs: Tensor | Iterable[Tensor], node: Node, cotangent: Node,
                         create_graph: bool) -> list[tuple[int, Node]]:
        """The gradients of the leaves among these, by id; those of what is no leaf are added to
        its `.grad`."""
        given: Any = [inputs] if isinstance(inputs, TensorCore) else list(inputs)
        if not given:
            raise GradientError("backward: inputs is empty; give the tensors whose gradients are "
                                "wanted, or leave inputs out for all leaves")
        among = {id(t): self._wanted(t) for t in given}.values()
        tracing.differentiated([*among])
        with hooks.users_walk(create_graph):
            found = _gradient.gradients_for([node], [cotangent], [
                t._storage.node if t.is_leaf else before_writes(t.node) for t in among])
        parts = [(t, part) for t, part in zip(among, found, strict=True) if part is not None]
        for t, part in parts:
            if not t.is_leaf and not hasattr(t, "_retains"):  # the walk has added to that
                t._collect(part, create_graph)
        return list({t._leaf_id: part for t, part in parts if t.is_leaf}.items())

    @runs_none
    def _add_to_leaves(self, parts: Sequence[tuple[int, Node]], retain_graph: bool,
                       create_graph: bool = False) -> None:
        """Add these gradients to `.grad` of leaves that have these ids, and give up the graph."""
        touched = [self._storage]
        owners = leaves.owners([leaf_id for leaf_id, _ in parts])
        for (leaf_id, part), owner in zip(parts, owners, strict=True):
            if owner is not None:
                touched.append(owner._collect(indexing.apply(owner._moves, part), create_graph))
                with of_backward(create_graph):
                    hooks.accumulated(leaf_id, owner)
        with of_backward(create_graph):
            hooks.finished()
        if not retain_graph:
            self._free_graph()
        group = tuple(ref(s) for s in touched)
        for storage in touched:
            storage.companions = group
        background.summed(touched[1:])

    def _free_graph(self) -> None:
        """Give up what this tensor was computed from, if backward() has used values of that."""
        storage, lineage = self._storage, self._lineage
        if storage._frame is not None:
            storage._frame.is_freed = True
        if lineage is None:
            graph = storage.value if storage._frame is None else storage._template
            if graph is not None and _gradient.saves_values(graph):
                storage.free_graph()
        elif lineage.carrier is not None and _gradient.saves_values(lineage.carrier):
            lineage.free()

    def _wanted(self, given: Any) -> Tensor:
        """A tensor whose `.grad` backward() is to add to."""
        wanted = self._tensor(given, "backward: inputs")
        if not wanted.requires_grad:
            raise GradientError(f"backward: a tensor of shape {wanted.shape} among the inputs does "
                                f"not require gradients; set requires_grad before the result is "
                                f"computed from it")
        return wanted

    def _cotangent(self, given: Any, create_graph: bool) -> Node:
        if not self.requires_grad:
            raise GradientError(f"backward of a tensor of shape {self.shape} that does not require "
                                f"gradients: set requires_grad on a leaf it is computed from, and "
                                f"compute it outside no_grad()")
        if (self._storage if self._lineage is None else self._lineage).was_freed:
            raise GradientError("backward was called on this tensor before, which frees what it "
                                "was computed from; the first time, pass retain_graph=True")
        if given is None:
            if self.numel() != 1:
                raise GradientError(f"backward of shape {self.shape}: a gradient without weights "
                                    f"is for one element; reduce first, with sum() or mean(), or "
                                    f"pass gradient=")
            return const(1.0, self.dtype, self.shape)
        if isinstance(given, list | tuple) and len(given) == 1:  # as autograd.backward takes them
            given = given[0]
        self._tensor(given, "backward")
        if given.shape != self.shape or not given.dtype.is_float:
            raise GradientError(f"backward: gradient is {given.dtype.name} {given.shape}, but the "
                                f"tensor {self.dtype.name} {self.shape}; they must be alike")
        return cast((given if create_graph else given.detach()).node, self.dtype)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Have `hook` called with this tensor's gradient in each backward pass. What it gives, if
        not None, goes on in its place."""
        _check_hook(self, "register_hook", hook)
        with enable_grad():
            found = templates_of([self])
        if found is not None and found[1][0].op is not Op.LEAF:
            frame, template = found[0], before_writes(found[1][0])
            _hold(self, frame)
            if self._storage._frame is not None:
                return hooks.add(frame.hooks_of(template), OnTensor(hook, self))
            frame.real(template)  # other frames make graphs of what it is a view of
            table = frame.hooks_of(template)
            hooked(frame.real(template))
            return hooks.add(table, OnTensor(hook, self))
        node = _hooked(self, "register_hook", hook)
        hooked(node)
        return hooks.register(node, OnTensor(hook, self))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Have `hook` called with this leaf after each time that backward() added to its
        `.grad`."""
        node = _hooked(self, "register_post_accumulate_grad_hook", hook)
        if not self.is_leaf:
            raise GradientError("register_post_accumulate_grad_hook of a tensor that an operation "
                                "made: it has no .grad; use register_hook()")
        return hooks.register_after(node.arg, hook)

    def retain_grad(self) -> None:
        """Collect this tensor's gradient in `.grad` too, though it is no leaf."""
        node = _hooked(self, "retain_grad", print)
        if self.is_leaf or self.retains_grad:
            return
        self._retains = _collected(self, node)
        self._storage.retaining += (ref(self),)

    def _retain_new_value(self) -> None:
        """After a write in place, `.grad` collects the gradient of the new value."""
        self._retains.remove()
        if self.requires_grad:
            self._retains = _collected(self, _hooked(self, "retain_grad", print))

    @property
    def retains_grad(self) -> bool:
        """Whether `.grad` collects the gradient of this tensor, which is no leaf."""
        return hasattr(self, "_retains")


def _collected(x: TensorCore[Tensor], node: Node) -> RemovableHandle:
    """Have the gradients of `node`, the value of `x`, added to its `.grad`."""
    owner = ref(x)

    def collect(gradient: Node) -> None:
        tensor = owner()
        if tensor is not None:
            tensor._collect(gradient, hooks.walk.is_differentiable)

    return hooks.register(node, collect, last=True)


def _hooked(x: TensorCore[Tensor], operation: str, hook: Any) -> Node:
    """The node whose gradient is meant."""
    _check_hook(x, operation, hook)
    found = None if x.is_leaf else templates_of([x])
    if found is not None:
        frame, (template,) = found
        frame.real_in_all(template)  # whose hooks in the frame are then those of its graph, too
    node = before_writes(x.node)
    if node.op is Op.LEAF:
        forget_with(x._storage, node.arg)
    elif x._moves:  # hooks go with their node, which a view does not keep
        _hold(x, node)
    return node


def _hold(x: TensorCore[Tensor], held: Any) -> None:
    """Have this last as long as a tensor, or a view of it, does."""
    moves = x._moves
    views = [*(x._storage.views or {}).values()] if moves else []
    for view in {x, *[reference() for reference in views]}:
        if view is not None and view._moves[:len(moves)] == moves:
            view._hooked = (*getattr(view, "_hooked", ()), held)


def _check_hook(x: TensorCore[Tensor], operation: str, hook: Any) -> None:
    if not callable(hook):
        raise DTypeError(f"{operation}: {hook!r:.40} cannot be called; give a function of the "
                         f"gradient")
    if not x.requires_grad:
        raise GradientError(f"{operation} of a tensor of shape {x.shape} that does not require "
                            f"gradients: set requires_grad on a leaf it is computed from")
