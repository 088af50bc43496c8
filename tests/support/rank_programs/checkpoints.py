"""Checkpoints that several ranks write and read, of modules and optimizers of each kind."""
from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed import checkpoint
from lazyten.distributed.checkpoint import folders, saving
from lazyten.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.distributed.tensor import Shard, distribute_module, distribute_tensor
from lazyten.distributed.tensor.experimental import implicit_replication
from lazyten.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from lazyten.frontend.parts import placement_of
from lazyten.nn.parallel import DistributedDataParallel, ShardedParameter, fully_shard
from lazyten.nn.sharded_parameter import row_of
from lazyten.saving.serialization import Opened

KINDS = ["ddp", "zero", "shard"]
STEPS = 3


def _net() -> nn.Sequential:
    """Of parameters whose sizes no number of ranks divides, of several types, and buffers."""
    lt.manual_seed(0)
    parts = [nn.Linear(5, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 7).double(),
             nn.Embedding(3, 1, dtype=lt.bfloat16)]
    net: nn.Sequential = nn.Sequential(*parts)
    net.register_parameter("scale", nn.Parameter(lt.tensor(1.5)))
    return net


def _made(kind: str) -> tuple[nn.Module, lt.optim.Optimizer]:
    net = _net()
    if kind == "plain":
        return net, lt.optim.Adam(net.parameters(), lr=0.1)
    if kind == "shard":
        fully_shard(net[0])
        return net, lt.optim.Adam(fully_shard(net).parameters(), lr=0.1)
    ddp = DistributedDataParallel(net)
    return ddp, lt.optim.Adam(net.parameters(), lr=0.1) if kind == "ddp" else \
        ZeroRedundancyOptimizer(net.parameters(), lt.optim.Adam, lr=0.1)


def _go(net: nn.Module, optimizer: lt.optim.Optimizer, first: int, steps: int) -> None:
    """Steps with gradients that depend on an element's place alone, so of the same bits in each
    kind."""
    for number in range(first, first + steps):
        for p in net.parameters():
            shape = p.whole_shape if isinstance(p, ShardedParameter) else tuple(p.shape)
            whole = (lt.arange(int(np.prod(shape))) * 0.7 + number).sin().reshape(shape)
            g = row_of(whole, p.group.rank, p.group.size) if isinstance(p, ShardedParameter) \
                else whole
            p.grad = g.to(dtype=p.dtype)
        optimizer.step()


def _state(net: nn.Module, optimizer: lt.optim.Optimizer) -> dict[str, Any]:
    scheduler = lt.optim.lr_scheduler.StepLR(optimizer, 2)
    return {"model": net, "optimizer": optimizer, "scheduler": scheduler,
            "here": {"epoch": 7, "loss": 0.25, "list": [lt.arange(3), "text"]}}


def save_all(folder: str) -> None:
    """Write a checkpoint of each kind."""
    dist.init(60)
    for kind in KINDS:
        net, optimizer = _made(kind)
        _go(net, optimizer, 0, STEPS)
        buffer = net.module[1].running_mean if kind != "shard" else net[1].running_mean
        buffer.copy_(lt.arange(3.0))
        checkpoint.save(_state(net, optimizer), checkpoint_id=f"{folder}/{kind}-{dist.size()}")
    print("done")


def load_all(folder: str, sizes: list[int]) -> None:
    """Read each of these checkpoints into each kind, and go on: bits are as of one process."""
    dist.init(60)
    whole, plain = _made("plain")
    _go(whole, plain, 0, STEPS)
    for written in KINDS:
        for size in sizes:
            for kind in KINDS:
                net, optimizer = _made(kind)
                state = _state(net, optimizer)
                state["here"] = {"epoch": 0, "loss": 0, "list": [lt.zeros(3, dtype=lt.int64), ""]}
                checkpoint.load(state, checkpoint_id=f"{folder}/{written}-{size}")
                assert state["here"]["epoch"] == 7 and state["here"]["loss"] == 0.25
                assert state["here"]["list"][0].tolist() == [0, 1, 2]
                assert state["here"]["list"][1] == "text"
                _check(net, optimizer, whole, plain)
    _go(net, optimizer, STEPS, 2)
    _go(whole, plain, STEPS, 2)
    _check(net, optimizer, whole, plain)
    print("done")


