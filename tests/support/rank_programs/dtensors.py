"""DTensors beside tensors that each rank has whole."""
from __future__ import annotations

import copy
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from lazyten.distributed import DeviceMesh, checkpoint, init_device_mesh
from lazyten.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    zeros,
)
from lazyten.distributed.tensor.experimental import implicit_replication
from lazyten.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from rank_programs.alone import on_one_rank
from rank_programs.refusals import refuse

F = nn.functional
SHAPES = (4, 8), (5, 6), (3, 4), (1, 2)
OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x * y + 1, lambda x, y: (x @ y.T) @ y, lambda x, y: x.softmax(1),
    lambda x, y: x - y.mean(0), lambda x, y: y.sum(1, keepdim=True) * x, lambda x, y: x.flip(0),
    lambda x, y: x.reshape(x.shape[::-1]).T.reshape(x.shape) + y,
    lambda x, y: lt.cat([x[:2], y[2:]]), lambda x, y: F.layer_norm(x, x.shape[1:]),
    lambda x, y: lt.where(x > y, x, y * 2),
    lambda x, y: x.unflatten(1, (-1, 2)).transpose(0, 1).flatten(1).tanh().reshape(x.shape),
    lambda x, y: x.cumsum(0), lambda x, y: x.roll(1, 0) * y, lambda x, y: x.amax(0) - y.exp(),
    lambda x, y: x[:1].expand_as(y) / (1 + y * y), lambda x, y: x / x.norm(dim=0),
    lambda x, y: x.take_along_dim(y.argsort(0), 0)]


