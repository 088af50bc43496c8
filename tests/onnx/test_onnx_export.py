"""Functions of tensors written as models: accepted by the checker, and equal in onnxruntime."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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


def ints(*shape: int, high: int = 9, low: int = 0) -> lt.Tensor:
    return lt.randint(low, high, shape)


CASES: dict[str, tuple[Callable[[], Any], Callable[[], list[lt.Tensor]]]] = {
    "LeNet": (LeNet, lambda: [lt.randn(2, 1, 28, 28)]),
    "a GPT block": (Block, lambda: [ints(2, 16, high=50)]),
    "ResNet": (lambda: ResNet().eval(), lambda: [lt.randn(2, 3, 16, 16)]),
    "LSTM": (lambda: nn.LSTM(5, 7, batch_first=True), lambda: [lt.randn(2, 6, 5)]),
    "GRU": (lambda: nn.GRU(5, 7, bidirectional=True), lambda: [lt.randn(4, 2, 5)]),
    "integers": (lambda: lambda x, y: (x // y, x % y, (x * y) ** 2, x & y, x | y, x ^ y, ~x, -x,
                                       x.to(lt.float32) // 3, x.to(lt.float32) % 3),
                 lambda: [ints(4, 5, low=-9), ints(5, low=-2, high=3)]),
    "comparisons": (lambda: lambda x, y: (x < y, (x >= y) & (x != 0), ~(x == y), x.maximum(y),
                                          (x > 0).any(1), (x > 0).all(0), lt.where(x > y, x, 1)),
                    lambda: [lt.randn(4, 5), lt.randn(5)]),
    "views": (lambda: lambda x: (x.flip(0)[1:, ::2], x.unfold(1, 3, 2), F.pad(x, (1, 2, 0, 1)),
                                 F.pad(x > 0, (1, 0)), x.T.roll(1, 0), x.diagonal(), x.triu(),
                                 lt.stack([x, -x], 1), lt.cat([x, x[:1]])),
              lambda: [lt.randn(5, 7)]),
    "sums": (lambda: lambda x: (x.sum(0), x.mean(), x.prod(1), x.amax((0, 1)), x.cumsum(1),
                                x.var(1), x.argmax(0), x.logsumexp(1), x.norm()),
             lambda: [lt.randn(4, 5)]),
    "indices": (lambda: lambda x, i: (
        x[i], x.gather(0, i[:, None].expand(3, 5)), x.index_select(1, i),
        x.scatter_add(0, i[:, None].expand(3, 5), x[:3]), x.index_fill(0, i, 2.0),
        x.sort(1)[0], x.topk(2, 1)[1], F.one_hot(i, 6)), lambda: [lt.randn(4, 5), ints(3, high=4)]),
    "order of long axes": (lambda: lambda x, i: (x.sort(1)[0], x.argsort(1), x.topk(3, 1)[0],
                                                 i.sort(0)[1]),
                           lambda: [lt.randn(4, 60), lt.arange(40).flip(0)]),
    "functions": (lambda: lambda x: (x.exp(), x.abs().log(), x.sin(), x.cos(), x.tanh(), x.erf(),
                                     x.sigmoid(), x.abs().sqrt(), x.exp2(), x.abs().pow(1.5),
                                     F.gelu(x), F.silu(x), x.round(), x.floor()),
                  lambda: [lt.randn(4, 5) * 2]),
    "functions of bits": (lambda: lambda x: (
        x.atan(), x.tanh().asin(), x.sinh(), x.tanh().acos(), lt.atan2(x, x.flip(0)), x % 0.7,
        x.fmod(0.3), x.tanh().erfinv(), x.double().atan(), lt.nextafter(x, x + 1)),
        lambda: [lt.randn(4, 5)]),
    "types": (lambda: lambda x: (x.to(lt.int32), x.to(lt.float64) * 2, (x > 0).to(lt.uint8),
                                 x.to(lt.float16).sum(1)), lambda: [lt.randn(4, 5)]),
    "products": (lambda: lambda x, y: (
        x @ y, lt.einsum("bij,bjk->ik", x, y), F.conv1d(x, y[:1, :3, :4].reshape(2, 3, 2)),
        F.conv_transpose1d(x, y[:1, :3].reshape(3, 2, 2), stride=2), F.max_pool1d(x, 2, 1),
        F.avg_pool1d(x, 2)), lambda: [lt.randn(2, 3, 4), lt.randn(2, 4, 4)]),
}


INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""Types that the standard has only some operators for, and onnxruntime fewer."""


