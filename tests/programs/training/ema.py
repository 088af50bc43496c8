"""A moving average of the weights, by hand with lerp_, and by AveragedModel."""
import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class WithAverages(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        self.shadow = copy.deepcopy(self.net)
        for p in self.shadow.parameters():
            p.requires_grad_(False)
        self.averaged = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))

    @torch.no_grad()
    def update(self, decay=0.8):
        for s, p in zip(self.shadow.parameters(), self.net.parameters(), strict=True):
            s.lerp_(p, 1 - decay)
        for s, b in zip(self.shadow.buffers(), self.net.buffers(), strict=True):
            s.copy_(b)


def model():
    return WithAverages()


def optimizer(model):
    return torch.optim.SGD(model.net.parameters(), lr=0.1, momentum=0.9, dampening=0.1)


def batches(rng):
    return [(rng.normal(size=(8, 4)), rng.integers(0, 2, 8)) for _ in range(4)]


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model.net(x), y)
    loss.backward()
    optimizer.step()
    model.update()
    return loss.detach()


def after_step(model, optimizer):
    model.averaged.update_parameters(model.net)
