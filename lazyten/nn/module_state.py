"""Saving and loading the state of modules: `state_dict` and `load_state_dict`."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyten.autodiff.hooks import RemovableHandle
from lazyten.frontend.tensor import Tensor
from lazyten.nn.attributes import Attributes
from lazyten.nn.module_hooks import HookMethods, Hooks, registered
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import StateError
from lazyten.support.grad_mode import no_grad


class IncompatibleKeys(NamedTuple):
    """What load_state_dict() found to differ: names that were not given, and names given that the
    module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (f"IncompatibleKeys(missing_keys={self.missing_keys}, "
                f"unexpected_keys={self.unexpected_keys})")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a module keeps one tensor of the state."""

    owner: Attributes
    name: str
    value: Tensor

    def load(self, value: Tensor, assign: bool) -> None:
        """Take over a value, or put the tensor itself there: then a parameter trains as the one
        before did, unless it says so itself."""
        if not assign:
            with no_grad():
                there = self.value.detach()
                there.copy_(value.detach().to(device=there.device))
            return
        if isinstance(self.value, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, self.value.requires_grad)
        setattr(self.owner, self.name, value)


class StateMethods(HookMethods):
    """state_dict() and load_state_dict()."""

    _state_dict_pre_hooks: Hooks = None
    _state_dict_hooks: Hooks = None
    _load_pre_hooks: Hooks = None
    _load_post_hooks: Hooks = None

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, prefix, keep_vars)` called before this module's state is taken."""
        return self._add_hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, state_dict, prefix, local_metadata)` called when this module's state
        is in the dict, which it may change. local_metadata is an empty dict."""
        return self._add_hook("_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` called before anything is loaded. It may change the dict,
        which is a copy (to give names of today to what was saved long ago), and add to the lists.
        """
        return self._add_hook("_load_pre_hooks", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, incompatible_keys)` called when all is loaded: it may change the lists
        of names that are given back, and a strict load fails if any is left."""
        return self._add_hook("_load_post_hooks", hook)

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        """What a kind of module changes in the copy of a state that is to be loaded, or in itself:
        before the hooks."""

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        """What this module itself saves: parameters, then buffers but for those that are not."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    def state_dict(self, *, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, sharing this module's memory.

        destination: the dict to add to; prefix: what names begin with. keep_vars: the tensors
        themselves, rather than detached ones.
        """
        state: dict[str, Any] = OrderedDict() if destination is None else destination
        for (hook,) in registered(self._state_dict_pre_hooks):
            hook(self, prefix, keep_vars)
        for name, value in self._own_state():
            state[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.",
                                  keep_vars=keep_vars)
        for (hook,) in registered(self._state_dict_hooks):
            hook(self, state, prefix, {})
        return state

    def _owners(self, prefix: str = "") -> Iterator[tuple[str, StateMethods]]:
        """This module and all below it, with what the names of each begin with."""
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module._owners(f"{prefix}{name}.")

    def _places(self) -> Iterator[tuple[str, _Place]]:
        for prefix, module in self._owners():
            for name, value in module._own_state():
                yield prefix + name, _Place(module, name, value)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> IncompatibleKeys:
        """Take over values by name. Nothing changes unless all of them fit.

        StateError names what is missing, unexpected (both allowed if not `strict`, and given back),
        or of another shape. assign: take the tensors themselves, with their dtype and device, in
        place of their values.
        """
        operation = f"load_state_dict of {type(self).__name__}"
        _check_mapping(state_dict, operation)
        state, errors = OrderedDict(state_dict), list[str]()
        keys = IncompatibleKeys([], [])
        owners = list(self._owners())
        for prefix, module in owners:
            module._before_load(state, prefix)
            for (hook,) in registered(module._load_pre_hooks):
                hook(module, state, prefix, {}, strict, *keys, errors)
        _check_tensors(state, operation)
        places = dict(self._places())
        keys.missing_keys.extend(n for n in places if n not in state)
        keys.unexpected_keys.extend(n for n in state if n not in places)
        errors += [f"of another shape: {n}: saved {tuple(state[n].shape)}, here {p.value.shape}"
                   for n, p in places.items()
                   if n in state and tuple(state[n].shape) != p.value.shape]
        has_last_say = any(module._load_post_hooks for _, module in owners)
        _check_keys(keys, errors, strict and not has_last_say,
                    f"{operation}: {{}}. Nothing was loaded; the model must be built as the saved "
                    f"one was")
        for name, place in places.items():
            if name in state:
                place.load(state[name], assign)
        for _, module in reversed(owners):
            for (hook,) in registered(module._load_post_hooks):
                hook(module, keys)
        _check_keys(keys, [], strict, f"{operation}: {{}}. What fits was loaded")
        return keys


def _check_keys(keys: IncompatibleKeys, errors: list[str], strict: bool, text: str) -> None:
    """StateError, if there are errors or (if `strict`) names that differ; text has a {} for what.
    """
    problems = [f"{what}: {', '.join(names)}" for what, names in (
        ("missing", keys.missing_keys), ("unexpected", keys.unexpected_keys)) if strict and names]
    if problems or errors:
        raise StateError(text.replace("{}", "; ".join([*problems, *errors])))


def _check_mapping(state: object, operation: str) -> None:
    """StateError unless this has something by name."""
    if not isinstance(state, Mapping):
        raise StateError(f"{operation}: {type(state).__name__} {state!r:.40} is not a mapping of "
                         f"names to tensors; give what state_dict() or load_safetensors() gave")


def _check_tensors(state: Mapping[str, Any], operation: str) -> None:
    """StateError unless these are tensors."""
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise StateError(f"{operation}: {name} is {type(value).__name__} {value!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor(). Nothing was loaded")
