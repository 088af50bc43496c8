"""Small models of many kinds, trained beside PyTorch in float64: the losses of five steps of Adam
in `lt.jit` are its own, to ten digits. Each model is written once, for both."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

STEPS = 5
Loss = Callable[..., Any]


class Maker:
    """Parameters and data of one framework, the same for each."""

    def __init__(self, framework: Any, tensor: Callable[[Any], Any]) -> None:
        self.framework, self.tensor = framework, tensor
        self.random = np.random.default_rng(0)
        self.parameters: list[Any] = []

    def weight(self, *shape: int) -> Any:
        values = self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        self.parameters.append(self.tensor(values).requires_grad_())
        return self.parameters[-1]

    def ones(self, n: int) -> Any:
        self.parameters.append(self.tensor(np.ones(n)).requires_grad_())
        return self.parameters[-1]

    def data(self, *shape: int) -> Any:
        return self.tensor(self.random.normal(size=shape))

    def labels(self, shape: int | Sequence[int], classes: int) -> Any:
        return self.tensor(self.random.integers(0, classes, shape))


def gated_recurrence(m: Maker) -> tuple[Loss, list[Any]]:
    """A GRU over 12 steps."""
    T, F = m.framework, m.framework.nn.functional
    hidden = 8
    wide, deep = m.weight(3 * hidden, 5), m.weight(3 * hidden, hidden)
    head = m.weight(4, hidden)

    def loss(x: Any, y: Any) -> Any:
        h = T.zeros(6, hidden, dtype=T.float64, device="cpu")
        for t in range(x.shape[1]):
            a, b = F.linear(x[:, t], wide).chunk(3, 1), F.linear(h, deep).chunk(3, 1)
            reset, keep = T.sigmoid(a[0] + b[0]), T.sigmoid(a[1] + b[1])
            h = keep * h + (1 - keep) * T.tanh(a[2] + reset * b[2])
        return F.cross_entropy(F.linear(h, head), y)
    return loss, [m.data(6, 12, 5), m.labels(6, 4)]


def generator(m: Maker) -> tuple[Loss, list[Any]]:
    """Transposed convolutions from a 1x1 image up."""
    T, F = m.framework, m.framework.nn.functional
    first, second, third = m.weight(6, 8, 4, 4), m.weight(8, 5, 4, 4), m.weight(5, 1, 3, 3)

    def loss(z: Any, x: Any) -> Any:
        h = F.leaky_relu(F.conv_transpose2d(z, first), 0.2)
        h = F.leaky_relu(F.conv_transpose2d(h, second, stride=2, padding=1), 0.2)
        h = T.tanh(F.conv_transpose2d(h, third, stride=2, padding=1, output_padding=1))
        return F.l1_loss(h, x)
    return loss, [m.data(4, 6, 1, 1), m.data(4, 1, 16, 16)]


def u_net(m: Maker) -> tuple[Loss, list[Any]]:
    """Down, up again, and what was there before beside it."""
    T, F = m.framework, m.framework.nn.functional
    down, middle = m.weight(4, 1, 3, 3), m.weight(8, 4, 3, 3)
    up, merge, last = m.weight(8, 4, 2, 2), m.weight(4, 8, 3, 3), m.weight(1, 4, 1, 1)

    def loss(x: Any, y: Any) -> Any:
        a = F.relu(F.conv2d(x, down, padding=1))
        h = F.relu(F.conv2d(F.max_pool2d(a, 2), middle, padding=1))
        h = T.cat([F.conv_transpose2d(h, up, stride=2), a], 1)
        return F.mse_loss(F.conv2d(F.relu(F.conv2d(h, merge, padding=1)), last), y)
    return loss, [m.data(2, 1, 12, 12), m.data(2, 1, 12, 12)]


def separable(m: Maker) -> tuple[Loss, list[Any]]:
    """Depthwise and pointwise convolutions with batch norm, and a squeeze of the channels."""
    T, F = m.framework, m.framework.nn.functional
    stem, head = m.weight(6, 3, 3, 3), m.weight(4, 10)
    layers = [(m.weight(a, 1, 3, 3), m.weight(b, a, 1, 1), m.ones(b), m.weight(b), stride)
              for a, b, stride in ((6, 8, 1), (8, 10, 2))]
    narrow, wide = m.weight(3, 10), m.weight(10, 3)

    def loss(x: Any, y: Any) -> Any:
        h = F.relu(F.conv2d(x, stem, stride=2, padding=1))
        for depthwise, pointwise, scale, shift, stride in layers:
            h = F.conv2d(h, depthwise, stride=stride, padding=1, groups=h.shape[1])
            h = F.silu(F.batch_norm(F.conv2d(h, pointwise), None, None, scale, shift, True))
        gate = T.sigmoid(F.linear(F.relu(F.linear(h.mean((2, 3)), narrow)), wide))
        return F.cross_entropy(F.linear((h * gate[:, :, None, None]).mean((2, 3)), head), y)
    return loss, [m.data(4, 3, 14, 14), m.labels(4, 4)]


def language_model(m: Maker) -> tuple[Loss, list[Any]]:
    """Causal attention, RMS norm and a gated layer, over tied embeddings."""
    T, F = m.framework, m.framework.nn.functional
    words, width, heads, length = 20, 8, 2, 6
    table, places = m.weight(words, width), m.weight(length, width)
    layers = [(m.ones(width), m.weight(3 * width, width), m.weight(width, width), m.ones(width),
               *(m.weight(2 * width, width) for _ in range(2)), m.weight(width, 2 * width))
              for _ in range(2)]

    def norm(h: Any, scale: Any) -> Any:
        return h * T.rsqrt((h * h).mean(-1, keepdim=True) + 1e-5) * scale

    def loss(x: Any, y: Any) -> Any:
        h = F.embedding(x, table) + places
        for before, qkv, out, between, up, gate, down in layers:
            parts = F.linear(norm(h, before), qkv).reshape(3, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + F.linear(found.transpose(1, 2).reshape(3, length, width), out)
            inner = norm(h, between)
            h = h + F.linear(F.silu(F.linear(inner, up)) * F.linear(inner, gate), down)
        return F.cross_entropy(F.linear(h, table).reshape(-1, words), y.reshape(-1))
    return loss, [m.labels((3, length), words), m.labels((3, length), words)]


def patches(m: Maker) -> tuple[Loss, list[Any]]:
    """Image patches mixed along places and along channels, with layer norm and GELU."""
    F = m.framework.nn.functional
    places, width = 9, 6
    embed, head = m.weight(width, 12), m.weight(3, width)
    layers = [(m.ones(width), m.weight(width), m.weight(10, places), m.weight(places, 10),
               m.weight(12, width), m.weight(width, 12)) for _ in range(2)]

    def loss(x: Any, y: Any) -> Any:
        cut = x.reshape(4, 3, 3, 2, 3, 2).permute(0, 2, 4, 1, 3, 5).reshape(4, places, 12)
        h = F.linear(cut, embed)
        for scale, shift, into, back, up, down in layers:
            across = F.layer_norm(h, (width,), scale, shift).transpose(1, 2)
            h = h + F.linear(F.gelu(F.linear(across, into)), back).transpose(1, 2)
            h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (width,)), up)), down)
        return F.cross_entropy(F.linear(h.mean(1), head), y)
    return loss, [m.data(4, 3, 6, 6), m.labels(4, 3)]


def audio(m: Maker) -> tuple[Loss, list[Any]]:
    """Causal convolutions, each with twice the dilation of the one before."""
    F = m.framework.nn.functional
    layers = [m.weight(5, channels, 3) for channels in (2, 5, 5)]
    last = m.weight(2, 5, 1)

    def loss(x: Any, y: Any) -> Any:
        h = x
        for i, weight in enumerate(layers):
            h = F.relu(F.conv1d(F.pad(h, (2 ** (i + 1), 0)), weight, dilation=2 ** i))
        return F.mse_loss(F.conv1d(h, last), y)
    return loss, [m.data(3, 2, 20), m.data(3, 2, 20)]


def losses(maker: Maker, model: Callable[[Maker], tuple[Loss, list[Any]]],
           wrap: Callable[[Any], Any]) -> list[float]:
    loss, data = model(maker)
    optimizer = maker.framework.optim.Adam(maker.parameters, lr=1e-2)

    def step(*data: Any) -> Any:
        optimizer.zero_grad()
        found = loss(*data)
        found.backward()
        optimizer.step()
        return found.detach()
    step = wrap(step)
    return [step(*data).item() for _ in range(STEPS)]


@pytest.mark.parametrize("model", [gated_recurrence, generator, u_net, separable, language_model,
                                   patches, audio], ids=lambda f: f.__name__)
def test_a_model_is_trained_as_by_pytorch(model: Callable[[Maker], tuple[Loss, list[Any]]]) -> None:
    ours = losses(Maker(lt, lambda a: lt.tensor(a, device="cpu")), model, lt.jit)
    theirs = losses(Maker(torch, torch.tensor), model, lambda f: f)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
