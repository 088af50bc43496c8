"""DCGAN: transposed convolutions up, strided ones down, one label tensor that is refilled."""
import torch
import torch.nn as nn
import torch.optim as optim


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.2)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class DCGAN(nn.Module):
    def __init__(self, nz=3, ngf=3, ndf=3):
        super().__init__()
        self.G = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, 1, 4, 2, 1, bias=False),
            nn.Tanh())
        self.D = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, 1, 4, 1, 0, bias=False),
            nn.Sigmoid())
        self.apply(weights_init)


def model():
    return DCGAN()


def optimizer(model):
    return [optim.Adam(net.parameters(), lr=2e-3, betas=(0.5, 0.999))
            for net in (model.D, model.G)]


def batches(rng):
    return [(rng.normal(size=(4, 1, 8, 8)), rng.normal(size=(4, 3, 1, 1))) for _ in range(4)]


def step(model, optimizers, real, noise):
    optimizerD, optimizerG = optimizers
    netD, netG, criterion = model.D, model.G, nn.BCELoss()
    netD.zero_grad()
    label = torch.full((real.size(0),), 1.0, dtype=real.dtype, device=real.device)
    errD_real = criterion(netD(real).view(-1), label)
    errD_real.backward()
    fake = netG(noise)
    label.fill_(0.0)
    errD_fake = criterion(netD(fake.detach()).view(-1), label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    netG.zero_grad()
    label.fill_(1.0)
    errG = criterion(netD(fake).view(-1), label)
    errG.backward()
    optimizerG.step()
    return errD.detach(), errG.detach()
