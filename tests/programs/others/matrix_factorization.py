"""Ratings from factors of users and items, with biases."""
import torch
from torch import nn


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, n_factors=4):
        super().__init__()
        self.user_factors = nn.Embedding(n_users, n_factors)
        self.item_factors = nn.Embedding(n_items, n_factors)
        self.user_biases = nn.Embedding(n_users, 1)
        self.item_biases = nn.Embedding(n_items, 1)
        self.mean = nn.Parameter(torch.tensor(3.0), requires_grad=False)

    def forward(self, user, item):
        pred = self.user_biases(user) + self.item_biases(item)
        pred += (self.user_factors(user) * self.item_factors(item)).sum(dim=1, keepdim=True)
        return pred.squeeze() + self.mean


def model():
    return MatrixFactorization(9, 7)


def optimizer(model):
    return torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1,
                           weight_decay=1e-3)


def batches(rng):
    return [(rng.integers(0, 9, 10), rng.integers(0, 7, 10), rng.integers(1, 6, 10))
            for _ in range(5)]


def step(model, optimizer, users, items, ratings):
    optimizer.zero_grad()
    prediction = model(users, items)
    loss = nn.MSELoss()(prediction, ratings.to(prediction.dtype))
    loss.backward()
    optimizer.step()
    return loss.detach()
