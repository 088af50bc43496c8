"""Functions of torch.nn.functional over random geometries, and what is drawn by chance."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_compare import Options, compare, distinct, normal, pools

import lazyten as lt
from lazyten.nn import functional as F

torch = pytest.importorskip("torch")
TF = torch.nn.functional

pytestmark = pytest.mark.torch

small = st.integers(1, 6)
sizes = st.lists(small, min_size=1, max_size=3)


# ---- geometries ----------------------------------------------------------------------------------

@given(case=pools(), dilation=st.integers(1, 2))
def test_max_pool2d_says_where_the_greatest_are(case: tuple[tuple[int, ...], Options],
                                                dilation: int) -> None:
    shape, options = case
    x = np.round(normal(*shape[:2], *(n + 3 for n in shape[2:])))  # with equal ones
    found = F.max_pool2d(lt.tensor(x, device="interpreter"), dilation=dilation,
                         return_indices=True, **options)
    expected = TF.max_pool2d(torch.tensor(x), dilation=dilation, return_indices=True, **options)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


@given(size=sizes, data=st.data())
def test_adaptive_pools_match_torch(size: list[int], data: st.DataObject) -> None:
    some = small if len(size) == 1 else small | st.none()
    wanted = [data.draw(some) for _ in size]
    for kind, x in (("avg", normal(2, 2, *size)), ("max", distinct(2, 2, *size))):
        name = f"adaptive_{kind}_pool{len(size)}d"
        compare(lambda x, n=name: getattr(F, n)(x, wanted),
                lambda x, n=name: getattr(TF, n)(x, wanted), x)
    whole = np.round(normal(2, 2, *size))
    _, found = getattr(F, name)(lt.tensor(whole, device="interpreter"), wanted, True)
    _, expected = getattr(TF, name)(torch.tensor(whole), wanted, True)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@given(size=sizes, mode=st.sampled_from(["reflect", "replicate", "circular"]), data=st.data())
def test_padding_matches_torch(size: list[int], mode: str, data: st.DataObject) -> None:
    around: list[int] = []
    for n in reversed(size):
        most = {"reflect": n - 1, "replicate": 7, "circular": n}[mode]
        before = data.draw(st.integers(-n // 2, most))
        after = data.draw(st.integers(-n // 2, most))
        assume(n + before + after > 0)
        inner = n + min(before, 0) + min(after, 0)
        assume(mode == "replicate" or inner > max(before, after))  # PyTorch reads outside else
        around += [before, after]
    compare(lambda x: F.pad(x, around, mode), lambda x: TF.pad(x, around, mode),
            normal(2, 2, *size))


MODES = {1: ["nearest", "nearest-exact", "linear", "area"],
         2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
         3: ["nearest", "nearest-exact", "trilinear", "area"]}


@given(size=sizes, data=st.data())
def test_interpolation_matches_torch(size: list[int], data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES[len(size)]))
    options: Options = {"mode": mode}
    if mode in ("linear", "bilinear", "bicubic", "trilinear"):
        options["align_corners"] = data.draw(st.booleans())
    if data.draw(st.booleans()):
        options["size"] = [data.draw(st.integers(1, 9)) for _ in size]
    else:
        options["scale_factor"] = [data.draw(st.sampled_from([1.0, 1.3, 2.0, 2.5])) for _ in size]
        options["recompute_scale_factor"] = data.draw(st.booleans())
        rounded = any(int(n * s) == n for n, s in zip(size, options["scale_factor"], strict=True)
                      if s == 1.3)
        odd = mode == "bicubic" or (mode == "nearest" and len(size) != 2)
        assume(options["recompute_scale_factor"] or not (odd and rounded))
        # there PyTorch's gradient goes to other elements than it read
    compare(lambda x: F.interpolate(x, **options), lambda x: TF.interpolate(x, **options),
            normal(2, 2, *size))


@pytest.mark.parametrize(("mode", "corners"), [
    ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True),
    ("lanczos", False)])  # of which there are no corners
@pytest.mark.parametrize("sizes", [
    {"size": (5, 4)}, {"size": (5, 20)}, {"size": (1, 2)}, {"size": (11, 3)}, {"size": 1},
    {"scale_factor": 0.37}, {"scale_factor": (0.25, 1.6)},
    {"scale_factor": 0.37, "recompute_scale_factor": True}], ids=str)
def test_smoothed_images_match_torch(sizes: Options, mode: str, corners: bool) -> None:
    options: Options = {"mode": mode, "align_corners": corners, "antialias": True, **sizes}
    compare(lambda x: F.interpolate(x, **options), lambda x: TF.interpolate(x, **options),
            normal(2, 2, 11, 13))


@pytest.mark.parametrize("scales", [(1.3,), (2.2,), (1.1, 2.2), (1.3, 1.3), (2.5, 2.2),
                                    (1.3, 2.2, 1.0)])
def test_nearest_elements_match_torch_where_an_axis_stays_or_doubles_by_rounding(
        scales: tuple[float, ...]) -> None:
    options: Options = {"scale_factor": scales, "recompute_scale_factor": False}
    x = normal(1, 2, *(2 + i for i, _ in enumerate(scales)))
    if len(scales) == 2:
        compare(lambda x: F.interpolate(x, **options), lambda x: TF.interpolate(x, **options), x)
        return  # otherwise PyTorch's gradient goes to other elements than it read
    given = lt.tensor(x, requires_grad=True)
    result = F.interpolate(given, **options)
    np.testing.assert_array_equal(result.detach().numpy(),
                                  TF.interpolate(torch.tensor(x), **options).numpy())
    result.sum().backward()
    assert given.grad is not None
    read = [(result.detach() == element).sum().item() for element in given.detach().reshape(-1)]
    assert given.grad.reshape(-1).tolist() == read


@given(kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)), stride=st.integers(1, 3),
       padding=st.integers(0, 2), dilation=st.integers(1, 2), more=st.integers(0, 3))
def test_unfold_and_fold_match_torch(kernel: tuple[int, int], stride: int, padding: int,
                                     dilation: int, more: int) -> None:
    size = [dilation * (k - 1) + 1 + more for k in kernel]
    how = (kernel, dilation, padding, stride)
    compare(lambda x: F.unfold(x, *how), lambda x: TF.unfold(x, *how), normal(2, 2, *size))
    columns = TF.unfold(torch.zeros(2, 2, *size), *how).shape
    compare(lambda x: F.fold(x, size, *how), lambda x: TF.fold(x, size, *how), normal(*columns))


# ---- in jitted functions and low types -----------------------------------------------------------

def test_running_statistics_and_resizing_are_followed_in_jit(device: str) -> None:
    mean, var = lt.zeros(3, device=device), lt.ones(3, device=device)

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        y = F.batch_norm(x, mean, var, training=True)
        return F.interpolate(y, scale_factor=1.5, mode="bilinear") + F.pad(
            y, (1, 1, 1, 1), "reflect").sum()
    theirs = torch.zeros(3), torch.ones(3)
    for seed in range(3):
        x = normal(2, 3, 4, 4, seed=seed).astype(np.float32)
        found = step(lt.tensor(x, device=device))
        y = TF.batch_norm(torch.tensor(x), *theirs, training=True)
        expected = TF.interpolate(y, scale_factor=1.5, mode="bilinear") + TF.pad(
            y, (1, 1, 1, 1), "reflect").sum()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    for mine, other in zip((mean, var), theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_normalizations_and_pools_of_low_types_are_rounded_once(dtype: str, device: str) -> None:
    x = lt.tensor(normal(2, 4, 6, 6).astype(np.float32), device=device).to(getattr(lt, dtype))
    for function in (lambda t: F.layer_norm(t, (6,)), lambda t: F.group_norm(t, 2),
                     lambda t: F.batch_norm(t, None, None, training=True),
                     lambda t: F.rms_norm(t, (6, 6), eps=1e-3),
                     lambda t: F.avg_pool2d(t, 3, 2, 1, count_include_pad=False),
                     lambda t: F.adaptive_avg_pool2d(t, 4),
                     lambda t: F.interpolate(t, (4, 9), mode="bilinear")):
        low, exact = function(x), function(x.float())
        assert low.dtype is x.dtype
        np.testing.assert_array_equal(low.float().numpy(), exact.to(x.dtype).float().numpy())


# ---- chance --------------------------------------------------------------------------------------

def whole_channels(y: lt.Tensor) -> Any:
    """Which channels of (batch, channels, ..) are 0; those that are in part fail."""
    zero = y.flatten(2).numpy() == 0
    np.testing.assert_array_equal(zero.all(2), zero.any(2))
    return zero.all(2)


@pytest.mark.parametrize(("name", "spatial"), [("dropout1d", 1), ("dropout2d", 2),
                                               ("dropout3d", 3)])
def test_channels_are_dropped_as_a_whole(name: str, spatial: int, device: str) -> None:
    lt.manual_seed(3)
    x = lt.ones(30, 20, *[3] * spatial, device=device)
    dropped = whole_channels(getattr(F, name)(x, 0.3))
    assert 0.24 < dropped.mean() < 0.36
    assert getattr(F, name)(x, 0.3).amax().item() == pytest.approx(1 / 0.7)
    np.testing.assert_array_equal(getattr(F, name)(x, 0.3, False).numpy(), x.numpy())


def test_alpha_dropout_keeps_mean_and_variance(device: str) -> None:
    lt.manual_seed(4)
    x = lt.randn(40_000, device=device)
    y = F.alpha_dropout(x, 0.4, True)
    assert abs(y.mean().item()) < 0.03 and abs(y.var().item() - 1) < 0.05
    assert 0.37 < np.unique(y.numpy(), return_counts=True)[1].max() / 40_000 < 0.43
    assert F.alpha_dropout(x, 0.4) is x
    features = F.feature_alpha_dropout(lt.ones(30, 20, 4, device=device), 0.5, True)
    assert len(np.unique(features.numpy())) == 2
    assert (features.amin(2) == features.amax(2)).all().item()


def test_slopes_of_rrelu_are_drawn_between_its_bounds(device: str) -> None:
    lt.manual_seed(5)
    y = -F.rrelu(-lt.ones(2000, device=device), 0.2, 0.6, True)
    assert y.amin().item() >= 0.2 and y.amax().item() <= 0.6
    assert 0.38 < y.mean().item() < 0.42 and y.amax().item() - y.amin().item() > 0.35
    assert F.rrelu(lt.ones(3, device=device), 0.2, 0.6, True).tolist() == [1.0] * 3


def test_gumbel_softmax_samples_classes(device: str) -> None:
    lt.manual_seed(6)
    logits = lt.tensor([[0.0, 1.0, 2.0]], device=device).expand(4000, 3).clone().requires_grad_()
    hard = F.gumbel_softmax(logits, 0.5, hard=True)
    shares = hard.mean(0).tolist()
    assert shares == pytest.approx([0.09, 0.245, 0.665], abs=0.03)
    np.testing.assert_allclose(np.sort(hard.detach().numpy(), 1)[:, :2], 0, atol=1e-6)
    (hard * lt.tensor([1.0, 2.0, 3.0], device=device)).sum().backward()
    assert logits.grad is not None and logits.grad.abs().amax().item() > 0.01
    np.testing.assert_allclose(F.gumbel_softmax(logits).sum(1).detach().numpy(), 1, rtol=1e-5)


def test_attentions_dropout_leaves_weights_out(device: str) -> None:
    lt.manual_seed(7)
    q, k = lt.zeros(1, 400, 4, device=device), lt.zeros(1, 10, 4, device=device)
    v = lt.eye(10, device=device).unsqueeze(0)
    weights = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3).numpy()
    assert 0.26 < (weights == 0).mean() < 0.34
    np.testing.assert_allclose(weights[weights != 0], 0.1 / 0.7, rtol=1e-5)


LABELS = [[1, 2, 2, 3], [4, 4, 1, 1], [2, 1, 3, 4]]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("lengths", "counts"), [
    ([40, 40, 40], [4, 4, 4]), ([40, 9, 31], [1, 0, 4]), ([2, 5, 40], [1, 4, 2])], ids=str)
@pytest.mark.parametrize("form", ["padded", "joined", "tensors", "another blank"])
def test_the_loss_of_labels_in_time_matches_torch(form: str, lengths: list[int], counts: list[int],
                                                  reduction: str) -> None:
    scores = np.random.default_rng(0).normal(size=(40, 3, 5))
    options: Options = {"reduction": reduction, "zero_infinity": True}
    labels: Any = LABELS
    if form == "joined":
        labels = [label for row, n in zip(LABELS, counts, strict=True) for label in row[:n]]
    if form == "another blank":
        labels, options["blank"] = [[label - 1 for label in row] for row in LABELS], 4
    found = []
    for m, functional in ((lt, F), (torch, TF)):
        x = m.tensor(scores).requires_grad_()
        sizes = [m.tensor(lengths), m.tensor(counts)] if form == "tensors" else \
            [tuple(lengths), tuple(counts)]
        loss = functional.ctc_loss(x.log_softmax(2), m.tensor(labels), *sizes, **options)
        loss.sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-7, atol=1e-10)
