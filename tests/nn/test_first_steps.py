"""What a first step compiles is what all others use: numbers that are everywhere in a parameter or
a buffer, as they are first, are in memory from the start, and in no kernel."""
from __future__ import annotations

import pytest
from tensor_values import counted_plans

import lazyten as lt
from lazyten import nn


class Counting(nn.Module):
    """Counts its calls in a buffer, by which it scales."""

    calls: lt.Tensor

    def __init__(self, device: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(lt.ones(4, device=device))
        self.register_buffer("calls", lt.zeros((), device=device))

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        self.calls += 1
        return x * self.weight * self.calls


@pytest.mark.parametrize(("reset", "batch"), [(False, 5), (True, 6)])
def test_a_second_step_compiles_nothing(reset: bool, batch: int, device: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4, device=device), nn.BatchNorm1d(4, device=device),
                          nn.LayerNorm(4, device=device), Counting(device))
    if reset:
        nn.init.constant_(model[0].weight, 0.5)
        model[1].reset_parameters()
    parameters, x = list(model.parameters()), lt.rand(batch, 3, device=device).realize()

    def step() -> lt.Tensor:
        loss = (model(x) - 1).square().mean()
        gradients = lt.autograd.grad(loss, parameters)
        with lt.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= gradient * 0.1
        lt.realize(loss, *parameters, *model.buffers())
        return loss.detach()
    first = step()
    with counted_plans() as made:
        second = step()
    assert not made
    assert second.item() != first.item()


@pytest.mark.parametrize("dtype", [lt.float32, lt.bfloat16, lt.float64], ids=str)
def test_a_leaf_of_one_number_is_read_as_that_number(dtype: lt.dtype, device: str) -> None:
    x = lt.full((3,), 0.1, dtype=dtype, device=device, requires_grad=True)
    (x * 2).sum().backward()
    assert x.tolist() == lt.full((3,), 0.1, dtype=dtype, device=device).tolist()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 3
