"""Operators on images: padding, resizing, sampling, regions and boxes."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import lazyten as lt
from lazyten.onnx.operators.resizing import matrices, sizes_of
from lazyten.onnx.operators.windows import Ints
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
F = lt.nn.functional


def _positions(mode: str, length: int, before: int, behind: int) -> Array:
    """Which element stands at each place of a padded axis."""
    places = np.arange(-max(before, 0) + max(-before, 0), length + behind)
    if mode == "edge":
        return places.clip(0, length - 1)
    if mode == "wrap":  # round what is left of it
        first, left = max(-before, 0), length - max(-before, 0) - max(-behind, 0)
        return first + (places - first) % left
    if mode != "reflect":
        raise ArgumentError(f"mode {mode!r}: constant, edge, reflect and wrap are the ones there "
                            f"are")
    if length == 1:
        return np.zeros_like(places)
    places = places % (2 * length - 2)
    return np.minimum(places, 2 * length - 2 - places)


def _pad(data: T, pads: Sequence[int], value: T | float, axes: Sequence[int], mode: str) -> T:
    count = len(axes)
    if len(pads) != 2 * count:
        raise ShapeError(f"pads {list(pads)} of {count} axes: two numbers an axis")
    around = {axis % data.ndim: (pads[i], pads[i + count]) for i, axis in enumerate(axes)}
    check_size([n + sum(around.get(axis, ())) for axis, n in enumerate(data.shape)], "pad")
    if mode != "constant":
        for axis, (before, after) in around.items():
            index = _positions(mode, data.shape[axis], before, after)
            data = data.index_select(axis, lt.tensor(index, device=data.device))
        return data
    flat = [n for i in reversed(range(data.ndim)) for n in around.get(i, (0, 0))]
    if not isinstance(value, lt.Tensor):
        return F.pad(data, flat, value=value)
    inside = F.pad(lt.ones(data.shape, dtype=lt.bool_, device=data.device), flat)
    found: T = lt.where(inside, F.pad(data, flat), value.reshape(()).to(data.dtype))
    return found


@operator("Pad", since=11, host="pads axes")
def pad(data: T, pads: Array, value: T | None = None, axes: Array | None = None, *,
        mode: str = "constant") -> T:
    """More, or less, before and behind axes."""
    chosen = range(data.ndim) if axes is None else axes.tolist()
    return _pad(data, pads.tolist(), 0 if value is None else value, chosen, mode)


@operator("Pad", since=2)
def pad_2(data: T, *, pads: list[int], mode: str = "constant", value: float = 0.0) -> T:
    """More, or less, before and behind axes."""
    return _pad(data, pads, value, range(data.ndim), mode)


def _picked(x: T, axis: int, places: Array) -> T:
    """Elements at places along an axis: without a table where each comes equally often."""
    times, rest = divmod(len(places), max(x.shape[axis], 1))
    if rest or not np.array_equal(places, np.arange(len(places)) // times):
        return x.index_select(axis, lt.tensor(places, device=x.device))
    wide = [*x.shape[:axis + 1], times, *x.shape[axis + 1:]]
    return x.unsqueeze(axis + 1).expand(wide).flatten(axis, axis + 1)


@operator("Resize", since=11, host="roi scales sizes")
def resize(x: T, roi: Array | None = None, scales: Array | None = None,
           sizes: Array | None = None, *, antialias: int = 0, axes: Ints = None,
           coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
           exclude_outside: int = 0, extrapolation_value: float = 0.0,
           keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
           nearest_mode: str = "round_prefer_floor") -> T:
    """Larger or smaller along axes: each axis is multiplied by a matrix of weights, in 32 bits at
    least. The standard does not say how whole numbers are rounded; as in onnxruntime their fraction
    goes, once all axes are done, or with antialias each axis is rounded, the last one first."""
    dtype = x.dtype
    chosen = [axis % x.ndim for axis in (range(x.ndim) if axes is None else axes)]
    plan = sizes_of(tuple(x.shape), chosen, scales, sizes, keep_aspect_ratio_policy)
    regions = None if roi is None or not roi.size else roi.reshape(2, -1).T.tolist()
    outside: T | None = None
    for i, (axis, (scale, new)) in reversed([*enumerate(zip(chosen, plan, strict=True))]):
        start, end = regions[i] if regions else (0.0, 1.0)
        found = matrices(x.shape[axis], new, scale, mode, coordinate_transformation_mode,
                         nearest_mode, cubic_coeff_a, exclude_outside, antialias, (start, end))
        if isinstance(found[0], np.ndarray) and found[0].ndim == 1:
            x = _picked(x, axis, found[0])
        elif found[0] is not None:
            wide = lt.float64 if dtype is lt.float64 else lt.float32
            weights = lt.tensor(found[0].astype(np.float32), device=x.device).to(wide)
            x = (x.movedim(axis, -1).to(wide) @ weights.mT).movedim(-1, axis)
            if antialias and not dtype.is_floating_point:
                x = (x + 0.5).floor().clamp(dtype.min, dtype.max)
        if coordinate_transformation_mode == "tf_crop_and_resize":
            beyond = lt.tensor(found[1], device=x.device).reshape(
                [-1 if j == axis else 1 for j in range(x.ndim)])
            outside = beyond if outside is None else outside | beyond
    return (x if outside is None else lt.where(outside, extrapolation_value, x)).to(dtype)


@operator("Resize", since=10, host="scales")
def resize_10(x: T, scales: Array, *, mode: str = "nearest") -> T:
    """Larger or smaller along axes, of pixels that begin where they are counted; of the nearest
    ones the one before, or behind where an axis gets smaller."""
    return resize(x, None, scales, mode=mode, nearest_mode="",  # type: ignore[no-any-return]
                  coordinate_transformation_mode="asymmetric")


@operator("Upsample", since=9, host="scales")
def upsample(x: T, scales: Array, *, mode: str = "nearest") -> T:
    """Larger along axes."""
    return resize_10(x, scales, mode=mode)  # type: ignore[no-any-return]


@operator("Upsample", since=7)
def upsample_7(x: T, *, scales: list[float], mode: str = "nearest") -> T:
    """Larger along axes."""
    return resize_10(x, np.array(scales, np.float32), mode=mode)  # type: ignore[no-any-return]


GRID_MODES = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest",
              "bilinear": "bilinear", "bicubic": "bicubic"}


@operator("GridSample")
def grid_sample(x: T, grid: T, *, align_corners: int = 0, mode: str = "linear",
                padding_mode: str = "zeros") -> T:
    """x at positions, each between -1 and 1."""
    if mode not in GRID_MODES:
        raise ArgumentError(f"mode {mode!r}: {sorted(GRID_MODES)} are there")
    return F.grid_sample(x, grid, GRID_MODES[mode], padding_mode, bool(align_corners))


@operator("AffineGrid", host="size")
def affine_grid(theta: T, size: Array, *, align_corners: int = 0) -> T:
    """Positions of an image's pixels, moved by matrices."""
    return F.affine_grid(theta, check_size(size, "grid"), bool(align_corners))


