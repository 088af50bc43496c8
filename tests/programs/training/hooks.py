"""Forward hooks that collect activations for a loss, and a tensor hook that halves a gradient."""
import torch
from torch import nn


class FeatureExtractor:
    def __init__(self, module, names):
        self.features = {}
        self.handles = [getattr(module, name).register_forward_hook(self.save(name))
                        for name in names]

    def save(self, name):
        def hook(module, inputs, output):
            self.features[name] = output
        return hook

    def remove(self):
        for handle in self.handles:
            handle.remove()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = torch.tanh(self.conv2(torch.relu(self.conv1(x))))
        return self.fc(x.mean(dim=(-2, -1)))


def gram_matrix(x):
    a, b, c, d = x.size()
    features = x.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


def model():
    return Net()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def batches(rng):
    return [(rng.normal(size=(2, 1, 7, 7)), rng.integers(0, 2, 2)) for _ in range(4)]


def step(model, optimizer, x, y):
    extractor = FeatureExtractor(model, ["conv1", "conv2"])
    output = model(x)
    extractor.remove()
    output.register_hook(lambda grad: grad * 0.5)
    style = sum(gram_matrix(f).pow(2).sum() for f in extractor.features.values())
    loss = nn.functional.cross_entropy(output, y) + style
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
