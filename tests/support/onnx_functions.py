"""Models that tests export."""
from __future__ import annotations

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional as F


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.f1, self.f2 = nn.Linear(400, 84), nn.Linear(84, 10)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.f2(F.relu(self.f1(x.flatten(1))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """A transformer of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
        self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.q, self.o = nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))
        self.head = nn.Linear(32, 50)

    def forward(self, ids: lt.Tensor) -> lt.Tensor:
        n, t = ids.shape
        x = self.words(ids) + self.places(lt.arange(t))
        q, k, v = (y.reshape(n, t, 4, 8).transpose(1, 2) for y in self.q(self.n1(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(seen.transpose(1, 2).reshape(n, t, 32))
        return self.head(x + self.mlp(self.n2(x)))  # type: ignore[no-any-return]


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c0, self.b0 = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8)
        self.c1, self.b1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c2, self.f = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Linear(8, 5)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = F.relu(self.b0(self.c0(x)))
        x = F.relu(x + self.c2(F.relu(self.b1(self.c1(x)))))
        return self.f(F.adaptive_avg_pool2d(x, 1).flatten(1)).softmax(-1)  # type: ignore[no-any-return]
