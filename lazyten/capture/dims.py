"""Sizes that vary from call to call of a jitted function: `lt.Dim`, and what is checked of each.

In: the option `dynamic` of `lt.jit`, and the arguments of a call. Out: the size that each Dim has
in the call, or an error that says which argument, axis and range it is about; and other sizes to
look at before anything is compiled, so that devices know which numbers of kernels differ from size
to size.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lazyten.capture.captured import Captured
from lazyten.capture.donation import aliases
from lazyten.execution.plans.varying import look_at
from lazyten.execution.segment import graph_of
from lazyten.execution.sizes.ahead import FACTOR, LEAST, Region
from lazyten.frontend.tensor import Tensor
from lazyten.ir import node as nodes
from lazyten.storage.storage import Storage
from lazyten.support.errors import ArgumentError, ShapeError

LARGEST = (1 << 31) - 1
"""Of a Dim: that of an axis of which positions fit 32 bits."""


class Dim:
    """A size that varies from `min` to `max`, both included. Axes that have one Dim, or Dims of one
    name, have the same size in each call.

    ArgumentError unless 1 <= min <= max, and for a name that is no word.
    """

    __slots__ = ("max", "min", "name")
    name: str
    min: int
    max: int

    def __init__(self, name: str, min: int = 1, max: int = LARGEST) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(f"Dim({name!r:.40}): its name is a word, such as 'batch'")
        for which, number in (("min", min), ("max", max)):
            if type(number) is not int:
                raise ArgumentError(f"Dim({name!r}): {which}={number!r:.40} is no int")
        if not 1 <= min <= max <= LARGEST:
            raise ArgumentError(f"Dim({name!r}, {min}, {max}): sizes are at least 1, and from the "
                                f"least to the greatest (at most {LARGEST:,})")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "min", min)
        object.__setattr__(self, "max", max)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Dim cannot change; make another for {name}={value!r:.40}")

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, {self.min}, {self.max})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and (self.name, self.min, self.max) == (
            other.name, other.min, other.max)

    def __hash__(self) -> int:
        return hash((self.name, self.min, self.max))


Dynamic = Mapping[str, Mapping[int, Dim]] | Mapping[int, Mapping[int, Dim]] | \
    Mapping[str | int, Mapping[int, Dim]]
"""For arguments, by name or position, the Dims of axes, which may count from the end."""


class _Axes(NamedTuple):
    """What is said of one argument: how it is called, and under which keys a call gives it."""

    name: str
    keys: frozenset[str | int]
    dims: tuple[tuple[int, Dim], ...]


class Given(NamedTuple):
    """The size of a Dim in a call, and the first argument and axis that has it."""

    size: int
    argument: str
    axis: int


class VaryingSizes:
    """The arguments of `function` that have axes of sizes that vary. ArgumentError for what is no
    such thing."""

    def __init__(self, function: Callable[..., Any], dynamic: Dynamic, name: str,
                 option: str = "jit", called: str = "jitted function") -> None:
        """option, called: what has the option, and what the function then is, for messages."""
        if not isinstance(dynamic, Mapping):
            raise ArgumentError(f"{option}(dynamic={dynamic!r:.60}) of {name}: give a dict, such "
                                f"as {{'x': {{0: lazyten.Dim('batch', 1, 512)}}}}")
        self.name, self._option, self._called = name, option, f"{called} {name}"
        self.axes = [self._axes(function, place, axes) for place, axes in dynamic.items()]
        self.dims = self._one_of_each_name()

    def _axes(self, function: Callable[..., Any], place: object, axes: object) -> _Axes:
        keys = aliases(function, place, "dynamic", self._option)
        called = next((k for k in keys if isinstance(k, str)), place)
        if not isinstance(axes, Mapping) or not all(
                type(a) is int and isinstance(d, Dim) for a, d in axes.items()):
            raise ArgumentError(f"{self._option}(dynamic=...) of {self.name}: argument {called!r} "
                                f"has {axes!r:.60}, but it takes a dict of axes and their "
                                f"lazyten.Dim, such as {{0: lazyten.Dim('batch', 1, 512)}}")
        return _Axes(str(called), frozenset(keys), tuple(axes.items()))

    def _one_of_each_name(self) -> dict[str, Dim]:
        found: dict[str, Dim] = {}
        for argument in self.axes:
            for axis, dim in argument.dims:
                if found.setdefault(dim.name, dim) != dim:
                    raise ArgumentError(f"{self._option}(dynamic=...) of {self.name}: axis {axis} "
                                        f"of argument {argument.name!r} has {dim}, and another "
                                        f"axis has {found[dim.name]}; Dims of one name are one "
                                        f"size")
        return found

    def sizes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Given]:
        """The size of each Dim in a call, by name. ShapeError where one is out of its range, or has
        two sizes."""
        found: dict[str, Given] = {}
        for argument in self.axes:
            value = self._value(argument, args, kwargs)
            if value is None:
                continue
            shape = value.shape
            for axis, dim in argument.dims:
                if not -len(shape) <= axis < len(shape):
                    raise ShapeError(f"{self._called}: argument {argument.name!r} has "
                                     f"shape {tuple(shape)}, without the axis {axis} of {dim}")
                self._note(found, Given(int(shape[axis]), argument.name, axis), dim)
        return found

    def _value(self, argument: _Axes, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The tensor that a call gives; None if it leaves it to a default."""
        for key in argument.keys:
            if isinstance(key, int) and key < len(args):
                break
            if key in kwargs:
                break
        else:
            return None
        value = args[key] if isinstance(key, int) else kwargs[key]
        if value is not None and not isinstance(value, Tensor):
            raise ArgumentError(f"{self._called}: argument {argument.name!r} has axes "
                                f"in lt.{self._option}(dynamic=...), but is {type(value).__name__} "
                                f"{value!r:.40}, which is no tensor")
        return value

    def _note(self, found: dict[str, Given], given: Given, dim: Dim) -> None:
        where = f"axis {given.axis} of argument {given.argument!r}"
        if not dim.min <= given.size <= dim.max:
            raise ShapeError(f"{self._called}: {where} has size {given.size}, but "
                             f"{dim} is from {dim.min} to {dim.max}: give it such a size, or the "
                             f"Dim another range")
        first = found.setdefault(dim.name, given)
        if first.size != given.size:
            raise ShapeError(f"{self._called}: {where} has size {given.size}, and "
                             f"axis {first.axis} of argument {first.argument!r} {first.size}, but "
                             f"both are {dim}: give them one size, or Dims of two names")

    def resized(self, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Mapping[str, int],
                like: Callable[[Tensor, tuple[int, ...]], Tensor],
                ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with other sizes: `like` makes a tensor of another shape."""
        new, named = list(args), dict(kwargs)
        for argument in self.axes:
            value = self._value(argument, args, kwargs)
            if value is None:
                continue
            shape = list(value.shape)
            for axis, dim in argument.dims:
                shape[axis] = sizes[dim.name]
            for key in argument.keys:
                if isinstance(key, int) and key < len(new):
                    new[key] = like(value, tuple(shape))
                elif key in named:
                    named[str(key)] = like(value, tuple(shape))
        return tuple(new), named


# ---- looking ahead -------------------------------------------------------------------------------

def region(dim: Dim, size: int) -> Region:
    """The sizes that have their kernels in common with this one: up to a quarter of the greatest,
    up to a quarter of that, and so on."""
    if size < LEAST:
        return size, size
    high = dim.max
    while high // FACTOR >= size:
        high //= FACTOR
    low = high // FACTOR + 1
    return (LEAST, high) if low <= LEAST else (low, high)


def like(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of another shape, for a function that is only recorded."""
    return Tensor._view(Storage(nodes.const(0, tensor.dtype, shape), tensor.device), (), None)


def look(captured: Captured, arguments: Sequence[Tensor]) -> None:
    """Have devices know the kernels of a recorded call, which is not going to run."""
    sources = [s.find(arguments).device for s in captured.sources]
    roots = [(sources[number], node) for number, node in captured.written]
    roots += [(n.device, n.node) for n in captured.new]
    for device in dict.fromkeys(device for device, _ in roots):
        graph, _ = graph_of([node for where, node in roots if where == device], device)
        look_at(device, graph)


class Hints:
    """Says once that a function comes with many sizes."""

    LEAST = 5

    def __init__(self) -> None:
        self._shapes: dict[Any, None] = {}
        self._said = False

    def note(self, name: str, tensors: Sequence[Tensor], show: Callable[[str], None]) -> None:
        """A call was recorded, as its shapes are new."""
        if self._said:
            return
        self._shapes[tuple(t.shape for t in tensors)] = None
        if len(self._shapes) < self.LEAST:
            return
        self._said = True
        axes = _varying_axes(list(self._shapes))
        if axes:
            show(f"{name} has come with {len(self._shapes)} sizes, which differ in "
                 f"{', '.join(axes)}; give lt.jit(dynamic={{...}}) the axes that vary, and kernels "
                 f"for all sizes are made at the first call (docs/shapes.md)")


def _varying_axes(calls: Sequence[Any]) -> list[str]:
    """The axes, in words, in which calls of equally many axes differ."""
    first = calls[0]
    if any([len(s) for s in shapes] != [len(s) for s in first] for shapes in calls):
        return []
    return [f"axis {axis} of tensor {number}" for number, shape in enumerate(first)
            for axis in range(len(shape)) if len({c[number][axis] for c in calls}) > 1]
