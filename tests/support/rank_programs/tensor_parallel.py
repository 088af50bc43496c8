"""Layers that ranks share out, beside the same whole on each rank."""
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed import checkpoint
from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.distributed.tensor import Replicate, Shard
from lazyten.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from lazyten.frontend.parts import placement_of
from lazyten.nn.sharded_parameter import SplitParameter
from rank_programs.alone import on_one_rank
from rank_programs.refusals import refuse

Spec = dict[str, Any]
Array = np.ndarray[Any, Any]
Plan = dict[str, ColwiseParallel | RowwiseParallel | SequenceParallel]
VOCABULARY, WIDTH, HEADS, LENGTH = 11, 8, 4, 5


class Block(nn.Module):
    """A block of a transformer, of as many heads as its layers give."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH, bias) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 12, bias), nn.Linear(12, WIDTH, bias)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        y = self.norms[0](x)
        q, k, v = (layer(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def _made(spec: Spec) -> tuple[nn.Module, Plan]:
    """A model of texts in float64, and how ranks share it out."""
    lt.manual_seed(spec["seed"] if dist.rank() == 0 else 99)  # values are those of rank 0
    words = nn.Embedding(VOCABULARY, WIDTH, spec.get("padding"))
    head = nn.Linear(WIDTH, 16, spec["bias"])
    plan: Plan = {"0": _embedding(spec["words"])}
    if spec["model"] == "block":
        net = nn.Sequential(words, Block(spec["bias"]), nn.LayerNorm(WIDTH), head)
        plan |= {f"1.{name}": ColwiseParallel() for name in ("query", "key", "value", "up")}
        plan |= {"*.out": RowwiseParallel(), "*.down": RowwiseParallel()}
    else:
        net = nn.Sequential(words, nn.Linear(WIDTH, 12, spec["bias"]), nn.Tanh(),
                            nn.Linear(12, 8, spec["bias"]), nn.GELU(), head)
        plan |= _mlp(spec["layouts"])
    plan[str(len(net) - 1)] = {
        "columns": ColwiseParallel(output_layouts=Replicate()),
        "rows": RowwiseParallel(input_layouts=Replicate())}[spec["head"]]
    if spec.get("sequences"):
        plan = _of_sequences()
    made: nn.Module = net.double()
    return made, plan


def _of_sequences() -> Plan:
    """A plan for a block, of which each rank has a part of the sequences between layers."""
    cut = Shard(1)
    plan: Plan = {"0": RowwiseParallel(output_layouts=cut), "2": SequenceParallel(),
                  "1.norms.*": SequenceParallel(),
                  "3": ColwiseParallel(input_layouts=cut, output_layouts=Replicate())}
    plan |= {f"1.{name}": ColwiseParallel(input_layouts=cut)
             for name in ("query", "key", "value", "up")}
    return plan | {f"1.{name}": RowwiseParallel(output_layouts=cut) for name in ("out", "down")}


def _agree(net: nn.Module, *meshes: dist.DeviceMesh) -> None:
    """Give all ranks the parameters of the first one of each line."""
    for mesh in meshes:
        if mesh.size() > 1:
            dist.in_place.become_as(list(net.parameters()), mesh.get_group())


def _embedding(kind: str) -> ColwiseParallel | RowwiseParallel:
    return RowwiseParallel() if kind == "rows" else ColwiseParallel(output_layouts=Replicate())


def _mlp(layouts: str) -> Plan:
    last = Shard(-1)
    return {"pair": {"1": ColwiseParallel(), "3": RowwiseParallel()},
            "apart": {"1": RowwiseParallel(input_layouts=Replicate()),
                      "3": ColwiseParallel(output_layouts=Replicate())},
            "scattered": {"1": RowwiseParallel(input_layouts=Replicate(), output_layouts=last),
                          "3": RowwiseParallel()},
            "joined": {"1": ColwiseParallel(),
                       "3": ColwiseParallel(input_layouts=last, output_layouts=Replicate())},
            "one": {"3": RowwiseParallel(input_layouts=Replicate())}}[layouts]


def equal(specs: Sequence[Spec]) -> None:
    """Losses, gradients, norms and parameters are those of one rank."""
    size = dist.init(60).size
    for spec in specs:
        apart = spec.get("batches", 1)
        names = ("dp", "tp")
        mesh = dist.init_device_mesh("cpu", (apart, size // apart), mesh_dim_names=names)
        net, plan = _made(spec)
        _agree(net, mesh["tp"], mesh["dp"])
        whole = copy.deepcopy(net)
        shared = parallelize_module(net, mesh["tp"], plan)
        model = nn.parallel.DistributedDataParallel(shared, process_group=mesh.get_group("dp"))
        wanted, values = on_one_rank(lambda spec=spec, whole=whole: (  # type: ignore[misc]
            _train(spec, whole, slice(None)), _values(whole)))
        found = _train(spec, model, slice(mesh.get_local_rank("dp"), None, apart))
        if apart > 1:
            found = [dist.functional.all_reduce(lt.tensor(x, dtype=lt.float64), "mean",
                                                mesh.get_group("dp")).item()
                     for x in found]
        np.testing.assert_allclose(found, wanted, rtol=1e-7, err_msg=str(spec))
        for p, pair in zip(shared.parameters(), values, strict=True):
            for a, b in zip((p.detach(), p.grad), pair, strict=True):
                assert a is not None
                # Adam takes what rounding leaves of a gradient of 0 over eps, 1e-8, times lr.
                np.testing.assert_allclose(a.numpy(), _own(b, p), rtol=1e-7, atol=1e-8,
                                           err_msg=str(spec))
        parts = [p for p in shared.parameters() if placement_of(p).whole_shape != p.shape]
        assert parts or mesh.size("tp") == 1
    print("done")


def _values(net: nn.Module) -> list[tuple[Array, Array]]:
    """Parameters and their gradients."""
    pairs = []
    for p in net.parameters():
        assert p.grad is not None
        pairs.append((p.detach().numpy(), p.grad.numpy()))
    return pairs


def _own(whole: Array, p: lt.Tensor) -> Array:
    """A rank's part of what a parameter is, or its gradient."""
    box = placement_of(p).pieces[0].box
    return whole[tuple(slice(a, a + n) for a, n in zip(box.offsets, box.sizes, strict=True))]


