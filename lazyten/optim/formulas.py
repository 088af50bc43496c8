"""Functions of numbers and of zero-dim tensors alike: what formulas of steps are written in."""
from __future__ import annotations

import math
from typing import Any

from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor


def power(base: float, exponent: Any) -> Any:
    """base ** exponent, of a base that is 0 or more."""
    if not isinstance(exponent, Tensor):
        return base**exponent
    return (exponent * math.log(base)).exp() if base else exponent * 0


def lacking(beta: float, t: Any) -> Any:
    """1 - beta ** t, without the loss of the difference in 32 bits: what an average that began at 0
    has reached of its size after t steps."""
    if not isinstance(t, Tensor):
        return 1 - beta**t
    return -(t * math.log(beta)).expm1() if beta else t * 0 + 1


def root(x: Any) -> Any:
    """The square root; NaN of what is below 0."""
    if isinstance(x, Tensor):
        return x.sqrt()
    return math.sqrt(x) if x >= 0 else math.nan


def greater(x: Any, limit: float) -> Any:
    """x, but not below `limit`."""
    return x.clamp(min=limit) if isinstance(x, Tensor) else max(x, limit)


def lesser(x: Any, y: Any) -> Any:
    """The lesser of two."""
    if isinstance(x, Tensor):
        return x.minimum(y)
    return y.minimum(x) if isinstance(y, Tensor) else min(x, y)


def choice(condition: Any, x: Any, y: Any) -> Any:
    """x where a condition holds, else y."""
    return where(condition, x, y) if isinstance(condition, Tensor) else x if condition else y


def power_of(x: Any, exponent: float) -> Any:
    """x ** exponent, of an x that changes."""
    return x**exponent
