"""A siamese network with triplet and contrastive losses over one set of weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convnet = nn.Sequential(nn.Conv1d(1, 4, 3), nn.PReLU(), nn.MaxPool1d(2, stride=2),
                                     nn.Conv1d(4, 4, 2), nn.PReLU())
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(4 * 3, 6), nn.PReLU(), nn.Linear(6, 2))

    def forward(self, x):
        return self.fc(self.convnet(x))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin
        self.eps = 1e-9

    def forward(self, output1, output2, target):
        distances = (output2 - output1).pow(2).sum(1)
        losses = 0.5 * (target.float() * distances + (1 + -1 * target).float() *
                        F.relu(self.margin - (distances + self.eps).sqrt()).pow(2))
        return losses.mean()


def model():
    return EmbeddingNet()


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=1.0)


def batches(rng):
    return [(*rng.normal(size=(3, 6, 1, 10)), rng.integers(0, 2, 6)) for _ in range(4)]


def step(model, optimizer, anchor, positive, negative, same):
    a, p, n = model(anchor), model(positive), model(negative)
    loss = nn.TripletMarginLoss(margin=1.0, p=2)(a, p, n) + ContrastiveLoss(1.0)(a, p, same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
