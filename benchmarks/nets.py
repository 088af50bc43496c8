"""Networks as PyTorch's users write them, for first_steps.py: `NETS[name](torch)`, where `torch` is
PyTorch or lazyten, gives a model and one batch of its inputs and labels.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Library: TypeAlias = Any  # PyTorch or lazyten
Module: TypeAlias = Any
Tensor: TypeAlias = Any
Net: TypeAlias = tuple[Module, Tensor, Tensor]
"""A model, its inputs, and the label of each result along its second axis."""

CLASSES = 10
TOKENS, LENGTH = 256, 64
UNITS = 32


def images(torch: Library, *shape: int) -> tuple[Tensor, Tensor]:
    """Random images, and a label for each."""
    random = np.random.default_rng(0)
    return (torch.tensor(random.random(shape, dtype=np.float32)),
            torch.tensor(random.integers(0, CLASSES, shape[0])))


def convolution(nn: Library, before: int, after: int, size: int, stride: int = 1,
                groups: int = 1, act: str = "ReLU") -> list[Module]:
    """A convolution, batch normalization and, unless `act` is empty, an activation."""
    layers = [nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
              nn.BatchNorm2d(after)]
    return [*layers, getattr(nn, act)()] if act else layers


def lenet(torch: Library) -> Net:
    """LeNet-5 on 28 x 28 images."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, CLASSES))
    return model, *images(torch, 32, 1, 28, 28)


def residual(torch: Library, body: Module, skip: Module, act: Module) -> Module:
    """act(body(x) + skip(x))."""
    class Residual(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.skip, self.act = body, skip, act

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.body(x) + self.skip(x))
    return Residual()


def resnet(torch: Library, blocks: tuple[int, ...], channels: int, batch: int) -> Net:
    """ResNet of so many basic blocks a stage, for images of 32 x 32."""
    nn = torch.nn
    layers, before = convolution(nn, 3, channels, 3), channels
    for stage, count in enumerate(blocks):
        after = channels << stage
        for number in range(count):
            stride = 2 if stage and not number else 1
            body = nn.Sequential(*convolution(nn, before, after, 3, stride),
                                 *convolution(nn, after, after, 3, act=""))
            skip = nn.Identity() if before == after and stride == 1 else \
                nn.Sequential(*convolution(nn, before, after, 1, stride, act=""))
            layers.append(residual(torch, body, skip, nn.ReLU()))
            before = after
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers), *images(torch, batch, 3, 32, 32)


