"""A monotone flow, whose density takes the derivative at a clone of what its parameters are made of
too; beside it an adversary whose gradient a hook of a view turns around, and two equal branches, of
which one is weighted by its own gradient."""
import torch
from torch import nn


class Monotone(nn.Module):
    def __init__(self):
        super().__init__()
        self.signal, self.scale = nn.Linear(1, 3), nn.Parameter(torch.ones(3) * 0.5)

    def value(self, x, signal):
        return x + (torch.tanh(x * self.scale.abs() + signal) * self.scale.abs()).sum(-1, True)

    def forward(self, x):
        signal = self.signal(x)
        with torch.enable_grad():
            at = x.clone().requires_grad_()
            y = self.value(at, signal)
        slope, = torch.autograd.grad(y, at, torch.ones_like(y), create_graph=True)
        return y, slope.log()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.flows = nn.ModuleList([Monotone(), Monotone()])
        self.judge = nn.Linear(1, 1)

    def forward(self, x):
        density = 0
        for flow in self.flows:
            x, part = flow(x)
            density = density + part
        turned = x.view_as(x)
        if turned.requires_grad:
            turned.register_hook(lambda g: -0.5 * g)
        return x, density, self.judge(turned)


def model():
    return Net()


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)


def batches(rng):
    for _ in range(4):
        yield (rng.normal(size=(8, 1)).astype("float32"),)


def step(model, optimizer, x):
    optimizer.zero_grad()
    z, density, judged = model(x)
    one, other = torch.tanh(z), torch.tanh(z)
    alike = (one * other.detach()).mean() + (other * 2).mean()
    weight, = torch.autograd.grad(alike, other, retain_graph=True)
    loss = (z.square() / 2 - density).mean() + judged.square().mean() + (one * weight).mean()
    loss.backward()
    optimizer.step()
    return loss.detach(), weight.sum()
