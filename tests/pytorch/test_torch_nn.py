"""Layers, losses and their gradients beside PyTorch's, over random geometries and all options."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_compare import Options, compare, distinct, normal, pools, torch

import lazyten as lt
from lazyten.nn import functional as F

TF = torch.nn.functional

pytestmark = pytest.mark.torch


# ---- convolution ---------------------------------------------------------------------------------

@st.composite
def geometries(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Options]:
    """Input shape, weight shape and options of a convolution that has at least one window."""
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    groups = draw(st.integers(1, 3))
    kernel, dilation, padding = pair(1, 3), pair(1, 2), pair(0, 2)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    size = [max(r - 2 * p, 1) + draw(st.integers(0, 4))
            for r, p in zip(reach, padding, strict=True)]
    channels, out = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    options = {"stride": pair(1, 3), "padding": padding, "dilation": dilation, "groups": groups}
    return ((draw(st.integers(1, 2)), groups * channels, *size),
            (groups * out, channels, *kernel), options)


@given(geometry=geometries())
def test_conv2d_and_its_gradients_match_torch(
        geometry: tuple[tuple[int, ...], tuple[int, ...], Options]) -> None:
    shape, weight, options = geometry
    compare(lambda *t: F.conv2d(*t, **options), lambda *t: TF.conv2d(*t, **options),
            normal(*shape), normal(*weight, seed=1), normal(weight[0], seed=2))


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], Options]] = [
    ((2, 3, 7, 8), (4, 3, 3, 2), {}),
    ((2, 4, 9, 7), (6, 2, 3, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ((1, 2, 9, 9), (2, 1, 3, 3), {"dilation": 2, "padding": (2, 1), "groups": 2, "stride": (1, 3)}),
    ((2, 1, 6, 6), (3, 1, 1, 1), {"stride": 2}), ((1, 3, 5, 5), (2, 3, 5, 5), {}),
    ((1, 2, 4, 4), (2, 2, 2, 3), {"padding": "same"}),
    ((3, 6, 6), (2, 3, 2, 2), {"padding": "valid"})]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_compiled_convolutions_match_torch(case: tuple[tuple[int, ...], tuple[int, ...], Options]
                                           ) -> None:
    shape, weight, options = case
    compare(lambda *t: F.conv2d(*t, **options), lambda *t: TF.conv2d(*t, **options),
            normal(*shape), normal(*weight, seed=1), normal(weight[0], seed=2), device="cpu")


def test_conv1d_conv3d_and_inputs_without_a_batch_match_torch() -> None:
    compare(lambda x, w: F.conv1d(x, w, stride=2, padding=1),
            lambda x, w: TF.conv1d(x, w, stride=2, padding=1), normal(2, 3, 8), normal(4, 3, 3))
    compare(lambda x, w: F.conv3d(x, w, padding=(1, 0, 1)),
            lambda x, w: TF.conv3d(x, w, padding=(1, 0, 1)), normal(1, 2, 3, 4, 3),
            normal(2, 2, 2, 2, 3))
    compare(F.conv2d, TF.conv2d, normal(2, 5, 5), normal(3, 2, 2, 2))


@st.composite
def transposed_geometries(draw: st.DrawFn
                          ) -> tuple[int, tuple[int, ...], tuple[int, ...], Options]:
    """Spatial axes, shapes of input and weight, and options of a transposed convolution."""
    spatial = draw(st.integers(1, 3))

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(spatial))
    kernel, stride, dilation = each(1, 4), each(1, 3), each(1, 2)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple(draw(st.integers(0, (r - 1) // 2)) for r in reach)
    more = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    groups, channels, out = (draw(st.integers(1, 2)) for _ in range(3))
    options = {"stride": stride, "padding": padding, "output_padding": more, "groups": groups,
               "dilation": dilation}
    return (spatial, (2, groups * channels, *each(1, 4)), (groups * channels, out, *kernel),
            options)


@given(geometry=transposed_geometries())
def test_transposed_convolutions_and_their_gradients_match_torch(
        geometry: tuple[int, tuple[int, ...], tuple[int, ...], Options]) -> None:
    spatial, shape, weight, options = geometry
    name = f"conv_transpose{spatial}d"
    compare(lambda *t: getattr(F, name)(*t, **options), lambda *t: getattr(TF, name)(*t, **options),
            normal(*shape), normal(*weight, seed=1), normal(weight[1] * options["groups"], seed=2))


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], Options]] = [
    ((2, 6, 5, 7), (6, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 4, 8), (4, 3, 4, 4), {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 3, 16), (3, 4, 16), {"stride": 8, "padding": 4}),
    ((1, 2, 3, 3, 4), (2, 3, 3, 2, 3), {"stride": (2, 1, 3), "dilation": (1, 2, 1)}),
    ((4, 8), (4, 3, 3), {"stride": 3})]


@pytest.mark.parametrize("case", TRANSPOSED)
def test_compiled_transposed_convolutions_match_torch(
        case: tuple[tuple[int, ...], tuple[int, ...], Options]) -> None:
    shape, weight, options = case
    name = f"conv_transpose{len(weight) - 2}d"
    compare(lambda *t: getattr(F, name)(*t, **options), lambda *t: getattr(TF, name)(*t, **options),
            normal(*shape), normal(*weight, seed=1), device="cpu")


@pytest.mark.parametrize(("spatial", "size"), [(1, 16), (1, 15), (2, 12), (2, 9), (3, 6)])
@pytest.mark.parametrize(("stride", "kernel", "padding"),
                         [(2, 3, 1), (3, 5, 2), (4, 4, 0), (2, 1, 0)])
def test_compiled_strided_convolutions_and_their_gradients_match_torch(
        spatial: int, size: int, stride: int, kernel: int, padding: int) -> None:
    name = f"conv{spatial}d"
    compare(lambda x, w: getattr(F, name)(x, w, stride=stride, padding=padding),
            lambda x, w: getattr(TF, name)(x, w, stride=stride, padding=padding),
            normal(2, 5, *[size] * spatial), normal(8, 5, *[kernel] * spatial, seed=1),
            device="cpu")


@pytest.mark.parametrize(("name", "shape", "options"), [
    ("Conv1d", (2, 4, 9), {"stride": 2, "padding": 1, "groups": 2}),
    ("Conv2d", (2, 4, 9, 8), {"padding": "same", "dilation": 2}),
    ("Conv3d", (1, 4, 5, 4, 6), {"bias": False}),
    ("ConvTranspose1d", (2, 4, 9), {"stride": 2, "output_padding": 1, "groups": 2}),
    ("ConvTranspose2d", (4, 5, 6), {"padding": 1, "dilation": 2}),
    ("ConvTranspose3d", (1, 4, 3, 2, 3), {"stride": 2, "bias": False})])
def test_convolution_layers_match_torch(name: str, shape: tuple[int, ...], options: Options
                                        ) -> None:
    ours = getattr(lt.nn, name)(4, 6, 3, **options)
    theirs = getattr(torch.nn, name)(4, 6, 3, **options)
    assert {k: v.shape for k, v in ours.state_dict().items()} == \
        {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    bound = max(float(p.detach().abs().max()) for p in theirs.parameters())
    assert all(p.abs().max().item() < 1.3 * bound for p in ours.parameters())
    ours.load_state_dict({k: lt.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = normal(*shape).astype(np.float32)
    np.testing.assert_allclose(ours(lt.tensor(x)).detach().numpy(),
                               theirs(torch.tensor(x)).detach().numpy(), atol=1e-5)


# ---- pooling -------------------------------------------------------------------------------------


@given(case=pools(), dilation=st.integers(1, 2))
def test_max_pool2d_matches_torch(case: tuple[tuple[int, ...], Options], dilation: int) -> None:
    shape, options = case
    shape = (*shape[:2], *(n + 3 for n in shape[2:]))
    compare(lambda x: F.max_pool2d(x, dilation=dilation, **options),
            lambda x: TF.max_pool2d(x, dilation=dilation, **options), distinct(*shape))


@given(case=pools(), count=st.booleans())
def test_avg_pool2d_matches_torch(case: tuple[tuple[int, ...], Options], count: bool) -> None:
    shape, options = case
    compare(lambda x: F.avg_pool2d(x, count_include_pad=count, **options),
            lambda x: TF.avg_pool2d(x, count_include_pad=count, **options), normal(*shape))


@pytest.mark.parametrize("options", [{"kernel_size": 2}, {"kernel_size": (2, 3), "stride": 3},
                                     {"kernel_size": 3, "stride": 2, "padding": 1}])
def test_compiled_pools_match_torch(options: Options) -> None:
    compare(lambda x: F.max_pool2d(x, **options), lambda x: TF.max_pool2d(x, **options),
            distinct(2, 3, 7, 8), device="cpu")
    compare(lambda x: F.avg_pool2d(x, **options), lambda x: TF.avg_pool2d(x, **options),
            normal(2, 3, 7, 8), device="cpu")


# ---- gradients where the slope is not unique -----------------------------------------------------

TIES = np.array([[0.0, 1.0, 1.0, -1.0], [2.0, 2.0, 2.0, 2.0], [0.0, -0.0, 0.0, -3.0]])
CORNERS: dict[str, Callable[[Any], Any]] = {
    "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(1), "max": lambda x: x.max(1)[0],
    "min": lambda x: x.min(0)[0], "relu": lambda x: x.relu(), "abs": lambda x: x.abs(),
    "amax all": lambda x: x.amax((0, 1)), "clamp": lambda x: x.clamp(0.0, 1.0)}


@pytest.mark.parametrize("name", CORNERS)
def test_gradients_at_ties_and_corners_are_torchs(name: str, device: str) -> None:
    compare(CORNERS[name], CORNERS[name], TIES, device=device)


def test_the_gradient_of_max_pool2d_goes_to_the_first_of_ties(device: str) -> None:
    image = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 1, 2, 2], [1, 2, 2, 2]], float)[None, None]
    compare(lambda x: F.max_pool2d(x, 2), lambda x: TF.max_pool2d(x, 2), image, device=device)
    compare(lambda x: F.max_pool2d(x, 3, 1, 1), lambda x: TF.max_pool2d(x, 3, 1, 1), image,
            device=device)


def test_the_gradient_of_adaptive_max_pools_goes_to_the_first_of_ties(device: str) -> None:
    """In row-major order: of columns that begin further down, the first is not it."""
    image = np.array([[[[0, 1, 0], [1, 1, 0], [1, 0, 0]]]], dtype=np.float32)
    compare(lambda x: F.adaptive_max_pool2d(x, 1), lambda x: TF.adaptive_max_pool2d(x, 1), image,
            device=device)
    volume = np.round(normal(1, 2, 5, 6, 7))
    compare(lambda x: F.adaptive_max_pool3d(x, (2, 4, 3)),
            lambda x: TF.adaptive_max_pool3d(x, (2, 4, 3)), volume, device=device)


# ---- normalization and losses --------------------------------------------------------------------

@pytest.mark.parametrize("inner", [(5,), (3, 5), 5])
def test_layer_norm_matches_torch(inner: int | tuple[int, ...], device: str) -> None:
    shape = (inner,) if isinstance(inner, int) else inner
    compare(lambda x, w, b: F.layer_norm(x, shape, w, b, 1e-3),
            lambda x, w, b: TF.layer_norm(x, shape, w, b, 1e-3),
            normal(2, 3, 5), normal(*shape, seed=1), normal(*shape, seed=2), device=device)


LOGITS, LABELS = normal(4, 3), np.array([0, 2, 1, 2])
WEIGHT = np.array([0.2, 1.0, 3.0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy_of_labels_matches_torch(reduction: str, smoothing: float, weighted: bool,
                                               ignore: int) -> None:
    options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": ignore}
    weight = WEIGHT if weighted else None

    def ours(x: lt.Tensor) -> lt.Tensor:
        w = None if weight is None else lt.tensor(weight, device=x.device)
        return F.cross_entropy(x, lt.tensor(labels, device=x.device), w, **options)

    def theirs(x: Any) -> Any:
        w = None if weight is None else torch.tensor(weight)
        return TF.cross_entropy(x, torch.tensor(labels), w, **options)

    labels = LABELS
    compare(ours, theirs, LOGITS)
    labels = np.random.default_rng(0).integers(0, 3, (2, 4, 5))
    compare(ours, theirs, normal(2, 3, 4, 5))
    labels = np.array(1)
    compare(ours, theirs, normal(3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_probabilities_matches_torch(reduction: str, smoothing: float) -> None:
    options = {"reduction": reduction, "label_smoothing": smoothing}
    for shape in ((4, 3), (2, 3, 4), (3,)):
        target = np.abs(normal(*shape, seed=3))
        compare(lambda x, t, o=options: F.cross_entropy(
                    x, t, lt.tensor(WEIGHT, device=x.device), **o),
                lambda x, t, o=options: TF.cross_entropy(x, t, torch.tensor(WEIGHT), **o),
                normal(*shape), target)


def test_compiled_cross_entropy_matches_torch() -> None:
    compare(lambda x: F.cross_entropy(x, lt.tensor(LABELS, device=x.device), ignore_index=1,
                                      label_smoothing=0.1),
            lambda x: TF.cross_entropy(x, torch.tensor(LABELS), ignore_index=1,
                                       label_smoothing=0.1), LOGITS, device="cpu")


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "binary_cross_entropy_with_logits"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_other_losses_match_torch(name: str, reduction: str) -> None:
    compare(lambda a, b: getattr(F, name)(a, b, reduction=reduction),
            lambda a, b: getattr(TF, name)(a, b, reduction=reduction),
            normal(3, 4) * 30, np.abs(normal(3, 4, seed=1)))


def test_nll_loss_and_one_hot_match_torch() -> None:
    compare(lambda x: F.nll_loss(x, lt.tensor(LABELS, device=x.device)),
            lambda x: TF.nll_loss(x, torch.tensor(LABELS)), LOGITS)
    ours = F.one_hot(lt.tensor(LABELS), 4)
    assert ours.tolist() == TF.one_hot(torch.tensor(LABELS), 4).tolist()


ACTIVATIONS = ["relu", "sigmoid", "tanh", "gelu", "silu", "softplus", "leaky_relu", "elu"]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_match_torch(name: str, device: str) -> None:
    values = np.concatenate([normal(20) * 3, [-50.0, 50.0, 0.0, 1e-9]])
    compare(getattr(F, name), getattr(TF, name), values, device=device)


def test_layers_with_torchs_weights_give_torchs_results() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.LayerNorm(8), torch.nn.GELU(),
        torch.nn.Linear(8, 3), torch.nn.LogSoftmax(1))
    ours = lt.nn.Sequential(
        lt.nn.Conv2d(2, 4, 3, padding=1), lt.nn.ReLU(), lt.nn.MaxPool2d(2), lt.nn.Flatten(),
        lt.nn.Linear(64, 8), lt.nn.LayerNorm(8), lt.nn.GELU(), lt.nn.Linear(8, 3),
        lt.nn.LogSoftmax(1))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({n: lt.tensor(p.numpy()) for n, p in theirs.state_dict().items()})
    images = normal(2, 2, 8, 8).astype(np.float32)
    np.testing.assert_allclose(ours(lt.tensor(images)).detach().numpy(),
                               theirs(torch.tensor(images)).detach().numpy(), atol=1e-6)
