"""Convolutions and poolings: operators that look through a window."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
F = lt.nn.functional
Ints = list[int] | None


def pads_of(auto_pad: str, pads: Ints, sizes: Sequence[int], kernel: Sequence[int],
            strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """What is added before each axis, and then behind each: as given, or as auto_pad says."""
    rank = len(sizes)
    if auto_pad in ("NOTSET", ""):
        found = pads or [0] * 2 * rank
        if len(found) != 2 * rank:
            raise ShapeError(f"pads {found} of {rank} axes: two numbers an axis")
        return found
    if auto_pad == "VALID":
        return [0] * 2 * rank
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ArgumentError(f"auto_pad {auto_pad!r}: NOTSET, VALID, SAME_UPPER and SAME_LOWER are "
                            f"the ones there are")
    whole = [max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
             for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)]
    less, more = [n // 2 for n in whole], [n - n // 2 for n in whole]
    return less + more if auto_pad == "SAME_UPPER" else more + less


def padded(x: T, pads: Sequence[int], value: float = 0) -> T:
    """x with a value around its last axes."""
    rank = len(pads) // 2
    sizes = [n + a + b for n, a, b in zip(x.shape[-rank:], pads[:rank], pads[rank:], strict=True)]
    check_size([*x.shape[:-rank], *sizes], "a padded array")
    flat = [n for i in reversed(range(rank)) for n in (pads[i], pads[i + rank])]
    return F.pad(x, flat, value=value) if any(flat) else x


def _check_window(x: T, rank: int, *lists: Sequence[int]) -> None:
    if x.ndim != rank + 2 or any(len(numbers) != rank for numbers in lists):
        raise ShapeError(f"a window of {rank} axes over an input of shape {tuple(x.shape)}, with "
                         f"{', '.join(map(str, lists))}: one number for each axis after the first "
                         f"two")


@operator("Conv")
def conv(x: T, w: T, b: T | None = None, *, auto_pad: str = "NOTSET", dilations: Ints = None,
         group: int = 1, kernel_shape: Ints = None, pads: Ints = None,
         strides: Ints = None) -> T:
    """A convolution of 1 to 3 axes."""
    rank = w.ndim - 2
    ones = [1] * rank
    dilations, strides = dilations or ones, strides or ones
    kernel = list(w.shape[2:])
    if kernel_shape is not None and kernel_shape != kernel:
        raise ShapeError(f"kernel_shape {kernel_shape} and weights of shape {tuple(w.shape)}")
    _check_window(x, rank, dilations, strides)
    around = pads_of(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    equal = around[:rank] == around[rank:] and min(around) >= 0
    x = x if equal else padded(x, around)
    if rank not in (1, 2, 3):
        raise ShapeError(f"conv of {rank} axes: 1 to 3 are supported")
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return function(x, w, b, stride=tuple(strides), padding=tuple(around[:rank]) if equal else 0,
                    dilation=tuple(dilations), groups=group)


@operator("ConvTranspose")
def conv_transpose(x: T, w: T, b: T | None = None, *, auto_pad: str = "NOTSET",
                   dilations: Ints = None, group: int = 1, kernel_shape: Ints = None,
                   output_padding: Ints = None, output_shape: Ints = None, pads: Ints = None,
                   strides: Ints = None) -> T:
    """A transposed convolution of 1 to 3 axes."""
    rank = w.ndim - 2
    ones = [1] * rank
    dilations, strides, extra = dilations or ones, strides or ones, output_padding or [0] * rank
    _check_window(x, rank, dilations, strides, extra)
    full = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in zip(
        x.shape[2:], strides, w.shape[2:], dilations, extra, strict=True)]
    check_size([*x.shape[:1], *w.shape[1:2], *full], "a transposed convolution")
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = output_shape or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        wanted = wanted[-rank:]
        over = [max(n - m, 0) for n, m in zip(full, wanted, strict=True)]
        if not output_shape:  # a stride beyond the window adds nothing at the end
            wanted = [n - m for n, m in zip(full, over, strict=True)]
        less, more = [n // 2 for n in over], [n - n // 2 for n in over]
        around = less + more if auto_pad == "SAME_UPPER" else more + less
    else:
        around = pads or [0] * 2 * rank
        wanted = [n - a - c for n, a, c in zip(full, around[:rank], around[rank:], strict=True)]
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    found = function(x, w, None, stride=tuple(strides), groups=group, dilation=tuple(dilations))
    found = padded(found, [-n for n in around[:rank]] + [
        m + a - (f - e) for m, a, f, e in zip(wanted, around[:rank], full, extra, strict=True)])
    return found if b is None else found + b.reshape(-1, *ones)


class Window(NamedTuple):
    """How a pool looks at its input, a number for each axis. around: what is added before each axis
    and then behind each; extra: what the last window has beyond that; counts: of windows."""

    strides: list[int]
    dilations: list[int]
    around: list[int]
    extra: list[int]
    counts: list[int]

    @property
    def pads(self) -> list[int]:
        """All that is added before each axis, and then behind each."""
        rank = len(self.extra)
        return [*self.around[:rank],
                *(a + e for a, e in zip(self.around[rank:], self.extra, strict=True))]


def _window(x: T, kernel: Sequence[int], auto_pad: str, pads: Ints, strides: Ints,
            dilations: Ints, ceil_mode: int) -> Window:
    """The window of a pool. How many there are is onnxruntime's count, whose division rounds to
    zero: an axis that is shorter than a window, but by less than a stride, has one."""
    rank = len(kernel)
    ones = [1] * rank
    strides, dilations = strides or ones, dilations or ones
    _check_window(x, rank, strides, dilations)
    around = pads_of(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    extra, counts = [0] * rank, [0] * rank
    for i, n in enumerate(x.shape[2:]):
        whole = n + around[i] + around[i + rank]
        span = (kernel[i] - 1) * dilations[i] + 1
        over = whole - span
        count = 1 + (-(-over // strides[i]) if ceil_mode or over < 0 else over // strides[i])
        if ceil_mode and (count - 1) * strides[i] >= n + around[i]:  # a window outside is none
            count -= 1
        counts[i] = max(0, count)
        extra[i] = max(0, (counts[i] - 1) * strides[i] + span - whole)
    return Window(strides, dilations, around, extra, counts)


def _windows(x: T, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> T:
    """A view with an axis of windows and one of places for each: [n, c, out.., kernel..]."""
    rank = len(kernel)
    for i in range(rank):
        span = (kernel[i] - 1) * dilations[i] + 1
        x = x.unfold(2 + i, span, strides[i])[..., ::dilations[i]]
    return x


@operator("MaxPool")
def max_pool(x: T, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
             dilations: Ints = None, pads: Ints = None, storage_order: int = 0,
             strides: Ints = None, outputs: int = 1) -> tuple[T, ...]:
    """The greatest element of each window, and its place in the whole array."""
    window = _window(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    if 0 in window.counts:
        empty = x.new_zeros((*x.shape[:2], *window.counts))
        return (empty, empty.long())[:outputs]
    steps, spread = window.strides, window.dilations
    rank = len(kernel_shape)
    least = x.dtype.min
    wide = padded(x, window.pads, value=least)
    if rank <= 3 and x.is_floating_point() and outputs == 1:
        function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
        return (function(wide, tuple(kernel_shape), tuple(steps), dilation=tuple(spread)),)
    views = _windows(wide, kernel_shape, steps, spread)
    flat = views.reshape(*views.shape[:2 + rank], math.prod(kernel_shape))
    if outputs == 1:
        return (flat.amax(-1),)
    sides = list(zip(window.pads[:rank], window.pads[rank:], strict=True))
    inner = _places(tuple(x.shape[2:]), sides, storage_order)
    table = lt.tensor(_views(inner, kernel_shape, steps, spread), device=x.device)
    channel = lt.arange(x.shape[0] * x.shape[1], device=x.device) * math.prod(x.shape[2:])
    chosen = table.expand(flat.shape).gather(-1, flat.argmax(-1, keepdim=True)).squeeze(-1)
    return flat.amax(-1), chosen + channel.reshape(*x.shape[:2], *[1] * rank)


def _places(shape: tuple[int, ...], around: list[tuple[int, int]], storage_order: int) -> Array:
    """The flat position of each element, padded; with storage_order 1 axes count backwards."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    if storage_order:
        numbers = np.arange(math.prod(shape)).reshape(shape[::-1]).transpose()
    return np.pad(numbers, around)