def on_any_type(x: lt.Tensor, y: lt.Tensor) -> tuple[lt.Tensor, ...]:
    index = lt.tensor([[0, 2], [1, 0]])
    found = (lt.where(x > y, x, y), x.gather(1, index), F.pad(x, (1, 0)), lt.cat([x, y]),
             x.sort(1)[0], x.scatter_add(1, index, y[:, :2]), x.maximum(y), x.tril())
    if x.dtype is lt.bool_:
        return found
    return (*found, -x, x // y, x % y, x.cumsum(1), x.prod(0, dtype=x.dtype), x @ y.T)


def of_type(name: str) -> Callable[[], list[lt.Tensor]]:
    dtype = getattr(lt, name.replace("bool", "bool_"))
    return lambda: [ints(2, 3, high=2 if name == "bool" else 9).to(dtype),
                    ints(2, 3, low=0 if name == "bool" else 1, high=2).to(dtype)]


CASES |= {name: (lambda: on_any_type, of_type(name)) for name in INTEGERS}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_an_exported_function_gives_the_same_in_onnxruntime_and_here(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    lt.manual_seed(0)
    make, examples = CASES[name]
    function, inputs = make(), examples()
    proto = lt.onnx.export(function, [lt.zeros_like(x) for x in inputs])
    onnx.checker.check_model(proto, full_check=True)
    feeds = {f"input_{i}": x.numpy() for i, x in enumerate(inputs)}
    session = runtime.InferenceSession(proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])
    found, again = session.run(None, feeds), lt.onnx.load(proto)(feeds)
    with lt.no_grad():
        wanted = [x.numpy() for x in flatten(function(*inputs))[0]]
    assert len(found) == len(wanted)
    for one, other, here in zip(found, wanted, again, strict=True):
        assert one.dtype == here.dtype == other.dtype and one.shape == here.shape == other.shape
        tolerance = 1e-2 if one.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(here, other, rtol=tolerance, atol=tolerance)


def test_a_file_has_the_names_asked_for_and_those_of_parameters(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = nn.Linear(3, 2)
    lt.onnx.export(model, lt.randn(4, 3), path, input_names=["x"], output_names=["y"])
    proto = onnx.load(str(path))
    assert [x.name for x in proto.graph.input] == ["x"]
    assert [x.name for x in proto.graph.output] == ["y"]
    assert {"weight", "bias"} <= {x.name for x in proto.graph.initializer}
    assert not list(tmp_path.glob("*.part"))
    x = np.ones((4, 3), np.float32)
    np.testing.assert_allclose(lt.onnx.load(path)([x])[0], model(lt.tensor(x)).detach().numpy(),
                               rtol=1e-6)


@pytest.mark.parametrize(("real", "whole"), [("float32", "int32"), ("float64", "int64")])
def test_bits_of_floats_are_exact(real: str, whole: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    info, random = np.finfo(real), np.random.default_rng(0)
    limits = np.iinfo(whole)
    x = random.integers(limits.min, limits.max, 3000, dtype=whole).view(real)
    x = np.append(x, np.array([0, np.inf, 1, 2, info.tiny, info.max, info.smallest_subnormal,
                               info.tiny - info.smallest_subnormal, np.nextafter(2, 1)], real))
    x = np.concatenate([x[~np.isnan(x)], -x[~np.isnan(x)], np.array([np.nan], real)])
    there, back = (lt.onnx.export(lambda v, to=to: v.bitcast(getattr(lt, to)), lt.zeros(
        len(x), dtype=getattr(lt, of))).SerializeToString()
        for of, to in ((real, whole), (whole, real)))
    for proto, given in ((there, x), (back, x.view(whole))):
        session = runtime.InferenceSession(proto, providers=["CPUExecutionProvider"])
        [found] = session.run(None, {session.get_inputs()[0].name: given})
        np.testing.assert_array_equal(found.view(whole), x.view(whole))
        np.testing.assert_array_equal(lt.onnx.load(proto)([given])[0].view(whole), x.view(whole))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_floor_division_of_floats_and_its_rest_are_right(dtype: str) -> None:
    """Also of what is infinite, of large quotients, and by 0."""
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    some = np.array([0, .1, -.1, .3, 1, -1, 2.5, -2.5, 7, 12345.6, -6e4, np.inf, -np.inf, np.nan])
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(some, some))

    def parts(a: lt.Tensor, b: lt.Tensor) -> list[lt.Tensor]:
        return [a // b, a % b, a // 2, a % -3, a.floor(), b.ceil()]
    wanted = parts(lt.tensor(x), lt.tensor(y))
    proto = lt.onnx.export(parts, [lt.tensor(x), lt.tensor(y)], input_names=["x", "y"])
    session = runtime.InferenceSession(proto.SerializeToString())
    for found in (session.run(None, {"x": x, "y": y}), lt.onnx.load(proto)([x, y])):
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(have, want.numpy(), rtol=np.finfo(dtype).eps)  # type: ignore[arg-type]


@pytest.mark.parametrize(("function", "words"), [
    (lambda x: x * x.sum().item(), "looks at a value.*inside a function that is exported"),
    (lambda x: x if x.sum() > 0 else -x, "looks at a value"),
    (lambda x: x + lt.rand(3), "random numbers"),
    (lambda x: None, "returns no tensor"),
    (lambda x: lt.complex(x, x), "no complex numbers"),
    (lambda x: x.to(lt.float8_e5m2), "float8_e5m2 values are not exported"),
    (lambda x: x.half().bitcast(lt.int16), "bits of float16 as int16 are not"),
    (3, "give a function")])
def test_what_a_file_cannot_do_is_refused(function: Any, words: str) -> None:
    with pytest.raises(lt.ArgumentError, match=words):
        lt.onnx.export(function, lt.ones(3))


def test_a_layer_that_trains_is_refused_and_stays_as_it_is() -> None:
    model = nn.BatchNorm1d(3)
    with pytest.raises(lt.ArgumentError, match=r"model\.eval"):
        lt.onnx.export(model, lt.randn(4, 3))
    assert model.running_mean.tolist() == [0, 0, 0] and model.running_var.tolist() == [1, 1, 1]


def test_weights_that_no_message_holds_stand_beside_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyten.onnx.writing import exporting
    monkeypatch.setattr(exporting, "MOST_BYTES", 1 << 12)
    model, x = nn.Linear(64, 64), lt.randn(2, 64)
    with pytest.raises(lt.ArgumentError, match="give a path"):
        lt.onnx.export(model, x)
    for _ in range(2):  # what was there before goes
        lt.onnx.export(model, x, tmp_path / "net.onnx")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"net.onnx", "net.onnx.data"}
    assert sizes["net.onnx"] < 1 << 11 and 1 << 14 <= sizes["net.onnx.data"] < 1 << 15
    found = lt.onnx.load(tmp_path / "net.onnx")([x])[0]
    np.testing.assert_allclose(found.numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)


def test_names_are_one_for_each() -> None:
    with pytest.raises(lt.ArgumentError, match="each needs a name of its own"):
        lt.onnx.export(lambda x: x + 1, lt.ones(2), input_names=["a", "b"])
