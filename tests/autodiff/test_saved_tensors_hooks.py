"""Hooks of what is kept for gradients, and of several gradients at once: `lt.autograd.graph`."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.autograd.graph import (
    disable_saved_tensors_hooks,
    get_gradient_edge,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)


def leaves() -> tuple[lt.Tensor, lt.Tensor]:
    return (lt.tensor([1.0, 2.0], requires_grad=True), lt.tensor([3.0, 5.0], requires_grad=True))


def through_numpy() -> tuple[saved_tensors_hooks, list[Any]]:
    packed: list[Any] = []

    def pack(x: lt.Tensor) -> Any:
        assert not x.requires_grad
        packed.append(x.numpy().copy())
        return packed[-1]

    return saved_tensors_hooks(pack, lt.tensor), packed


def test_an_operation_keeps_what_its_gradient_reads() -> None:
    a, b = leaves()
    hooks, packed = through_numpy()
    with hooks:
        product = a * b
        assert [x.tolist() for x in packed] == [[3, 5], [1, 2]]
        product.exp()
        np.testing.assert_allclose(packed.pop(), np.exp([3.0, 10.0]), rtol=1e-6)
        before = len(packed)
        (product + a).sum().reshape(1)  # reads nothing
        product.detach() * 2
        with lt.no_grad():
            a * b
        assert len(packed) == before


def test_gradients_read_what_was_unpacked() -> None:
    a, b = leaves()
    with saved_tensors_hooks(lambda x: x / 2, lambda x: x):
        c = a * b
        d = c.exp() + a + c
    d.sum().backward()
    assert a.grad is not None and b.grad is not None
    through = np.exp([3.0, 10.0]) / 2 + 1
    np.testing.assert_allclose(a.grad.numpy(), through * [1.5, 2.5] + 1, rtol=1e-5)
    np.testing.assert_allclose(b.grad.numpy(), through * [0.5, 1], rtol=1e-5)


def test_a_network_trains_as_without_hooks() -> None:
    def trained(hooks: Any) -> list[np.ndarray]:
        lt.manual_seed(0)
        net = lt.nn.Sequential(
            lt.nn.Conv2d(1, 3, 3, bias=False), lt.nn.BatchNorm2d(3), lt.nn.ReLU(inplace=True),
            lt.nn.MaxPool2d(2), lt.nn.Flatten(), lt.nn.LayerNorm(12), lt.nn.Linear(12, 3))
        optimizer = lt.optim.Adam(net.parameters(), 0.01)
        images, labels = lt.rand(4, 1, 6, 6), lt.tensor([0, 2, 1, 1])
        for _ in range(3):
            optimizer.zero_grad()
            with hooks:
                loss = lt.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
        return [x.numpy() for x in net.state_dict().values()]

    hooks, packed = through_numpy()
    for found, expected in zip(trained(hooks), trained(lt.enable_grad()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(packed) > 20
    for found, expected in zip(trained(save_on_cpu(pin_memory=True)), trained(lt.enable_grad()),
                               strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_second_gradients_flow_to_what_was_packed() -> None:
    a, _ = leaves()
    hooks, _ = through_numpy()
    with hooks:
        y = (a ** 3).sum()
    first, = lt.autograd.grad(y, a, create_graph=True)
    first.sum().backward()
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.numpy(), [6, 12])


def test_what_a_function_of_a_users_saves_is_packed() -> None:
    class Square(lt.autograd.Function):
        """x * x."""

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx: Any, gradient: lt.Tensor) -> lt.Tensor:
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * gradient * x

    a, _ = leaves()
    with saved_tensors_hooks(lambda x: 10 * x, lambda x: x):
        y = Square.apply(a)
    y.sum().backward()
    assert a.grad is not None and a.grad.tolist() == [20, 40]


def test_the_innermost_block_counts() -> None:
    a, _ = leaves()
    with saved_tensors_hooks(lambda x: 10 * x, lambda x: x):
        with saved_tensors_hooks(lambda x: x + 1, lambda x: x):
            (a * a).sum().backward()
        assert a.grad is not None and a.grad.tolist() == [4, 6]
        a.grad = None
        (a * a).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [20, 40]


def test_writes_and_views_are_left_as_they_are() -> None:
    a, _ = leaves()
    hooks, packed = through_numpy()
    with hooks:
        x = a + 0
        view = x[:1]
        x *= 2
        assert view._is_view() and not packed
        (view * 3).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [6, 0]


def test_blocks_can_be_refused() -> None:
    hooks, _ = through_numpy()

    @disable_saved_tensors_hooks("not here")
    def entered() -> None:
        with hooks:
            pass

    with pytest.raises(lt.StateError, match=r"^not here$"):
        entered()
    with hooks:
        pass


def test_what_is_unpacked_must_be_of_its_kind() -> None:
    a, b = leaves()
    with saved_tensors_hooks(lambda x: x, lambda x: x.double()):
        y = (a * b).sum()
    with pytest.raises(lt.GradientError, match=r"gave float64 \(2,\) .*float32 \(2,\) on"):
        y.backward()
    with pytest.raises(lt.ArgumentError, match="give two functions"):
        saved_tensors_hooks(abs, None)  # type: ignore[arg-type]


def test_several_gradients_are_told_of_at_once() -> None:
    a, b = leaves()
    seen: list[list[Any]] = []
    first: list[Any] = []
    handle = register_multi_grad_hook([a, b], lambda given: seen.append(
        [None if g is None else g.tolist() for g in given]))
    any_handle = register_multi_grad_hook([a, b], lambda g: first.append(g.tolist()), mode="any")
    (a * 2).sum().backward()
    (a * b).sum().backward()
    y = a * b
    y.mean().backward()  # by another way of walking
    assert seen == [[[2, 2], None], [[3, 5], [1, 2]], [[1.5, 2.5], [0.5, 1]]]
    assert len(first) == 3 and first[0] == [2, 2]
    handle.remove()
    any_handle.remove()
    (a * b).sum().backward()
    assert len(seen) == len(first) == 3
    with pytest.raises(lt.ArgumentError, match="'all' or 'any'"):
        register_multi_grad_hook([a], print, mode="some")


def test_an_edge_is_an_operation() -> None:
    a, b = leaves()
    edge = get_gradient_edge(a * b)
    assert edge.node is not None and "Mul" in edge.node.name() and edge.output_nr == 0
    with pytest.raises(lt.GradientError, match="does not require gradients"):
        get_gradient_edge(a.detach())


@pytest.mark.parametrize("hooks", [
    lambda: saved_tensors_hooks(lambda t: t, lambda t: t), save_on_cpu,
    lambda: saved_tensors_hooks(lambda t: {"twice": [2 * t]}, lambda kept: kept["twice"][0] / 2),
    lambda: saved_tensors_hooks(lambda t: t.numpy().copy(), lt.tensor)])
def test_a_jitted_step_keeps_what_is_packed_of_its_own_values(hooks: Any) -> None:
    """Each call's, not those of the call that was recorded, and no tensor of that is left."""
    def inside(x: lt.Tensor) -> lt.Tensor:
        with hooks():
            y = (x * x.exp()).sum()
        return lt.autograd.grad(y, x)[0]

    def outside(x: lt.Tensor) -> lt.Tensor:
        with hooks():
            return (x * x.exp()).sum()

    jitted, with_gradient = lt.jit(inside), lt.jit(outside)
    for start in (0.0, 1.0, -2.0, 0.5):
        x = lt.tensor([start, 1.0], requires_grad=True)
        expected = (1 + x.detach().numpy()) * np.exp(x.detach().numpy())
        for found in (jitted(x), lt.autograd.grad(with_gradient(x), x)[0]):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
