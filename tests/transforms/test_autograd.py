"""autograd beside PyTorch: hooks, grad(), Function, gradcheck, anomalies, checkpoints."""
from __future__ import annotations

import gc
import weakref
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tensor_values import assert_alike
from torch_if_there import torch

import lazyten as lt
from lazyten import autograd, nn
from lazyten.testing import peak_bytes

VALUES = np.array([0.5, -1.5, 2.0])


def leaf(device: str) -> lt.Tensor:
    return lt.tensor(VALUES, device=device, requires_grad=True)


def torch_leaf() -> Any:
    return torch.tensor(VALUES, requires_grad=True)


# ---- hooks ---------------------------------------------------------------------------------------

def hooked(x: Any) -> list[Any]:
    """What hooks see and change, as lists."""
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(("leaf", g.tolist())))
    h = x * 2
    h.retain_grad()
    first = h.register_hook(lambda g: g * 10)
    h.register_hook(lambda g: seen.append(("second", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("after", t.grad.tolist())))
    loss = (h * h).sum()
    loss.backward(retain_graph=True)
    seen.append((h.grad.tolist(), x.grad.tolist(), h.retains_grad, x.retains_grad))
    first.remove()
    loss.backward()
    seen.append((h.grad.tolist(), x.grad.tolist()))
    return seen


def modes(T: Any, create_graph: bool) -> list[tuple[str, bool]]:
    """Whether operations are recorded in each function of the user's that a backward pass calls."""
    seen: list[tuple[str, bool]] = []

    def told(name: str) -> Any:
        return lambda *given: seen.append((name, T.is_grad_enabled()))

    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(("function", T.is_grad_enabled()))
            return g * 2

    layer = T.nn.Linear(2, 2)
    layer.register_full_backward_hook(told("module"))
    x = T.tensor([1.0, 2.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(told("leaf"))
    for _ in range(3):  # the later ones may be known
        h = x * 2
        h.register_hook(told("tensor"))
        Double.apply(layer(h)).sum().backward(create_graph=create_graph)
    return seen


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_are_recorded_if_the_gradients_can_be_differentiated(create_graph: bool) -> None:
    assert modes(lt, create_graph) == modes(torch, create_graph)


def test_a_hook_after_a_leaf_s_gradient_may_take_a_step() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: p.add_(p.grad, alpha=-0.5))
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
        assert x.is_leaf and x.requires_grad
    assert x.tolist() == [0, 0]


@pytest.mark.torch
def test_hooks_and_retained_gradients_are_torchs(device: str) -> None:
    assert hooked(leaf(device)) == hooked(torch_leaf())


@pytest.mark.torch
def test_a_hook_sees_the_sum_over_all_uses(device: str) -> None:
    for x in (leaf(device), torch_leaf()):
        seen: list[Any] = []
        h = x * 3
        h.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        (h.sum() + (h * 2).sum()).backward()
        assert seen == [[3.0, 3.0, 3.0]]


def hooked_checkpoint(m: Any, x: Any) -> list[Any]:
    """What a hook of a leaf sees that a checkpoint uses, beside another use."""
    seen: list[Any] = []
    x.register_hook(lambda g: (seen.append(g.tolist()), g * 0.5)[1])
    kept = import_module(f"{m.__name__}.utils.checkpoint").checkpoint
    for y in (x.detach().requires_grad_(), x * 2):
        (kept(lambda v: (v * x).sin(), y, use_reentrant=False) + x).sum().backward()
    return [*seen, x.grad.tolist()]


@pytest.mark.torch
def test_a_hook_of_a_leaf_that_a_checkpoint_uses_sees_the_sum(device: str) -> None:
    assert_alike(hooked_checkpoint(lt, leaf(device)), hooked_checkpoint(torch, torch_leaf()),
                 rel=1e-12, abs=0)


def hooked_views(x: Any) -> list[Any]:
    """What hooks of views of a leaf and of a result see and change, as lists."""
    seen: list[Any] = []
    h = x * 2
    rows, part, same = h.reshape(3, 1), x[1:], x[:2]
    for name, view in (("rows", rows), ("part", part)):
        view.retain_grad()
        view.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
    same.register_hook(lambda g: g * 10)
    (rows * rows * 3).sum().backward(retain_graph=True)
    (part * part).sum().backward()
    (same * same + rows[:2].reshape(2)).sum().backward()
    seen.append((rows.is_leaf, part.retains_grad, part.grad.tolist()))
    return [*seen, rows.grad.tolist(), x.grad.tolist()]


@pytest.mark.torch
def test_hooks_and_retained_gradients_of_views_are_torchs(device: str) -> None:
    assert hooked_views(leaf(device)) == hooked_views(torch_leaf())


def rewritten(x: Any) -> list[Any]:
    """Retained gradients of what is written in place, itself or through another view."""
    found = []
    for write in (lambda h: h.mul_(3), lambda h: h[0].mul_(3), lambda h: h[1:].add_(x[1:])):
        h = x * 2
        h.retain_grad()
        write(h)
        (h * h).sum().backward()
        found.append((h.grad.tolist(), x.grad.tolist()))
    return found


@pytest.mark.torch
def test_a_retained_gradient_is_of_the_value_after_writes(device: str) -> None:
    assert rewritten(leaf(device)) == rewritten(torch_leaf())


def test_what_retains_a_gradient_may_be_written_once_its_graph_is_used(device: str) -> None:
    h = leaf(device) * 2
    h.retain_grad()
    h.sum().backward()
    with lt.no_grad():
        h.zero_()
    assert h.tolist() == [0, 0, 0] and h.grad is not None and h.grad.tolist() == [1, 1, 1]


def test_hooks_do_not_keep_a_tensor_alive(device: str) -> None:
    h = leaf(device) * 2
    h.retain_grad()
    h.register_hook(lambda g: g)
    there = weakref.ref(h)
    node = weakref.ref(h.node)
    del h
    gc.collect()
    assert there() is None
    assert node() is None


# ---- where gradients stop ------------------------------------------------------------------------

def through_grad(m: Any, x: Any, w: Any) -> list[Any]:
    """Gradients of what is computed from `.grad`, which is no part of the graph."""
    (x ** 3).sum().backward()
    (w * x.grad.clone()).sum().backward()
    z = (x.grad * 1).requires_grad_()
    (z * z * w).sum().backward()
    with m.no_grad():
        u = x * 2
    (u.requires_grad_() ** 2).sum().backward()
    return [t.grad.tolist() for t in (x, w, z, u)]


@pytest.mark.torch
def test_no_gradient_flows_through_grad_or_past_a_leaf(device: str) -> None:
    found, expected = (through_grad(m, make(), make()) for m, make in (
        (lt, lambda: leaf(device)), (torch, torch_leaf)))
    assert found == expected


# ---- grad() --------------------------------------------------------------------------------------

def both_grads(call: Any, device: str) -> tuple[Any, Any]:
    """What a call of (library, leaf, other leaf) gives, as lists."""
    return tuple([None if g is None else g.tolist() for g in call(m, *xs)] for m, xs in (
        (lt, (leaf(device), leaf(device))), (torch, (torch_leaf(), torch_leaf()))))


GRADS = {
    "one": lambda m, x, y: m.autograd.grad((x * x).sum(), x),
    "several outputs": lambda m, x, y: m.autograd.grad([(x * y).sum(), (x ** 2).sum()], [x, y]),
    "weights": lambda m, x, y: m.autograd.grad(x * y, [x, y], grad_outputs=y.detach() * 2),
    "unused": lambda m, x, y: m.autograd.grad(x.sum(), [x, y], allow_unused=True),
    "zeros": lambda m, x, y: m.autograd.grad(x.sum(), [x, y], materialize_grads=True),
    "by position": lambda m, x, y: m.autograd.grad(x.sum(), [x, y], None, None, False, True, True),
    "batched": lambda m, x, y: m.autograd.grad(
        [x * y, (x ** 3).sum()], [x, y], [m.stack([y, y * 2]).detach(), y[:2].detach()],
        is_grads_batched=True),
    "batched, unused": lambda m, x, y: m.autograd.grad(
        x * 2, [x, y], m.stack([y, y * 2]).detach(), is_grads_batched=True, allow_unused=True),
    "twice": lambda m, x, y: m.autograd.grad(
        m.autograd.grad((x ** 3 * y).sum(), x, create_graph=True)[0].sum(), [x, y]),
    "a leaf that was written since": lambda m, x, y: written_since(m, x),
    "a view of a leaf": lambda m, x, y: (lambda v: m.autograd.grad((v * x[0]).sum(), [v, x]))(
        x[1:]),
    "of an inner value": lambda m, x, y: (lambda h: m.autograd.grad((h * h).sum(), h))(x * y),
}


def written_since(m: Any, x: Any) -> Any:
    """The gradient for a leaf that was written after it was used."""
    y = (x * 3).sum()
    with m.no_grad():
        x.add_(1)
    return m.autograd.grad(y + (x * x).sum(), x)


@pytest.mark.torch
@pytest.mark.parametrize("name", GRADS)
def test_grad_gives_what_torch_gives(name: str, device: str) -> None:
    mine, other = both_grads(GRADS[name], device)
    assert mine == other


def test_grad_without_create_graph_ends_the_graph(device: str) -> None:
    x = leaf(device)
    loss = (x ** 2).sum()
    g, = autograd.grad(loss, x, retain_graph=True)
    assert g is not None and not g.requires_grad
    autograd.grad(loss, x)
    with pytest.raises(lt.GradientError, match="retain_graph"):
        autograd.grad(loss, x)
    assert x.grad is None


def test_backward_of_several_tensors(device: str) -> None:
    x = leaf(device)
    autograd.backward([x.sum(), x * 2], [None, lt.ones(3, dtype=lt.float64, device=device)])
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.torch
def test_modes_switch_recording_as_torch_does() -> None:
    for m in (lt, torch):
        m.set_grad_enabled(False)
        assert not m.is_grad_enabled()
        m.set_grad_enabled(True)
        with m.set_grad_enabled(False):
            assert not m.is_grad_enabled()
        assert m.is_grad_enabled()
        decorated = m.set_grad_enabled(False)(m.is_grad_enabled)
        assert m.is_grad_enabled()
        assert not decorated()
        with m.inference_mode():
            assert not (m.ones(2, requires_grad=True) * 2).requires_grad
        with m.no_grad(), m.inference_mode(False), m.enable_grad():
            assert m.is_grad_enabled()


# ---- hand-written gradients ----------------------------------------------------------------------

class Exponential(autograd.Function):
    """Saves what it gives."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        result, = ctx.saved_tensors
        return g * result


class ProductAndSum(autograd.Function):
    """Two outputs, an argument that is no tensor, and a separate setup_context."""

    @staticmethod
    def forward(a: Any, b: Any, factor: float) -> Any:
        return a * b * factor, a + b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.factor = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        a, b = ctx.saved_tensors
        assert ctx.needs_input_grad[2] is False
        return g * b * ctx.factor + h, g * a * ctx.factor + h, None


class Scaled(autograd.Function):
    """An argument that has a default, and what forward mode would want."""

    @staticmethod
    def forward(a: Any, factor: float = 3.0) -> Any:
        return a * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, ctx.factor = inputs
        ctx.save_for_forward(a, None)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.factor, None


class Once(Exponential):
    """May not be differentiated twice."""

    backward = staticmethod(autograd.once_differentiable(Exponential.backward))


class Wrong(Exponential):
    """Its gradient is off."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] * 1.01


class WithMoreNone(Exponential):
    """Gives None for arguments that apply() was not given."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0], None, None


class TooMany(Exponential):
    """Gives two gradients for one argument."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g


def test_functions_pass_gradcheck_and_gradgradcheck(device: str) -> None:
    x, y = leaf(device), lt.tensor(VALUES + 1, device=device, requires_grad=True)
    assert autograd.gradcheck(Exponential.apply, (x,))
    assert autograd.gradgradcheck(Exponential.apply, (x,))
    assert autograd.gradcheck(lambda a, b: ProductAndSum.apply(a, b, 3.0), (x, y))
    assert autograd.gradgradcheck(lambda a, b: ProductAndSum.apply(a, b, 3.0), (x, y))


def test_gradcheck_takes_inputs_that_are_not_computed_yet(device: str) -> None:
    x = lt.ones(2, 2, dtype=lt.float64, device=device).cos().requires_grad_()
    assert autograd.gradcheck(lambda a: (a @ a).tanh(), x)


def test_gradcheck_finds_a_wrong_gradient(device: str) -> None:
    x = leaf(device)
    with pytest.raises(lt.GradientError, match="differences"):
        autograd.gradcheck(Wrong.apply, x)
    assert not autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    assert not autograd.gradgradcheck(Wrong.apply, x, raise_exception=False)


def test_a_function_may_be_differentiated_once_only(device: str) -> None:
    x = leaf(device)
    first, = autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    assert first is not None
    np.testing.assert_allclose(first.detach().numpy(), np.exp(VALUES), rtol=1e-14)
    with pytest.raises(lt.GradientError, match="once_differentiable"):
        autograd.grad(first.sum(), x)


def test_a_function_that_gives_too_many_gradients_is_named(device: str) -> None:
    with pytest.raises(lt.GradientError, match=r"TooMany.backward gave 2 gradients for 1"):
        TooMany.apply(leaf(device)).sum().backward()


def test_none_for_arguments_that_were_left_out_may_be_given(device: str) -> None:
    assert autograd.gradcheck(WithMoreNone.apply, (leaf(device),))


def test_setup_context_has_the_defaults_of_forward_and_what_is_named(device: str) -> None:
    for given, named, factor in (((), {}, 3.0), ((2.0,), {}, 2.0), ((), {"factor": 5.0}, 5.0)):
        x = leaf(device)
        y = Scaled.apply(x, *given, **named)
        y.sum().backward()
        assert y.tolist() == (x * factor).tolist()
        assert x.grad.tolist() == lt.full_like(x, factor).tolist()
    with pytest.raises(lt.ArgumentError, match=r"Exponential.apply: scale by name; give .*order"):
        Exponential.apply(leaf(device), scale=2)


def test_what_a_function_saves_is_not_changed_by_writes(device: str) -> None:
    x = leaf(device)
    y = Exponential.apply(x)
    loss = y.sum()
    with lt.no_grad():
        y.detach().zero_()
    loss.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp(VALUES), rtol=1e-14)


class Halves(autograd.Function):
    """The two halves of a vector; the second is not differentiable."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        first, second = x[:2] * 1, x[2:] * 1
        ctx.mark_non_differentiable(second)
        return first, second

    @staticmethod
    def backward(ctx: Any, *given: Any) -> lt.Tensor:
        return lt.cat([given[0], given[1]])


def test_an_output_that_is_marked_has_no_gradient(device: str) -> None:
    x = lt.arange(4.0, device=device).requires_grad_()
    first, second = Halves.apply(x)
    assert first.requires_grad and not second.requires_grad
    (first.sum() + (second * 5).sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("materialize", [True, False])
def test_a_function_says_what_it_gets_for_outputs_that_are_not_used(materialize: bool) -> None:
    got: list[Any] = []

    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, *given: Any) -> lt.Tensor:
            got.append(given[1] if given[1] is None else given[1].tolist())
            return given[0] * 2

    x = lt.ones(2, requires_grad=True)
    Twice.apply(x)[0].sum().backward()
    assert got == [[0.0, 0.0] if materialize else None]


class MultipliedBy(autograd.Function):
    """x *= w, in place."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor, w: lt.Tensor) -> lt.Tensor:
        ctx.save_for_backward(x.clone(), w)
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        x, w = ctx.saved_tensors
        return g * w, g * x


def test_a_function_writes_to_an_argument_and_its_gradient_flows_through_what_was_there(
        device: str) -> None:
    for _ in range(3):
        a = lt.full((3,), 2.0, requires_grad=True, device=device)
        w = lt.full((3,), 3.0, requires_grad=True, device=device)
        b = a * a
        view = b[1:]
        assert MultipliedBy.apply(view, w[1:]) is view and b.tolist() == [4.0, 12.0, 12.0]
        (b * lt.arange(3.0, device=device)).sum().backward()
        assert a.grad is not None and a.grad.tolist() == [0.0, 12.0, 24.0]
        assert w.grad is not None and w.grad.tolist() == [0.0, 4.0, 8.0]


def test_an_argument_that_a_function_writes_to_begins_to_require_gradients() -> None:
    x, w = lt.ones(2), lt.full((2,), 3.0, requires_grad=True)
    MultipliedBy.apply(x, w)
    x.sum().backward()
    assert x.requires_grad and w.grad is not None and w.grad.tolist() == [1.0, 1.0]


def test_a_jitted_function_with_a_function_that_writes_runs_in_python() -> None:
    w = lt.full((2,), 3.0, requires_grad=True)

    @lt.jit
    def step(x: lt.Tensor) -> Any:
        y = x * 1
        MultipliedBy.apply(y, w)
        return autograd.grad(y.sum(), w)[0]

    for k in (1.0, 2.0, 3.0):
        assert step(lt.full((2,), k)).tolist() == [k, k]


def test_a_function_writes_to_no_leaf_and_to_nothing_that_it_does_not_give_back() -> None:
    class Drops(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            ctx.mark_dirty(x)
            return x + 1

    x, w = lt.ones(2, requires_grad=True), lt.full((2,), 3.0)
    with pytest.raises(lt.GradientError, match="MultipliedBy on a leaf"):
        MultipliedBy.apply(x, w)
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(lt.GradientError, match=r"Drops: .* that forward\(\) gives back"):
        Drops.apply(x * 1)


def test_functions_work_inside_jit(device: str) -> None:
    @lt.jit
    def step(x: lt.Tensor) -> Any:
        return autograd.grad(Exponential.apply(x * 2).sum(), x)

    for shift in (0.0, 1.0, 2.0):
        x = lt.tensor(VALUES + shift, device=device, requires_grad=True)
        np.testing.assert_allclose(step(x)[0].numpy(), 2 * np.exp(2 * (VALUES + shift)), rtol=1e-13)


# ---- anomalies -----------------------------------------------------------------------------------

def test_anomaly_mode_names_the_line_whose_gradient_is_the_first_nan(device: str) -> None:
    x = lt.tensor([0.0, 1.0], device=device, requires_grad=True)
    with autograd.detect_anomaly():
        root = x.sqrt()  # the culprit
        later = (root * 0).sum()
        with pytest.raises(lt.GradientError, match="SqrtBackward gave NaN") as caught:
            later.backward()
        (x + 1).sum().backward()
    line = test_anomaly_mode_names_the_line_whose_gradient_is_the_first_nan.__code__.co_firstlineno
    assert f"test_autograd.py:{line + 3}" in str(caught.value)
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]
    (x.sqrt() * 0).sum().backward()  # the mode is off again


# ---- checkpoints ---------------------------------------------------------------------------------

def training_step(checkpointed: bool, device: str, width: int, depth: int) -> Any:
    """A function that gives the loss and all gradients of a deep network."""
    lt.manual_seed(0)
    layers = [lt.nn.Linear(width, width).to(device) for _ in range(depth)]
    parameters = [p for layer in layers for p in layer.parameters()]
    x = lt.rand(16 * width, width, device=device)
    lt.realize(x, *parameters)

    def segment(start: int) -> Any:
        def run(x: lt.Tensor) -> lt.Tensor:
            for layer in layers[start:start + 4]:
                x = lt.nn.functional.dropout(layer(x), 0.1).tanh()
            return x
        return run

    def step() -> list[lt.Tensor]:
        lt.manual_seed(1)
        y = x
        for start in range(0, depth, 4):
            y = lt.checkpoint(segment(start), y) if checkpointed else segment(start)(y)
        loss = (y * y).mean()
        for p in parameters:
            p.grad = None
        loss.backward()
        return [loss, *[p.grad for p in parameters if p.grad is not None]]

    return step


def test_a_checkpointed_network_has_the_same_loss_and_gradients(device: str) -> None:
    plain, again = (training_step(on, device, 8, 8)() for on in (False, True))
    lt.realize(*plain, *again)
    assert len(plain) == len(again) == 17
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-5, atol=1e-7)


