"""The arguments of one call of a jitted function, and what calls are told apart by."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import Any

import numpy as np

from lazyten.autodiff import hooks
from lazyten.capture.captured import signature
from lazyten.capture.hooked import has_hooked_views, is_hooked
from lazyten.capture.state.places import snapshot
from lazyten.capture.state.surroundings import is_users
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.setting_table import TRACED, trace_key
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module_hooks import EVERYWHERE
from lazyten.storage import tracing
from lazyten.storage.storage import Storage
from lazyten.support.errors import JitError
from lazyten.support.trees import Branch, Parted, flatten, unflatten

COMPLEX = "a complex tensor, of these pairs"
HOOKED, HOOKED_VIEW = "a leaf that has hooks", "a view that has had hooks"
MARKED = "a parameter with attributes"
"""Of a tensor in the key: it has attributes of the user's, which no captured call knows."""


class Call:
    """The arguments of one call, taken apart into tensors and a key for everything else. pieces:
    tensors, by number, that have only a piece of the memory that they are in (pieces.py)."""

    pieces: frozenset[int] = frozenset()

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
        self.complex: list[ComplexTensor] = []
        storages: list[Storage] = []
        has_leaf = False
        key: list[Hashable] = [*trace_key(), tuple(EVERYWHERE), len(leaves), self.structure]
        assert len(key) == _BEFORE_LEAVES
        for x in leaves:
            if isinstance(x, Parted):
                return False
            if isinstance(x, Tensor):
                if isinstance(x, ComplexTensor):
                    self.complex.append(x)
                    key.append(COMPLEX)
                    x = x._parts
                storage = x._storage
                self.tensors.append(x)
                storages.append(storage)
                has_leaf = has_leaf or storage.leaf_id is not None
                key.append(signature(x))
                if x.__class__ is not Tensor and getattr(x, "__dict__", None):
                    key.append(MARKED)
            elif flat or not isinstance(x, _CONTAINERS):
                key.append(_static(x))
            else:
                return False
        if has_leaf:
            if hooks.changes():
                key += [HOOKED] * any(map(is_hooked, storages))
                key += [HOOKED_VIEW] * any(map(has_hooked_views, storages))
            for owner in self._leaf_owners():
                storages.append(owner._storage)
                key.append(signature(owner))
        if len(storages) > 1 and len(set(storages)) < len(storages):
            key += [_equal_ones(storages), _equal_ones(list(map(id, self.tensors)))]
        self.key: tuple[Hashable, ...] = tuple(key)
        return True

    @cached_property
    def numbers(self) -> dict[int, int | float]:
        """The arguments that are numbers, by their position among all leaves."""
        return {i: x for i, x in enumerate(self.leaves) if type(x) in (int, float)}

    @property
    def family(self) -> Hashable:
        """The key of calls that differ in nothing but numbers."""
        if not self.numbers:
            return self.key
        key: list[Any] = list(self.key)
        for i, x in self.numbers.items():
            key[_BEFORE_LEAVES + i] = type(x)
        return tuple(key)

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

    def apply_to_numbers(self, function: Callable[..., Any], numbers: Mapping[int, Any],
                         tensors: Sequence[Tensor]) -> Any:
        """Call the function with other numbers, by their position among the leaves, and tensors.
        """
        other = self._others(tensors)
        given = [numbers.get(i, other.get(id(x), x)) for i, x in enumerate(self.leaves)]
        if self.structure is None:
            return function(*given)
        args, kwargs = unflatten(iter(given), self.structure)
        return function(*args, **kwargs)

    def _others(self, tensors: Sequence[Tensor]) -> dict[int, Tensor]:
        """By the id of an argument's tensor, the one that is to be in its place."""
        other = {id(mine): given for mine, given in zip(self.tensors, tensors, strict=True)}
        return other | {id(x): of_parts(other[id(x._parts)]) for x in self.complex}

    def apply(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        """Call the function with other tensors in place of the arguments', which lists and dicts
        among these have meanwhile."""
        other = self._others(tensors)
        back = {id(given): mine for mine in (*self.tensors, *self.complex)
                for given in (other[id(mine)],)}
        args, kwargs = _exchanged((self.args, self.kwargs), other)
        before = flatten((args, kwargs))
        try:
            result = function(*args, **kwargs)
            leaves, structure = flatten((args, kwargs))
            if structure != before[1] or not all(map(is_, leaves, before[0])):
                tracing.refused("a jitted function changes a list or dict that it was given, which "
                                "a replay would not do: return the new values instead")
        finally:
            _exchanged((args, kwargs), back)
        return result


_BEFORE_LEAVES = len(TRACED) + 3
"""Where in a key the leaves begin."""
_CONTAINERS = (list, tuple, dict)


def _exchanged(value: Any, other: dict[int, Tensor]) -> Any:
    """The value with other tensors in it: lists and dicts themselves, tuples as new ones."""
    if isinstance(value, Parted):
        parts, rest = value.taken_apart()
        return value.put_together([_exchanged(part, other) for part in parts], rest)
    if isinstance(value, Tensor):
        return other.get(id(value), value)
    if type(value) is list:
        value[:] = [_exchanged(x, other) for x in value]
        return value
    if type(value) is dict:
        for key, x in value.items():
            value[key] = _exchanged(x, other)
        return value
    if type(value) is tuple or isinstance(value, tuple) and hasattr(value, "_fields"):
        items = [_exchanged(x, other) for x in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _equal_ones(things: Sequence[Hashable]) -> Hashable:
    """Which of these are equal: for each, the number of the first such."""
    first: dict[Hashable, int] = {}
    return tuple([first.setdefault(x, len(first)) for x in things])


def _static(value: Any) -> Hashable:
    """A key for an argument that is no tensor. JitError if it cannot be one."""
    if isinstance(value, float):
        return float, value.hex()  # tells 0.0 from -0.0, and a NaN equals itself
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if _is_equal_to_others(type(value)):
        value = snapshot(_fields(value))
    try:
        hash(value)
    except TypeError:
        raise JitError(f"a jitted function is called with {type(value).__name__} {value!r:.40}, "
                       f"which cannot be told from another by its hash: give tensors (wrap arrays "
                       f"in lazyten.tensor()), or numbers, strings, lists, tuples and dicts "
                       f"of them") from None
    return type(value), value


def _is_equal_to_others(kind: type) -> bool:
    """Whether objects of a class of the user's are equal by rules of their own."""
    return getattr(kind, "__eq__", None) is not object.__eq__ and is_users(kind.__module__)


def _fields(value: Any) -> Any:
    """What a frozen dataclass has; of anything else the object itself counts."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return value
    return type(value), [getattr(value, field.name) for field in dataclasses.fields(value)]