def _views(numbers: Array, kernel: Sequence[int], strides: Sequence[int],
           dilations: Sequence[int]) -> Array:
    """Windows of an array: [out.., places of the window in one axis]."""
    rank = numbers.ndim
    for i in range(rank):
        span = (kernel[i] - 1) * dilations[i] + 1
        numbers = np.lib.stride_tricks.sliding_window_view(numbers, span, axis=i)
        cut = [slice(None)] * numbers.ndim
        cut[i], cut[-1] = slice(None, None, strides[i]), slice(None, None, dilations[i])
        numbers = numbers[tuple(cut)]
    return numbers.reshape(*numbers.shape[:rank], -1)


@operator("AveragePool")
def average_pool(x: T, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
                 count_include_pad: int = 0, dilations: Ints = None, pads: Ints = None,
                 strides: Ints = None) -> T:
    """The mean of each window, with or without what was padded."""
    total, count = pooled_sums(x, kernel_shape, auto_pad, ceil_mode, count_include_pad,
                                dilations, pads, strides)
    return (total / count.clamp(min=1)).to(x.dtype)  # 0 for a window of pads alone


def pooled_sums(x: T, kernel: list[int], auto_pad: str, ceil_mode: int, count_include_pad: int,
                 dilations: Ints, pads: Ints, strides: Ints) -> tuple[T, T]:
    """Sums over windows, and how many elements each has."""
    window = _window(x, kernel, auto_pad, pads, strides, dilations, ceil_mode)
    rank = len(kernel)
    if 0 in window.counts:
        empty = x.new_zeros((*x.shape[:2], *window.counts))
        return empty, empty
    ones = lt.tensor(np.ones((1, 1, *x.shape[2:]), np.float32), device=x.device).to(x.dtype)
    if count_include_pad:
        ones = padded(lt.ones_like(padded(ones, window.around)), [0] * rank + window.extra)
    else:
        ones = padded(ones, window.pads)
    wide = padded(x, window.pads)
    axes = tuple(range(-rank, 0))
    sums = [_windows(y, kernel, window.strides, window.dilations).sum(axes) for y in (wide, ones)]
    return sums[0], sums[1]


