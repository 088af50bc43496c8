"""A distribution and a transform of one's own, by PyTorch's protocol for them."""
import math

import torch
from torch import nn
from torch.distributions import (
    AffineTransform,
    Distribution,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
    constraints,
)
from torch.distributions.transforms import Transform


class Leaky(Transform):
    domain = codomain = constraints.real
    bijective = True
    sign = +1

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def _call(self, x):
        return torch.where(x > 0, x, self.slope * x)

    def _inverse(self, y):
        return torch.where(y > 0, y, y / self.slope)

    def log_abs_det_jacobian(self, x, y):
        return torch.where(x > 0, torch.zeros_like(x), self.slope.log().expand_as(x))


class Logistic(Distribution):
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = loc, scale
        super().__init__(loc.shape, torch.Size(), validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.real

    def rsample(self, sample_shape=()):
        u = torch.rand(self._extended_shape(sample_shape)).clamp(1e-4, 1 - 1e-4)
        return self.loc + self.scale * (u.log() - (-u).log1p())

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -z - 2 * nn.functional.softplus(-z) - self.scale.log()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(3))
        self.slope = nn.Parameter(torch.tensor(0.5))

    def forward(self, y):
        over = [Leaky(self.slope), AffineTransform(0.5, 2.0), SigmoidTransform()]
        first = TransformedDistribution(Normal(self.loc, torch.ones(3)), over)
        second = TransformedDistribution(Logistic(self.loc, torch.ones(3)), over)
        assert second.sample((2,)).shape == first.rsample((2,)).shape == (2, 3)
        assert str(first.support) == "Interval(lower_bound=0.0, upper_bound=1.0)"
        return first.log_prob(y).mean(), second.log_prob(y).mean() - math.pi


def model():
    return Model()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.05)


def batches(rng):
    return [(rng.uniform(0.1, 0.9, (4, 3)),) for _ in range(3)]


def step(model, optimizer, y):
    first, second = model(y)
    loss = -first - second
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return first.detach(), second.detach()
