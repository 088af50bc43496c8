"""autograd beside PyTorch: hooks, grad(), and anomalies."""
from __future__ import annotations

import gc
import weakref
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tensor_values import assert_alike
from torch_if_there import torch

import lazyten as lt
from lazyten import autograd, nn

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
        for without in (m.no_grad, m.inference_mode):
            with without(), m.inference_mode(False):
                assert m.is_grad_enabled()
                assert (m.ones(2, requires_grad=True) * 2).requires_grad


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


# ---- what programs do ---------------------------------------------------------------------------

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
