"""Spectra of signals, by products with tables of sines and cosines."""
from __future__ import annotations

import math

import numpy as np

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.tensors import numpy_type
from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ShapeError

T = lt.Tensor


def _tables(count: int, length: int, like: T, inverse: bool) -> tuple[T, T]:
    """Cosines and sines [length, count] of a transform of `length` numbers; in double precision,
    of angles that are reduced as integers."""
    check_size([count, length], "a table of a Fourier transform")
    turns = (np.arange(length)[:, None] * np.arange(count)) % length / length
    angle = (2 if inverse else -2) * np.pi * turns
    return tuple(lt.tensor(f(angle), device=like.device).to(like.dtype)  # type: ignore[return-value]
                 for f in (np.cos, np.sin))


def _transform(x: T, inverse: bool, onesided: bool, length: int) -> T:
    """The Fourier transform along the axis before the last; the last has one or two parts."""
    now = x.shape[-2]
    if now > length:
        x = x.narrow(-2, 0, length)
    elif now < length:
        x = lt.nn.functional.pad(x, (0, 0, 0, length - now))
    count = length // 2 + 1 if onesided and not inverse else length
    if onesided and inverse and now <= length // 2 + 1:
        return _real_inverse(x.narrow(-2, 0, now), length)
    cos, sin = _tables(count, length, x, inverse)
    parts = x.mT
    real = parts[..., 0, :] @ cos
    imaginary = parts[..., 0, :] @ sin
    if x.shape[-1] == 2:
        real = real - parts[..., 1, :] @ sin
        imaginary = imaginary + parts[..., 1, :] @ cos
    found = lt.stack([real, imaginary], -1)
    return found / length if inverse else found


def _real_inverse(x: T, length: int) -> T:
    """The inverse of a spectrum of which only the first half is there: real numbers."""
    half = x.shape[-2]
    turns = (np.arange(half)[:, None] * np.arange(length)) % length / length
    factor = np.where((np.arange(half) == 0) | (2 * np.arange(half) == length), 1.0, 2.0)[:, None]
    tables = [lt.tensor(f(2 * np.pi * turns) * factor, device=x.device).to(x.dtype)
              for f in (np.cos, np.sin)]
    return ((x[..., 0] @ tables[0] - x[..., 1] @ tables[1]) / length).unsqueeze(-1)


def _dft(x: T, length: Array | None, axis: int, inverse: int, onesided: int) -> T:
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise ShapeError(f"a transform of shape {tuple(x.shape)}: the last axis has the real part, "
                         f"and the imaginary one if there is one")
    if axis % x.ndim == x.ndim - 1:
        raise ShapeError("a transform along the axis of the parts")
    given = x.shape[axis]
    whole = 2 * (given - 1) if onesided and inverse else given
    count = whole if length is None else int(length.item())
    moved = x.movedim(axis, -2)
    return _transform(moved, bool(inverse), bool(onesided), count).movedim(-2, axis)


@operator("DFT", since=20, host="length axis")
def dft(x: T, length: Array | None = None, axis: Array | None = None, *, inverse: int = 0,
        onesided: int = 0) -> T:
    """The discrete Fourier transform along an axis."""
    return _dft(x, length, -2 if axis is None else int(axis.item()), inverse, onesided)


@operator("DFT", host="length")
def dft_17(x: T, length: Array | None = None, *, axis: int = 1, inverse: int = 0,
           onesided: int = 0) -> T:
    """The discrete Fourier transform along an axis."""
    return _dft(x, length, axis, inverse, onesided)


@operator("STFT", host="frame_step frame_length")
def stft(x: T, frame_step: Array, window: T | None = None, frame_length: Array | None = None, *,
         onesided: int = 1) -> T:
    """Fourier transforms of frames of a signal: [batch, frames, frequencies, 2]."""
    if window is None and frame_length is None:
        raise ShapeError("it needs a window or frame_length")
    length = int(frame_length.item()) if frame_length is not None else window.shape[0]  # type: ignore[union-attr]
    signal = x if x.ndim == 3 else x.unsqueeze(-1)
    frames = signal.unfold(1, length, int(frame_step.item())).mT  # [batch, frames, length, parts]
    if window is not None:
        frames = frames * window[:, None]
    return _transform(frames, False, bool(onesided), length)


@operator("MelWeightMatrix", host="*", shapes=True)
def mel_weights(bins: Array, length: Array, rate: Array, low: Array, high: Array, *,
                output_datatype: int = 1) -> Array:
    """Weights [frequencies, bins] of triangles that are even on the mel scale."""
    count, spectrum = int(bins.item()), int(length.item()) // 2 + 1
    check_size([count, spectrum], "mel weights")
    mel = [2595 * math.log10(1 + float(f.item()) / 700) for f in (low, high)]
    edges = mel[0] + np.arange(count + 2) * ((mel[1] - mel[0]) / (count + 2))
    hertz = 700 * (10 ** (edges / 2595) - 1)
    places = ((int(length.item()) + 1) * hertz // int(rate.item())).astype(np.int64)
    found = np.zeros((spectrum, count))
    for i in range(count):
        first, middle, last = places[i:i + 3]
        if middle == first:
            found[middle, i] = 1
        else:
            found[first:middle + 1, i] = (np.arange(first, middle + 1) - first) / (middle - first)
        if last > middle:
            found[middle:last, i] = (last - np.arange(middle, last)) / (last - middle)
    return found.astype(numpy_type(output_datatype))


def _window(name: str, terms: tuple[float, ...]) -> None:
    @operator(name, host="size", shapes=True)
    def window(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
        count = int(size.item())
        check_size([count * 64], "window")
        turns = 2 * np.pi * np.arange(count) / max(1, count if periodic else count - 1)
        values = sum(term * np.cos(k * turns) for k, term in enumerate(terms))
        return np.asarray(values).astype(numpy_type(output_datatype))


_window("HannWindow", (0.5, -0.5))
_window("HammingWindow", (25 / 46, -21 / 46))
_window("BlackmanWindow", (0.42, -0.5, 0.08))
