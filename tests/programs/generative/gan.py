"""A GAN: two networks, two optimizers, BCE with logits; the generator's sample is detached."""
import torch
import torch.nn as nn


def block(in_feat, out_feat, normalize=True):
    layers = [nn.Linear(in_feat, out_feat)]
    if normalize:
        layers.append(nn.BatchNorm1d(out_feat, 0.8))
    layers.append(nn.LeakyReLU(0.2, inplace=True))
    return layers


def model():
    generator = nn.Sequential(*block(4, 8, normalize=False), *block(8, 12), nn.Linear(12, 9),
                              nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(9, 10), nn.LeakyReLU(0.2, inplace=True),
                                  nn.Linear(10, 1))
    return nn.ModuleDict({"generator": generator, "discriminator": discriminator})


def optimizer(model):
    return (torch.optim.Adam(model["generator"].parameters(), lr=2e-3, betas=(0.5, 0.999)),
            torch.optim.Adam(model["discriminator"].parameters(), lr=2e-3, betas=(0.5, 0.999)))


def batches(rng):
    return [(rng.normal(size=(8, 9)), rng.normal(size=(8, 4))) for _ in range(4)]


def step(model, optimizers, real, z):
    generator, discriminator = model["generator"], model["discriminator"]
    optimizer_G, optimizer_D = optimizers
    adversarial_loss = nn.BCEWithLogitsLoss()
    valid = torch.ones(real.size(0), 1, dtype=real.dtype)
    fake = torch.zeros_like(valid)

    optimizer_G.zero_grad()
    gen = generator(z)
    g_loss = adversarial_loss(discriminator(gen), valid)
    g_loss.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(discriminator(real), valid)
    fake_loss = adversarial_loss(discriminator(gen.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_D.step()
    return g_loss.detach(), d_loss.detach()
