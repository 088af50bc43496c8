"""OneCycleLR, which changes momentum, too, stepped after each batch."""
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR


def model():
    return nn.Sequential(nn.Linear(5, 8), nn.Mish(), nn.Linear(8, 2))


def optimizer(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    return optimizer, OneCycleLR(optimizer, max_lr=0.5, total_steps=8, pct_start=0.4)


def batches(rng):
    return [(rng.normal(size=(8, 5)), rng.integers(0, 2, 8)) for _ in range(6)]


def step(model, optimizers, x, y):
    optimizer, _ = optimizers
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def after_step(model, optimizers):
    optimizers[1].step()