def _check(net: nn.Module, optimizer: lt.optim.Optimizer, whole: nn.Module,
           plain: lt.optim.Optimizer) -> None:
    pairs = list(zip(net.parameters(), whole.parameters(), strict=True))
    owns = [p in optimizer.state for p, _ in pairs]
    assert any(owns) and (all(owns) or isinstance(optimizer, ZeroRedundancyOptimizer))
    for p, q in pairs:
        _check_part(p, q, p)
        for key, value in optimizer.state[p].items() if p in optimizer.state else ():
            if isinstance(value, lt.Tensor):
                _check_part(value, plain.state[q][key], p)
            else:
                assert value == plain.state[q][key]
    buffers = dict(net.named_buffers())
    (mean,) = (b for name, b in buffers.items() if name.endswith("1.running_mean"))
    assert mean.tolist() == [0.0, 1.0, 2.0]


def _check_part(found: lt.Tensor, wanted: lt.Tensor, p: lt.Tensor) -> None:
    values, others, count = found.detach().numpy(), wanted.detach().numpy(), None
    if isinstance(p, ShardedParameter) and found.shape == p.shape:
        count = sum(piece.box.count for piece in p.placement.pieces)  # the rest is nobody's
        others = row_of(wanted, p.group.rank, p.group.size).numpy()
    assert found.dtype is wanted.dtype and values.shape == others.shape
    np.testing.assert_array_equal(values.reshape(-1)[:count], others.reshape(-1)[:count])


def own_files(folder: str) -> None:
    """Ranks as many as before read their own files alone."""
    dist.init(60)
    net = fully_shard(nn.Linear(6, 4, bias=False))
    checkpoint.save({"net": net}, checkpoint_id=folder)
    opened: list[str] = []
    begin = Opened.__init__

    def noted(self: Opened, path: Path, operation: str) -> None:
        opened.append(path.name)
        begin(self, path, operation)
    Opened.__init__ = noted  # type: ignore[method-assign]
    checkpoint.load({"net": net.state_dict()}, checkpoint_id=folder)
    assert opened == [f"0-{dist.rank()}.safetensors"], opened
    assert placement_of(net.state_dict()["weight"]).whole_shape == (4, 6)
    print("done")


def agreed(folder: str) -> None:
    """What one rank finds wrong is an error on all, and nothing has changed on any."""
    dist.init(60)
    odd, x = dist.rank() == 1, lt.zeros(3)
    cases = [("save", {"x": object() if odd else x}, "object"),
             ("save", {"x": lt.zeros(4) if odd else x}, "ranks? 0.*rank 1"),
             ("save", {"x": 1 if odd else x}, "other data")]
    for case, state, words in cases:
        _must_fail(case, state, folder, words)
    assert not Path(folder).exists()
    checkpoint.save({"x": lt.ones(3)}, checkpoint_id=folder)
    _must_fail("load", {"x": x, **({"y": x} if odd else {})}, folder, "y")
    _must_fail("load", {"x": lt.zeros(2) if odd else x}, folder, "another shape")
    assert x.tolist() == [0.0] * 3
    print("done")


def _must_fail(case: str, state: dict[str, Any], folder: str, words: str) -> None:
    import re
    try:
        getattr(checkpoint, case)(state, checkpoint_id=folder)
    except lt.LazytenError as error:
        assert re.search(words, str(error)), error
        assert not isinstance(error, lt.DistributedError) or "rank 1 has failed" in str(error)
    else:
        raise AssertionError(f"no error that says {words}")


# ---- jobs that are killed ------------------------------------------------------------------------

