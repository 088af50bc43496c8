"""Loops that go on without a look at what they make; each ends with a check of the values.

A loop takes the number of its rounds and stops after each: `test_endless_loops.py` looks at what
there is of nodes and plans then.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lazyten as lt
import lazyten.nn.functional as F

Loop = Callable[[int], Iterator[None]]
LOOPS: dict[str, tuple[Loop, int]] = {}
"""The loops, and after how many rounds each does nothing new."""


def loop(rounds: int) -> Callable[[Loop], Loop]:
    """Enter a loop."""
    def enter(function: Loop) -> Loop:
        LOOPS[function.__name__] = function, rounds
        return function
    return enter


def data(*shape: int) -> lt.Tensor:
    return lt.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def close(x: lt.Tensor, expected: Any, rtol: float = 1e-4) -> None:
    np.testing.assert_allclose(x.numpy(), expected, rtol, rtol)


# ---- writing in place ----------------------------------------------------------------------------

@loop(300)
def a_tensor_and_its_view(rounds: int) -> Iterator[None]:
    x = lt.zeros(4, dtype=lt.int64)
    v = x[1:]
    for _ in range(rounds):
        x += 1
        v += 1
        yield
    assert x.tolist() == [rounds, 2 * rounds, 2 * rounds, 2 * rounds]


@loop(1200)
def views_in_rotation(rounds: int) -> Iterator[None]:
    x = lt.zeros(4, dtype=lt.int64)
    for i in range(rounds):
        x[i % 4] += i % 3
        yield
    assert x.tolist() == [sum(j % 3 for j in range(i, rounds, 4)) for i in range(4)]


@loop(1200)
def a_ring(rounds: int) -> Iterator[None]:
    ring, x = lt.zeros(5, 2), data(2)
    for i in range(rounds):
        ring[i % 5] = x
        yield
    close(ring, np.tile(x.numpy(), (5, 1)))


@loop(300)
def index_arrays(rounds: int) -> Iterator[None]:
    x, places, y = lt.zeros(5), lt.tensor([1, 2, 0]), lt.ones(3)
    for _ in range(rounds):
        x.index_add_(0, places, y)
        yield
    assert x.tolist() == [rounds, rounds, rounds, 0, 0]


@loop(800)
def masks(rounds: int) -> Iterator[None]:
    x = lt.tensor([0.0, 1.0, 2.0])
    for _ in range(rounds):
        x[x > 2] = 0
        x.add_(1)
        yield
    assert x.tolist() == [(i + rounds - 1) % 3 + 1 for i in range(3)]


# ---- parameters without an optimizer -------------------------------------------------------------

X, Y = data(8, 3), data(8, 1)


def regression(rounds: int) -> np.ndarray[Any, Any]:
    """What linear regression arrives at."""
    x, y, w = X.numpy().astype(np.float64), Y.numpy().astype(np.float64), np.zeros((3, 1))
    for _ in range(min(rounds, 1000)):
        w -= 0.1 * 2 / 8 * (x.T @ (x @ w - y))
    return w


@loop(20)
def data_add(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1, requires_grad=True)
    for _ in range(rounds):
        ((X @ w - Y) ** 2).mean().backward()
        assert w.grad is not None
        w.data.add_(w.grad, alpha=-0.1)
        w.grad = None
        yield
    close(w, regression(rounds))


@loop(20)
def data_assigned(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1, requires_grad=True)
    for _ in range(rounds):
        ((X @ w - Y) ** 2).mean().backward()
        assert w.grad is not None
        w.data -= 0.1 * w.grad
        w.grad.zero_()
        yield
    close(w, regression(rounds))


@loop(20)
def a_leaf_made_of_a_leaf(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1, requires_grad=True)
    for _ in range(rounds):
        ((X @ w - Y) ** 2).mean().backward()
        assert w.grad is not None
        w = (w - 0.1 * w.grad).detach().requires_grad_()
        yield
    close(w, regression(rounds))


def perceptron(rounds: int, look: str) -> Iterator[None]:
    """Three ways to write a step: nobody looks, or at the loss, before or after the update."""
    parameters = [data(3, 4).requires_grad_(), lt.zeros(4, requires_grad=True),
                  data(4, 1).requires_grad_(), lt.zeros(1, requires_grad=True)]
    w, b, v, c = parameters
    first = None
    for _ in range(rounds):
        loss = (((X @ w + b).tanh() @ v + c - Y) ** 2).mean()
        if look == "before":
            loss.item()
        loss.backward()
        with lt.no_grad():
            for p in parameters:
                assert p.grad is not None
                p -= 0.05 * p.grad
                p.grad = None
        if look == "after":
            loss.item()
        first = loss if first is None else first
        yield
    assert first is not None
    assert loss.item() < 0.5 * first.item()


@loop(20)
def perceptron_unseen(rounds: int) -> Iterator[None]:
    return perceptron(rounds, "never")


@loop(20)
def perceptron_seen_before(rounds: int) -> Iterator[None]:
    return perceptron(rounds, "before")


@loop(20)
def perceptron_seen_after(rounds: int) -> Iterator[None]:
    return perceptron(rounds, "after")


@loop(20)
def gradients_asked_for(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1, requires_grad=True)
    for _ in range(rounds):
        gradient, = lt.autograd.grad(((X @ w - Y) ** 2).mean(), [w])
        with lt.no_grad():
            w -= 0.1 * gradient
        yield
    close(w, regression(rounds))


@loop(200)
def functional_gradients(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1)
    gradient = lt.func.grad(lambda w: ((X @ w - Y) ** 2).mean())
    for _ in range(rounds):
        w = w - 0.1 * gradient(w)
        yield
    close(w, regression(rounds))


@loop(20)
def functional_gradients_and_a_look(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1)

    def loss(w: lt.Tensor) -> lt.Tensor:
        return ((X @ w - Y) ** 2).mean()
    gradient = lt.func.grad(loss)
    for _ in range(rounds):
        w = w - 0.1 * gradient(w)
        loss(w).item()
        yield
    close(w, regression(rounds))


@loop(20)
def micro_batches(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1, requires_grad=True)
    for _ in range(rounds):
        (X.clone() @ w).sum().backward()
        yield
    assert w.grad is not None
    close(w.grad, rounds * X.numpy().sum(0)[:, None], 1e-2)


@loop(600)
def one_graph_again_and_again(rounds: int) -> Iterator[None]:
    w = lt.zeros(3, 1, requires_grad=True)
    loss = (X @ w).sum()
    for _ in range(rounds):
        loss.backward(retain_graph=True)
        yield
    assert w.grad is not None
    close(w.grad, rounds * X.numpy().sum(0)[:, None], 1e-2)


# ---- what is carried along -----------------------------------------------------------------------

def model() -> tuple[lt.Tensor, lt.optim.Optimizer]:
    w = data(3, 3).requires_grad_()
    return w, lt.optim.SGD([w], lr=0.0)


@loop(20)
def running_statistics(rounds: int) -> Iterator[None]:
    w, optimizer = model()
    mean, variance = lt.zeros(3), lt.ones(3)
    for _ in range(rounds):
        optimizer.zero_grad()
        F.batch_norm(X @ w, mean, variance, training=True).square().sum().backward()
        optimizer.step()
        yield
    close(mean, (X @ w).numpy().mean(0) * (1 - 0.9 ** rounds))


@loop(900)
def running_statistics_alone(rounds: int) -> Iterator[None]:
    mean, variance = lt.zeros(3), lt.ones(3)
    for _ in range(rounds):
        F.batch_norm(X, mean, variance, training=True)
        yield
    close(mean, X.numpy().mean(0) * (1 - 0.9 ** rounds))


@loop(20)
def a_hidden_state(rounds: int) -> Iterator[None]:
    w, optimizer = model()
    h = lt.ones(2, 3)
    for _ in range(rounds):
        h = (h.detach() @ w).tanh()
        optimizer.zero_grad()
        h.sum().backward()
        optimizer.step()
        yield
    assert np.abs(h.numpy()).max() <= 1


@loop(100)
def a_hidden_state_without_gradients(rounds: int) -> Iterator[None]:
    w, h = data(3, 3), lt.ones(2, 3)
    for _ in range(rounds):
        with lt.no_grad():
            h = (h @ w).tanh()
        yield
    assert np.abs(h.numpy()).max() <= 1


@loop(4000)
def detached(rounds: int) -> Iterator[None]:
    w = lt.ones(3, requires_grad=True)
    y = w * 1
    for _ in range(rounds):
        y = y.detach() * w
        yield
    y.sum().backward()
    assert w.grad is not None
    assert (y.tolist(), w.grad.tolist()) == ([1, 1, 1], [1, 1, 1])


@loop(6500)
def a_total_of_losses(rounds: int) -> Iterator[None]:
    w, total = lt.ones(3, requires_grad=True), lt.zeros(())
    for _ in range(rounds):
        total += (w * w).sum().detach()
        yield
    assert total.item() == 3 * rounds


@loop(500)
def a_total_of_losses_of_steps(rounds: int) -> Iterator[None]:
    w, optimizer = model()
    total = lt.zeros(())
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = (X @ w).mean()
        loss.backward()
        optimizer.step()
        total = total + loss.detach()
        yield
    close(total, rounds * (X @ w).mean().item(), 1e-2)


@loop(1200)
def a_total_of_losses_whose_graphs_are_used_up(rounds: int) -> Iterator[None]:
    w, optimizer = model()
    total, written = lt.zeros(()), lt.zeros(())
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = (X @ w).square().mean()
        loss.backward()
        optimizer.step()
        total = total + loss
        written += loss
        yield
    assert total.requires_grad and not total.is_leaf
    assert total.item() == written.item()


@loop(2200)
def a_list_of_losses(rounds: int) -> Iterator[None]:
    losses: deque[lt.Tensor] = deque(maxlen=1500)
    for i in range(rounds):
        losses.append((lt.tensor([i, 1, 2]) * 2).sum())
        yield
    assert [losses[i].item() for i in (0, -1)] == [2 * i + 6 for i in (rounds - 1500, rounds - 1)]


@loop(1200)
def a_moving_average(rounds: int) -> Iterator[None]:
    average = lt.zeros(3)
    for _ in range(rounds):
        average = average * 0.75 + lt.tensor([1.0, 2.0, 3.0]) * 0.25
        yield
    close(average, [1, 2, 3])


@loop(1200)
def a_moving_average_beside_looks(rounds: int) -> Iterator[None]:
    average = lt.zeros(3)
    for _ in range(rounds):
        x = lt.tensor([1.0, 2.0, 3.0])
        average = average * 0.75 + x * 0.25
        assert x.sum().item() == 6
        yield
    close(average, [1, 2, 3])


@loop(300)
def averaged_parameters(rounds: int) -> Iterator[None]:
    w, optimizer = model()
    average = lt.zeros(3, 3)
    for _ in range(rounds):
        optimizer.zero_grad()
        (X @ w).mean().backward()
        optimizer.step()
        average.mul_(0.75).add_(w.detach(), alpha=0.25)
        yield
    close(average, w.numpy())


@loop(200)
def a_random_walk(rounds: int) -> Iterator[None]:
    x = lt.zeros(3)
    for _ in range(rounds):
        x = x + lt.rand(3)
        yield
    close(x, np.full(3, rounds / 2), 0.2)


@loop(200)
def new_random_numbers(rounds: int) -> Iterator[None]:
    x = lt.zeros(3)
    for _ in range(rounds):
        x.uniform_()
        yield
    assert ((0 <= x.numpy()) & (x.numpy() < 1)).all()


# ---- chains --------------------------------------------------------------------------------------

@loop(1200)
def a_chain(rounds: int) -> Iterator[None]:
    x, a = data(3), lt.tensor([1.0, -1.0, 1.0])
    start = x.numpy()
    for _ in range(rounds):
        x = x * a
        yield
    assert x.tolist() == (start * np.array([1, (-1) ** rounds, 1])).tolist()


@loop(1200)
def a_chain_of_constants(rounds: int) -> Iterator[None]:
    x = lt.zeros(3, dtype=lt.int64)
    for _ in range(rounds):
        x = x + 1
        yield
    assert x.tolist() == [rounds] * 3


@loop(60)
def a_chain_whose_sum_is_seen(rounds: int) -> Iterator[None]:
    x = lt.zeros(3)
    for i in range(rounds):
        x = x + 1
        assert x.sum().item() == 3 * i + 3
        yield


@loop(300)
def power_iteration(rounds: int) -> Iterator[None]:
    a, v = lt.tensor([[2.0, 1.0], [1.0, 2.0]]), lt.tensor([1.0, 0.0])
    for _ in range(rounds):
        v = a @ v
        v = v / v.norm()
        yield
    close(v, np.full(2, 0.5 ** 0.5))


@loop(20)
def power_iteration_and_a_look(rounds: int) -> Iterator[None]:
    a, v = lt.tensor([[2.0, 1.0], [1.0, 2.0]]), lt.tensor([1.0, 0.0])
    for _ in range(rounds):
        v = a @ v
        v = v / v.norm()
        value = (v @ (a @ v)).item()
        yield
    assert abs(value - 3) < 1e-4


@loop(300)
def centred_again_and_again(rounds: int) -> Iterator[None]:
    x = data(4)
    for _ in range(rounds):
        x = x - x.mean()
        yield
    assert abs(x.sum().item()) < 1e-5


@loop(200)
def views_of_views(rounds: int) -> Iterator[None]:
    start = x = data(3, 4)
    for _ in range(rounds):
        x = x.T.unsqueeze(0).squeeze(0).reshape(2, 2, 3).reshape(4, 3).T[:, :]
        yield
    assert x.tolist() == start.tolist()
