"""Operators that move elements, or tell of shapes."""
from __future__ import annotations

import math

import numpy as np

import lazyten as lt
from lazyten.onnx.operators import on_arrays
from lazyten.onnx.table import operator
from lazyten.onnx.tensors import numpy_type
from lazyten.onnx.values import Array, Value, check_size, shape_of
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
ENDS = (2**31 - 1, 2**63 - 1)
"""Ends of slices that mean all that is left: the greatest integers of 32 and 64 bits."""


@operator("Shape", shapes=True, foreign=True)
def shape(data: Value, *, start: int = 0, end: int | None = None) -> Array:
    """The sizes of the axes from start to end."""
    return np.array(shape_of(data)[start:end], np.int64)


@operator("Size", shapes=True, foreign=True)
def size(data: Value) -> Array:
    """The number of elements."""
    return np.array(math.prod(shape_of(data)), np.int64)


@operator("Reshape", since=5, host="wanted", moves=True)
def reshape(data: T, wanted: Array, *, allowzero: int = 0) -> T:
    """The same elements in another shape: 0 keeps a size, -1 is what is left."""
    sizes = [int(n) for n in wanted]
    if not allowzero:
        if any(n == 0 and i >= data.ndim for i, n in enumerate(sizes)):
            raise ShapeError(f"reshape {tuple(data.shape)} -> {sizes}: a 0 keeps an axis's size, "
                             f"and there is no such axis")
        sizes = [data.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return data.reshape(sizes)


@operator("Flatten", moves=True)
def flatten(data: T, *, axis: int = 1) -> T:
    """Two axes: those before one, and the others."""
    if not -data.ndim <= axis <= data.ndim:
        raise ArgumentError(f"axis {axis} of {data.ndim}")
    first = math.prod(data.shape[:axis]) if axis else 1
    return data.reshape(first, math.prod(data.shape[axis:] if axis else data.shape))


@operator("Transpose", moves=True)
def transpose(data: T, *, perm: list[int] | None = None) -> T:
    """The axes in another order, backwards if none is given."""
    return data.permute(perm if perm is not None else tuple(range(data.ndim))[::-1])


@operator("Squeeze", since=13, host="axes", moves=True)
def squeeze(data: T, axes: Array | None = None) -> T:
    """Without these axes of size 1, or without all."""
    return _squeeze(data, None if axes is None else [int(axis) for axis in axes])


@operator("Squeeze", moves=True)
def squeeze_1(data: T, *, axes: list[int] | None = None) -> T:
    """Without these axes of size 1, or without all."""
    return _squeeze(data, axes)


def _squeeze(data: T, axes: list[int] | None) -> T:
    if axes is None:
        return data.reshape([n for n in data.shape if n != 1])
    for axis in axes:
        if data.shape[axis] != 1:
            raise ShapeError(f"squeeze of axis {axis} of {tuple(data.shape)}: its size is not 1")
    return data.squeeze(tuple(axes)) if axes else data


@operator("Unsqueeze", since=13, host="axes", moves=True)
def unsqueeze(data: T, axes: Array) -> T:
    """With axes of size 1 at these places of the result."""
    return _unsqueeze(data, [int(axis) for axis in axes.ravel()])


@operator("Unsqueeze", moves=True)
def unsqueeze_1(data: T, *, axes: list[int]) -> T:
    """With axes of size 1 at these places of the result."""
    return _unsqueeze(data, axes)


def _unsqueeze(data: T, axes: list[int]) -> T:
    rank = data.ndim + len(axes)
    places = sorted(axis + rank if axis < 0 else axis for axis in axes)
    if len({*places}) < len(places) or any(not 0 <= place < rank for place in places):
        raise ArgumentError(f"unsqueeze at axes {axes} of {rank}: they must differ and exist")
    for place in places:
        data = data.unsqueeze(place)
    return data


@operator("Concat", since=4, moves=True, arrays=on_arrays.joined)
def concat(*inputs: T, axis: int) -> T:
    """The inputs one after the other along an axis."""
    return lt.cat(list(inputs), axis)


@operator("Split", since=18, host="split", moves=True)
def split(data: T, split: Array | None = None, *, axis: int = 0,
          num_outputs: int | None = None, outputs: int = 1) -> tuple[T, ...]:
    """Parts along an axis, of sizes given or as equal as can be."""
    length = data.shape[axis]
    if split is None:
        if num_outputs not in (None, outputs):
            raise ArgumentError(f"num_outputs={num_outputs}, and there are {outputs} outputs")
        step = -(-length // outputs)
        sizes = [max(0, min(step, length - step * i)) for i in range(outputs)]
    else:
        sizes = [int(n) for n in split]
    return tuple(lt.split(data, sizes, axis))


@operator("Split", since=13, host="split_sizes", moves=True)
def split_13(data: T, split_sizes: Array | None = None, *, axis: int = 0,
             outputs: int = 1) -> tuple[T, ...]:
    """Parts along an axis, of sizes given or equal."""
    return split(data, split_sizes, axis=axis, outputs=outputs)  # type: ignore[no-any-return]


@operator("Split", since=2, moves=True)
def split_2(data: T, *, axis: int = 0, split: list[int] | None = None,
            outputs: int = 1) -> tuple[T, ...]:
    """Parts along an axis, of sizes given or equal."""
    sizes = None if split is None else np.array(split)
    return split_13(data, sizes, axis=axis, outputs=outputs)  # type: ignore[no-any-return]


def _exact(start: int, end: int, step: int, length: int) -> slice:
    """The places of one axis as Python slices it: ends that are outside are moved to the first or
    last place, or beyond it. The greatest integer is the end in both directions."""
    if step < 0 and end in ENDS:
        end = -1 - length
    start, end = (n + length if n < 0 else n for n in (start, end))
    if step > 0:
        return slice(max(0, start), max(0, end), step)
    start, end = max(0, min(start, length - 1)), max(-1, min(end, length - 1))
    return slice(start, None if end < 0 else end, step)


@operator("Slice", since=10, host="starts ends axes steps", moves=True)
def slice_10(data: T, starts: Array, ends: Array, axes: Array | None = None,
             steps: Array | None = None) -> T:
    """Elements from starts to ends, in steps, along axes."""
    found = [slice(None)] * data.ndim
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        axis = i if axes is None else int(axes[i])
        step = 1 if steps is None else int(steps[i])
        if not -data.ndim <= axis < data.ndim or step == 0:
            raise ArgumentError(f"slice of axis {axis} of {data.ndim} with step {step}")
        found[axis] = _exact(start, end, step, data.shape[axis])
    return data[tuple(found)]


@operator("Slice", moves=True)
def slice_1(data: T, *, starts: list[int], ends: list[int], axes: list[int] | None = None) -> T:
    """Elements from starts to ends along axes."""
    return slice_10(data, np.array(starts), np.array(ends),  # type: ignore[no-any-return]
                    None if axes is None else np.array(axes))


@operator("Expand", host="wanted", moves=True)
def expand(data: T, wanted: Array) -> T:
    """Repeated along axes of size 1, as two shapes broadcast."""
    sizes = check_size(lt.broadcast_shapes(tuple(data.shape), tuple(wanted.tolist())), "expand")
    return data.expand(sizes)


@operator("Tile", since=6, host="repeats", moves=True)
def tile(data: T, repeats: Array) -> T:
    """Repeated so often along each axis."""
    if len(repeats) != data.ndim:
        raise ShapeError(f"tile of {data.ndim} axes by {repeats.tolist()}: one number an axis")
    check_size([n * r for n, r in zip(data.shape, repeats.tolist(), strict=True)], "tile")
    return data.repeat(*repeats.tolist()) if data.ndim else data


@operator("ConstantOfShape", host="wanted", shapes=True)
def constant_of_shape(wanted: Array, *, value: Array | None = None) -> Value:
    """A shape full of one value, the float32 0 if none is given."""
    filled = np.zeros(1, np.float32) if value is None else value
    if filled.size != 1:
        raise ArgumentError(f"a value of shape {filled.shape}: it must be one")
    sizes = check_size(wanted, "a constant")
    if math.prod(sizes) <= 1 << 16 or filled.dtype.kind not in "iufb":
        return np.full(sizes, filled.ravel()[0], filled.dtype)
    return lt.full(sizes, filled.item(), dtype=getattr(lt, str(filled.dtype), lt.bool_))


@operator("Range", host="start limit delta", shapes=True)
def arange(start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Array:
    """Numbers from start to before limit in steps of delta."""
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise ArgumentError("range with the step 0 has no end")
    count = max(0, math.ceil((last - first) / step))
    check_size([count * 64], "range")
    if start.dtype.name in ("float16", "bfloat16"):
        narrow: Array = np.arange(count, dtype=np.float32) * np.float32(step) + np.float32(first)
        return narrow.astype(start.dtype)
    found: Array = np.arange(count) * step + first
    return found.astype(start.dtype)


@operator("EyeLike", shapes=True)
def eye_like(x: T, *, dtype: int | None = None, k: int = 0) -> Array:
    """Ones on a diagonal."""
    if x.ndim != 2:
        raise ShapeError(f"a diagonal of shape {tuple(x.shape)}: two axes are needed")
    rows, columns = check_size(x.shape, "eye")
    found: Array = np.eye(rows, columns, k)
    return found.astype(numpy_type(dtype) if dtype else np.dtype(x.dtype.name))


@operator("Trilu", host="k", moves=True, arrays=on_arrays.triangle)
def triangle(x: T, k: Array | None = None, *, upper: int = 1) -> T:
    """The part on and above a diagonal, or on and below."""
    places = x.ndim and (0 if k is None else int(k.item()))
    bound = max(x.shape) + 1 if x.ndim else 1
    places = max(-bound, min(bound, places))
    return x.triu(places) if upper else x.tril(places)


@operator("DepthToSpace", moves=True)
def depth_to_space(x: T, *, blocksize: int, mode: str = "DCR") -> T:
    """Channels laid out as blocks of pixels."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        return x.reshape(n, b, b, c // b ** 2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(
            n, c // b ** 2, h * b, w * b)
    return x.reshape(n, c // b ** 2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(
        n, c // b ** 2, h * b, w * b)


@operator("SpaceToDepth", moves=True)
def space_to_depth(x: T, *, blocksize: int, mode: str = "DCR") -> T:
    """Blocks of pixels as channels."""
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.permute(*order).reshape(n, c * b * b, h // b, w // b)


@operator("ReverseSequence", moves=True, host="lengths")
def reverse_sequence(data: T, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> T:
    """Each sequence of a batch backwards, up to its length."""
    steps, count = data.shape[time_axis], data.shape[batch_axis]
    place = np.arange(steps)[:, None] + np.zeros((1, count), np.int64)
    place = np.where(place < lengths, lengths - 1 - place, place)
    index = lt.tensor(place, device=data.device)
    rows = data.movedim((time_axis, batch_axis), (0, 1))
    index = index.reshape(steps, count, *[1] * (rows.ndim - 2)).expand(rows.shape)
    return rows.gather(0, index).movedim((0, 1), (time_axis, batch_axis))
