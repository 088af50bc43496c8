"""Policies: which modules inside have parameters that are gathered together.

A policy is asked of each module: policy(module, recurse, nonwrapped_numel). With recurse whether to
look at what is in it; otherwise whether it is a unit itself, of so many elements that are in no
unit inside.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lazyten.nn.containers import ModuleDict, ModuleList
from lazyten.nn.module import Module
from lazyten.nn.sequence.attention import MultiheadAttention
from lazyten.nn.sharded_parameter import PartialParameter
from lazyten.support.errors import ArgumentError

Policy = Callable[..., Any]
Wrapper = Callable[..., Module]
_wrapping: ContextVar[tuple[Wrapper, dict[str, Any]] | None] = ContextVar("_wrapping", default=None)


class ModuleWrapPolicy:
    """Modules of these classes are units."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._classes)

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({set(self._classes)})"


class CustomPolicy:
    """Modules for which a function gives True are units; for which it gives a dict that is not
    empty, units with these options."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._function = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        return recurse or self._function(module)


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Each module is a unit."""
    return True


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                                 transformer_layer_cls: Collection[type[Module]]) -> bool:
    """Modules of these classes are units; give it with functools.partial."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                            lambda_fn: Callable[[Module], bool]) -> bool:
    """Modules for which a function gives True are units; give it with functools.partial."""
    return recurse or lambda_fn(module)


def size_based_auto_wrap_policy(
        module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = 100_000_000,
        force_leaf_modules: Collection[type[Module]] | None = None,
        exclude_wrap_modules: Collection[type[Module]] | None = None) -> bool:
    """Modules with so many elements that are in no unit inside are units, but for lists and dicts
    of modules. force_leaf_modules: those in which nothing is a unit of its own."""
    leaves = (MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    left_out = (ModuleList, ModuleDict) if exclude_wrap_modules is None else \
        tuple(exclude_wrap_modules)
    is_large = nonwrapped_numel >= min_num_params
    if recurse:
        return is_large and not isinstance(module, leaves)
    return is_large and not isinstance(module, left_out)


@contextmanager
def enable_wrap(*, wrapper_cls: Wrapper, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which wrap(module) is wrapper_cls(module, **wrapper_kwargs)."""
    token = _wrapping.set((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.reset(token)


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module as `with enable_wrap(...):` says, and itself outside of such a block."""
    found = _wrapping.get()
    return module if found is None else found[0](module, **found[1] | wrap_overrides)


def wrapped(module: Module, policy: Policy, wrapper: Wrapper, ignored: Collection[int],
            is_root: bool = True) -> tuple[Module, int]:
    """A module in which those that a policy chooses, innermost first, are what `wrapper` makes of
    them; and how many elements are in such. ignored: the ids of modules that are left alone; the
    root is never one itself."""
    count = sum(_size(p) for p in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=count):
        return module, 0
    inside = 0
    for name, child in list(module.named_children()):
        if id(child) not in ignored:
            made, own = wrapped(child, policy, wrapper, ignored, False)
            module._modules[name] = made
            inside += own
    rest = count - inside
    options = not is_root and policy(module=module, recurse=False, nonwrapped_numel=rest)
    if not isinstance(options, bool | dict):
        raise ArgumentError(f"auto_wrap_policy of {type(module).__name__} gives {options!r:.40}: it"
                            f" is True, False, or a dict of options")
    if not options:
        return module, inside
    return wrapper(module, **(options if isinstance(options, dict) else {})), count


def _size(p: Any) -> int:
    return math.prod(p.whole_shape) if isinstance(p, PartialParameter) else int(p.numel())
