"""`make_tensor`: tensors of random numbers to test with, under PyTorch's name and limits."""
from __future__ import annotations

import math
from typing import Any

from lazyten.frontend.complexes.making import complex
from lazyten.frontend.core.keywords import MemoryFormat
from lazyten.frontend.functions import full, where
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import rand, randint
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError


def make_tensor(*shape: Any, dtype: DType, device: Any = None, low: float | None = None,
                high: float | None = None, requires_grad: bool = False,
                noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: MemoryFormat | None = None) -> Tensor:
    """Numbers drawn evenly from low <= x < high: by default -9 to 9 for floats and the parts of
    complex numbers, -9 to 9 inclusive for integers (0 to 9 where there is no sign), False or True.

    exclude_zero: 1 in place of zeros, the least normal number in floats. noncontiguous: every
    second element of a longer last axis. ArgumentError for an empty interval, for gradients of
    integers, and for both noncontiguous and memory_format.
    """
    if noncontiguous and memory_format is not None:
        raise ArgumentError("make_tensor: noncontiguous and memory_format both say how elements "
                            "lie; give one")
    sizes = shapes.new_shape(shape, "make_tensor")
    is_spread = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if is_spread else sizes
    if dtype.is_complex:
        parts = [_drawn(drawn, dtype.component, device, low, high, exclude_zero) for _ in range(2)]
        made: Tensor = complex(*parts)
    else:
        made = _drawn(drawn, dtype, device, low, high, exclude_zero)
    if is_spread:
        made = made[..., ::2]
    elif memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made


def _drawn(sizes: tuple[int, ...], dtype: DType, device: Any, low: float | None,
           high: float | None, exclude_zero: bool) -> Tensor:
    """Real numbers in an interval, whose ends are held to what the type has."""
    first, last = _usual(dtype)
    first, last = first if low is None else low, last if high is None else high
    if not first < last:
        raise ArgumentError(f"make_tensor: low={first} and high={last} leave no numbers; low must "
                            f"be less than high")
    if dtype.is_float:
        most = float(finfo(dtype).max)
        first, last = max(first, -most), min(last, most)
        made = (rand(sizes, dtype=dtype, device=device) * (last - first) + first).clamp(
            max=last)
        least: float = float(finfo(dtype).tiny)
    else:
        made = randint(max(math.ceil(first), int(dtype.min)),
                       min(math.ceil(last), int(dtype.max) + 1), sizes, device=device).to(dtype)
        least = 1
    return where(made == 0, full((), least, dtype=dtype, device=device), made) \
        if exclude_zero else made


def _usual(dtype: DType) -> tuple[float, float]:
    """Where numbers of a type are drawn from if nothing is said."""
    if dtype is dt.bool_:
        return 0, 2
    return (-9, 9) if dtype.is_float else (0 if dtype.kind == "u" else -9, 10)
