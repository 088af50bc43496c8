"""Second and third gradients beside PyTorch's, of every function that has a gradient rule of its
own and of what is made of them."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from special_points import activation, method, part, words
from torch_if_there import torch

import lazyten as lt
from lazyten.nn import functional

Function = Callable[..., Any]
LINE = np.array([0.3, -0.7, 1.2, 2.5, -1.6, 0.05, 3.3, -0.2])
ROWS = np.array([[0.3, -0.7, 1.2, 0.4], [2.5, -1.6, 0.05, 0.9], [3.3, -0.2, 0.6, -1.1]])
ZEROS = np.array([[0.0, 2, 3, 4], [0, 0, 3, 4], [1, 2, 3, 4], [-1, 0, 2, 5]])
IMAGE = np.round(np.random.default_rng(1).normal(size=(1, 2, 6, 6)), 2)
KINKS = np.array([0.0, -0.0, 1.0, -1.0])


def target(m: Any, x: Any) -> Any:
    return (x.detach() / 4).abs()


def loss(name: str, **kwargs: Any) -> Function:
    return lambda m, F, x: getattr(F, name)(x, target(m, x), reduction="none", **kwargs)


def labelled(name: str) -> Function:
    return lambda m, F, x: getattr(F, name)(x, m.arange(3, device=x.device), reduction="none")


def of_halves(name: str) -> Function:
    """A function of two numbers, which are above 0."""
    return lambda m, F, x: getattr(x[:4].abs(), name)(x[4:].abs() + 0.1)


def index(m: Any, x: Any) -> Any:
    return m.arange(6, device=x.device).reshape(3, 2) % 4


CASES: dict[str, tuple[Function, np.ndarray[Any, Any]]] = {
    **{name: (method(name), LINE) for name in words("""
        abs asinh atan cosh erf erfc exp expm1 floor neg relu round sigmoid sign sin sinc sinh
        square tan tanh""")},
    **{name: (method(name), np.abs(LINE) / 4) for name in words("""
        acos asin atanh erfinv log log1p logit reciprocal rsqrt sqrt""")},
    "acosh": (method("acosh"), np.abs(LINE) + 1.1),
    **{f"F.{name}": (activation(name), LINE * 2) for name in words("""
        celu elu gelu hardshrink hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu
        softplus softshrink softsign tanhshrink""")},
    "relu at its kink": (method("relu"), KINKS), "abs at its kink": (method("abs"), KINKS),
    **{name: (of_halves(name), LINE) for name in words("""
        atan2 div fmax fmin fmod hypot logaddexp logaddexp2 maximum minimum mul pow xlogy""")},
    **{name: (method(name, 1), ROWS) for name in words("""
        amax amin cumprod cumsum log_softmax logsumexp mean nanmean nansum prod softmax std sum
        var""")},
    "prod with zeros": (method("prod", 1), ZEROS), "prod of all": (method("prod"), ZEROS[:1]),
    "prod of all with two zeros": (method("prod"), ZEROS[1:2]),
    "cumprod with zeros": (method("cumprod", 1), ZEROS),
    **{name: (part(name, 1), ROWS)
       for name in ("cummax", "max", "median", "min", "sort")},
    **{f"norm {p}": (method("norm", p, 1), ROWS) for p in (1, 2, 3, np.inf)},
    "quantile": (method("quantile", 0.3, 1), ROWS), "clamp": (method("clamp", -0.5, 0.8), LINE),
    "lerp": (lambda m, F, x: x[:2].lerp(x[2:4], x[4:6]), LINE),
    "addcmul": (lambda m, F, x: x[:2].addcmul(x[2:4], x[4:6]), LINE),
    "addcdiv": (lambda m, F, x: x[:2].addcdiv(x[2:4], x[4:6]), LINE),
    "max_pool2d": (activation("max_pool2d", 2), IMAGE),
    "max_pool2d that overlaps": (activation("max_pool2d", 3, 2, 1), IMAGE),
    "max_pool1d": (lambda m, F, x: F.max_pool1d(x[0], 2), IMAGE),
    "adaptive_max_pool2d": (activation("adaptive_max_pool2d", 4), IMAGE),
    **{f"avg_pool2d {options}": (activation("avg_pool2d", *options), IMAGE) for options in (
        (2,), (3, 2, 1), (3, 2, 1, True, False), (2, None, 0, False, True, 3), ((2, 3), (1, 2)))},
    "avg_pool1d": (lambda m, F, x: F.avg_pool1d(x[0], 2), IMAGE),
    "avg_pool3d": (activation("avg_pool3d", 2), IMAGE),
    **{f"adaptive_avg_pool2d {size}": (activation("adaptive_avg_pool2d", size), IMAGE)
       for size in (2, 4, (1, None))},
    "bilinear": (lambda m, F, x: F.interpolate(x, (4, 9), mode="bilinear"), IMAGE),
    "conv2d": (lambda m, F, x: F.conv2d(x, x[:, :, :3, :3]), IMAGE),
    "conv_transpose2d": (lambda m, F, x: F.conv_transpose2d(
        x, x[:, :, :3, :3].transpose(0, 1), None, 2), IMAGE),
    "layer_norm": (lambda m, F, x: F.layer_norm(x, (4,)), ROWS),
    "batch_norm": (lambda m, F, x: F.batch_norm(x, None, None, training=True), ROWS),
    "attention": (lambda m, F, x: F.scaled_dot_product_attention(x[None], x[None], x[None]), ROWS),
    "normalize": (activation("normalize"), ROWS),
    **{name: (loss(name), ROWS) for name in words("""
        binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss smooth_l1_loss""")},
    "binary_cross_entropy": (loss("binary_cross_entropy"), np.abs(ROWS) / 4),
    "the target of binary_cross_entropy_with_logits": (
        lambda m, F, x: F.binary_cross_entropy_with_logits(target(m, x), x, reduction="none"),
        np.abs(ROWS) / 4),
    "with a pos_weight": (lambda m, F, x: F.binary_cross_entropy_with_logits(
        x, target(m, x), reduction="none", pos_weight=target(m, x)), ROWS),
    "cross_entropy": (labelled("cross_entropy"), ROWS),
    **{f"nll_loss {name}": (lambda m, F, x, options=options: F.nll_loss(
        x, m.arange(3, device=x.device), **options), ROWS) for name, options in (
            ("mean", {}), ("sum", {"reduction": "sum"}), ("none", {"reduction": "none"}),
            ("ignoring", {"ignore_index": 1}))},
    "nll_loss of weights": (lambda m, F, x: F.nll_loss(
        x, m.arange(3, device=x.device), target(m, x)[0]), ROWS),
    "threshold": (activation("threshold", 0.1, 0.3), ROWS),
    "copysign": (lambda m, F, x: x[:2].copysign(x[1:]), ROWS),
    "scatter_add": (lambda m, F, x: x.scatter_add(1, index(m, x), x[:, :2] * 2), ROWS),
    "scatter_reduce": (
        lambda m, F, x: x.scatter_reduce(1, index(m, x), x[:, :2] * 2, "amax"), ROWS),
    **{f"scatter_reduce prod {rest}": (
        lambda m, F, x, with_base=rest == "with the base": x.scatter_reduce(
            1, index(m, x), x[:, :2] * 2, "prod", include_self=with_base), ROWS)
       for rest in ("with the base", "alone")},
    "index_reduce prod": (
        lambda m, F, x: x.index_reduce(1, index(m, x)[0], x[:, :2] * 2, "prod"), ROWS),
    "index_fill": (lambda m, F, x: x.index_fill(1, index(m, x)[0], x[0, 0]), ROWS),
    "written over": (lambda m, F, x: (x * 2).copy_(x * x), ROWS),
    "written into what is detached": (lambda m, F, x: (x * 2).detach().mul_(x * x), ROWS),
}


def gradients(m: Any, F: Any, x: Any, function: Function, squared: bool) -> list[Any]:
    """Up to the third, as arrays; the list ends where a gradient depends on x no more."""
    y = function(m, F, x)
    total = (y * y + 3 * y).sum() if squared else y.sum()
    found: list[Any] = []
    for order in range(3):
        g, = m.autograd.grad(total, x, create_graph=True, allow_unused=True)
        if g is None:
            break
        found.append((g.detach() + 0).numpy(**({} if m is lt else {"force": True})))
        if not g.requires_grad:
            break
        total = (g * (order + 2)).sum()
    return found


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("squared", [True, False], ids=["of a square", "of the sum"])
@pytest.mark.parametrize("name", CASES)
def test_higher_gradients_are_pytorchs(name: str, squared: bool) -> None:
    function, values = CASES[name]
    x = torch.tensor(values, requires_grad=True)
    expected = gradients(torch, torch.nn.functional, x, function, squared)
    own = lt.tensor(values, device="interpreter", requires_grad=True)
    found = gradients(lt, functional, own, function, squared)
    for order in range(max(len(found), len(expected))):
        a, b = (g[order] if order < len(g) else np.zeros(values.shape) for g in (found, expected))
        if not np.isnan(b).any():
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=f"gradient {order + 1}")


SMOOTH: dict[str, tuple[Function, float, list[float]]] = {
    "F.softplus": (activation("softplus"), 0.0, [1 / 2, 1 / 4, 0.0, -1 / 8]),
    "F.logsigmoid": (activation("logsigmoid"), 0.0, [1 / 2, -1 / 4, 0.0, 1 / 8]),
    "cross entropy of logits": (lambda m, F, x: F.binary_cross_entropy_with_logits(
        x, m.ones_like(x)), 0.0, [-1 / 2, 1 / 4, 0.0, -1 / 8]),
    "soft_margin_loss": (lambda m, F, x: F.soft_margin_loss(x, m.ones_like(x)), 0.0,
                         [-1 / 2, 1 / 4, 0.0, -1 / 8]),
    "logaddexp": (lambda m, F, x: x.logaddexp(x.detach()), 1.5, [1 / 2, 1 / 4, 0.0, -1 / 8]),
    "logcumsumexp": (lambda m, F, x: m.cat([x, x.detach()]).logcumsumexp(0)[1:], 1.5,
                     [1 / 2, 1 / 4, 0.0, -1 / 8]),
    "lgamma": (method("lgamma"), 1.0, [-0.5772156649, 1.6449340668, -2.4041138063, 6.4939394023]),
    "digamma": (method("digamma"), 2.0, [0.6449340668, -0.4041138063, 0.4939394023, -0.8862661234]),
    "i1": (lambda m, F, x: m.special.i1(x), 0.0, [1 / 2, 0.0, 3 / 8, 0.0]),
    "j1": (lambda m, F, x: m.special.bessel_j1(x), 0.0, [1 / 2, 0.0, -3 / 8, 0.0]),
}
"""Functions without a kink that formulas with one compute: x, and the derivatives there."""


@pytest.mark.parametrize("name", SMOOTH)
def test_higher_gradients_are_right_where_formulas_meet(name: str, device: str) -> None:
    function, value, expected = SMOOTH[name]
    x = lt.tensor([value], dtype=lt.float64, device=device, requires_grad=True)
    y, found = function(lt, functional, x), []
    for _ in expected:
        y, = lt.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.item())
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


STEEP = 4.24835425529158899533e-18
"""e ** -40."""
FAR: dict[str, tuple[Function, float, list[float]]] = {
    "F.softplus": (activation("softplus", 1.0, 100.0), 40.0, [1.0, STEEP, -STEEP]),
    "F.logsigmoid": (activation("logsigmoid"), -40.0, [1.0, -STEEP, -STEEP]),
    "cross entropy of logits": (lambda m, F, x: F.binary_cross_entropy_with_logits(
        x, m.full_like(x, 0.25)), -40.0, [-0.25, STEEP, STEEP]),
    "logaddexp": (lambda m, F, x: x.logaddexp(m.zeros_like(x)), 40.0, [1.0, STEEP, -STEEP]),
    "erfcx": (lambda m, F, x: m.special.erfcx(x), 1e8, [
        -5.6418958354775628e-17, 1.1283791670955126e-24, -3.3851375012865377e-32]),
    "log_ndtr": (lambda m, F, x: m.special.log_ndtr(x), 88.0, [0.0, 0.0, 0.0]),
}
"""Far out, where a difference of nearly equal numbers, or of infinities, has no digits left."""


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", FAR)
def test_higher_gradients_keep_their_digits_far_out(name: str, dtype: Any, device: str) -> None:
    function, value, expected = FAR[name]
    x = lt.tensor([value], dtype=dtype, device=device, requires_grad=True)
    y, found = function(lt, functional, x), []
    for _ in expected:
        y, = lt.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.item())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_hessian_of_a_classifier_is_there_at_its_start(device: str) -> None:
    rows = lt.tensor([[1.0, 2.0], [3.0, -1.0]], device=device)
    labels = lt.tensor([1.0, 0.0], device=device)

    def loss_of(weights: lt.Tensor) -> lt.Tensor:
        missed = functional.softplus(-(rows @ weights)) * labels
        return (missed + functional.softplus(rows @ weights) * (1 - labels)).sum()

    found = lt.func.hessian(loss_of)(lt.zeros(2, device=device))
    np.testing.assert_allclose(found.numpy(), (rows.T @ rows).numpy() / 4, rtol=1e-6)


@pytest.mark.parametrize("name", ["relu", "F.relu6", "F.hardtanh", "F.hardshrink", "F.softshrink",
                                  "F.leaky_relu", "max_pool2d", "adaptive_max_pool2d",
                                  "avg_pool2d (3, 2, 1)", "avg_pool1d", "avg_pool3d",
                                  "adaptive_avg_pool2d 4", "nll_loss mean", "nll_loss of weights",
                                  "threshold", "copysign"])
def test_a_second_gradient_that_is_0_is_no_error(name: str, device: str) -> None:
    function, values = CASES[name]
    x = lt.tensor(values, dtype="float32", device=device, requires_grad=True)
    g, = lt.autograd.grad(function(lt, functional, x).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad is not None and not x.grad.numpy().any()
    again, = lt.autograd.grad(g.sum(), x)
    assert again is not None and not again.numpy().any()


def test_the_gradient_of_index_fill_counts_each_line_once(device: str) -> None:
    x = lt.zeros(1, 5, device=device, requires_grad=True)
    value = lt.tensor(2.0, device=device, requires_grad=True)
    weights = lt.tensor([1.0, 10, 100, 1000, 10000], device=device)
    y = x.index_fill(-1, lt.tensor([4, 3, 3, 4, 0], device=device), value)
    (y * weights).sum().backward()
    assert value.grad is not None and value.grad.item() == 11001
    assert x.grad is not None and x.grad.tolist() == [[0, 10, 100, 0, 0]]


@pytest.mark.torch
def test_a_quantile_has_a_gradient_for_its_share(device: str) -> None:
    values = np.array([[3.0, 1.0, 2.0, 8.0], [5.0, 4.0, np.nan, 7.0]])
    for name in ("quantile", "nanquantile"):
        results = []
        for m, where in ((lt, {"device": device}), (torch, {})):
            q = m.tensor([0.3, 0.5], dtype=m.float64, requires_grad=True, **where)
            x = m.tensor(values, dtype=m.float64, **where)
            getattr(x if name == "nanquantile" else x[:1], name)(q, 1).sum().backward()
            results.append(q.grad.numpy())
        np.testing.assert_allclose(*results)


@pytest.mark.torch
@pytest.mark.parametrize("with_base", [True, False])
def test_higher_gradients_of_products_with_zeros_are_those_of_plain_products(
        with_base: bool, device: str) -> None:
    """Where several zeros meet, PyTorch refuses scatter_reduce's second gradients, so its prod of
    the same numbers tells them."""
    rows = [np.array(row) for row in itertools.product([0.0, 1.5], repeat=4)]
    base, given = np.tile([0.0, -2.0], 8), np.stack(rows)
    both = np.concatenate([base[:, None], given], 1)

    def scattered(m: Any, F: Any, x: Any) -> Any:
        at = m.zeros(16, 4, dtype=m.int64, device=x.device)
        return x[:, :1].scatter_reduce(1, at, x[:, 1:], "prod", include_self=with_base)
    x = torch.tensor(both, requires_grad=True)
    expected = gradients(torch, torch.nn.functional, x,
                         lambda m, F, x: x[:, 1 - with_base:].prod(1), True)
    own = lt.tensor(both, device=device, requires_grad=True)
    for mine, theirs in zip(gradients(lt, functional, own, scattered, True), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.few(1)
def test_the_second_gradient_of_ctc_loss_reaches_the_scores(device: str) -> None:
    rng = np.random.default_rng(0)
    at, step, weights = rng.normal(size=(3, 4, 2, 3))

    def first(values: np.ndarray[Any, Any]) -> tuple[lt.Tensor, lt.Tensor]:
        scores = lt.tensor(values, device=device, requires_grad=True)
        labels = lt.tensor([[1, 2], [2, 2]], device=device)
        loss = functional.ctc_loss(scores.log_softmax(2), labels, [4, 3], [2, 1])
        g, = lt.autograd.grad(loss * loss, scores, create_graph=True)
        return scores, (g * lt.tensor(weights, device=device)).sum()
    scores, total = first(at)
    second, = lt.autograd.grad(total, scores)
    near = (first(at + 1e-6 * step)[1] - first(at - 1e-6 * step)[1]).item() / 2e-6
    assert (second.numpy() * step).sum() == pytest.approx(near, rel=1e-6)


def test_the_graph_of_ctc_loss_is_as_small_for_a_long_sequence() -> None:
    def nodes(time: int) -> int:
        scores = lt.zeros(time, 2, 4, requires_grad=True)
        loss = functional.ctc_loss(scores, lt.tensor([[1, 2], [2, 2]]), [time, 3], [2, 1])
        first, = lt.autograd.grad(loss, scores)
        seen, found = set(), [first.node]
        while found:
            node = found.pop()
            if node not in seen:
                seen.add(node)
                found.extend(node.src)
        return len(seen)
    assert nodes(300) < 1.1 * nodes(20) < 1000


class PairOfPowers(lt.autograd.Function):
    """x^2 and x^3; its gradient is of both."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        second, third = x * x, x * x * x
        ctx.save_for_backward(second, third)
        return second, third

    @staticmethod
    def backward(ctx: Any, of_second: lt.Tensor, of_third: lt.Tensor) -> lt.Tensor:
        second, third = ctx.saved_tensors
        return of_second * 2 * third / second + of_third * 3 * second


