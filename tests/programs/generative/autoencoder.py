"""A denoising autoencoder of linear layers."""
import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5 * 5, 12), nn.ReLU(True), nn.Linear(12, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 12), nn.ReLU(True), nn.Linear(12, 5 * 5),
                                     nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


def model():
    return Autoencoder()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)


def batches(rng):
    return [(rng.random((6, 1, 5, 5)), rng.normal(size=(6, 1, 5, 5))) for _ in range(5)]


def step(model, optimizer, img, noise):
    noisy = (img + 0.2 * noise).clamp_(0, 1)
    output = model(noisy.view(noisy.size(0), -1)).view_as(img)
    loss = nn.MSELoss()(output, img)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
