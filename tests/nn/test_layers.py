"""Layers without PyTorch: jitted and in float32 they do what they do at once, on each device."""
from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layer_cases import ALL, READS, is_drawn
from mistakes import check_explained

import lazyten as lt
from lazyten import nn


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.few(53)
@pytest.mark.parametrize("text", [
    text for text in ALL if not is_drawn(text) and not text.startswith(READS)])
def test_a_jitted_layer_does_what_it_does_at_once(text: str, monkeypatch: pytest.MonkeyPatch
                                                  ) -> None:
    """Two calls while training, which write to its buffers, and one in use."""
    monkeypatch.setenv("DEVICE", "interpreter")
    layer = eval(f"T.nn.{text}", {"T": lt}).double()
    twin = copy.deepcopy(layer)
    jitted = lt.jit(twin)
    arrays = [[lt.tensor(a if a.dtype.kind != "f" else a * scale) for a in ALL[text]]
              for scale in (1.0, 0.5, 0.25)]
    for call, inputs in enumerate(arrays):
        if call == 2:
            layer.eval()
            twin.eval()
        with lt.no_grad():
            expected, found = outputs(layer(*inputs)), outputs(jitted(*inputs))
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)
        for a, b in zip(layer.buffers(), twin.buffers(), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)


def test_running_statistics_of_a_jitted_step(device: str) -> None:
    """A step with a gradient and an update; momentum=None is the mean of all batches."""
    lt.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None), nn.ReLU()).to(device)
    twin = copy.deepcopy(net)
    batches = [lt.randn(6, 3, device=device) * n + n for n in (1, 2, 3)]

    def stepper(model: nn.Sequential) -> Callable[[lt.Tensor], lt.Tensor]:
        optimizer = lt.optim.SGD(model.parameters(), lr=0.1)

        def step(x: lt.Tensor) -> lt.Tensor:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss
        return step
    means, at_once, jitted = [], stepper(net), lt.jit(stepper(twin))
    for x in batches:
        means.append(net[0](x).detach().mean(0).numpy())
        assert jitted(x).item() == pytest.approx(at_once(x).item(), rel=1e-5)
    for a, b in zip(net.state_dict().items(), twin.state_dict().items(), strict=True):
        np.testing.assert_allclose(b[1].numpy(), a[1].numpy(), rtol=1e-5, atol=1e-6, err_msg=a[0])
    np.testing.assert_allclose(net[1].running_mean.numpy(), np.mean(means, 0), rtol=1e-5)
    assert net[1].num_batches_tracked.item() == 3


def test_layers_draw_anew_at_each_call_while_training() -> None:
    x = lt.ones(4, 8, 50, 1)
    for layer, whole in ((nn.Dropout(0.5), False), (nn.Dropout2d(0.5), True),
                         (nn.AlphaDropout(0.5), False), (nn.FeatureAlphaDropout(0.5), True)):
        first, second = layer(x).numpy(), layer(x).numpy()
        assert (first != second).any(), layer
        assert all(np.ptp(c) == 0 for c in first.reshape(32, 50)) == whole, layer
        layer.eval()
        np.testing.assert_array_equal(layer(x).numpy(), x.numpy())
    slopes = -nn.RReLU(0.2, 0.4)(-lt.ones(2000)).numpy()
    assert 0.2 <= slopes.min() and slopes.max() <= 0.4
    assert slopes.mean() == pytest.approx(0.3, abs=4 * 0.2 / math.sqrt(12 * 2000))


def test_a_channel_norm_starts_anew() -> None:
    layer = nn.BatchNorm1d(2)
    layer(lt.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert layer.num_batches_tracked.item() == 1
    with lt.no_grad():
        layer.weight.fill_(7)
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0, 0] and layer.running_var.tolist() == [1, 1]
    assert layer.num_batches_tracked.item() == 0 and layer.weight.tolist() == [7, 7]
    layer.reset_parameters()
    assert layer.weight.tolist() == [1, 1] and layer.weight.requires_grad


def test_from_pretrained_takes_values_or_a_parameter() -> None:
    rows = lt.arange(6.0).reshape(3, 2)
    frozen, trained = nn.Embedding.from_pretrained(rows), nn.Embedding.from_pretrained(
        rows, freeze=False)
    assert not frozen.weight.requires_grad and trained.weight.requires_grad
    assert not rows.requires_grad and trained.weight.tolist() == rows.tolist()
    shared = nn.Parameter(rows)
    assert nn.Embedding.from_pretrained(shared, freeze=False).weight is shared


BAD: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    "BatchNorm2d of a matrix": (
        lambda: nn.BatchNorm2d(3)(lt.ones(2, 3)), lt.ShapeError, ["BatchNorm2d", "(2, 3)",
                                                                  "height"]),
    "BatchNorm1d of other channels": (
        lambda: nn.BatchNorm1d(3)(lt.ones(2, 4)), lt.ShapeError, ["running_mean", "(3,)", "(4,)"]),
    "InstanceNorm1d of a matrix of other channels": (
        lambda: nn.InstanceNorm1d(3, affine=True)(lt.ones(4, 5)), lt.ShapeError,
        ["4 channels", "num_features=3"]),
    "InstanceNorm2d of four": (
        lambda: nn.InstanceNorm2d(3)(lt.ones(4)), lt.ShapeError, ["InstanceNorm2d", "4 axes"]),
    "GroupNorm that does not divide": (
        lambda: nn.GroupNorm(3, 4), lt.ArgumentError, ["num_groups=3", "num_channels=4"]),
    "Softmax2d of a matrix": (
        lambda: nn.Softmax2d()(lt.ones(2, 3)), lt.ShapeError, ["Softmax2d", "(2, 3)"]),
    "Hardtanh the wrong way round": (
        lambda: nn.Hardtanh(2.0, 1.0), lt.ArgumentError, ["min_val=2.0", "max_val=1.0"]),
    "a padding of three sides": (
        lambda: nn.ZeroPad2d((1, 2, 3)), lt.ArgumentError, ["ZeroPad2d", "(1, 2, 3)", "4"]),
    "an unknown padding_mode": (
        lambda: nn.Conv2d(1, 1, 1, padding_mode="mirror"), lt.ArgumentError,
        ["Conv2d", "'mirror'", "reflect"]),
    "a padding_mode of a transposed convolution": (
        lambda: nn.ConvTranspose2d(1, 1, 1, padding_mode="reflect"), lt.ArgumentError,
        ["ConvTranspose2d", "'reflect'", "zeros"]),
    "padding 'same' with a stride": (
        lambda: nn.Conv1d(1, 1, 3, 2, padding="same"), lt.ArgumentError, ["same", "stride 2"]),
    "an output_size out of reach": (
        lambda: nn.ConvTranspose1d(1, 1, 3, 2)(lt.ones(1, 1, 4), [11]), lt.ShapeError,
        ["[9]", "[10]", "(11,)"]),
    "MultiMarginLoss of order 3": (
        lambda: nn.MultiMarginLoss(3), lt.ArgumentError, ["p=3"]),
    "TripletMarginLoss without a margin": (
        lambda: nn.TripletMarginLoss(0), lt.ArgumentError, ["margin=0"]),
    "embedding_bag with a padding_idx outside": (
        lambda: nn.functional.embedding_bag(lt.tensor([[0, 1]]), lt.ones(3, 2), padding_idx=-4),
        lt.ArgumentError, ["padding_idx=-4", "3 rows"]),
    "Embedding with a padding_idx outside": (
        lambda: nn.Embedding(3, 2, 3), lt.ArgumentError, ["padding_idx=3"]),
    "from_pretrained of a vector": (
        lambda: nn.Embedding.from_pretrained(lt.ones(3)), lt.ShapeError, ["(3,)"]),
    "Unflatten by name": (
        lambda: nn.Unflatten("features", (2, 3)), lt.ArgumentError, ["'features'", "number"]),
    "classes in clusters out of order": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 10, [6, 2]), lt.ArgumentError, ["[6, 2]"]),
    "classes for another batch": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2])(lt.ones(2, 3), lt.ones(3).long()),
        lt.ShapeError, ["(2, 3)", "(3,)"]),
    "a module for two devices": (
        lambda: nn.DataParallel(nn.ReLU(), [0, 1]), lt.DeviceError, ["[0, 1]"]),
    "a buffer of a list": (lambda: nn.Buffer([1.0]), lt.DTypeError, ["Buffer of list"]),
    "Bilinear without features": (
        lambda: nn.Bilinear(0, 1, 1), lt.ArgumentError, ["in1_features=0"]),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained(name: str) -> None:
    check_explained(*BAD[name])


