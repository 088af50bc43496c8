"""A step whose gradients cannot be computed changes nothing, and training goes on."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import lazyten as lt


class OfAUser(lt.optim.Optimizer):
    """As in PyTorch's tutorials: a state that begins at the first step."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.5})

    @lt.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    if not state:
                        state["mean"] = lt.zeros_like(p)
                    state["mean"].mul_(0.9).add_(p.grad)
                    p.add_(state["mean"], alpha=-group["lr"])


KINDS: dict[str, Callable[[Any], lt.optim.Optimizer]] = {
    "plain": lambda params: lt.optim.SGD(params, lr=0.5),
    "momentum": lambda params: lt.optim.SGD(params, lr=0.5, momentum=0.9),
    "Adam": lambda params: lt.optim.AdamW(params, lr=0.5),
    "rate in a tensor": lambda params: lt.optim.Adam(params, lr=lt.tensor(0.5)),
    **{name: partial(getattr(lt.optim, name), lr=0.1) for name in (
        "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "LAMB", "Lion", "Muon", "NAdam",
        "RAdam", "RMSprop", "Rprop", "Sophia")},
    "a user's": OfAUser}


def trained(kind: str, rows: list[int]) -> list[Any]:
    """The table and the optimizer's state after steps, one for each row; row 7 is outside."""
    lt.manual_seed(0)
    table = lt.nn.Embedding(5, 3)
    optimizer = KINDS[kind](table.parameters())
    for row in rows:
        optimizer.zero_grad()
        loss = table(lt.tensor([row])).sum()
        loss.backward()
        if row == 7:
            with pytest.raises(lt.IndexingError, match="index 7 is outside axis 0"):
                optimizer.step()
        else:
            optimizer.step()
    state = optimizer.state[table.weight]
    return [table.weight.detach().numpy(), state.get("step"),
            *[x.numpy() for x in state.values() if isinstance(x, lt.Tensor)]]


@pytest.mark.few(32)
@pytest.mark.parametrize("at", [0, 1, 2, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_fails_is_none(kind: str, at: int) -> None:
    rows = [2, 3, 2, 0, 2, 3, 2, 1, 4]
    found, expected = trained(kind, [*rows[:at], 7, *rows[at:]]), trained(kind, rows)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_fails_for_one_parameter_is_none_for_others(kind: str) -> None:
    lt.manual_seed(0)
    table, other = lt.nn.Embedding(5, 3), lt.nn.Parameter(lt.ones(2, 3))
    optimizer = KINDS[kind]([other, *table.parameters()])

    def step(row: int) -> None:
        optimizer.zero_grad()
        (table(lt.tensor([row])).sum() + (other ** 2).sum()).backward()
        optimizer.step()
    step(2)
    before = other.detach().numpy().copy()
    with pytest.raises(lt.IndexingError, match="index 7 is outside axis 0"):
        step(7)
    np.testing.assert_array_equal(other.detach().numpy(), before)
