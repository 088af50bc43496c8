"""Modules: parameters, state, modes, printing; dropout and initial values; mistakes explained."""
from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional as F
from lazyten.nn.modules import base


class Block(nn.Module):
    """A layer, a scale of its own, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.scale = nn.Parameter(lt.ones(2))
        self.register_buffer("count", lt.zeros(1))
        self.plain = lt.zeros(4)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        result: lt.Tensor = self.layer(x) * self.scale
        return result


def test_modules_know_their_parameters_and_buffers_by_name() -> None:
    model = nn.Sequential(Block(), nn.ReLU(), nn.Linear(2, 1, bias=False))
    names = ["0.scale", "0.layer.weight", "0.layer.bias", "2.weight"]
    assert [n for n, _ in model.named_parameters()] == names
    assert [n for n, _ in model.named_buffers()] == ["0.count"]
    assert sorted(model.state_dict()) == sorted([*names, "0.count"])
    assert len(list(model.modules())) == 5 and len(list(model.children())) == 3
    assert model[-1].bias is None and len(model) == 3


def test_a_shared_layer_is_counted_once_but_saved_under_both_names() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert len(list(model.parameters())) == 2
    loaded = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    loaded.load_state_dict(nn.Sequential(layer, nn.Linear(2, 2)).state_dict())
    assert loaded[0].weight.tolist() == layer.weight.tolist()


def test_state_round_trips_and_shares_memory() -> None:
    first, second = Block(), Block()
    second.load_state_dict(first.state_dict())
    x = lt.ones(4, 3)
    assert second(x).tolist() == first(x).tolist()
    with lt.no_grad():
        first.state_dict()["scale"].fill_(2)
    assert first.scale.tolist() == [2, 2] and second.scale.tolist() == [1, 1]
    assert all(p.is_leaf and p.requires_grad for p in second.parameters())
    second(x).sum().backward()
    assert second.layer.weight.grad is not None


def test_loading_wrong_state_is_refused_and_changes_nothing() -> None:
    model = Block()
    before = {n: t.numpy() for n, t in model.state_dict().items()}
    state: dict[str, lt.Tensor] = {n: t + 1 for n, t in model.state_dict().items()}
    del state["scale"]
    state["extra"] = lt.zeros(1)
    state["layer.bias"] = lt.zeros(7)
    with pytest.raises(lt.StateError) as info:
        model.load_state_dict(state)
    for word in ("missing: scale", "unexpected: extra", "layer.bias: saved (7,), here (2,)"):
        assert word in str(info.value)
    with pytest.raises(lt.StateError, match="another shape"):
        model.load_state_dict(state, strict=False)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    del state["layer.bias"]
    model.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(model.layer.weight.detach().numpy(), before["layer.weight"] + 1)


def test_train_and_eval_reach_every_module() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.9)))
    assert model.training and model.eval() is model
    assert not any(m.training for m in model.modules())
    x = lt.ones(50)
    assert model(x).tolist() == [1] * 50
    assert model.train()(x).tolist() != [1] * 50


def test_attributes_can_be_replaced_and_deleted() -> None:
    model = Block()
    model.scale = nn.Parameter(lt.zeros(2))
    model.layer = nn.Identity()
    assert [n for n, _ in model.named_parameters()] == ["scale"]
    del model.scale
    assert list(model.parameters()) == [] and not hasattr(model, "scale")


def test_parameters_of_what_is_shown_elsewhere_are_copies() -> None:
    source = lt.ones(2, 1)[:, 0]
    parameter = nn.Parameter(source)
    with lt.no_grad():
        parameter += 1
    assert source.tolist() == [1, 1] and parameter.is_leaf


def test_modules_move_to_a_device_and_dtype_and_keep_training() -> None:
    model = nn.Sequential(Block()).to("interpreter", lt.float64)
    for p in model.parameters():
        assert p.device == "interpreter" and p.dtype is lt.float64 and p.is_leaf
    model(lt.ones(1, 3, dtype=lt.float64, device="interpreter")).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())


def test_modules_print_as_a_tree() -> None:
    model = nn.Sequential(OrderedDict(one=nn.Linear(2, 3), two=nn.Sequential(nn.ReLU())))
    assert repr(model) == ("Sequential(\n"
                           "  (one): Linear(in_features=2, out_features=3, bias=True)\n"
                           "  (two): Sequential(\n"
                           "    (0): ReLU()\n"
                           "  )\n"
                           ")")


# ---- dropout -------------------------------------------------------------------------------------

def test_dropout_keeps_the_mean_and_drops_a_share(device: str) -> None:
    lt.manual_seed(3)
    x = lt.ones(100_000, device=device)
    for p in (0.1, 0.5, 0.9):
        values = F.dropout(x, p).numpy()
        kept = 1 / (1 - p)
        assert set(np.unique(values)) <= {np.float32(0), np.float32(kept)}
        share = np.mean(values == 0)
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / len(values))


def test_dropout_of_nothing_and_of_everything(device: str) -> None:
    x = lt.tensor([1.0, -2.0], device=device, requires_grad=True)
    assert F.dropout(x, 0.0) is x and F.dropout(x, 0.7, training=False) is x
    y = F.dropout(x, 1.0)
    y.sum().backward()
    assert y.tolist() == [0, 0] and x.grad is not None and x.grad.tolist() == [0, 0]


def test_dropouts_gradient_has_the_same_zeros(device: str) -> None:
    x = lt.ones(200, device=device, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad is not None
    lt.realize(y, x.grad)
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


def test_two_dropouts_differ_and_a_seed_repeats_them(device: str) -> None:
    x = lt.ones(64, device=device)
    lt.manual_seed(1)
    a, b = F.dropout(x), F.dropout(x)
    lt.manual_seed(1)
    c = F.dropout(x)
    assert a.tolist() != b.tolist() and a.tolist() == c.tolist()


# ---- initial values ------------------------------------------------------------------------------

INITS: list[tuple[Callable[[lt.Tensor], lt.Tensor], float, bool]] = [
    (nn.init.xavier_uniform_, math.sqrt(2 / 700), True),
    (nn.init.xavier_normal_, math.sqrt(2 / 700), False),
    (nn.init.kaiming_uniform_, math.sqrt(2 / 300), True),
    (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
     math.sqrt(2 / 400), False),
    (lambda t: nn.init.normal_(t, 0.0, 3.0), 3.0, False),
    (lambda t: nn.init.uniform_(t, -1.0, 1.0), 1 / math.sqrt(3), True)]


@pytest.mark.parametrize(("fill", "deviation", "uniform"), INITS)
def test_initial_values_have_the_deviation_of_their_formula(
        fill: Callable[[lt.Tensor], lt.Tensor], deviation: float, uniform: bool) -> None:
    lt.manual_seed(5)
    weight = lt.empty(400, 300, requires_grad=True)
    assert fill(weight) is weight and weight.is_leaf
    values = weight.detach().numpy()
    assert abs(values.mean()) < 5 * deviation / math.sqrt(values.size)
    assert values.std() == pytest.approx(deviation, rel=0.01)
    largest = np.abs(values).max() / deviation
    assert largest <= math.sqrt(3) * 1.0001 if uniform else largest > 3.5


def test_initial_values_are_the_same_from_host_and_device(
        device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for most in (base.MOST_ON_HOST, 0):
        monkeypatch.setattr(base, "MOST_ON_HOST", most)
        lt.manual_seed(5)
        made.append([nn.Conv2d(3, 4, (2, 5), device=device), nn.Linear(70, 33, device=device)])
    for host, compiled in zip(*made, strict=True):
        for a, b in zip(host.parameters(), compiled.parameters(), strict=True):
            assert (a.device, a.dtype, a.requires_grad) == (b.device, b.dtype, b.requires_grad)
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_fans_count_the_kernel() -> None:
    lt.manual_seed(6)
    weight = nn.init.kaiming_uniform_(lt.empty(64, 32, 3, 3)).numpy()
    assert weight.std() == pytest.approx(math.sqrt(2 / (32 * 9)), rel=0.02)


def test_layers_start_as_torchs_do() -> None:
    lt.manual_seed(7)
    linear, conv = nn.Linear(100, 200), nn.Conv2d(4, 50, 5, groups=2)
    for layer, fan in ((linear, 100), (conv, 50)):
        for p in layer.parameters():
            values = p.detach().numpy()
            assert np.abs(values).max() <= 1 / math.sqrt(fan)
            assert values.std() == pytest.approx(1 / math.sqrt(3 * fan), rel=0.2)
    norm = nn.LayerNorm(3)
    assert norm.weight.tolist() == [1, 1, 1] and norm.bias.tolist() == [0, 0, 0]
    assert nn.init.zeros_(lt.ones(2)).tolist() == [0, 0]
    assert nn.init.ones_(lt.zeros(2)).tolist() == [1, 1]
    assert nn.init.calculate_gain("tanh") == 5 / 3


# ---- mistakes ------------------------------------------------------------------------------------

def image(*shape: int) -> lt.Tensor:
    return lt.zeros(shape or (1, 3, 8, 8))


class Forgetful(nn.Module):
    """Does not call super().__init__()."""

    def __init__(self) -> None:
        self.layer = nn.Identity()


MISTAKES: list[tuple[Callable[[], Any], type[Exception], list[str]]] = [
    (lambda: nn.Linear(3, 2)(lt.zeros(4, 5)), lt.ShapeError, ["linear", "(4, 5)", "(2, 3)"]),
    (lambda: nn.Conv2d(4, 2, 3)(image()), lt.ShapeError, ["conv2d", "channels", "3", "4"]),
    (lambda: nn.Conv2d(3, 2, 9)(image()), lt.ShapeError, ["conv2d", "kernel of 9", "8"]),
    (lambda: nn.Conv2d(3, 2, 3)(image(5)), lt.ShapeError, ["conv2d", "(5,)"]),
    (lambda: nn.Conv2d(3, 2, 3, groups=2), lt.ArgumentError, ["groups=2"]),
    (lambda: nn.Conv2d(3, 2, 3, stride=2, padding="same")(image()), lt.ArgumentError, ["same"]),
    (lambda: nn.Conv2d(3, 2, 3, stride=0), lt.LazytenError, ["stride"]),
    (lambda: nn.Conv2d(3, 2, 3)(image().double()), lt.DTypeError, ["float64", "float32"]),
    (lambda: F.max_pool2d(image(), 2, padding=2), lt.ArgumentError, ["padding"]),
    (lambda: F.max_pool2d(image(), 9), lt.ShapeError, ["max_pool2d", "9"]),
    (lambda: F.avg_pool2d(image().long(), 2), lt.DTypeError, ["avg_pool", "int64"]),
    (lambda: F.layer_norm(image(), (7,)), lt.ShapeError, ["layer_norm", "(7,)"]),
    (lambda: F.dropout(image(), 1.5), lt.ArgumentError, ["1.5"]),
    (lambda: nn.Dropout(-1), lt.ArgumentError, ["-1"]),
    (lambda: F.cross_entropy(lt.zeros(2, 3), lt.zeros(2)), lt.ShapeError, ["(2, 3)", "(2,)"]),
    (lambda: F.cross_entropy(lt.zeros(2, 3), lt.zeros(3, dtype=lt.int64)), lt.ShapeError, ["(3,)"]),
    (lambda: F.cross_entropy(lt.zeros(2, 3), lt.zeros(2, dtype=lt.int64), reduction="avg"),
     lt.ArgumentError, ["avg"]),
    (lambda: F.cross_entropy(lt.zeros(2, 3), lt.zeros(2, dtype=lt.int64), label_smoothing=2),
     lt.ArgumentError, ["label_smoothing"]),
    (lambda: F.mse_loss(lt.zeros(2, 3), lt.zeros(2)), lt.ShapeError, ["mse_loss", "(2, 3)"]),
    (lambda: F.one_hot(lt.zeros(2), 3), lt.DTypeError, ["one_hot"]),
    (lambda: nn.Sequential(nn.ReLU(), F.relu), lt.DTypeError, ["Sequential", "1"]),
    (Forgetful, AttributeError, ["super().__init__()"]),
    (lambda: nn.init.xavier_normal_(lt.zeros(3)), lt.ShapeError, ["2 axes"]),
    (lambda: nn.init.kaiming_normal_(lt.zeros(3, 3), mode="x"), lt.ArgumentError, ["mode"]),
    (lambda: nn.init.calculate_gain("swish"), lt.ArgumentError, ["swish"])]


@pytest.mark.parametrize(("call", "error", "words"), MISTAKES)
def test_mistakes_are_explained(call: Callable[[], Any], error: type[Exception],
                                words: list[str]) -> None:
    with pytest.raises(error) as info:
        call()
    for word in words:
        assert word in str(info.value)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("label", [3, -1, -100, 2 ** 40])
def test_a_label_outside_the_classes_is_an_index_error(device: str, label: int,
                                                       loss: Callable[..., lt.Tensor]) -> None:
    scores = lt.zeros(2, 3, 2, device=device).log_softmax(1)
    labels = lt.tensor([[0, 2], [label, 1]], device=device)
    for call in (loss, lt.jit(loss)):
        call(scores, labels[:1].expand(2, 2), ignore_index=-2)
        with pytest.raises(IndexError) as info:
            call(scores, labels, ignore_index=-2).item()
        for word in (loss.__name__, f"label {label} ", "axis 1", "size 3", "0 to 2", "test_nn.py"):
            assert word in str(info.value)
    assert np.isfinite(loss(scores, labels, ignore_index=label).item())


def test_a_step_with_a_label_outside_the_classes_changes_nothing(device: str) -> None:
    lt.manual_seed(0)
    model = nn.Linear(4, 3, device=device)
    optimizer = lt.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    x = lt.ones(2, 4, device=device)

    @lt.jit
    def step(labels: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    good, bad = lt.tensor([0, 1], device=device), lt.tensor([0, 3], device=device)
    for _ in range(3):
        step(good)
    before = [p.numpy().copy() for p in model.parameters()]
    with pytest.raises(IndexError, match="label 3"):
        step(bad)
    for parameter, kept in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.numpy(), kept)
    step(good)


@pytest.mark.parametrize(("steps", "scaled"), [(0, False), (1, False), (3, False), (1, True),
                                               (3, True)])
def test_a_jitted_step_that_fails_is_no_step_of_those_that_count(steps: int, scaled: bool) -> None:
    def trained(fails: bool) -> tuple[list[float], str]:
        lt.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = lt.optim.Adam(model.parameters(), lr=0.1)
        scaler = lt.amp.GradScaler("cpu", enabled=scaled)

        @lt.jit
        def step(labels: lt.Tensor) -> lt.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(lt.ones(2, 4)), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        good = lt.tensor([0, 1])
        found = [step(good).item() for _ in range(steps)]
        if fails:
            with pytest.raises(IndexError, match="label 3"):
                step(lt.tensor([0, 3])).item()
        found += [step(good).item() for _ in range(2)]
        return found, str(optimizer.state_dict()["state"][0]["step"])

    assert trained(True) == trained(False)


def test_pooling_of_integers_keeps_their_type_with_padding_too(device: str) -> None:
    x = lt.arange(16, device=device).reshape(1, 1, 4, 4) - 20
    pooled = F.max_pool2d(x, 3, 2, 1)
    assert pooled.dtype is lt.int64
    assert pooled.tolist() == [[[[-15, -13], [-7, -5]]]]


def test_ctc_loss_of_no_labels_at_all_is_that_of_blanks(device: str) -> None:
    scores = lt.arange(24.0, device=device).reshape(3, 2, 4).sin().log_softmax(2)
    labels = lt.zeros((2, 0), dtype=lt.int64, device=device)
    found = nn.functional.ctc_loss(scores, labels, [3, 2], [0, 0], reduction="none")
    expected = [-scores[:n, b, 0].sum().item() for b, n in enumerate((3, 2))]
    assert found.tolist() == pytest.approx(expected)
