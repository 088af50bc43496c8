"""Tensors, modules and names that a jitted function reads and writes: as they are at each call."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tensor_values import Array, equal

import lazyten as lt
from lazyten import nn
from lazyten.optim import SGD

scale = 2.0


def test_closed_over_tensors_are_read_at_their_current_value(device: str) -> None:
    w = lt.ones(3, device=device)
    f = lt.jit(lambda x: x * w)
    x = lt.ones(3, device=device)
    assert equal(f(x), [1, 1, 1])
    w.mul_(5)  # not computed before the call
    assert equal(f(x), [5, 5, 5])
    w[1] = 7
    assert equal(f(x), [5, 7, 5])
    w = lt.zeros(3, device=device)  # another tensor by this name
    assert equal(f(x), [0, 0, 0])


def test_loaded_parameters_and_moved_models_are_seen() -> None:
    net, other = nn.Linear(2, 2), nn.Linear(2, 2)
    f = lt.no_grad()(lt.jit(net))
    x = lt.ones(1, 2)
    f(x), f(x)
    net.load_state_dict(other.state_dict())
    assert equal(f(x), other(x).detach())
    net.to(dtype=lt.float64)
    assert f(x.double()).dtype is lt.float64
    net.weight = nn.Parameter(lt.zeros(2, 2, dtype=lt.float64))
    assert equal(f(x.double())[0], net.bias.detach())


def test_a_frozen_parameter_is_not_trained_any_more() -> None:
    net = nn.Linear(2, 1)
    optimizer = SGD(list(net.parameters()), lr=0.1)

    @lt.jit
    def step(x: lt.Tensor) -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(lt.ones(1, 2))
    net.weight.requires_grad_(False)
    weight, bias = net.weight.numpy(), net.bias.detach().numpy()
    step(lt.ones(1, 2))
    assert equal(net.weight, weight) and net.weight.grad is None
    np.testing.assert_allclose(net.bias.detach().numpy(), bias - 0.1, rtol=1e-6)


def test_eval_and_train_change_what_dropout_does() -> None:
    net = nn.Dropout(0.5)
    f = lt.jit(net)
    ones = lt.ones(64)
    assert not equal(f(ones), ones) and not equal(f(ones), ones)
    net.eval()
    assert equal(f(ones), ones)
    net.train()
    assert not equal(f(ones), ones)
    assert f.cache_size == 2


def test_globals_and_attributes_that_change_are_seen() -> None:
    global scale
    f = lt.jit(lambda x: x * scale)
    assert equal(f(lt.ones(2)), [2, 2])
    scale = 3.0
    try:
        assert equal(f(lt.ones(2)), [3, 3])
    finally:
        scale = 2.0
    assert equal(f(lt.ones(2)), [2, 2]) and f.cache_size == 3  # the last is for any number


def test_attributes_that_exchange_their_values_are_told_apart() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plus, self.minus = True, False

        def forward(self, x: lt.Tensor) -> lt.Tensor:
            return x + 1 if self.plus and not self.minus else x - 1

    net = Net()
    f = lt.jit(net)
    assert equal(f(lt.ones(1)), [2]) and equal(f(lt.ones(1)), [2])
    del net.plus
    net.minus = True
    net.plus = False  # the values are what they were, in the same order
    assert equal(f(lt.ones(1)), [0])


def test_a_name_that_is_gone_or_new_is_noticed() -> None:
    factor, scope = 2.0, {"lt": lt, "plus": 3.0}

    @lt.jit
    def closed(x: lt.Tensor) -> lt.Tensor:
        return x * factor

    exec("def opened(x): return x + plus", scope)
    opened = lt.jit(scope["opened"])
    x = lt.ones(2)
    for _ in range(3):
        assert closed(x).tolist() == [2, 2] and opened(x).tolist() == [4, 4]
    del factor, scope["plus"]
    for call in (closed, opened):
        with pytest.raises(NameError):
            call(x)
    factor, scope["plus"] = 5.0, 6.0
    assert closed(x).tolist() == [5, 5] and opened(x).tolist() == [7, 7]


def test_a_name_without_a_value_yet_is_noticed_when_it_has_one() -> None:
    @lt.jit
    def step(x: lt.Tensor, late: bool = False) -> lt.Tensor:
        return x * factor if late else x + 1

    x = lt.ones(2)
    for _ in range(3):
        assert step(x).tolist() == [2, 2]
    traced = step.cache_size
    factor = 4.0
    assert step(x).tolist() == [2, 2] and step.cache_size > traced
    assert step(x, True).tolist() == [4, 4]


def test_the_order_of_tensors_and_numbers_and_their_names_belong_to_a_signature() -> None:
    f = lt.jit(lambda a, b, c=0: a - b + c)
    x = lt.tensor([5.0])
    for _ in range(3):
        assert f(x, 3).tolist() == [2] and f(3, x).tolist() == [-2]
        assert f(x, b=3).tolist() == [2] and f(x, 3, c=x).tolist() == [7]
        assert f(x, x, 3).tolist() == [3] and f(x, x, x).tolist() == [5]
    assert f.cache_size == 6


def test_random_numbers_go_on_as_without_jit(device: str) -> None:
    own = lt.Generator(9)

    def draw(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
        lt.rand(5, device=device)  # unused, but it takes its numbers
        return (x + lt.randn(3, device=device), lt.randperm(6, device=device),
                lt.rand(2, device=device, generator=own))

    def drawn(function: Callable[[lt.Tensor], tuple[lt.Tensor, ...]]) -> list[Array]:
        lt.manual_seed(3)
        own.manual_seed(4)
        return [t.numpy() for _ in range(4) for t in function(lt.zeros(3, device=device))]

    for a, b in zip(drawn(lt.jit(draw)), drawn(draw), strict=True):
        np.testing.assert_array_equal(a, b)


def test_in_place_changes_of_arguments_reach_the_caller_and_all_views(device: str) -> None:
    @lt.jit
    def f(x: lt.Tensor) -> lt.Tensor:
        before = x + 0
        x[1:] += 10
        return before

    x = lt.tensor([1.0, 2.0, 3.0], device=device)
    view = x[::-1]
    assert equal(f(x), [1, 2, 3]) and equal(view, [13, 12, 1])
    assert equal(f(x), [1, 12, 13]) and equal(view, [23, 22, 1])
    assert equal(f(view), [23, 22, 1]) and equal(x, [11, 32, 23])


def test_a_value_saved_before_a_call_stays_what_it_was() -> None:
    w = lt.zeros(2)
    f = lt.jit(lambda: w.add_(1))
    saved = []
    for _ in range(5):
        saved.append(w * 1)  # lazy: it reads the memory that w has now
        f()
    assert [s.tolist() for s in saved] == [[k, k] for k in range(5)]


def test_a_buffer_of_a_module_may_be_updated_in_place() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", lt.zeros(()))
            self.count: lt.Tensor

        def forward(self, x: lt.Tensor) -> lt.Tensor:
            self.count += 1
            return x * self.count

    net = Counting()
    f = lt.jit(net)
    assert [f(lt.ones(())).item() for _ in range(4)] == [1, 2, 3, 4]
    assert list(net.state_dict()) == ["count"] and net.count.item() == 4


def test_attributes_of_classes_helpers_and_methods_that_are_called_are_watched() -> None:
    class Scaled:
        factor = 2.0

        @property
        def twice(self) -> float:
            return self.factor * 2

        def helper(self, x: lt.Tensor) -> lt.Tensor:
            return x * self.twice

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Scaled()

        def forward(self, x: lt.Tensor) -> lt.Tensor:
            return self.block(x)

        def block(self, x: lt.Tensor) -> lt.Tensor:
            return self.part.helper(x) + scale

    global scale
    f = lt.jit(Net())
    assert equal(f(lt.ones(1)), [6]) and equal(f(lt.ones(1)), [6])
    Scaled.factor = 3.0
    assert equal(f(lt.ones(1)), [8])
    scale = 10.0
    try:
        assert equal(f(lt.ones(1)), [16])
    finally:
        scale = 2.0


def test_a_moved_model_is_read_where_it_is_now() -> None:
    net = nn.Linear(2, 2)
    f = lt.jit(lambda x: x * net.weight.detach())
    assert f(lt.ones(2, 2)).dtype is f(lt.ones(2, 2)).dtype is lt.float32
    net.to(dtype=lt.float64)
    assert f(lt.ones(2, 2)).dtype is lt.float64
