"""`lt.autograd.graph`: hooks of what is recorded for gradients, under PyTorch's names."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from lazyten.autodiff import hooks
from lazyten.autodiff.functions_back import GradFn
from lazyten.autograd import saving
from lazyten.frontend.tensor import Tensor
from lazyten.pytorch.refusals import refused
from lazyten.support.errors import ArgumentError, GradientError

globals().update(refused(
    "autograd.graph", "gradients read values as they were when they were recorded, whatever is "
    "written later", "allow_mutation_on_saved_tensors", "increment_version"))
__all__ = ["GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge",
           "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]
Node = GradFn


class saved_tensors_hooks:
    """Within this block what operations keep for gradients is `pack_hook(tensor)`, and gradients
    read `unpack_hook` of that, a tensor of the same shape, type and device (else a GradientError).

    Tensors that pack_hook is given are an operation's operands and results, as far as its gradient
    reads them, and what `save_for_backward` is given; neither hook is recorded. Operations that
    write to a tensor, and those on complex and sparse ones, are left as they are. Of blocks within
    each other the innermost counts."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
                 ) -> None:
        if not callable(pack_hook) or not callable(unpack_hook):
            raise ArgumentError(f"saved_tensors_hooks({pack_hook!r:.40}, {unpack_hook!r:.40}): "
                                f"give two functions: one that packs a tensor, one that unpacks it")
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._entered: list[saving.Saving] = []

    def __enter__(self) -> None:
        entered = saving.Saving(saving.Hooks(self.pack_hook, self.unpack_hook))
        entered.__enter__()
        self._entered.append(entered)

    def __exit__(self, *raised: object) -> None:
        self._entered.pop().__exit__(*raised)


class save_on_cpu(saved_tensors_hooks):
    """Within this block what is kept for gradients is kept in the memory of the CPU. pin_memory
    changes nothing."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: (x.device, x if str(x.device) == "cpu" else x.cpu()),
                         lambda kept: kept[1].to(kept[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within this block, or in the function that it decorates, `saved_tensors_hooks` is a
    StateError of these words."""
    end = saving.refused(error_message)
    try:
        yield
    finally:
        end()


class GradientEdge(NamedTuple):
    """Where gradients flow to: an operation, and which of its results, 0."""

    node: GradFn | None
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """That of a tensor. GradientError if it does not require gradients."""
    if not tensor.requires_grad:
        raise GradientError("get_gradient_edge of a tensor that does not require gradients; call "
                            "requires_grad_() first")
    return GradientEdge(tensor.grad_fn, 0)


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *,
                             mode: str = "all") -> hooks.RemovableHandle:
    """Have `fn` called in each backward pass: with the gradients of all these tensors, None for
    those that get none, at its end, once one of them got one (mode 'all'); or with the first that
    is known ('any')."""
    if mode not in ("all", "any"):
        raise ArgumentError(f"register_multi_grad_hook: mode={mode!r}; it is 'all' or 'any'")
    found: list[Tensor | None] = [None] * len(tensors)
    owner = object()

    def end() -> None:
        given, found[:] = list(found), [None] * len(tensors)
        if mode == "all":
            fn(given)

    def told(number: int, gradient: Tensor) -> None:
        is_first = all(x is None for x in found)
        found[number] = gradient
        hooks.at_end(owner, end)
        if mode == "any" and is_first:
            fn(gradient)

    handles = [t.register_hook(partial(told, number)) for number, t in enumerate(tensors)]
    table: dict[int, Any] = {}
    return _All(table, handles)


class _All(hooks.RemovableHandle):
    """The hooks of several tensors as one."""

    def __init__(self, table: dict[int, Any], handles: Sequence[Any]) -> None:
        super().__init__(table)
        self._handles = handles

    def remove(self) -> None:
        """Call none of them any more."""
        for handle in self._handles:
            handle.remove()
