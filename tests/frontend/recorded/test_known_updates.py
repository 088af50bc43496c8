"""Known steps write updates to the memory of what they update, unless somebody else knows it."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.execution.segment import Segment
from lazyten.testing import peak_bytes

SIZE = 1 << 17  # doubles: 1 MiB, as smaller ones are not updated in place
Look = Callable[[], Any]


def trained(momentum: float = 0.5) -> tuple[lt.Tensor, Iterator[lt.Tensor]]:
    """A parameter, and steps that divide it: each gives the loss, with its graph."""
    p = lt.nn.Parameter(lt.arange(1.0, SIZE + 1, dtype=lt.float64))
    optimizer = lt.optim.SGD([p], lr=0.25, momentum=momentum)

    def steps() -> Iterator[lt.Tensor]:
        while True:
            optimizer.zero_grad()
            loss = (p * p).sum() / 2
            loss.backward()
            optimizer.step()
            yield loss
    return p, steps()


def expected(count: int, momentum: float = 0.5) -> np.ndarray[Any, Any]:
    p, velocity = np.arange(1.0, SIZE + 1), np.zeros(SIZE)
    for _ in range(count):
        velocity = momentum * velocity + p
        p = p - 0.25 * velocity
    return p


def test_a_parameter_stays_where_it_is() -> None:
    p, steps = trained()
    for _ in range(6):
        next(steps).item()
    address = p.data_ptr()
    for _ in range(5):
        next(steps).item()
        assert p.data_ptr() == address
    np.testing.assert_allclose(p.numpy(), expected(11), rtol=1e-12)


def copied(p: lt.Tensor) -> Look:
    other = lt.zeros(SIZE, dtype=lt.float64)
    other.copy_(p.detach())
    return other.numpy


def cloned(p: lt.Tensor) -> Look:
    return p.detach().clone().numpy


def made_of_it(p: lt.Tensor) -> Look:
    pending = p.detach() * 1
    return pending.numpy


def graph(p: lt.Tensor) -> Look:
    pending = p * 1
    return lambda: pending.detach().numpy()


def exchanged(p: lt.Tensor) -> Look:
    seen = np.from_dlpack(p.detach())
    copy = seen.copy()
    return lambda: copy


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("keep", [copied, cloned, made_of_it, graph, exchanged],
                         ids=lambda f: f.__name__)
def test_what_somebody_keeps_of_a_parameter_stays_as_it_was(
        keep: Callable[[lt.Tensor], Look], early: bool) -> None:
    p, steps = trained()
    for count in range(1, 14):
        look = keep(p) if early and count % 2 or count > 8 else None
        next(steps).item()
        if look is not None:
            np.testing.assert_allclose(look(), expected(count - 1), rtol=1e-12)
        np.testing.assert_allclose(p.numpy(), expected(count), rtol=1e-12)


def test_views_see_an_update() -> None:
    p, steps = trained()
    view = p.detach()[::2]
    for count in range(1, 10):
        next(steps).item()
        np.testing.assert_allclose(view.numpy(), expected(count)[::2], rtol=1e-12)


def test_a_graph_that_is_kept_has_the_values_that_it_was_made_of() -> None:
    p = lt.nn.Parameter(lt.arange(1.0, SIZE + 1, dtype=lt.float64))
    values = p.detach().numpy()
    for _ in range(8):
        y = (p * p).sum()
        y.item()
        with lt.no_grad():
            p.mul_(0.5)
        p.detach().sum().item()
        found, = lt.autograd.grad(y, p)
        np.testing.assert_allclose(found.numpy(), 2 * values, rtol=1e-12)
        values = values / 2


def test_a_graph_that_backward_retains_has_the_values_that_it_was_made_of() -> None:
    p = lt.nn.Parameter(lt.arange(1.0, SIZE + 1, dtype=lt.float64))
    optimizer = lt.optim.SGD([p], lr=0.25)
    for count in range(12):
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward(retain_graph=count > 7)  # the same program as before, of what is kept
        optimizer.step()
        if count > 7:
            found, = lt.autograd.grad(loss, p)
            before = np.arange(1.0, SIZE + 1) * 0.5 ** count
            np.testing.assert_allclose(found.numpy(), 2 * before, rtol=1e-12)


def test_an_index_outside_leaves_parameters_as_they_are() -> None:
    table = lt.nn.Embedding(5, 3)
    optimizer = lt.optim.SGD(table.parameters(), lr=0.5)

    def step(row: int) -> None:
        optimizer.zero_grad()
        table(lt.tensor([row])).sum().backward()
        optimizer.step()
        table.weight.detach().sum().item()
    for _ in range(8):
        step(2)
    before = table.weight.detach().numpy()
    with pytest.raises(lt.IndexingError):
        step(7)
    optimizer.zero_grad()
    np.testing.assert_array_equal(table.weight.detach().numpy(), before)


def test_steps_take_the_memory_of_gradients_alone() -> None:
    net = lt.nn.Linear(512, 512, bias=False).to("cpu")  # 1 MiB
    optimizer = lt.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = lt.rand(4, 512, device="cpu").realize()

    def step() -> float:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss.item())
    for _ in range(6):
        step()
    assert peak_bytes(step, "cpu") < 1 << 18


@pytest.mark.parametrize("is_jitted", [False, True])
@pytest.mark.parametrize("update", ["add", "put", "set", "scale"])
def test_an_update_of_what_nobody_else_knows_stays_where_it_is(update: str,
                                                               is_jitted: bool) -> None:
    x = lt.zeros(4096, 100, device="cpu").realize()  # 1.6 MB
    places = lt.tensor([3, 4000, 3], device="cpu").realize()
    values = lt.ones(3, 100, device="cpu").realize()
    if update == "set":
        places = places[:2].clone().realize()
        values = values[:2].clone().realize()
    expected = np.zeros((4096, 100), np.float32)

    def step(values: lt.Tensor) -> None:
        if update == "add":
            x.index_add_(0, places, values)
        elif update == "put":
            x.index_put_((places,), values, accumulate=True)
        elif update == "set":
            x[places] = values
        else:
            x.mul_(0.5).add_(1)
    taken = lt.jit(step) if is_jitted else step

    def run() -> None:
        taken(values)
        x.realize()
        if update in ("add", "put"):
            np.add.at(expected, places.numpy(), values.numpy())
        elif update == "set":
            expected[places.numpy()] = values.numpy()
        else:
            expected[:] = expected * 0.5 + 1
    for _ in range(5):
        run()
        np.testing.assert_array_equal(x.numpy(), expected)
    assert peak_bytes(run, "cpu") < 1 << 18
    seen = x.clone().realize()
    other = x * 2  # which is to be of what x is now
    before = expected.copy()
    run()
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(seen.numpy(), before)
    np.testing.assert_array_equal(other.numpy(), before * 2)


def test_values_that_read_what_they_update_read_what_was_there() -> None:
    x = lt.arange(4096 * 100, device="cpu").reshape(4096, 100).float().realize()
    places = lt.tensor([0, 1, 2, 0], device="cpu").realize()
    expected = x.numpy().copy()
    for _ in range(4):
        x.index_add_(0, places, x[:4].flip(0))
        x.realize()
        rows = expected[3::-1].copy()
        np.add.at(expected, places.numpy(), rows)
        np.testing.assert_array_equal(x.numpy(), expected)


def test_what_is_kept_is_not_updated_with_a_copy() -> None:
    x = lt.rand(4096, 100, device="cpu").realize()
    kept, first = x.numpy(), x.numpy().copy()
    places, values = lt.tensor([1, 1], device="cpu"), lt.ones(2, 100, device="cpu")
    for _ in range(5):
        y = x.index_add(0, places, values).realize()
        np.testing.assert_array_equal(y.numpy()[1], first[1] + 2)
        np.testing.assert_array_equal(x.numpy(), first)
    for _ in range(5):
        x.index_add_(0, places, values)
        x.realize()
    np.testing.assert_array_equal(kept, first)


def test_a_jitted_step_that_forgets_gradients_first_has_their_memory() -> None:
    net = lt.nn.Linear(512, 512, bias=False).to("cpu")
    optimizer = lt.optim.SGD(net.parameters(), lr=0.01)
    x = lt.rand(4, 512, device="cpu").realize()

    @lt.jit
    def step() -> lt.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    losses = [step() for _ in range(4)]  # which stay in use
    gradient = net.weight.grad
    assert gradient is not None
    kept = gradient.numpy()
    losses.append(step())
    np.testing.assert_array_equal(gradient.numpy(), kept)
    del gradient
    for _ in range(3):
        losses.append(step())
    assert peak_bytes(lambda: losses.append(step()), "cpu") < 1 << 18
    values = [x.item() for x in losses]
    assert values == sorted(values, reverse=True) and len(set(values)) == len(values)


def test_gradients_are_gone_where_a_jitted_step_that_forgets_them_fails() -> None:
    table = lt.nn.Embedding(5, 3)

    @lt.jit
    def step(rows: lt.Tensor) -> lt.Tensor:
        table.weight.grad = None
        loss = table(rows).sum()
        loss.backward()
        return loss.detach()
    for _ in range(3):
        step(lt.tensor([2]))
    with pytest.raises(lt.IndexingError):
        step(lt.tensor([7]))
    assert table.weight.grad is None
    step(lt.tensor([2]))
    assert table.weight.grad is not None and table.weight.grad.sum().item() == 3


def test_a_thread_that_asks_for_a_value_meanwhile_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    p = lt.nn.Parameter(lt.arange(1.0, SIZE + 1, dtype=lt.float64))
    optimizer = lt.optim.SGD([p], lr=0.25)
    seen: list[float] = []
    asked: list[threading.Thread] = []
    run = Segment.run

    def ran(self: Segment, *args: Any, **kwargs: Any) -> Any:
        result = run(self, *args, **kwargs)
        if not asked:  # p has its new value, and nobody has been told
            asked.append(threading.Thread(target=lambda: seen.append(float(losses[-1].item()))))
            asked[0].start()
            asked[0].join(0.3)
        return result
    losses: list[lt.Tensor] = []
    for count in range(9):
        optimizer.zero_grad()
        losses.append((p * p).sum())
        losses[-1].backward()
        if count == 8:
            monkeypatch.setattr(Segment, "run", ran)
        optimizer.step()
    asked[0].join()
    before = np.arange(1.0, SIZE + 1) * 0.5 ** 8
    assert seen == [pytest.approx(float((before ** 2).sum()), rel=1e-12)]


def test_other_threads_see_no_value_between_two_steps() -> None:
    p, steps = trained(momentum=0.0)
    allowed = {float(0.75 ** k) for k in range(400)}
    wrong: list[float] = []
    is_done = threading.Event()

    def look() -> None:
        while not is_done.is_set():
            found = float((p.detach()[:1] * 1).item())
            if not any(abs(found - value) <= 1e-9 * value for value in allowed):
                wrong.append(found)
    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(60):
        next(steps).item()
    is_done.set()
    reader.join()
    assert not wrong
    np.testing.assert_allclose(p.numpy(), expected(60, 0.0), rtol=1e-9)


def test_a_program_finds_its_memory_in_a_step_that_reads_less() -> None:
    x = lt.arange(1.0, SIZE + 1, dtype=lt.float64).realize()

    def step(reads_more: bool) -> float:
        y = (x * 2).sum()
        if reads_more:  # and nobody wants what is made of that
            lt.tensor(np.ones(SIZE)) + 1
        return y.item()
    assert {step(number < 8) for number in range(12)} == {float(SIZE * (SIZE + 1))}
