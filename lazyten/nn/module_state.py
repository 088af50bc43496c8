"""Saving and loading the state of modules: `state_dict` and `load_state_dict`.

Each module saves and loads what is its own, by PyTorch's methods, which classes may define anew.
What is loaded is only noted, and written when all modules have said that it fits.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

from lazyten.autodiff.hooks import RemovableHandle
from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.parts import part_like
from lazyten.frontend.recorded.lookup import as_one
from lazyten.frontend.tensor import Tensor
from lazyten.nn.attributes import Attributes
from lazyten.nn.module_hooks import NONE, HookMethods, Hooks, registered
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError, StateError, StateTypeError
from lazyten.support.grad_mode import no_grad
from lazyten.support.trees import Parted

_EXTRA = _EXTRA_STATE_KEY_SUFFIX = "_extra_state"


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


_IncompatibleKeys = IncompatibleKeys


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a module keeps one tensor of the state."""

    owner: Attributes
    name: str
    value: Tensor

    def load(self, value: Tensor, assign: bool) -> None:
        """Take over a value, or put the tensor itself there: then a parameter trains as the one
        before did, unless it says so itself."""
        if _is_lone_number(value, self.value):
            value = value[0]
        if not assign:
            with no_grad():
                there = self.value if is_sparse(self.value) else self.value.detach()
                there.copy_(value.detach().to(device=there.device))
            return
        if isinstance(self.value, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, self.value.requires_grad)
        setattr(self.owner, self.name, value)


@dataclass(frozen=True, slots=True)
class _Write:
    """A value to be taken over, when all are known to fit."""

    place: _Place
    value: Tensor
    assign: bool

    def __call__(self) -> None:
        self.place.load(self.value, self.assign)

    @property
    def is_copy(self) -> bool:
        """Whether it is a copy from memory to memory of one device, as it is."""
        there, value = self.place.value, self.value
        return not (self.assign or isinstance(there, Parted) or isinstance(value, Parted)
                    or _is_lone_number(value, there)) and value.device == there.device


class _Loading(dict[str, Any]):
    """The local_metadata of a module while a state is loaded, which goes from method to method:
    what was saved of the module's version, and what is to be done once everything fits."""

    def __init__(self, saved: Mapping[str, Any], assign: bool,
                 plan: list[Callable[[], None]]) -> None:
        super().__init__(saved)
        self["assign_to_params_buffers"] = assign
        self.plan = plan


