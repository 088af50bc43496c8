"""A GradScaler at work: losses scaled up, gradients unscaled before they are clipped."""
import torch
from torch import nn


def model():
    return nn.Sequential(nn.Linear(5, 8), nn.SELU(), nn.Linear(8, 1))


def optimizer(model):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    return torch.optim.Adam(model.parameters(), lr=1e-2), scaler


def batches(rng):
    return [(rng.normal(size=(6, 5)), rng.normal(size=(6, 1))) for _ in range(5)]


def step(model, optimizer, x, y):
    optimizer, scaler = optimizer
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach(), torch.tensor(scaler.get_scale())