class _Spans(NamedTuple):
    """Where boxes lie along an axis of `size` elements, in so many bins each; each: samples of a
    bin, of every box."""

    start: Array
    extent: Array
    each: Array
    bins: int
    size: int

    def of(self, boxes: Array) -> _Spans:
        """Those of some boxes."""
        return self._replace(start=self.start[boxes], extent=self.extent[boxes],
                             each=self.each[boxes])


def _spans(start: Array, end: Array, least: float, bins: int, size: int, ratio: int) -> _Spans:
    """ratio: samples of a bin, 0 for one a pixel."""
    extent = (end - start).clip(least)
    each = np.full(len(start), ratio) if ratio > 0 else np.ceil(extent / bins).clip(0)
    return _Spans(start, extent, each.astype(np.int64), bins, size)


def _samples(spans: _Spans) -> tuple[Array, Array]:
    """Which elements the samples of each bin lie between, and the weights of these, 0 for samples
    outside by more than a pixel: [box, bin, neighbour]. Weights of samples that a box lacks, where
    another has more, are NaN."""
    bins, size, most = spans.bins, spans.size, int(spans.each.max(initial=0))
    check_size([len(spans.start), bins, most, 2], "samples")
    sample, each = np.arange(most), spans.each[:, None, None]
    inside_bin = np.arange(bins)[:, None] * each + sample + 0.5
    places = (spans.start[:, None, None] + inside_bin * spans.extent[:, None, None]
              / np.maximum(bins * each, 1)).astype(np.float32)
    at = places.clip(0, size - 1)
    before = np.floor(at).astype(np.int64)
    inside = np.where(sample < each, (places >= -1) & (places <= size), np.nan)
    weights = np.stack([1 - (at - before), at - before], -1) * inside[..., None]
    neighbours = np.stack([before, np.minimum(before + 1, size - 1)], -1)
    shape = len(spans.start), bins, 2 * most
    return neighbours.reshape(shape), weights.astype(np.float32).reshape(shape)


