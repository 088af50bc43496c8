"""FullyShardedDataParallel, the class, beside DistributedDataParallel of the same module."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed.fsdp import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from lazyten.distributed.fsdp import FullyShardedDataParallel as FSDP
from lazyten.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    size_based_auto_wrap_policy,
    wrap,
)
from lazyten.nn.sharded_parameter import ShardedParameter
from rank_programs.refusals import refuse


class Net(nn.Module):
    """Layers in a list, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 3)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(7, 7), nn.Tanh()) for _ in range(2)])
        self.norm = nn.BatchNorm1d(7)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = self.norm(self.first(x).tanh())
        for block in self.blocks:
            x = block(x)
        result: lt.Tensor = self.last(x)
        return result


def _net() -> Net:
    lt.manual_seed(dist.rank())  # they begin as rank 0's
    return Net().double()


POLICIES: dict[str, Any] = {
    "none": None, "classes": ModuleWrapPolicy({nn.Sequential}),
    "size": partial(size_based_auto_wrap_policy, min_num_params=50),
    "custom": CustomPolicy(lambda m: isinstance(m, nn.Linear) and {
        "sharding_strategy": ShardingStrategy.SHARD_GRAD_OP})}


def equal() -> None:
    """Losses, clipped norms, parameters and states are those of DistributedDataParallel."""
    dist.init(60)
    for number, (name, policy) in enumerate(POLICIES.items()):
        whole = nn.parallel.DistributedDataParallel(_net())
        part = FSDP(_net(), auto_wrap_policy=policy)
        assert len(FSDP.fsdp_modules(part)) == {"none": 1, "classes": 3, "size": 3,
                                                "custom": 5}[name], name
        _compared(whole, part, bool(number % 2))
    if dist.size() == 4:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "rows"))
        part = FSDP(_net(), device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD,
                    auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
        assert part.first.weight.numel() == -(-35 // 2)
        _compared(nn.parallel.DistributedDataParallel(_net()), part, True)
    print("done")


def _compared(whole: Any, part: FSDP, jit: bool) -> None:
    found, optimizer = _trained(part, part.clip_grad_norm_, jit)
    wanted, _ = _trained(whole, partial(nn.utils.clip_grad_norm_, [*whole.parameters()]), jit)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    own = part.state_dict()
    assert list(own) == list(whole.module.state_dict())
    for name, value in whole.module.named_parameters():
        np.testing.assert_allclose(own[name].numpy(), value.detach().numpy(), 1e-9, err_msg=name)
    again = FSDP(_net(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    again.load_state_dict(own)
    x = lt.ones(3, 5, dtype=lt.float64)
    np.testing.assert_allclose(again.eval()(x).detach().numpy(),
                               part.eval()(x).detach().numpy(), rtol=1e-12)
    saved = FSDP.optim_state_dict(part, optimizer)
    assert saved["state"]["first.weight"]["exp_avg"].shape == (7, 5)
    other = lt.optim.AdamW(again.parameters(), lr=0.05)
    other.load_state_dict(FSDP.optim_state_dict_to_load(again, other, saved))
    for p, q in zip(again.parameters(), part.parameters(), strict=True):
        if isinstance(q, ShardedParameter) and q.group.size == p.group.size:
            assert lt.equal(other.state[p]["exp_avg"], optimizer.state[q]["exp_avg"])


def _trained(model: nn.Module, clip: Callable[[float], lt.Tensor], jit: bool) -> Any:
    optimizer = lt.optim.AdamW(model.parameters(), lr=0.05)
    random = np.random.default_rng(0)

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        with model.no_sync():  # type: ignore[operator]
            model(x).square().mean().backward()
        loss = model(y).square().mean()
        loss.backward()
        norm = clip(0.1)
        optimizer.step()
        return lt.stack([dist.functional.all_reduce(loss.detach(), "mean"), norm.detach()])
    call = lt.jit(step) if jit else step
    found = []
    for _ in range(3):
        x, y = (lt.tensor(random.normal(size=(3 * dist.size(), 5))[dist.rank()::dist.size()])
                for _ in range(2))
        found += call(x, y).tolist()
    return found, optimizer


def held() -> None:
    """Without synchronization nothing is shared out until there is some: then as much as of one
    backward(). The same jitted function does either, as the block around its call says."""
    dist.init(60)
    for kind, jit in ((FSDP, False), (FSDP, True), (nn.parallel.fully_shard, True)):
        whole = nn.parallel.DistributedDataParallel(_net())
        part = kind(_net(), **({"auto_wrap_policy": ModuleWrapPolicy({nn.Sequential})}
                               if kind is FSDP else {}))
        for round_ in range(2):
            found, wanted = (_norms(model, jit) for model in (part, whole))
            np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9)
            units = len(FSDP.fsdp_modules(part)) or 1
            assert found[1] == [0, 0, units, 0, units, units], (found[1], round_)
    print("done")


def crossed() -> None:
    """What is held is shared out also by a backward() whose forward() came before it."""
    dist.init(60)
    kinds: tuple[Any, ...] = (nn.parallel.DistributedDataParallel, FSDP, nn.parallel.fully_shard)
    for jit, order in product((False, True), ("held first", "held last")):
        norms = [_crossed(kind(_net()), jit, order) for kind in kinds]
        for found in norms[1:]:
            np.testing.assert_allclose(found, norms[0], rtol=1e-9, err_msg=f"{jit}, {order}")
    print("done")


def _crossed(model: Any, jit: bool, order: str) -> list[float]:
    """Norms of gradients of two losses, of which one is held on each rank."""
    def both(x: lt.Tensor, y: lt.Tensor) -> None:
        losses = {}
        for held in (True, False) if order == "held first" else (False, True):
            with _without_sync(model) if held else nullcontext():
                losses[held] = model(x if held else y).square().mean()
        with _without_sync(model):
            losses[True].backward()
        losses[False].backward()
    call = lt.jit(both) if jit else both
    random, norms = np.random.default_rng(dist.rank()), []
    for _ in range(3):
        for p in model.parameters():
            p.grad = None
        call(*(lt.tensor(random.normal(size=(2, 5))) for _ in range(2)))
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1e9).item())
    return norms


class _Chosen(nn.Module):
    """One of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 2).double() for _ in range(2)])

    def forward(self, x: lt.Tensor, which: int) -> lt.Tensor:
        result: lt.Tensor = self.layers[which](x)
        return result


def unreached() -> None:
    """What is held of parameters is shared out though the next loss does not reach them."""
    dist.init(60)
    lt.manual_seed(0)
    part = FSDP(_Chosen())
    x = lt.ones(1, 3, dtype=lt.float64) * (1 + dist.rank())
    with part.no_sync():
        part(x, 0).sum().backward()
    assert all(p.grad is None for p in part.parameters())
    part(x, 1).sum().backward()
    mean = (1 + dist.size()) / 2
    with FSDP.summon_full_params(part, with_grads=True):
        for layer in part.layers:
            assert layer.weight.grad.tolist() == [[mean] * 3] * 2, layer.weight.grad
            assert layer.bias.grad.tolist() == [1, 1]
    part.zero_grad()
    part(x, 1).sum().backward()
    with FSDP.summon_full_params(part, with_grads=True):
        assert part.layers[0].weight.grad.tolist() == [[0] * 3] * 2
    print("done")


def _norms(model: nn.Module, jit: bool) -> tuple[list[float], list[int]]:
    """Norms of the gradients after each backward() that shares them out, and how many
    reduce_scatters each of all has begun."""
    def backward(x: lt.Tensor) -> None:
        model(x).square().mean().backward()

    call = lt.jit(backward) if jit else backward
    random, norms, counts = np.random.default_rng(dist.rank()), [], []
    for p in model.parameters():
        p.grad = None
    for syncs in (False, False, True, False, True, True):
        x = lt.tensor(random.normal(size=(2, 5)))
        with counted() as kinds, nullcontext() if syncs else _without_sync(model):
            call(x)
            lt.realize(*[p.grad for p in model.parameters() if p.grad is not None])
        counts.append(kinds.count("reduce_scatter"))
        if syncs:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1e9).item())
            for p in model.parameters():
                p.grad = None
    return norms, counts


@contextmanager
def _without_sync(model: Any) -> Iterator[None]:
    if hasattr(model, "no_sync"):
        with model.no_sync():
            yield
    else:
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)


@contextmanager
def counted() -> Iterator[list[str]]:
    """The kinds of the collectives that are begun."""
    kinds: list[str] = []
    start = dist.Group.start

    def counted(self: dist.Group, what: Any, *args: Any) -> Any:
        kinds.append(what.kind)
        return start(self, what, *args)
    dist.Group.start = counted  # type: ignore[method-assign]
    try:
        yield kinds
    finally:
        dist.Group.start = start  # type: ignore[method-assign]


def promises() -> None:
    """Whole parameters for a block, kinds of states, types, wrap(), and what is refused."""
    dist.init(60)
    size, rank = dist.size(), dist.rank()
    net = FSDP(_net(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    net(lt.ones(2, 5, dtype=lt.float64)).sum().backward()
    with FSDP.summon_full_params(net, with_grads=True):
        assert net.first.weight.shape == (7, 5) == net.first.weight.grad.shape
        with lt.no_grad():
            net.first.weight.fill_(2.0)
    assert net.first.weight.numel() == -(-35 // size)
    with FSDP.summon_full_params(net, writeback=False), lt.no_grad():
        assert (net.first.weight == 2.0).all().item()
        net.first.weight.zero_()
    with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
        rows = net.state_dict()
        assert rows["first.weight"].shape == (-(-35 // size),)
        net.load_state_dict(rows)
    assert (net.state_dict()["first.weight"] == 2.0).all().item()
    with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT,
                              FullStateDictConfig(offload_to_cpu=True, rank0_only=True),
                              FullOptimStateDictConfig(rank0_only=True)):
        assert bool(net.state_dict()) is (rank == 0)
    assert net.get_parameter("first.weight") is net.module.first.weight is net.first.weight
    outer = nn.Sequential(nn.Linear(5, 5).double(), FSDP(_net()))
    assert outer.state_dict()["1.last.weight"].shape == (3, 7)
    outer.load_state_dict(outer.state_dict())
    half = FSDP(nn.Linear(4, 2), mixed_precision=MixedPrecision(param_dtype=lt.bfloat16))
    assert half(lt.ones(1, 4)).dtype is lt.bfloat16 and half.weight.dtype is lt.float32
    with enable_wrap(wrapper_cls=FSDP, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP):
        inner = wrap(nn.Linear(2, 2))
    assert isinstance(inner, FSDP) and wrap(net) is net
    layers = FSDP(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), auto_wrap_policy=always_wrap_policy)
    assert len(FSDP.fsdp_modules(layers)) == 3 and layers(lt.ones(1, 2)).shape == (1, 2)
    for call, words in (
            (lambda: FSDP(net), "one already"), (lambda: FSDP(3), "is no module"),
            (lambda: FSDP(_net(), sharding_strategy=ShardingStrategy.NO_SHARD), "Distributed"),
            (lambda: FSDP(_net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD), "2 axes"),
            (lambda: FSDP(_net(), cpu_offload=CPUOffload(True)), "leave cpu_offload out")):
        refuse(call, words, lt.ArgumentError)
    print("done")
