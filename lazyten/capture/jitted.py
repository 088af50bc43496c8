"""`lt.jit`: functions that are traced once a signature, and then run as one native call.

A call is keyed by its structure: the nesting of its arguments, and for each tensor its shape,
dtype, device, view and whether it requires gradients; other values by equality. For each key there
are captured calls (capture.py), each with what it depends on besides (`Replay.holds`).
"""
from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from lazyten.capture.capture import record
from lazyten.capture.captured import signature
from lazyten.capture.donation import Donate, Donation
from lazyten.capture.environment import Environment
from lazyten.capture.replay import Replay
from lazyten.frontend.core import mixed_precision
from lazyten.frontend.tensor import Tensor
from lazyten.storage import levels, tracing
from lazyten.storage.placement import default_device
from lazyten.storage.storage import Storage
from lazyten.support import check_mode, forking, matmul_precision
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.trees import Branch, flatten, unflatten

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_tracing = forking.lock()
"""One trace at a time: while one is under way, storages hold stand-ins."""

CACHE_LIMIT = 256
"""Signatures that a function keeps captured calls of; the oldest goes."""
STATES = 8
"""Captured calls of one signature that differ in the Python state they depend on."""


class Jitted(Generic[P, R]):
    """A function that `lt.jit` has wrapped: call it like the function itself."""

    def __init__(self, function: Callable[P, R], check: bool, donate: Donate) -> None:
        if not callable(function):
            raise ArgumentError(f"jit of {type(function).__name__} {function!r:.40}: it is for "
                                f"functions, methods and modules")
        functools.update_wrapper(self, function, updated=())
        self.function, self.check = function, check
        self.donation = Donation(function, donate)
        self._cache: OrderedDict[Hashable, list[Replay]] = OrderedDict()
        self._lock = forking.lock()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    @property
    def cache_size(self) -> int:
        """How many captured calls are kept: one a signature, or more where Python state differs."""
        return sum(len(found) for found in self._cache.values())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        traced = tracing.active is not None and tracing.current() is not None
        if traced or levels.under_way():  # part of something larger
            return self.function(*args, **kwargs)
        call = _Call(args, kwargs)
        with self._lock:
            replay = self._find(call)
            if replay is None:
                replay = self._traced(call)
                self._keep(call.key, replay)
            elif self.check or not replay.checked:
                replay = self._checked(replay, call)
            result: R = replay.run(call.tensors)
            return result

    def _find(self, call: _Call) -> Replay | None:
        """A captured call that still holds for this one."""
        for replay in self._cache.get(call.key, ()):
            if replay.holds(call.tensors):
                return replay
        return None

    def _checked(self, replay: Replay, call: _Call) -> Replay:
        """A captured call that a second trace agrees with, or that trace, where the function
        assigns: whether two names mean one tensor may differ from call to call. JitError if it
        does not agree."""
        again = self._traced(call)
        if again.fingerprint == replay.fingerprint:
            replay.checked = True
            return replay
        if not replay.captured.assigned:
            raise JitError(f"jitted function {self._name} does something else when traced "
                           f"again with arguments of the same signature: it depends on "
                           f"Python state that a replay does not see, such as a random "
                           f"number or an attribute; give that as an argument")
        self._cache[call.key].remove(replay)
        self._keep(call.key, again)
        return again

    def _keep(self, key: Hashable, replay: Replay) -> None:
        """The newest first; what was traced for state that is long gone is dropped."""
        found = self._cache.setdefault(key, [])
        found.insert(0, replay)
        del found[STATES:]
        self._cache.move_to_end(key)
        if len(self._cache) > CACHE_LIMIT:
            self._cache.popitem(last=False)

    def _traced(self, call: _Call) -> Replay:
        """A captured call that does what this one has to."""
        with _tracing:
            environment = Environment(self.function, call.leaves)
            captured = record(call.tensors, functools.partial(call.apply, self.function),
                              environment)
            changed = environment.changed()
        if changed is not None:
            raise JitError(f"jitted function {self._name} changes {changed.place.name!r} (in "
                           f"{changed.user}), which a replay would not do: return the new value, "
                           f"or keep it in a tensor that is changed in place")
        donated = self.donation.storages(call.args, call.kwargs)
        return Replay(captured, environment, call.tensors, donated, self._name)

    @property
    def _name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)


