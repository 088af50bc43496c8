"""What writes do to gradients, beside PyTorch: through detached handles and views, and of what has
nothing to do with the old value."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tensor_values import assert_alike
from torch_if_there import torch

import lazyten as lt

Check = Callable[[Any, Any], Any]
"""check(library, x): what it gives, and the gradient it leaves in x.grad, are compared."""


def through_detached(write: Callable[[Any, Any], Any]) -> Check:
    """`write(d, x)` into a detached result; then gradients through it, and who has them."""
    def check(m: Any, x: Any) -> Any:
        y = x * 2
        other, d = y.detach(), y.detach()
        before = d[1:]
        write(d, x)
        again = d.detach()
        (d * x).sum().backward()
        return (d, y, before, other, [t.requires_grad for t in (d, y, before, other, again)],
                [t.is_leaf for t in (d, y, before, other)])
    return check


def replaced(write: Callable[[Any, Any], Any]) -> Check:
    """`write(m, y)` over a result; the gradient through it is 0, and not missing."""
    def check(m: Any, x: Any) -> Any:
        y = x * 2
        write(m, y)
        (y ** 2).sum().backward()
        return y.requires_grad
    return check


def from_both_sides(m: Any, x: Any) -> Any:
    y = x * 2
    first, second = y.detach(), y.detach()
    first.add_(x)
    second.mul_(x)
    (first * 3 + second * 5 + y * 7).sum().backward()
    return first, second, y


def old_gradient_stays(m: Any, x: Any) -> Any:
    y = x * 2
    y.detach().add_(x)
    y.sum().backward()
    return y


def no_grad_write(m: Any, x: Any) -> Any:
    d = (x * 2).detach()
    with m.no_grad():
        d.mul_(x)
    (d * x).sum().backward()
    return d, d.requires_grad


def no_grad_write_after_another(m: Any, x: Any) -> Any:
    d = (x * 2).detach()
    d.add_(x)
    with m.no_grad():
        d.mul_(3)
    (d * d).sum().backward()
    return d, d.requires_grad


def plain_tensor(m: Any, x: Any) -> Any:
    y = m.ones(3)
    d = y.detach()
    d.mul_(x)
    (d * x + y).sum().backward()
    return d, y, d.requires_grad, y.requires_grad


def data_of_a_leaf(m: Any, x: Any) -> Any:
    x.data.mul_(x)
    d = x.data
    d.mul_(x)
    (x * x + d).sum().backward()
    return x, x.requires_grad, x.is_leaf, d.is_leaf


def retained(m: Any, x: Any) -> Any:
    d = (x * 2).detach()
    d.add_(x)
    d.retain_grad()
    d.register_hook(lambda g: g * 2)
    (d * x).sum().backward()
    return d.grad


def grad_of_it(m: Any, x: Any) -> Any:
    d = (x * 2).detach()
    d.add_(x)
    d.tolist()
    return m.autograd.grad((d * d).sum(), [d, x])


def second_order(m: Any, x: Any) -> Any:
    d = (x * 2).detach()
    d.mul_(x * x)
    g, = m.autograd.grad((d * x).sum(), x, create_graph=True)
    g.square().sum().backward()
    return g.detach()


def copied_then_zeroed(m: Any, x: Any) -> Any:
    y, z = x * 2, x * 3
    y.copy_(z)
    y.zero_()
    (y + z).sum().backward()
    return y.detach()


def element_of_what_is_zeroed(m: Any, x: Any) -> Any:
    y = x * 2
    v = y[0]
    y.zero_()
    v.backward()
    return v.detach()


def zeroed_then_added(m: Any, x: Any) -> Any:
    y = x * 2
    y.zero_()
    y.add_(x)
    (y ** 2).sum().backward()
    return y.detach()


def zeroed_without_gradients(m: Any, x: Any) -> Any:
    y = x * 2
    z = y * 1
    with m.no_grad():
        y.zero_()
    (y + z).sum().backward()
    return y.detach()


def read_before(write: Callable[[Any, Any], Any]) -> Check:
    """What asks for the gradients of a value after a write without gradients is given those of what
    read it before, and of what reads it after."""
    def check(m: Any, x: Any) -> Any:
        seen: list[Any] = []
        y = x * 2
        before = (y * 3).sum()
        write(m, y)
        after = (y * 5).sum()
        given = m.autograd.grad([before, after], [y], retain_graph=True)
        y.retain_grad()
        handle = y.register_hook(lambda g: seen.append(g.tolist()))
        before.backward(retain_graph=True)
        handle.remove()
        y.register_hook(lambda g: g * 7)
        (before + after).backward(retain_graph=True, inputs=[x, y])
        after.backward()
        return given, seen, y.grad
    return check


def written_under_no_grad(m: Any, y: Any) -> None:
    with m.no_grad():
        y.mul_(2)


def written_in_parts(m: Any, y: Any) -> None:
    with m.no_grad():
        y[1:].mul_(2)
        y[0] = 7
        y.tolist()
        y.add_(1)


CHECKS: dict[str, Check] = {
    "read before a write inside no_grad": read_before(written_under_no_grad),
    "read before writes of parts": read_before(written_in_parts),
    "read before a write to data": read_before(lambda m, y: y.data.mul_(2)),
    "read before a write to the detached": read_before(lambda m, y: y.detach().zero_()),
    "read before a write that is looked at": read_before(
        lambda m, y: (written_under_no_grad(m, y), y.tolist())),
    "add_": through_detached(lambda d, x: d.add_(x)),
    "sub_ with alpha": through_detached(lambda d, x: d.sub_(x, alpha=2)),
    "mul_": through_detached(lambda d, x: d.mul_(x)),
    "div_": through_detached(lambda d, x: d.div_(x)),
    "pow_": through_detached(lambda d, x: d.pow_(x)),
    "copy_": through_detached(lambda d, x: d.copy_(x)),
    "assignment of everything": through_detached(lambda d, x: d.__setitem__(..., x)),
    "assignment of an element": through_detached(lambda d, x: d.__setitem__(1, x[0])),
    "assignment of a slice": through_detached(lambda d, x: d.__setitem__(slice(1, 3), x[:2])),
    "assignment by a mask": through_detached(lambda d, x: d.__setitem__(d > 3, x[0])),
    "lerp_": through_detached(lambda d, x: d.lerp_(x, 0.25)),
    "addcmul_": through_detached(lambda d, x: d.addcmul_(x, x)),
    "atan2_": through_detached(lambda d, x: d.atan2_(x)),
    "fill_": through_detached(lambda d, x: d.fill_(x[1])),
    "masked_fill_": through_detached(lambda d, x: d.masked_fill_(d > 3, x[0])),
    "clamp_min_": through_detached(lambda d, x: d.clamp_min_(x.flip(0) * 2)),
    "a view": through_detached(lambda d, x: d[1:].mul_(x[1:])),
    "a view of a view": through_detached(lambda d, x: d[1:][:1].add_(x[0])),
    "a detached view writes its own": through_detached(lambda d, x: d[1:].detach().mul_(x[1:])),
    "writes one after another": through_detached(lambda d, x: d.add_(x).mul_(x).add_(1)),
    "a write that was looked at": through_detached(lambda d, x: d.add_(x).tolist()),
    "one's own value": through_detached(lambda d, x: d.copy_(d)),
    "two detached handles": from_both_sides,
    "the old gradient of what was detached stays": old_gradient_stays,
    "inside no_grad": no_grad_write,
    "inside no_grad after one outside": no_grad_write_after_another,
    "detached from what has no gradient": plain_tensor,
    "data of a leaf": data_of_a_leaf,
    "hooks and retain_grad": retained,
    "autograd.grad": grad_of_it,
    "a second gradient": second_order,
    "zero_": replaced(lambda m, y: y.zero_()),
    "fill_ with a number": replaced(lambda m, y: y.fill_(3)),
    "fill_ a part": replaced(lambda m, y: y[1:].fill_(3)),
    "fill_ all parts": replaced(lambda m, y: (y[1:].fill_(3), y[:1].zero_())),
    "fill_ a transposed view": replaced(lambda m, y: y.unsqueeze(0).T.zero_()),
    "copy_ of a constant": replaced(lambda m, y: y.copy_(m.ones(3))),
    "[:] = 0": replaced(lambda m, y: y.__setitem__(slice(None), 0)),
    "[mask] = 0": replaced(lambda m, y: y.__setitem__(y > 2, 0)),
    "[all] = 0": replaced(lambda m, y: y.__setitem__(y > -9, 0)),
    "[index] = constants": replaced(
        lambda m, y: y.__setitem__(m.tensor([0, 1, 2]), m.zeros(3))),
    "masked_fill_ all": replaced(lambda m, y: y.masked_fill_(y > -9, 0)),
    "index_fill_ all": replaced(lambda m, y: y.index_fill_(0, m.tensor([0, 1, 2]), 0)),
    "normal_": replaced(lambda m, y: y.normal_()),
    "uniform_": replaced(lambda m, y: y.uniform_()),
    "bernoulli_": replaced(lambda m, y: y.bernoulli_(0.5)),
    "exponential_": replaced(lambda m, y: y.exponential_()),
    "eq_": replaced(lambda m, y: y.eq_(2)),
    "logical_not_": replaced(lambda m, y: y.logical_not_()),
    "floor_": replaced(lambda m, y: y.floor_()),
    "sign_": replaced(lambda m, y: y.sign_()),
    "mul_ by 0": replaced(lambda m, y: y.mul_(0)),
    "zero_ of a copy of another": copied_then_zeroed,
    "zero_ and an element": element_of_what_is_zeroed,
    "zero_ and then add_": zeroed_then_added,
    "zero_ inside no_grad": zeroed_without_gradients,
}


def plain(value: Any) -> Any:
    if isinstance(value, lt.Tensor | torch.Tensor):
        return value.tolist()
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


@pytest.mark.torch
@pytest.mark.parametrize("name", CHECKS)
def test_writes_give_pytorchs_gradients(name: str, device: str) -> None:
    results = []
    for m in (torch, lt):
        x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
        if m is lt:
            x = lt.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        results.append((plain(CHECKS[name](_On(m, device), x)), plain(x.grad)))
    assert_alike(results[1], results[0])


class _On:
    """A library whose new tensors are on a device."""

    def __init__(self, library: Any, device: str) -> None:
        self.library = library
        self.device = device if library is lt else "cpu"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.library, name)
        if name in ("tensor", "ones", "zeros"):
            return lambda *args: found(*args, device=self.device)
        return found


def test_a_jitted_function_takes_and_leaves_no_written_gradients(device: str) -> None:
    x = lt.ones(3, device=device, requires_grad=True)
    d = lt.ones(3, device=device).mul_(2).detach()
    d.add_(x)
    double = lt.jit(fullgraph=True)(lambda t: t * 2)
    with pytest.raises(lt.JitError, match="detach"):
        double(d)
    assert double(d.detach()).tolist() == [6.0] * 3
    with lt.no_grad():
        assert double(d).tolist() == [6.0] * 3

    outside = lt.zeros(3, device=device).detach()
    with pytest.raises(lt.JitError, match="outside"):
        lt.jit(fullgraph=True)(lambda t: outside.add_(t * 1).sum() * 0)(x)

    def step(t: lt.Tensor) -> lt.Tensor:
        inner = (t * 2).detach()
        inner.add_(t)
        (inner * t).sum().backward()
        return inner.detach()

    jitted = lt.jit(fullgraph=True)(step)
    for _ in range(3):
        x.grad = None
        assert jitted(x).tolist() == [3.0] * 3
        assert x.grad is not None and x.grad.tolist() == [4.0] * 3


def test_backward_through_a_written_handle_frees_its_gradients(device: str) -> None:
    x = lt.ones(1, device=device, requires_grad=True)
    d = (x * 2).detach()
    d.add_(x * x)
    d.backward()
    with pytest.raises(lt.GradientError, match="before"):
        d.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0]