class StateMethods(HookMethods):
    """state_dict() and load_state_dict()."""

    _version: ClassVar[int] = 1
    """Saved beside the state of each module: what its local_metadata says under 'version'."""
    _state_dict_pre_hooks: Hooks = NONE
    _state_dict_hooks: Hooks = NONE
    _load_pre_hooks: Hooks = NONE
    _load_post_hooks: Hooks = NONE

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, prefix, keep_vars)` called before this module's state is taken."""
        return self._add_hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, state_dict, prefix, local_metadata)` called when this module's state
        is in the dict, which it may change. local_metadata has the class's `version`."""
        return self._add_hook("_state_dict_hooks", hook, False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """register_state_dict_post_hook; a dict that the hook gives is the state from then on."""
        return self._add_hook("_state_dict_hooks", hook, True)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` called before anything is loaded. It may change the dict,
        which is a copy (to give names of today to what was saved long ago), and add to the lists.
        """
        return self._add_hook("_load_pre_hooks", hook, True)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False
                                           ) -> RemovableHandle:
        return self._add_hook("_load_pre_hooks", hook, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have `hook(module, incompatible_keys)` called when all is loaded: it may change the lists
        of names that are given back, and a strict load fails if any is left."""
        return self._add_hook("_load_post_hooks", hook)

    def get_extra_state(self) -> Any:
        """What a class saves of itself beside tensors: under the name `_extra_state`, where it
        defines this and set_extra_state()."""
        raise ArgumentError(f"{type(self).__name__} defines no get_extra_state(); add it to the "
                            f"class, and set_extra_state(state), to save more than tensors")

    def set_extra_state(self, state: Any) -> None:
        """Take over what get_extra_state() gave."""
        raise ArgumentError(f"{type(self).__name__} defines no set_extra_state(state); add it to "
                            f"the class, and get_extra_state(), to load more than tensors")

    def _before_load(self, state: dict[str, Any], prefix: str) -> None:
        """What a kind of module changes in the copy of a state that is to be loaded, or in itself:
        before the hooks."""

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        """What this module itself saves: parameters, then buffers but for those that are not."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    def _defines(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateMethods, method)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool
                            ) -> None:
        """Add what is this module's own, which a class may do in another way."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars else part_like(value.detach(), value)
        if self._defines("get_extra_state"):
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, sharing this module's memory.

        destination: the dict to add to; prefix: what names begin with. keep_vars: the tensors
        themselves, rather than detached ones. All three may be given in this order, without names.
        """
        given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
        destination, prefix = given.get("destination", destination), given.get("prefix", prefix)
        keep_vars = given.get("keep_vars", keep_vars)
        state: dict[str, Any] = _new_state() if destination is None else destination
        about = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = about
        for (hook,) in registered(self._state_dict_pre_hooks):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.",
                                  keep_vars=keep_vars)
        for hook, may_replace in registered(self._state_dict_hooks):
            changed = hook(self, state, prefix, about)
            if changed is not None and not may_replace:
                raise ArgumentError(f"a hook of state_dict() of {type(self).__name__} gave "
                                    f"{type(changed).__name__}: it must give None, and may change "
                                    f"the dict that it is given")
            state = state if changed is None else changed
        return state

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str,
                              local_metadata: dict[str, Any], strict: bool, missing_keys: list[str],
                              unexpected_keys: list[str], error_msgs: list[str]) -> None:
        """Take over what is this module's own of a state, whose names begin with `prefix`: a class
        may change the dict first, or add to the lists of what differs. local_metadata is to be
        passed on: what fits is written when the whole state does, and at once if it is another
        dict."""
        self._before_load(state_dict, prefix)
        for hook, with_module in registered(self._load_pre_hooks):
            hook(*([self] if with_module else []), state_dict, prefix, local_metadata, strict,
                 missing_keys, unexpected_keys, error_msgs)
        own, known = dict(self._own_state()), set(self._modules)
        plan: list[Callable[[], None]] = []
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, value in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.extend([key] if strict else [])
            elif (error := _misfit(key, state_dict[key], value)) is not None:
                error_msgs.append(error)
            else:
                plan.append(_Write(_Place(self, name, value), state_dict[key], assign))
        if self._defines("set_extra_state"):
            known.add(_EXTRA)
            if prefix + _EXTRA in state_dict:
                plan.append(partial(self.set_extra_state, state_dict[prefix + _EXTRA]))
            else:
                missing_keys.extend([prefix + _EXTRA] if strict else [])
        if strict:
            for key in state_dict:
                first, dot, _ = key.removeprefix(prefix).partition(".")
                if key.startswith(prefix) and first not in (known if dot else {*own, *known}):
                    unexpected_keys.append(key)
        if isinstance(local_metadata, _Loading):
            local_metadata.plan.extend(plan)
        else:
            _carry_out(plan)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> IncompatibleKeys:
        """Take over values by name. Nothing changes unless all of them fit.

        StateError names what is missing, unexpected (both allowed if not `strict`, and given back),
        or of another shape. assign: take the tensors themselves, with their dtype and device, in
        place of their values.
        """
        operation = f"load_state_dict of {type(self).__name__}"
        _check_mapping(state_dict, operation)
        keys, errors, plan = IncompatibleKeys([], []), list[str](), list[Callable[[], None]]()
        saved: Mapping[str, Any] = getattr(state_dict, "_metadata", None) or {}

        def load(module: StateMethods, state: dict[str, Any], prefix: str) -> None:
            about = _Loading(saved.get(prefix[:-1], {}), assign, plan)
            module._load_from_state_dict(state, prefix, about, True, *keys, errors)

        owners = self._each_loaded(load, OrderedDict(state_dict), "")
        has_last_say = any(module._load_post_hooks for module in owners)
        _check_keys(keys, errors, strict and not has_last_say,
                    f"{operation}: {{}}. Nothing was loaded; the model must be built as the saved "
                    f"one was")
        _carry_out(plan)
        for module in reversed(owners):
            for (hook,) in registered(module._load_post_hooks):
                hook(module, keys)
        _check_keys(keys, [], strict, f"{operation}: {{}}. What fits was loaded")
        return keys

    def _each_loaded(self, load: Callable[[StateMethods, dict[str, Any], str], None],
                     state: dict[str, Any], prefix: str) -> list[StateMethods]:
        """Call `load` with this module and each of its parts, what is theirs of a state, and what
        names of it begin with; gives them, in this order. (A function that called itself would keep
        the state until garbage is collected.)"""
        load(self, state, prefix)
        parts, owners = _by_part(state, prefix), [self]
        for name, part in self._modules.items():
            if part is not None:
                owners += part._each_loaded(load, parts.get(name, OrderedDict()),
                                            f"{prefix}{name}.")
        return owners


def _new_state() -> OrderedDict[str, Any]:
    """An empty state, with room for what is known of each module by name."""
    state: Any = OrderedDict()
    state._metadata = OrderedDict()
    made: OrderedDict[str, Any] = state
    return made


def _by_part(state: Mapping[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """What is there for each part of the module whose names begin with `prefix`."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        name, dot, _ = key.removeprefix(prefix).partition(".")
        if dot and key.startswith(prefix):
            parts.setdefault(name, OrderedDict())[key] = value
    return parts


def _misfit(key: str, given: Any, there: Tensor) -> str | None:
    """Why a value cannot be loaded; None if it can."""
    if not isinstance(given, Tensor):
        return (f"{key} is {type(given).__name__} {given!r:.40}, not a tensor; wrap it in "
                f"lazyten.tensor()")
    if tuple(given.shape) != there.shape and not _is_lone_number(given, there):
        return f"of another shape: {key}: saved {tuple(given.shape)}, here {there.shape}"
    return None


def _is_lone_number(given: Tensor, there: Tensor) -> bool:
    """Whether a tensor without axes was saved as one of a single element, as PyTorch's first
    versions did."""
    return there.shape == () and tuple(given.shape) == (1,)


def _carry_out(plan: list[Callable[[], None]]) -> None:
    """Take over what fits: copies in a row are one operation."""
    for is_copy, acts in groupby(plan, lambda act: isinstance(act, _Write) and act.is_copy):
        if is_copy:
            writes: list[Any] = [*acts]
            with no_grad():
                _copy([w.place.value.detach() for w in writes], [w.value for w in writes])
        else:
            for act in acts:
                act()


@as_one
def _copy(there: list[Tensor], values: list[Tensor]) -> None:
    for mine, value in zip(there, values, strict=True):
        mine.copy_(value)


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
        raise StateTypeError(f"{operation}: {type(state).__name__} {state!r:.40} is not a mapping "
                             f"of names to tensors; give what state_dict() or load_safetensors() "
                             f"gave")
    for name in state:
        if not isinstance(name, str):
            raise StateError(f"{operation}: {name!r:.40} is no name of a tensor; give what "
                             f"state_dict() or load_safetensors() gave. Nothing was loaded")