def train(folder: str, kind: str, steps: int, kill_at: int = -1, place: str = "step") -> None:
    """Train from the last checkpoint on, and write one after every second step. Rank 1 is killed at
    a step: before it, as it writes its file, or before the new checkpoint takes its place. Prints
    the number of each step and its loss."""
    dist.init(60, deterministic=True)
    lt.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    model: Any = fully_shard(net) if kind == "shard" else DistributedDataParallel(net)
    optimizer = ZeroRedundancyOptimizer(net.parameters(), lt.optim.Adam, lr=0.05) \
        if kind == "zero" else lt.optim.Adam(net.parameters(), lr=0.05)

    @lt.jit
    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return dist.functional.all_reduce(loss.detach(), "mean")

    state = {"model": model, "optimizer": optimizer, "step": 0}
    if Path(folder).exists():
        checkpoint.load(state, checkpoint_id=folder)
    for number in range(state["step"], steps):
        if number == kill_at:
            _kill_in(place)
        random = np.random.default_rng(number)
        own = slice(dist.rank(), None, dist.size())
        x = lt.tensor(random.normal(size=(8, 6)).astype(np.float32)[own])
        loss = step(x, lt.tensor(random.integers(0, 3, 8)[own]))
        if dist.rank() == 0:
            print(json.dumps([number, loss.item().hex()]), flush=True)
        if number % 2:
            state["step"] = number + 1
            checkpoint.save(state, checkpoint_id=folder)


def _kill_in(place: str) -> None:
    def kill(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
    if place == "step" and dist.rank() == 1:
        kill()
    if place == "file" and dist.rank() == 1:
        saving.write_arrays = kill
    if place == "index" and dist.rank() == 0:
        folders.flush = kill
    if place in ("before", "after") and dist.rank() == 0:
        replace = Path.replace

        def killing(self: Path, target: Path) -> Path:
            if self.name != "index.json" or place == "after":
                replace(self, target)
            if self.name == "index.json":
                kill()
            return target
        Path.replace = killing  # type: ignore[assignment, method-assign]


def by_names() -> None:
    """States by name: whole, or in parts, of what is shared out in each way; from rank 0 to all."""
    mesh = dist.init_device_mesh("cpu", (dist.init(60).size,))
    ways: list[Callable[[nn.Module], nn.Module]] = [
        DistributedDataParallel, fully_shard,
        lambda net: parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}),
        lambda net: distribute_module(net, mesh, _rows)]
    for shared in ways:
        (net, optimizer), (other, after) = (_learnt(shared, steps) for steps in (2, 0))
        for options in (StateDictOptions(), StateDictOptions(full_state_dict=True),
                        StateDictOptions(full_state_dict=True, cpu_offload=True,
                                         broadcast_from_rank0=True)):
            saved = get_state_dict(net, optimizer, options=options)
            if options.full_state_dict and (dist.rank() == 0 or not options.cpu_offload):
                assert {n: v.shape for n, v in saved[0].items()} == {
                    n: v.shape for n, v in _small().state_dict().items()}
                assert list(saved[1]["state"]) == list(saved[0]) == [
                    name for group in saved[1]["param_groups"] for name in group["params"]]
                assert saved[1]["state"]["0.weight"]["exp_avg"].shape == (8, 4)
            elif options.cpu_offload:
                assert saved == ({}, {})
            set_state_dict(other, after, model_state_dict=saved[0], optim_state_dict=saved[1],
                           options=options)
            for found, wanted in zip((*other.parameters(), *_tensors(after)),
                                     (*net.parameters(), *_tensors(optimizer)), strict=True):
                np.testing.assert_array_equal(found.detach().numpy(), wanted.detach().numpy())
            other, after = _learnt(shared, 0)
    print("done")


def _small() -> nn.Sequential:
    lt.manual_seed(0)
    made: nn.Sequential = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    return made


def _rows(name: str, module: nn.Module, mesh: dist.DeviceMesh) -> None:
    if isinstance(module, nn.Linear):
        module.weight = nn.Parameter(distribute_tensor(module.weight, mesh, [Shard(0)]))


def _learnt(shared: Callable[[nn.Module], nn.Module], steps: int
            ) -> tuple[nn.Module, lt.optim.Optimizer]:
    net = shared(_small())
    optimizer = lt.optim.Adam(net.parameters(), lr=0.1)
    for number in range(steps):
        with implicit_replication():
            net(lt.arange(8.0).reshape(2, 4) + number).square().mean().backward()
        optimizer.step()
    return net, optimizer


def _tensors(optimizer: lt.optim.Optimizer) -> list[lt.Tensor]:
    return [v for values in optimizer.state.values() for v in values.values()
            if isinstance(v, lt.Tensor)]
