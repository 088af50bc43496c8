"""Operators that take elements by their indices, or put them there, or sort."""
from __future__ import annotations

import math

import numpy as np

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import FOLD_LIMIT, Array, check_size
from lazyten.support.errors import ArgumentError

T = lt.Tensor


def _wrapped(indices: T, size: int) -> T:
    """Indices from 0 on: negative ones count from the end."""
    indices = indices.to(lt.int64)
    wrapped: T = lt.where(indices < 0, indices + size, indices)
    return wrapped


def _taken(data: Array, indices: Array, *, axis: int = 0) -> Array | None:
    """Gather of arrays; None for one that is refused, or large."""
    size = data.shape[axis]
    if indices.size and not -size <= indices.min() <= indices.max() < size \
            or data.size // max(size, 1) * indices.size > FOLD_LIMIT:
        return None
    return np.take(data, indices, axis)


@operator("Gather", moves=True, arrays=_taken)
def gather(data: T, indices: T, *, axis: int = 0) -> T:
    """Slices of data at indices along an axis."""
    axis = axis % data.ndim
    found = data.index_select(axis, _wrapped(indices, data.shape[axis]).reshape(-1))
    return found.reshape(*data.shape[:axis], *indices.shape, *data.shape[axis + 1:])


@operator("GatherElements", moves=True)
def gather_elements(data: T, indices: T, *, axis: int = 0) -> T:
    """Elements of data, one for each index, along an axis."""
    return data.gather(axis, _wrapped(indices, data.shape[axis]))


def _flat(indices: T, sizes: tuple[int, ...]) -> T:
    """Positions in a flat array of what tuples of indices, along the last axis, point at."""
    strides = [math.prod(sizes[i + 1:]) for i in range(indices.shape[-1])]
    parts = [_wrapped(indices[..., i], sizes[i]) * strides[i] for i in range(len(strides))]
    return sum(parts[1:], parts[0])


@operator("GatherND", moves=True)
def gather_nd(data: T, indices: T, *, batch_dims: int = 0) -> T:
    """Slices of data at tuples of indices."""
    batch, depth = tuple(data.shape[:batch_dims]), indices.shape[-1]
    sizes, rest = tuple(data.shape[batch_dims:batch_dims + depth]), data.shape[batch_dims + depth:]
    places = _flat(indices, sizes)
    shape = places.shape
    if batch:
        rows = lt.arange(math.prod(batch), device=data.device) * math.prod(sizes)
        places = places.reshape(math.prod(batch), -1) + rows[:, None]
    table = data.reshape(math.prod(batch) * math.prod(sizes), *rest)
    return table.index_select(0, places.reshape(-1)).reshape(*shape, *rest)


REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _reduction(name: str) -> str:
    if name not in REDUCTIONS:
        raise ArgumentError(f"reduction {name!r}: none, add, mul, max and min are the ones there "
                            f"are")
    return REDUCTIONS[name]


@operator("Scatter", "ScatterElements", moves=True)
def scatter_elements(data: T, indices: T, updates: T, *, axis: int = 0,
                     reduction: str = "none") -> T:
    """data with updates at indices along an axis."""
    places = _wrapped(indices, data.shape[axis])
    if reduction == "none":
        return data.scatter(axis, places, updates)
    return data.scatter_reduce(axis, places, updates, _reduction(reduction))


@operator("ScatterND", moves=True)
def scatter_nd(data: T, indices: T, updates: T, *, reduction: str = "none") -> T:
    """data with updates at tuples of indices."""
    depth = indices.shape[-1]
    sizes, rest = tuple(data.shape[:depth]), tuple(data.shape[depth:])
    places = _flat(indices, sizes).reshape(-1)
    table = data.reshape(math.prod(sizes), math.prod(rest))
    new = updates.reshape(places.shape[0], math.prod(rest))
    index = places[:, None].expand(new.shape)
    found = table.scatter(0, index, new) if reduction == "none" else \
        table.scatter_reduce(0, index, new, _reduction(reduction))
    return found.reshape(data.shape)


