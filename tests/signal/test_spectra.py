"""Spectra of parts of a signal: their values, and the way back."""
from __future__ import annotations

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

OPTIONS = ({"n_fft": 16}, {"n_fft": 16, "hop_length": 5}, {"n_fft": 15, "win_length": 10},
           {"n_fft": 16, "center": False}, {"n_fft": 16, "normalized": True},
           {"n_fft": 16, "onesided": False})


def signal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """A signal of noise."""
    return np.random.default_rng(0).standard_normal(shape)


def test_each_column_is_the_transform_of_a_part(device: str) -> None:
    x, window = signal(100), np.hanning(20)
    found = lt.stft(lt.tensor(x, device=device), 20, 7, window=lt.tensor(window, device=device),
                    center=False, return_complex=True)
    wanted = np.stack([np.fft.rfft(x[i:i + 20] * window) for i in range(0, 81, 7)], 1)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_way_back_gives_the_signal(options: dict[str, int]) -> None:
    x = signal(2, 80)
    width = options.get("win_length", options["n_fft"])
    window = lt.tensor(np.hanning(width + 2)[1:-1])
    spectra = lt.stft(lt.tensor(x), window=window, return_complex=True, **options)
    back = lt.istft(spectra, window=window, **options)
    size = back.shape[-1]
    np.testing.assert_allclose(back.numpy(), x[:, :size], atol=1e-10)
    assert size >= 60


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pad_mode", ("reflect", "constant", "replicate"))
@pytest.mark.parametrize("options", OPTIONS)
def test_spectra_are_those_of_pytorch(options: dict[str, int], pad_mode: str) -> None:
    x = signal(2, 80)
    weights = np.hanning(options.get("win_length", options["n_fft"]) + 2)[1:-1].copy()
    theirs = torch.stft(torch.tensor(x), window=torch.tensor(weights), return_complex=True,
                        pad_mode=pad_mode, **options)
    mine = lt.tensor(x).stft(window=lt.tensor(weights), return_complex=True, pad_mode=pad_mode,
                             **options)
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=1e-12)
    for length in (None, 70):
        back = torch.istft(theirs, window=torch.tensor(weights), length=length, **options)
        np.testing.assert_allclose(mine.istft(window=lt.tensor(weights), length=length,
                                              **options).numpy(), back.numpy(), atol=1e-10)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pad_mode", ("reflect", "constant", "replicate"))
def test_spectra_of_complex_numbers_are_those_of_pytorch(pad_mode: str) -> None:
    x = signal(2, 80) + 1j * signal(80)
    theirs, mine = (library.stft(library.tensor(x), 16, pad_mode=pad_mode, return_complex=True)
                    for library in (torch, lt))
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("length", (None, 70))
def test_the_gradient_of_what_is_put_together_is_pytorchs(length: int | None) -> None:
    window = np.hanning(9)[:-1].copy()  # 0 at the start, where nothing is left of the signal
    spectra = signal(9, 21) + 1j * signal(9, 21)[::-1]
    gradients = []
    for library in (torch, lt):
        x = library.tensor(spectra.copy()).requires_grad_()
        y = library.istft(x, 16, win_length=8, window=library.tensor(window), length=length)
        (y ** 2).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0], atol=1e-12)


def test_gradients_flow_through_a_spectral_loss() -> None:
    x = lt.tensor(signal(40), requires_grad=True)

    def loss(given: lt.Tensor) -> lt.Tensor:
        return lt.stft(given, 8, 4, return_complex=True).abs().sum()

    assert lt.autograd.gradcheck(loss, (x,), atol=1e-5)


def test_mistakes_are_named() -> None:
    x = lt.ones(32)
    for act, kind in ((lambda: lt.stft(x, 64, center=False, return_complex=True), lt.ShapeError),
                      (lambda: lt.stft(x, 8), lt.ArgumentError),
                      (lambda: lt.stft(x, 8, 0, return_complex=True), lt.ArgumentError),
                      (lambda: lt.stft(x, 8, window=lt.ones(5), return_complex=True),
                       lt.ShapeError),
                      (lambda: lt.istft(x, 8), lt.DTypeError)):
        with pytest.raises(kind):
            act()
