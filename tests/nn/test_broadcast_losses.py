"""Losses of an input and a target that broadcast: PyTorch's values, with a warning."""
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