def _sampled(x: T, batches: Array, rows: tuple[Array, Array], columns: tuple[Array, Array],
             mode: str) -> T:
    """The mean of the samples of each bin, or the greatest of their weighted neighbours, as the
    standard has it; 0 for a bin of none. Each sample has four neighbours."""
    if not rows[0].size * columns[0].size:
        return x.new_zeros((len(batches), x.shape[1], rows[0].shape[1], columns[0].shape[1]))
    check_size([rows[0].size, *columns[0].shape[1:], x.shape[1]], "samples")
    table = x.movedim(1, -1).reshape(-1, x.shape[1])

    def across(values: Array) -> T:
        return lt.tensor(values, device=x.device)[:, None, None]

    def along(values: Array) -> T:
        return lt.tensor(values, device=x.device)[:, :, :, None, None]
    first = batches.reshape(-1, 1, 1) * x.shape[2]
    at = along((first + rows[0]) * x.shape[3]) + across(columns[0])
    weights = along(rows[1]) * across(columns[1])
    there, found = ~weights.isnan(), table.index_select(0, at.reshape(-1)).reshape(*at.shape, -1)
    values = found * lt.where(there, weights, 0.0).to(x.dtype).unsqueeze(-1)
    count = there.sum((2, 4)).unsqueeze(-1)
    if mode == "avg":
        result = values.sum((2, 4)) / (count / 4).clamp(min=1)
    else:
        best = lt.where(there.unsqueeze(-1), values, x.dtype.min).amax((2, 4))
        result = lt.where(count > 0, best, 0)
    bins: T = result.to(x.dtype).movedim(-1, 1)
    return bins


@operator("RoiAlign", since=16, host="rois batch_indices")
def roi_align(x: T, rois: Array, batch_indices: Array, *, mode: str = "avg",
              coordinate_transformation_mode: str = "half_pixel", output_height: int = 1,
              output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0) -> T:
    """Means (or extremes) of samples in each of some boxes, [box, channel, height, width]."""
    sizes = check_size([len(rois), x.shape[1], output_height, output_width], "bins")
    half, count = coordinate_transformation_mode == "half_pixel", x.shape[0]
    if not np.isfinite(rois).all() or ((batch_indices < -count) | (batch_indices >= count)).any():
        raise ArgumentError(f"boxes with infinite sides or none, or of other images than "
                            f"the {count} that there are")
    x1, y1, x2, y2 = (rois.astype(np.float64) * spatial_scale - (0.5 if half else 0.0)).T
    least = -math.inf if half else 1.0
    rows = _spans(y1, y2, least, output_height, x.shape[2], sampling_ratio)
    columns = _spans(x1, x2, least, output_width, x.shape[3], sampling_ratio)
    # Boxes of nearly as many samples are done at once: one that is large has many.
    most = np.ceil(np.log2(np.maximum(rows.each, columns.each).clip(1)))
    groups = [np.flatnonzero(most == n) for n in np.unique(most)]
    parts = [_sampled(x, batch_indices[boxes], _samples(rows.of(boxes)),
                      _samples(columns.of(boxes)), mode) for boxes in groups]
    if len(parts) < 2:
        return parts[0] if parts else x.new_zeros(sizes)
    order = np.argsort(np.concatenate(groups))
    return lt.cat(parts).index_select(0, lt.tensor(order, device=x.device))


@operator("RoiAlign", host="rois batch_indices")
def roi_align_10(x: T, rois: Array, batch_indices: Array, *, mode: str = "avg",
                 output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
                 spatial_scale: float = 1.0) -> T:
    """The same, where the middle of the first pixel is 0."""
    return roi_align(x, rois, batch_indices, mode=mode,  # type: ignore[no-any-return]
                     coordinate_transformation_mode="output_half_pixel",
                     output_height=output_height, output_width=output_width,
                     sampling_ratio=sampling_ratio, spatial_scale=spatial_scale)


