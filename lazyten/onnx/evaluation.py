"""One node run: its inputs as its operator wants them, its errors with its name.

Three ways: `record` on tensors, with what is constant on the host, which is what a compiled program
is made of; `fold` of constants alone, beforehand; and `run_alone`, between compiled programs, with
any values.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

import lazyten as lt
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.listening import as_graphs
from lazyten.onnx.table import Operator
from lazyten.onnx.values import (
    FEW,
    FOLD_LIMIT,
    FOLDING,
    MOST_KNOWN,
    Array,
    Constant,
    OfSizes,
    Value,
    are_maps,
    describe,
    is_plain,
    of_sizes,
    to_array,
    to_host,
    to_tensor,
)
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, InternalError, LazytenError

LEAST_BYTES = 4
"""Of types in which numbers of sizes do not wrap around."""
BY_COMPARISONS = frozenset((
    "Identity", "Concat", "Add", "Sub", "Mul", "Neg", "Abs", "Sign", "Min", "Max", "Sum", "Clip",
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Not",
    "Where"))
"""Of numbers they give sums and products, or choose one as others compare."""
OF_DATA = frozenset((
    "Cast", "Gather", "Slice", "Split", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose",
    "Expand", "Tile", "Floor", "Ceil", "Round", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd",
    "ConstantOfShape"))
"""The same of their first input, if the others are not of sizes."""
EXACT = tuple(sign << bits for bits in (24, 31) for sign in (1, -1))
"""Whole numbers up to these are exact as floats and integers of 32 bits."""
KEPT_CALLS, KEPT_ELEMENTS = 4096, 64
"""Operations on constants whose results are kept, and elements of what they take at most."""
Bind = Callable[[Graph, Sequence[Value]], Any]
"""Makes a function of a subgraph and the values it captures."""


class NeedsHost(Exception):
    """An operator's function wants its inputs as arrays, as its result is of a type that lazyten
    lacks."""


class NotRecorded(Exception):
    """A body, a loop or what follows from sizes has to run by itself."""


@contextmanager
def named(node: Node) -> Iterator[None]:
    """Errors of an operator's function name the node, and are of lazyten's kinds."""
    try:
        yield
    except LazytenError as error:
        if node.title in str(error):
            raise
        raise type(error)(f"{node.title}: {error}") from error
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError, MemoryError,
            AttributeError, NotImplementedError, AssertionError) as error:
        raise ArgumentError(f"{node.title}: {error or type(error).__name__}") from error


def arguments(node: Node, values: Sequence[Value], device: str | None,
              everything_on_host: bool = False) -> list[Value]:
    """Values of a node's inputs as its operator takes them; without those left out at the end."""
    row = node.meaning
    assert isinstance(row, Operator)
    found: list[Value] = []
    for position, value in enumerate(values):
        if value is None or node.inputs[position] == "":
            found.append(None)
        elif everything_on_host or row.is_host(position):
            found.append(to_host(_without_gradient(value, position)))
        elif row.raw or row.takes_number(position) and isinstance(value, Constant) \
                and not isinstance(value, OfSizes) and math.prod(value.shape) == 1:
            found.append(value.array if isinstance(value, Constant) else value)
        else:
            found.append(to_tensor(value, device))
            if not (row.foreign or isinstance(found[-1], lt.Tensor)):
                raise lt.DTypeError(f"input {position + 1} is {describe(value)}, and lazyten "
                                    f"computes with no such values")
    while found and found[-1] is None and len(found) > row.required:
        found.pop()
    return found


def _without_gradient(value: Value, position: int) -> Value:
    """A value that leaves for the host, where no gradient follows it."""
    if isinstance(value, lt.Tensor) and value.requires_grad and lt.is_grad_enabled():
        raise lt.GradientError(f"input {position + 1} is read on the host, so gradients end there; "
                               f"call the model within lt.no_grad(), or with x.detach()")
    return value


def options(node: Node) -> dict[str, Any]:
    """Keyword arguments of a node's function."""
    row = node.meaning
    assert isinstance(row, Operator)
    given = {"opset": node.opset, "outputs": len(node.outputs)}
    return {**node.attributes, **{name: given[name] for name in row.given}}


def results(node: Node, result: Any) -> list[Value]:
    """What a function gave, a value an output."""
    found = [np.asarray(x) if isinstance(x, np.generic) else x
             for x in (result if isinstance(result, tuple) else (result,))]
    if len(found) < len(node.outputs):
        raise ArgumentError(f"it has {len(node.outputs)} outputs, and gives {len(found)} here")
    return found[:len(node.outputs)]


def record(node: Node, values: Sequence[Value], device: str | None) -> list[Value]:
    """A node on tensors and constants: tensors, which nobody computes for its own sake, or
    constants."""
    row = node.meaning
    assert isinstance(row, Operator)
    with named(node), as_graphs():
        found = results(node, row.function(*arguments(node, values, device), **options(node)))
    if any(isinstance(x, np.ndarray) for x in found) and not row.shapes:
        raise InternalError(f"{node.title} gives arrays for tensors")
    return [Constant(x) if isinstance(x, np.ndarray) else x for x in found]


