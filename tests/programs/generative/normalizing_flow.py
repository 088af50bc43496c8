"""RealNVP: affine couplings with alternating masks, the log determinant, and the inverse."""
import math

import torch
import torch.nn as nn


class AffineCoupling(nn.Module):
    def __init__(self, mask, hidden_dim):
        super().__init__()
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.scale_fc = nn.Linear(len(mask), hidden_dim)
        self.scale_out = nn.Linear(hidden_dim, len(mask))
        self.scale = nn.Parameter(torch.Tensor(len(mask)))
        nn.init.normal_(self.scale)
        self.translation = nn.Sequential(nn.Linear(len(mask), hidden_dim), nn.ReLU(),
                                         nn.Linear(hidden_dim, len(mask)))

    def s(self, x):
        return self.scale_out(torch.relu(self.scale_fc(x * self.mask))).tanh() * self.scale

    def forward(self, x):
        s, t = self.s(x), self.translation(x * self.mask)
        y = self.mask * x + (1 - self.mask) * (x * torch.exp(s) + t)
        return y, torch.sum((1 - self.mask) * s, -1)

    def inverse(self, y):
        return self.mask * y + (1 - self.mask) * ((y - self.translation(y * self.mask)) *
                                                  torch.exp(-self.s(y)))


class RealNVP(nn.Module):
    def __init__(self, n_layers=3, dim=4):
        super().__init__()
        masks = [torch.tensor([float((i + j) % 2) for j in range(dim)]) for i in range(n_layers)]
        self.layers = nn.ModuleList([AffineCoupling(mask, 6) for mask in masks])

    def forward(self, x):
        logdet_tot = 0
        for layer in self.layers:
            x, logdet = layer(x)
            logdet_tot += logdet
        return x, logdet_tot

    def inverse(self, y):
        for layer in reversed(self.layers):
            y = layer.inverse(y)
        return y


def model():
    return RealNVP()


def optimizer(model):
    return torch.optim.Adam([p for p in model.parameters() if p.requires_grad is True], lr=5e-3)


def batches(rng):
    return [(rng.normal(size=(6, 4)),) for _ in range(4)]


def step(model, optimizer, x):
    z, logdet = model(x)
    log_prob = -0.5 * (z ** 2 + math.log(2 * math.pi)).sum(-1) + logdet
    loss = -log_prob.mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        error = (model.inverse(model(x)[0]) - x).abs().max() < 1e-4
    return loss.detach(), error
