"""MobileNet's inverted residuals: depthwise convolutions between pointwise ones."""
import torch
from torch import nn


class ConvBNReLU(nn.Sequential):
    def __init__(self, inp, out, kernel_size=3, stride=1, groups=1):
        padding = (kernel_size - 1) // 2
        super().__init__(
            nn.Conv2d(inp, out, kernel_size, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(out), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio):
        super().__init__()
        hidden_dim = int(round(inp * expand_ratio))
        self.use_res_connect = stride == 1 and inp == oup
        layers = []
        if expand_ratio != 1:
            layers.append(ConvBNReLU(inp, hidden_dim, kernel_size=1))
        layers.extend([ConvBNReLU(hidden_dim, hidden_dim, stride=stride, groups=hidden_dim),
                       nn.Conv2d(hidden_dim, oup, 1, 1, 0, bias=False), nn.BatchNorm2d(oup)])
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


def model():
    features = [ConvBNReLU(3, 4, stride=2), InvertedResidual(4, 4, 1, 2),
                InvertedResidual(4, 6, 2, 2)]
    return nn.Sequential(*features, nn.Conv2d(6, 8, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Dropout(p=0.0), nn.Linear(8, 4))


def optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, eps=1e-3, momentum=0.9)


def batches(rng):
    return [(rng.normal(size=(4, 3, 12, 12)), rng.integers(0, 4, 4)) for _ in range(4)]


def step(model, optimizer, images, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()
