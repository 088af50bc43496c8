"""Methods that look at gradients on their way: hooks, and gradients of what is no leaf."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import finalize, ref

from lazyten.autodiff import hooks
from lazyten.autodiff.hooks import RemovableHandle
from lazyten.frontend.methods.tensor_like import T
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.support.errors import DTypeError, GradientError


class GradientMethods:
    """Hooks."""

    __slots__ = ()
    _hooked: tuple[Node, ...]
    _retains: RemovableHandle

    def register_hook(self: T, hook: Callable[[T], T | None]) -> RemovableHandle:
        """Have `hook` called with this tensor's gradient in each backward pass. What it gives, if
        not None, goes on in its place."""
        owner: type = type(self)
        make, device, shape, dtype = type(self)._of, self.device, self.shape, self.dtype

        def on_node(gradient: Node) -> Node | None:
            result = hook(make(gradient, device))
            if result is None:
                return None
            if not isinstance(result, owner):
                raise GradientError(f"a hook gave {result!r:.40}; give the gradient to go on with, "
                                    f"a tensor, or None")
            if result.shape != shape or result.dtype is not dtype:
                raise GradientError(f"a hook of a tensor of {dtype.name} {shape} gave a gradient "
                                    f"of {result.dtype.name} {result.shape}; they must be alike")
            return result.detach().node

        return hooks.register(_hooked(self, "register_hook", hook), on_node)

    def register_post_accumulate_grad_hook(self: T, hook: Callable[[T], None]) -> RemovableHandle:
        """Have `hook` called with this leaf after each time that backward() added to its
        `.grad`."""
        node = _hooked(self, "register_post_accumulate_grad_hook", hook)
        if not self.is_leaf:
            raise GradientError("register_post_accumulate_grad_hook of a tensor that an operation "
                                "made: it has no .grad; use register_hook()")
        return hooks.register_after(node.arg, hook)

    def retain_grad(self: T) -> None:
        """Collect this tensor's gradient in `.grad` too, though it is no leaf."""
        node = _hooked(self, "retain_grad", print)
        if self.is_leaf or self.retains_grad:
            return
        self._retains = _collected(self, node)
        self._storage.retaining += (ref(self),)

    def _retain_new_value(self: T) -> None:
        """After a write in place, `.grad` collects the gradient of the new value."""
        self._retains.remove()
        if self.requires_grad:
            self._retains = _collected(self, _hooked(self, "retain_grad", print))

    @property
    def retains_grad(self: T) -> bool:
        """Whether `.grad` collects the gradient of this tensor, which is no leaf."""
        return hasattr(self, "_retains")


def _collected(x: T, node: Node) -> RemovableHandle:
    """Have the gradients of `node`, the value of `x`, added to its `.grad`."""
    owner = ref(x)

    def collect(gradient: Node) -> None:
        tensor = owner()
        if tensor is not None:
            tensor._collect(gradient)

    return hooks.register(node, collect, last=True)


def _hooked(x: T, operation: str, hook: Any) -> Node:
    """The node whose gradient is meant."""
    if not callable(hook):
        raise DTypeError(f"{operation}: {hook!r:.40} cannot be called; give a function of the "
                         f"gradient")
    if not x.requires_grad:
        raise GradientError(f"{operation} of a tensor of shape {x.shape} that does not require "
                            f"gradients: set requires_grad on a leaf it is computed from")
    node = x.node
    if node.op is Op.LEAF:
        finalize(x._storage, hooks.forget, node.arg).atexit = False
    elif x._moves:  # hooks go with their node, which a view does not keep
        x._hooked = (*getattr(x, "_hooked", ()), node)
    return node
