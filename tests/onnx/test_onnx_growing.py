"""Models whose inputs grow or vary in size: launches of which formulas say all numbers, equal to
what onnxruntime gives and, as proofs are on, to what would be planned."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_if_there
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyten as lt
from lazyten.capture.sizes import calls, looked

onnx = onnx_if_there.needed()

helper: Any = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
Feeds = dict[str, Any]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """An entry for each size that launches were planned at, for formulas."""
    found: list[object] = []
    original = looked.Looked._add

    def add(self: looked.Looked, sizes: Any) -> bool:
        found.append(sizes)
        return original(self, sizes)
    monkeypatch.setattr(looked.Looked, "_add", add)
    return found


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An entry for each call at a size that was not recorded, and how many results it gave."""
    found: list[int] = []
    original = calls.launch

    def launch(*args: Any) -> Any:
        results = original(*args)
        found.append(0 if results is None else len(results))
        return results
    monkeypatch.setattr(calls, "launch", launch)
    yield found


class Built:
    """A model's nodes and weights, as they are put together."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def have(self, value: Any) -> str:
        """The name of a constant."""
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape: int) -> str:
        """The name of random weights."""
        values = self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)
        return self.have(values.astype(np.float32))

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """The name of a node's output."""
        name = to or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def pair(self, inputs: dict[str, tuple[int, list[Any]]], outputs: list[str]) -> tuple[Any, Any]:
        """The model here, and in onnxruntime."""
        runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info(n, *x) for n, x in inputs.items()],
            [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs], self.weights)
        file = helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", 17)]).SerializeToString()
        return lt.onnx.load(file), runtime.InferenceSession(
            file, providers=["CPUExecutionProvider"])


def near(pair: tuple[Any, Any], feeds: Feeds) -> list[Any]:
    """What onnxruntime gives, to which the model here is equal."""
    wanted: list[Any] = pair[1].run(None, feeds)
    for found, expected in zip(pair[0](feeds), wanted, strict=True):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return wanted


def decoder(width: int = 8, heads: int = 2, places: int = 64) -> tuple[Any, Any]:
    """A layer of attention to all words before, whose keys and values are given and given back."""
    b = Built()
    seq = b.add("Gather", b.add("Shape", "ids"), b.have(np.int64(1)))
    past = b.add("Gather", b.add("Shape", "past_k"), b.have(np.int64(2)))
    total, one, zero = b.add("Add", past, seq), b.have(np.int64(1)), b.have(np.int64(0))
    place = b.add("Range", past, total, one)
    x = b.add("Add", b.add("Gather", b.weight(20, width), "ids"),
              b.add("Gather", b.weight(places, width), place))
    first = b.have(np.array([0]))
    split = b.add("Concat", first, b.add("Unsqueeze", seq, first),
                  b.have(np.array([heads, width // heads])), axis=0)
    q, k, v = (b.add("Transpose", b.add("Reshape", b.add(
        "MatMul", x, b.weight(width, width)), split), perm=[0, 2, 1, 3]) for _ in range(3))
    k = b.add("Concat", "past_k", k, axis=2, to="k")
    v = b.add("Concat", "past_v", v, axis=2, to="v")
    later = b.add("LessOrEqual", b.add("Unsqueeze", b.add("Range", zero, total, one), first),
                  b.add("Unsqueeze", place, b.have(np.array([1]))))
    mask = b.add("Where", later, b.have(np.float32(0)), b.have(np.float32(-1e9)))
    scores = b.add("Add", b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2])), mask)
    b.add("MatMul", b.add("Softmax", scores, axis=-1), v, to="y")
    shape = ["b", heads, "past", width // heads]
    return b.pair({"ids": (INT64, ["b", "s"]), "past_k": (FLOAT, shape), "past_v": (FLOAT, shape)},
                  ["y", "k", "v"])


def test_a_cache_that_grows_by_a_word_is_launched_without_being_recorded(
        launched: list[int], planned: list[object]) -> None:
    pair = decoder()
    empty = np.zeros((1, 2, 0, 4), np.float32)
    feeds: Feeds = {"ids": np.array([[3, 1, 4, 1, 5]]), "past_k": empty, "past_v": empty}
    for word in range(36):
        _, k, v = near(pair, feeds)
        feeds = {"ids": np.array([[word % 20]]), "past_k": k, "past_v": v}
    assert len(launched) > 22 and set(launched) == {3}
    assert len(planned) < 20  # of two regions


def encoder() -> tuple[Any, Any]:
    """Attention of texts with a mask, positions that are sliced, and means over words."""
    b = Built()
    length = b.add("Gather", b.add("Shape", "ids"), b.have(np.array([1])))
    place = b.add("Slice", b.have(np.arange(80)[None]), b.have(np.array([0])), length,
                  b.have(np.array([1])))
    x = b.add("Add", b.add("Gather", b.weight(20, 8), "ids"), b.add(
        "Gather", b.weight(80, 8), place))
    mask = b.add("Mul", b.add("Unsqueeze", "mask", b.have(np.array([1]))),
                 b.have(np.float32(-1e4)))
    scores = b.add("Add", b.add("MatMul", x, b.add("Transpose", x, perm=[0, 2, 1])), mask)
    mixed = b.add("MatMul", b.add("Softmax", scores, axis=-1), x)
    b.add("ReduceMean", b.add("Relu", b.add("MatMul", mixed, b.weight(8, 5))), axes=[1], to="y")
    return b.pair({"ids": (INT64, ["b", "s"]), "mask": (FLOAT, ["b", "s"])}, ["y"])


def perceptron() -> tuple[Any, Any]:
    b = Built()
    h = b.add("Relu", b.add("Gemm", "x", b.weight(6, 16), b.weight(16)))
    b.add("Softmax", b.add("Gemm", h, b.weight(16, 3)), axis=-1, to="y")
    return b.pair({"x": (FLOAT, ["b", 6])}, ["y"])


def convolutions() -> tuple[Any, Any]:
    b = Built()
    h = b.add("Relu", b.add("Conv", "x", b.weight(4, 2, 3, 3), b.weight(4), pads=[1] * 4))
    h = b.add("GlobalAveragePool", b.add("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2]))
    b.add("MatMul", b.add("Flatten", h), b.weight(4, 3), to="y")
    return b.pair({"x": (FLOAT, ["b", 2, 6, 6])}, ["y"])


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


VARYING: dict[str, tuple[Callable[[], tuple[Any, Any]], Callable[[int], Feeds]]] = {
    "texts": (encoder, lambda n: {"ids": np.arange(2 * n).reshape(2, n) % 20,
                                  "mask": (np.arange(2 * n).reshape(2, n) % 5 == 0).astype(
                                      np.float32)}),
    "batches": (perceptron, lambda n: {"x": floats(n, 6)}),
    "images": (convolutions, lambda n: {"x": floats(n, 2, 6, 6)})}


@pytest.mark.parametrize("name", VARYING)
@settings(max_examples=2)
@given(sizes=st.lists(st.integers(9, 32), min_size=10, max_size=12, unique=True))
def test_sizes_in_any_order_give_what_onnxruntime_gives(name: str, sizes: list[int]) -> None:
    make, feeds = VARYING[name]
    pair = make()
    for n in sizes:
        near(pair, feeds(n))


def test_results_are_of_all_sizes_of_a_region_once_some_of_it_came(launched: list[int]) -> None:
    pair = perceptron()
    for n in (9, 30, 14, 21, 11, 27, 10, 25, 31, 17, 22, 12, 13, 32):
        near(pair, {"x": floats(n, 6)})
    assert len(launched) >= 5


def compared(kind: str, at: int) -> tuple[Any, Any]:
    """A model that takes other rows where a size is equal to a number, or less."""
    b = Built()
    n = b.add("Gather", b.add("Shape", "x"), b.have(np.array([0])))
    end = b.add("Where", b.add(kind, n, b.have(np.array([at]))), b.have(np.array([3])),
                b.have(np.array([5])))
    zero = b.have(np.array([0]))
    b.add("Add", b.add("Slice", "x", zero, end, zero), b.add(
        "ReduceSum", "x", zero, keepdims=1), to="y")
    return b.pair({"x": (FLOAT, ["n", 6])}, ["y"])


@pytest.mark.parametrize("kind", ["Equal", "Less", "GreaterOrEqual"])
def test_sizes_that_a_model_compares_are_not_what_others_are(
        kind: str, launched: list[int]) -> None:
    pair = compared(kind, 21)
    for n in range(9, 33):
        near(pair, {"x": floats(n, 6)})
    assert bool(launched) == (kind == "Equal")  # else the region has two graphs, and no formulas


def test_a_part_of_a_table_up_to_its_end() -> None:
    b = Built()
    n = b.add("Shape", "x")
    rows = b.add("Slice", b.weight(24, 6), b.have(np.array([0])), b.add(
        "Slice", n, b.have(np.array([0])), b.have(np.array([1]))), b.have(np.array([0])))
    b.add("ReduceSum", rows, b.have(np.array([0])), to="z")
    b.add("Mul", "x", "x", to="y")
    pair = b.pair({"x": (FLOAT, ["n", 6])}, ["y", "z"])
    for size in range(9, 33):
        near(pair, {"x": floats(size, 6)})


def test_an_index_outside_is_an_error_at_a_size_that_was_not_recorded() -> None:
    b = Built()
    b.add("Gather", b.weight(20, 3), "ids", to="y")
    pair = b.pair({"ids": (INT64, ["n"])}, ["y"])
    for n in range(9, 20):
        near(pair, {"ids": np.arange(n) % 20})
    with pytest.raises(lt.LazytenError, match="20"):
        pair[0]({"ids": np.full(21, 20)})
    near(pair, {"ids": np.arange(22) % 20})
