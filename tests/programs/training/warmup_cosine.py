"""Linear warm-up, then cosine annealing: a SequentialLR, and a LambdaLR beside it."""
import math

import torch
from torch import nn, optim
from torch.optim import lr_scheduler


def warmup(step):
    return min(1.0, (step + 1) / 3) * 0.5 * (1 + math.cos(math.pi * step / 10))


def model():
    return nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(3, 2)})


def optimizer(model):
    first = optim.AdamW(model["a"].parameters(), lr=0.05)
    second = optim.Adam(model["b"].parameters(), lr=torch.tensor(0.05).item())
    schedulers = [
        lr_scheduler.SequentialLR(first, [lr_scheduler.LinearLR(first, 0.25, total_iters=2),
                                          lr_scheduler.CosineAnnealingLR(first, T_max=5)], [2]),
        lr_scheduler.LambdaLR(second, lr_lambda=warmup)]
    return [first, second], schedulers


def batches(rng):
    return [(rng.normal(size=(6, 4)), rng.normal(size=(6, 2))) for _ in range(6)]


def step(model, optimizers, x, y):
    for opt in optimizers[0]:
        opt.zero_grad()
    loss = nn.L1Loss()(model["b"](torch.relu(model["a"](x))), y)
    loss.backward()
    for opt in optimizers[0]:
        opt.step()
    return loss.detach()


def after_step(model, optimizers):
    for scheduler in optimizers[1]:
        scheduler.step()
