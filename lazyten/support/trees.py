"""Nested lists, tuples and dicts as flat lists of leaves: what jitted and transformed functions
take and give."""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lazyten.support.errors import ArgumentError


class Leaf(NamedTuple):
    """A value that is no container."""

    value: Any


class Parted:
    """What is made of parts, which are its leaves, and of what can be told from another by its
    hash: a sparse tensor."""

    __slots__ = ()

    def taken_apart(self) -> tuple[tuple[Any, ...], Hashable]:
        """The parts, and the rest."""
        raise NotImplementedError

    @classmethod
    def put_together(cls, parts: Sequence[Any], rest: Any) -> Any:
        """The same of other parts."""
        raise NotImplementedError


class Branch(NamedTuple):
    """A container: its type, its keys if it is a dict (of what is Parted, the rest alone), and the
    structure of each item (None for a leaf)."""

    kind: type[Any]
    keys: tuple[Hashable, ...] | None
    items: tuple[Branch | None, ...]


def flatten(value: Any) -> tuple[list[Any], Branch | None]:
    """The leaves, in order, and the structure that `unflatten` takes. ArgumentError for what is in
    itself."""
    leaves: list[Any] = []
    try:
        return leaves, _flatten(value, leaves)
    except RecursionError:
        raise ArgumentError(f"a {type(value).__name__} of lists, tuples or dicts is nested too "
                            f"deeply, or contains itself: give one that ends") from None


def leaves_of(value: Any, within: tuple[int, ...] = ()) -> Iterator[Any]:
    """The leaves of what may be in itself, each time but that. within: the containers it is in."""
    kind = type(value)
    if kind is dict or kind is list or isinstance(value, tuple):
        if id(value) not in within:
            for item in [*(value.values() if kind is dict else value)]:
                yield from leaves_of(item, (*within, id(value)))
    elif isinstance(value, Parted):
        yield from value.taken_apart()[0]
    else:
        yield value


def _flatten(value: Any, leaves: list[Any]) -> Branch | None:
    kind = type(value)
    if kind is dict:
        return Branch(dict, tuple(value), tuple([_flatten(v, leaves) for v in value.values()]))
    if kind is list or kind is tuple or isinstance(value, tuple) and hasattr(value, "_fields"):
        return Branch(kind, None, tuple([_flatten(v, leaves) for v in value]))
    if isinstance(value, Parted):
        parts, rest = value.taken_apart()
        return Branch(kind, (rest,), tuple([_flatten(part, leaves) for part in parts]))
    leaves.append(value)
    return None


def unflatten(leaves: Iterator[Any], structure: Branch | None) -> Any:
    """The nested value with these leaves."""
    if structure is None:
        return next(leaves)
    items = [unflatten(leaves, s) for s in structure.items]
    if issubclass(structure.kind, Parted):
        return structure.kind.put_together(items, structure.keys and structure.keys[0])
    if structure.keys is not None:
        return dict(zip(structure.keys, items, strict=True))
    return of_kind(structure.kind, items)


def of_kind(kind: type[Any], items: Sequence[Any]) -> Any:
    """A list, a tuple or a named tuple of these items."""
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def has_parted(structure: Branch | None) -> bool:
    """Whether there is something that is Parted in a nested value of this structure."""
    return structure is not None and (issubclass(structure.kind, Parted)
                                      or any(map(has_parted, structure.items)))


def paths(structure: Branch | None, name: str) -> list[str]:
    """What messages call each leaf of the value `name`: name['weight'][0]."""
    if structure is None:
        return [name]
    keys: Iterable[Hashable] = range(len(structure.items))
    if structure.keys is not None and not issubclass(structure.kind, Parted):
        keys = structure.keys
    return [path for key, item in zip(keys, structure.items, strict=True)
            for path in paths(item, f"{name}[{key!r}]")]
