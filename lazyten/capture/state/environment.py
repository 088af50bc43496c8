"""The Python state that a function depends on: what its names meant when it was traced.

In: a function and objects it was given. Out: an `Environment` that tells whether any of it differs
now, and what a trace has assigned to.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, is_, itemgetter
from types import CellType, FunctionType
from typing import Any

from lazyten.capture.state.contents import Contents
from lazyten.capture.state.places import MISSING, Change, Place, Same, snapshot
from lazyten.capture.state.surroundings import NOT_READ, Surroundings
from lazyten.frontend.tensor import Tensor
from lazyten.support.trees import leaves_of


@dataclass(frozen=True, slots=True)
class _Watched:
    """A name: where it is looked up, what it meant, and the line that uses it."""

    place: Place
    user: str
    value: object
    seen: Hashable
    means: Callable[[Any], Hashable] = snapshot

    @property
    def is_plain(self) -> bool:
        """Whether the same object always means the same."""
        return isinstance(self.seen, Same) or self.means is not snapshot or _is_plain(self.value)

    def now(self) -> Hashable:
        """What the name means now."""
        return self.means(self.place.look())


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _changed_in(watched: Iterable[_Watched]) -> _Watched | None:
    for w in watched:
        if w.now() != w.seen:
            return w
    return None


class _ByIdentity:
    """Names that mean the same as long as they are the same objects, compared all at once."""

    def __init__(self, watched: Iterable[_Watched], whole: Sequence[dict[str, Any]],
                 expected: Collection[Place] = ()) -> None:
        """whole: dicts of which every name counts, and none may come or go. expected: what `expect`
        may be told of."""
        self.without = [below for below in whole if not below]  # most tables of most layers
        self.whole = [below for below in whole if below]
        self.sizes = [*map(len, self.whole)]
        self.names = [*chain.from_iterable(self.whole)]
        self.views = [below.values() for below in self.whole]
        self.values = [*chain.from_iterable(self.views)]
        self._value_at = {place: number for number, place in enumerate(
            Place(below, name) for below in self.whole for name in below) if place in expected
            } if expected else {}
        known = {id(below) for below in whole}
        rest = {w.place: w.value for w in watched if id(w.place.holder) not in known}
        self.empty = [place for place, value in rest.items() if value is MISSING]
        cells = [place for place, value in rest.items()
                 if isinstance(place.holder, CellType) and value is not MISSING]
        self.cells = [place.holder for place in cells]
        spaces: dict[int, list[Place]] = {}
        for place, value in rest.items():
            if not isinstance(place.holder, CellType) and value is not MISSING:
                spaces.setdefault(id(place.holder), []).append(place)
        self.spaces: list[tuple[Callable[[Any], tuple[object, ...]], Any]] = []
        held = cells
        for found in spaces.values():
            found = found if len(found) > 1 else found * 2  # of one name there is no tuple
            holder = found[0].holder
            getter = attrgetter if isinstance(holder, FunctionType) else itemgetter
            self.spaces.append((getter(*[place.name for place in found]), holder))
            held += found
        self.held = [rest[place] for place in held]
        self._held_at = {place: number for number, place in enumerate(held)}

    def expect(self, place: Place, value: object) -> None:
        """From now on the name means this."""
        if place in self._held_at:
            self.held[self._held_at[place]] = value
        else:
            self.values[self._value_at[place]] = value

    def still_holds(self) -> bool:
        """Whether they are."""
        if self.without and any(self.without):
            return False
        if self.whole and not (
                [*map(len, self.whole)] == self.sizes
                and [*chain.from_iterable(self.whole)] == self.names
                and all(map(is_, chain.from_iterable(self.views), self.values))):
            return False
        if not self.held and not self.empty:
            return True
        try:
            found = [cell.cell_contents for cell in self.cells]
            for look, space in self.spaces:
                found += look(space)
        except (KeyError, ValueError):  # gone
            return False
        return all(map(is_, found, self.held)) and not (
            self.empty and any(place.look() is not MISSING for place in self.empty))


class _OfContainers:
    """Names of containers. They mean the same as long as they are the same objects, and hold the
    same ones; else each is compared."""

    def __init__(self, watched: Sequence[_Watched]) -> None:
        self._watched = watched
        self._names: _ByIdentity | None = None
        self._contents = Contents(())

    def still_hold(self) -> bool:
        """Whether they mean what they meant."""
        if self._names is not None and self._names.still_holds() and self._contents.still_hold():
            return True
        if _changed_in(self._watched) is not None:
            return False
        now = [replace(w, value=w.place.look()) for w in self._watched]
        self._contents = Contents([w.value for w in now])
        self._names = _ByIdentity(now, ()) if self._contents.is_known else None
        return True


class Environment:
    """What was found for one function; `changed` compares it with now."""

    def __init__(self, function: Callable[..., Any], given: Iterable[object]) -> None:
        self._general: dict[Place, tuple[Callable[[Any], Hashable], Hashable]] = {}
        around = Surroundings((function, *given))
        self.watched = [_Watched(place, user, value, snapshot(value))
                        for place, user, value in around.found]
        self.sizes, self.tables = around.sizes, around.tables
        self.opaque, self.looks_at_types = around.opaque, around.looks_at_types
        known = [*around.keys, *(self.values() if around.compares else ())]
        self._known = {id(x) for x in known if isinstance(x, Tensor)}
        self._sort()

    def _sort(self) -> None:
        plain = [w for w in self.watched if w.is_plain]
        whole = [below for below, _ in self.sizes]
        self._by_identity = _ByIdentity(plain, whole, self._general.keys())
        held: list[_Watched] = []
        self._by_value: list[_Watched] = []
        for w in self.watched:
            if not w.is_plain:
                (held if Contents([w.value]).is_known else self._by_value).append(w)
        self._of_containers = _OfContainers(held) if held else None

    @property
    def tells_apart(self) -> bool:
        """Whether the function may tell a tensor that it knows by name from others."""
        return bool(self._known)

    def has_any(self, arguments: Iterable[Tensor]) -> bool:
        """Whether the function may tell one of these from other tensors, as it knows it by name,
        and compares objects or has it as a key."""
        return bool(self._known) and not self._known.isdisjoint(map(id, arguments))

    @property
    def has_changed(self) -> bool:
        """Whether some name means something else now."""
        if self._by_identity.still_holds():
            return self._of_containers is not None and not self._of_containers.still_hold() \
                or bool(self._by_value) and _changed_in(self._by_value) is not None
        return self.changed() is not None

    def changed(self) -> _Watched | None:
        """The first name that means something else now."""
        for below, size in self.sizes:
            if len(below) != size:
                return _Watched(Place(below, "__dict__"), "a module", None, None)
        for own, name, table in self.tables:
            if own.get(name) is not table:
                return _Watched(Place(own, name), "a module", None, None)
        return _changed_in(self.watched)

    # ---- what a trace assigns --------------------------------------------------------------------

    def assigned(self) -> list[Change]:
        """The names that mean another object now."""
        known = {w.place: w for w in self.watched}
        found = [Change(place, w.user, w.value, now) for place, w in known.items()
                 if (now := place.look()) is not w.value and snapshot(now) != w.seen]
        for below, _ in self.sizes:
            new = [Place(below, name) for name in below if name not in NOT_READ]
            found += [Change(place, "a module", MISSING, place.look()) for place in new
                      if place not in known]
        return found

    def knows(self, holder: dict[str, Any]) -> bool:
        """Whether every name in a dict is looked at."""
        return any(below is holder for below, _ in self.sizes)

    def numbers(self) -> dict[Place, int | float]:
        """What those names meant that mean numbers, and can be assigned."""
        return {w.place: w.value for w in self.watched if type(w.value) in (int, float)  # type: ignore[misc]
                and w.place.is_assignable}

    def values(self) -> Iterator[object]:
        """What the names meant, and the items of lists, tuples and dicts among that."""
        for w in {w.place: w for w in self.watched}.values():
            yield from leaves_of(w.value)

    def generalize(self, means: Mapping[Place, Callable[[Any], Hashable]]) -> None:
        """Of these names only a part of what they mean matters from now on."""
        self.watched = [w if w.place not in means else replace(
            w, means=(look := means[w.place]), seen=look(w.value)) for w in self.watched]
        self._general |= {w.place: (w.means, w.seen) for w in self.watched if w.place in means}
        self._sort()

    def expect(self, place: Place, value: object) -> None:
        """A replay gives a name of `generalize` this meaning, which need not be looked at again if
        what matters of it is the same."""
        means, seen = self._general[place]
        if means(value) == seen:
            self._by_identity.expect(place, value)
