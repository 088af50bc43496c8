"""Functions and networks whose inputs have any number of rows, and such inputs."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import nn

Array = np.ndarray[Any, Any]


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tensor(array: Array, device: str) -> lt.Tensor:
    return lt.tensor(array, device=device)


# ---- functions of one axis -----------------------------------------------------------------------

Function = Callable[[lt.Tensor], lt.Tensor]
KERNEL = values(6, 5, 3, seed=9)

FUNCTIONS: dict[str, Function] = {
    "elementwise": lambda x: (x * 2 + 1).tanh(),
    "sum of rows": lambda x: x.sum(0),
    "mean of all": lambda x: x.mean(),
    "variance": lambda x: x.var(0),
    "largest": lambda x: x.amax(0) + x.argmax(0),
    "softmax along": lambda x: x.softmax(0),
    "softmax across": lambda x: x.softmax(1),
    "scaled by the size": lambda x: x / math.sqrt(x.shape[0]),
    "gram": lambda x: x.T @ x,
    "scores": lambda x: x @ x.T,
    "causal": lambda x: (x @ x.T).masked_fill(
        lt.ones(x.shape[0], x.shape[0], device=x.device).triu(1) > 0, -math.inf).softmax(1) @ x,
    "merged": lambda x: x.reshape(-1).cumsum(0),
    "turned": lambda x: x.flip(0) - x.T.reshape(x.shape),
    "last row": lambda x: x[-1] * x[0],
    "every other": lambda x: x[::2].sum(0),
    "joined": lambda x: lt.cat([x, x[:1], x.flip(0)]).cumsum(0),
    "padded": lambda x: nn.functional.pad(x, (0, 0, 2, 1)).roll(1, 0),
    "sorted": lambda x: x.sort(0)[0],
    "gathered": lambda x: x[lt.arange(x.shape[0] - 1, -1, -1, device=x.device)],
    "positions": lambda x: x + lt.arange(x.shape[0], device=x.device)[:, None],
    "convolved": lambda x: nn.functional.conv1d(
        x.T[None], lt.tensor(KERNEL, device=x.device), padding=1),
    "pooled": lambda x: nn.functional.max_pool1d(
        nn.functional.pad(x, (0, 0, 0, 1)).T[None], 2, stride=2),
}


STEPS: tuple[Function, ...] = (
    lambda x: x.relu() + 0.5, lambda x: x.softmax(-1), lambda x: x - x.mean(0, keepdim=True),
    lambda x: x.reshape(-1, 2, x.shape[-1] // 2).sum(1) if x.shape[-1] % 2 == 0 else x,
    lambda x: lt.cat([x, x[-1:]]), lambda x: x.flip(0), lambda x: x[1:] if x.shape[0] > 1 else x,
    lambda x: (x @ x.T).softmax(-1) @ x, lambda x: x.cumsum(0) / x.shape[0],
    lambda x: x.T.reshape(x.shape), lambda x: x.amax(0, keepdim=True) - x)


# ---- training ------------------------------------------------------------------------------------

class Attending(nn.Module):
    """A small causal transformer block over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.mixing, self.out = nn.Linear(8, 24), nn.Linear(8, 11)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        batch, time = x.shape
        y = self.tokens(x)
        q, k, v = self.mixing(self.norm(y)).reshape(batch, time, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y + mixed.transpose(1, 2).reshape(batch, time, 8)).reshape(-1, 11)


class Recurrent(nn.Module):
    """An LSTM over time, and what it says at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return self.out(self.lstm(x)[0][:, -1])


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(36, 3))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 3))


def rows(n: int, *shape: int) -> tuple[lt.Tensor, lt.Tensor]:
    labels = np.random.default_rng(n).integers(0, 3, n)
    return lt.tensor(values(n, *shape, seed=n)), lt.tensor(labels)


def texts(n: int) -> tuple[lt.Tensor, lt.Tensor]:
    found = np.random.default_rng(n).integers(0, 11, (2, 2, n))
    return lt.tensor(found[0]), lt.tensor(found[1])


def series(n: int) -> tuple[lt.Tensor, lt.Tensor]:
    return lt.tensor(values(4, n, 4, seed=n)), lt.tensor(np.array([0, 2, 1, 1]))
