"""Models in stages, beside the same ones whole on each rank."""
from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed.fsdp import FullyShardedDataParallel
from lazyten.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from rank_programs.alone import on_one_rank
from rank_programs.fsdp_class import counted
from rank_programs.refusals import refuse
from rank_programs.tensor_parallel import VOCABULARY, WIDTH, Block

Spec = dict[str, Any]
Array = np.ndarray[Any, Any]
SCHEDULES: dict[str, Any] = {
    "gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "bfs": ScheduleLoopedBFS,
    "interleaved": ScheduleInterleaved1F1B}
REPLICAS: dict[str, Callable[[nn.Module, dist.DeviceMesh], nn.Module]] = {
    "whole": lambda layer, mesh: nn.parallel.DistributedDataParallel(
        layer, process_group=mesh.get_group()),
    "unit": lambda layer, mesh: nn.parallel.fully_shard(layer, mesh=mesh),
    "class": lambda layer, mesh: FullyShardedDataParallel(layer, mesh.get_group())}
LIMIT = 2.0


class Two(nn.Module):
    """Gives two tensors, the first of other features, or makes one of two."""

    def __init__(self, inputs: int, outputs: int, takes: bool, gives: bool) -> None:
        super().__init__()
        self.one, self.takes, self.gives = nn.Linear(inputs, outputs), takes, gives

    def forward(self, x: lt.Tensor, y: lt.Tensor | None = None, scale: float = 1.0) -> Any:
        assert (y is not None) is self.takes
        made = self.one(x if y is None else x + y.sum(-1, keepdim=True)).tanh() * scale
        return (made, x.square()) if self.gives else made


def _layers(spec: Spec, count: int) -> list[nn.Module]:
    """A stage a rank, in float64."""
    lt.manual_seed(spec["seed"])
    random = np.random.default_rng(spec["seed"])
    if spec["model"] == "gpt":
        made: list[nn.Module] = [Block(True) for _ in range(count)]
        made[0] = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), made[0])
        made[-1] = nn.Sequential(made[-1], nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16))
    else:
        sizes = [6, *random.integers(1, 9, count - 1).tolist(), 4]
        two = spec["model"] == "two"
        made = [Two(a, b, two and i > 0, two and i < count - 1)
                for i, (a, b) in enumerate(pairwise(sizes))]
    for layer in made[:min(spec.get("frozen", 0), count - 1)]:
        layer.requires_grad_(False)
    return [layer.double() for layer in made]


def _batch(spec: Spec, random: np.random.Generator) -> tuple[lt.Tensor, lt.Tensor]:
    if spec["model"] == "gpt":
        return (lt.tensor(random.integers(0, VOCABULARY, (spec["batch"], 5))),
                lt.tensor(random.integers(0, 16, (spec["batch"], 5))))
    return (lt.tensor(random.normal(size=(spec["batch"], 6))),
            lt.tensor(random.normal(size=(spec["batch"], 4))))


def _loss(output: lt.Tensor, target: lt.Tensor) -> lt.Tensor:
    if target.dtype.is_float:
        return nn.functional.mse_loss(output, target)
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def _whole(layers: Sequence[nn.Module], x: Any) -> Any:
    for layer in layers:
        x = layer(*x) if isinstance(x, tuple) else layer(x)
    return x


