"""Spectra of the parts of a signal one after another, and back: `lt.stft` and `lt.istft`."""
from __future__ import annotations

from typing import Any

from lazyten.fft.transforms import fft, ifft, irfft, rfft
from lazyten.frontend.complexes.making import complex, view_as_real
from lazyten.frontend.functions import ones
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functions.padding import pad
from lazyten.nn.functions.spatial.patches import fold
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError


def stft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
         normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None, align_to_window: bool | None = None) -> Tensor:
    """The spectra of parts of n_fft numbers of the last axis, one every hop_length (n_fft // 4),
    times the window: (.., frequencies, parts).

    window: of win_length (n_fft) numbers, with 0 around them if these are fewer; ones if None.
    center: n_fft // 2 numbers are added at both ends, as pad_mode says. normalized: divided by the
    root of n_fft. onesided: only the frequencies from 0 on, unless numbers are complex.
    return_complex=False gives pairs of numbers, as view_as_real does."""
    shape, (size, hop) = _signal(input).shape, _sizes(n_fft, hop_length, "stft")
    if align_to_window is not None:
        raise ArgumentError("stft: align_to_window is not there; pad the signal yourself, and give "
                            "center=False")
    if return_complex is None and not input.dtype.is_complex and not (
            window is not None and window.dtype.is_complex):
        raise ArgumentError("stft: say return_complex=True; False, for pairs of real numbers, was "
                            "the default long ago")
    weights = _window(window, win_length, size, input, "stft")
    x = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        x = _padded(x, size // 2, pad_mode)
    if x.shape[-1] < size:
        raise ShapeError(f"stft of shape {shape}: n_fft={n_fft} is more than the {x.shape[-1]} "
                         f"numbers of the signal")
    parts = x.unfold(-1, size, hop) * weights
    norm = "ortho" if normalized else None
    half = not parts.dtype.is_complex if onesided is None else onesided
    spectra = (rfft if half else fft)(parts, norm=norm).transpose(-1, -2)
    spectra = spectra if input.ndim == 2 else spectra.squeeze(0)
    if return_complex is False:
        pairs: Any = spectra
        return view_as_real(pairs)
    return spectra


def istft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False,
          onesided: bool | None = None, length: int | None = None,
          return_complex: bool = False) -> Tensor:
    """The signal that stft gives these spectra for, with the same options: what parts have in
    common is averaged, weighted by the window. length: of the signal; what is missing is 0."""
    size, hop = _sizes(n_fft, hop_length, "istft")
    if not isinstance(input, Tensor) or not input.dtype.is_complex:
        raise DTypeError("istft: the spectra are complex; use view_as_complex for pairs")
    if input.ndim not in (2, 3):
        raise ShapeError(f"istft of shape {input.shape}: give (frequencies, parts), or a batch of "
                         f"such")
    half = input.shape[-2] != size if onesided is None else onesided
    wanted = size // 2 + 1 if half else size
    if input.shape[-2] != wanted:
        raise ShapeError(f"istft of shape {input.shape} with n_fft={size}: there are "
                         f"{input.shape[-2]} frequencies, and {wanted} are expected")
    if half and return_complex:
        raise ArgumentError("istft: half of a spectrum is that of real numbers; leave out "
                            "onesided=True or return_complex=True")
    weights = _window(window, win_length, size, input, "istft")
    x = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(-1, -2)
    norm = "ortho" if normalized else None
    parts = ifft(x, norm=norm) if return_complex else irfft(x, size, norm=norm)
    total = size + hop * (parts.shape[-2] - 1)
    signal: Any = _added(parts * weights, total, hop)
    common = _added((weights * weights).expand(1, parts.shape[-2], size), total, hop)
    start = size // 2 if center else 0
    end = total - size // 2 if center else total
    if length is not None:
        end = start + length
    signal = signal[:, start:end] / common[:, start:end]  # elsewhere windows may come to 0
    if length is not None and signal.shape[-1] < length:
        signal = signal.pad((0, length - signal.shape[-1]))
    found: Tensor = signal if input.ndim == 3 else signal.squeeze(0)
    return found


def _added(parts: Any, total: int, hop: int) -> Tensor:
    """Parts (batch, parts, numbers) where they were in a signal of `total` numbers, added up."""
    if parts.dtype.is_complex:
        return complex(_added(parts.real, total, hop), _added(parts.imag, total, hop))
    batch, _, size = parts.shape
    found: Tensor = fold(parts.transpose(1, 2), (1, total), (1, size), stride=(1, hop))
    return found.reshape(batch, total)


def _signal(x: object) -> Tensor:
    if not isinstance(x, Tensor) or x.ndim not in (1, 2):
        shown = f"shape {x.shape}" if isinstance(x, Tensor) else type(x).__name__
        raise ShapeError(f"stft of {shown}: give a tensor of one axis, or a batch of signals, two")
    return x


def _sizes(n_fft: int, hop_length: int | None, operation: str) -> tuple[int, int]:
    size = shapes.as_int(n_fft, operation, "n_fft")
    hop = size // 4 if hop_length is None else shapes.as_int(hop_length, operation, "hop_length")
    if size < 1 or hop < 1:
        raise ArgumentError(f"{operation}: n_fft={size}, hop_length={hop}; both are 1 or more")
    return size, hop


def _window(window: Tensor | None, win_length: int | None, size: int, like: Tensor,
            operation: str) -> Tensor:
    """The window, with 0 around it up to n_fft numbers."""
    width = size if win_length is None else shapes.as_int(win_length, operation, "win_length")
    if not 0 < width <= size:
        raise ArgumentError(f"{operation}: win_length={width}; it is 1 to n_fft={size}")
    if window is None:
        window = ones(width, dtype=like.dtype.component, device=like.device)
    if window.shape != (width,):
        raise ShapeError(f"{operation}: the window has shape {window.shape}, and win_length is "
                         f"{width}; give as many numbers")
    before = (size - width) // 2
    return window if width == size else window.pad((before, size - width - before))


def _padded(x: Tensor, count: int, mode: str) -> Tensor:
    """More numbers at both ends of the last axis of (batch, numbers)."""
    if mode == "constant" or not count:
        return x.pad((count, count))
    return pad(x.unsqueeze(1), (count, count), mode).squeeze(1)
