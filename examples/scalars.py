"""Reverse-mode differentiation of numbers, from nothing: what `backward()` does, small.

In: Python's floats. Out: values that know what they were made of, and derivatives. Called by
course.py; docs/autodiff.md does the same for tensors.
"""
from __future__ import annotations

import math
from collections.abc import Sequence


class Scalar:
    """A number, what it was made of, and the derivative of the result by each of those.

    `gradient` is that of the value on which `backward()` was called, by this one.
    """

    def __init__(self, value: float, made_of: Sequence[tuple[Scalar, float]] = ()) -> None:
        self.value, self.made_of, self.gradient = value, made_of, 0.0

    def __add__(self, other: Scalar | float) -> Scalar:
        other = _scalar(other)
        return Scalar(self.value + other.value, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other: Scalar | float) -> Scalar:
        other = _scalar(other)
        return Scalar(self.value * other.value, [(self, other.value), (other, self.value)])

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self + -1.0 * _scalar(other)

    def tanh(self) -> Scalar:
        value = math.tanh(self.value)
        return Scalar(value, [(self, 1 - value * value)])

    def softplus(self) -> Scalar:
        """log(1 + exp(x)), of which the slope is the logistic function."""
        value = max(self.value, 0.0) + math.log1p(math.exp(-abs(self.value)))
        return Scalar(value, [(self, math.exp(self.value - value))])

    def backward(self) -> None:
        """Add the derivative of this value to the gradient of each value that it was made of.

        A value is reached after all that was made of it, so its gradient is complete by then: the
        chain rule, one product for each place where a value is used.
        """
        self.gradient += 1.0
        for scalar in reversed(_in_order(self)):
            for source, slope in scalar.made_of:
                source.gradient += scalar.gradient * slope


def _scalar(value: Scalar | float) -> Scalar:
    return value if isinstance(value, Scalar) else Scalar(value)


def _in_order(result: Scalar) -> list[Scalar]:
    """All values that the result was made of, each after those that it was made of itself."""
    order: list[Scalar] = []
    seen, stack = set(), [(result, False)]
    while stack:
        scalar, done = stack.pop()
        if done:
            order.append(scalar)
        elif id(scalar) not in seen:
            seen.add(id(scalar))
            stack.append((scalar, True))
            stack.extend((source, False) for source, _ in scalar.made_of)
    return order