def test_the_most_likely_of_many_classes() -> None:
    lt.manual_seed(2)
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 8, [2, 5])
    x = lt.randn(20, 4) * 5
    chances = layer.log_prob(x).exp()
    np.testing.assert_allclose(chances.sum(1).detach().numpy(), 1.0, rtol=1e-5)
    assert layer.predict(x).tolist() == chances.argmax(1).tolist()
    assert len(set(layer.predict(x).tolist())) > 2


def test_a_transposed_convolution_takes_no_more_nodes_for_a_greater_stride() -> None:
    """Nothing is computed for places that no tap reaches."""
    from lazyten.ir.node import toposort
    x, weight = lt.tensor([[[1.0, 2.0]]]), lt.tensor([[[3.0, 4.0, 5.0]]])
    counts = []
    for stride in (100, 10_000):
        y = lt.nn.functional.conv_transpose1d(x, weight, stride=stride)
        counts.append(len(toposort([y.node])))
        assert y[0, 0, :4].tolist() == [3, 4, 5, 0]
        assert y[0, 0, stride - 1:].tolist() == [0, 6, 8, 10]
    assert counts[0] == counts[1]


def test_a_transposed_convolution_of_a_given_size() -> None:
    down, up = nn.Conv2d(2, 3, 3, 2, 1), nn.ConvTranspose2d(3, 2, 3, 2, 1)
    for size in ((7, 9), (8, 9), (8, 10)):
        there = down(lt.ones(1, 2, *size))
        assert up(there, output_size=size).shape == (1, 2, *size)
        assert up(there, output_size=(1, 2, *size)).shape == (1, 2, *size)


def test_a_state_from_before_there_was_a_count_of_batches_is_loaded() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(2))
    layer(lt.randn(3, 2))
    state = layer.state_dict()
    del state["0.num_batches_tracked"]
    layer.load_state_dict(state)
    assert layer[0].num_batches_tracked.item() == 1


def test_a_lazy_layer_of_ones_own_takes_its_first_input() -> None:
    class Scale(nn.modules.lazy.LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.UninitializedParameter()

        def initialize_parameters(self, input: lt.Tensor) -> None:
            self.scale.materialize(input.shape[1:])
            nn.init.ones_(self.scale)

        def forward(self, input: lt.Tensor) -> lt.Tensor:
            result: lt.Tensor = input * self.scale
            return result
    net = copy.deepcopy(Scale()).double()
    assert repr(net.scale) == "<UninitializedParameter>"
    assert net(lt.ones(2, 3).double()).tolist() == [[1.0] * 3] * 2
    assert type(net.scale) is nn.Parameter and net.scale.dtype is lt.float64
    with pytest.raises(lt.JitError, match="the first call of LazyLinear"):
        lt.jit(fullgraph=True)(nn.LazyLinear(3))(lt.ones(2, 2))


def test_synchronized_normalization_takes_the_place_of_every_other() -> None:
    net = nn.Sequential(nn.Conv1d(2, 3, 1), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU())).eval()
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert made is net and type(made[1][0]) is nn.SyncBatchNorm and not made[1][0].training
    assert list(made.state_dict())[2:] == [f"1.0.{n}" for n in (
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked")]


def test_windows_that_begin_by_chance_are_about_even_and_end_at_the_end() -> None:
    x, seen = lt.arange(20.0).reshape(1, 1, 1, 20), set()
    for _ in range(20):
        found = nn.FractionalMaxPool2d((1, 2), (1, 8))(x).reshape(-1).tolist()
        assert found[-1] == 19 and 1 <= found[0] <= 3
        gaps = {b - a for a, b in itertools.pairwise(found)}
        assert gaps <= {2, 3}
        seen.add(tuple(found))
    assert len(seen) > 3


def test_a_class_that_never_comes_leaves_the_loss_of_a_sequence_finite() -> None:
    scores = lt.tensor([[[0.5, -1.0, -math.inf]], [[0.1, 0.4, -math.inf]]])
    logits = scores.clone().requires_grad_()
    loss = nn.CTCLoss(reduction="sum")(logits.log_softmax(2), lt.tensor([[1]]), [2], [1])
    loss.backward()
    p = np.exp(scores.numpy()[:, 0, :2])
    p /= p.sum(1, keepdims=True)
    wanted = p[0, 0] * p[1, 1] + p[0, 1] * p[1, 0] + p[0, 1] * p[1, 1]
    assert loss.item() == pytest.approx(-math.log(wanted), rel=1e-5)
    assert logits.grad is not None and np.isfinite(logits.grad.numpy()).all()
    never = nn.CTCLoss(reduction="sum")(logits.log_softmax(2), lt.tensor([[2]]), [2], [1])
    assert never.item() == math.inf


@pytest.mark.parametrize("zero_infinity", (True, False))
def test_the_ctc_loss_of_a_nan_is_nan(zero_infinity: bool) -> None:
    x = lt.zeros(3, 2, 4).log_softmax(2)
    x[1, 0, 1] = float("nan")
    loss = nn.functional.ctc_loss(x, lt.ones(2, 2).long(), [3, 3], [2, 2], reduction="none",
                                  zero_infinity=zero_infinity)
    assert loss.isnan().tolist() == [True, False]


def ctc(*args: Any) -> Any:
    return nn.functional.ctc_loss(lt.zeros(3, 2, 4), *args)


SEQUENCES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "an input_length too great": (
        lambda: ctc(lt.ones(2, 2).long(), [3, 4], [1, 1]).tolist(), ["input_lengths", "4"]),
    "a label outside": (
        lambda: ctc(lt.ones(2, 2).long() * 4, [3, 3], [1, 1]).tolist(), ["4"]),
    "labels that do not come to the lengths": (
        lambda: ctc(lt.ones(3).long(), [3, 3], [1, 1]), ["2", "3 labels"]),
    "a length too few": (lambda: ctc(lt.ones(2, 2).long(), [3], [1, 1]), ["input_lengths", "2"]),
    "a blank outside": (
        lambda: ctc(lt.ones(2, 2).long(), [3, 3], [1, 1], 4), ["blank=4", "4 classes"]),
    "labels of floats": (lambda: ctc(lt.ones(2, 2), [3, 3], [1, 1]), ["float32", "long"]),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_mistakes_of_sequences_are_explained(name: str) -> None:
    call, words = SEQUENCES[name]
    with pytest.raises(lt.LazytenError) as info:
        call()
    assert all(word in str(info.value) for word in ["ctc_loss", *words])


BAGS = {"no offsets": (lambda: nn.EmbeddingBag(3, 2)(lt.tensor([0, 1])), ["(2,)", "offsets"]),
        "an offset after the first element": (
            lambda: nn.EmbeddingBag(3, 2)(lt.tensor([0, 1]), lt.tensor([1])).tolist(), ["-1"]),
        "an unknown mode": (
            lambda: nn.EmbeddingBag(3, 2, mode="min")(lt.tensor([[0, 1]])), ["'min'"]),
        "weights of a mean": (lambda: nn.EmbeddingBag(3, 2)(
            lt.tensor([[0, 1]]), per_sample_weights=lt.ones(1, 2)), ["'mean'"])}


def test_the_greatest_of_a_bag_may_be_minus_infinity() -> None:
    rows = lt.tensor([[-math.inf, -math.inf], [-math.inf, 1.0]])
    bags = lt.nn.functional.embedding_bag(lt.tensor([0, 1, 1]), rows, lt.tensor([0, 1, 3]),
                                          mode="max")
    assert bags.tolist() == [[-math.inf, -math.inf], [-math.inf, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("starts", [None, [0, 3]])
def test_of_equal_rows_of_a_bag_the_first_has_the_gradient(starts: list[int] | None,
                                                           device: str) -> None:
    weight = lt.tensor([[1.0, 5.0], [2.0, 5.0], [2.0, 4.0]], device=device, requires_grad=True)
    rows = lt.tensor([1, 0, 2, 2, 2, 1], device=device)
    bags = nn.functional.embedding_bag(
        rows if starts else rows.reshape(2, 3), weight,
        lt.tensor(starts, device=device) if starts else None, mode="max")
    (bags * lt.tensor([[1.0, 2.0], [4.0, 8.0]], device=device)).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0, 0], [1, 10], [4, 0]]


@pytest.mark.parametrize("name", BAGS)
def test_mistakes_of_bags_are_explained(name: str) -> None:
    call, words = BAGS[name]
    with pytest.raises(lt.LazytenError) as info:
        call()
    assert all(word in str(info.value) for word in ["embedding_bag", *words])


def test_bags_of_weighted_rows() -> None:
    layer = nn.EmbeddingBag.from_pretrained(lt.arange(6.0).reshape(3, 2), mode="sum")
    factors = lt.tensor([1.0, 10.0, 100.0], requires_grad=True)
    result = layer(lt.tensor([0, 2, 1]), lt.tensor([0, 2]), factors)
    assert result.tolist() == [[40, 51], [200, 300]]
    result.sum().backward()
    assert factors.grad is not None and factors.grad.tolist() == [1, 9, 5]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_size_are_reduced_by_one_kernel(mode: str) -> None:
    """Beside the one that looks whether the numbers are those of rows."""
    weight = lt.rand(50, 8).realize()
    numbers = lt.tensor([[3, 49, 3, 0], [7, 7, 7, 7], [1, 2, 48, 5]])
    bags = lt.testing.assert_kernels(
        lambda: lt.nn.functional.embedding_bag(numbers, weight, mode=mode), 2)
    reduced = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    np.testing.assert_allclose(bags.numpy(), reduced(weight.numpy()[numbers.numpy()], 1), 1e-6)


@pytest.mark.parametrize("dtype", (lt.uint8, lt.int8, lt.int32))
def test_embeddings_take_integers_of_any_type_as_numbers_of_rows(dtype: lt.DType,
                                                                 device: str) -> None:
    weight = lt.arange(6.0, device=device).reshape(3, 2)
    rows = lt.tensor([1, 0, 1], dtype=dtype, device=device)
    assert nn.functional.embedding(rows, weight).tolist() == [[2, 3], [0, 1], [2, 3]]
    starts = lt.tensor([0, 2], device=device)
    found = nn.functional.embedding_bag(rows, weight, starts, mode="sum")
    assert found.tolist() == [[2, 4], [2, 3]]


def test_an_embedding_of_a_mask_is_refused() -> None:
    with pytest.raises(lt.DTypeError, match="numbers rows"):
        nn.functional.embedding(lt.tensor([True, False, True]), lt.ones(3, 2))


def test_an_embedding_that_draws_its_rows_itself_keeps_zeros_for_padding() -> None:
    class Constant(nn.Embedding):
        def reset_parameters(self) -> None:
            nn.init.constant_(self.weight, 2.0)
            self._fill_padding_idx_with_zero()

    assert Constant(3, 2, padding_idx=1).weight.tolist() == [[2, 2], [0, 0], [2, 2]]


def test_what_modules_have_is_found_by_dotted_names() -> None:
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
    names = [name for name, _ in net._named_members(lambda m: m._parameters.items(), prefix="net")]
    assert names == ["net.0.weight", "net.1.weight", "net.1.bias"]
    assert [*net._named_members(lambda m: m._buffers.items(), recurse=False)] == []
