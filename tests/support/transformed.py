"""What tests of transforms share: functions to transform, and how results are compared."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt

NUMBERS = np.random.default_rng(0).uniform(-1, 1, (4, 3))


def close(found: lt.Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    """The same shape, and values but for rounding."""
    wanted = expected.numpy() if isinstance(expected, lt.Tensor) else np.asarray(expected)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


def double(values: Any) -> lt.Tensor:
    """A tensor of float64."""
    return lt.tensor(values, dtype=lt.float64)


def energy(x: lt.Tensor) -> lt.Tensor:
    """A number of a vector, that is not linear."""
    return ((x.sin() * x).sum() ** 2) + (x ** 3).sum()


def draws(x: lt.Tensor) -> lt.Tensor:
    """Adds random numbers."""
    return x + lt.rand(3, dtype=lt.float64)
