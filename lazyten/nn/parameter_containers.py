"""Modules that hold parameters: in a list, by name."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Self, overload

from lazyten.frontend.tensor import Tensor
from lazyten.nn.containers import pairs, position
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter, is_lazy
from lazyten.support.errors import AttributeNameError, DTypeError, ModuleAttributeError


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) \
        else value


def _shown(values: Iterable[tuple[Any, Any]]) -> str:
    """What stands between the brackets of a container of parameters."""
    rows = []
    for key, value in values:
        text = f"Object of type: {type(value).__name__}"
        if isinstance(value, Tensor):
            kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "0" if is_lazy(value) else "x".join(map(str, value.shape))
            text = f"{kind} containing: [{value.dtype} of size {size}]"
        rows.append(f"  ({key}): {text}")
    return "\n".join(rows)


class ParameterList(Module):
    """Parameters in a list; a tensor that is put there becomes one, and anything else is held."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([*self][index])
        return getattr(self, str(position(index, self._size, "ParameterList")))

    def __setitem__(self, index: int, value: Any) -> None:
        place = position(index, self._size, "ParameterList")
        setattr(self, str(place), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def append(self, value: Any) -> Self:
        """One more at the end; gives this list."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """More at the end; gives this list."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise DTypeError(f"ParameterList.extend: {type(values).__name__} {values!r:.40} is "
                             f"not a list of parameters")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        return _shown(enumerate(self))


class ParameterDict(Module):
    """Parameters by name; a tensor that is put there becomes one, and anything else is held."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: tuple[str, ...] = ()
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise ModuleAttributeError(f"ParameterDict: there is no {key!r:.40}; it has "
                                       f"{', '.join(self._keys) or 'nothing'}")
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise DTypeError(f"ParameterDict: the key {key!r:.40} is not a string; use str()")
        if key not in self._keys:
            self._check_free(key, f"ParameterDict[{key!r}]")
            self._keys += (key,)
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def get(self, key: str, default: Any = None) -> Any:
        """What has this name, or else `default`."""
        return self[key] if key in self._keys else default

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        if not isinstance(other, ParameterDict):
            return NotImplemented
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: ParameterDict) -> Self:
        if not isinstance(other, ParameterDict):
            return NotImplemented
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Another one with the same parameters, in this order."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another one, with `default` by each of these names."""
        return ParameterDict(OrderedDict.fromkeys(keys, default))

    def popitem(self) -> tuple[str, Any]:
        """Take out what was added last; gives its name and value. AttributeNameError if there is
        nothing."""
        if not self._keys:
            raise AttributeNameError("ParameterDict.popitem: there is nothing in it; look at its "
                                     "len() first")
        key = self._keys[-1]
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """What has this name, which is `default` if there was none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a value out; gives it. ModuleAttributeError if there is none."""
        found = self[key]
        self._keys = tuple(k for k in self._keys if k != key)
        delattr(self, key)
        return found

    def clear(self) -> None:
        """Forget all."""
        for key in self._keys:
            self.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return dict.fromkeys(self._keys).keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """The values."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Take over values by name, from pairs or a dict; those of a plain dict by the order of
        their names, as in PyTorch."""
        found = pairs(parameters, "ParameterDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            found = sorted(found, key=itemgetter(0))
        for key, value in found:
            self[key] = value

    def extra_repr(self) -> str:
        return _shown(self.items())
