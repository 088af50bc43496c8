"""Losses of an input and a target that broadcast: PyTorch's values, with a warning."""
import math
from collections.abc import Callable

import numpy as np
import pytest

import lazyten as lt
import lazyten.nn.functional as F

A, B = np.linspace(-1, 2, 4, dtype=np.float32).reshape(4, 1), np.array([0.5, -3, 1, 4], np.float32)
LOSSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mse_loss": np.square,
    "l1_loss": np.abs,
    "huber_loss": lambda d: np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5),
    "smooth_l1_loss": lambda d: np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5),
}


@pytest.mark.parametrize("name", LOSSES)
def test_shapes_that_broadcast_are_warned_of_and_computed(name: str) -> None:
    loss, expected = getattr(F, name), LOSSES[name](A - B).mean()
    with pytest.warns(UserWarning, match=rf"{name} at .*: input \(4, 1\) and target \(4,\) broad"):
        assert loss(lt.tensor(A), lt.tensor(B)).item() == pytest.approx(float(expected), rel=1e-5)
    found = lt.jit(loss)(lt.tensor(A), lt.tensor(B))  # a trace has nobody to warn
    assert found.item() == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_shapes_that_do_not_are_refused(name: str) -> None:
    with pytest.raises(lt.ShapeError, match=name):
        getattr(F, name)(lt.ones(2, 3), lt.ones(2))


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan])
def test_what_is_no_probability_is_told_with_the_loss(wrong: float, device: str) -> None:
    y = lt.tensor([1.0, 0.0], device=device)
    loss = lt.jit(lambda x: F.binary_cross_entropy(x, y))
    for function in (lambda x: F.binary_cross_entropy(x, y), loss, loss):
        fine = lt.tensor([1.0, 0.25], device=device, requires_grad=True)
        assert abs(function(fine).item() - 0.143841) < 1e-6
        with pytest.raises(lt.ArgumentError, match=r"binary_cross_entropy: .* sigmoid\(\) first"):
            function(lt.tensor([wrong, 0.25], device=device, requires_grad=True)).item()


def test_a_variance_is_not_below_0() -> None:
    loss = F.gaussian_nll_loss(lt.zeros(2), lt.zeros(2), lt.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="gaussian_nll_loss: an element of var is below 0"):
        loss.item()


def test_what_is_no_probability_updates_nothing() -> None:
    layer = lt.nn.Linear(2, 1)
    optimizer = lt.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.tolist()

    def step() -> lt.Tensor:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy(layer(lt.ones(3, 2)) + 5, lt.ones(3, 1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    for function in (step, lt.jit(step)):
        with pytest.raises(lt.ArgumentError, match="binary_cross_entropy"):
            function().item()
        assert layer.weight.tolist() == before
