"""All data is one tensor: batches are rows of it, a loss's weight grows, a rate by hand."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, BATCH, STEPS = 256, 16, 6


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.GELU(), nn.Linear(32, 12))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        return self.decoder(mean), mean, log_variance


class Trainer:
    def __init__(self, model):
        i = torch.arange(ROWS * 12).reshape(ROWS, 12)
        self.data = torch.sin(i * 0.37) + torch.cos(i * 0.011)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
        self.order = random.Random(3)
        self.step_num = 0

    def rate(self):
        warm = min(1.0, (self.step_num + 1) / 4)
        return 1e-2 * warm * 0.5 * (1 + math.cos(math.pi * self.step_num / 100))


def model():
    return AutoEncoder()


def optimizer(model):
    return Trainer(model)


def batches(rng):
    return [(rng.normal(size=(BATCH, 12)) * 0.1,) for _ in range(STEPS)]


def step(model, trainer, noise):
    start = trainer.order.randrange(ROWS - BATCH)
    x = trainer.data[start:start + BATCH]
    for group in trainer.optimizer.param_groups:
        group["lr"] = trainer.rate()
    beta = min(1.0, trainer.step_num / 50)
    trainer.step_num += 1
    trainer.optimizer.zero_grad()
    found, mean, log_variance = model(x + noise)
    kl = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(dim=-1).mean()
    loss = F.mse_loss(found, x) + beta * kl
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    trainer.optimizer.step()
    return loss.detach()
