"""Steps of training of several kinds, one a value: what a loop of a user's does."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import lazyten as lt
import lazyten.nn.functional as F
from lazyten import nn


def trained(steps: int, look: Callable[[lt.Tensor], object]) -> Iterator[None]:
    lt.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
    optimizer = lt.optim.AdamW(model.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x, y = lt.tensor(rng.normal(size=(5, 6))), lt.tensor(rng.integers(0, 3, 5))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.float()), y)
        loss.backward()
        optimizer.step()
        look(loss)
        yield

def gan() -> Iterator[None]:
    first, second = nn.Linear(3, 4), nn.Linear(4, 1)
    optimizers = [lt.optim.Adam(m.parameters(), lr=0.01) for m in (first, second)]
    while True:
        made = first(lt.tensor([[1.0, 2.0, 3.0]])).tanh()
        optimizers[0].zero_grad()
        (second(made) ** 2).mean().backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        ((second(made.detach()) - 1) ** 2).mean().backward()  # of the step before this one
        optimizers[1].step()
        yield


def adversarial() -> Iterator[None]:
    """What the first model made is judged once more after the second model's step, and after
    something else."""
    label = lt.ones(1, 1)
    maker, judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 1)
    optimizers = [lt.optim.Adam(m.parameters(), lr=0.01) for m in (maker, judge)]
    while True:
        made = maker(lt.tensor([[1.0, 2.0, 3.0]])).sigmoid()
        optimizers[1].zero_grad()
        ((judge(made.detach()) - label) ** 2).mean().backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        label.fill_(0.5)
        ((judge(made) - label) ** 2).mean().backward()
        optimizers[0].step()
        yield


def carried() -> Iterator[None]:
    cell = nn.GRUCell(3, 4)
    optimizer, h = lt.optim.SGD(cell.parameters(), lr=0.01), lt.zeros(1, 4)
    while True:
        optimizer.zero_grad()
        h = cell(lt.tensor([[1.0, 2.0, 3.0]]), h.detach())
        (h ** 2).mean().backward()
        optimizer.step()
        yield


def looked_at_without_gradients() -> Iterator[None]:
    layer = nn.Linear(3, 4)
    optimizer, total = lt.optim.SGD(layer.parameters(), lr=0.01), lt.zeros(())
    while True:
        out = layer(lt.tensor([[1.0, 2.0, 3.0]]))
        loss = F.cross_entropy(out, lt.tensor([1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with lt.no_grad():
            total = total + loss
            (out.argmax(1) == 1).sum().item()
        yield


def written_masks() -> Iterator[None]:
    w = lt.tensor([1.0, -2.0, 3.0], requires_grad=True)
    optimizer = lt.optim.SGD([w], lr=0.01)
    while True:
        scale = lt.tensor([2.0, 0.5, -1.0]) ** 2
        scale[scale > 1] = 0
        optimizer.zero_grad()
        lt.einsum("i,i->", w, scale).backward()
        optimizer.step()
        yield


def leaves_of_each_step() -> Iterator[None]:
    layer = nn.Linear(3, 1)
    optimizer = lt.optim.SGD(layer.parameters(), lr=0.01)
    while True:
        x = lt.tensor([[1.0, 2.0, 3.0]]).requires_grad_()
        layer(x).sum().backward()
        assert x.grad is not None
        optimizer.zero_grad()
        (layer(x.detach() + 0.1 * x.grad.sign()) ** 2).mean().backward()
        optimizer.step()
        yield


def several_losses_of_one_graph() -> Iterator[None]:
    """A value that keeps its graph is looked at, and goes on being used."""
    body, heads = nn.Linear(3, 4), [nn.Linear(4, 1) for _ in range(2)]
    parameters = [p for m in (body, *heads) for p in m.parameters()]
    optimizer = lt.optim.SGD(parameters, lr=0.01)
    while True:
        hidden = body(lt.tensor([[1.0, 2.0, 3.0]])).tanh()
        losses = [(head(hidden) ** 2).mean() for head in heads]
        optimizer.zero_grad()
        losses[0].backward(retain_graph=True)
        losses[0].item()
        losses[1].backward()
        optimizer.step()
        yield


def gradients_of_gradients() -> Iterator[None]:
    layer = nn.Linear(3, 1)
    optimizer = lt.optim.SGD(layer.parameters(), lr=0.01)
    while True:
        x = lt.tensor([[1.0, 2.0, 3.0]]).requires_grad_()
        slope, = lt.autograd.grad(layer(x).sin().sum(), x, create_graph=True)
        optimizer.zero_grad()
        ((slope ** 2).sum() - 1).abs().backward()
        optimizer.step()
        yield


def routed() -> Iterator[None]:
    """Rows that values choose go to one part of a model and back."""
    gate, expert = nn.Linear(3, 2), nn.Linear(3, 3)
    optimizer = lt.optim.SGD([*gate.parameters(), *expert.parameters()], lr=0.01)
    while True:
        x = lt.arange(12).reshape(4, 3) / 4
        share, chosen = gate(x).softmax(-1).max(-1)
        rows = lt.nonzero(chosen >= 0).flatten()
        out = lt.zeros(4, 3).index_add(0, rows, expert(x[rows]) * share[rows, None])
        optimizer.zero_grad()
        (out ** 2).mean().backward()
        optimizer.step()
        yield
