"""Training by several ranks, each with a part of every batch, and by one with the whole."""
from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.utils.data import DistributedSampler

Array = np.ndarray[Any, Any]
Spec = dict[str, Any]
STEPS = 4


def losses(specs: Sequence[Spec], deterministic: bool = False) -> None:
    """Prints for each model the mean losses of some steps, and the sum of its parameters."""
    dist.init(60, deterministic)
    found = [trained(spec) for spec in specs]
    if dist.rank() == 0:
        print(json.dumps(found))


def trained(spec: Spec) -> list[float]:
    """The losses of a model, in float64: eagerly or jitted."""
    rank, size = dist.rank(), dist.size()
    lt.manual_seed(0 if rank == 0 else 99)  # parameters are those of rank 0
    model, inputs, labels = _task(spec, np.random.default_rng(spec.get("seed", 0)))
    model = _shared(spec, nn.SyncBatchNorm.convert_sync_batchnorm(model.double()))
    optimizer = _optimizer(spec, model)
    pieces = spec.get("accumulate", 1)

    def part(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        output = model(x)
        loss = nn.functional.cross_entropy(output.flatten(0, -2), y.flatten()) / pieces
        loss.backward()
        return loss.detach()

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        total = lt.zeros((), dtype=lt.float64)
        for number, (a, b) in enumerate(zip(x.chunk(pieces), y.chunk(pieces), strict=True)):
            if number < pieces - 1 and "shard" not in spec:
                with model.no_sync():
                    total = total + part(a, b)
            else:
                total = total + part(a, b)
        optimizer.step()
        return dist.functional.all_reduce(total, "mean")

    call = lt.jit(step) if spec.get("jit") else step
    found = [call(lt.tensor(x[rank::size]), lt.tensor(y[rank::size]))
             for x, y in zip(inputs, labels, strict=True)]
    wholes = [p.full_tensor() if isinstance(p, nn.parallel.ShardedParameter) else p
              for p in model.parameters()]
    every = np.concatenate([p.detach().numpy().ravel() for p in wholes])
    rows = dist.functional.all_gather(lt.tensor(every)).numpy()
    assert (rows == rows[0]).all(), "parameters differ"  # which are the same bits on all ranks
    return [x.item() for x in found] + [every.sum().item()]


def _shared(spec: Spec, model: nn.Module) -> Any:
    """The module as all ranks train it."""
    if "shard" not in spec:
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=spec.get("bucket_mb", 25))
    inner = [m for m in model.modules() if m is not model and len(list(m.children())) > 1
             and type(m).forward is not nn.Module.forward]
    for part in inner[::-1] if spec["shard"] == "layers" else ():
        nn.parallel.fully_shard(part)
    return nn.parallel.fully_shard(model, reshard_after_forward=spec.get("reshards", True))


def _optimizer(spec: Spec, model: nn.Module) -> lt.optim.Optimizer:
    kind = getattr(lt.optim, spec.get("optimizer", "SGD"))
    if spec.get("zero"):
        return ZeroRedundancyOptimizer(model.parameters(), kind, lr=0.05)
    made: lt.optim.Optimizer = kind(model.parameters(), lr=0.05)
    return made


def _task(spec: Spec, random: np.random.Generator) -> tuple[nn.Module, Array, Array]:
    """A model, and batches of inputs and labels."""
    batch = spec.get("batch", 8)
    if spec["model"] == "lenet":
        from lenet_steps import lenet
        return (lenet(nn), random.normal(size=(STEPS, batch, 1, 28, 28)),
                random.integers(0, 10, (STEPS, batch)))
    if spec["model"] == "gpt":
        sys.path.append(str(Path(__file__).parents[3] / "examples"))
        from gpt_model import GPT, Shape
        texts = random.integers(0, 11, (STEPS, batch, 9))
        return GPT(Shape(11, 8, 2, 2, 16)), texts[..., :-1], texts[..., 1:]
    sizes = [6, *spec["widths"], 4]
    layers: list[nn.Module] = []
    for number, (a, b) in enumerate(pairwise(sizes)):
        kind = spec["layers"][number % len(spec["layers"])]
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b)] if kind == "norm" else \
            [nn.Linear(a, b), getattr(nn, kind)()]
    return (nn.Sequential(*layers), random.normal(size=(STEPS, batch, 6)),
            random.integers(0, 4, (STEPS, batch)))


