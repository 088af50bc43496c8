"""What all transforms of `lazyten.func` share: how a function is wrapped, called and answered.

A transform calls the function once with stand-ins for its arguments, which are tensors like any
other, and gets the graphs of its results. What it then does is a walk over graphs; nothing is
computed. `__init__.py` has those that differentiate, `mapping.py` has vmap.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from types import MethodType
from typing import Any
from weakref import ref

from lazyten.autodiff.gradient import reach_leaves
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.operators.math.shapes import as_int
from lazyten.support.errors import ArgumentError, KindError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.trees import Branch, flatten, has_parted, paths

Function = Callable[..., Any]


class Transformed:
    """call(function, *settings, *args, **kwargs) as a function, or method, of args and kwargs."""

    def __init__(self, operation: str, function: Function, call: Callable[..., Any],
                 *settings: Any) -> None:
        check_function(operation, function)
        update_wrapper(self, function, updated=())  # jit looks at __wrapped__ for Python state
        self._call = partial(call, function, *settings)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)


def checked_chunk_size(operation: str, size: int | None, of: str) -> int | None:
    """How many of something are worked out at once, None for all. ArgumentError below 1."""
    if size is None:
        return None
    count = as_int(size, operation, "chunk_size")
    if count < 1:
        raise ArgumentError(f"{operation}: chunk_size={count}; give 1 or more, or None for all "
                            f"{of} at once")
    return count


def check_function(operation: str, function: object) -> None:
    """ArgumentError unless it can be called."""
    if not callable(function):
        raise ArgumentError(f"{operation} of {type(function).__name__} {function!r:.40}: it "
                            f"transforms a function; give the function itself, not what it gives")


def outputs_of(operation: str, value: Any) -> tuple[list[Tensor], Branch | None]:
    """The tensors that a function gave, and how they are nested. KindError for anything else."""
    leaves, structure = flatten(value)
    refuse_sparse(operation, structure, "gives")
    for leaf, name in zip(leaves, paths(structure, "the result"), strict=True):
        if not isinstance(leaf, Tensor):
            raise KindError(f"{operation}: {name} of the function is {type(leaf).__name__} "
                            f"{leaf!r:.40}, not a tensor; return tensors, in lists, tuples and "
                            f"dicts")
    return leaves, structure


def refuse_sparse(operation: str, structure: Branch | None, verb: str) -> None:
    """KindError for sparse tensors among what a function takes or gives: their parts are none of
    its arguments and results."""
    if has_parted(structure):
        raise KindError(f"{operation}: the function {verb} a sparse tensor or a DTensor; let it "
                        f"find it by name, and give to_dense() of one, or to_local()")


def results(nodes: Sequence[Node], devices: Sequence[str]) -> list[Tensor]:
    """New tensors of these values, computed together once one of them is asked for.

    They require gradients if they depend on what does, unless gradients are switched off.
    """
    made = []
    for node, device, reaches in zip(nodes, devices, reach_leaves(nodes), strict=True):
        if reaches and not is_grad_enabled():
            node, reaches = make(Op.DETACH, node.dtype, (node,)), False
        made.append(Tensor._of(node, device, reaches, one_of=True))
    group = tuple(ref(t._storage) for t in made)
    for tensor in made:
        tensor._storage.companions = group
    return made
