"""What a user changes between steps that are known is noticed: options, states and counts."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from changing_programs import anew

import lazyten as lt

Change = Callable[[Any, list[lt.Tensor]], object]


def every_state(optimizer: Any, change: Callable[[dict[str, Any], str], object]) -> None:
    """Change each tensor of each state."""
    for state in optimizer.state.values():
        for name in [n for n, v in state.items() if isinstance(v, lt.Tensor)]:
            change(state, name)


def option(name: str, change: Callable[[Any], Any]) -> Change:
    """Change an option, where there is one of this name."""
    def changed(optimizer: Any, _: list[lt.Tensor]) -> None:
        group = optimizer.param_groups[0]
        if name in group:
            group[name] = change(group[name])
    return changed


def write_from_outside(state: dict[str, Any], name: str) -> None:
    np.from_dlpack(state[name])[...] *= 0.5


CHANGES: dict[str, Change] = {
    "nothing": lambda optimizer, _: None,
    "lr": option("lr", lambda lr: lr * 0.5), "betas": option("betas", lambda _: (0.7, 0.8)),
    "a beta of a list": option("betas", lambda b: b.__setitem__(0, b[0] / 2) or b),
    "weight_decay": option("weight_decay", lambda w: w + 0.1),
    "weight_decay as a whole number": option("weight_decay", lambda _: 1),
    "maximize": option("maximize", lambda m: not m),
    "a state in place": lambda o, _: every_state(o, lambda s, n: s[n].mul_(0.5)),
    "a state of another tensor": lambda o, _: every_state(
        o, lambda s, n: s.__setitem__(n, s[n] * 0.5)),
    "a state of another type": lambda o, _: every_state(
        o, lambda s, n: s.__setitem__(n, s[n].float())),
    "a state from outside": lambda o, _: every_state(o, write_from_outside),
    "a state that is read": lambda o, ps: every_state(o, lambda s, n: ps[0].data.add_(s[n].sum())),
    "one state for two": lambda o, ps: o.state[ps[0]].update(
        {n: v for n, v in o.state[ps[1]].items() if isinstance(v, lt.Tensor)}),
    "a count": lambda o, ps: o.state[ps[0]].update(
        {"step": 20} if "step" in o.state[ps[0]] else {}),
    "no gradient": lambda o, ps: setattr(ps[1], "grad", None),
}
OPTIMIZERS: dict[str, Callable[[list[lt.Tensor]], Any]] = {
    "Adam": lambda ps: lt.optim.Adam(ps, lr=0.1, betas=[0.9, 0.99]),  # type: ignore[arg-type]
    "SGD": lambda ps: lt.optim.SGD(ps, lr=0.1, momentum=0.9),
    "ASGD": lambda ps: lt.optim.ASGD(ps, lr=0.1, t0=2),
}


def trained(make: Callable[[list[lt.Tensor]], Any], change: Change) -> list[Any]:
    """Parameters after each step; a change comes before the fourth, the sixth and the seventh."""
    parameters = [lt.tensor(np.linspace(-1, 1, 6).reshape(2, 3) + k, requires_grad=True)
                  for k in range(2)]
    optimizer, seen = make(parameters), []
    for step in range(8):
        optimizer.zero_grad()
        ((parameters[0] * parameters[1]).sin().sum() + (parameters[1] ** 2).sum()).backward()
        if step in (3, 5, 6):
            change(optimizer, parameters)
        optimizer.step()
        seen.append([p.tolist() for p in parameters])
    return seen


@pytest.mark.few(27)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_known_step_notices_what_a_user_changes(name: str, kind: str) -> None:
    with anew():
        expected = trained(OPTIMIZERS[name], CHANGES[kind])
    assert trained(OPTIMIZERS[name], CHANGES[kind]) == expected


def test_what_another_optimizer_saved_is_not_loaded() -> None:
    p = lt.nn.Parameter(lt.ones(2))
    adam, sgd = lt.optim.Adam([p]), lt.optim.SGD([p], lr=0.5)
    with pytest.raises(KeyError, match="no betas, eps: they are of another optimizer"):
        adam.load_state_dict(sgd.state_dict())
    with pytest.raises(lt.StateError, match="no dampening"):
        sgd.load_state_dict(adam.state_dict())
    assert adam.param_groups[0]["lr"] == 1e-3 and sgd.param_groups[0]["lr"] == 0.5
    old = adam.state_dict()
    del old["param_groups"][0]["amsgrad"], old["param_groups"][0]["decoupled_weight_decay"]
    lt.optim.AdamW([p]).load_state_dict(old)
