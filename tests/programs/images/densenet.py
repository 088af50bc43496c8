"""DenseNet: each layer sees what all before it made, concatenated; a transition halves it."""
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseLayer(nn.Module):
    def __init__(self, num_input_features, growth_rate):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, growth_rate, 3, padding=1, bias=False)

    def forward(self, prev_features):
        concated = torch.cat(prev_features, 1)
        return self.conv1(self.relu1(self.norm1(concated)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__()
        for i in range(num_layers):
            self.add_module("denselayer%d" % (i + 1),
                            DenseLayer(num_input_features + i * growth_rate, growth_rate))

    def forward(self, init_features):
        features = [init_features]
        for _, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


def model():
    return nn.Sequential(OrderedDict([
        ("conv0", nn.Conv2d(1, 4, 3, padding=1, bias=False)), ("block1", DenseBlock(3, 4, 3)),
        ("trans1", Transition(13, 6)), ("norm5", nn.BatchNorm2d(6)), ("relu", nn.ReLU()),
        ("pool", nn.AdaptiveMaxPool2d(1)), ("flat", nn.Flatten()), ("classifier", nn.Linear(6, 3)),
    ]))


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)


def batches(rng):
    return [(rng.normal(size=(4, 1, 8, 8)), rng.integers(0, 3, (4,))) for _ in range(4)]


def step(model, optimizer, images, labels):
    optimizer.zero_grad()
    outputs = model(images)
    loss = F.cross_entropy(outputs, labels)
    loss.backward()
    optimizer.step()
    return loss.detach()
