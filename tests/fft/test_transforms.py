"""Transforms beside NumPy's, in values, gradients, lengths and steps."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_values import complex_numbers as numbers

import lazyten as lt
from lazyten.fft.plans import LONGEST, factors_of, smooth

Array = np.ndarray[Any, Any]
LENGTHS = (1, 2, 3, 5, 8, 12, 30, 64, 97, 100, 256, 360, 521, 1000, 1024, 1042, 4096)
"""Among them primes, great ones, and numbers with a great prime factor."""


def roundings(found: Array, wanted: Array, n: int) -> float:
    """The greatest error, in roundings of the greatest value, over log n."""
    error = np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300)
    return float(error / np.finfo(np.float64).eps / max(1, np.log2(n)))


@pytest.mark.few(4)
@pytest.mark.parametrize("n", LENGTHS)
def test_errors_are_a_rounding_or_so_of_each_stage(n: int) -> None:
    z = numbers(2, n)
    x, r = lt.tensor(z), lt.tensor(z.real.copy())
    for name, given, wanted in (
            ("fft", lt.fft.fft(x), np.fft.fft(z)), ("ifft", lt.fft.ifft(x), np.fft.ifft(z)),
            ("rfft", lt.fft.rfft(r), np.fft.rfft(z.real)),
            ("fft of real", lt.fft.fft(r), np.fft.fft(z.real)),
            ("irfft", lt.fft.irfft(x, n), np.fft.irfft(z, n)),
            ("hfft", lt.fft.hfft(x, n), np.fft.hfft(z, n)),
            ("ihfft", lt.fft.ihfft(r), np.fft.ihfft(z.real))):
        assert roundings(given.numpy(), wanted, n) < 3, name


@pytest.mark.few(23)
@pytest.mark.parametrize("norm", (None, "backward", "ortho", "forward"))
@pytest.mark.parametrize("options", ({}, {"n": 5}, {"n": 9}, {"dim": 0}, {"n": 4, "dim": 1}))
def test_lengths_axes_and_norms_are_those_of_numpy(norm: str | None, options: dict[str, int],
                                                   device: str) -> None:
    z = numbers(3, 4, 6)
    named = {"axis" if name == "dim" else name: value for name, value in options.items()}
    for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft"):
        given = z.real.copy() if name in ("rfft", "ihfft") else z
        found = getattr(lt.fft, name)(lt.tensor(given, device=device), norm=norm, **options)
        np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(given, norm=norm, **named),
                                   atol=1e-12, err_msg=name)


@pytest.mark.few(1)
@pytest.mark.parametrize("options", ({}, {"s": (3, 7)}, {"axes": (0, 2)},
                                     {"s": (5, 4), "axes": (2, 1)}))
def test_several_axes_are_those_of_numpy(options: dict[str, Any]) -> None:
    z = numbers(3, 4, 6)
    named = {"dim" if name == "axes" else name: value for name, value in options.items()}
    if "s" in options and "axes" not in options:
        options = {**options, "axes": (1, 2)}  # NumPy wants to be told
    for name in ("fftn", "ifftn", "irfftn", "rfftn"):
        given = z.real.copy() if name == "rfftn" else z
        np.testing.assert_allclose(getattr(lt.fft, name)(lt.tensor(given), **named).numpy(),
                                   getattr(np.fft, name)(given, **options), atol=1e-12)
    np.testing.assert_allclose(lt.fft.fft2(lt.tensor(z)).real.numpy(), np.fft.fft2(z).real,
                               atol=1e-12)
    np.testing.assert_allclose(lt.fft.fftn(lt.tensor(z), s=4, dim=1).numpy(),
                               np.fft.fft(z, 4, axis=1), atol=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
@pytest.mark.parametrize("n", (6, 7, 72))
def test_gradients_are_differences(name: str, n: int) -> None:
    takes_real = name in ("rfft", "ihfft")
    x = lt.view_as_real(lt.tensor(numbers(2, n))).detach()
    x = (x[..., 0].clone() if takes_real else x).requires_grad_()

    def parts(given: Any) -> Any:
        found = getattr(lt.fft, name)(given if takes_real else lt.view_as_complex(given))
        return lt.view_as_real(found) if found.is_complex() else found

    assert lt.autograd.gradcheck(parts, (x,), atol=1e-5)


def test_single_precision_and_whole_numbers() -> None:
    z = numbers(4, 1000).astype(np.complex64)
    found = lt.fft.fft(lt.tensor(z))
    assert found.dtype is lt.complex64
    error = np.abs(found.numpy() - np.fft.fft(z.astype(np.complex128))).max()
    assert error < 1e-6 * np.abs(np.fft.fft(z)).max()
    np.testing.assert_allclose(lt.fft.fft(lt.arange(4)).numpy(), [6, -2 + 2j, -2, -2 - 2j], 1e-6)


def test_a_jitted_transform_is_the_same_and_so_is_one_of_each_step() -> None:
    weight = lt.tensor(numbers(3, 5), requires_grad=True)

    def layer(x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        spectrum = lt.fft.rfft(x)[..., :5]
        mixed = lt.einsum("bik,ik->bk", spectrum, weight.detach())
        return lt.fft.irfft(mixed, n=x.shape[-1]), spectrum

    jitted = lt.jit(layer)
    for step in range(4):
        values = numbers(2, 3, 12, seed=step).real.copy()
        wanted = np.fft.rfft(values)[..., :5]
        back = np.fft.irfft(np.einsum("bik,ik->bk", wanted, weight.detach().numpy()), 12)
        for run in (layer, jitted):
            found, spectrum = run(lt.tensor(values))
            np.testing.assert_allclose(found.numpy(), back, atol=1e-12)
            np.testing.assert_allclose(spectrum.numpy(), wanted, atol=1e-12)


def test_a_convolution_is_a_product_of_spectra() -> None:
    x, k = lt.tensor(numbers(1, 50).real.copy()), lt.tensor(numbers(1, 50, seed=1).real.copy())
    found = lt.fft.irfft(lt.fft.rfft(x, n=100) * lt.fft.rfft(k, n=100), n=100)[..., :50]
    wanted = np.convolve(x[0].numpy(), k[0].numpy())[:50]
    np.testing.assert_allclose(found[0].numpy(), wanted, atol=1e-12)


def test_an_empty_batch_has_no_numbers() -> None:
    assert lt.fft.rfft(lt.zeros(0, 8)).shape == (0, 5)
    assert lt.fft.irfft(lt.zeros(0, 5, dtype=lt.cfloat)).shape == (0, 8)


def test_mistakes_are_named() -> None:
    x = lt.ones(3, 4, dtype=lt.cfloat)
    for act, kind in ((lambda: lt.fft.rfft(x), lt.DTypeError),
                      (lambda: lt.fft.fft(x, n=0), lt.ArgumentError),
                      (lambda: lt.fft.fft(x, norm="half"), lt.ArgumentError),
                      (lambda: lt.fft.fft(x, dim=2), lt.IndexingError),
                      (lambda: lt.fft.fftn(x, dim=(0, 0)), lt.IndexingError),
                      (lambda: lt.fft.fftn(x, s=(1, 2, 3)), lt.ShapeError),
                      (lambda: lt.fft.fft(lt.ones(4).half()), lt.DTypeError),
                      (lambda: lt.fft.fft([1.0]), lt.DTypeError),  # type: ignore[arg-type]
                      (lambda: lt.fft.fft(lt.tensor(1.0)), lt.IndexingError)):
        with pytest.raises(kind):
            act()


@pytest.mark.slow
def test_factors_are_short_and_their_product_is_the_length() -> None:
    for n in range(1, 5000):
        factors = factors_of(n)
        assert np.prod(factors, dtype=int) == n
        rough = max(factors) > 2 * LONGEST
        assert not rough or any(n % p == 0 for p in range(LONGEST + 1, n + 1))
    assert smooth(1001) == 1024 and smooth(25) == 25 and smooth(1) == 1


def test_the_axis_has_numpys_name_too() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    for name, axis in (("fft", 0), ("rfft", 0), ("fftn", (0, 1)), ("ihfft", 0), ("fftshift", 0)):
        found = getattr(lt.fft, name)(lt.tensor(x), **{"axis" if name != "fftn" else "dim": axis})
        wanted = getattr(np.fft, name)(x, **{"axes" if name in ("fftn", "fftshift") else "axis":
                                             axis})
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


def test_a_view_can_be_taken_of_what_was_transformed(device: str) -> None:
    x = lt.rand(2, 3, 4, device=device)
    for found in (lt.fft.fft(x), lt.fft.rfft(x), lt.fft.fft2(x), lt.fft.fft(x, dim=0)):
        assert found.is_contiguous() and found.stride()[-1] == 1
        np.testing.assert_array_equal(found.view(-1).numpy(), found.numpy().reshape(-1))
    assert lt.stft(x.view(-1), 8, return_complex=True).stride() == (1, 5)


@pytest.mark.parametrize("name", ("fft", "rfft", "irfft"))
def test_rows_of_a_large_batch_go_through_all_stages_together(name: str) -> None:
    z = numbers(600, 512)
    given = z.real.copy() if name == "rfft" else z[:, :257].copy() if name == "irfft" else z
    found = lt.jit(getattr(lt.fft, name))(lt.tensor(given, device="cpu"))
    np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(given), atol=1e-11)


def test_a_transform_along_any_axis_keeps_the_others_where_they_are(device: str) -> None:
    z = numbers(4, 36, 5, 2)
    for axis in range(4):
        for name in ("fft", "rfft", "irfft"):
            given = z.real.copy() if name == "rfft" else z
            found = getattr(lt.fft, name)(lt.tensor(given, device=device), n=36, dim=axis)
            wanted = getattr(np.fft, name)(given, n=36, axis=axis)
            np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
