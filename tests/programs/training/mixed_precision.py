"""autocast to bfloat16 around the forward pass, and a GradScaler that is switched off."""
import torch
from torch import nn


def model():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4 * 36, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def optimizer(model):
    return (torch.optim.SGD(model.parameters(), lr=0.05),
            torch.amp.GradScaler("cpu", enabled=False))


def batches(rng):
    return [(rng.normal(size=(4, 1, 6, 6)), rng.integers(0, 3, 4)) for _ in range(4)]


def step(model, optimizer, x, y):
    optimizer, scaler = optimizer
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        output = model(x)
        assert output.dtype is torch.bfloat16
        loss = nn.functional.cross_entropy(output, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().float()
