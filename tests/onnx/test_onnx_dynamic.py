"""Models whose sizes vary: equal in onnxruntime and here at sizes that they were not made of."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_if_there
import pytest
from onnx_functions import Block, LeNet, ResNet

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional as F
from lazyten.support.trees import flatten

onnx = onnx_if_there.needed()

Shapes = Callable[..., Sequence[tuple[int, ...]]]


class Limited(nn.Module):
    """Does something else at one size, which is no literal of its code."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 300

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return x * 3 if x.shape[0] == self.limit else x * 2


class Texts(nn.Module):
    """A GPT of two layers, for up to 24 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(24, 16)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.0, batch_first=True, norm_first=True) for _ in range(2)])
        self.head = nn.Linear(16, 50)

    def forward(self, ids: lt.Tensor) -> lt.Tensor:
        length = ids.shape[1]
        x = self.words(ids) + self.places(lt.arange(length))
        mask = lt.triu(lt.full((length, length), -math.inf), 1)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(x)  # type: ignore[no-any-return]


def given(shapes: Sequence[tuple[int, ...]], integers: bool) -> list[lt.Tensor]:
    if integers:
        return [lt.randint(0, 5, shape) for shape in shapes]
    return [lt.randn(*shape) for shape in shapes]


def check(function: Callable[..., Any], shapes: Shapes, dynamic: Any, example: Sequence[int],
          sizes: Sequence[Sequence[int]], *, integers: bool = False, here: int = 2) -> Any:
    """Export with an example, and compare at sizes; in lazyten at the first `here`, too."""
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    proto = lt.onnx.export(function, given(shapes(*example), integers), dynamic=dynamic)
    onnx.checker.check_model(proto, full_check=True)
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    session = runtime.InferenceSession(proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])
    loaded = lt.onnx.load(proto)
    for turn, size in enumerate(sizes):
        inputs = given(shapes(*size), integers)
        feeds = {f"input_{i}": x.numpy() for i, x in enumerate(inputs)}
        with lt.no_grad():
            wanted = [x.numpy() for x in flatten(function(*inputs))[0]]
        _near(session.run(None, feeds), wanted)
        if turn < here:
            _near(loaded(feeds), wanted)
    return proto


def _near(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def sizes_of(proto: Any) -> list[list[int | str]]:
    """The shapes of a model's outputs."""
    return [[d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim]
            for x in proto.graph.output]


# ---- models --------------------------------------------------------------------------------------

BATCH, SEQ = {0: {0: lt.Dim("batch")}}, {0: {0: lt.Dim("batch", 1, 64), 1: lt.Dim("seq", 1, 24)}}
MODELS: dict[str, tuple[Callable[[], Any], Shapes, Any, list[list[int]], bool]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)),
                   lambda n: [(n, 3)], BATCH, [[1], [33]], False),
    "LeNet": (LeNet, lambda n: [(n, 1, 28, 28)], BATCH, [[1], [7]], False),
    "ResNet": (lambda: ResNet().eval(), lambda n: [(n, 3, 16, 16)], BATCH, [[1], [7]], False),
    "images of any size": (lambda: ResNet().eval(), lambda h, w: [(2, 3, h, w)],
                           {0: {2: lt.Dim("h", 4, 512), 3: lt.Dim("w", 4, 512)}},
                           [[4, 9], [17, 32], [20, 5]], False),
    "a GPT": (Texts, lambda n, t: [(n, t)], SEQ, [[1, 1], [3, 24], [1, 7], [2, 1]], True),
    "a GPT block": (Block, lambda n: [(n, 16)], BATCH, [[1], [5]], True),
    "LSTM": (lambda: nn.LSTM(5, 7, batch_first=True), lambda n, t: [(n, t, 5)], SEQ,
             [[1, 1], [3, 11], [16, 2], [2, 1], [1, 5]], False),
    "GRU": (lambda: nn.GRU(5, 7, 2, bidirectional=True), lambda t: [(t, 2, 5)], {0: {0: "seq"}},
            [[1], [9], [2]], False),
    "a state without gaps": (lambda: nn.RNN(5, 16), lambda t, n: [(t, n, 5)],
                             {0: {0: "seq", 1: "batch"}}, [[1, 1], [9, 2], [2, 3]], False),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_varying_sizes_gives_the_same_everywhere(name: str) -> None:
    lt.manual_seed(0)
    make, shapes, dynamic, sizes, integers = MODELS[name]
    check(make(), shapes, dynamic, [5 + 2 * i for i in range(len(sizes[0]))], sizes,
          integers=integers)