def _meshes() -> list[DeviceMesh]:
    size = dist.init(60).size
    shapes = [(size,), (2, size // 2)] if size > 2 else [(size,), (1, size)]
    return [init_device_mesh("cpu", s, mesh_dim_names=("a", "b")[:len(s)]) for s in shapes]


def random_programs(seeds: list[int]) -> None:
    """Some operations of values that lie in random ways: results, parts, and gradients."""
    meshes = _meshes()
    for seed in seeds:
        for mesh in meshes:
            _program(random.Random(seed), mesh)
    print("done")


def _program(choose: random.Random, mesh: DeviceMesh) -> None:
    places: list[Placement] = [Shard(0), Shard(1), Shard(-1), Replicate()]
    shape = choose.choice(SHAPES)
    values = [np.random.default_rng(choose.randrange(99)).normal(size=shape) for _ in range(2)]
    steps = [choose.randrange(len(OPERATIONS)) for _ in range(3)]
    cut = choose.randrange(mesh.ndim)
    lies = [[choose.choice(places) if axis == cut else Replicate() for axis in range(mesh.ndim)]
            for _ in values]
    results = []
    for is_distributed in (True, False):
        leaves = [lt.tensor(v, requires_grad=True) for v in values]
        given: list[Any] = [distribute_tensor(x, mesh, p) for x, p in zip(leaves, lies, strict=True)
                            ] if is_distributed else leaves
        x, y = given
        for step in steps:
            x, y = OPERATIONS[step](x, y), x
        loss = (x * x).mean() + y.sum()
        loss.backward()
        results.append((given, x, loss))
    (own, found, loss), (leaves, wanted, total) = results
    close = {"rtol": 1e-9, "atol": 1e-11, "err_msg": f"{shape} {steps} {lies} {mesh.shape}"}
    np.testing.assert_allclose(loss.item(), total.item(), **close)
    spread = found.placements
    np.testing.assert_allclose(found.to_local().detach().numpy(),
                               _part(wanted.detach().numpy(), mesh, spread), **close)
    np.testing.assert_allclose(found.detach().full_tensor().numpy(), wanted.detach().numpy(),
                               **close)
    for one, leaf, p in zip(own, leaves, lies, strict=True):
        if leaf.grad is None:
            assert one.grad is None
            continue
        assert one.grad.to_local().shape == one.to_local().shape
        np.testing.assert_allclose(one.grad.to_local().numpy(), _part(leaf.grad.numpy(), mesh, p),
                                   **close)
        np.testing.assert_allclose(one.grad.numpy(), leaf.grad.numpy(), **close)


def _part(whole: Any, mesh: DeviceMesh, lies: Any) -> Any:
    for axis, p in enumerate(lies):
        if isinstance(p, Shard):
            most = -(-whole.shape[p.dim] // mesh.size(axis))
            ends = [most * (i + 1) for i in range(mesh.size(axis) - 1)]
            whole = np.split(whole, ends, p.dim)[mesh.get_local_rank(axis)]
    return whole


def promises() -> None:
    """What holds of DTensors, one thing after the other."""
    for program in (storing, uneven, looks, arguments):
        program()
    print("done")


def storing() -> None:
    """Parts are what is stored and written; two axes of a mesh share one axis out; placements."""
    mesh, grid = _meshes()
    rank, size = dist.rank(), dist.size()
    x = distribute_tensor(lt.arange(4.0 * size).reshape(size * 2, 2) + 100 * rank, mesh, [Shard(0)])
    whole = np.arange(4.0 * size).reshape(size * 2, 2)  # that of rank 0
    assert isinstance(x, DTensor) and isinstance(x, lt.Tensor) and x.shape == (size * 2, 2)
    np.testing.assert_array_equal(x.to_local().numpy(), whole[2 * rank:2 * rank + 2])
    x += 1
    x[0, 0] = -5.0
    x.mul_(2)
    whole = (whole + 1)
    whole[0, 0] = -5.0
    np.testing.assert_array_equal(x.to_local().numpy(), 2 * whole[2 * rank:2 * rank + 2])
    np.testing.assert_array_equal(x.numpy(), 2 * whole)
    assert x.placements == (Shard(0),)
    assert x.T.placements == ((Shard(1),) if size > 1 else (Replicate(),))
    assert x.sum(0).placements == (Replicate(),) and [r.shape for r in x][:1] == [(2,)]
    both = distribute_tensor(lt.arange(2 * size), grid, [Shard(0), Shard(0)])
    assert both.to_local().tolist() == [2 * rank, 2 * rank + 1]
    assert both.redistribute(placements=[Replicate(), Shard(0)]).tolist() == list(range(2 * size))
    assert (both * 2).full_tensor().tolist() == list(range(0, 4 * size, 2))
    part = lt.full((2,), 1.0 + rank, requires_grad=True)
    joined = DTensor.from_local(part, mesh, [Shard(0)])
    (joined * lt.tensor(3.0)).sum().backward()
    assert joined.shape == (2 * size,) and part.grad is not None and part.grad.tolist() == [3.0] * 2
    total = DTensor.from_local(part.detach(), mesh, [Partial()])
    assert total.tolist() == [size * (size + 1) / 2] * 2 and total.placements == (Replicate(),)
    assert zeros(size, 3, device_mesh=mesh, placements=[Shard(0)]).to_local().shape == (1, 3)
    copied = copy.deepcopy(x)
    copied.zero_()
    assert x.abs().sum().item() > 0 == copied.abs().sum().item()
    assert repr(x).startswith("DTensor(local_tensor=") and "Shard(dim=0)" in repr(x)
    for _ in range(2):  # what one rank keeps of a whole is nothing to later ones
        kept = [x.full_tensor(), x.redistribute(placements=[Replicate()]).full_tensor()]
        assert all(k.sum().item() == (2 * whole).sum() for k in kept)
        del kept[rank:]
        x.numpy()
    _refusals(x, mesh)
    dist.barrier()


def uneven() -> None:
    """Parts by PyTorch's rule for chunks: the last ranks have less, or nothing."""
    mesh, grid = _meshes()
    rank, size = dist.rank(), dist.size()
    for length in (0, 1, 2, 3, 5, 7):
        whole = lt.arange(float(length * 3)).reshape(length, 3)
        mine = [c.shape[0] for c in whole.chunk(size)] if length else []
        x = distribute_tensor(whole, mesh, [Shard(0)])
        assert x.to_local().shape == ((mine[rank] if rank < len(mine) else 0), 3)
        assert lt.equal(x.full_tensor(), whole) and x.shape == whole.shape
        assert x.redistribute(placements=[Shard(1)]).full_tensor().tolist() == whole.tolist()
        again = DTensor.from_local(x.to_local(), mesh, [Shard(0)], shape=whole.shape)
        assert again.tolist() == whole.tolist() and (again + x).sum().item() == 2 * whole.sum()
        assert (x * 2).to_local().shape == x.to_local().shape
        for made in (lambda a: a // (a - 1), lambda a: (a % 3).sum(0), lambda a: a.argmax(0)):
            if length:
                ints, plain = x.long(), whole.long()
                assert lt.equal(made(ints).full_tensor(), made(plain)), length
    even, rest = grid.shape
    both = distribute_tensor(lt.arange(even * (rest + 1)), grid, [Shard(0), Shard(0)])
    assert both.full_tensor().tolist() == list(range(even * (rest + 1)))
    if even > 1:
        try:
            distribute_tensor(lt.arange(even + 1), grid, [Shard(0), Shard(0)])
        except lt.ShapeError as error:
            assert "unevenly" in str(error)
        else:
            raise AssertionError("shared out unevenly twice")


def looks() -> None:
    """What one rank looks at of its own is no reason to compute what all of them share out."""
    mesh = _meshes()[0]
    x = distribute_tensor(lt.arange(8.0), mesh, [Shard(0)])
    for number in range(3):
        total = (x * number).sum(0)
        for _ in range(3 * dist.rank()):
            lt.ones(3).sum().item()
        assert (total + 1).full_tensor().item() == 28 * number + 1
        for _ in range(3 - dist.rank()):
            (lt.ones(3) + number).prod().item()
        assert total.full_tensor().item() == 28 * number == (total * 1).full_tensor().item()


def arguments() -> None:
    """Jitted functions take DTensors and give them, write to them, and train them."""
    mesh = _meshes()[0]

    @lt.jit(fullgraph=True)
    def step(w: Any, x: Any) -> Any:
        y = (x @ w.T).tanh()
        w -= 0.5
        return {"y": y, "sum": y.sum(0)}
    wide = np.random.default_rng(0).normal(size=(5, 3))
    w = distribute_tensor(lt.tensor(wide), mesh, [Shard(0)])
    for number in range(3):
        plain = np.random.default_rng(number).normal(size=(7, 3))
        found = step(w, distribute_tensor(lt.tensor(plain), mesh, [Replicate()]))
        wanted = np.tanh(plain @ wide.T)
        wide -= 0.5
        assert isinstance(found["y"], DTensor) and found["y"].shape == (7, 5)
        np.testing.assert_allclose(found["y"].full_tensor().numpy(), wanted, rtol=1e-9)
        np.testing.assert_allclose(found["sum"].numpy(), wanted.sum(0), rtol=1e-9)
        np.testing.assert_allclose(w.full_tensor().numpy(), wide, rtol=1e-9)

    @lt.jit(fullgraph=True)
    def slope(p: Any) -> Any:
        leaf = p.detach().requires_grad_()
        leaf.square().sum().backward()
        return leaf.grad
    for number in range(3):
        w *= number + 1
        wide *= number + 1
        found = slope(w)
        assert found.to_local().shape == w.to_local().shape
        np.testing.assert_allclose(found.full_tensor().numpy(), 2 * wide, rtol=1e-9)


def trained() -> None:
    """Layers of sizes that are no multiples learn as on one rank, and what is saved is read."""
    mesh = _meshes()[0]
    for jit, sizes in ((False, (5, 3)), (True, (2, 5))):
        def net(sizes: tuple[int, int] = sizes) -> nn.Module:
            lt.manual_seed(4)
            made: nn.Module = nn.Sequential(nn.Embedding(sizes[0], 3), nn.Linear(3, sizes[1]),
                                            nn.Tanh(), nn.Linear(sizes[1], 2)).double()
            return made
        wanted = on_one_rank(lambda net=net, words=sizes[0], jit=jit:  # type: ignore[misc]
                             _learned(net(), words, jit))
        found = _learned(distribute_module(net(), mesh, _by_rows), sizes[0], jit)
        np.testing.assert_allclose(found, wanted, rtol=1e-8, err_msg=str(sizes))


def _by_rows(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
    for own, p in list(module.named_parameters(recurse=False)):
        module.register_parameter(own, nn.Parameter(distribute_tensor(p, mesh, [Shard(0)])))


def _learned(net: nn.Module, words: int, jit: bool) -> list[float]:
    optimizer = lt.optim.AdamW(net.parameters(), lr=0.05)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        with implicit_replication():
            loss = net(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.3)
        optimizer.step()
        found = loss.full_tensor() if isinstance(loss, DTensor) else loss
        return lt.stack([found.detach(), norm])
    call = lt.jit(step) if jit else step
    found = [v for n in range(3) for v in call(lt.arange(6) * (n + 1) % words).tolist()]
    wholes = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in net.parameters()]
    return found + [p.detach().numpy().sum().item() for p in wholes]


def _refusals(x: DTensor, mesh: DeviceMesh) -> None:
    plain = lt.ones(x.shape)
    for call, words in (
            (lambda: x + plain, "whether it is a part or whole"),
            (lambda: DTensor.from_local(plain, mesh, [Shard(0)], shape=(9, 3)), "has to be of"),
            (lambda: distribute_tensor(plain, mesh, [Shard(2)]), "of 2 axes"),
            (lambda: distribute_tensor(plain, mesh, [Shard(0), Shard(1)]), "for each of its axes"),
            (lambda: distribute_tensor(plain, mesh, [Partial()]), "says nothing of a whole"),
            (lambda: distribute_tensor(plain), "init_device_mesh"),
            (lambda: lt.func.grad(lambda a: a.sum())(x), "DTensor")):
        refuse(call, words)
    with implicit_replication():
        assert (x + plain).shape == x.shape


class Net(nn.Module):
    """Words, attention, a norm and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(16, 8), nn.LayerNorm(8), nn.Linear(8, 16)
        self.attention = nn.ModuleDict({name: nn.Linear(8, 8) for name in "qkvo"})
        self.inner = Inner(self.attention)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        result: lt.Tensor = self.head(self.norm(self.inner(self.words(x))))
        return result


class Inner(nn.Module):
    """Heads of two features."""

    def __init__(self, layers: nn.ModuleDict) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        q, k, v = (self.layers[n](x).unflatten(-1, (-1, 2)).transpose(1, 2) for n in "qkv")
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        result: lt.Tensor = self.layers["o"](y)
        return result


def models() -> None:
    """Layers whose inputs are prepared, logits in parts, and modules of DTensors: losses and
    parameters of some steps are those of one rank."""
    trained()
    mesh = _meshes()[0]
    for jit in (False, True):
        wanted = on_one_rank(lambda jit=jit: _trained(_net(), jit))  # type: ignore[misc]
        for local in (True, False):
            found = _trained(parallelize_module(_net(), mesh, _plan(local)), jit)
            np.testing.assert_allclose(found, wanted, rtol=1e-8)
    wanted = on_one_rank(lambda: _trained(_net(), False, clip=True))
    for cut in ("weight", "bias"):
        def shared(name: str, module: nn.Module, mesh: DeviceMesh, cut: str = cut) -> None:
            p = getattr(module, cut, None)
            if isinstance(p, nn.Parameter) and isinstance(module, nn.Linear):
                module.register_parameter(cut, nn.Parameter(distribute_tensor(p, mesh, [Shard(0)])))
        net = distribute_module(_net(), mesh, shared)
        np.testing.assert_allclose(_trained(net, False, clip=True), wanted, rtol=1e-8)
    print("done")


def _net() -> nn.Module:
    lt.manual_seed(3)
    return Net().double()


def _plan(local: bool) -> dict[str, Any]:
    plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
    return plan | {
        "words": RowwiseParallel(output_layouts=Shard(1), use_local_output=local),
        "inner": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate(),
                                    use_local_output=local),
        "inne?": PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1)),
        "attention.o": RowwiseParallel(), "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False)}


def _trained(net: Any, jit: bool, clip: bool = False) -> list[float]:
    optimizer = lt.optim.AdamW(net.parameters(), lr=0.05)

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        with loss_parallel():
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), 0.3)
        optimizer.step()
        found = loss.full_tensor() if isinstance(loss, DTensor) else loss
        return found.detach()
    call = lt.jit(step) if jit else step
    words = [lt.arange(16).reshape(2, 8) * n % 16 for n in (3, 5, 7, 9)]
    found = [call(x, y).item() for x, y in pairwise(words)]
    wholes = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in net.parameters()]
    return found + [p.detach().numpy().sum().item() for p in wholes]


def checkpoints(folder: str) -> None:
    """What DTensors save is read into tensors that are whole, and the opposite; states of modules
    and of optimizers, too."""
    mesh = _meshes()[0]

    def rows(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(distribute_tensor(module.weight, mesh, [Shard(0)]))
    whole, shared = _net(), distribute_module(_net(), mesh, rows)
    made = [lt.optim.Adam(m.parameters(), lr=0.1) for m in (whole, shared)]
    for net, optimizer in zip((whole, shared), made, strict=True):
        with implicit_replication():
            logits = net(lt.arange(16).reshape(2, 8)).flatten(0, 1)
            F.cross_entropy(logits, lt.arange(16)).backward()
        optimizer.step()
    x = distribute_tensor(lt.arange(8.0), mesh, [Shard(0)])
    checkpoint.save({"net": shared, "optimizer": made[1], "x": x}, checkpoint_id=folder)
    again, alone, y = distribute_module(_net(), mesh, rows), _net(), x * 0
    y = y.redistribute(placements=[Shard(0)])
    optimizer = lt.optim.Adam(again.parameters(), lr=0.1)
    checkpoint.load({"net": again, "optimizer": optimizer, "x": y}, checkpoint_id=folder)
    checkpoint.load({"net": alone, "x": (z := lt.zeros(8))}, checkpoint_id=folder)
    assert y.tolist() == list(range(8)) == z.tolist()
    for found, other, saved, near in zip(again.parameters(), alone.parameters(),
                                         shared.parameters(), whole.parameters(), strict=True):
        values = saved.detach().numpy()
        np.testing.assert_array_equal(found.detach().numpy(), values)
        np.testing.assert_array_equal(other.detach().numpy(), values)
        np.testing.assert_allclose(near.detach().numpy(), values, rtol=1e-7)
    assert again.head.weight.to_local().shape == (16 // dist.size(), 8)
    assert [s["exp_avg"].shape for s in optimizer.state.values()] == [
        p.to_local().shape for p in again.parameters()]  # type: ignore[attr-defined]
    print("done")
