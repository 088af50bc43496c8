"""What DistributedDataParallel does besides means: hooks, and ranks with fewer batches."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed import link
from lazyten.distributed.algorithms.ddp_comm_hooks import default_hooks
from rank_programs.refusals import refuse


def _net() -> nn.Module:
    lt.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()


def _batch(rank: int, step: int) -> tuple[lt.Tensor, lt.Tensor]:
    random = np.random.default_rng([rank, step])
    return lt.tensor(random.normal(size=(4, 3))), lt.tensor(random.normal(size=(4, 1)))


def _gradients(net: nn.Module) -> list[Any]:
    nn.functional.mse_loss(net(_batch(dist.rank(), 0)[0]), _batch(dist.rank(), 0)[1]).backward()
    return [p.grad.numpy() for p in net.parameters() if p.grad is not None]


def hooks() -> None:
    """Functions of a program's own combine gradients, and those of PyTorch's names."""
    dist.init(30)
    size, seen = dist.size(), []
    wanted = _gradients(nn.parallel.DistributedDataParallel(_net()))

    def doubled(state: str, bucket: dist.GradBucket) -> Any:
        seen.append((state, bucket.index(), bucket.is_last(), len(bucket.parameters())))
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        assert work is not None
        return work.get_future().then(lambda f: f.value()[0] * 2 / size)
    for hook, state, factor, close in (
            (default_hooks.allreduce_hook, None, 1.0, 1e-12), (doubled, "mine", 2.0, 1e-12),
            (default_hooks.fp16_compress_hook, None, 1.0, 2e-3),
            (default_hooks.bf16_compress_hook, dist.group.WORLD, 1.0, 2e-2)):
        ddp = nn.parallel.DistributedDataParallel(_net(), bucket_cap_mb=1e-5)
        ddp.register_comm_hook(state, hook)
        for found, one in zip(_gradients(ddp), wanted, strict=True):
            assert found.dtype == one.dtype
            np.testing.assert_allclose(found, factor * one, rtol=close, atol=close)
    assert seen[0][0] == "mine" and [s[1] for s in seen] == list(range(len(seen)))
    assert sum(s[3] for s in seen) == 6 and [s[2] for s in seen].index(True) == len(seen) - 1
    ddp = nn.parallel.DistributedDataParallel(_net())
    ddp.register_comm_hook(None, lambda state, bucket: bucket.buffer()[:2])
    for call, words in ((lambda: _gradients(ddp), "a tensor of"),
                        (lambda: ddp.register_comm_hook(None, doubled), "a hook already")):
        refuse(call, words, lt.ArgumentError)
    print("done")


def joins() -> None:
    """Ranks with batches of different numbers do all of them, as one process does that has all, and
    end with the same parameters."""
    dist.init(30)
    rank, size = dist.rank(), dist.size()
    numbers = [2 + (3 * r) % 5 for r in range(size)]
    for by_all in (True, False):
        ddp = nn.parallel.DistributedDataParallel(_net(), broadcast_buffers=by_all)
        optimizer = lt.optim.SGD(ddp.parameters(), lr=0.1)
        with ddp.join(divide_by_initial_world_size=by_all):
            for step in range(numbers[rank]):
                optimizer.zero_grad()
                x, y = _batch(rank, step)
                nn.functional.mse_loss(ddp(x), y).backward()
                optimizer.step()
        whole = _whole(numbers, by_all)
        for found, one in zip(ddp.parameters(), whole.parameters(), strict=True):
            np.testing.assert_allclose(found.detach().numpy(), one.detach().numpy(), rtol=1e-9)
        rows = dist.functional.all_gather(ddp.module.get_buffer("1.running_mean"))
        assert bool((rows == rows[0]).all())
    print("done")


def _whole(numbers: list[int], by_all: bool) -> nn.Module:
    """What one process makes of all batches."""
    net = _net()
    optimizer = lt.optim.SGD(net.parameters(), lr=0.1)
    for step in range(max(numbers)):
        ranks = [r for r, n in enumerate(numbers) if n > step]
        optimizer.zero_grad()
        for r in ranks:
            x, y = _batch(r, step)
            loss = nn.functional.mse_loss(net(x), y) / (len(numbers) if by_all else len(ranks))
            loss.backward()
        optimizer.step()
    return net


def strict_join() -> None:
    """Asked for, the first rank without a batch is an error of all."""
    dist.init(30)
    ddp = nn.parallel.DistributedDataParallel(_net())
    try:
        with ddp.join(throw_on_early_termination=True):
            for step in range(1 + dist.rank()):
                nn.functional.mse_loss(ddp(_batch(0, step)[0]), _batch(0, step)[1]).backward()
    except lt.DistributedError as error:
        assert "rank 0 has no batch any more" in str(error), error
    else:
        raise AssertionError("no error")
    dist.barrier()
    print("done")


def buckets() -> None:
    """What is measured, and so the buckets, are the same on all ranks, and gradients the same as
    in any others."""
    dist.init(60)
    slow = dist.new_group([0, dist.size() - 1])
    for group, device in ((dist.init(), "cpu"), (slow, "cpu"),
                          (dist.init(), "interpreter" if dist.rank() == 1 else "cpu"),
                          (dist.init(), "cpu")):  # which one of them has measured, and one twice
        if group.rank < 0:
            continue
        found = link.measured(group, device)
        own = lt.tensor([found.latency, found.bandwidth, found.hidden], dtype=lt.float64)
        rows = dist.functional.all_gather(own, group)
        assert bool((rows == rows[0]).all()) and found.latency > 0, rows
    wanted = _gradients(nn.parallel.DistributedDataParallel(_net(), bucket_cap_mb=1e-5))
    ddp = nn.parallel.DistributedDataParallel(_net())
    assert ddp.bucket_bytes[0] == ddp.bucket_bytes[1] > 0
    for one, other in zip(_gradients(ddp), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    print("done")