# ---- operations ----------------------------------------------------------------------------------

def rows(n: int) -> list[tuple[int, ...]]:
    return [(n, 6)]


def causal(x: lt.Tensor) -> lt.Tensor:
    return F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)  # type: ignore[no-any-return]


def rotary(x: lt.Tensor) -> lt.Tensor:
    angle = lt.arange(x.shape[0]).float()[:, None] * lt.tensor([1.0, 0.1, 0.01])
    a, b = x[:, ::2], x[:, 1::2]
    return lt.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()],
                    -1).flatten(-2)


OPERATIONS: dict[str, tuple[Callable[..., Any], list[list[int | str]]]] = {
    "means, whose divisor varies": (lambda x: (x.mean(0), x.mean()), [[6], []]),
    "deviations": (lambda x: (x[:, :2].std(0, correction=0),), [[2]]),
    "a share": (lambda x: x * (2.5 / x.shape[0]), [["n", 6]]),
    "a root": (lambda x: x / math.sqrt(x.shape[0]), [["n", 6]]),
    "a size as a number": (lambda x: x * x.shape[0] + (x.shape[0] % 2), [["n", 6]]),
    "softmax and norm": (lambda x: (x.softmax(0), F.layer_norm(x, (6,)), x.logsumexp(0)),
                         [["n", 6], ["n", 6], [6]]),
    "joined": (lambda x: (lt.cat([x, x[:1], -x]), lt.stack([x, x], 1)),
               [["2*n + 1", 6], ["n", 2, 6]]),
    "padded": (lambda x: (F.pad(x, (0, 0, 1, 2)), F.pad(x > 0, (1, 0)), F.pad(
        x[:, None], (2, 1), mode="reflect")), [["n + 3", 6], ["n", 7], ["n", 1, 9]]),
    "split": (lambda x: (*x.split(4, 1), x[: x.shape[0] // 2 + 1]),
              [["n", 4], ["n", 2], ["(n // 2) + 1", 6]]),
    "steps": (lambda x: (x[::2], x.flip(0), x[-1], x.roll(1, 0)),
              [["(n + 1) // 2", 6], ["n", 6], [6], ["n", 6]]),
    "up to a limit": (lambda x: (x[:8], x[-8:].sum(0)), [["min(n, 8)", 6], [6]]),
    "reshaped": (lambda x: (x.reshape(-1), x.reshape(-1, 2, 3), x.T.flatten()),
                 [["6*n"], ["n", 2, 3], ["6*n"]]),
    "put at places": (lambda x: x.scatter(1, lt.zeros((x.shape[0], 1), dtype=lt.int64), 9.0),
                      [["n", 6]]),
    "ranges": (lambda x: (x + lt.arange(x.shape[0])[:, None], (x @ x.T).triu(),
                          lt.eye(x.shape[0], 6) + x), [["n", 6], ["n", "n"], ["n", 6]]),
    "constants": (lambda x: x + lt.tensor([1.0, 2, 3, 4, 5, 6]), [["n", 6]]),
    "order along a fixed axis": (lambda x: (x.argmax(1), x.sort(1)[0], x.topk(2, 1)[0]),
                                 [["n"], ["n", 6], ["n", 2]]),
    "order along the varying axis": (lambda x: (x.argmax(0), x.sort(0)[0], x.amax(0)),
                                     [[6], ["n", 6], [6]]),
    "products": (lambda x: (x @ x.T, x.T @ x, lt.einsum("ij,kj->ik", x, x[:1])),
                 [["n", "n"], [6, 6], ["n", 1]]),
    "attention": (causal, [[1, "n", 6]]),
    "rotary positions": (rotary, [["n", 6]]),
    "sums up to each": (lambda x: (x.cumsum(0), x.cumsum(1), (x > 0).cumsum(0)), [["n", 6]] * 3),
    "products and maxima up to each": (lambda x: (
        x.cumprod(0), *x.cummax(0), *x.cummin(0), x.logcumsumexp(0)), [["n", 6]] * 6),
    "places in a line": (lambda x: (lt.searchsorted(x[:, 0].sort()[0], x), lt.bucketize(
        x[:, 0], x[0].sort()[0]), lt.searchsorted(x[:, 0].sort()[0], x[0], right=True)),
        [["n", 6], ["n"], [6]]),
    "a size up to a limit": (lambda x: (x[:min(x.shape[0], 20) // 3 + 1], x[:min(
        x.shape[0] // 3 + 1, 9)], x * max(x.shape[0] // 2, 10)), [
        ["min((n // 3) + 1, 7)", 6], ["min((n // 3) + 1, 9)", 6], ["n", 6]]),
    "a size that is compared": (lambda x: (
        x * (2 if x.shape[0] < 12 else 3), x[: 1 if x.shape[0] <= 12 else x.shape[0] // 3]),
        [["n", 6], ["1 if n < 13 else n // 3", 6]]),
    "a logarithm": (lambda x: x * math.log(x.shape[0] + 1), [["n", 6]]),
    "indices": (lambda x: (F.one_hot(x.argmax(1), 6), x.gather(1, x.argsort(1)),
                           lt.zeros(6).scatter_add(0, x.argmax(1), x[:, 0])),
                [["n", 6], ["n", 6], [6]]),
    "windows": (lambda x: (F.max_pool1d(x.T, 2, ceil_mode=True), F.interpolate(
        x.T[None], scale_factor=2), F.conv1d(x.T, lt.ones(1, 6, 3), padding=1, stride=2),
        F.adaptive_avg_pool1d(x.T, 1)),
        [[6, "n - (n // 2)"], [1, 6, "2*n"], [1, "n - (n // 2)"], [6, 1]]),
    "losses": (lambda x: (F.cross_entropy(x, x.argmin(1)), F.mse_loss(x, x.flip(0))), [[], []]),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_on_a_varying_axis_gives_the_same_everywhere(name: str) -> None:
    lt.manual_seed(0)
    function, sizes = OPERATIONS[name]
    proto = check(function, rows, {0: {0: "n"}}, [5], [[1], [12], [2], [9], [33]])
    assert sizes_of(proto) == sizes
    assert [d.dim_param or d.dim_value
            for d in proto.graph.input[0].type.tensor_type.shape.dim] == ["n", 6]


def test_numbers_that_a_size_is_compared_with_may_be_given() -> None:
    for function in (branches, partial(branches, at=900)):
        check(function, rows, {0: {0: "n"}}, [5], [[1], [776], [777], [778], [899], [900]])


def test_what_was_not_computed_before_is_computed_once() -> None:
    weight = lt.randn(6, 2)
    check(lambda x: x @ weight, rows, {0: {0: "n"}}, [5], [[1], [9]])


def test_graphs_that_differ_are_compared_with_other_integers_than_the_example_has() -> None:
    def limited(x: lt.Tensor, i: lt.Tensor) -> lt.Tensor:
        return x.sum() + (i.clamp(max=5) if x.shape[0] == 1 else lt.where(i == i, i, 0))
    few = lt.tensor([0, 3, 1, 2, 0, 1, 3, 2, 0])
    with pytest.raises(lt.ArgumentError, match="where n is 1 the function does something else"):
        lt.onnx.export(limited, [lt.ones(6), few], dynamic={0: {0: "n"}})


def test_starts_of_bags_are_not_taken_for_those_of_the_example() -> None:
    """In a search of as many steps as there are bits in a length."""
    table = lt.randn(50, 3)

    def bags(i: lt.Tensor, starts: lt.Tensor) -> lt.Tensor:
        return F.embedding_bag(i, table, starts, mode="sum")
    proto = lt.onnx.export(bags, (lt.ones(7, dtype=lt.int64), lt.tensor([0, 3])),
                           dynamic={0: {0: lt.Dim("n", 1, 300)}, 1: {0: lt.Dim("bags", 1, 9)}})
    i, starts = lt.randint(0, 50, (300,)), lt.arange(0, 270, 30)
    found, = lt.onnx.load(proto)([i, starts])
    assert lt.allclose(found, bags(i, starts), rtol=1e-4, atol=1e-4)


def test_two_sizes_make_products_of_both() -> None:
    proto = check(lambda x, y: (x[:, None] * y, (x @ y.T).flatten(), lt.cat([x, y]).mean(0)),
                  lambda n, m: [(n, 3), (m, 3)], {0: {0: "n"}, 1: {0: "m"}}, [4, 6],
                  [[1, 1], [7, 3], [1, 5], [4, 1]])
    assert sizes_of(proto) == [["n", "m", 3], ["n*m"], [3]]
    proto = check(lambda x: x.flatten(0, 1)[x.shape[0] * x.shape[1] // 2:],
                  lambda n, m: [(n, m, 3)], {0: {0: "n", 1: "m"}}, [4, 6], [[1, 1], [7, 3], [2, 5]])
    assert sizes_of(proto) == [["n*m - (n*m // 2)", 3]]


def test_what_differs_only_where_all_sizes_are_small_is_seen() -> None:
    dims = {0: {0: lt.Dim("n", 2, 64), 1: lt.Dim("m", 2, 300)}}
    with pytest.raises(lt.ArgumentError, match="where n is 2, m is 2 the function has other"):
        lt.onnx.export(lambda x: x.flatten(0, 1)[-5:], lt.ones(4, 6, 3), dynamic=dims)


def test_images_of_any_size_are_convolved_and_pooled() -> None:
    lt.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2))
    proto = check(net, lambda h, w: [(2, 1, h, w)],
                  {0: {2: lt.Dim("h", 4, 512), 3: lt.Dim("w", 4, 512)}}, [6, 9],
                  [[4, 5], [17, 32], [4, 4]], here=1)
    assert sizes_of(proto) == [[2, 2, "(h + 1) // 4", "(w + 1) // 4"]]


def test_axes_of_one_dim_have_one_size() -> None:
    dim = lt.Dim("n", 2, 40)
    proto = check(lambda x, y: x + y, lambda n: [(n, 3), (n, 3)], {"x": {0: dim}, "y": {0: dim}},
                  [4], [[2], [40]])
    assert sizes_of(proto) == [["n", 3]]
    with pytest.raises(lt.ShapeError, match=r"onnx\.export of .*size 3, and axis 0 .* 2, but both"):
        lt.onnx.export(lambda x, y: x + y, [lt.ones(2, 1), lt.ones(3, 1)],
                       dynamic={"x": {0: dim}, "y": {0: dim}})


# ---- how it is said ------------------------------------------------------------------------------

@pytest.mark.parametrize("said", [
    {"dynamic": {"x": {0: lt.Dim("batch")}}}, {"dynamic": {0: {0: "batch"}}},
    {"dynamic": {"image": {-2: "batch"}}}, {"dynamic_axes": {"image": {0: "batch"}}},
    {"dynamic_axes": {"image": {0: "batch"}, "score": {0: "batch"}}}])
def test_axes_are_named_as_for_jit_or_as_in_pytorch(said: Any) -> None:
    proto = lt.onnx.export(lambda x: x * 2, lt.ones(3, 2), input_names=["image"],
                           output_names=["score"], **said)
    assert sizes_of(proto) == [["batch", 2]]


def test_axes_without_a_name_get_one() -> None:
    proto = lt.onnx.export(lambda x: x * 2, lt.ones(3, 2), dynamic_axes={"input_0": [0, 1]})
    assert sizes_of(proto) == [["input_0_0", "input_0_1"]]


def test_a_word_is_the_dim_of_that_name() -> None:
    with pytest.raises(lt.ShapeError, match=r"Dim\('n', 4, 8\) is from 4 to 8"):
        lt.onnx.export(lambda x, y: x + y, [lt.ones(3, 1), lt.ones(3, 1)],
                       dynamic={"x": {0: "n"}, "y": {0: lt.Dim("n", 4, 8)}})


@pytest.mark.parametrize(("said", "words"), [
    ({"dynamic": {"z": {0: "n"}}}, r"onnx\.export\(dynamic='z'\): there is no such argument"),
    ({"dynamic": {"x": {7: "n"}}}, "without the axis 7"),
    ({"dynamic": {"x": 3}}, "takes a dict of axes"), ({"dynamic": 3}, "give a dict"),
    ({"dynamic": {"x": {0: "n"}}, "dynamic_axes": {"x": [0]}}, "give one"),
    ({"dynamic": {"x": {0: "not a word"}}}, "its name is a word")])
def test_what_makes_no_sense_is_refused(said: Any, words: str) -> None:
    with pytest.raises(lt.LazytenError, match=words):
        lt.onnx.export(lambda x: x * 2, lt.ones(3, 2), **said)


# ---- what does not vary --------------------------------------------------------------------------

def branches(x: lt.Tensor, at: int = 777) -> lt.Tensor:
    return x * 2 if x.shape[0] < at else x * 3


def helped(x: lt.Tensor) -> lt.Tensor:
    return branches(x, 90_000) * x.shape[0]


def around(limit: int) -> Callable[[lt.Tensor], lt.Tensor]:
    return lambda x: x * 2 if x.shape[0] != limit else x * 3


class Callee:
    def __init__(self) -> None:
        self.limit = 5432

    def __call__(self, x: lt.Tensor) -> lt.Tensor:
        return x * 3 if x.shape[0] == self.limit else x * 2


@pytest.mark.parametrize(("function", "words"), [
    (helped, r"a number of CONST at test_onnx_dynamic\.py:\d+ is 2 where n is 2, .*n is 9000"),
    (Limited(), "3 where n is 300"), (around(23456), "3 where n is 23456"),
    (Callee(), "3 where n is 5432"),
    (lambda x: x * math.exp(-x.shape[0]), "no expression of sizes says so.*lazyten.arange"),
    (lambda x: x + lt.tensor(list(range(x.shape[0])))[:, None],
     "a tensor is made of other values at each size, BUFFER at"),
    (lambda x: sum(x[i] for i in range(x.shape[0])), "a loop of Python over a size"),
    (lambda x: x + lt.linspace(0, 1, x.shape[0])[:, None], "where n is 1 the function has other"),
    (lambda x: x.chunk(2), r"where n is 1 .*\(it returns more tensors, or fewer"),
    (lambda x: F.embedding(lt.arange(x.shape[0]), lt.ones(40, 2)),
     "where n is 4099: .*index 40 is outside axis 0.* give the Dim a max"),
    (lambda x: x.reshape(x.shape[0] // 5, 5, -1), "where n is 2 it raises ShapeError.*ranges"),
    (lambda x: x * x.sum().item(), "looks at a value"),
], ids=range(12))
def test_a_size_is_never_baked_in(function: Any, words: str) -> None:
    with pytest.raises(lt.ArgumentError, match=words):
        lt.onnx.export(function, lt.ones(5, 6), dynamic={0: {0: "n"}})


def test_a_range_without_the_sizes_that_differ_is_taken() -> None:
    dim = lt.Dim("n", 2, 700)
    check(branches, rows, {0: {0: dim}}, [5], [[2], [699]])
    check(lambda x: x + lt.linspace(0, 1, x.shape[0])[:, None], rows, {0: {0: dim}}, [5],
          [[2], [31]])


def test_sizes_that_are_compared_need_not_take_the_integers_of_the_example() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

    def chosen(x: lt.Tensor, i: lt.Tensor) -> lt.Tensor:
        return (x if x.shape[0] == 1 else lt.where(x == x, x, 0.0))[i]
    proto = lt.onnx.export(chosen, [lt.randn(6, 3), lt.tensor([5, 4])],
                           dynamic={"x": {0: "n"}, "i": {0: "m"}})
    session = runtime.InferenceSession(proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])
    x = np.ones((1, 3), np.float32)
    found, = session.run(None, {"input_0": x, "input_1": np.zeros(4, np.int64)})
    np.testing.assert_array_equal(found, np.ones((4, 3), np.float32))


def test_what_fails_at_the_example_fails_as_it_does_there() -> None:
    with pytest.raises(ZeroDivisionError):
        lt.onnx.export(lambda x: x * (1 // 0), lt.ones(5, 6), dynamic={0: {0: "n"}})


def test_what_is_not_named_stays_as_it_is() -> None:
    def last(x: lt.Tensor) -> lt.Tensor:
        return x[:, -1] * x.shape[1]
    proto = check(last, rows, {0: {0: "n"}}, [5], [[1], [8]])
    assert len(proto.graph.node) < 10
    assert "Shape" not in {node.op_type for node in proto.graph.node}


def test_sums_up_to_each_element_are_one_operator() -> None:
    proto = lt.onnx.export(partial(lt.cumsum, dim=1), lt.ones(2, 300))
    assert "CumSum" in {node.op_type for node in proto.graph.node}


def test_sizes_that_differ_alike_are_compared_where_that_is_not_too_much() -> None:
    """Two outputs are fewer than three taps, so that windows slide along them, in any batch."""
    check(nn.Conv1d(8, 128, 3, padding=1), lambda b, n: [(b, 8, n)],
          {0: {0: "b", 2: lt.Dim("n", 2, 9)}}, [2, 5], [[1, 2], [3, 9], [300, 2], [5, 3]])


def test_what_differs_where_it_is_too_much_to_compare_is_refused() -> None:
    def products(x: lt.Tensor) -> lt.Tensor:
        found = x[:, None] * x[None]
        return (found if x.shape[0] <= 4096 else lt.where(found == found, found, 0.0)).sum(1)
    with pytest.raises(lt.ArgumentError, match="too much to run"):
        lt.onnx.export(products, lt.zeros(5), dynamic={0: {0: "n"}})
