"""Models whose weights are integers: lt.quantize without examples."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn
from lazyten.quantization import QuantizedWeight, nbytes_of


def net() -> nn.Sequential:
    lt.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4 * 5 * 6, 8), nn.ReLU(), nn.Linear(8, 3))


IMAGES = np.random.default_rng(0).normal(size=(3, 2, 5, 6)).astype(np.float32)
ROWS = np.array([[0, 3], [6, 2]])
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...] | None]] = {
    "linear": (lambda: nn.Linear(12, 5), (4, 12)),
    "linear without bias": (lambda: nn.Linear(12, 5, bias=False), (2, 3, 12)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular"), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=2, groups=2), (2, 4, 9, 8)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, padding="same"), (1, 2, 4, 4, 4)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (2, 4, 5, 5)),
    "embedding": (lambda: nn.Embedding(7, 12, padding_idx=3), None),
    "embedding_bag": (lambda: nn.EmbeddingBag(7, 12), None),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("options", [
    {}, {"weights": "int4"}, {"symmetric": False}, {"weights": lt.int8, "group_size": 3},
    {"weights": "int4", "group_size": 2, "symmetric": False}], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_with_what_its_integers_stand_for(name: str, options: Any,
                                                           device: str) -> None:
    make, shape = LAYERS[name]
    lt.manual_seed(1)
    layer = make().to(device)
    if options.get("group_size") == 3 and layer.weight[0].numel() % 3:
        options = options | {"group_size": 2}
    x = lt.tensor(ROWS if shape is None else np.random.default_rng(0).normal(size=shape)
                  .astype(np.float32), device=device)
    quantized = lt.quantize(layer, **options)
    floats = quantized.weight.numpy()
    step = quantized.integers.scale.numpy().max()
    assert 0 < np.abs(floats - layer.weight.detach().numpy()).max() <= step * 0.501
    with lt.no_grad():
        layer.weight.copy_(lt.tensor(floats, device=device))
    np.testing.assert_allclose(quantized(x).detach().numpy(), layer(x).detach().numpy(), rtol=1e-5,
                               atol=1e-5)


def test_the_model_stays_and_the_copy_has_no_floats_but_biases_and_scales() -> None:
    model = net()
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    made = lt.quantize(model)
    assert type(model[0]) is nn.Conv2d and isinstance(made[0], nn.Conv2d)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert [name for name, _ in made.named_parameters()] == ["0.bias", "3.bias", "5.bias"]
    assert nbytes_of(made) == (72 + 960 + 24) + 4 * (4 + 8 + 3) * 2
    assert nbytes_of(lt.quantize(model, "int4")) == (36 + 480 + 12) + 4 * (4 + 8 + 3) * 2
    assert nbytes_of(model) == 4 * (72 + 960 + 24 + 15)


def test_what_is_quantized_prints_how() -> None:
    made = lt.quantize(net(), "int4", group_size=6, symmetric=False, skip=["5"])
    assert repr(made).splitlines()[1:7:3] == [
        "  (0): QuantizedConv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), "
        "weights=int4, groups of 6, zero points)",
        "  (3): QuantizedLinear(in_features=120, out_features=8, bias=True, weights=int4, groups "
        "of 6, zero points)"]
    assert repr(made[0].integers) == \
        "QuantizedWeight((4, 2, 3, 3), int4, groups of 6, zero points, 96 bytes)"
    assert type(made[5]) is nn.Linear


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{}, {"weights": "int4", "group_size": 2, "symmetric": False}])
def test_a_state_goes_through_a_file(options: Any, tmp_path: Any) -> None:
    first = lt.quantize(net(), **options)
    lt.save(first.state_dict(), tmp_path / "state")
    lt.manual_seed(9)
    second = lt.quantize(nn.Sequential(*[m if not hasattr(m, "reset_parameters") else
                                         (m.reset_parameters(), m)[1] for m in net()]), **options)
    x = lt.tensor(IMAGES)
    assert not np.array_equal(first(x).numpy(), second(x).numpy())
    second.load_state_dict(lt.load(tmp_path / "state"))
    np.testing.assert_array_equal(first(x).detach().numpy(), second(x).detach().numpy())
    with pytest.raises(lt.StateError, match=r"missing: 0.integers.values.*unexpected: 0.weight"):
        second.load_state_dict(net().state_dict())


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("rows", [1, 8, 300])
def test_no_copy_of_the_weights_in_floats_is_stored(weights: str, rows: int) -> None:
    layer = lt.quantize(nn.Linear(256, 128), weights, group_size=32)
    with lt.no_grad():
        text = lt.explain(layer(lt.ones(rows, 256)))
    assert "float32[128, " not in text
    fused = rows == 1 or weights == "int8"  # others are unpacked to a byte each
    assert ("1 kernel; intermediate values take 0 bytes" in text) is fused


def test_8_bits_are_scaled_in_the_product_of_any_batch() -> None:
    model = lt.quantize(nn.Sequential(nn.Conv2d(6, 16, 5), nn.Flatten(), nn.Linear(1600, 84)))
    with lt.no_grad():
        text = lt.explain(model(lt.ones(64, 6, 14, 14)))
    assert "2 kernels; " in text or "3 kernels; " in text
    assert "map_" not in text


def test_rows_of_an_embedding_are_made_of_integers_where_they_are_looked_up() -> None:
    layer = lt.quantize(nn.Embedding(5000, 64))
    with lt.no_grad():
        text = lt.explain(layer(lt.tensor(ROWS)))
    assert "5000" not in text


def test_gradients_flow_through_integers_to_inputs_and_biases() -> None:
    made = lt.quantize(net())
    x = lt.tensor(IMAGES, requires_grad=True)
    lt.jit(lambda x: made(x).square().sum())(x)
    made(x).square().sum().backward()
    floats = net()
    with lt.no_grad():
        for one, other in zip(floats, made, strict=True):
            if hasattr(one, "weight"):
                one.weight.copy_(other.weight)  # type: ignore[operator]
    y = lt.tensor(IMAGES, requires_grad=True)
    floats(y).square().sum().backward()
    assert x.grad is not None and y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(made[0].bias.grad.numpy(), floats[0].bias.grad.numpy(), rtol=1e-4)


def test_modes_types_and_shared_layers_are_kept() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Dropout(0.5), shared).eval()
    made = lt.quantize(model)
    assert made[0] is made[2] and not made.training and not made[0].integers.training
    assert made.train()[0].integers.training
    half = made.eval().half()
    assert half[0].weight.dtype is lt.float16 and half[0].integers.values.dtype is lt.int8
    assert half(lt.ones(2, 4, dtype=lt.float16)).dtype is lt.float16
    again = lt.quantize(nn.Sequential(made[0], nn.Linear(4, 2)))
    assert isinstance(again[0].integers, QuantizedWeight) and hasattr(again[1], "integers")


@pytest.mark.slow
def test_attention_reads_a_projection_that_is_integers() -> None:
    lt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = lt.tensor(np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32))
    off = (lt.quantize(layer)(x) - layer(x)).abs().max().item()
    assert 0 < off < 0.05


class WithTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 2, max_norm=1.0)


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "groups": (lambda: lt.quantize(net(), group_size=32), lt.ArgumentError,
               r"quantize: 0 \(Conv2d\): group_size=32 does not divide the 18 elements.*skip"),
    "size 0": (lambda: lt.quantize(net(), group_size=0), lt.ArgumentError, "group_size=0"),
    "half": (lambda: lt.quantize(net(), group_size=1.5), lt.ArgumentError,  # type: ignore[arg-type]
             "group_size=1.5 is not"),
    "type": (lambda: lt.quantize(net(), "int3"), lt.DTypeError, "'int3' is not one of int8, int4"),
    "dtype": (lambda: lt.quantize(net(), lt.int16), lt.DTypeError, "not one of int8, int4"),
    "symmetric": (lambda: lt.quantize(net(), symmetric=1), lt.ArgumentError,  # type: ignore[arg-type]
                  "symmetric=1 is not True or False"),
    "nothing": (lambda: lt.quantize(nn.ReLU()), lt.ArgumentError, "ReLU has nothing to quantize"),
    "all left out": (lambda: lt.quantize(net(), skip=["0", "3", "5"]), lt.ArgumentError,
                     "nothing to quantize.*but what skip leaves out"),
    "twice": (lambda: lt.quantize(lt.quantize(net())), lt.ArgumentError, "nothing to quantize"),
    "name": (lambda: lt.quantize(net(), skip=["6", "9"]), lt.ArgumentError,
             "'6', which is none of the model's modules: 0, 1, 2"),
    "no module": (lambda: lt.quantize(lt.ones(3)), lt.ArgumentError,  # type: ignore[arg-type]
                  "Tensor .* is not a module"),
    "lazy": (lambda: lt.quantize(nn.LazyLinear(3)), lt.ArgumentError, "has no sizes yet"),
    "max_norm": (lambda: lt.quantize(WithTable()), lt.ArgumentError,
                 r"table \(Embedding\): max_norm=1.0 writes"),
    "parametrized": (lambda: lt.quantize(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))),
                     lt.ArgumentError, "computed from others"),
    "assigned": (lambda: setattr(lt.quantize(net())[0], "weight", nn.Parameter(lt.ones(2))),
                 lt.ArgumentError, "weight is kept as integers"),
    "drawn": (lambda: lt.quantize(net())[0].reset_parameters(), lt.ArgumentError,  # type: ignore[operator]
              "integers are not drawn anew"),
    "input": (lambda: lt.quantize(net())[5](lt.ones(1, 7)), lt.ShapeError, "axis must be 8"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_say_what_to_do(name: str) -> None:
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call()
