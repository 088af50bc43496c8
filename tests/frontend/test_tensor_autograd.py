"""Gradients of tensors: every differentiable method, accumulation, graphs kept and freed, views."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import Array

import lazyten as lt

Function = Callable[[lt.Tensor], lt.Tensor]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


# ---- every method, by finite differences ---------------------------------------------------------

def away_from(values: Array, kinks: float = 0.05) -> Array:
    """No value near 0, where many functions are not smooth."""
    return values + kinks * np.where(values < 0, -1.0, 1.0)


ANY = away_from(normal(3, 4))
POSITIVE = np.abs(ANY) + 0.2
OTHER = away_from(normal(3, 4, seed=1))
INSIDE = np.array([[0, 2, 1, 3], [1, 1, 0, 2], [3, 0, 0, 1]])


def o(x: lt.Tensor) -> lt.Tensor:
    """Another operand, that needs no gradient."""
    return lt.tensor(OTHER, device=x.device)


METHODS: dict[str, tuple[Array, Function]] = {
    "add": (ANY, lambda x: x + o(x)), "add alpha": (ANY, lambda x: x.add(x, alpha=3)),
    "sub": (ANY, lambda x: x - x.T.reshape(3, 4)), "rsub": (ANY, lambda x: 1 - x),
    "mul": (ANY, lambda x: x * x[:1]), "div": (POSITIVE, lambda x: o(x) / x),
    "div by": (ANY, lambda x: x / 3), "square": (ANY, lambda x: x.square()),
    "pow": (POSITIVE, lambda x: x ** 2.5), "pow 2": (ANY, lambda x: x ** 2),
    "pow 3": (ANY, lambda x: x ** 3), "pow -1": (ANY, lambda x: x ** -1),
    "exponent": (ANY, lambda x: 2.5 ** x), "pow tensor": (POSITIVE, lambda x: x ** x[0]),
    "neg": (ANY, lambda x: -x), "abs": (ANY, lambda x: x.abs()),
    "remainder": (ANY, lambda x: x % 7.5), "maximum": (ANY, lambda x: x.maximum(o(x))),
    "minimum": (ANY, lambda x: x.minimum(o(x))), "clamp": (ANY, lambda x: x.clamp(-0.5, 0.7)),
    "clamp by tensors": (ANY, lambda x: x.clamp(x[:1] - 0.3, x[1:2] + 2)),
    "where": (ANY, lambda x: lt.where(x > 0, x * 2, x * x)),
    "masked_fill": (ANY, lambda x: x.masked_fill(x > 1, 3.0)),
    "exp": (ANY, lambda x: x.exp()), "exp2": (ANY, lambda x: x.exp2()),
    "expm1": (ANY, lambda x: x.expm1()), "log": (POSITIVE, lambda x: x.log()),
    "log2": (POSITIVE, lambda x: x.log2()), "log10": (POSITIVE, lambda x: x.log10()),
    "log1p": (POSITIVE, lambda x: x.log1p()), "sqrt": (POSITIVE, lambda x: x.sqrt()),
    "rsqrt": (POSITIVE, lambda x: x.rsqrt()), "reciprocal": (ANY, lambda x: x.reciprocal()),
    "sin": (ANY, lambda x: x.sin()), "cos": (ANY, lambda x: x.cos()),
    "tan": (ANY * 0.3, lambda x: x.tan()), "tanh": (ANY, lambda x: x.tanh()),
    "sigmoid": (ANY, lambda x: x.sigmoid()), "erf": (ANY, lambda x: x.erf()),
    "relu": (ANY, lambda x: x.relu()), "gelu": (ANY, lambda x: x.gelu()),
    "gelu tanh": (ANY, lambda x: x.gelu("tanh")), "silu": (ANY, lambda x: x.silu()),
    "floor": (ANY, lambda x: x.floor() + x), "round": (ANY, lambda x: x.round() * x),
    "trunc": (ANY, lambda x: x.trunc() + x), "softplus": (ANY, lt.nn.functional.softplus),
    "leaky_relu": (ANY, lt.nn.functional.leaky_relu), "elu": (ANY, lt.nn.functional.elu),
    "softmax": (ANY, lambda x: x.softmax(1)), "log_softmax": (ANY, lambda x: x.log_softmax(0)),
    "sum": (ANY, lambda x: x.sum(1)), "sum all": (ANY, lambda x: (x * x).sum()),
    "prod": (ANY, lambda x: x.prod(0)), "prod all": (ANY, lambda x: x.prod()),
    "mean": (ANY, lambda x: x.mean((0, 1)) * x), "var": (ANY, lambda x: x.var(1)),
    "std": (ANY, lambda x: x.std(0, correction=0)), "norm": (ANY, lambda x: x.norm(dim=1)),
    "amax": (ANY, lambda x: x.amax(1)), "amin": (ANY, lambda x: x.amin()),
    "max": (ANY, lambda x: x.max(1).values), "min": (ANY, lambda x: x.min(0, True).values),
    "logsumexp": (ANY, lambda x: x.logsumexp(1)), "cumsum": (ANY, lambda x: x.cumsum(1) * x),
    "reshape": (ANY, lambda x: x.reshape(2, 6) * o(x).reshape(2, 6)),
    "permute": (ANY, lambda x: x.permute(1, 0) * o(x).T), "expand": (ANY[:1], lambda x: x.expand(
        3, 4) * o(x)),
    "flip": (ANY, lambda x: x.flip(0, 1) * x), "slice": (ANY, lambda x: x[::2, ::-2] * x[:2, 1:3]),
    "pad": (ANY, lambda x: x.pad((1, 2, -1, 1), 3.0).square()),
    "repeat": (ANY, lambda x: x.repeat(2, 1).sin()), "roll": (ANY, lambda x: lt.roll(x, 1, 1) * x),
    "cat": (ANY, lambda x: lt.cat([x, x * x], 1)), "stack": (ANY, lambda x: lt.stack([x, -x])),
    "split": (ANY, lambda x: x.split(3, 1)[0] * x.split(3, 1)[1]),
    "matmul": (ANY, lambda x: x @ x.T), "matmul vector": (ANY, lambda x: x @ x[0]),
    "matmul batch": (ANY, lambda x: x.reshape(3, 2, 2) @ x.reshape(3, 1, 2, 2)),
    "tril": (ANY, lambda x: lt.tril(x) * x), "gather": (ANY, lambda x: x.gather(
        1, lt.tensor(INSIDE, device=x.device)) * o(x)),
    "take": (ANY, lambda x: x[:, lt.tensor([[0, 2], [2, 3]], device=x.device)].square()),
    "contiguous": (ANY, lambda x: x.T.contiguous() * o(x).T),
    "clone": (ANY, lambda x: x.clone() * x),
    "copy": (ANY, lambda x: x.to("interpreter").to(x.device) * x),
    "linear": (ANY, lambda x: lt.nn.functional.linear(x, x[:2], x[0, :2])),
    "layer_norm": (ANY, lambda x: lt.nn.functional.layer_norm(x, (4,), x[0], x[1])),
}


def numeric(function: Function, values: Array, weight: Array, h: float = 1e-6) -> Array:
    """d sum(weight * function) / d values by central differences, all in one graph."""
    moved = []
    for position in np.ndindex(*values.shape):
        for sign in (h, -h):
            step = values.copy()
            step[position] += sign
            moved.append(function(lt.tensor(step, device="interpreter")))
    lt.realize(*moved)
    sums = [float(np.sum(weight * t.numpy())) for t in moved]
    return np.reshape([(a - b) / (2 * h) for a, b in zip(sums[::2], sums[1::2], strict=True)],
                      values.shape)


@pytest.mark.parametrize("times", [1, 4])
def test_what_is_repeated_and_summed_has_a_gradient_of_its_repetitions(times: int,
                                                                       device: str) -> None:
    x = lt.ones(3, 1, device=device).requires_grad_()
    (x.expand(2, 3, 5).sum() * times).backward()
    assert x.grad is not None and x.grad.tolist() == [[10 * times]] * 3
    y = lt.ones((), device=device).requires_grad_()
    (y + lt.zeros(4, 2, device=device)).mean().backward()
    assert y.grad is not None and y.grad.item() == 1


@pytest.mark.few(36)
@pytest.mark.parametrize("name", METHODS)
def test_gradients_match_finite_differences(name: str) -> None:
    values, function = METHODS[name]
    x = lt.tensor(values, device="interpreter", requires_grad=True)
    y = function(x)
    weight = np.random.default_rng(2).uniform(0.5, 1.5, y.shape)
    y.backward(lt.tensor(weight, device="interpreter"))
    assert x.grad is not None and x.grad.dtype is lt.float64
    expected = numeric(function, values, weight)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=2e-6, atol=2e-8)


def test_compiled_gradients_match_the_interpreters() -> None:
    results: dict[str, list[lt.Tensor]] = {}
    for device in ("cpu", "interpreter"):
        for name, (values, function) in METHODS.items():
            x = lt.tensor(values, device=device, requires_grad=True)
            function(x).sum().backward()
            assert x.grad is not None
            results.setdefault(name, []).append(x.grad)
        lt.realize(*(pair[-1] for pair in results.values()))
    for name, (mine, reference) in results.items():
        np.testing.assert_allclose(mine.numpy(), reference.numpy(), rtol=1e-10, atol=1e-12,
                                   err_msg=name)


# ---- backward ------------------------------------------------------------------------------------

def test_gradients_add_up_over_backwards(device: str) -> None:
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5, 7]
    x.grad = None
    x.prod().backward()
    assert x.grad.tolist() == [2, 1]


def test_a_graph_is_freed_by_backward_unless_kept(device: str) -> None:
    x = lt.tensor(3.0, device=device, requires_grad=True)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None and x.grad.item() == 12
    with pytest.raises(lt.GradientError, match="retain_graph"):
        y.backward()
    assert y.item() == 9


def used_up(device: str, is_looked_at: bool) -> tuple[lt.Tensor, lt.Tensor]:
    """A leaf, and a loss whose graph backward() has used up."""
    w = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    if is_looked_at:
        assert loss.item() == 5
    return w, loss


@pytest.mark.parametrize("is_looked_at", [False, True])
@pytest.mark.parametrize("go_on", [
    lambda w, loss: loss * 2, lambda w, loss: lt.zeros(()).to(loss.device).add_(loss),
    lambda w, loss: loss * 2 + w.sum(), lambda w, loss: lt.stack([loss, w[0]]).sum(),
    lambda w, loss: lt.zeros(2).to(loss.device).copy_(loss).mul_(w).sum(),
    lambda w, loss: loss.copy_(w.sum()) * 1])
def test_no_gradient_flows_through_a_graph_that_is_used_up(
        go_on: Callable[[Any, Any], Any], is_looked_at: bool, device: str) -> None:
    w, loss = used_up(device, is_looked_at)
    later = go_on(w, loss)
    assert later.requires_grad and not later.is_leaf and later.grad_fn is not None
    before = w.grad
    with pytest.raises(lt.GradientError, match="retain_graph=True"):
        later.backward()
    assert w.grad is before and w.grad is not None and w.grad.tolist() == [2, 4]


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_what_does_not_need_a_graph_that_is_used_up_goes_on(is_looked_at: bool,
                                                            device: str) -> None:
    _, loss = used_up(device, is_looked_at)
    assert (loss / 2).item() == 2.5 and bool(loss > 1)
    assert not (loss.detach() * 2).requires_grad
    with lt.no_grad():
        assert not (loss * 2).requires_grad
    v = lt.tensor(3.0, device=device, requires_grad=True)
    found, = lt.autograd.grad(loss + v * v, [v])
    assert found.item() == 6


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_a_graph_of_sums_has_no_values_to_free(is_looked_at: bool, device: str) -> None:
    w = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    total = (w.reshape(2, 1) + 1).sum() - w[0]
    total.backward()
    if is_looked_at:
        assert total.item() == 4
    total.backward()
    (total + (w * w).sum()).backward()
    assert w.grad is not None and w.grad.tolist() == [2, 7]


def test_second_and_third_derivatives_come_from_grad(device: str) -> None:
    x = lt.tensor([0.3, -1.2], dtype=lt.float64, device=device, requires_grad=True)
    value = x.numpy()
    first, = lt.grad((x ** 3 * x.sin()).sum(), x, create_graph=True)
    second, = lt.grad(first.sum(), x)
    lt.realize(first, second)
    s, c = np.sin(value), np.cos(value)
    np.testing.assert_allclose(first.detach().numpy(), 3 * value**2 * s + value**3 * c)
    np.testing.assert_allclose(second.detach().numpy(),
                               6 * value * s + 6 * value**2 * c - value**3 * s)
    assert x.grad is None


SMOOTH = ["tanh", "sigmoid", "erf", "expm1", "log1p", "cos", "gelu", "silu", "softmax", "norm",
          "logsumexp", "matmul", "layer_norm", "amax", "max", "abs", "relu", "prod"]


@pytest.mark.few(10)
@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_match_finite_differences(name: str) -> None:
    values, function = METHODS[name]
    weight = np.random.default_rng(3).uniform(0.5, 1.5, values.shape)

    def slope(x: lt.Tensor) -> lt.Tensor:
        x = x.detach().requires_grad_()
        return lt.grad(function(x).square().sum(), x)[0]

    x = lt.tensor(values, device="interpreter", requires_grad=True)
    first, = lt.grad(function(x).square().sum(), x, create_graph=True)
    first.backward(lt.tensor(weight, device="interpreter"))
    assert x.grad is not None
    expected = numeric(slope, values, weight)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_grad_takes_weights_and_several_inputs(device: str) -> None:
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    w = lt.tensor([3.0, 4.0], device=device, requires_grad=True)
    gx, gw = lt.grad(x * w, [x, w], lt.tensor([1.0, 10.0], device=device))
    lt.realize(gx, gw)
    assert gx.tolist() == [3, 40] and gw.tolist() == [1, 20]
    with pytest.raises(lt.GradientError, match="input 1"):
        lt.grad(x.sum(), [x, w])


# ---- where gradients stop ------------------------------------------------------------------------

def test_detach_and_no_grad_stop_gradients(device: str) -> None:
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    (x * x.detach()).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 2]
    with lt.no_grad():
        y = x * 2
        with lt.enable_grad():
            z = x * 2
        view = x[0]
    assert not y.requires_grad and z.requires_grad and not view.requires_grad
    with pytest.raises(lt.GradientError, match="does not require gradients"):
        y.sum().backward()
    x.grad = None
    (x * y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 4]


def test_gradients_are_found_within_no_grad_of_what_was_looked_at(device: str) -> None:
    x = lt.tensor([0.5, -1.0], device=device, requires_grad=True)
    y = x.sin()
    total = y.sum()
    with lt.no_grad():
        assert total.item() == pytest.approx(np.sin([0.5, -1.0]).sum(), abs=1e-6)
        (by_sum,) = lt.autograd.grad(total, x, retain_graph=True)
        (of_middle,) = lt.autograd.grad(total, y, retain_graph=True)
        total.backward()
        y.backward(lt.ones(2, device=device))
    np.testing.assert_allclose(by_sum.numpy(), np.cos([0.5, -1.0]), rtol=1e-6)
    np.testing.assert_array_equal(of_middle.numpy(), [1, 1])
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos([0.5, -1.0]), rtol=1e-6)


def test_a_variable_shares_memory_with_its_tensor_and_is_a_leaf() -> None:
    x = lt.tensor([1, 2])
    old = lt.autograd.Variable(x)
    old[0] = 5
    assert x.tolist() == [5, 2] and isinstance(x, lt.autograd.Variable)
    assert lt.autograd.Variable(lt.ones(2), True, volatile=True).requires_grad
    made = lt.ones(2, requires_grad=True) * 2
    again = lt.autograd.Variable(made)
    assert again.is_leaf and not again.requires_grad and made.requires_grad
    assert lt.autograd.Variable().shape == (0,) and not isinstance(3, lt.autograd.Variable)
    assert lt.autograd.Variable.sum is lt.Tensor.sum
    with pytest.raises(lt.DTypeError, match="Variable of list"):
        lt.autograd.Variable([1.0])  # type: ignore[arg-type]


def test_comparisons_and_integers_require_no_gradient() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    for y in (x > 1, x.argmax(), x.long(), x.isnan(), x.max(0).indices, x.floor().int()):
        assert not y.requires_grad
    with pytest.raises(lt.GradientError, match="int64"):
        lt.tensor([1, 2], requires_grad=True)


def test_leaves_are_leaves_and_results_are_not() -> None:
    x = lt.ones(2, requires_grad=True)
    y = x * 2
    assert x.is_leaf and x.requires_grad and not y.is_leaf and y.requires_grad
    assert lt.ones(2).is_leaf and x.detach().is_leaf and not x.detach().requires_grad
    assert not x[0].is_leaf and x[0].requires_grad
    with pytest.raises(lt.GradientError, match="detach"):
        y.requires_grad_(False)
    assert not x.requires_grad_(False).requires_grad


def test_two_leaves_of_equal_values_have_their_own_gradients(device: str) -> None:
    a, b = (lt.ones(2, device=device, requires_grad=True) for _ in range(2))
    (a * 2 + b * 5).sum().backward()
    assert a.grad is not None and b.grad is not None
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [5, 5]


# ---- views and writes ----------------------------------------------------------------------------

def test_gradients_flow_through_views_of_leaves(device: str) -> None:
    x = lt.tensor(np.arange(6.0).reshape(2, 3), device=device, requires_grad=True)
    (x.T[1:, 0] * 2 + x[1, ::2]).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 2, 2], [1, 0, 1]]


def test_writes_to_results_are_differentiated(device: str) -> None:
    x = lt.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    y = x * 2
    y[0] = 7
    y[1:] *= x[1:]
    y += x
    y.sum().backward()
    assert y.detach().tolist() == [8, 10, 21]
    assert x.grad is not None and x.grad.tolist() == [1, 9, 13]


def test_a_write_makes_a_plain_tensor_require_gradients(device: str) -> None:
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    y = lt.zeros(4, device=device)
    y[1:3] = x * x
    assert y.requires_grad and not y.is_leaf
    (y * lt.arange(4, device=device)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 8]


def test_writing_to_a_leaf_needs_no_grad(device: str) -> None:
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    for write in (lambda: x.add_(1), lambda: x.__setitem__(0, 5.0), lambda: x[0].fill_(2)):
        with pytest.raises(lt.GradientError, match="no_grad"):
            write()
    with lt.no_grad():
        x -= 1
    assert x.is_leaf and x.detach().tolist() == [0, 1]
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 2]


def test_values_used_before_a_write_keep_their_gradient(device: str) -> None:
    x = lt.tensor([2.0], device=device, requires_grad=True)
    y = x * 3
    z = y * y
    y.zero_()
    z.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [36]


def test_realizing_between_changes_no_gradient(device: str) -> None:
    gradients = []
    for stop in (False, True):
        x = lt.tensor([0.5, -1.5], device=device, requires_grad=True)
        y = x.exp()
        if stop:
            y.realize()
        z = (y * x).sum()
        if stop:
            z.item()
        z.backward()
        assert x.grad is not None
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


def test_a_detached_tensor_that_becomes_a_leaf_is_a_tensor_of_its_own(device: str) -> None:
    for x in (lt.tensor([1.0, 2.0], device=device, requires_grad=True),
              lt.tensor([1.0, 2.0], device=device), lt.tensor([1.0, 2.0], device=device) * 1):
        before = x.requires_grad
        leaf = x.detach()[1:].detach().requires_grad_()
        assert leaf.is_leaf and leaf.requires_grad and x.requires_grad is before
        (leaf * leaf).sum().backward()
        assert leaf.grad is not None and leaf.grad.tolist() == [4] and x.grad is None
        with lt.no_grad():
            leaf += 1
            x *= 5
        assert leaf.tolist() == [3] and x.tolist() == [5, 10]


# ---- errors --------------------------------------------------------------------------------------

@pytest.mark.parametrize(("call", "word"), [
    (lambda x: (x * 2).backward(), "reduce first"), (lambda x: lt.ones(1).backward(), "require"),
    (lambda x: (x * 2).backward(lt.ones(2)), "alike"),
    (lambda x: x.sum().backward(lt.ones(1)), "alike"),
    (lambda x: (x * 2).backward(lt.ones(3, dtype=lt.int64)), "alike"),
    (lambda x: setattr(x, "grad", lt.ones(2)), "must be like"),
    (lambda x: lt.grad(x.sum(), [lt.ones(2, requires_grad=True)]), "depend")])
def test_wrong_uses_are_explained(call: Callable[[Any], Any], word: str) -> None:
    with pytest.raises(lt.GradientError, match=word):
        call(lt.ones(3, requires_grad=True))


@pytest.mark.parametrize("fn", [
    lambda x: x[:, :0].sum(), lambda x: x[:0].exp().sum(1).sum(),
    lambda x: (x[:, :0] @ x[:0]).sum(),
    lambda x: x[:0].prod() * 2, lambda x: x[:0].softmax(0).sum()],
    ids=["sum", "rows", "product of matrices", "product", "softmax"])
def test_what_is_computed_of_no_elements_gives_a_gradient_of_zeros(
        fn: Callable[[lt.Tensor], lt.Tensor]) -> None:
    x = lt.ones(3, 3, requires_grad=True)
    fn(x).backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 3
    assert lt.func.jvp(fn, (x.detach(),), (lt.ones(3, 3),))[1].item() == 0


def test_a_hook_of_a_parameter_gives_a_tensor(device: str) -> None:
    weight = lt.nn.Parameter(lt.ones(3, device=device))
    weight.register_hook(lambda g: g * 2)
    weight.sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [2.0] * 3


def test_gradients_flow_to_what_is_written_to_a_frozen_parameter(device: str) -> None:
    frozen = lt.nn.Parameter(lt.ones(3, device=device), requires_grad=False)
    end = lt.ones(3, device=device, requires_grad=True)
    frozen.lerp_(end * 2, 0.25)
    assert frozen.requires_grad
    frozen.sum().backward()
    assert end.grad is not None and end.grad.tolist() == [0.5] * 3


def test_the_way_of_a_gradient_leads_to_the_leaves() -> None:
    layer = lt.nn.Linear(3, 2)
    x, mask = lt.ones(4, 3), lt.tensor([1.0, 0.0])
    loss: Any = lt.nn.functional.mse_loss(layer(x).relu() * mask, lt.zeros(4, 2))
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        function = waiting.pop()
        if function not in seen:
            seen.add(function)
            waiting += [f for f, number in function.next_functions if f and number == 0]
    ends = {f for f in seen if not f.next_functions}
    assert {f.name() for f in ends} == {"AccumulateGrad"}
    assert {id(f.variable) for f in ends} == {id(p) for p in layer.parameters()}
    assert not any(hasattr(f, "variable") for f in seen - ends)
    doubled: Any = layer.weight * 2
    assert [f and f.name() for f, _ in doubled.grad_fn.next_functions] == ["AccumulateGrad", None]
    assert doubled.grad_fn == doubled.grad_fn != loss.grad_fn
    with pytest.raises(AttributeError, match="MulBackward has no 'variable'"):
        doubled.grad_fn.variable  # noqa: B018


# ---- gradients of views --------------------------------------------------------------------------

VIEWS: dict[str, tuple[Function, Function]] = {
    "reshape": (lambda t: t.reshape(6, 4), lambda t: t.reshape(-1)),
    "unsqueeze": (lambda t: t.unsqueeze(0), lambda t: t.unsqueeze(0)),
    "permute": (lambda t: t.permute(1, 2, 0), lambda t: t.permute(1, 0, 2)),
    "permute back": (lambda t: t.transpose(0, 1), lambda t: t.transpose(0, 1)),
    "expand": (lambda t: t[:1].expand(2, 3, 4), lambda t: t.expand(5, 2, 3, 4)),
    "slice": (lambda t: t[:, 1:], lambda t: t[:, 1:]),
    "flip": (lambda t: t.flip(0), lambda t: t.flip(0)),
    "reshape of a result": (lambda t: t.sin().reshape(6, 4), lambda t: t.reshape(-1)),
}
"""A view, and one of it that one move could make of the original."""


@pytest.mark.parametrize("name", VIEWS)
def test_the_gradient_of_a_view_is_that_of_all_that_is_computed_from_it(name: str) -> None:
    first, second = VIEWS[name]

    def uses(view: lt.Tensor) -> lt.Tensor:
        return (second(view) ** 2).sum() + (view * 3).sum() + (second(view)[..., :1] * 5).sum()

    x = lt.tensor(normal(2, 3, 4), requires_grad=True)
    view = first(x)
    alone = view.detach().clone().requires_grad_()
    expected = lt.autograd.grad(uses(alone), alone)[0].numpy()
    whole = uses(view) + x.exp().sum()
    np.testing.assert_allclose(lt.autograd.grad(whole, view, retain_graph=True)[0].numpy(),
                               expected)
    watched = first(x)
    seen: list[lt.Tensor] = []
    watched.retain_grad()
    watched.register_hook(seen.append)
    (uses(watched) + x.exp().sum()).backward()
    assert watched.grad is not None
    np.testing.assert_allclose(watched.grad.numpy(), expected)
    np.testing.assert_allclose(sum(g.numpy() for g in seen), expected)


def test_a_view_of_what_was_made_is_a_leaf_whose_gradient_can_be_asked_for() -> None:
    made = lt.tensor(normal(1, 4, 3)).expand(2, 4, 3).contiguous().view(-1, 3).requires_grad_()
    weights = lt.tensor(normal(3, 3, seed=1))
    gradient = lt.autograd.grad((made @ weights).sum(), made)[0]
    np.testing.assert_allclose(gradient.numpy(), np.tile(weights.sum(1).numpy(), (8, 1)))


def test_each_element_of_what_was_expanded_has_a_gradient_of_its_own() -> None:
    values = lt.tensor(normal(1, 3))
    wide = values.expand(2, 3).requires_grad_()
    (wide * lt.tensor([[1.0], [2.0]])).sum().backward()
    assert wide.grad is not None and wide.grad.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert wide.is_leaf and not values.requires_grad


def test_gradients_of_new_data_go_on_to_what_made_the_old() -> None:
    p = lt.tensor([0.3, 0.7], requires_grad=True)
    x = p * 2
    x.retain_grad()
    x.data = x.data.round()
    (x * x).sum().backward()
    assert x.tolist() == [1, 1] and not x.is_leaf
    assert x.grad is not None and x.grad.tolist() == [2, 2]
    assert p.grad is not None and p.grad.tolist() == [4, 4]
    with pytest.raises(lt.GradientError, match=r"data = float32 \(3,\).* of float32 \(2,\)"):
        x.data = lt.zeros(3)


@pytest.mark.parametrize("freeze", [lambda w: w.detach_(), lambda w: w.requires_grad_(False)])
@pytest.mark.parametrize("looks", [False, True])
def test_a_leaf_that_was_frozen_since_it_was_read_collects_nothing(
        freeze: Any, looks: bool) -> None:
    w, v = (lt.tensor([x, 3.0], requires_grad=True) for x in (1.0, 2.0))
    for i in range(3):  # the later ones are recognized
        w.requires_grad_(True)
        y = (w * v).sum()
        assert not looks or y.item()
        freeze(w)
        (y + (w * v).sum()).backward()
        assert w.grad is None
        np.testing.assert_array_equal(v.grad.numpy(), [2 * (i + 1), 6 * (i + 1)])
    y = (w.requires_grad_(True) * v).sum()
    w.requires_grad_(False).requires_grad_(True)
    (y + (w * v).sum()).backward()  # it collects again, of what was recorded before, too
    np.testing.assert_array_equal(w.grad.numpy(), [4, 6])


def test_hooks_of_a_leaf_stay_while_it_is_frozen() -> None:
    w, told = lt.tensor([1.0, 2.0], requires_grad=True), []
    w.register_hook(lambda g: g * 10)
    w.register_post_accumulate_grad_hook(lambda leaf: told.append(leaf.grad.tolist()))
    w.requires_grad_(False).requires_grad_(True)
    (w * 3).sum().backward()
    assert told == [[30.0, 30.0]]
    lt.jit(lambda x: x.requires_grad_(False).sum())(w)  # which then runs as Python
    assert not w.requires_grad
    (w.requires_grad_(True) * 3).sum().backward()
    assert told == [[30.0, 30.0], [60.0, 60.0]]