def fold(node: Node, values: Sequence[Value]) -> list[Constant] | None:
    """A node on constants: constants; None if its results are no arrays, or too large to keep. What
    small constants gave before is looked up, as each layer of a model works out the same shapes.
    """
    row = node.meaning
    assert isinstance(row, Operator)
    if not row.pure:
        return None
    key = _key_of(node, values)
    return _folded(node, values) if key is None else _known(_Call(key, node, values))


def _folded(node: Node, values: Sequence[Value]) -> list[Constant] | None:
    row = node.meaning
    assert isinstance(row, Operator)
    with named(node):
        if row.arrays is not None and all(isinstance(x, Constant) and is_plain(x) for x in values):
            array = row.arrays(*[x.array for x in values], **options(node))
            if array is not None:
                return [Constant(np.asarray(array))]
        try:
            found = row.function(*arguments(node, values, FOLDING), **options(node))
        except NeedsHost:
            found = row.function(*arguments(node, values, FOLDING, True), **options(node))
        found = results(node, found)
        for x in found:
            if not isinstance(x, lt.Tensor | np.ndarray):
                return None
            if isinstance(x, lt.Tensor) and x.numel() > FOLD_LIMIT:
                return None
        return [Constant(to_array(x)) for x in found]


@dataclass(frozen=True)
class _Call:
    """A node on small constants, told from others by what it depends on alone."""

    key: Hashable
    node: Node = field(compare=False)
    values: Sequence[Value] = field(compare=False)


@lru_cache(KEPT_CALLS)
def _known(call: _Call) -> list[Constant] | None:
    return _folded(call.node, call.values)


def _key_of(node: Node, values: Sequence[Value]) -> Hashable | None:
    """What the results of a node on constants depend on; None if that is much."""
    row, given = node.meaning, list[Hashable]()
    for value in values:
        if not isinstance(value, Constant):
            given.append(None)
            continue
        if value.dtype == object or math.prod(value.shape) > KEPT_ELEMENTS:
            return None
        given.append((value.shape, value.dtype, value.array.tobytes()))
    assert isinstance(row, Operator)
    for name, value in options(node).items():
        plain = tuple(value) if isinstance(value, list) else value
        if not all(isinstance(x, int | float | str) for x in (
                plain if isinstance(plain, tuple) else (plain,))):
            return None
        given.append((name, repr(plain)))
    return row.function, tuple(map(bool, node.inputs)), len(node.outputs), *given


def run_alone(node: Node, values: Sequence[Value], device: str | None, bind: Bind) -> list[Value]:
    """A node between programs, on any values, which it may look at. values: of its inputs, then of
    what its subgraphs capture."""
    row = node.meaning
    assert isinstance(row, Operator)
    inputs, rest = values[:len(node.inputs)], list(values[len(node.inputs):])
    keywords = options(node)
    for name in sorted(keywords):
        if isinstance(keywords[name], Graph):
            count = len(keywords[name].free)
            keywords[name] = bind(keywords[name], rest[:count])
            del rest[:count]
    with named(node):
        if row.moves and any(map(_is_moved, inputs)):
            return _moved(node, inputs, keywords)
        try:
            found = row.function(*arguments(node, inputs, device), **keywords)
        except NeedsHost:
            found = row.function(*arguments(node, inputs, device, True), **keywords)
        return [to_tensor(x, device) if not isinstance(x, list) else x if are_maps(x) else
                [to_tensor(y, device) for y in x] for x in results(node, found)]


def _is_moved(value: Value) -> bool:
    return isinstance(value, np.ndarray | Constant) and not is_plain(value)


def _moved(node: Node, values: Sequence[Value], keywords: Mapping[str, Any]) -> list[Value]:
    """An operator that moves elements, on types that lazyten lacks: it moves their positions in a
    list of all elements."""
    row = node.meaning
    assert isinstance(row, Operator)
    if keywords.get("reduction", "none") != "none":
        raise ArgumentError(f"reduction {keywords['reduction']!r} of elements that lazyten does "
                            f"not compute with: none is what there is for them")
    elements: list[Array] = []
    places, count = [], 0
    for position, value in enumerate(values):
        if value is not None and not row.is_host(position) and _is_moved(value):
            array = to_array(value)
            elements.append(array.ravel())
            value = np.arange(count, count + array.size).reshape(array.shape)
            count += array.size
        places.append(value.to(FOLDING) if isinstance(value, lt.Tensor) else value)
    found = row.function(*arguments(node, places, FOLDING), **keywords)
    table = np.concatenate(elements)
    moved = [[to_array(y) for y in x] if isinstance(x, list) else to_array(x)
             for x in results(node, found)]
    return [[table[y] for y in x] if isinstance(x, list) else table[x] for x in moved]