def _train(spec: Spec, model: nn.Module, rows: slice) -> list[float]:
    """Losses and norms of some steps."""
    kind, found = getattr(lt.optim, spec.get("optimizer", "AdamW")), []
    optimizer = kind(model.parameters(), lr=0.05)
    random = np.random.default_rng(spec["seed"])

    def step(x: lt.Tensor, y: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach(), norm

    call: Callable[..., Any] = lt.jit(step) if spec["jit"] else step
    for _ in range(3):
        shape = 4, spec.get("sequences") or LENGTH
        x, y = random.integers(0, VOCABULARY, shape), random.integers(0, 16, shape)
        found += [t.item() for t in call(lt.tensor(x[rows]), lt.tensor(y[rows]))]
    return found


SPEC = {"model": "block", "words": "rows", "head": "columns", "bias": True, "seed": 3,
        "layouts": "pair", "jit": False}


def saving(folder: str) -> None:
    """A checkpoint of layers that are shared out is read whole, and one of whole layers by ranks
    that share them out: parameters, and the optimizer's states."""
    mesh = dist.init_device_mesh("cpu", (dist.init(60).size,))
    net, plan = _made(SPEC)
    _agree(net, mesh)
    optimizer = lt.optim.Adam(net.parameters(), lr=0.05)
    (net(lt.arange(10).reshape(2, 5)) ** 2).sum().backward()
    optimizer.step()
    state: dict[str, Any] = {"model": net, "optimizer": optimizer}
    for kind in ("whole", "shared", "whole"):
        checkpoint.save(state, checkpoint_id=f"{folder}/{kind}")
        again, plan = _made(SPEC)
        if kind == "whole":
            parallelize_module(again, mesh, plan)
        other = lt.optim.Adam(again.parameters(), lr=1.0)
        state = {"model": again, "optimizer": other}
        checkpoint.load(state, checkpoint_id=f"{folder}/{kind}")
        for p, q in zip(again.parameters(), net.parameters(), strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), _own(q.detach().numpy(), p))
            if isinstance(p, SplitParameter) and not isinstance(q, SplitParameter):
                np.testing.assert_array_equal(p.full_tensor().detach().numpy(), q.detach().numpy())
            for key in ("exp_avg", "exp_avg_sq"):
                np.testing.assert_array_equal(other.state[p][key].numpy(),
                                              _own(optimizer.state[q][key].numpy(), p))
            assert other.state[p]["step"] == optimizer.state[q]["step"]
    print("done")


def promises() -> None:
    """Second gradients; an infinite gradient of one rank's part; a state shared out besides; what
    is refused."""
    size = dist.init(60).size
    mesh = dist.init_device_mesh("cpu", (size,))
    net, plan = _made(SPEC)
    _agree(net, mesh)
    whole = copy.deepcopy(net)
    shared = parallelize_module(net, mesh, plan)
    norms = []
    for model in (whole, shared):
        x = model[0](lt.arange(10).reshape(2, 5)).detach().requires_grad_()
        y = model[3](model[1](x)).square().sum()
        g, = lt.autograd.grad(y, x, create_graph=True)
        g.square().sum().backward()
        assert x.grad is not None
        norms.append((x.grad.numpy(), nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()))
    np.testing.assert_allclose(norms[0][0], norms[1][0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(norms[0][1], norms[1][1], rtol=1e-8)
    scaler = lt.amp.GradScaler("cpu", init_scale=2.0)
    own = [dist.new_group([rank]) for rank in range(size)][dist.rank()]
    optimizer = ZeroRedundancyOptimizer(shared.parameters(), lt.optim.SGD, lr=0.1,
                                        process_group=own)
    for p in shared.parameters():
        p.grad = lt.ones_like(p)
    if dist.rank() == size - 1:
        shared[1].up.weight.grad[0, 0] = math.inf
    before = shared[2].weight.detach().clone()
    scaler.step(optimizer)
    assert bool((shared[2].weight == before).all())
    for call, words in (
            (lambda: parallelize_module(nn.Linear(4, 2 * size + 1), mesh, ColwiseParallel()),
             "axis 0 of the weight has size"),
            (lambda: parallelize_module(shared, mesh, plan), "is not known"),
            (lambda: nn.parallel.DistributedDataParallel(shared), "give process_group="),
            (lambda: ZeroRedundancyOptimizer(shared.parameters(), lt.optim.SGD, lr=0.1),
             "give process_group="),
            (lambda: lt.optim.LAMB(shared.parameters()), "shared out among ranks"),
            (lambda: nn.parallel.fully_shard(shared), "shared out parameters"),
            (lambda: shared[1].down(lt.ones(3, 12).double()), "one of .* parts, of size")):
        refuse(call, words)
    print("done")
