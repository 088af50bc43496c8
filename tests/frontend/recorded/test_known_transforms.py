"""Steps with a transform of lt.func in them: what comes after it is looked up as ever."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changing_programs import anew
from tensor_values import assert_alike

import lazyten as lt
from lazyten import nn, optim
from lazyten.frontend.recorded import gradients
from lazyten.func import functional_call, stack_module_state, vmap

STEPS = 8


def _trained() -> list[Any]:
    """Members of an ensemble, whose activations have rules for gradients of their own."""
    lt.manual_seed(0)
    members = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Softplus())
               for _ in range(3)]
    params, buffers = stack_module_state(members)
    optimizer = optim.SGD(params.values(), lr=0.1)
    rng, seen = np.random.default_rng(0), []
    for step in range(STEPS):
        x = lt.tensor(rng.normal(size=(5, 3)).astype(np.float32))
        given = vmap(lambda p, b, x: functional_call(members[0], (p, b), (x,)),
                     in_dims=(0, 0, None))(params, buffers, x)
        loss = (given * (step + 1)).square().mean() + sum(one.sum() for one in given) / 30
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += [loss.item(), given.detach().sum().item()]
    return [*seen, *[p.tolist() for p in params.values()]]


def test_steps_do_what_they_do_where_nothing_is_looked_up() -> None:
    with anew():
        expected = _trained()
    assert_alike(_trained(), expected, rel=1e-5, abs=1e-6)


def test_backward_passes_through_what_a_transform_gave_are_known(
        monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    original = gradients._course
    monkeypatch.setattr(gradients, "_course",
                        lambda *args: found.append(original(*args)) or found[-1])
    _trained()
    assert len(found) == STEPS and None not in found
    assert len(set(map(id, found[3:]))) == 1  # the one that was made
