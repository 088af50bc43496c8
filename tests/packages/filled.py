"""Parameters and data that are the same in every library: drawn by NumPy, by name and seed."""
import zlib
from typing import Any

import numpy as np
import torch


def filled(model: Any) -> Any:
    """The module, its floating-point parameters and buffers drawn by their names."""
    with torch.no_grad():
        for name, value in sorted(model.state_dict().items()):
            if value.is_floating_point():
                drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(size=value.shape)
                fan_in = np.prod(value.shape[1:]) if value.ndim > 1 else 100.0
                around = 1.0 if "norm" in name or "bn" in name or "var" in name else 0.0
                value.copy_(torch.tensor(around + np.abs(drawn) / np.sqrt(fan_in)
                                         if around else drawn / np.sqrt(fan_in)))
    return model


def numbers(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def labels(count: int, *shape: int, seed: int = 0) -> Any:
    """Whole numbers below a count."""
    return torch.tensor(np.random.default_rng(seed).integers(count, size=shape))


def trained(model: Any, loss_of: Any, steps: int = 3) -> list[float]:
    """The losses of some steps of AdamW with clipped gradients."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses
