"""Loops that reduce segments of rows: all steps at once, as far as each is what one step gives."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()

helper: Any = onnx.helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
WEIGHT = np.random.default_rng(0).integers(-8, 9, (30, 4)).astype(np.float32)
REDUCED: dict[str, Any] = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min}


def value(name: str, kind: int = FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def bags(kind: str, weighted: bool = False, keepdims: int = 0, times: str = "wide",
         weight: Any = WEIGHT) -> Any:
    """A row of `weight` for each number in x, and one of these for each segment of x."""
    rows = [helper.make_node("Gather", ["weight", "part"], ["looked"])]
    if weighted:
        rows += [helper.make_node("Slice", ["w", "from", "to", "zero"], ["own"]),
                 helper.make_node("Unsqueeze", ["own", "one"], ["wide"]),
                 helper.make_node("Mul", ["looked", times], ["scaled"])]
    body = helper.make_graph([
        helper.make_node("Gather", ["first", "i"], ["a"]),
        helper.make_node("Gather", ["last", "i"], ["b"]),
        helper.make_node("Unsqueeze", ["a", "zero"], ["from"]),
        helper.make_node("Unsqueeze", ["b", "zero"], ["to"]),
        helper.make_node("Slice", ["x", "from", "to", "zero"], ["part"]), *rows,
        helper.make_node(f"Reduce{kind}", ["scaled" if weighted else "looked", "zero"], ["y"],
                         keepdims=keepdims),
        helper.make_node("Cast", ["yes"], ["goes"], to=BOOL)], "body",
        [value("i", INT64, []), value("c", BOOL, [])], [value("goes", BOOL), value("y")])
    graph = helper.make_graph(
        [helper.make_node("Size", ["first"], ["count"]),
         helper.make_node("Loop", ["count", "yes"], ["ys"], body=body)], "g",
        [value("x", INT64, ["n"]), value("first", INT64, ["m"]), value("last", INT64, ["m"]),
         *([value("w", FLOAT, ["n"])] if weighted else [])], [value("ys")],
        initializer=[onnx.numpy_helper.from_array(np.array(v), name) for name, v in (
            ("weight", weight), ("zero", [0]), ("one", [1]), ("yes", True))])
    return lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps the bodies of loops have done, one by one, from now on."""
    from lazyten.onnx.repeating import Body
    done: list[int] = []
    one = Body.__call__
    monkeypatch.setattr(Body, "__call__", lambda self, *values: done.append(1) or one(
        self, *values))
    return done


BOUNDS = {"behind each other": ([0, 3, 4, 11], [3, 4, 11, 20]),
          "with gaps, and overlapping": ([5, 1, 7], [9, 3, 8]),
          "counted from the end, and beyond it": ([-4, -30, 15], [-1, 2, 99])}


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("kind", REDUCED)
def test_segments_are_reduced_at_once(kind: str, bounds: str,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).integers(0, 30, 20)
    first, last = map(np.array, BOUNDS[bounds])
    for keepdims in (0, 1):
        model, steps = bags(kind, keepdims=keepdims), runs(monkeypatch)
        found, = model([x, first, last])
        wanted = [REDUCED[kind](WEIGHT[x[a:b]], 0, keepdims=bool(keepdims))
                  for a, b in zip(first, last, strict=True)]
        np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-6)
        assert not steps


def test_rows_may_be_weighted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = bags("Sum", weighted=True), runs(monkeypatch)
    rng = np.random.default_rng(2)
    for n, first in ((20, [0, 3, 4, 11]), (33, [0, 1, 30])):
        x, w = rng.integers(0, 30, n), rng.integers(-4, 5, n).astype(np.float32)
        last = [*first[1:], n]
        found, = model([x, np.array(first), np.array(last), w])
        np.testing.assert_array_equal(found, np.stack([
            (WEIGHT[x[a:b]] * w[a:b, None]).sum(0) for a, b in zip(first, last, strict=True)]))
    assert not steps


def test_what_an_empty_segment_gives_is_what_its_step_gives() -> None:
    x = np.arange(6)
    for kind in ("Sum", "Max"):
        found, = bags(kind)([x, np.array([0, 4, 4]), np.array([4, 4, 6])])
        wanted = np.stack([REDUCED[kind](WEIGHT[x[a:b]], 0, initial=0 if kind == "Sum" else
                                         -np.inf) for a, b in ((0, 4), (4, 4), (4, 6))])
        np.testing.assert_array_equal(np.maximum(found, -1e30), np.maximum(wanted, -1e30))


def test_numbers_outside_of_all_segments_are_not_looked_up() -> None:
    found, = bags("Sum")([np.array([99, 1, 2, 3, -99]), np.array([1, 2]), np.array([2, 4])])
    np.testing.assert_array_equal(found, np.stack([WEIGHT[1], WEIGHT[2] + WEIGHT[3]]))
    with pytest.raises(IndexError, match="99"):
        bags("Sum")([np.array([1, 99]), np.array([0]), np.array([2])])


def test_rows_that_meet_other_axes_are_computed_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of four has as many rows as columns, which its weights multiply."""
    model, steps = bags("Sum", weighted=True, times="own"), runs(monkeypatch)
    x, w = np.arange(8), np.arange(8, dtype=np.float32)
    found, = model([x, np.array([0, 4]), np.array([4, 8]), w])
    np.testing.assert_array_equal(found, np.stack([
        (WEIGHT[x[a:b]] * w[a:b]).sum(0) for a, b in ((0, 4), (4, 8))]))
    assert steps


def test_a_mean_of_integers_is_computed_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = bags("Mean", weight=np.arange(30)[:, None] * [1, -3]), runs(monkeypatch)
    for _ in range(2):
        found, = model([np.array([1, 2, 5, 7]), np.array([0, 2]), np.array([2, 4])])
        np.testing.assert_array_equal(found, [[1, -4], [6, -18]])
    assert steps
