"""Calling a module with other tensors in place of its parameters: a function of these."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError, DTypeError, StateError


def functional_call(module: Module, parameter_and_buffer_dicts: Mapping[str, Tensor], args: Any,
                    kwargs: Mapping[str, Any] | None = None) -> Any:
    """module(*args, **kwargs) with some of its parameters and buffers replaced, by dotted name.

    args: a tuple of arguments, or the only one. The module itself stays as it is. Raises StateError
    for a name that the module does not have.
    """
    if not isinstance(module, Module):
        raise ArgumentError(f"functional_call of {type(module).__name__} {module!r:.40}: it calls "
                            f"a Module; give a layer or a model")
    if not isinstance(parameter_and_buffer_dicts, Mapping):
        raise DTypeError(f"functional_call: the parameters are "
                         f"{type(parameter_and_buffer_dicts).__name__}, not a dict of tensors by "
                         f"name; use dict(module.named_parameters())")
    with _replaced(module, parameter_and_buffer_dicts):
        given = args if isinstance(args, tuple) else (args,)
        return module(*given, **(kwargs or {}))


@contextmanager
def _replaced(module: Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Within this block the module has these tensors. (Past __setattr__, which jit watches: in the
    end nothing has changed.)"""
    places = [_place(module, name, tensor) for name, tensor in tensors.items()]
    before = [kind[name] for kind, name, _ in places]
    try:
        for kind, name, tensor in places:
            kind[name] = tensor
        yield
    finally:
        for (kind, name, _), tensor in zip(places, before, strict=True):
            kind[name] = tensor


def _place(module: Module, path: str, tensor: Any) -> tuple[dict[str, Any], str, Tensor]:
    """The table that a dotted name is in, its last part, and the tensor to put there."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"functional_call: {path!r} is {type(tensor).__name__} {tensor!r:.40}, "
                         f"not a tensor; wrap it in lazyten.tensor()")
    *above, name = str(path).split(".")
    owner: Module | None = module
    for part in above:
        owner = None if owner is None else owner._modules.get(part)
    if owner is None or not (name in owner._parameters or name in owner._buffers):
        known = [n for n, _ in (*module.named_parameters(), *module.named_buffers())]
        raise StateError(f"functional_call: {type(module).__name__} has no parameter or buffer "
                         f"{path!r}; it has {', '.join(known) or 'none'}")
    return owner._parameters if name in owner._parameters else owner._buffers, name, tensor
