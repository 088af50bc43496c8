"""fully_shard: as one process trains alone, with parameters that are gathered when they are used.

Ranks that all have the same: tests/distributed has real ones.
"""
from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
from simulated_ranks import Simulated

import lazyten as lt
from lazyten import nn
from lazyten.nn.parallel import ShardedParameter, fully_shard
from lazyten.nn.sharded_parameter import row_of, whole_of

WIDTH = 256
"""Of layers whose weights are most of what a step needs."""


def _net(width: int = 6, layers: int = 3) -> nn.Sequential:
    lt.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*parts)


def _sharded(net: nn.Sequential, group: Simulated, reshards: bool = True) -> nn.Sequential:
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, process_group=group, reshard_after_forward=reshards)
    return net


def _step(net: nn.Module) -> Any:
    optimizer = lt.optim.SGD(net.parameters(), lr=0.1)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (4, 1, 3), (0, 2)])
def test_rows_are_the_whole(size: int, shape: tuple[int, ...]) -> None:
    whole = lt.arange(float(np.prod(shape))).reshape(shape)
    rows = lt.stack([row_of(whole, rank, size) for rank in range(size)])
    assert rows.shape == (size, -(-whole.numel() // size))
    np.testing.assert_array_equal(whole_of(rows, shape).numpy(), whole.numpy())


@pytest.mark.parametrize("reshards", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
def test_parameters_are_gathered_when_they_are_used(jitted: bool, reshards: bool) -> None:
    """Forward, and backward where a gradient reads them, which that of the first layer does not."""
    group = Simulated(2, 0)
    step = _step(_sharded(_net(), group, reshards))
    call = lt.jit(step) if jitted else step
    call(lt.ones(4, 6)).item()
    group.log.clear()
    call(lt.ones(4, 6)).item()
    begun = [kind for kind in group.log if kind != "end"]
    again = ["all_gather"] * (reshards and jitted) + ["reduce_scatter"]
    assert begun == ["all_gather"] * 3 + ["reduce_scatter"] + again * 2


@pytest.mark.parametrize("reshards", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_gradient_is_the_mean_of_the_ranks_gradients(size: int, reshards: bool) -> None:
    """Of ranks that have the same rows and examples: its rows of the gradient of the whole."""
    whole, x = _net(), lt.arange(24.0).reshape(4, 6) / 24
    part = _sharded(copy.deepcopy(whole), Simulated(size, size - 1), reshards)
    with lt.no_grad():
        for a, b in zip(whole.parameters(), part.parameters(), strict=True):
            assert isinstance(b, ShardedParameter)
            a.copy_(b.full_tensor())
    for net in (whole, part):
        net(x).square().sum().backward()
    for a, b in zip(whole.parameters(), part.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        np.testing.assert_allclose(b.grad.numpy(), row_of(a.grad, size - 1, size).numpy(),
                                   rtol=1e-6)


@pytest.mark.slow
def test_a_jitted_step_holds_few_whole_parameters() -> None:
    held = {}
    for kind in ("whole", "kept", "gathered again"):
        net = _net(WIDTH, 8)
        if kind != "whole":
            _sharded(net, Simulated(4, 0), kind != "kept")
        gc.collect()  # what others have left
        step, before = lt.jit(_step(net)), lt.memory_stats("cpu").in_use
        x = lt.ones(4, WIDTH).realize()
        step(x).item()
        held[kind] = (lt.memory_stats("cpu").in_use - before) / (4 * WIDTH ** 2)
        del step, net
    assert held["gathered again"] < held["kept"] - 2.5, held
    assert held["gathered again"] < 10, held


def test_a_copy_has_the_shape_of_the_whole() -> None:
    net = copy.deepcopy(fully_shard(nn.Linear(3, 2), process_group=Simulated(2, 1)))
    assert isinstance(net.weight, ShardedParameter) and net.weight.whole_shape == (2, 3)
    assert type(net).__name__ == "FSDPLinear" and isinstance(net, nn.Linear)
    assert list(net.state_dict()) == ["weight", "bias"]


def test_a_parameter_of_two_units_is_refused() -> None:
    def tied() -> nn.Sequential:
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        net[1].weight = net[0].weight
        return net
    group, net = Simulated(2), tied()
    fully_shard(net[0], process_group=group)
    for other in (net[1], net):
        with pytest.raises(lt.ArgumentError, match="in one unit"):
            fully_shard(other, process_group=group)
    whole = fully_shard(tied(), process_group=group)
    assert whole[0].weight is whole[1].weight


def test_what_cannot_be_sharded_is_refused() -> None:
    group = Simulated(2, 0)
    done = fully_shard(nn.Linear(2, 2), process_group=group)
    for module, words in ((done, "sharded already"), (nn.ModuleList([nn.Linear(2, 2)]), "forward"),
                          ([nn.Linear(2, 2)], "no module")):
        with pytest.raises(lt.ArgumentError, match=words):
            fully_shard(module, process_group=group)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [lt.optim.LAMB, lt.optim.Adafactor, lt.optim.LBFGS, lt.optim.Muon])
def test_optimizers_that_need_whole_parameters_refuse_rows(kind: Any) -> None:
    net = fully_shard(nn.Linear(2, 2), process_group=Simulated(2, 0))
    with pytest.raises(lt.ArgumentError, match="shared out among ranks"):
        kind(net.parameters())


def test_a_norm_of_rows_and_of_whole_parameters_is_refused() -> None:
    net = nn.Sequential(fully_shard(nn.Linear(2, 2), process_group=Simulated(2, 0)),
                        nn.Linear(2, 2))
    net(lt.ones(1, 2)).sum().backward()
    with pytest.raises(lt.ArgumentError, match="shared out among ranks"):
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