@pytest.mark.slow
def test_a_checkpointed_network_takes_less_memory() -> None:
    plain, again = (training_step(on, "cpu", 128, 24) for on in (False, True))
    assert peak_bytes(again, "cpu") < 0.7 * peak_bytes(plain, "cpu")


def test_checkpoints_can_be_differentiated_twice(device: str) -> None:
    x, y = leaf(device), leaf(device)
    assert autograd.gradgradcheck(lambda a, b: lt.checkpoint(lambda c: (c * b).sin() * c, a),
                                  (x, y))


@pytest.mark.few(1)
@pytest.mark.parametrize("derivative", [1, 2])
def test_checkpoints_that_share_a_weight_each_give_it_a_gradient(device: str,
                                                                 derivative: int) -> None:
    def gradients(call: Any) -> list[Any]:
        w, v, x = leaf(device), leaf(device), leaf(device)

        def layer(y: lt.Tensor) -> lt.Tensor:
            return (y * w).sin() + y

        def two(y: lt.Tensor, z: lt.Tensor) -> lt.Tensor:  # z is made of y
            return y * z.cos() + w * y
        y = call(layer, call(lambda y: y * v.exp(), call(layer, x)))
        found = list(autograd.grad(call(two, y, y * w).sum(), (w, v, x), create_graph=True))
        if derivative == 2:
            found = list(autograd.grad(sum((g * g).sum() for g in found), (w, v, x)))
        return [g.detach().numpy() for g in found]
    for found, expected in zip(gradients(lt.checkpoint), gradients(lambda f, *x: f(*x)),
                               strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_hooks_of_a_leaf_stay_when_it_gets_other_data(device: str) -> None:
    w, told = lt.tensor([1.0, 2.0], device=device, requires_grad=True), []
    handle = w.register_hook(lambda g: g * 3)
    after = w.register_post_accumulate_grad_hook(lambda p: told.append(p.grad.tolist()))
    w.data = w.data * 2
    (w * w).sum().backward()
    assert told == [[12, 24]]
    handle.remove()
    after.remove()
    w.grad = None
    (w * w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [4, 8] and len(told) == 1


@pytest.mark.parametrize("jitted", [False, True])
def test_a_leaf_that_an_input_was_written_to_has_a_gradient_through_a_checkpoint(
        jitted: bool, device: str) -> None:
    """What it is now is not computed yet, and of the checkpoint's input, too."""
    def trained(checkpoint: Any) -> float:
        x = lt.tensor([1.0, 2.0], device=device)
        w = lt.tensor(0.5, device=device, requires_grad=True)

        def loss(v: lt.Tensor) -> lt.Tensor:
            return (checkpoint(lambda a: (a * w).sin(), v) ** 2).sum()
        call = lt.jit(loss) if jitted else loss
        for _ in range(4):
            call(x).backward()
            assert w.grad is not None
            with lt.no_grad():
                w -= 0.125 * w.grad
            w.grad = None
        return float(w)
    assert trained(lt.checkpoint) == pytest.approx(trained(lambda f, v: f(v)), rel=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_segments_of_layers_are_checkpoints(segments: int) -> None:
    def of(m: Any, checkpoint: Any) -> Any:
        weight = m.tensor(VALUES, requires_grad=True)
        layers = [lambda y: y * weight, m.sin, m.cos, lambda y: y + weight, m.exp]
        checkpoint(layers, segments, weight * 2, use_reentrant=False,
                   preserve_rng_state=False).sum().backward()
        return weight.grad.numpy()
    from torch.utils.checkpoint import checkpoint_sequential
    np.testing.assert_allclose(of(lt, lt.utils.checkpoint.checkpoint_sequential),
                               of(torch, checkpoint_sequential), rtol=1e-12)


def test_a_checkpoint_gives_what_its_function_gives(device: str) -> None:
    x = leaf(device)
    a, rest = lt.checkpoint(lambda v, k: (v * k, {"b": [v + 1, 5]}), x, k=2)
    (a.sum() + rest["b"][0].sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [3.0] * 3 and rest["b"][1] == 5


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (), (1, 1, 1)])
def test_a_written_gradient_of_a_larger_shape_and_type_is_brought_to_its_arguments(
        shape: tuple[int, ...]) -> None:
    found = []
    for library in (lt, torch):
        class Scaled(library.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, factor: Any) -> Any:
                ctx.save_for_backward(x, factor)
                return x * factor

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                x, factor = ctx.saved_tensors
                return (g * factor).double(), (g * x).half()

        x = library.arange(6.0).reshape(2, 3).requires_grad_()
        factor = library.ones(shape).requires_grad_()
        if len(shape) > 2:
            x = library.arange(6.0).reshape(1, 2, 3).requires_grad_()
        Scaled.apply(x, factor).sum().backward()
        assert str(factor.grad.dtype).endswith("float32") and factor.grad.shape == shape
        found.append([x.grad.numpy(), factor.grad.numpy()])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, other)


def checkpointed(library: Any, how: str, jitted: bool) -> list[Any]:
    """Losses, the gradient and the statistics of a checkpoint around a batch normalization."""
    again = import_module(f"{library.__name__}.utils.checkpoint")
    batches = np.random.default_rng(0).normal(size=(3, 5, 2)).astype("f4")
    block = library.nn.Sequential(library.nn.Linear(2, 2, bias=False), library.nn.BatchNorm1d(2),
                                  library.nn.Tanh())
    block[0].weight.data.copy_(library.tensor(batches[0, :2]))
    kept = partial(again.checkpoint, use_reentrant=False)
    call = {"module": partial(kept, block), "method": partial(kept, block.forward),
            "closure": partial(kept, lambda x: block(x)), "sequential": lambda x:
            again.checkpoint_sequential(block, 2, x, use_reentrant=False)}[how]

    def step(x: Any) -> Any:
        block.zero_grad()
        loss = call(x).square().sum()
        loss.backward()
        return loss

    run = lt.jit(step) if jitted else step
    losses = [run(library.tensor(x)).item() for x in batches]
    with library.no_grad():
        block(library.tensor(batches[0]))  # without gradients: once
    return [np.array(losses), block[0].weight.grad.numpy(), *(b.numpy() for b in block.buffers())]


@pytest.mark.torch
@pytest.mark.parametrize("how", ["module", "method", "closure", "sequential"])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_checkpoint_updates_statistics_twice_as_in_pytorch(how: str, jitted: bool) -> None:
    for mine, other in zip(checkpointed(lt, how, jitted), checkpointed(torch, how, False),
                           strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_gradients_are_asked_for_by_anything_that_can_be_walked() -> None:
    layer = nn.Linear(2, 3)
    loss = layer(lt.ones(1, 2)).pow(2).sum()
    expected = [g.tolist() for g in autograd.grad(loss, [*layer.parameters()], retain_graph=True)]
    for inputs in (layer.parameters(), dict(layer.named_parameters()).values(),
                   (p for p in layer.parameters())):
        found = autograd.grad(iter([loss]), inputs, retain_graph=True)
        assert [g.tolist() for g in found] == expected
    rows = autograd.grad(layer(lt.ones(2)), layer.parameters(), lt.eye(3), is_grads_batched=True)
    assert [row.shape for row in rows] == [(3, 3, 2), (3, 3)]
    loss.backward(retain_graph=True, inputs=layer.bias)
    assert layer.weight.grad is None and layer.bias.grad is not None
    autograd.backward(iter([loss]), inputs=layer.parameters())
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == expected[0]


def test_backward_adds_to_grad_of_what_is_no_leaf_if_asked_for_it() -> None:
    x = leaf("cpu")
    h = x * 2
    (h ** 2).sum().backward(inputs=[h])
    assert x.grad is None and h.grad.tolist() == (4 * VALUES).tolist()
    h = x * 2
    h.retain_grad()
    (h ** 2).sum().backward(inputs=[h, x, x])
    assert h.grad.tolist() == (4 * VALUES).tolist() and x.grad.tolist() == (8 * VALUES).tolist()


def test_a_gradient_is_deleted() -> None:
    x = leaf("cpu")
    x.sum().backward()
    del x.grad
    assert x.grad is None


def test_errors_of_hooks_and_functions_are_those_that_programs_catch() -> None:
    x = leaf("cpu")
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="a hook gave 3"):
        x.sum().backward()
    with pytest.raises(NotImplementedError, match="without forward"):
        autograd.Function.apply(leaf("cpu"))
    with pytest.raises(NotImplementedError, match="does not define forward"):
        nn.Module()(1)


def test_gradcheck_takes_options_that_change_nothing_here() -> None:
    x = leaf("cpu")
    assert autograd.gradcheck(lt.sin, x, fast_mode=True, check_forward_ad=True, nondet_tol=1e-3)
    assert autograd.gradgradcheck(lt.sin, x, fast_mode=True, check_fwd_over_rev=True)


def test_a_function_has_the_jvp_that_programs_pass_on_and_nobody_asks() -> None:
    class Double(lt.autograd.Function):
        """Twice its argument."""

        jvp = lt.autograd.Function.jvp

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: lt.Tensor) -> lt.Tensor:
            return gradient * 2

    value, tangent = lt.func.jvp(Double.apply, (lt.ones(2),), (lt.full((2,), 3.0),))
    assert value.tolist() == [2.0, 2.0] and tangent.tolist() == [6.0, 6.0]
    with pytest.raises(NotImplementedError, match=r"without jvp\(\): forward mode goes by"):
        Double.jvp(None)


