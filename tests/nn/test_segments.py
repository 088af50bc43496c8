"""Segments of an axis that are reduced, beside NumPy; dropout that is asked for by position."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

Array = np.ndarray[Any, Any]

NUMPYS: dict[str, Callable[[Array], Any]] = {
    "sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.max(0),
    "min": lambda x: x.min(0), "prod": lambda x: x.prod(0)}
LENGTHS = [2, 0, 1, 4]


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("reduce", sorted(NUMPYS))
def test_segments_are_reduced_as_numpy_does(reduce: str, kind: str) -> None:
    x = np.random.default_rng(0).integers(-4, 5, (7, 3)).astype(np.float64)
    ends = np.cumsum(LENGTHS)
    for initial in (None, 2.0):
        empty = {"sum": 0.0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1.0}[reduce]
        first = [] if initial is None else [np.full((1, 3), initial)]
        parts = [np.concatenate([*first, part]) for part in np.split(x, ends[:-1])]
        if reduce == "mean":  # what is first is no element
            expected = [part.sum(0) / n if n else np.full(3, empty if initial is None else initial)
                        for part, n in zip(parts, LENGTHS, strict=True)]
        else:
            expected = [NUMPYS[reduce](part) if len(part) else np.full(3, empty) for part in parts]
        for given in ({"lengths": lt.tensor(LENGTHS)}, {"offsets": lt.tensor([0, *ends])}):
            found = lt.segment_reduce(lt.tensor(x, dtype=kind), reduce, initial=initial, **given)
            assert found.dtype.name == kind
            tolerance = 1e-12 if kind == "float64" else 1e-2
            np.testing.assert_allclose(found.double().numpy(), expected, tolerance)


def test_what_segments_leave_out_is_left_out() -> None:
    x = lt.arange(6.0)
    assert lt.segment_reduce(x, "sum", offsets=lt.tensor([1, 3, 5])).tolist() == [3, 7]
    assert lt.segment_reduce(x, "max", lengths=lt.tensor([2, 2]), unsafe=True).tolist() == [1, 3]
    assert lt.segment_reduce(x, "sum", lengths=lt.tensor([2, 9]), unsafe=True).tolist() == [1, 14]
    ones = lt.ones(6, requires_grad=True)
    lt.segment_reduce(ones, "prod", offsets=lt.tensor([1, 3, 5])).sum().backward()
    assert ones.grad is not None and ones.grad.tolist() == [0, 1, 1, 1, 1, 0]


def test_equal_ones_share_a_gradient() -> None:
    x = lt.tensor([1.0, 3.0, 3.0, 3.0, -2.0], requires_grad=True)
    lt.segment_reduce(x, "max", lengths=lt.tensor([4, 1]), initial=-2.0).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [0, 1 / 3, 1 / 3, 1 / 3, 1], 1e-6)


def test_segments_may_be_of_a_jitted_function() -> None:
    @lt.jit
    def sums(x: lt.Tensor, lengths: lt.Tensor) -> lt.Tensor:
        return lt.segment_reduce(x, "sum", lengths=lengths, unsafe=True)

    for lengths in ([1, 2, 1], [0, 4, 0], [2, 0, 2], [4, 0, 0]):
        x = np.arange(4.0)
        expected = [part.sum() for part in np.split(x, np.cumsum(lengths)[:-1])]
        assert sums(lt.tensor(x), lt.tensor(lengths)).tolist() == expected


@pytest.mark.parametrize(("given", "error", "words"), [
    ({"reduce": "amax"}, lt.ArgumentError, "'amax' is not one of sum, mean"),
    ({"lengths": None}, lt.ArgumentError, "give lengths or offsets"),
    ({"indices": [0, 1]}, lt.ArgumentError, "scatter_reduce"),
    ({"lengths": [2, 3]}, lt.ArgumentError, "their sum 6"),
    ({"lengths": [-1, 7]}, lt.ArgumentError, "none below 0"),
    ({"offsets": [0, 4, 3]}, lt.ArgumentError, "none below the one before"),
    ({"offsets": [0, 7]}, lt.ArgumentError, "from 0 to 6"),
    ({"lengths": [2.0, 4.0]}, lt.DTypeError, "must be integers"),
    ({"lengths": [[2, 4]] * 5}, lt.ShapeError, r"\(5, 2\) for data of shape \(6, 2\)"),
    ({"axis": 1}, lt.ShapeError, r"axis=1, and .* of axis 0"),
    ({"data": lt.arange(6)}, lt.DTypeError, "of int64"),
])
def test_segments_that_are_none_are_errors(given: dict[str, Any], error: type[Exception],
                                           words: str) -> None:
    options = {"data": lt.ones(6, 2), "reduce": "sum", "lengths": [2, 4], **given}
    with pytest.raises(error, match=f"segment_reduce.*{words}"):
        lt.segment_reduce(**{name: lt.tensor(x) if isinstance(x, list) else x
                             for name, x in options.items()})


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_dropout",
                                  "feature_alpha_dropout"])
def test_dropout_leaves_out_elements_or_channels_and_its_twin_writes(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(40, 30, 8)).astype(np.float32)
    given = lt.tensor(x)
    found = getattr(lt, name)(given, 0.25, True).numpy()
    values, often = np.unique(found, return_counts=True)
    gone = found == values[often.argmax()]
    assert "alpha" in name or values[often.argmax()] == 0
    if "feature" in name:
        assert (gone.all(-1) == gone.any(-1)).all()
    assert abs(gone.mean() - 0.25) < 0.05
    scale, shift = np.polyfit(x[~gone], found[~gone], 1)  # the rest is scaled, and shifted
    np.testing.assert_allclose(found[~gone], x[~gone] * scale + shift, 1e-3, 1e-4)
    assert getattr(lt, name)(given, 0.25, False) is given
    lt.manual_seed(3)
    expected = getattr(lt, name)(given, 0.25, True).numpy()
    lt.manual_seed(3)
    assert getattr(lt, f"{name}_")(given, 0.25, True) is given
    np.testing.assert_array_equal(given.numpy(), expected)
    assert getattr(lt, f"{name}_")(given, p=0.5, train=False) is given


@pytest.mark.parametrize("name", ["feature_dropout", "feature_alpha_dropout"])
def test_dropout_of_channels_needs_channels(name: str) -> None:
    with pytest.raises(lt.ShapeError, match=rf"{name}: .* \(3,\)"):
        getattr(lt, name)(lt.ones(3), 0.5, True)


@pytest.mark.parametrize("pow", [1, 2, 3])
@pytest.mark.parametrize("dim", [-1, 0, 1, 2])
def test_norms_of_all_axes_but_one(dim: int, pow: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    axes = tuple(a for a in range(3) if a != dim) or None
    expected = (np.abs(x) ** pow).sum(axis=axes, keepdims=dim >= 0) ** (1 / pow)
    np.testing.assert_allclose(lt.norm_except_dim(lt.tensor(x), pow, dim).numpy(), expected, 1e-9)
