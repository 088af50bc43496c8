"""Sequences and optional values, and what passes any value on."""
from __future__ import annotations

import numpy as np

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, Value, to_array, to_tensor
from lazyten.support.errors import ArgumentError

Sequence = list[Value]


@operator("Identity", raw=True, foreign=True, moves=True)
def identity(value: Value) -> Value:
    """The same value."""
    return value


def _list(value: Value) -> Sequence:
    if not isinstance(value, list):
        raise ArgumentError("a sequence is needed")
    return value


def _place(sequence: Sequence, position: Value, end: int) -> int:
    """A position from 0 on, below `end`."""
    place = int(to_array(position).item())
    if not -len(sequence) <= place < end:
        raise lt.IndexingError(f"position {place} of a sequence of {len(sequence)}")
    return place + len(sequence) if place < 0 else place


@operator("SequenceConstruct", eager=True, raw=True)
def construct(*inputs: Value) -> Value:
    """A sequence of these."""
    return (list(inputs),)


@operator("SequenceEmpty", eager=True, raw=True)
def empty(*, dtype: int = 1) -> Value:
    """A sequence of nothing."""
    return ([],)


@operator("SequenceLength", eager=True, raw=True)
def length(sequence: Value) -> Array:
    """How many values a sequence has."""
    return np.array(len(_list(sequence)), np.int64)


@operator("SequenceAt", eager=True, raw=True)
def at(sequence: Value, position: Value) -> Value:
    """One value of a sequence."""
    found = _list(sequence)
    return found[_place(found, position, len(found))]


@operator("SequenceInsert", eager=True, raw=True)
def insert(sequence: Value, value: Value, position: Value = None) -> Value:
    """A sequence with a value more, at the end if no position is given."""
    found = _list(sequence)
    place = len(found) if position is None else _place(found, position, len(found) + 1)
    return ([*found[:place], value, *found[place:]],)


@operator("SequenceErase", eager=True, raw=True)
def erase(sequence: Value, position: Value = None) -> Value:
    """A sequence without one value, the last if no position is given."""
    found = _list(sequence)
    place = len(found) - 1 if position is None else _place(found, position, len(found))
    return ([*found[:place], *found[place + 1:]],)


@operator("ConcatFromSequence", eager=True, raw=True)
def concat_from_sequence(sequence: Value, *, axis: int, new_axis: int = 0) -> Value:
    """All values of a sequence one after the other, or along a new axis."""
    parts = [to_tensor(x, None) for x in _list(sequence)]
    return (lt.stack if new_axis else lt.cat)(parts, axis)


@operator("SplitToSequence", eager=True, host="split", moves=True)
def split_to_sequence(data: lt.Tensor, split: Array | None = None, *, axis: int = 0,
                      keepdims: int = 1) -> Value:
    """Parts along an axis: slices, or so long each, or of these lengths."""
    size = data.shape[axis]
    if split is None:
        parts = [data.narrow(axis, i, 1) for i in range(size)]
        return ([x if keepdims else x.squeeze(axis) for x in parts],)
    if split.ndim == 0:
        step = int(split)
        if step < 1:
            raise ArgumentError(f"split into parts of {step}")
        sizes = [min(step, size - start) for start in range(0, size, step)]
    else:
        sizes = split.tolist()
    return (list(lt.split(data, sizes, axis)),)


@operator("Optional", eager=True, raw=True)
def optional(value: Value = None, *, type: object = None) -> Value:
    """A value that may be absent."""
    return (value,)


@operator("OptionalHasElement", eager=True, raw=True)
def has_element(value: Value = None) -> Array:
    """Whether it is there."""
    return np.array(value is not None)


@operator("OptionalGetElement", eager=True, raw=True)
def get_element(value: Value) -> Value:
    """The value. Raises ArgumentError if it is absent."""
    if value is None:
        raise ArgumentError("an optional value is absent: ask OptionalHasElement first")
    return (value,)
