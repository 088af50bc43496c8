"""Random numbers that other distributions are made of: gamma and Poisson variables.

Gamma variables are drawn by G. Marsaglia and W. Tsang's method (2000), of which each try is taken
with a probability of 95 % or more; Poisson variables by W. Hörmann's PTRS (1993), of which one in
three is not taken at most, or for small rates by counting. The first of some tries that is taken
counts, so that all lanes do the same.

Gradients flow through gamma variables implicitly (M. Figurnov, S. Mohamed and A. Mnih, "Implicit
reparameterization gradients", 2018): a value z keeps its place F(z; a) in the distribution, so
dz/da = -(dF/da) / (dF/dz).
"""
from __future__ import annotations

import math
from typing import Any

from lazyten.autograd.custom_function import Function, once_differentiable
from lazyten.distributions.distribution import choose, uniform_like
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import tensor
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import randn
from lazyten.frontend.tensor import Tensor

TRIES = 12
POISSON_TRIES = 20
FEW = 10.0
MOST_OF_FEW = 64
"""Poisson variables of a rate below FEW are above it once in 10**28."""
STEP, FIRST, NODES = 0.06, -3.6, 96
TERMS = 20


def standard_gamma(concentration: Tensor, shape: Size) -> Tensor:
    """Gamma variables of rate 1; gradients flow to the concentration."""
    drawn: Tensor = _StandardGamma.apply(concentration.expand(*shape))
    return drawn


@takes_tensors
def _standard_gamma(concentration: Tensor) -> Tensor:
    return standard_gamma(concentration, concentration.shape)


@takes_tensors
def _sample_dirichlet(concentration: Tensor) -> Tensor:
    drawn = standard_gamma(concentration, concentration.shape)
    return drawn / drawn.sum(-1, keepdim=True)


def poisson(rate: Tensor, shape: Size) -> Tensor:
    """Poisson variables, as floats, without gradients."""
    rate = rate.detach()
    few = _counted(rate.clamp(max=FEW), shape)
    return choose(rate < FEW, few, _hoermann(rate.clamp(min=FEW), shape))


def first_taken(values: Tensor, taken: Tensor) -> Tensor:
    """Of tries along the first axis the first that is taken, the last if none is."""
    found = values[-1]
    for number in reversed(range(len(values) - 1)):
        found = choose(taken[number], values[number], found)
    return found


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        z = _marsaglia_tsang(a)
        ctx.save_for_backward(a, z)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        a, z = ctx.saved_tensors
        return gradient * standard_gamma_slope(a, z)


def _marsaglia_tsang(a: Tensor) -> Tensor:
    small = a < 1  # drawn for a + 1, and times a power of a uniform variable
    d = choose(small, a + 1, a) - 1 / 3
    wide = Size((TRIES, *a.shape))
    x = randn(*wide, dtype=a.dtype, device=a.device)
    v = (1 + x / (9 * d).sqrt())**3
    taken = (v > 0) & (uniform_like(wide, a).log() < x * x / 2 + d - d * v
                       + d * v.clamp(min=1e-30).log())
    factor = (uniform_like(a.shape, a).log() / a).exp()
    drawn = d * first_taken(v, taken) * choose(small, factor, 1.0)
    return drawn.clamp(min=finfo(a.dtype).tiny)  # at 0 there would be no density


def standard_gamma_slope(a: Tensor, z: Tensor) -> Tensor:
    """dz/da of gamma variables z that keep their place in the distribution.

    To about 1e-9 of the slope in float64, and 1e-4 in float32 (PyTorch's: 1e-3).
    """
    return choose(z < 1, _slope_by_series(a, z.clamp(max=1.0)),
                  _slope_by_integral(a, z.clamp(min=1.0)))


def _slope_by_series(a: Tensor, z: Tensor) -> Tensor:
    """By the derivative of the power series F = z**a exp(-z) / Gamma(a + 1) * (1 + z / (a + 1)
    + z**2 / ((a + 1) * (a + 2)) + ...), of z up to 1."""
    term, slope = a * 0 + 1, a * 0
    total, slopes = term, slope
    for n in range(1, TERMS):
        factor = z / (a + n)
        term, slope = term * factor, (slope - term / (a + n)) * factor
        total, slopes = total + term, slopes + slope
    return -z / a * (total * (z.log() - (a + 1).digamma()) + slopes)


def _slope_by_integral(a: Tensor, z: Tensor) -> Tensor:
    """By the integral from 0 to z of f(t) / f(z) * (digamma(a) - log t) dt, of the density f.

    As the integral over all t is 0, it is also that from z on of its negative. Of both the one is
    taken whose integrand has no change of sign, so nothing cancels: with t = z * exp(s), s from 0
    to plus or minus infinity. The sum is over s = exp(sinh(u) * pi / 2) with even steps of u
    (H. Takahasi and M. Mori, 1974).
    """
    gap = z.log() - a.digamma()
    side = choose(gap > 0, 1.0, -1.0).to(a.dtype)
    places = [FIRST + STEP * number for number in range(NODES)]
    s = [math.exp(math.pi / 2 * math.sinh(u)) for u in places]
    weights = [STEP * math.pi / 2 * math.cosh(u) * at for u, at in zip(places, s, strict=True)]
    shape = (NODES, *[1] * a.ndim)
    at, weight = (tensor(values, dtype=a.dtype, device=a.device).reshape(shape)
                  for values in (s, weights))
    log_ratio = side * a * at - z * (side * at).expm1()
    return z * (weight * log_ratio.exp() * (side * gap + at)).sum(0)


def _counted(rate: Tensor, shape: Size) -> Tensor:
    """How many exponential variables come to less than the rate together."""
    waits = -uniform_like(Size((MOST_OF_FEW, *shape)), rate).log()
    return (waits.cumsum(0) < rate).to(rate.dtype).sum(0)


def _hoermann(rate: Tensor, shape: Size) -> Tensor:
    """For rates of 10 or more: a ratio of uniforms, transformed so that most tries are taken."""
    wide = Size((POISSON_TRIES, *shape))
    u, v = uniform_like(wide, rate) - 0.5, uniform_like(wide, rate)
    b = 0.931 + 2.53 * rate.sqrt()
    a = 0.02483 * b - 0.059
    edge = 0.5 - u.abs()
    k = ((2 * a / edge + b) * u + rate + 0.43).floor()
    inside = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    outside = (k < 0) | ((edge < 0.013) & (v > edge))
    kept = k.clamp(min=0)
    height = v.log() + (1.1239 + 1.1328 / (b - 3.4)).log() - (a / (edge * edge) + b).log()
    wide_rate, wide_kept = rate.double(), kept.double()  # large terms cancel
    below = height <= wide_kept * wide_rate.log() - wide_rate - (wide_kept + 1).lgamma()
    return first_taken(kept, inside | (~outside & below))