@operator("LpPool")
def lp_pool(x: T, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
            dilations: Ints = None, p: int = 2, pads: Ints = None, strides: Ints = None) -> T:
    """The p-norm of each window."""
    total, _ = pooled_sums(x.abs() ** p, kernel_shape, auto_pad, ceil_mode, 0, dilations, pads,
                            strides)
    return total ** (1 / p)


def _spatial(x: T) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(x: T) -> T:
    """The mean over all axes but the first two."""
    return x.mean(_spatial(x), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: T) -> T:
    """The greatest over all axes but the first two."""
    return x.amax(_spatial(x), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: T, *, p: int = 2) -> T:
    """The p-norm over all axes but the first two."""
    return (x.abs() ** p).sum(_spatial(x), keepdim=True) ** (1 / p)


@operator("MaxUnpool", host="output_shape")
def max_unpool(x: T, places: T, output_shape: Array | None = None, *, kernel_shape: list[int],
               pads: Ints = None, strides: Ints = None) -> T:
    """Elements at the places where MaxPool found them, and 0 elsewhere."""
    rank = len(kernel_shape)
    steps, around = strides or [1] * rank, pads or [0] * 2 * rank
    natural = [*x.shape[:2], *((n - 1) * s + k - a - b for n, s, k, a, b in zip(
        x.shape[2:], steps, kernel_shape, around[:rank], around[rank:], strict=True))]
    sizes = natural if output_shape is None else output_shape.tolist()
    check_size(sizes, "unpool")
    flat = lt.zeros(math.prod(natural), dtype=x.dtype, device=x.device)
    found = flat.scatter(0, places.reshape(-1), x.reshape(-1)).reshape(natural)
    return padded(found, [0] * rank + [m - n for m, n in zip(sizes[2:], natural[2:], strict=True)])


@operator("Col2Im", host="image_shape block_shape")
def col2im(x: T, image_shape: Array, block_shape: Array, *, dilations: Ints = None,
           pads: Ints = None, strides: Ints = None) -> T:
    """Blocks, as columns, added up to an image."""
    image, block = image_shape.tolist(), block_shape.tolist()
    rank = len(image)
    steps, spread, around = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    wide = [n + a + b for n, a, b in zip(image, around[:rank], around[rank:], strict=True)]
    numbers = np.arange(math.prod(check_size(wide, "image"))).reshape(wide)
    views = _views(numbers, block, steps, spread)
    places = lt.tensor(np.moveaxis(views, -1, 0).ravel(), device=x.device)
    n, channels = x.shape[0], x.shape[1] // math.prod(block)
    columns = x.reshape(n, channels, -1)
    flat = lt.zeros((n, channels, math.prod(wide)), dtype=x.dtype, device=x.device)
    found = flat.scatter_add(2, places.expand(columns.shape), columns)
    return padded(found.reshape(n, channels, *wide), [-p for p in around])
