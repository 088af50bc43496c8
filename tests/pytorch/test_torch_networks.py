"""Networks as programs for PyTorch define, set up, train and use them: with the same weights their
losses, norms of gradients and states are PyTorch's, at once and in a jitted step."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.torch.nn.utils")]
Network = tuple[Any, Callable[[Any, Any, Any], Any], list[Any]]
"""A network, its loss for the two arrays."""


def data(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape)


def residual(T: Any) -> Network:
    """Blocks with a way around them, as ResNet's."""
    nn = T.nn

    class Block(nn.Module):  # type: ignore[misc]
        expansion = 1

        def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes, momentum=None)
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            ) if stride != 1 or inplanes != planes else None

        def forward(self, x: Any) -> Any:
            around = x if self.downsample is None else self.downsample(x)
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            out += around
            return self.relu(out)

    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(3, 2, 1),
                        Block(4, 6, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
                        nn.Linear(6, 5))
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(m, nn.BatchNorm2d | nn.GroupNorm):
            nn.init.constant_(m.weight, 1)
            nn.init.constant_(m.bias, 0)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    return net, lambda net, x, y: loss(net(x), y), [
        data(4, 3, 8, 8), np.random.default_rng(0).integers(0, 5, 4)]


def mobile(T: Any) -> Network:
    """Depthwise convolutions, and channels weighed by their means, as MobileNet's."""
    nn = T.nn

    class Weighed(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc1 = nn.Conv2d(channels, 2, 1)
            self.fc2 = nn.Conv2d(2, channels, 1)
            self.activation, self.scale_activation = nn.SiLU(inplace=True), nn.Hardsigmoid()

        def forward(self, x: Any) -> Any:
            return x * self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))

    net = nn.Sequential(
        nn.Conv2d(3, 6, 1, bias=False), nn.BatchNorm2d(6, eps=0.001, momentum=0.01), nn.Hardswish(),
        nn.ReflectionPad2d(1), nn.Conv2d(6, 6, 3, 2, groups=6, bias=False), nn.GroupNorm(3, 6),
        Weighed(6), nn.PReLU(6), nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelUnshuffle(2),
        nn.Conv2d(24, 4, 3, padding="same", padding_mode="replicate"), nn.LeakyReLU(0.2),
        nn.Dropout2d(0.0), nn.AvgPool2d(2))
    loss = nn.SmoothL1Loss(beta=0.5)
    return net, lambda net, x, y: loss(net(x), y), [data(4, 3, 8, 8), data(4, 4, 2, 2)]


def normed(T: Any) -> Network:
    """Weight and spectral norms, as of WaveNets and of critics."""
    nn, U = T.nn, T.nn.utils
    net = nn.Sequential(
        U.weight_norm(nn.Conv1d(3, 4, 3, dilation=2, padding=2)), nn.ELU(), nn.InstanceNorm1d(
            4, affine=True, track_running_stats=True),
        U.parametrizations.weight_norm(nn.Conv1d(4, 4, 3, padding=1)), nn.GLU(1),
        U.spectral_norm(nn.Conv1d(2, 4, 3)), nn.Mish(), nn.Flatten(),
        U.parametrizations.spectral_norm(nn.Linear(4 * 6, 1)))
    loss = nn.BCEWithLogitsLoss(pos_weight=T.tensor([2.0]).double())
    return net, lambda net, x, y: loss(net(x), y), [data(4, 3, 8), (data(4, 1) > 0) * 1.0]


def spoken(T: Any) -> Network:
    """Embedded words of bags beside sounds whose labels have no places."""
    nn = T.nn

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.EmbeddingBag(7, 3, mode="sum", padding_idx=0)
            self.sound = nn.Conv1d(2, 3, 3, padding=1)
            self.norm, self.head = nn.LayerNorm(3), nn.Bilinear(3, 3, 5)
            self.register_buffer("bag", T.tensor([[1, 2, 0], [3, 1, 6]]))

        def forward(self, x: Any) -> Any:
            each = self.norm(self.sound(x).transpose(1, 2))
            words = self.words(self.bag).unsqueeze(1).expand(each.shape)
            return self.head(each.contiguous(), words.contiguous()).log_softmax(2).transpose(0, 1)

    loss = nn.CTCLoss(blank=0)
    return Net(), lambda net, x, y: loss(net(x), y, [6, 5], [2, 3]), [
        data(2, 2, 6), np.array([[1, 2, 0], [3, 3, 4]])]


def trained(T: Any, network: Network, jit: bool = False) -> list[Any]:
    """Losses and norms of three steps, what the network gives in use, and its state."""
    net, loss_of, arrays = network
    x, y = (T.tensor(a) for a in arrays)
    optimizer = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(net, x, y)
        loss.backward()
        norm = T.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        optimizer.step()
        return loss, norm
    call = lt.jit(step) if jit else step
    found = [float(v.detach()) for _ in range(3) for v in call(x, y)]
    net.eval()
    with T.no_grad():
        return [*found, float(loss_of(net, x, y)), *(v.detach().numpy() for v in
                                                     net.state_dict().values())]


@pytest.mark.parametrize("jit", [False, True], ids=["at once", "jitted"])
@pytest.mark.parametrize("make", [residual, mobile, normed, spoken])
def test_a_network_is_trained_as_by_pytorch(make: Callable[[Any], Network], jit: bool,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    (theirs, *_), (ours, *_) = first, second = make(torch), make(lt)
    for net in (ours, theirs):
        net.double()
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    ours.load_state_dict({n: lt.tensor(v.numpy().copy()) for n, v in theirs.state_dict().items()})
    for a, b in zip(trained(lt, second, jit), trained(torch, first), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