MOBILE = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and stride of each stage, as for images of 32 x 32."""


def mobilenet(torch: Library) -> Net:
    """MobileNetV2 for images of 32 x 32."""
    nn = torch.nn
    layers, before = convolution(nn, 3, 32, 3, act="ReLU6"), 32
    for expansion, after, count, first in MOBILE:
        for number in range(count):
            stride, wide = first if number == 0 else 1, before * expansion
            wider = convolution(nn, before, wide, 1, act="ReLU6") if expansion > 1 else []
            body = nn.Sequential(*wider, *convolution(nn, wide, wide, 3, stride, wide, "ReLU6"),
                                 *convolution(nn, wide, after, 1, act=""))
            layers.append(residual(torch, body, nn.Identity(), nn.Identity())
                          if stride == 1 and before == after else body)
            before = after
    layers += [*convolution(nn, before, 1280, 1, act="ReLU6"), nn.AdaptiveAvgPool2d(1),
               nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, CLASSES)]
    return nn.Sequential(*layers), *images(torch, 16, 3, 32, 32)


INCEPTIONS = ((192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64), (),
              (480, 192, 96, 208, 16, 48, 64), (512, 160, 112, 224, 24, 64, 64),
              (512, 128, 128, 256, 24, 64, 64), (512, 112, 144, 288, 32, 64, 64),
              (528, 256, 160, 320, 32, 128, 128), (),
              (832, 256, 160, 320, 32, 128, 128), (832, 384, 192, 384, 48, 128, 128))
"""Channels of each inception block: in, of 1x1, before and of 3x3, before and of 5x5, of the pool's
projection; () for a pooling between."""


def inception(torch: Library, before: int, one: int, three_in: int, three: int, five_in: int,
              five: int, pool: int) -> Module:
    """Four branches, concatenated; the 5x5 convolution as two of 3x3."""
    nn = torch.nn

    class Inception(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(*convolution(nn, before, one, 1))
            self.three = nn.Sequential(*convolution(nn, before, three_in, 1),
                                       *convolution(nn, three_in, three, 3))
            self.five = nn.Sequential(*convolution(nn, before, five_in, 1),
                                      *convolution(nn, five_in, five, 3),
                                      *convolution(nn, five, five, 3))
            self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), *convolution(nn, before, pool, 1))

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)
    return Inception()


def googlenet(torch: Library) -> Net:
    """GoogLeNet for images of 32 x 32."""
    nn = torch.nn
    layers = [*convolution(nn, 3, 192, 3),
              *(inception(torch, *channels) if channels else nn.MaxPool2d(3, 2, 1)
                for channels in INCEPTIONS),
              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, CLASSES)]
    return nn.Sequential(*layers), *images(torch, 4, 3, 32, 32)


def gpt(torch: Library, depth: int, width: int = 128, heads: int = 4) -> Net:
    """A GPT of so many layers: pre-norm blocks of causal attention and a GELU network."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Tensor) -> Tensor:
            batch, length, _ = x.shape
            q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2)
                       for part in self.qkv(self.norm1(x)).split(width, 2))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(LENGTH, width)
            self.blocks = nn.ModuleList([Block() for _ in range(depth)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)).transpose(1, 2)
    text = np.random.default_rng(0).integers(0, TOKENS, (8, LENGTH + 1))
    return GPT(), torch.tensor(text[:, :-1].copy()), torch.tensor(text[:, 1:].copy())


def unet(torch: Library) -> Net:
    """A small U-Net with two levels, which labels each pixel of 32 x 32."""
    nn = torch.nn

    def double(before: int, after: int) -> Module:
        return nn.Sequential(*convolution(nn, before, after, 3), *convolution(nn, after, after, 3))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.middle = double(3, 16), double(16, 32), double(32, 64)
            self.up2 = nn.ConvTranspose2d(64, 32, 2, 2)
            self.up1 = nn.ConvTranspose2d(32, 16, 2, 2)
            self.join2, self.join1 = double(64, 32), double(32, 16)
            self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(16, CLASSES, 1)

        def forward(self, x: Tensor) -> Tensor:
            one = self.down1(x)
            two = self.down2(self.pool(one))
            x = self.up2(self.middle(self.pool(two)))
            x = self.up1(self.join2(torch.cat([two, x], 1)))
            return self.head(self.join1(torch.cat([one, x], 1)))
    labels = np.random.default_rng(1).integers(0, CLASSES, (8, 32, 32))
    return UNet(), images(torch, 8, 3, 32, 32)[0], torch.tensor(labels)


def lstm(torch: Library) -> Net:
    """A layer of LSTM over 50 steps, and a class of what it ends with."""
    nn = torch.nn

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(UNITS, UNITS), nn.Linear(UNITS, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0][-1])
    random = np.random.default_rng(0)
    return (Last(), torch.tensor(random.random((50, 8, UNITS), dtype=np.float32)),
            torch.tensor(random.integers(0, CLASSES, 8)))


NETS: dict[str, Callable[[Library], Net]] = {
    "lenet": lenet, "lstm": lstm,
    "gpt4": lambda torch: gpt(torch, 4), "gpt12": lambda torch: gpt(torch, 12),
    "resnet18": lambda torch: resnet(torch, (2, 2, 2, 2), 64, 32), "unet": unet,
    "mobilenetv2": mobilenet, "googlenet": googlenet,
    **{f"resnet_{n}": lambda torch, n=n: resnet(torch, (n,), 16, 8) for n in (2, 4, 8, 16, 32)},
}
