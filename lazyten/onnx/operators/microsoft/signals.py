"""Spectra, windows along an axis, and parts of images: what exporters write for functions that the
standard lacked."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.operators.special.signals import dft_17
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
FORM = {"normalized": 0, "onesided": 1, "signal_ndim": 1}


@operator("Rfft", domain=MICROSOFT, gives=1, fixed=FORM)
def rfft(x: T) -> T:
    """The Fourier transform of real numbers along the last axis: [.., n // 2 + 1, 2]."""
    return dft_17(x.unsqueeze(-1), axis=-2, onesided=1)  # type: ignore[no-any-return]


@operator("Irfft", domain=MICROSOFT, gives=1, fixed=FORM)
def irfft(x: T) -> T:
    """The inverse of that, of an even length: [.., n]."""
    found: T = dft_17(x, axis=-2, inverse=1, onesided=1)
    return found.squeeze(-1)


def _product(a: T, b: T, sign: int) -> T:
    """A product of complex numbers, whose parts are the last axis; sign: -1 for b's conjugate."""
    real = a[..., 0] * b[..., 0] - sign * a[..., 1] * b[..., 1]
    return lt.stack([real, a[..., 1] * b[..., 0] + sign * a[..., 0] * b[..., 1]], -1)


@operator("ComplexMul", domain=MICROSOFT, gives=1)
def complex_product(a: T, b: T) -> T:
    """A product of complex numbers, whose parts are the last axis."""
    return _product(a, b, 1)


@operator("ComplexMulConj", domain=MICROSOFT, gives=1)
def complex_product_conjugate(a: T, b: T) -> T:
    """The same of a and the conjugate of b."""
    return _product(a, b, -1)


@operator("UnfoldTensor", domain=MICROSOFT, gives=1)
def unfold(x: T, *, dim: int = -1, size: int, step: int = 1) -> T:
    """Windows along an axis, whose elements become a new last axis."""
    return x.unfold(dim, size, step)


@operator("CropAndResize", domain=MICROSOFT, gives=1, host="crop_size")
def crop_and_resize(x: T, rois: T, batch_indices: T, crop_size: Array, *,
                    extrapolation_value: float = 0.0, mode: str = "bilinear") -> T:
    """Boxes of images, in shares of these, as images of one size whose corners are theirs:
    [box, channel, height, width]."""
    if mode not in ("bilinear", "nearest"):
        raise ArgumentError(f"mode {mode!r}: bilinear and nearest are the ones there are")
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 4 or crop_size.shape != (2,):
        raise ShapeError(f"boxes of shape {tuple(rois.shape)} of images of shape {tuple(x.shape)}, "
                         f"resized to {crop_size.tolist()}: they must be [boxes, 4], of "
                         f"[batch, channels, height, width], and two sizes")
    check_size([rois.shape[0], x.shape[1], *crop_size.tolist()], "boxes")
    images = x[batch_indices.to(lt.int64)]
    inside: T | None = None
    for axis, count in enumerate(crop_size.tolist()):
        last = x.shape[2 + axis] - 1
        places = _places(rois[:, axis, None] * last, rois[:, axis + 2, None] * last, count)
        images = _taken(images, places.clamp(0, last), 2 + axis, mode)
        within = ((places >= 0) & (places <= last)).unsqueeze(2 - axis)
        inside = within if inside is None else inside & within
    assert inside is not None
    found: T = lt.where(inside[:, None], images, extrapolation_value)
    return found


def _places(first: T, last: T, count: int) -> T:
    """Places from the first to the last of each box, or their middle if it is one: [box, count]."""
    if count == 1:
        return (first + last) * 0.5
    number = lt.arange(count, device=first.device)
    found: T = lt.where(number == count - 1, last,
                        first + number * ((last - first) / (count - 1)))
    return found


def _taken(x: T, places: T, axis: int, mode: str) -> T:
    """Elements at the places of each box along an axis, or between two of them."""
    def along(boxes: T) -> T:
        """[box, place] with the axes of images."""
        shape = [1, 1, 1, 1]
        shape[0], shape[axis] = boxes.shape
        return boxes.reshape(shape)

    def at(index: T) -> T:
        wide = [index.shape[1] if i == axis else n for i, n in enumerate(x.shape)]
        found: T = x.gather(axis, along(index.to(lt.int64)).expand(wide))
        return found
    if mode == "nearest":
        return at((places + 0.5).floor())
    before = at(places.floor())
    found: T = before + (at(places.ceil()) - before) * along(places - places.floor())
    return found