# ---- where sizes vary ----------------------------------------------------------------------------

def on_host(nodes: Sequence[Node], known: Iterable[str] = ()) -> set[str]:
    """Names of values that some node needs on the host, or that these, or known ones, follow from.
    """
    wanted = {*known}
    for node in reversed(nodes):
        row = node.meaning
        if not isinstance(row, Operator) or row.shapes and not row.host:
            continue
        whole = any(name in wanted for name in node.outputs if name)
        wanted.update(name for i, name in enumerate(node.inputs)
                      if name and (whole or row.is_host(i)))
    return wanted


def folded(node: Node, values: Sequence[Value], wanted: Iterable[str]) -> list[Constant] | None:
    """A node on constants alone: what it gives, if that is to be on the host; else None."""
    row = node.meaning
    assert isinstance(row, Operator)
    varies = any(isinstance(x, OfSizes) for x in values)
    if varies and not row.shapes and not any(name in wanted for name in node.outputs):
        return None
    with tracing.listening(None):  # a number, not something that a traced call makes
        found = fold(node, values)
    if found is None or not varies:
        return found
    return list(map(of_sizes, found))


def numbers_of_sizes(values: Iterable[Value]) -> list[int]:
    """Whole numbers of what follows from sizes and is on the host; of arrays of few."""
    return [int(n) for x in values if isinstance(x, OfSizes) and x.dtype.kind in "iu"
            and math.prod(x.shape) <= FEW for n in x.array.reshape(-1)]


def numbers_in(constants: Iterable[Constant], nodes: Sequence[Node]) -> list[int]:
    """Whole numbers that a model has in small constants, attributes and shapes."""
    found: set[int] = set()
    for constant in constants:
        found.update(constant.shape)
        if constant.dtype.kind in "iu" and np.prod(constant.shape) <= MOST_KNOWN:
            found.update(map(int, constant.array.reshape(-1)))
    for node in nodes:
        for value in node.attributes.values():
            found.update(x for x in (value if isinstance(value, list | tuple) else [value])
                         if type(x) is int)
    return sorted(x for x in found if abs(x) < 1 << 40)


def told_by(node: Node, values: Sequence[Value], found: Sequence[Constant]) -> list[int]:
    """Numbers that decide what a model does at other sizes: those that a node on constants, some of
    which are of sizes, computes with and gives. If formulas say all of them at a further size, and
    each is to every other there as where they were seen (equal, less, more), it gives what formulas
    say. NotRecorded for nodes of which that is not so: a table that is read at a size may have
    anything there."""
    given = [x for x in values if isinstance(x, Constant)]
    sized = [i for i, x in enumerate(values) if isinstance(x, OfSizes)]
    kind = None if node.domain else node.kind
    told = [n for x in found for n in _numbers(x)] if kind != "Range" else []
    if kind in BY_COMPARISONS or kind in ("Div", "Range") and sized[-1] < len(values) - 1 \
            or kind == "Mod" and sized == [0] and not node.attributes.get("fmod", 0):
        told += [n for x in given for n in _numbers(x)]
    elif kind in OF_DATA and sized == [0]:
        told += _numbers(given[0])
    elif kind not in ("Shape", "Size"):
        raise NotRecorded
    return [*told, *EXACT, *_left(node.kind, [x.array for x in given], found[0].array)]


def _left(kind: str, given: Sequence[Array], found: Array) -> list[int]:
    """What a division gives besides: what is left, or how often the divisor is in it. If both are
    formulas, and what is left is less than the divisor, they are the only ones."""
    are_whole = all(x.dtype.kind in "iu" for x in given)
    if kind == "Range":
        if not are_whole:
            raise NotRecorded
        start, limit, step = [int(x.reshape(())) for x in given]
        return [found.size, limit - start, found.size * step - (limit - start)]
    if kind not in ("Div", "Mod") or not are_whole:
        return []
    a, b = given
    return _numbers(OfSizes(a - found * b if kind == "Div" else (a - found) // b))


def _numbers(constant: Constant) -> list[int]:
    """Whole numbers of a constant, and those on both sides of a fraction. What is true or not
    tells nothing that its operands do not."""
    is_sized, kind = isinstance(constant, OfSizes), constant.dtype.kind
    if math.prod(constant.shape) > (FEW if is_sized else MOST_KNOWN) or kind not in "iufb" \
            or kind != "b" and is_sized and constant.dtype.itemsize < LEAST_BYTES:
        raise NotRecorded
    flat = constant.array.reshape(-1)
    if kind == "b":
        return []
    if is_sized and not (np.isfinite(flat) & (flat == np.floor(flat))).all():
        raise NotRecorded
    return [round_to(x.item()) for x in flat if math.isfinite(x)
            for round_to in ((math.floor,) if is_sized else (math.floor, math.ceil))]
