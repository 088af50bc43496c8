"""Denoising diffusion: schedules in buffers, gathered by time step, a sinusoidal embedding."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def extract(a, t, x_shape):
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=time.device) * -emb)
        emb = time[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Diffusion(nn.Module):
    def __init__(self, timesteps=20):
        super().__init__()
        betas = torch.linspace(1e-4, 0.02, timesteps)
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
        self.register_buffer("posterior", betas * (1 - alphas_cumprod_prev) / (1 - alphas_cumprod))
        self.register_buffer("sqrt_alphas", alphas_cumprod.sqrt())
        self.register_buffer("sqrt_one_minus", torch.sqrt(1.0 - alphas_cumprod))
        self.time_mlp = nn.Sequential(SinusoidalPosEmb(6), nn.Linear(6, 8), nn.SiLU())
        self.down = nn.Conv1d(2, 8, 3, padding=1)
        self.up = nn.Sequential(nn.SiLU(), nn.Upsample(scale_factor=2, mode="nearest"),
                                nn.Conv1d(8, 2, 3, padding=1))

    def forward(self, x, t, noise):
        x = extract(self.sqrt_alphas, t, x.shape) * x + \
            extract(self.sqrt_one_minus, t, x.shape) * noise
        h = F.avg_pool1d(self.down(x), 2) + self.time_mlp(t).unsqueeze(-1)
        return F.smooth_l1_loss(self.up(h), noise)


def model():
    return Diffusion()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def batches(rng):
    return [(rng.normal(size=(5, 2, 8)), rng.integers(0, 20, 5), rng.normal(size=(5, 2, 8)))
            for _ in range(4)]


def step(model, optimizer, x, t, noise):
    optimizer.zero_grad()
    loss = model(x, t, noise)
    loss.backward()
    optimizer.step()
    return loss.detach()
