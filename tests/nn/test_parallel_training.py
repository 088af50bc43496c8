"""DistributedDataParallel and SyncBatchNorm of ranks that all have the same: as one has alone."""
from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from simulated_ranks import Simulated

import lazyten as lt
from lazyten import nn
from lazyten.execution.realization import carry_out

BATCHES = [np.random.default_rng(n).normal(size=(6, 3)) for n in range(4)]


def _net() -> nn.Sequential:
    lt.manual_seed(0)
    made: nn.Sequential = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(),
                                        nn.Linear(5, 2)).double()
    return made


def _train(model: nn.Module, jitted: bool, twice: Callable[[], Any] | None) -> list[float]:
    optimizer = lt.optim.Adam(model.parameters(), lr=0.1)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        if twice is not None:
            with twice():
                model(x + 1).square().mean().backward()
        loss: lt.Tensor = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    call = lt.jit(step) if jitted else step
    return [call(lt.tensor(x)).item() for x in BATCHES]


@pytest.mark.few(1)
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("bucket", [0.00001, 25])
def test_means_of_equal_gradients_train_as_they_do_alone(jitted: bool, bucket: float) -> None:
    alone, group = _net(), Simulated(rank=0)
    other = copy.deepcopy(alone)
    ddp = nn.parallel.DistributedDataParallel(other, process_group=group, bucket_cap_mb=bucket)
    wanted = _train(alone, False, None)
    np.testing.assert_allclose(_train(ddp, jitted, None), wanted, rtol=1e-9)
    sums = group.log.count("all_reduce") / len(BATCHES)
    assert sums == (1 if bucket == 25 else 6)
    assert [n for n in ddp.state_dict() if not n.startswith("module.")] == []


@pytest.mark.few(1)
@pytest.mark.parametrize("jitted", [False, True])
def test_accumulated_gradients_travel_once(jitted: bool) -> None:
    alone, group = _net(), Simulated(rank=0)
    ddp = nn.parallel.DistributedDataParallel(copy.deepcopy(alone), process_group=group,
                                              broadcast_buffers=False, bucket_cap_mb=25)
    carry_out()  # of what it begins with
    group.log.clear()
    wanted = _train(alone, False, nullcontext)
    np.testing.assert_allclose(_train(ddp, jitted, ddp.no_sync), wanted, rtol=1e-9)
    assert group.log.count("all_reduce") == len(BATCHES) and "broadcast" not in group.log


def test_a_batch_of_equal_parts_has_the_moments_of_one() -> None:
    group = Simulated()
    whole, own = nn.BatchNorm1d(3).double(), nn.SyncBatchNorm(3, process_group=group).double()
    x = lt.tensor(BATCHES[0], requires_grad=True)
    every = lt.tensor(np.tile(BATCHES[0], (3, 1)), requires_grad=True)
    found, wanted = own(x), whole(every)
    (found ** 3).sum().backward()
    (wanted ** 3).sum().backward()
    assert x.grad is not None and every.grad is not None
    for a, b in ((found, wanted[:6]), (x.grad, every.grad[:6]),
                 (own.running_mean, whole.running_mean), (own.running_var, whole.running_var)):
        assert a is not None and b is not None
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
    assert "SyncBatchNorm(3" in repr(own)


def test_a_module_without_parameters_is_refused() -> None:
    with pytest.raises(lt.GradientError, match="nothing to do together"):
        nn.parallel.DistributedDataParallel(nn.ReLU(), process_group=Simulated())
