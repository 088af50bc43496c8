"""Optimizers whose state is shared out among ranks, beside the same ones whole."""
from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from own_optimizers import own_adam

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed.optim import ZeroRedundancyOptimizer

WIDTH, STEPS = 16, 6


def _class(name: str) -> Any:
    return own_adam(lt) if name == "own" else getattr(lt.optim, name)


def _net() -> nn.Sequential:
    lt.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
              nn.Linear(WIDTH, 1)]
    made: nn.Sequential = nn.Sequential(*layers).double()
    return made


def _grouped(net: nn.Sequential) -> list[dict[str, Any]]:
    """Two groups, of which one has options of its own."""
    return [{"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in net.parameters() if p.ndim == 1]}]


def _go_on(model: nn.Module, optimizer: lt.optim.Optimizer, jit: bool, first: int = 0,
           skips: bool = False) -> list[float]:
    """Losses of some steps, with options that change: the learning rate, and later another."""
    scheduler = lt.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    scaler = lt.amp.GradScaler("cpu", init_scale=2.0, enabled=skips)
    random = np.random.default_rng(first)
    scale = lt.ones((), dtype=lt.float64)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = (model(x) * scale).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return dist.functional.all_reduce(loss.detach(), "mean")

    call, found = lt.jit(step) if jit else step, []
    for number in range(STEPS):
        own = random.normal(size=(4, WIDTH))[dist.rank()::dist.size()]
        if number == 3:
            optimizer.param_groups[0]["weight_decay"] = 0.3
        if skips:
            scale.fill_(math.inf if number == 2 else 1.0)
        found.append(call(lt.tensor(own)).item())
        scheduler.step()
    return found


def equal(name: str, jit: bool, skips: bool = False) -> None:
    """Losses and parameters are those of the optimizer whole, to the last bit."""
    dist.init(60)
    nets = [_net(), _net()]
    found = []
    for net, is_shared in zip(nets, (False, True), strict=True):
        ddp = nn.parallel.DistributedDataParallel(net)
        optimizer = ZeroRedundancyOptimizer(_grouped(net), _class(name), lr=0.05) if is_shared \
            else _class(name)(_grouped(net), lr=0.05)
        found.append(_go_on(ddp, optimizer, jit, skips=skips))
    np.testing.assert_array_equal(found[0], found[1])
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    print("done")


def memory(name: str) -> None:
    """Prints how many elements of state each rank has, and how many there are."""
    dist.init(60)
    net = _net()
    optimizer = ZeroRedundancyOptimizer(net.parameters(), _class(name), lr=0.05)
    _go_on(nn.parallel.DistributedDataParallel(net), optimizer, False)
    own = sum(v.numel() for state in optimizer.state.values() for v in state.values()
              if isinstance(v, lt.Tensor))
    rows = dist.functional.all_gather(lt.tensor(own)).tolist()
    if dist.rank() == 0:
        print(json.dumps([rows, sum(p.numel() for p in net.parameters())]))


def saving(to: int) -> None:
    """A consolidated state is that of the optimizer whole, and each of both goes on from it."""
    dist.init(60)
    whole, net = _net(), _net()
    plain = lt.optim.Adam(_grouped(whole), lr=0.05)
    shared = ZeroRedundancyOptimizer(_grouped(net), lt.optim.Adam, lr=0.05)
    _go_on(nn.parallel.DistributedDataParallel(whole), plain, False)
    _go_on(nn.parallel.DistributedDataParallel(net), shared, True)
    if dist.size() > 1:
        _must_fail(lt.StateError, "consolidate_state_dict", shared.state_dict)
    shared.consolidate_state_dict(to)
    if dist.rank() == to:
        _check_equal(shared.state_dict(), plain.state_dict())
    again = ZeroRedundancyOptimizer(_grouped(copy.deepcopy(whole)), lt.optim.Adam)
    again.load_state_dict(plain.state_dict())
    assert len(again.state) < 6 or dist.size() == 1
    again.consolidate_state_dict(to)
    if dist.rank() == to:
        _check_equal(again.state_dict(), plain.state_dict())
    ends, saved = [], copy.deepcopy(plain.state_dict())
    for optimizer, model in ((plain, whole), (shared, net)):
        optimizer.load_state_dict(saved)
        ends.append(_go_on(nn.parallel.DistributedDataParallel(model), optimizer, True, 1))
        if dist.size() > 1 and optimizer is shared:
            _must_fail(lt.StateError, "before the last step", shared.state_dict)
    np.testing.assert_allclose(*ends, 1e-9, 1e-14)
    print("done")


def _check_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """In float64, but for rounding: kernels of jitted steps may take sums in another order."""
    assert found["param_groups"] == wanted["param_groups"]
    assert list(found["state"]) == list(wanted["state"])
    for number, state in wanted["state"].items():
        for name, value in state.items():
            np.testing.assert_allclose(found["state"][number][name].numpy(), value.numpy(),
                                       1e-9, 1e-14)


def _must_fail(kind: type[Exception], words: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no error that says {words}")
