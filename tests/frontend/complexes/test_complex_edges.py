"""Complex numbers where other arguments of an operation, or a 0, decide."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

VALUES = np.array([[1 + 2j, -0.5j, 3 - 1j], [0.25 + 0.5j, -2, -1.5 - 2.5j]])


@pytest.mark.parametrize("value", (2, 2.5, True, 1 - 2j, np.float64(3), np.complex64(2j)))
def test_scatter_puts_a_number_in_as_it_is(value: Any, device: str) -> None:
    x, index = lt.tensor(VALUES, device=device), lt.tensor([[0], [2]], device=device)
    wanted = VALUES.copy()
    wanted[0, 0] = wanted[1, 2] = value
    np.testing.assert_array_equal(x.scatter(1, index, value).numpy(), wanted)
    np.testing.assert_array_equal(x.scatter_(1, index, value=value).numpy(), wanted)


@pytest.mark.parametrize("alpha", (2, 2.0, 1 - 2j))
def test_index_add_multiplies_both_parts(alpha: Any, device: str) -> None:
    x, index = lt.tensor(VALUES, device=device), lt.tensor([0, 0], device=device)
    wanted = VALUES.copy()
    wanted[0] += alpha * VALUES.sum(0)
    np.testing.assert_allclose(x.index_add(0, index, x, alpha=alpha).numpy(), wanted, rtol=1e-14)


def test_scatter_that_multiplies_is_refused() -> None:
    with pytest.raises(lt.DTypeError, match="reduce='multiply'"):
        lt.tensor(VALUES).scatter(1, lt.tensor([[0], [2]]), 2, reduce="multiply")


@pytest.mark.parametrize("change, wanted", (
    (lambda x: x.transpose_(0, 1), VALUES.T), (lambda x: x.t_(), VALUES.T),
    (lambda x: x.swapaxes_(0, -1), VALUES.T), (lambda x: x.swapdims_(0, 1), VALUES.T),
    (lambda x: x.unsqueeze_(1), VALUES[:, None]),
    (lambda x: x.unsqueeze_(1).squeeze_(1), VALUES)))
def test_a_tensor_becomes_the_view_that_is_asked_for(change: Callable[[Any], Any],
                                                     wanted: Any) -> None:
    x = lt.tensor(VALUES)
    assert change(x) is x
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_where_as_a_method_takes_the_mask_second(device: str) -> None:
    mask = np.array([True, False, True])
    floats, bools = np.array([1.0, 2, 3]), np.array([False, False, True])
    for x in (floats, bools, VALUES[0]):
        found = lt.tensor(x, device=device).where(lt.tensor(mask, device=device), 2j)
        np.testing.assert_array_equal(found.numpy(), np.where(mask, x, 2j))


def test_0_to_any_power_is_that_of_numpy(device: str) -> None:
    powers = np.array([0, 1, 0.5 + 1j, -1, -2 + 1j, 1j, -1j])
    with np.errstate(all="ignore"):
        wanted = np.power(0j, powers)
    exponents = lt.tensor(powers, device=device)
    for found in (0 ** exponents, 0j ** exponents, lt.zeros(7, device=device) ** exponents,
                  lt.zeros(7, dtype=lt.complex128, device=device) ** exponents):
        np.testing.assert_array_equal(found.numpy(), wanted)
    zero = lt.zeros(1, dtype=lt.complex128, device=device)
    for power, value in zip(powers.tolist(), wanted, strict=True):
        np.testing.assert_array_equal((zero ** complex(power)).numpy(), [value])


def test_what_is_divided_by_the_number_0_is_nan_and_by_infinity_0(device: str) -> None:
    x = lt.tensor(VALUES, device=device)
    assert (x / 0j).isnan().all()
    assert (lt.ones(2, device=device) / 0j).isnan().all()
    assert (x / complex(np.inf, 1) == 0).all()


@pytest.mark.parametrize("z", (-0.5j, 2j, -2 + 0j, complex(-2, -0.0), 4, -1.5 - 2.5j))
@pytest.mark.parametrize("power", (0.5, -0.5))
def test_gradients_of_roots_on_the_axes(z: complex, power: float, device: str) -> None:
    slope = power * np.power(np.array(z, np.complex128), power - 1)
    for part in ("real", "imag"):
        x = lt.tensor(z, dtype=lt.complex128, device=device).requires_grad_()
        root = x.sqrt() if power > 0 else x.rsqrt()
        getattr(root, part).backward()
        wanted = np.conj(slope if part == "real" else -1j * slope)
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("call", (
    lambda x: lt.isclose(x, 2), lambda x: lt.allclose(x, 2), lambda x: lt.equal(x, 2),
    lambda x: x @ 2, lambda x: 2 @ x, lambda x: x - lt.tensor(True), lambda x: lt.tensor(True) - x))
def test_operands_of_the_wrong_kind_are_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(lt.DTypeError):
        call(lt.tensor(VALUES))


def test_a_matrix_that_counts_for_nothing_is_not_read(device: str) -> None:
    x = lt.tensor(VALUES, device=device)
    nothing = lt.full((2, 2), float("nan"), dtype=lt.complex128, device=device)
    np.testing.assert_allclose(lt.addmm(nothing, x, x.T, beta=0).numpy(), VALUES @ VALUES.T)


def test_prod_in_a_wider_type() -> None:
    found = lt.tensor(VALUES.astype(np.complex64)).prod(dtype=lt.complex128)
    assert found.dtype is lt.complex128
    np.testing.assert_allclose(found.numpy(), VALUES.prod(), rtol=1e-12)


def test_grad_gives_the_gradients_that_backward_collects(device: str) -> None:
    z = lt.tensor(VALUES, device=device).requires_grad_()
    x = lt.tensor(VALUES.real + 1, device=device).requires_grad_()
    loss = (z * z.conj() * x).abs().sqrt().sum()
    found = lt.autograd.grad(loss, [z, x], retain_graph=True)
    loss.backward()
    for given, leaf in zip(found, (z, x), strict=True):
        assert given.dtype is leaf.dtype
        np.testing.assert_array_equal(given.numpy(), leaf.grad.numpy())


def test_grad_of_complex_outputs_takes_weights_and_can_be_differentiated(device: str) -> None:
    z = lt.tensor(VALUES, device=device).requires_grad_()
    weight = lt.tensor(VALUES[::-1].copy(), device=device)
    first, = lt.autograd.grad(z * z * z, z, weight, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), VALUES[::-1] * np.conj(3 * VALUES**2))
    second, = lt.autograd.grad(first, z, weight)
    np.testing.assert_allclose(second.numpy(), abs(VALUES[::-1]) ** 2 * np.conj(6 * VALUES))
    rows, = lt.autograd.grad(z * z, z, lt.stack([weight, 2 * weight]), is_grads_batched=True)
    np.testing.assert_allclose(rows[1].numpy(), 2 * VALUES[::-1] * np.conj(2 * VALUES))
    with pytest.raises(lt.GradientError, match="without weights"):
        lt.autograd.grad(z * z, z)
    none, zeros = [lt.autograd.grad(z.abs().sum(), [z, weight.requires_grad_()], **options)[1]
                   for options in ({"allow_unused": True}, {"materialize_grads": True})]
    assert none is None and (zeros == 0).all() and zeros.dtype is lt.complex128


@pytest.mark.parametrize(("a", "b", "wanted"), (
    (lt.tensor(VALUES), lt.ones(1), lt.complex128), (lt.ones(1), 1j, lt.complex64),
    (lt.ones(1, dtype=lt.complex64), lt.ones(1, dtype=lt.float64), lt.complex128),
    (lt.ones(1, dtype=lt.complex64), lt.tensor(1.0, dtype=lt.float64), lt.complex64),
    (lt.ones(1, dtype=lt.int64), 2j, lt.complex64), (1, 2j, lt.complex64)))
def test_the_type_of_a_result_with_complex_numbers(a: Any, b: Any, wanted: lt.DType) -> None:
    assert lt.result_type(a, b) is wanted and lt.result_type(b, a) is wanted


def test_a_complex_array_without_axes_shares_its_memory() -> None:
    array = np.array(1 + 2j)
    for x in (lt.from_numpy(array), lt.as_tensor(array), lt.from_dlpack(array)):
        assert x.shape == () and x.item() == 1 + 2j
    shared = lt.from_numpy(array)
    array[...] = 3j
    assert shared.item() == 3j


def test_activations_of_networks_take_complex_numbers() -> None:
    z = lt.tensor([1 + 2j, -0.5j])
    layers = lt.nn.Sequential(lt.nn.Tanh(), lt.nn.Sigmoid(), lt.nn.SiLU(), lt.nn.Dropout()).eval()
    halves = 1 / (1 + np.exp(-np.tanh(z.numpy())))
    np.testing.assert_allclose(layers(z).numpy(), halves / (1 + np.exp(-halves)), 1e-5)
    assert lt.nn.functional.silu(z, inplace=True) is z and abs(z[0].item() - (1 + 2j)) > 0.1
