"""Operators that the standard took back, or had later: onnxruntime has them in all opsets, and
converters of those days (of Core ML, Keras, Caffe) wrote them."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.operators.normalization import mean_variance_normalization
from lazyten.onnx.table import operator
from lazyten.support.errors import ShapeError

T = lt.Tensor


@operator("Affine", gives=1)
def affine(x: T, *, alpha: float, beta: float) -> T:
    """alpha x + beta."""
    return x * alpha + beta


@operator("Scale", gives=1)
def scaled(x: T, *, scale: float) -> T:
    """x times a number."""
    return x * scale


@operator("ImageScaler", gives=1)
def image_scaler(x: T, *, bias: list[float], scale: float) -> T:
    """x times a number, and a bias for each channel."""
    if len(bias) != x.shape[1]:
        raise ShapeError(f"{len(bias)} biases for an image of shape {tuple(x.shape)}: one a "
                         f"channel")
    return x * scale + lt.tensor(bias, device=x.device).to(x.dtype).reshape(-1, 1, 1)


@operator("Crop", gives=1)
def crop(x: T, *, border: list[int], scale: list[int] | None = None) -> T:
    """Images without so many pixels at the left, top, right and bottom; or, with a scale, of so
    many rows and columns from the left and top on."""
    if len(border) != 4 or x.ndim != 4 or scale is not None and len(scale) != 2:
        raise ShapeError(f"a border {border} and a scale {scale} of {tuple(x.shape)}: four and two "
                         f"numbers, and four axes")
    left, top, right, bottom = border
    rows, columns = scale or [x.shape[2] - top - bottom, x.shape[3] - left - right]
    if min(left, top, rows, columns) < 0 or top + rows > x.shape[2] \
            or left + columns > x.shape[3]:
        raise ShapeError(f"{rows} x {columns} pixels from {top}, {left} on are not in "
                         f"{tuple(x.shape)}")
    return x.narrow(2, top, rows).narrow(3, left, columns)


@operator("ParametricSoftplus", gives=1)
def parametric_softplus(x: T, *, alpha: float, beta: float) -> T:
    """alpha log(1 + exp(beta x))."""
    return lt.logaddexp(x * beta, lt.zeros_like(x)) * alpha


@operator("ScaledTanh", gives=1)
def scaled_tanh(x: T, *, alpha: float, beta: float) -> T:
    """alpha tanh(beta x)."""
    return (x * beta).tanh() * alpha


@operator("ThresholdedRelu", gives=1)
def thresholded(x: T, *, alpha: float = 1.0) -> T:
    """x where it is above alpha, else 0, before opset 10."""
    found: T = lt.where(x > alpha, x, 0)
    return found


@operator("MeanVarianceNormalization", gives=1)
def of_no_mean(x: T, *, across_channels: int = 0, normalize_variance: int = 1) -> T:
    """Of mean 0 and variance 1, each channel or all together, before opset 9."""
    axes = [0, 1, 2, 3] if across_channels else [0, 2, 3]
    if not normalize_variance:
        return x - x.mean(axes, keepdim=True)
    return mean_variance_normalization(x, axes=axes)  # type: ignore[no-any-return]
