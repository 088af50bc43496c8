"""Random numbers as methods: tensors filled in place, and draws by the probabilities in a tensor.

`generator` is a `Generator`, or None for the default one. What is drawn depends on its state when
the method is called, never on when or where values are computed.
"""
from __future__ import annotations

import math
from typing import Any, Self

from lazyten import random
from lazyten.frontend.core.keywords import also_named
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.frontend.methods.order import order_along
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, reshape
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes
from lazyten.random import Generator, distributions
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

FROM_TO = {"from": "low", "to": "high"}
"""PyTorch's names of bounds."""


class RandomMethods(TensorCore[Tensor]):
    """Filling with random numbers, and drawing."""

    __slots__ = ()

    @also_named(**FROM_TO)
    def uniform_(self, low: float = 0.0, high: float = 1.0,
                 generator: Generator | None = None) -> Self:
        """Fill with numbers evenly spread over [low, high)."""
        low, high = [shapes.as_number(v, "uniform_", "a bound") for v in (low, high)]
        if low > high:
            raise ArgumentError(f"uniform_: low={low} is above high={high}; exchange them")
        unit = random.uniform(self.shape, _float_type(self, "uniform_"), self.device, generator)
        return self._update("uniform_", ew.add(ew.mul(unit, high - low), low), replaces=True)

    def normal_(self, mean: float = 0.0, std: float = 1.0,
                generator: Generator | None = None) -> Self:
        """Fill with normally distributed numbers."""
        mean, std = [shapes.as_number(v, "normal_", "mean and std") for v in (mean, std)]
        if std < 0:
            raise ArgumentError(f"normal_: std={std} is below 0; give 0 or more")
        unit = distributions.normal(self.shape, _float_type(self, "normal_"), self.device,
                                    generator)
        return self._update("normal_", ew.add(ew.mul(unit, std), mean), replaces=True)

    def log_normal_(self, mean: float = 1.0, std: float = 2.0,
                    generator: Generator | None = None) -> Self:
        """Fill with numbers whose logarithm is normally distributed, with this mean and std."""
        mean = float(shapes.as_number(mean, "log_normal_", "mean"))
        std = _positive(std, "log_normal_", "std")
        kind = _float_type(self, "log_normal_")
        return self._update("log_normal_", distributions.log_normal(
            self.shape, kind, self.device, generator, mean, std), replaces=True)

    def exponential_(self, lambd: float = 1.0, generator: Generator | None = None) -> Self:
        """Fill with numbers > 0 of density lambd * e ** (-lambd * x)."""
        rate = _positive(lambd, "exponential_", "lambd")
        kind = _float_type(self, "exponential_")
        return self._update("exponential_", distributions.exponential(
            self.shape, kind, self.device, generator, rate), replaces=True)

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0,
                generator: Generator | None = None) -> Self:
        """Fill with numbers of density sigma / (pi * (sigma**2 + (x - median)**2))."""
        median = float(shapes.as_number(median, "cauchy_", "median"))
        scale = _positive(sigma, "cauchy_", "sigma")
        return self._update("cauchy_", distributions.cauchy(
            self.shape, _float_type(self, "cauchy_"), self.device, generator, median, scale),
            replaces=True)

    def geometric_(self, p: float, generator: Generator | None = None) -> Self:
        """Fill with numbers of trials, 1 or more, up to the first success of probability p."""
        chance = shapes.as_number(p, "geometric_", "p")
        if not 0 < chance < 1:
            raise ArgumentError(f"geometric_: p={chance}; give a number between 0 and 1, without "
                                f"these")
        if self.dtype is dt.bool_:
            raise DTypeError("geometric_ on a tensor of bool: it is for numbers; convert with "
                             ".long()")
        return self._update("geometric_", distributions.geometric(
            self.shape, self.dtype, self.device, generator, chance), replaces=True)

    def bernoulli_(self, p: Any = 0.5, generator: Generator | None = None) -> Self:
        """Fill with 1 with probability p, a number or a tensor of floats, and else with 0."""
        given = self._operand(p, "bernoulli_")
        if isinstance(given, bool | int | float):
            chance = _probability(given, "bernoulli_")
            drawn = distributions.bernoulli(chance, self.shape, self.device, generator)
        else:
            kind = _float_type(given, "bernoulli_: p")
            if shapes.broadcast([given.shape, self.shape], "bernoulli_") != self.shape:
                raise ShapeError(f"bernoulli_ on shape {self.shape} with p of shape "
                                 f"{given.shape}: p must broadcast to it")
            chances = _probabilities(ew.as_node(given.detach().node, kind, self.shape),
                                     "bernoulli_")
            drawn = distributions.bernoulli(chances, self.shape, self.device, generator)
        return self._update("bernoulli_", cast(drawn, self.dtype), replaces=True)

    @also_named(**FROM_TO)
    def random_(self, low: int | None = None, high: int | None = None,
                generator: Generator | None = None) -> Self:
        """Fill with whole numbers low <= n < high; random_(high) is from 0. By default all that
        are 0 or more in an integer type, and up to 2**24 (or what is exact) in a float type."""
        kind = dt.int64 if self.dtype.is_float else self.dtype
        if high is None:
            low, high = 0, low
        most = 2 if self.dtype is dt.bool_ else (
            (1 << self.dtype.significand_bits) + 1 if self.dtype.is_float else int(kind.max) + 1)
        given = (low or 0, most if high is None else high)
        bounds = [shapes.as_int(v, "random_", "a bound") for v in given]
        drawn = distributions.integers(bounds[0], bounds[1], self.shape, kind, self.device,
                                       generator, "random_")
        return self._update("random_", cast(drawn, self.dtype), replaces=True)

    def bernoulli(self, p: float | None = None, generator: Generator | None = None) -> Tensor:
        """A tensor of 0 and 1: 1 with the probability that is the element here, or with p."""
        kind = _float_type(self, "bernoulli") if p is None else self.dtype
        chance = _probabilities(self.detach().node, "bernoulli") if p is None \
            else _probability(p, "bernoulli")
        drawn = distributions.bernoulli(chance, self.shape, self.device, generator)
        return self._fresh(cast(drawn, kind))

    def multinomial(self, num_samples: int, replacement: bool = False,
                    generator: Generator | None = None) -> Tensor:
        """Indices (int64) into a vector of weights, or into each row of a matrix of them: each is
        chosen with a probability proportional to its weight, in a row without repetition unless
        `replacement`. Weights are 0 or more; they need not add up to 1."""
        _float_type(self, "multinomial")
        count = shapes.as_int(num_samples, "multinomial", "num_samples")
        if self.ndim not in (1, 2) or not self.shape[-1]:
            raise ShapeError(f"multinomial of shape {self.shape}: give a vector of weights, or a "
                             f"matrix with a row of them for each draw")
        n = self.shape[-1]
        if count < 1 or count > n and not replacement:
            raise ArgumentError(f"multinomial: num_samples={count} of {n} weights; give 1 to {n}, "
                                f"or more with replacement=True")
        rows = _weights(reshape(self.detach().node, (self.numel() // n, n)))
        if replacement:
            chosen = distributions.weighted(rows, count, self.device, generator)
        elif count == 1:
            won = distributions.race(rows, self.device, generator)
            chosen = reductions.arg_extreme(won, 1, True, True)
        else:
            won = distributions.race(rows, self.device, generator)
            chosen = order_along(self._fresh(won), 1, False, count).node
        return self._fresh(reshape(chosen, (*self.shape[:-1], count)))


def _float_type(x: TensorCore[Tensor], operation: str) -> DType:
    if x.dtype.kind != "f":
        raise DTypeError(f"{operation} on a tensor of {x.dtype.name}: it is for floats of 16 bits "
                         f"or more; convert with .float()")
    return x.dtype


def _positive(value: Any, operation: str, name: str) -> float:
    number = float(shapes.as_number(value, operation, name))
    if not 0 < number < math.inf:
        raise ArgumentError(f"{operation}: {name}={number}; give a finite number above 0")
    return number


def _probability(value: Any, operation: str) -> float:
    number = float(shapes.as_number(value, operation, "p"))
    if not 0 <= number <= 1:
        raise ArgumentError(f"{operation}: p={number} is no probability; give 0 to 1")
    return number


def _probabilities(p: Node, operation: str) -> Node:
    """Probabilities that are checked as they are computed; NaN is none."""
    inside = ew.logical_and(ew.less_equal(0, p), ew.less_equal(p, 1))
    return ew.obeying(p, ew.invert(inside), operation,
                      "a probability is below 0, above 1 or NaN; clamp(0, 1) them")


def _weights(rows: Node) -> Node:
    """Rows of weights that are checked as they are computed."""
    kind = rows.dtype
    usable = ew.logical_and(ew.less_equal(0, rows), ew.less(rows, math.inf))
    rows = ew.obeying(rows, ew.invert(usable), "multinomial",
                      "a weight is below 0, infinite or NaN; give softmax of logits, for example")
    none = ew.equal(reductions.amax(rows, (1,), True), const(0, kind, (rows.shape[0], 1)))
    return ew.obeying(rows, none, "multinomial",
                      "all weights of a row are 0, so there is nothing to choose")
