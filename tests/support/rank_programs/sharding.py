"""Programs whose values ranks share out by annotations, beside the same without."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten import nn
from rank_programs.alone import on_one_rank

Spec = dict[str, Any]
Shard = Callable[[lt.Tensor, str, int], lt.Tensor]
"""(a value, an axis of the mesh, its own axis) -> the value, which ranks share out."""


class Perceptron(nn.Module):
    """A batch, or a hidden layer, is shared out."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard, self.up, self.down = shard, nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = self.shard(x, "batch", 0)
        h = nn.functional.linear(x, self.shard(self.up.weight, "model", 0), self.up.bias).tanh()
        return nn.functional.linear(h, self.shard(self.down.weight, "model", 1), self.down.bias)


class Convolutions(nn.Module):
    """Normalized by what is known of the whole batch."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard, self.norm = shard, nn.BatchNorm2d(4)
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 5, 2, stride=2)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = self.shard(x.repeat_interleave(6, 1).unflatten(1, (1, 6, 6)), "batch", 0)
        kernels = self.shard(self.first.weight, "model", 0)
        x = self.norm(nn.functional.conv2d(x, kernels, self.first.bias)).relu()
        return self.second(x).amax((2, 3))


class Attention(nn.Module):
    """Of texts: rows of the embedding, heads or parts of the sequences are shared out."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard, self.words = shard, nn.Embedding(12, 8)
        self.qkv, self.out, self.head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 12)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        tokens = self.shard((x * 5).long().clamp(0, 11), "batch", 0)
        x = nn.functional.embedding(tokens, self.shard(self.words.weight, "model", 0))
        x = self.shard(x.repeat(1, 2, 1)[:, :8], "sequence", 1)
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 2)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(
            self.shard(q, "model", 1), k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        logits = nn.functional.linear(x, self.shard(self.head.weight, "model", 0), self.head.bias)
        return logits.mean(1)


class Recurrence(nn.Module):
    """Steps in a row, of a batch in parts."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard, self.cells, self.head = shard, nn.LSTM(1, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        h = self.cells(self.shard(x, "batch", 0)[..., None])[0][:, -1]
        return nn.functional.linear(h, self.shard(self.head.weight, "model", 1), self.head.bias)


MODELS: dict[str, Callable[[Shard], nn.Module]] = {
    c.__name__: c for c in (Perceptron, Convolutions, Attention, Recurrence)}


def _trained(spec: Spec, shard: Shard) -> list[np.ndarray[Any, Any]]:
    """Losses, and the parameters after three steps."""
    lt.manual_seed(spec["seed"])
    net = MODELS[spec["model"]](shard).to(getattr(lt, spec["dtype"]))
    optimizer = lt.optim.Adam(net.parameters(), lr=0.01)
    data = lt.rand(3, 8, 6, dtype=getattr(lt, spec["dtype"]))
    labels = lt.randint(0, 5, (3, 8))

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()
    run = lt.jit(step) if spec["jit"] else step
    losses = [run(x, y).numpy() for x, y in zip(data, labels, strict=True)]
    return losses + [p.detach().numpy() for p in net.parameters()] \
        + [b.numpy() for b in net.buffers()]


def equal(specs: Sequence[Spec]) -> None:
    """What is trained with shared values is what one rank trains."""
    size = dist.init(60).size
    for spec in specs:
        shape = (size // spec["columns"], spec["columns"]) if size > 1 else (1, 1)
        mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("rows", "columns"))
        lines: dict[str, str] = spec["lines"]

        def shard(x: lt.Tensor, name: str, axis: int, mesh: dist.DeviceMesh = mesh,
                  lines: dict[str, str] = lines) -> lt.Tensor:
            return lt.shard(x, mesh[lines[name]], axis) if name in lines else x
        tolerance = {"float64": 1e-9, "float32": 2e-4}[spec["dtype"]]
        whole = on_one_rank(partial(_trained, spec, lambda x, *_: x))
        for found, wanted in zip(_trained(spec, shard), whole, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    print("done", flush=True)


def promises() -> None:
    """Transforms, types, errors and looks."""
    dist.init(60)
    mesh = dist.init_device_mesh("cpu", (dist.size(),))
    x = lt.arange(12.0).reshape(4, 3)

    def squares(t: lt.Tensor) -> lt.Tensor:
        return lt.shard(t, mesh, 0).square().sum(0)
    batch = lt.stack([x, -x, x + 1])
    np.testing.assert_array_equal(lt.vmap(squares)(batch).numpy(), batch.square().sum(1).numpy())
    words = lt.explain(lt.vmap(squares)(batch))
    assert words.count("all_reduce_begin") == (dist.size() > 1), words
    value, tangent = lt.func.jvp(squares, (x,), (x,))
    np.testing.assert_array_equal(tangent.numpy(), 2 * value.numpy())
    hessian = lt.func.hessian(lambda t: squares(t).sum())(x).reshape(12, 12)
    np.testing.assert_array_equal(hessian.numpy(), 2 * np.eye(12, dtype=np.float32))
    for dtype in (lt.float16, lt.bfloat16, lt.int8, lt.uint8, lt.int64, lt.bool):
        y = x.to(dtype)
        assert lt.equal(lt.shard(y, mesh, 0).sum(0), y.sum(0)), dtype
        assert lt.equal(lt.shard(y, mesh, 0).amax(1), y.amax(1)), dtype
    for rows in (1, 3, 5):
        uneven = lt.shard(x.repeat(2, 1)[:rows], mesh, 0)
        assert lt.equal(uneven.sum(0), x.repeat(2, 1)[:rows].sum(0))
    assert lt.equal(lt.shard(x, mesh, 0), x) and lt.equal(lt.shard(x, mesh, 0).sort(0)[0], x)
    words = lt.explain(lt.shard(x + 1, mesh, 0).sum())
    assert words.count("all_reduce_begin") == (dist.size() > 1), words
    varying = lt.jit(squares, dynamic={"t": {0: lt.Dim("n", 2, 64)}})
    for n in range(2, 14):
        assert lt.equal(varying(lt.ones(n, 3)), lt.full((3,), float(n)))
    for wrong, words in (({"axis": 2}, "there is no axis 2"), ({"mesh": "a"}, "mesh='a'"),
                         ({"axis": 0.5}, "no axis 0.5")):
        try:
            lt.shard(x, **{"mesh": mesh, **wrong})
            raise AssertionError(words)
        except (ValueError, lt.ShapeError) as error:
            assert words in str(error), error
    print("done", flush=True)


def looking() -> None:
    """One rank looks at a value alone."""
    dist.init(20)
    mesh = dist.init_device_mesh("cpu", (dist.size(),))
    rows = lt.shard(lt.ones(4, 3), mesh, 0)
    if dist.rank() == 0:
        print(rows.sum().item())
    print(rows.sum(0))