def equal(specs: Sequence[Spec]) -> None:
    """Losses, gradients, results and parameters are those of one process, for each spec."""
    size = dist.init(60).size
    for spec in specs:
        apart = spec.get("replicas", 1)
        mesh = dist.init_device_mesh("cpu", (apart, size // apart), mesh_dim_names=("dp", "pp"))
        _equal(spec, mesh)
    print("done")


def _equal(spec: Spec, mesh: dist.DeviceMesh) -> None:
    size, number = mesh.size("pp"), mesh.get_local_rank("pp")
    chunks = spec.get("chunks", 1)
    layers = _layers(spec, size * chunks)
    own: Any = nn.ModuleList(copy.deepcopy(layers[number::size]))
    if spec.get("replicas", 1) > 1:
        own = nn.ModuleList([REPLICAS[spec.get("replica", "whole")](layer, mesh["dp"])
                             for layer in own])
    stages = [PipelineStage(module, number + i * size, size * chunks, group=mesh.get_group("pp"))
              for i, module in enumerate(own)]
    of = stages[0] if spec["schedule"] in ("gpipe", "1f1b") else stages
    schedule = SCHEDULES[spec["schedule"]](of, spec["count"], _loss)
    is_first, is_last = stages[0].is_first, stages[-1].is_last

    def parts(x: lt.Tensor, y: lt.Tensor) -> list[lt.Tensor]:
        rows = slice(mesh.get_local_rank("dp"), None, spec.get("replicas", 1))
        losses: list[lt.Tensor] = []
        output = schedule.step(*([x[rows]] if is_first else []), losses=losses,
                               target=y[rows] if is_last else None)
        assert (output is None) is not is_last
        return [lt.stack(losses).mean(), output] if is_last else []

    def at_once(x: lt.Tensor, y: lt.Tensor) -> list[lt.Tensor]:
        output = _whole(layers, x)
        loss = _loss(output, y)
        loss.backward()
        return [loss.detach(), output.detach()]

    with counted() as kinds:
        found = _train(spec, own, parts)
    assert kinds.count("reduce_scatter") == (3 * chunks if spec.get("replica") else 0), spec
    x, y = _batch(spec, np.random.default_rng(9))

    def whole() -> tuple[list[Array], list[list[Array]], Array]:
        wanted = _train(spec, nn.ModuleList(layers), at_once)
        return (wanted, [[p.detach().numpy() for p in layer.parameters()] for layer in layers],
                _whole(layers, x).detach().numpy())
    wanted, values, last = on_one_rank(whole)
    if is_last and spec.get("replicas", 1) == 1:
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=str(spec))
    for p, value in zip(own.parameters(), chain(*values[number::size]), strict=True):
        full = p.full_tensor() if isinstance(p, nn.parallel.ShardedParameter) else p
        np.testing.assert_allclose(full.detach().numpy(), value, rtol=1e-7, atol=1e-9,
                                   err_msg=str(spec))
    losses: list[lt.Tensor] = []
    output = schedule.eval(*([x] if is_first else []), losses=losses,
                           target=y if is_last else None)
    if is_last:
        np.testing.assert_allclose(output.numpy(), last, rtol=1e-6, atol=1e-8)
        assert len(losses) == spec["count"] and not output.requires_grad


def _train(spec: Spec, module: nn.Module, run: Callable[..., list[lt.Tensor]]) -> list[Any]:
    """What three steps give."""
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = getattr(lt.optim, spec["optimizer"])(trained, lr=0.05) if trained else None

    def step(x: lt.Tensor, y: lt.Tensor) -> list[lt.Tensor]:
        if optimizer is not None:
            optimizer.zero_grad()
        found = run(x, y)
        if optimizer is not None:
            optimizer.step()
        return found

    call: Callable[..., list[lt.Tensor]] = lt.jit(step) if spec["jit"] else step
    random = np.random.default_rng(spec["seed"])
    return [t.numpy() for _ in range(3) for t in call(*_batch(spec, random))]


def memory() -> None:
    """1F1B keeps what as many micro-batches need as there are stages: less than GPipe."""
    rank = dist.init(60).rank
    x = lt.ones(16 * 256, 32).realize()
    given: list[lt.Tensor] = [] if rank else [x]
    peaks = [lt.testing.peak_bytes(partial(_deep(kind, x), *given))
             for kind in (ScheduleGPipe, Schedule1F1B)]
    assert peaks[1] < 0.6 * peaks[0], peaks
    print("done")


def _deep(kind: Any, x: lt.Tensor) -> Callable[..., None]:
    """A jitted step of one of two stages of several layers."""
    net: nn.Sequential = nn.Sequential(*(m for _ in range(4) for m in (
        nn.Linear(32, 32), nn.Sigmoid())))
    stage = PipelineStage(net, dist.rank(), 2)
    schedule = kind(stage, 16, nn.functional.mse_loss)

    def step(*args: lt.Tensor) -> None:
        for p in net.parameters():
            p.grad = None
        schedule.step(*args, target=x if stage.is_last else None)
    return lt.jit(step)


def scaled() -> None:
    """Without scale_grads gradients are those of the sum of losses; arguments by name, on any
    stage; and gradients are added to those that are there."""
    rank, size = dist.init(20).rank, dist.size()
    spec = {"model": "mlp", "seed": 1, "batch": 8}
    x, y = _batch(spec, np.random.default_rng(0))
    found = []
    for scale in (True, False):
        net = _layers(spec, size)[rank]
        schedule = Schedule1F1B(PipelineStage(net, rank, size), 4, _loss, scale_grads=scale)
        for _ in range(2):
            schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None,
                          scale=0.5)
        found.append([p.grad.numpy() for p in net.parameters() if p.grad is not None])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a * 4, b, rtol=1e-9)
    print("done")


