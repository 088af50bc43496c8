"""Gradients of micro-batches add up, are clipped by their norm, and then make one step."""
import torch
from torch import nn

ACCUMULATION_STEPS = 3


def model():
    return nn.Sequential(nn.Linear(6, 10), nn.Softplus(), nn.Linear(10, 1))


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def batches(rng):
    return [(rng.normal(size=(12, 6)), rng.normal(size=(12, 1))) for _ in range(4)]


def step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    running_loss = 0.0
    for x, y in zip(inputs.chunk(ACCUMULATION_STEPS), targets.chunk(ACCUMULATION_STEPS),
                    strict=True):
        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
        loss.backward()
        running_loss += loss.detach()
    total_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    optimizer.step()
    return running_loss, total_norm