@operator("TensorScatter", moves=True)
def tensor_scatter(past: T, update: T, places: T | None = None, *, axis: int = -2,
                   mode: str = "linear") -> T:
    """A cache with new entries of each of a batch from a place on, around the end if circular."""
    axis = axis % past.ndim
    count, length = update.shape[axis], past.shape[axis]
    start = lt.zeros(past.shape[0], dtype=lt.int64, device=past.device) \
        if places is None else places.to(lt.int64)
    index = start[:, None] + lt.arange(count, device=past.device)
    if mode == "circular":
        index = index % length
    shape = [1] * past.ndim
    shape[0], shape[axis] = past.shape[0], count
    return past.scatter(axis, index.reshape(shape).expand(update.shape), update)


@operator("OneHot", host="depth", moves=True)
def one_hot(indices: T, depth: Array, values: T, *, axis: int = -1) -> T:
    """Vectors along a new axis: the second value at the index, and the first elsewhere."""
    count = int(depth.item())
    rank = indices.ndim + 1
    axis = axis % rank
    check_size([count, *indices.shape], "one-hot vectors")
    wide = indices.to(lt.int64).unsqueeze(axis)
    shape = [count if i == axis else 1 for i in range(rank)]
    hot = lt.remainder(wide, count) == lt.arange(count, device=indices.device).reshape(shape)
    inside = (wide >= -count) & (wide < count)
    found: T = lt.where(hot & inside, values[1], values[0])
    return found


@operator("TopK", since=11, host="k")
def top_k(x: T, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1,
          ) -> tuple[T, T]:
    """The k greatest or least elements along an axis, and their places; the first of equal ones
    first."""
    count = int(k.item())
    if not 0 <= count <= x.shape[axis]:
        raise ArgumentError(f"the {count} greatest of {x.shape[axis]}")
    values, places = lt.topk(x, count, axis, bool(largest))
    return values, places


@operator("TopK", since=10, host="k")
def top_k_10(x: T, k: Array, *, axis: int = -1) -> tuple[T, T]:
    """The k greatest elements along an axis, and their places."""
    return top_k(x, k, axis=axis)  # type: ignore[no-any-return]


@operator("TopK")
def top_k_1(x: T, *, k: int, axis: int = -1) -> tuple[T, T]:
    """The k greatest elements along an axis, and their places."""
    return top_k(x, np.array(k), axis=axis)  # type: ignore[no-any-return]


@operator("Hardmax", since=13)
def hardmax(x: T, *, axis: int = -1) -> T:
    """1 at the first greatest element along an axis, and 0 elsewhere."""
    if not x.numel():
        return x
    first = lt.argmax(x, axis, keepdim=True)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return (lt.arange(x.shape[axis], device=x.device).reshape(shape) == first).to(x.dtype)


@operator("NonZero", eager=True, host="*")
def nonzero(x: Array) -> Array:
    """Indices of what is not 0, a row an axis."""
    found = np.array(np.nonzero(np.atleast_1d(x)), np.int64)
    return found if x.ndim else found[:0]


@operator("Compress", eager=True, host="*")
def compress(data: Array, condition: Array, *, axis: int | None = None) -> Array:
    """Slices of data along an axis, or elements, where a condition holds. What it says beyond
    these is left out, as in onnxruntime."""
    count = data.size if axis is None else data.shape[axis]
    return np.compress(condition[:count], data, axis)


@operator("Unique", eager=True, host="*")
def unique(x: Array, *, axis: int | None = None, sorted: int = 1,
           ) -> tuple[Array, Array, Array, Array]:
    """Different elements, where each is first, which each one is, and how often there is each."""
    flat = x.astype(str) if x.dtype == object else x
    values, first, inverse, counts = np.unique(flat, True, True, True, axis=axis)
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        values = values[order] if axis is None else np.take(values, order, axis)
        first, counts = first[order], counts[order]
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        inverse = rank[inverse]
    return values.astype(x.dtype), first.astype(np.int64), inverse.astype(np.int64), \
        counts.astype(np.int64)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml", moves=True)
def array_feature_extractor(x: T, places: T) -> T:
    """Elements along the last axis."""
    found = x.index_select(-1, places.reshape(-1).to(lt.int64))
    return found if x.ndim > 1 else found.reshape(1, -1)


