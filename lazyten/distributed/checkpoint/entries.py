"""A state as entries by name: tensors and other data, each with the way to it through dicts and
lists; and the same back.
"""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.distributed.tensor.parallel.dtensor import DTensor
from lazyten.frontend.tensor import Tensor
from lazyten.nn.parallel import DistributedDataParallel
from lazyten.support.errors import ArgumentError

Step: TypeAlias = str | int | tuple[int]
Way: TypeAlias = tuple[Step, ...]
"""Keys of dicts, and places in lists, each a tuple of its number."""
ABOUT = "_metadata"
"""What the state of a module knows of its parts besides their tensors: an attribute of the dict."""


@dataclass(frozen=True, slots=True)
class Entry:
    """way: how one comes to the value. put: writes another one in its place."""

    way: Way
    value: Any
    put: Callable[[Any], None]


def name_of(way: Way) -> str:
    """What a way is called: its steps with dots between them."""
    return ".".join(str(step[0] if isinstance(step, tuple) else step) for step in way)


def is_stateful(value: object) -> bool:
    """Whether it has a state_dict() of its own: a module, an optimizer, a scheduler."""
    return not isinstance(value, Mapping) and callable(getattr(value, "state_dict", None)) \
        and callable(getattr(value, "load_state_dict", None))


def bare(value: Any) -> Any:
    """The module in what only averages its gradients; anything else as it is."""
    return bare(value.module) if isinstance(value, DistributedDataParallel) else value


def state_of(value: Any) -> Any:
    """The state of a stateful object: of an optimizer that is shared out that of this rank."""
    found = bare(value)
    if isinstance(found, ZeroRedundancyOptimizer):
        return found.local_state_dict()
    return found.state_dict()


def entries(state: Any, operation: str) -> Iterator[Entry]:
    """All that is in a state. Values that are stateful come as they are."""
    if not isinstance(state, MutableMapping):
        raise ArgumentError(f"{operation}: {type(state).__name__} {state!r:.40} is no dict; give "
                            f"modules, optimizers, tensors and other data by name, such as "
                            f"{{'model': model}}")
    yield from _below(state, (), operation)


def _below(container: Any, way: Way, operation: str) -> Iterator[Entry]:
    is_dict = isinstance(container, Mapping)
    for key, value in container.items() if is_dict else enumerate(container):
        if is_dict and type(key) not in (str, int):
            raise ArgumentError(f"{operation}: {name_of(way) or 'the dict'} has the key {key!r:.40}"
                                f", which is neither a string nor a whole number; use str()")
        here: Way = (*way, key if is_dict else (key,))
        if _is_inner(value):
            yield from _below(value, here, operation)
        elif isinstance(value, DTensor):
            yield Entry(here, value._as_part(), _put_part(container, key, value))
        else:
            yield Entry(here, value, _put_into(container, key))
    if (about := getattr(container, ABOUT, None)) is not None:
        yield Entry((*way, ABOUT), about, lambda value: setattr(container, ABOUT, value))


def _put_into(container: Any, key: Any) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        container[key] = value
    return put


def _put_part(container: Any, key: Any, lies: DTensor) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        container[key] = lies._of_part(value)
    return put


def _is_inner(value: Any) -> bool:
    """Whether a value is not one entry, but has some: a dict with something in it, and a list if
    there are tensors in it."""
    if isinstance(value, MutableMapping):
        return bool(value)
    return isinstance(value, MutableSequence) and _has_tensors(value)


def _has_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_tensors, value.values()))
    if isinstance(value, MutableSequence):
        return any(map(_has_tensors, value))
    return isinstance(value, Tensor) or is_stateful(value)


def copied(state: Any) -> Any:
    """The same dicts and lists anew, with the same values in them."""
    if not _is_inner(state):
        return state
    found = copy.copy(state)
    for key, value in state.items() if isinstance(state, Mapping) else enumerate(state):
        found[key] = copied(value)
    return found


def nested(values: Mapping[Way, Any]) -> Any:
    """The dicts and lists in which these ways lead to these values. That to an empty dict may go
    on to others, as ranks have different parts of it."""
    if () in values and len(values) == 1:
        return values[()]
    inner: dict[Step, dict[Way, Any]] = {}
    for way, value in values.items():
        if way:
            inner.setdefault(way[0], {})[way[1:]] = value
    if any(isinstance(step, tuple) for step in inner):
        places = {step[0]: found for step, found in inner.items() if isinstance(step, tuple)}
        return [nested(places[at]) for at in sorted(places)]
    return {step: nested(found) for step, found in inner.items()}
