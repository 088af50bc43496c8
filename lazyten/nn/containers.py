"""Modules that hold others: in a row, in a list, by name."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from lazyten.nn.module import Module
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, AttributeNameError, DTypeError, IndexingError


def position(index: int, count: int, container: str, more: int = 0) -> int:
    """An index, which may count from the end, as one from 0. IndexingError if it is outside."""
    number = shapes.as_int(index, container, "an index")
    if not count + more:
        raise IndexingError(f"{container}: index {number}, and it has no modules; append() some")
    if not -count <= number < count + more:
        raise IndexingError(f"{container}: index {number} is outside its {count} modules; use "
                            f"{-count} to {count + more - 1}")
    return number + count if number < 0 else number


class _Numbered(Module):
    """Modules in an order, found by number."""

    def _items(self) -> list[Module]:
        return list(self._modules.values())

    def _name(self) -> str:
        return type(self).__name__

    def _check(self, name: str, module: Any) -> None:
        if not isinstance(module, Module):
            raise DTypeError(f"{self._name()}: item {name} is {type(module).__name__}, not a "
                             f"Module; give modules one by one: {self._name()}"
                             f"{'([a, b])' if isinstance(self, ModuleList) else '(a, b)'}")

    def _put(self, name: str, module: Any) -> None:
        self._check(name, module)
        self.add_module(name, module)

    def _renumber(self, modules: Iterable[Module]) -> None:
        """Hold these, named by their numbers."""
        self._about_to_change(f"changing what is in a {self._name()}")
        named = {str(i): m for i, m in enumerate(modules)}
        self._modules.clear()
        self._modules.update(named)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __setitem__(self, index: int, module: Any) -> None:
        name = list(self._modules)[position(index, len(self), self._name())]
        self._check(name, module)
        setattr(self, name, module)

    def __delitem__(self, index: int | slice) -> None:
        kept = self._items()
        if not isinstance(index, slice):
            position(index, len(self), self._name())
        del kept[index]
        self._renumber(kept)

    def append(self, module: Any) -> Self:
        """One more at the end; gives this container."""
        self._put(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Self:
        """More at the end; gives this container."""
        if not isinstance(modules, Iterable):
            raise DTypeError(f"{self._name()}.extend: {type(modules).__name__} {modules!r:.40} is "
                             f"not a list of modules")
        for module in list(modules):
            self.append(module)
        return self

    def __iadd__(self, modules: Iterable[Any]) -> Self:
        return self.extend(modules)

    def _inserted(self, index: int, module: Any) -> None:
        self._check(str(index), module)
        modules = self._items()
        modules.insert(position(index, len(self), self._name(), 1), module)
        self._renumber(modules)

    def pop(self, key: int = -1) -> Any:
        """Take a module out; gives it."""
        found = self._items()[position(key, len(self), self._name())]
        del self[key]
        return found


class Sequential(_Numbered):
    """Modules one after another, numbered from 0, or named by an OrderedDict."""

    @overload
    def __init__(self, *modules: Module) -> None: ...
    @overload
    def __init__(self, modules: OrderedDict[str, Module], /) -> None: ...

    def __init__(self, *modules: Module | OrderedDict[str, Module]) -> None:
        super().__init__()
        named = modules[0] if len(modules) == 1 else None
        items: Iterable[tuple[str, Any]] = named.items() if isinstance(named, OrderedDict) else \
            ((str(i), m) for i, m in enumerate(modules))
        for name, module in items:
            self._put(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...

    def __getitem__(self, index: int | slice) -> Any:
        """One module, or a Sequential of some, with their names."""
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._items()[position(index, len(self), self._name())]

    def insert(self, index: int, module: Module) -> Self:
        """One more before number `index`; gives this container."""
        self._inserted(index, module)
        return self

    def extend(self, sequential: Iterable[Any]) -> Self:
        """More at the end; gives this container."""
        return super().extend(sequential)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*self._items() * _times(times))

    def __rmul__(self, times: int) -> Sequential:
        return self * times

    def __imul__(self, times: int) -> Self:
        return self.extend(self._items() * (_times(times) - 1))


def _times(times: int) -> int:
    if shapes.as_int(times, "Sequential", "a number of times") < 1:
        raise ArgumentError(f"Sequential times {times}: it must be 1 or more")
    return times


class ModuleList(_Numbered):
    """Modules in a list, which takes them for its own: a Python list would hide their parameters.
    None stands for one that is left out. It has no forward()."""

    def _check(self, name: str, module: Any) -> None:
        if module is not None:
            super()._check(name, module)

    def __init__(self, modules: Iterable[Module | None] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...

    def __getitem__(self, index: int | slice) -> Any:
        """One module, or a ModuleList of some."""
        if isinstance(index, slice):
            return type(self)(self._items()[index])
        return self._items()[position(index, len(self), self._name())]

    def insert(self, index: int, module: Module | None) -> None:
        """One more before number `index`."""
        self._inserted(index, module)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        rows: list[tuple[int, int, str]] = []
        for i, text in enumerate(map(repr, self)):
            if rows and rows[-1][2] == text:  # equal neighbours are one row
                rows[-1] = rows[-1][0], i, text
            else:
                rows.append((i, i, text))
        shown = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
                 for a, b, text in rows]
        return "\n".join([f"{self._name()}(", *(
            "  " + row.replace("\n", "\n  ") for row in shown), ")"]) if shown \
            else f"{self._name()}()"


class ModuleDict(Module):
    """Modules by name, which it takes for its own. It has no forward()."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
                 ) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        if key not in self._modules:
            raise AttributeNameError(f"ModuleDict: there is no {key!r:.40}; it has "
                                     f"{', '.join(self._modules) or 'nothing'}")
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Forget all."""
        self._about_to_change("clearing a ModuleDict")
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out; gives it. KeyError if there is none."""
        found = self[key]
        delattr(self, key)
        return found

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Take over modules by name."""
        for key, module in pairs(modules, "ModuleDict"):
            self[key] = module


def pairs(given: Any, container: str) -> list[tuple[str, Any]]:
    """What a dict, or a sequence of pairs, says. DTypeError for anything else."""
    if isinstance(given, Mapping) or isinstance(given, Module) and hasattr(given, "items"):
        return list(given.items())
    try:
        return [(key, value) for key, value in given]
    except (TypeError, ValueError):
        raise DTypeError(f"{container}.update: {type(given).__name__} {given!r:.40} is neither a "
                         f"dict nor a sequence of pairs of a name and a value") from None
