"""Values and comparisons that the tests of tensors share; the oracle is NumPy."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.execution.plans import making
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.plan import Options, Plan
from lazyten.ir import dtype as dt

Array = np.ndarray[Any, Any]

FLOAT_EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.7, -3.7, 1e-3, 100.25, np.inf, -np.inf,
               np.nan]
NUMPY_TYPES = [d for d in dt.ARITHMETIC if d is not dt.bfloat16]
"""The dtypes that NumPy has too."""


def equal(a: lt.Tensor, b: Any) -> bool:
    """Whether values and shapes are the same."""
    return bool(np.array_equal(a.numpy(), np.asarray(b)))


def edges(dtype: dt.DType) -> Array:
    """Values of a dtype that operations get wrong first: limits, signs, zeros, NaN."""
    if dtype.is_float:
        return np.array(FLOAT_EDGES, dtype.compute)
    if dtype is dt.bool_:
        return np.array([False, True])
    around = [0, 1, 2, 3, 7, 13, int(dtype.max), int(dtype.max) - 1]
    below = [-1, -2, -7, int(dtype.min), int(dtype.min) + 1] if dtype.kind == "i" else []
    return np.array(around + below, dtype.numpy)


def pairs(dtype: dt.DType) -> tuple[Array, Array]:
    """Every edge value beside every other: a column and a row that broadcast."""
    values = edges(dtype)
    return values[:, None], values[None, :]


def as_tensor(values: Any, device: str, dtype: dt.DType | None = None) -> lt.Tensor:
    """A tensor on a device, without a gradient."""
    return lt.tensor(values, dtype=dtype, device=device)


def computed(results: dict[str, lt.Tensor]) -> dict[str, Array]:
    """The values of named tensors, all computed in one go."""
    lt.realize(*results.values())
    return {name: t.numpy() for name, t in results.items()}


def assert_same(found: Array, expected: Any, message: str = "") -> None:
    """Equal shape, dtype and values; NaN equals NaN and the signs of zeros count."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape, message
    assert found.dtype == expected.dtype, message
    np.testing.assert_array_equal(found, expected, err_msg=message)
    if found.dtype.kind == "f":
        real = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(expected[real]),
                                      err_msg=f"{message}: sign of zero")


@contextmanager
def counted_plans() -> Iterator[list[object]]:
    """A list that gets an entry for every graph that is scheduled and compiled in this block."""
    made: list[object] = []
    original = making._make_plan

    def make_plan(graph: Graph, options: Options) -> Plan:
        made.append(graph.key)
        return original(graph, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "_make_plan", make_plan)
        yield made


def assert_alike(found: Any, expected: Any, rel: float = 1e-6, abs: float = 1e-12) -> None:
    """Equal in form and types, floats to these tolerances."""
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for mine, other in zip(found, expected, strict=True):
            assert_alike(mine, other, rel, abs)
    else:
        assert type(found) is type(expected)
        assert found == (pytest.approx(expected, rel=rel, abs=abs, nan_ok=True)
                         if isinstance(expected, float) else expected)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def complex_numbers(*shape: int, seed: int = 0) -> Array:
    """Complex numbers of both signs."""
    random = np.random.default_rng(seed)
    return random.standard_normal(shape) + 1j * random.standard_normal(shape)
