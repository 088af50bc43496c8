"""Products of integers: lt.quantize with examples; and models that train for it."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_values import normal

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional as F
from lazyten.quantization import MinMax, MovingAverage, Observer, Percentile, convert, prepare

Array = np.ndarray[Any, Any]


def held(x: Array, scale: np.float32, low: int, high: int) -> Array:
    return np.clip(np.rint(x * (np.float32(1) / scale)), low, high)


@pytest.mark.parametrize("signed", [True, False])
def test_a_linear_layer_sums_products_of_integers(signed: bool, device: str) -> None:
    lt.manual_seed(0)
    layer = nn.Linear(40, 7).to(device)
    x = normal(5, 40) if signed else np.abs(normal(5, 40))
    made = lt.quantize(layer, examples=[lt.tensor(x * 0.8, device=device)])
    scale = np.float32(np.abs(x * np.float32(0.8)).max() / np.float32(127 if signed else 255))
    assert made.quantized_input.scale.item() == pytest.approx(scale, rel=1e-6)
    whole = held(x, made.quantized_input.scale.numpy(), *((-127, 127) if signed else (0, 255)))
    products = whole.astype(np.int64) @ made.integers.values.numpy().astype(np.int64).T
    expected = products * (made.quantized_input.scale.numpy()
                           * made.integers.scale.numpy().reshape(-1)) + layer.bias.detach().numpy()
    np.testing.assert_allclose(made(lt.tensor(x, device=device)).numpy(), expected, rtol=1e-5,
                               atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize(("layer", "shape"), [
    (nn.Conv1d(4, 6, 3, padding=1, padding_mode="replicate"), (2, 4, 9)),
    (nn.Conv2d(4, 6, 3, padding=2, stride=2, groups=2), (2, 4, 8, 9)),
    (nn.Conv2d(2, 3, 3, padding="same", dilation=2, bias=False), (2, 8, 9)),
    (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4))], ids=["line", "groups", "no batch", "blocks"])
def test_a_convolution_is_that_of_the_rounded_input_and_weight(layer: Any, shape: tuple[int, ...]
                                                               ) -> None:
    x = lt.tensor(normal(*shape))
    made = lt.quantize(layer, examples=[x])
    scale = made.quantized_input.scale.numpy()
    floats = lt.quantize(layer)
    rounded = lt.tensor(held(x.numpy(), scale, -127, 127) * scale)
    np.testing.assert_allclose(made(x).numpy(), floats(rounded).detach().numpy(), rtol=1e-4,
                               atol=1e-5)


def test_integers_between_layers_are_stored_in_a_byte() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    x = lt.tensor(normal(32, 64))
    made = lt.quantize(model, examples=[x])
    with lt.no_grad():
        text = lt.explain(made(x))
    assert "stores uint8[32, 64], 2,048 bytes" in text and "int32[" not in text


def test_layers_that_have_no_integer_products_keep_their_weights_as_integers() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: lt.Tensor) -> lt.Tensor:
            return super().forward(input) * 2
    model = nn.Sequential(nn.Embedding(5, 4), Doubled(4, 4), nn.Linear(4, 2))
    made = lt.quantize(model, examples=[lt.tensor([0, 3]), lt.tensor([1, 2])])
    assert not made.training and model.training
    assert [hasattr(m, "quantized_input") for m in made] == [False, False, True]
    x = lt.tensor([4, 1])
    np.testing.assert_allclose(made[:2](x).detach().numpy(),
                               lt.quantize(model)[:2](x).detach().numpy())


def test_examples_may_be_several_arguments_and_change_nothing() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.layer = nn.BatchNorm1d(3), nn.Linear(3, 2)
            self.drop = nn.Dropout(0.5)

        def forward(self, a: lt.Tensor, b: lt.Tensor) -> lt.Tensor:
            return self.layer(self.drop(self.norm(a)) + b)
    model = Sum()
    x = lt.tensor(normal(4, 3))
    made = lt.quantize(model, examples=((x, x * k) for k in range(3)))
    assert model.norm.num_batches_tracked is not None
    assert model.training and model.drop.training and not model._forward_pre_hooks
    assert model.norm.num_batches_tracked.item() == 0 and not model.layer._forward_pre_hooks
    most = np.abs(normal(4, 3)).max() * (2 + 1 / np.sqrt(1 + 1e-5))
    assert made.layer.quantized_input.scale.item() == pytest.approx(most / 127, rel=1e-5)


def test_a_state_says_whether_inputs_have_signs(tmp_path: Any) -> None:
    layer = nn.Linear(6, 3)
    x = lt.tensor(normal(4, 6))
    signed, positive = (lt.quantize(layer, examples=[e]) for e in (x, x.abs()))
    assert "input=int8" in repr(signed) and "input=uint8" in repr(positive)
    lt.save(signed.state_dict(), tmp_path / "state")
    positive.load_state_dict(lt.load(tmp_path / "state"))
    np.testing.assert_array_equal(signed(x).numpy(), positive(x).numpy())
    assert "input=int8" in repr(positive)


def test_other_floats_come_out_as_they_went_in() -> None:
    made = lt.quantize(nn.Linear(6, 3), examples=[lt.tensor(normal(4, 6))])
    assert made(lt.ones(2, 6, dtype=lt.float64)).dtype is lt.float64
    assert made.half()(lt.ones(2, 6, dtype=lt.float16)).dtype is lt.float16


# ---- observers -----------------------------------------------------------------------------------

BATCHES = [normal(50, seed=s) * scale for s, scale in enumerate((1, 3, 2))]


def watched(observer: Observer) -> Observer:
    for batch in BATCHES:
        observer.observe(lt.tensor(batch))
    return observer


def test_observers_find_the_range_that_they_say() -> None:
    found = {name: watched(make()) for name, make in (
        ("minmax", MinMax), ("moving", MovingAverage), ("percentile", Percentile))}
    lows, highs = [b.min() for b in BATCHES], [b.max() for b in BATCHES]
    moving = [ends[0] * 0.81 + ends[1] * 0.09 + ends[2] * 0.1 for ends in (lows, highs)]
    expected = {
        "minmax": (min(lows), max(highs)), "moving": tuple(moving),
        "percentile": tuple(np.mean([np.quantile(b, q) for b in BATCHES]) for q in (0.001, 0.999))}
    for name, observer in found.items():
        assert (observer.low.item(), observer.high.item()) == pytest.approx(expected[name], 1e-5)
        assert observer.batches.item() == 3


@pytest.mark.parametrize(("values", "limits"), [
    ([1.0, 2.0], (2 / 255, 0, 255)), ([-1.0, 3.0], (3 / 127, -127, 127)),
    ([-4.0, -1.0], (4 / 127, -127, 127)), ([0.0], (1.0, 0, 255)), ([], (1.0, 0, 255))])
def test_a_range_has_0_in_it(values: list[float], limits: tuple[float, int, int]) -> None:
    observer = MinMax()
    observer.observe(lt.tensor(values))
    assert [x.item() for x in observer.limits()] == pytest.approx(limits)


# ---- training ------------------------------------------------------------------------------------

def net() -> nn.Sequential:
    lt.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


IMAGES, LABELS = normal(16, 1, 6, 6), np.arange(16) % 4


@pytest.mark.parametrize("options", [
    {}, {"inputs": False}, {"inputs": False, "weights": "int4", "group_size": 3,
                            "symmetric": False}])
def test_a_trained_model_computes_what_it_was_trained_for(options: Any) -> None:
    model = net()
    ready = prepare(model, **options)
    assert {type(m) for m in model} == {nn.Conv2d, nn.ReLU, nn.Flatten, nn.Linear}
    optimizer = lt.optim.Adam(ready.parameters(), lr=1e-2)

    @lt.jit
    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        loss = F.cross_entropy(ready(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    x, y = lt.tensor(IMAGES), lt.tensor(LABELS)
    losses = [step(x, y).item() for _ in range(40)]
    assert losses[-1] < losses[0] / 2
    made = convert(ready)
    assert not made.training and ready.training
    with lt.no_grad():
        trained, floats = made(x).numpy(), ready.eval()(x).numpy()
    np.testing.assert_allclose(trained, floats, atol=1e-4)
    assert np.all((trained.argmax(1) == LABELS) == (floats.argmax(1) == LABELS))
    assert hasattr(made[0], "quantized_input") is options.get("inputs", True)


def test_gradients_are_those_of_the_rounded_weight_and_input() -> None:
    layer = nn.Linear(8, 3)
    ready = prepare(layer)
    x = lt.tensor(normal(5, 8), requires_grad=True)
    ready(x).square().sum().backward()
    scale = np.abs(normal(5, 8)).max() / np.float32(127)
    rounded = lt.tensor(held(normal(5, 8), scale, -127, 127) * scale, requires_grad=True)
    plain = nn.Linear(8, 3)
    with lt.no_grad():
        plain.weight.copy_(ready.weight)
        plain.bias.copy_(layer.bias)
    plain(rounded).square().sum().backward()
    original = ready.parametrizations.weight.original
    for found, expected in ((original.grad, plain.weight.grad), (x.grad, rounded.grad)):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-3, atol=1e-4)
    with lt.no_grad():
        np.testing.assert_array_equal(original.numpy(), layer.weight.numpy())


def test_ranges_follow_inputs_only_while_training() -> None:
    ready = prepare(nn.Linear(4, 2), observer="minmax").eval()
    ready(lt.ones(1, 4))
    assert ready.input_range.batches.item() == 0
    with pytest.raises(lt.ArgumentError, match="no input was observed"):
        convert(ready)
    ready.train()(lt.full((1, 4), 3.0))
    ready.eval()(lt.full((1, 4), 9.0))
    assert ready.input_range.high.item() == 3
    assert convert(ready).quantized_input.scale.item() == pytest.approx(3 / 255)


# ---- mistakes ------------------------------------------------------------------------------------

class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.other = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return self.used(x)


ONE = [lt.ones(1, 2)]
ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "no examples": (lambda: lt.quantize(nn.Linear(2, 2), examples=[]), lt.ArgumentError,
                    "there are no examples"),
    "4 bits": (lambda: lt.quantize(nn.Linear(2, 2), "int4", examples=ONE), lt.ArgumentError,
               "products of integers take symmetric int8 .* not int4; leave out examples"),
    "zero points": (lambda: prepare(nn.Linear(2, 2), symmetric=False), lt.ArgumentError,
                    "not int8, zero points; give inputs=False"),
    "observer": (lambda: lt.quantize(nn.Linear(2, 2), examples=ONE, observer="mean"),
                 lt.ArgumentError, "'mean' is not one of minmax, moving_average, percentile"),
    "no observer": (lambda: lt.quantize(nn.Linear(2, 2), examples=ONE, observer=nn.ReLU),  # type: ignore[arg-type]
                    lt.ArgumentError, "no name and no subclass"),
    "not reached": (lambda: lt.quantize(Unused(), examples=ONE), lt.ArgumentError,
                    r"other \(Linear\): no example reached the layer.*skip=\['other'\]"),
    "infinite": (lambda: lt.quantize(nn.Linear(2, 2), examples=[lt.full((1, 2), float("inf"))]),
                 lt.ArgumentError, "an input in the examples is infinite"),
    "long sums": (lambda: lt.quantize(nn.Linear(70_000, 1), examples=[lt.ones(1, 70_000)]),
                  lt.ArgumentError, "sum of 70,000 products, and an int32 holds that of 66,311"),
    "integers": (lambda: lt.quantize(nn.Linear(2, 2), examples=ONE)(lt.ones(1, 2).int()),
                 lt.DTypeError, "the input is int32; it takes floats"),
    "gradient": (lambda: lt.quantize(nn.Linear(2, 2), examples=ONE).train()(
        lt.ones(1, 2, requires_grad=True)), lt.GradientError, "no gradient flows through integers"),
    "convert": (lambda: convert(nn.Linear(2, 2)), lt.ArgumentError,
                "no layer of it trains for quantization"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_say_what_to_do(name: str) -> None:
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", [lt.int32, lt.int64])
@pytest.mark.parametrize("options", [{}, {"padding": 1, "stride": 2}, {"groups": 2}])
def test_convolutions_of_integers_are_exact(dtype: lt.DType, options: Any, device: str) -> None:
    random = np.random.default_rng(0)
    x, w = random.integers(-99, 99, (2, 4, 7, 6)), random.integers(-99, 99, (
        6, 4 // options.get("groups", 1), 3, 2))
    found = F.conv2d(lt.tensor(x, dtype=dtype, device=device),
                     lt.tensor(w, dtype=dtype, device=device), **options)
    exact = F.conv2d(lt.tensor(x.astype(np.float64)), lt.tensor(w.astype(np.float64)), **options)
    assert found.dtype is dtype
    np.testing.assert_array_equal(found.numpy(), exact.numpy())