class _Call:
    """The arguments of one call, taken apart into tensors and a key for everything else."""

    __slots__ = ("args", "key", "kwargs", "leaves", "structure", "tensors")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.leaves: Sequence[Any] = args
        self.structure: Branch | None = None  # of arguments without names that are no containers
        if kwargs or not self._take(args):
            self.leaves, self.structure = flatten((args, kwargs))
            self._take(self.leaves, flat=True)

    def _take(self, leaves: Sequence[Any], flat: bool = False) -> bool:
        """Make the key; False if one of the leaves is a container. flat: none is taken for one."""
        self.tensors: list[Tensor] = []
        storages: list[Storage] = []
        has_leaf = False
        key: list[Hashable] = [is_grad_enabled(), default_device(), check_mode.active(),
                               mixed_precision.state(), matmul_precision.allows_tf32(),
                               len(leaves), self.structure]
        for x in leaves:
            if isinstance(x, Tensor):
                storage = x._storage
                self.tensors.append(x)
                storages.append(storage)
                has_leaf = has_leaf or storage.leaf_id is not None
                key.append(signature(x))
            elif flat or not isinstance(x, _CONTAINERS):
                key.append(_static(x))
            else:
                return False
        if has_leaf:
            for owner in self._leaf_owners():
                storages.append(owner._storage)
                key.append(signature(owner))
        if len(storages) > 1 and len(set(storages)) < len(storages):
            key += [_equal_ones(storages), _equal_ones(list(map(id, self.tensors)))]
        self.key: Hashable = tuple(key)
        return True

    def _leaf_owners(self) -> list[Tensor]:
        """Views of parameters bring the parameter along, as its `.grad` may change."""
        present = {id(t) for t in self.tensors}
        given = len(self.tensors)
        for tensor in self.tensors[:given]:
            owner = tensor._leaf_owner
            if owner is not None and id(owner) not in present:
                present.add(id(owner))
                self.tensors.append(owner)
        return self.tensors[given:]

    def apply(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        """Call the function with other tensors in place of the arguments'."""
        rest = iter(tensors)
        given = [next(rest) if isinstance(x, Tensor) else x for x in self.leaves]
        args, kwargs = (given, {}) if self.structure is None else \
            unflatten(iter(given), self.structure)
        before = flatten((args, kwargs))
        result = function(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        if structure != before[1] or any(a is not b for a, b in zip(leaves, before[0],
                                                                    strict=True)):
            raise JitError("a jitted function changes a list or dict that it was given, which a "
                           "replay would not do: return the new values instead")
        return result


_CONTAINERS = (list, tuple, dict)


def _equal_ones(things: Sequence[Hashable]) -> Hashable:
    """Which of these are equal: for each, the number of the first such."""
    first: dict[Hashable, int] = {}
    return tuple([first.setdefault(x, len(first)) for x in things])


def _static(value: Any) -> Hashable:
    """A key for an argument that is no tensor. JitError if it cannot be one."""
    if isinstance(value, float):
        return float, value.hex()  # tells 0.0 from -0.0, and a NaN equals itself
    try:
        hash(value)
    except TypeError:
        raise JitError(f"a jitted function is called with {type(value).__name__} {value!r:.40}, "
                       f"which cannot be told from another by its hash: give tensors (wrap arrays "
                       f"in lazyten.tensor()), or numbers, strings, lists, tuples and dicts "
                       f"of them") from None
    return type(value), value


class _Jit:
    """The function, traced at its first call and then replayed without running its Python.

    Use it as a decorator, with or without options, or on a method or a module. It is traced again
    whenever the signature changes, or Python state that it is seen to depend on.

    check: trace at every call, and raise JitError if that gives another program; without it, that
    is done once, at the second call.

    donate: names or positions of arguments whose tensors, also those in lists, tuples and dicts,
    are not needed after a call: results may take their memory. Using one afterwards, or a view of
    it, is a JitError, unless the function gives it back or changes it in place.
    """

    @overload
    def __call__(self, function: Callable[P, R], *, check: bool = False,
                 donate: Donate = ()) -> Jitted[P, R]: ...
    @overload
    def __call__(self, function: None = None, *, check: bool = False,
                 donate: Donate = ()) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...

    def __call__(self, function: Callable[P, R] | None = None, *, check: bool = False,
                 donate: Donate = ()) -> Any:
        if function is None:
            return functools.partial(self, check=check, donate=donate)
        return Jitted(function, check, donate)

    @staticmethod
    def script(obj: T, *args: Any, **options: Any) -> T:
        """The same object, for programs that have PyTorch compile parts of models: what is eager
        here is fused and compiled as it is."""
        return obj

    trace = ignore = export = unused = script

    @staticmethod
    def is_scripting() -> bool:
        """False: Python always runs as Python."""
        return False

    is_tracing = is_scripting


jit = _Jit()
