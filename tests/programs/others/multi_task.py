"""Several tasks: heads in a ModuleDict, losses weighted by learned uncertainties."""
import torch
import torch.nn as nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 10), nn.ELU(), nn.LayerNorm(10))
        self.heads = nn.ModuleDict({"kind": nn.Linear(10, 3), "value": nn.Linear(10, 1)})
        self.log_vars = nn.ParameterDict({k: nn.Parameter(torch.zeros(1)) for k in self.heads})

    def forward(self, x):
        shared = self.trunk(x)
        return {name: head(shared) for name, head in self.heads.items()}


def model():
    return MultiTask()


def optimizer(model):
    return torch.optim.Adam([
        {"params": model.trunk.parameters()},
        {"params": model.heads.parameters(), "lr": 1e-2},
        {"params": model.log_vars.values(), "lr": 1e-1}], lr=1e-3)


def batches(rng):
    return [(rng.normal(size=(8, 6)), rng.integers(0, 3, 8), rng.normal(size=8))
            for _ in range(4)]


def step(model, optimizer, x, kind, value):
    criteria = {"kind": nn.CrossEntropyLoss(), "value": nn.SmoothL1Loss(beta=0.5)}
    targets = {"kind": kind, "value": value}
    outputs = model(x)
    total, losses = 0, {}
    for name, criterion in criteria.items():
        losses[name] = criterion(outputs[name].squeeze(-1), targets[name])
        total = total + torch.exp(-model.log_vars[name]) * losses[name] + model.log_vars[name]
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    return total.detach(), *[loss.detach() for loss in losses.values()]
