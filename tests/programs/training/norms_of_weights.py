"""Spectral and weight norm, old and new, with a gradient penalty."""
import torch
from torch import autograd, nn
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import spectral_norm as new_spectral_norm
from torch.nn.utils.parametrizations import weight_norm


def model():
    return nn.Sequential(spectral_norm(nn.Linear(5, 8)), nn.LeakyReLU(0.2),
                         new_spectral_norm(nn.Linear(8, 6)), nn.Tanh(),
                         weight_norm(nn.Linear(6, 1)))


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.0, 0.9))


def batches(rng):
    return [(rng.normal(size=(6, 5)), rng.normal(size=(6, 5)), rng.random((6, 1)))
            for _ in range(4)]


def gradient_penalty(critic, real, fake, alpha):
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(interpolates)
    gradients = autograd.grad(outputs=scores, inputs=interpolates,
                              grad_outputs=torch.ones_like(scores), create_graph=True,
                              retain_graph=True, only_inputs=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def step(critic, optimizer, real, fake, alpha):
    optimizer.zero_grad()
    loss = critic(fake).mean() - critic(real).mean() + \
        10 * gradient_penalty(critic, real.data, fake.data, alpha)
    loss.backward()
    optimizer.step()
    return loss.detach()
