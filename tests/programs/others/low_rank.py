"""Parameters of one's own: a low-rank bilinear layer by einsum, RMS norm, a frozen base weight."""
import torch
from torch import nn
from torch.nn.parameter import Parameter


class LoRABilinear(nn.Module):
    __constants__ = ("rank",)
    rank: int

    def __init__(self, n, m, out, rank=2, device=None, dtype=None):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        self.rank = rank
        self.weight = Parameter(torch.empty((out, n, m), **factory_kwargs), requires_grad=False)
        self.u = Parameter(torch.empty(rank, out, n, **factory_kwargs))
        self.v = Parameter(torch.empty(rank, m, **factory_kwargs))
        self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.weight)
        nn.init.normal_(self.u, std=0.3)
        nn.init.orthogonal_(self.v)

    def forward(self, a, b):
        weight = self.weight + torch.einsum("ron,rm->onm", self.u, self.v)
        return torch.einsum("bn,onm,bm->bo", a, weight, b)

    def extra_repr(self):
        return f"rank={self.rank}"


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.scale = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm, self.head = LoRABilinear(4, 3, 5), RMSNorm(5), nn.Linear(5, 1)

    def forward(self, a, b):
        return self.head(self.norm(self.inner(a, b))).squeeze(-1)


def model():
    return Net()


def optimizer(model):
    return torch.optim.Adamax([p for p in model.parameters() if p.requires_grad], lr=0.02)


def batches(rng):
    return [(rng.normal(size=(6, 4)), rng.normal(size=(6, 3)), rng.normal(size=6))
            for _ in range(5)]


def step(model, optimizer, a, b, y):
    loss = nn.HuberLoss(delta=0.7)(model(a, b), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