@operator("MaxRoiPool", host="rois")
def max_roi_pool(x: T, rois: Array, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> T:
    """The greatest element of each bin of some boxes."""
    check_size([len(rois), x.shape[1], *pooled_shape], "bins")
    found = []
    for box in rois:
        batch, x1, y1, x2, y2 = (int(box[0]), *(math.floor(float(v) * spatial_scale + 0.5)
                                                for v in box[1:]))
        rows, columns = (
            [(start + math.floor(i * size / count), start + math.ceil((i + 1) * size / count))
             for i in range(count)]
            for start, size, count in ((y1, max(y2 - y1 + 1, 1), pooled_shape[0]),
                                       (x1, max(x2 - x1 + 1, 1), pooled_shape[1])))
        image = x[batch]
        bins = [image[:, max(a, 0):max(b, 0), max(c, 0):max(d, 0)] for a, b in rows
                for c, d in columns]
        best = [part.amax((1, 2)) if part.numel() else image.new_zeros(image.shape[0])
                for part in bins]
        found.append(lt.stack(best, 1).reshape(-1, *pooled_shape))
    return lt.stack(found)


@operator("NonMaxSuppression", eager=True, host="*")
def non_max_suppression(boxes: Array, scores: Array, count: Array | None = None,
                        iou_threshold: Array | None = None, score_threshold: Array | None = None,
                        *, center_point_box: int = 0) -> Array:
    """Boxes by falling score, without those that cover a better one's place: rows of batch,
    class and box."""
    most = 0 if count is None else int(count.item())
    limit = 0.0 if iou_threshold is None else float(iou_threshold.item())
    if center_point_box:
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        low, high = centre - half, centre + half
    else:
        low = np.minimum(boxes[..., :2], boxes[..., 2:])
        high = np.maximum(boxes[..., :2], boxes[..., 2:])
    area = (high - low).prod(-1)
    rows: list[tuple[int, int, int]] = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        score = scores[batch, kind]
        good = np.arange(len(score)) if score_threshold is None else \
            np.flatnonzero(score > float(score_threshold.item()))
        order = good[np.argsort(-score[good], kind="stable")]
        taken: list[int] = []
        while len(order) and len(taken) < most:
            best, order = int(order[0]), order[1:]
            taken.append(best)
            side = (np.minimum(high[batch, best], high[batch, order])
                    - np.maximum(low[batch, best], low[batch, order])).clip(0)
            common = side.prod(-1)
            union = area[batch, best] + area[batch, order] - common
            order = order[~(common > limit * union)]
        rows += [(batch, kind, box) for box in taken]
    return np.array(rows, np.int64).reshape(-1, 3)


def _bilinear(images: T, rows: T, columns: T, height: int, width: int) -> T:
    """Images [n, channels, height * width] at places [n, 1, m] between pixels, 0 outside."""
    top, left = rows.floor(), columns.floor()
    found: T | None = None
    for down in (0, 1):
        for right in (0, 1):
            i, j = top + down, left + right
            weight = (1 - (rows - i).abs()) * (1 - (columns - j).abs())
            inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            at = (i.clamp(0, height - 1) * width + j.clamp(0, width - 1)).to(lt.int64)
            part = images.gather(2, at.expand(-1, images.shape[1], -1)) * lt.where(
                inside, weight, 0.0)
            found = part if found is None else found + part
    assert found is not None
    return found


@operator("DeformConv")
def deform_conv(x: T, w: T, offset: T, b: T | None = None, mask: T | None = None, *,
                dilations: Ints = None, group: int = 1, kernel_shape: Ints = None,
                offset_group: int = 1, pads: Ints = None, strides: Ints = None) -> T:
    """A convolution whose window's places are moved by offsets, and weighted by a mask."""
    n, channels, height, width = x.shape
    kh, kw = w.shape[2:]
    steps, spread, around = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    oh, ow = offset.shape[2:]
    base = np.empty((kh * kw, 2, oh, ow), np.float32)
    for k, (i, j) in enumerate(np.ndindex(kh, kw)):
        base[k, 0] = (np.arange(oh) * steps[0] - around[0] + i * spread[0])[:, None]
        base[k, 1] = np.arange(ow) * steps[1] - around[1] + j * spread[1]
    places = offset.reshape(n, offset_group, kh * kw, 2, oh, ow) + lt.tensor(
        base, device=x.device).to(x.dtype)
    images = x.reshape(n * offset_group, channels // offset_group, height * width)
    flat = places.permute(0, 1, 3, 2, 4, 5).reshape(n * offset_group, 2, 1, -1)
    seen = _bilinear(images, flat[:, 0], flat[:, 1], height, width).reshape(
        n, offset_group, channels // offset_group, kh * kw, oh, ow)
    if mask is not None:
        seen = seen * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    columns = seen.reshape(n, group, channels // group * kh * kw, oh * ow)
    found = (w.reshape(group, w.shape[0] // group, -1) @ columns).reshape(n, w.shape[0], oh, ow)
    return found if b is None else found + b.reshape(-1, 1, 1)