class Reciprocal(lt.autograd.Function):
    """1 / x by NumPy: x is computed for it."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
        result = lt.tensor(1 / x.detach().numpy(), device=x.device)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
        result, = ctx.saved_tensors
        return -g * result * result


def test_a_saved_output_that_nobody_kept_has_a_second_gradient(device: str) -> None:
    x = lt.tensor([1.5, -0.5], dtype=lt.float64, device=device, requires_grad=True)
    result = Reciprocal.apply(PairOfPowers.apply(x)[0] + 0.25)
    first, = lt.autograd.grad(result.sum(), x, create_graph=True)
    found, = lt.autograd.grad(first.sum(), x)
    at = x.detach().numpy() ** 2
    np.testing.assert_allclose(found.numpy(), (6 * at - 0.5) / (at + 0.25) ** 3, rtol=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["asin", "acos", "atanh", "acosh", "special.entr"])
def test_gradients_and_second_ones_at_the_ends_are_infinite_as_pytorchs(name: str) -> None:
    def both(m: Any) -> list[Any]:
        x = m.tensor([1.0] if name == "acosh" else [1.0, -1.0, 0.0, 0.5], dtype=m.float64,
                     requires_grad=True)
        first, = m.autograd.grad(attrgetter(name)(m)(x).sum(), x, create_graph=True)
        second, = m.autograd.grad(first.sum(), x)
        return [first.tolist(), second.tolist()]

    np.testing.assert_allclose(both(lt), both(torch), rtol=1e-12)
