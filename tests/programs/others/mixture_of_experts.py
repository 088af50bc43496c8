"""Experts chosen by topk of a gate, sparse weights by scatter, a loss that balances the load."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoE(nn.Module):
    def __init__(self, dim, n_experts=4, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
            for _ in range(n_experts))

    def forward(self, x):
        logits = self.gate(x)
        weights, selected = torch.topk(logits, self.k, dim=-1)
        weights = F.softmax(weights, dim=1)
        gates = torch.zeros_like(logits).scatter(1, selected, weights)
        results = torch.stack([expert(x) for expert in self.experts], dim=1)
        importance = gates.sum(0)
        load = (gates > 0).sum(0).to(x.dtype)
        balance = importance.var() / importance.mean() ** 2 + load.var() / load.mean().square()
        return torch.einsum("be,bed->bd", gates, results), 0.1 * balance


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.moe, self.norm, self.head = MoE(6), nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        y, aux_loss = self.moe(x)
        return self.head(self.norm(x + y)), aux_loss


def model():
    return Net()


def optimizer(model):
    return torch.optim.NAdam(model.parameters(), lr=1e-2)


def batches(rng):
    return [(rng.normal(size=(7, 6)), rng.integers(0, 3, 7)) for _ in range(4)]


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    logits, aux_loss = model(x)
    loss = F.cross_entropy(logits, y) + aux_loss
    loss.backward()
    optimizer.step()
    return loss.detach(), aux_loss.detach()