def refused() -> None:
    """Each mistake is named where it is made."""
    rank = dist.init(20).rank
    net = nn.Linear(3, 3)
    stage = PipelineStage(net, rank, 2)
    own = ScheduleGPipe(stage, 4, _loss)
    x = lt.ones(10, 3)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: PipelineStage(net, 1 - rank, 2), f"give {rank}"),
        (lambda: PipelineStage(net, 1 - rank, 4), f"give {rank}, {rank + 2}"),
        (lambda: PipelineStage(net, rank, 3), "give a multiple of 2"),
        (lambda: Schedule1F1B(PipelineStage(net, rank, 4), 2), "a rank has one stage, but there"),
        (lambda: ScheduleLoopedBFS([PipelineStage(net, rank, 4)], 2), "it has stages"),
        (lambda: ScheduleLoopedBFS([stage, PipelineStage(net, rank, 4)], 2), "or num_stages"),
        (lambda: ScheduleLoopedBFS(stage, 2), "give a list"),  # type: ignore[arg-type]
        (lambda: ScheduleInterleaved1F1B([stage], 5), "give a multiple of 2, as 4 is"),
        (lambda: ScheduleGPipe(stage, 0), "give 1 or more"),
        (lambda: Schedule1F1B(net, 1), "is no PipelineStage")]
    if rank == 0:
        cases.append((lambda: own.step(x), r"ScheduleGPipe on stage 0: args\[0\] has shape "
                                           r"\(10, 3\).*4 micro-batches"))
    else:
        cases += [(lambda: own.step(x), "given to the first stage alone"),
                  (lambda: own.step(), "give target="),
                  (lambda: ScheduleGPipe(stage, 4).step(target=x[:8]), "loss_fn=")]
    for call, words in cases:
        refuse(call, words)
    print("done")


def fail(case: str) -> None:
    """Train, and go wrong in the second step as `case` says."""
    world = dist.init(60)
    rank, is_last = world.rank, world.rank == world.size - 1
    stage = PipelineStage(nn.Linear(3, 3), rank, world.size,
                          input_args=lt.ones(2, 4) if case == "example" and is_last else None)
    kind = ScheduleGPipe if case == "schedules" and is_last else Schedule1F1B
    schedule = kind(stage, 4, nn.functional.mse_loss)
    for number in range(2):
        if number:
            world.job.limit = LIMIT
        x = lt.ones(12 if number and case == "shape" else 24, 3)
        if number and is_last and case == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if number and is_last and case == "sleep":
            time.sleep(60)
        if number and is_last and case == "module":
            stage.submod = nn.Linear(5, 3)
        schedule.step(*([x] if stage.is_first else []), target=x if is_last else None)
