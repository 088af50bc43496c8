"""Examples to batches: `default_collate` stacks what is in the same place of each example."""
from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from lazyten.frontend.functions import stack, tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.support.errors import ArgumentError, DTypeError, FormError, ShapeError
from lazyten.utils.data.stored import Reader, tensor_of

Rule = Callable[..., Any]
Rules = dict[Any, Rule]
np_str_obj_array_pattern = re.compile(r"[SaUO]")
"""What the names of NumPy's types of text and objects have in them, for programs that look."""
_TEXT = "SUO"  # kinds of arrays of strings and objects


def default_convert(data: Any) -> Any:
    """Arrays and NumPy's numbers become tensors, also those in lists, tuples and dicts; anything
    else stays what it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in _TEXT else tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _of_mapping(data, {name: default_convert(value) for name, value in data.items()})
    if isinstance(data, tuple):
        found = [default_convert(value) for value in data]
        return type(data)(*found) if hasattr(data, "_fields") else found
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _of_sequence(data, [default_convert(value) for value in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of examples: tensors, arrays and numbers are stacked to tensors with a first axis
    more, strings listed; in tuples, lists and dicts each place by itself.

    Whole numbers become int64, floats float64, as in PyTorch.
    """
    try:
        return collate(batch, collate_fn_map=default_collate_fn_map)
    except RecursionError:
        raise DTypeError(f"default_collate: an example, {type(batch[0]).__name__}, is nested too "
                         f"deeply, or contains itself: give collate_fn") from None


def collate(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """default_collate with rules of one's own: what to do by the type of the first example."""
    if not len(batch):
        raise ArgumentError("default_collate: a batch of no examples; give one or more")
    rules = collate_fn_map or {}
    first = batch[0]
    rule = rules.get(type(first)) or next(
        (rules[kind] for kind in rules if isinstance(first, kind)), None)
    if rule is not None:
        return rule(batch, collate_fn_map=rules)
    if isinstance(first, Mapping):
        _check_kind(Mapping, batch)
        return _of_mapping(first, {name: collate(_values_of(name, batch), collate_fn_map=rules)
                                   for name in first})
    if isinstance(first, Sequence):
        return _places(first, batch, rules)
    raise DTypeError(f"default_collate: an example is {type(first).__name__} {first!r:.60}; it "
                     f"must be of tensors, arrays, numbers, strings, tuples, lists and dicts: give "
                     f"collate_fn")


def _check_kind(kind: type[Any], batch: Sequence[Any]) -> None:
    """DTypeError unless all examples are of a kind, as the first is."""
    for place, one in enumerate(batch):
        if not isinstance(one, kind):
            raise DTypeError(f"default_collate: example {place} of the batch is "
                             f"{type(one).__name__} {one!r:.60}, and example 0 "
                             f"{type(batch[0]).__name__}; they must be alike: give collate_fn")


def _values_of(name: Any, batch: Sequence[Mapping[Any, Any]]) -> list[Any]:
    """What each example of a batch of mappings has of a name; ArgumentError where one has none."""
    for place, one in enumerate(batch):
        if name not in one:
            raise ArgumentError(f"default_collate: example {place} of the batch has no {name!r}, "
                                f"which example 0 has; it has {', '.join(map(repr, one))}: give "
                                f"collate_fn")
    return [one[name] for one in batch]


def _places(first: Sequence[Any], batch: Sequence[Any], rules: Rules) -> Any:
    """A batch of sequences, place by place."""
    _check_kind(Sequence, batch)
    sizes = {len(one) for one in batch}
    if len(sizes) != 1:
        raise ShapeError(f"default_collate: examples have {sorted(sizes)} elements; they must "
                         f"have as many: give collate_fn")
    found = [collate(place, collate_fn_map=rules) for place in zip(*batch, strict=True)]
    if isinstance(first, tuple):
        return type(first)(*found) if hasattr(first, "_fields") else found
    return _of_sequence(first, found)


def _of_mapping(like: Mapping[Any, Any], found: dict[Any, Any]) -> Any:
    """A mapping of the same kind; a dict if that cannot be made."""
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)
            made.update(found)
            return made
        return type(like)(found)  # type: ignore[call-arg]
    except TypeError:
        return found


def _of_sequence(like: Sequence[Any], found: list[Any]) -> Any:
    """A sequence of the same kind; a list if that cannot be made."""
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)
            for place, value in enumerate(found):
                made[place] = value
            return made
        return type(like)(found)  # type: ignore[call-arg]
    except TypeError:
        return found


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Tensors stacked: by the host, as their values are there, or in the graph where gradients flow
    through them."""
    _check_kind(Tensor, batch)
    try:
        storages = {t._storage for t in batch}
    except FormError:
        return stack(list(batch))
    if len({(s.dtype, s.device) for s in storages}) != 1 or any(
            s.requires_grad for s in storages) and any(t.requires_grad for t in batch):
        return stack(list(batch))
    reader = Reader()
    values = [*map(reader.values, batch)]
    if len({one.shape for one in values}) != 1:
        return stack(list(batch))  # an error that says so
    return tensor_of(np.stack(values), batch[0].dtype, batch[0].device)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Arrays stacked to a tensor."""
    _check_kind(np.ndarray, batch)
    if batch[0].dtype.kind in _TEXT:
        raise DTypeError(f"default_collate: arrays of {batch[0].dtype} cannot be tensors: give "
                         f"collate_fn")
    if len({a.shape for a in batch}) != 1:
        return stack([tensor(a) for a in batch])  # an error that says so
    return tensor(np.stack(batch))


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """NumPy's numbers as a tensor."""
    return tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Floats as a tensor of float64."""
    return tensor(batch, dtype=dt.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Whole numbers, or bools, as a tensor."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """Strings as they are."""
    return batch


default_collate_fn_map: Rules = {
    Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn, float: collate_float_fn,
    int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn}
"""What default_collate does by type; add rules for types of your own."""


def pin_memory(data: Any, device: Any = None) -> Any:
    """The same: all memory of the host is alike."""
    return data