def unused() -> None:
    """A parameter that the loss does not reach is named, or counts as zeros."""
    dist.init(20)
    net = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    ddp = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    net["a"](lt.ones(1, 2)).sum().backward()
    assert net["b"].weight.grad is not None and not net["b"].weight.grad.any().item()
    assert ddp.find_unused_parameters
    own = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    kept = nn.parallel.DistributedDataParallel(own)
    try:
        own["a"](lt.ones(1, 2)).sum().backward()
    except lt.GradientError as error:
        assert "b.weight" in str(error) and kept is not None
    else:
        raise AssertionError("a parameter without a gradient was not noticed")
    print("done")


def halves() -> None:
    """Parameters of 16 bits, and several types in one module, are averaged, too."""
    dist.init(20)
    net = nn.Sequential(nn.Linear(2, 3).bfloat16(), nn.Linear(2, 3), nn.Linear(2, 3).double())
    ddp = nn.parallel.DistributedDataParallel(net)
    total = sum(layer(lt.full((1, 2), 1.0 + dist.rank(), dtype=layer.weight.dtype)).double().sum()
                for layer in net)
    assert isinstance(total, lt.Tensor)
    total.backward()
    for p in ddp.parameters():
        wanted = (1 + dist.size()) / 2 if p.ndim == 2 else 1.0
        assert p.grad is not None and (p.grad == wanted).all().item() and p.grad.dtype is p.dtype
    print("done")


def buffers() -> None:
    """Buffers become those of rank 0 before each forward pass in training, unless told not to."""
    dist.init(20)
    rank = dist.rank()
    for shared in (True, False):
        net = nn.BatchNorm1d(2)
        ddp = nn.parallel.DistributedDataParallel(net, broadcast_buffers=shared)
        for _ in range(3):
            ddp(lt.full((4, 2), 1.0 + rank) * lt.tensor([[1.0], [2.0], [3.0], [4.0]]))
        assert net.running_mean is not None
        rows = dist.functional.all_gather(net.running_mean)
        before = dist.functional.all_gather(net.running_mean * 0 + rank)
        assert bool((before[:, 0] == lt.arange(dist.size())).all())
        apart = (rows[1] - rows[0]).abs().max().item()
        assert (apart < 0.3) is shared, (shared, apart)  # of the last step alone
    print("done")


def sampler() -> None:
    """Each rank has its own examples, and all of them are seen."""
    dist.init(20)
    own = DistributedSampler(range(10), seed=3)
    seen = lt.tensor(list(own))
    rows = dist.functional.all_gather(seen).flatten().tolist()
    assert set(rows) == set(range(10)) and len(own) == -(-10 // dist.size())
    print("done")


def uneven_norm() -> None:
    """SyncBatchNorm of batches of different sizes is BatchNorm of the whole batch, with its
    gradients and running statistics."""
    dist.init(20)
    rank, size = dist.rank(), dist.size()
    random = np.random.default_rng(0)
    parts = [random.normal(size=(2 + r, 3, 2)) for r in range(size)]
    own, whole = nn.SyncBatchNorm(3).double(), nn.BatchNorm1d(3).double()
    x = lt.tensor(parts[rank], requires_grad=True)
    every = lt.tensor(np.concatenate(parts), requires_grad=True)
    found, wanted = own(x), whole(every)
    start = sum(len(p) for p in parts[:rank])
    place = slice(start, start + len(parts[rank]))
    (found ** 3).sum().backward()
    (wanted ** 3).sum().backward()
    assert x.grad is not None and every.grad is not None
    for a, b in ((found, wanted[place]), (x.grad, every.grad[place]),
                 (own.running_mean, whole.running_mean), (own.running_var, whole.running_var)):
        assert a is not None and b is not None
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
    print("done")
