"""A mixture of experts in which each word goes to its best two: an expert may get none."""
import torch
from torch import nn
from torch.nn import functional as F


class Experts(nn.Module):
    def __init__(self, dim=4, count=5, best=2):
        super().__init__()
        self.gate = nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 6), nn.SiLU(), nn.Linear(6, dim)) for _ in range(count)])
        self.count, self.best = count, best

    def forward(self, hidden):
        b, t, d = hidden.shape
        hidden = hidden.view(-1, d)
        weights, selected = torch.topk(F.softmax(self.gate(hidden), dim=1), self.best, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        mixed = torch.zeros_like(hidden)
        mask = F.one_hot(selected, num_classes=self.count).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            which, row = torch.where(mask[number])
            mine = hidden[None, row].reshape(-1, d)
            mixed.index_add_(0, row, expert(mine) * weights[row, which, None])
        return mixed.reshape(b, t, d)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.moe = Experts()
        self.head = nn.Linear(4, 9)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(x + self.moe(x))


def model():
    return Words()


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)


def batches(rng):
    return [(rng.integers(0, 9, (1, 3)),) for _ in range(4)]


def step(model, optimizer, ids):
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
