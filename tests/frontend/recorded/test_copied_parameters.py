"""Parameters that are copies of others, as a deep copy makes them: known from step to step, and
apart from those."""
from __future__ import annotations

import copy

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn
from lazyten.frontend.recorded import lookup


def layers() -> nn.Sequential:
    """One layer, of which nothing is computed yet, and two copies of it."""
    lt.manual_seed(3)
    first = nn.Linear(4, 4)
    return nn.Sequential(first, copy.deepcopy(first), copy.deepcopy(first))


def test_steps_that_read_copies_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = layers(), lt.ones(2, 4).realize()
    with lt.no_grad():
        for _ in range(4):
            expected = net(x).numpy()
        unknown = []
        kept = lookup.add_to_key

        def noted(*args: object) -> bool:
            found: bool = kept(*args)  # type: ignore[arg-type]
            if not found:
                unknown.append(args)
            return found
        monkeypatch.setattr(lookup, "add_to_key", noted)
        np.testing.assert_array_equal(net(x).numpy(), expected)
    assert not unknown


@pytest.mark.parametrize("write", [
    lambda p: p.data.add_(1), lambda p: p.data.copy_(lt.zeros(4, 4)), lambda p: p.zero_(),
    lambda p: p.data.__setitem__(0, 5.0)])
@pytest.mark.parametrize("changed", [0, 1, 2])
def test_a_write_to_one_is_none_to_the_others(write: object, changed: int) -> None:
    net, x = layers(), lt.ones(2, 4).realize()
    with lt.no_grad():
        for _ in range(3):
            net(x).numpy()
        before = net[0].weight.detach().numpy().copy()
        write(net[changed].weight)  # type: ignore[operator]
        net(x).numpy()
    for number, layer in enumerate(net):
        same = np.array_equal(layer.weight.detach().numpy(), before)
        assert same is (number != changed), number


def test_training_copies_is_training_layers_apart() -> None:
    net, apart = layers(), [copy.deepcopy(layers()[0]) for _ in range(3)]
    x = lt.ones(2, 4).realize()
    with lt.no_grad():
        for _ in range(3):
            net(x).numpy()
    other = nn.Sequential(*apart)
    found = []
    for one in (net, other):
        optimizer = lt.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            one(x).square().sum().backward()
            optimizer.step()
        found.append([p.detach().numpy() for p in one.parameters()])
    for mine, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, expected)
