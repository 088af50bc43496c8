"""Modules of which each rank has a part, beside the same ones whole."""
from __future__ import annotations

import copy
import math

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from lazyten.nn.parallel import ShardedParameter, fully_shard


def _net() -> nn.Sequential:
    lt.manual_seed(dist.rank())  # they begin as rank 0's
    made: nn.Sequential = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(),
                                        nn.Linear(7, 7), nn.Tanh(), nn.Linear(7, 3))
    return made.double()


def mixed(jit: bool) -> None:
    """Clipped gradients, a scale that makes some infinite, frozen and ignored parameters, and one
    that two layers share: as DistributedDataParallel does."""
    dist.init(60)
    whole = _net()
    for frozen in (whole[3].weight, whole[1].bias):
        frozen.requires_grad_(False)
    whole.append(nn.Linear(3, 3).double())
    whole.append(nn.Linear(3, 3).double())
    whole[7].weight = whole[6].weight
    part = copy.deepcopy(whole)
    assert part[7].weight is part[6].weight
    fully_shard(part[0])
    fully_shard(part, ignored_params=[part[1].bias])
    ddp = nn.parallel.DistributedDataParallel(whole)
    found = [_losses(ddp, jit), _losses(part, jit)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    for (name, a), b in zip(whole.named_parameters(), part.parameters(), strict=True):
        full = b.full_tensor() if isinstance(b, ShardedParameter) else b
        assert (full is b) == (name == "1.bias")
        np.testing.assert_allclose(a.detach().numpy(), full.detach().numpy(), rtol=1e-9)
        if full is not b:
            assert b.numel() == -(-a.numel() // dist.size())
    print("done")


def _losses(model: nn.Module, jit: bool) -> list[float]:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = lt.optim.AdamW(trained, lr=0.05, weight_decay=0.1)
    scaler = lt.amp.GradScaler("cpu", init_scale=2.0)
    scale, random = lt.ones((), dtype=lt.float64), np.random.default_rng(0)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = (model(x) * scale).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(trained, 0.1)
        scaler.step(optimizer)
        scaler.update()
        return dist.functional.all_reduce(loss.detach(), "mean") + norm

    call, found = lt.jit(step) if jit else step, []
    for number in range(5):
        x = random.normal(size=(4 * dist.size(), 5))[dist.rank()::dist.size()]
        if number == 2 and dist.rank() == 0:
            x[0, 0] = math.inf  # of which one rank knows
        found.append(call(lt.tensor(x)).item())
    return found


def halves() -> None:
    """Gradients of 16 bits are added up in 32, and are means."""
    dist.init(20)
    net = fully_shard(nn.Linear(3, 2).bfloat16())
    net(lt.full((1, 3), 1.0 + dist.rank(), dtype=lt.bfloat16)).sum().backward()
    rows = dist.functional.all_gather(net.weight.grad).flatten()[:6]
    assert rows.dtype is lt.bfloat16 and (rows == (1 + dist.size()) / 2).all().item()
    print("done")


def types() -> None:
    """A unit on a mesh computes in a type of its policy, and its rows keep theirs."""
    mesh = dist.init_device_mesh("cpu", (dist.init(20).size,))
    seen = []

    class Noting(nn.Linear):
        def forward(self, input: lt.Tensor) -> lt.Tensor:
            seen.append((input.dtype, self.weight.dtype))
            return super().forward(input)
    policy = MixedPrecisionPolicy(param_dtype=lt.bfloat16, reduce_dtype=lt.float32,
                                  output_dtype=lt.float32)
    net, whole = Noting(4, 2), nn.Linear(4, 2)
    fully_shard(net, mesh=mesh, mp_policy=policy)
    assert isinstance(net, FSDPModule)
    net.unshard()
    net.set_reshard_after_forward(False)
    whole.load_state_dict({name: p.full_tensor().detach() for name, p in net.named_parameters()})
    x = lt.arange(8.0).reshape(2, 4) / 8 + dist.rank()
    found, wanted = net(x), whole(x)
    assert seen == [(lt.bfloat16, lt.bfloat16)] and found.dtype is lt.float32
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=3e-2,
                               atol=3e-2)
    found.sum().backward()
    assert all(p.dtype is lt.float32 is p.grad.dtype for p in net.parameters())
    rows = dist.functional.all_gather(net.weight.grad).flatten()[:8].reshape(2, 4)
    mean = dist.functional.all_reduce(x.sum(0), "mean")
    np.testing.assert_allclose(rows.numpy(), [mean.tolist()] * 2, rtol=1e-2)
    print("done")