def test_what_no_gradient_is_wanted_of_need_not_be_a_tensor_to_be_saved() -> None:
    class Kept(lt.autograd.Function):
        """Its argument, of which anything is saved."""

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, other: Any) -> lt.Tensor:
            ctx.save_for_backward(x, other)
            return x * 2

    assert Kept.apply(lt.ones(2), "other").tolist() == [2.0, 2.0]
    with pytest.raises(lt.DTypeError, match="'other' is not a tensor; make it an attribute of"):
        Kept.apply(lt.ones(2, requires_grad=True), "other")


def test_gradcheck_gives_the_input_itself_other_values_and_its_own_again() -> None:
    layer = lt.nn.Linear(2, 3, dtype=lt.float64)
    x, before = lt.rand(4, 2, dtype=lt.float64), layer.weight.tolist()
    assert lt.autograd.gradcheck(lambda weight: layer(x), (layer.weight,))
    assert layer.weight.tolist() == before
    calls: list[lt.Tensor] = []

    def fails(weight: lt.Tensor) -> lt.Tensor:
        calls.append(weight)
        if len(calls) == 4:
            raise ZeroDivisionError
        return weight * 2
    with pytest.raises(ZeroDivisionError):
        lt.autograd.gradcheck(fails, (layer.weight,))
    assert layer.weight.tolist() == before


def test_gradcheck_takes_views_and_repeated_elements() -> None:
    whole = lt.rand(3, 4, dtype=lt.float64)
    turned, row = (x.requires_grad_() for x in (whole.detach().T, whole[:1].expand(3, 4).detach()))
    assert lt.autograd.gradcheck(lambda a, b: (a @ b).sin(), (turned, row))
