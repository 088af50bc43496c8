"""Random numbers of each distribution, from lazyten.random's words.

In: a shape, a dtype, a device and a generator (None: the default one), and parameters. Out: a GRAPH
node. Numbers are computed by exact arithmetic or by portable.py, so they have the same bits on
every device that has float64; those of 16-bit floats are computed in float32, integers' in float64.
"""
from __future__ import annotations

import math
from functools import partial

import numpy as np

from lazyten import random
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, cast, const, elementwise, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import searching
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import portable, reductions, scans, special
from lazyten.operators.math.elementwise import Operand
from lazyten.random import Array, Generator, bits, unit
from lazyten.storage.device import widest_float
from lazyten.support.errors import ArgumentError, DTypeError

WEIGHT_BITS = 52
"""The weights of a multinomial draw, as whole numbers, add up to less than 2 ** this."""


def _wide(dtype: DType, device: str) -> DType:
    """What numbers are computed in that become `dtype`."""
    if dtype.is_half:
        return dt.float32
    return dtype if dtype.is_float else widest_float(device)


def _open_unit(shape: Shape, dtype: DType, device: str, generator: Generator | None) -> Node:
    """Evenly spread over (0, 1), in the middle of steps of 2**-23 (float64: 2**-52)."""
    first, second = bits(math.prod(shape), device, generator)
    kept = dtype.significand_bits - 1
    word = _joined(first, second) if dtype is dt.float64 else first
    whole = cast(ew.shift_right(word, word.dtype.bits - kept), dtype)
    return reshape(ew.mul(ew.add(whole, 0.5), 2.0**-kept), shape)


def normal(shape: Shape, dtype: DType, device: str, generator: Generator | None = None) -> Node:
    """Normally distributed with mean 0 and variance 1 (Box and Muller's transform)."""
    first, second = bits(math.prod(shape), device, generator)
    wide = _wide(dtype, device)
    if wide is dt.float64:
        other = random.threefry(first, second, const(1, dt.uint32, first.shape),
                                const(2, dt.uint32, first.shape))
        radius, angle = unit(first, second, wide), unit(*other, wide)
    else:
        radius, angle = unit(first, second, wide), unit(second, first, wide)
    length = special.sqrt(ew.mul(portable.log(ew.sub(1.0, radius)), -2.0))
    value = ew.mul(length, portable.sine(ew.sub(0.5, angle)))
    return reshape(cast(value, dtype), shape)


def log_normal(shape: Shape, dtype: DType, device: str, generator: Generator | None,
               mean: float, std: float) -> Node:
    """e ** x for a normally distributed x."""
    power = ew.add(ew.mul(normal(shape, _wide(dtype, device), device, generator), std), mean)
    return cast(portable.exp(power), dtype)


def exponential(shape: Shape, dtype: DType, device: str, generator: Generator | None,
                rate: float) -> Node:
    """Numbers > 0 with density rate * e ** (-rate * x)."""
    value = portable.log(_open_unit(shape, _wide(dtype, device), device, generator))
    return cast(ew.mul(value, -1.0 / rate), dtype)


def cauchy(shape: Shape, dtype: DType, device: str, generator: Generator | None,
           median: float, scale: float) -> Node:
    """The tangent of an angle that is evenly spread over (-pi/2, pi/2), scaled and moved."""
    turns = ew.mul(ew.sub(_open_unit(shape, _wide(dtype, device), device, generator), 0.5), 0.5)
    cosine = portable.sine(ew.sub(0.25, ew.absolute(turns)))
    tangent = ew.true_divide(portable.sine(turns), cosine)
    return cast(ew.add(ew.mul(tangent, scale), median), dtype)


def geometric(shape: Shape, dtype: DType, device: str, generator: Generator | None,
              p: float) -> Node:
    """How many trials, each a success with probability p, there are to the first success."""
    value = portable.log(_open_unit(shape, widest_float(device), device, generator))
    trials = ew.add(special.floor(ew.true_divide(value, math.log1p(-p))), 1.0)
    return cast(trials, dtype)


def bernoulli(p: Operand, shape: Shape, device: str, generator: Generator | None) -> Node:
    """Whether (bool) an event of probability p, a number or a node of `shape`, happens."""
    wide = _wide(p.dtype, device) if isinstance(p, Node) else widest_float(device)
    drawn = random.uniform(shape, wide, device, generator)
    return ew.less(drawn, cast(p, wide) if isinstance(p, Node) else p)


def integers(low: int, high: int, shape: Shape, dtype: DType, device: str,
             generator: Generator | None = None, operation: str = "randint") -> Node:
    """Whole numbers low <= n < high: what 64 random bits leave of a division by the span, which
    favours some by less than 2**-32 of the probability; of 128 bits for a span above 2**32."""
    if low >= high:
        raise ArgumentError(f"{operation}: low={low} must be below high={high}")
    if dtype is dt.bool_:
        return cast(_bits_of_bool(low, high, shape, device, generator, operation), dtype)
    if not dtype.is_int:
        raise DTypeError(f"{operation}: {dtype.name} is not an integer type")
    if low < dtype.min or high - 1 > dtype.max:
        raise ArgumentError(f"{operation}: {low} to {high - 1} does not fit in {dtype.name}, which "
                            f"is {dtype.min} to {dtype.max}")
    first, second = bits(math.prod(shape), device, generator)
    word, span = _joined(first, second), high - low
    if span <= 1 << 32:
        word = elementwise(Op.MOD, word, const(span, dt.uint64, word.shape))
    elif span < 1 << 64:
        one, two = (const(n, dt.uint32, first.shape) for n in (1, 2))
        word = _scaled(word, _joined(*random.threefry(first, second, one, two)), span)
    return reshape(ew.add(cast(word, dtype), const(low, dtype, word.shape)), shape)


def _joined(first: Node, second: Node) -> Node:
    """Two words of 32 bits as one of 64."""
    return ew.bitwise_or(ew.shift_left(cast(first, dt.uint64), 32), cast(second, dt.uint64))


def _scaled(high: Node, low: Node, span: int) -> Node:
    """floor(r * span / 2**128) of r = 2**64 * high + low: two uint64, and a span below 2**64."""
    middle = ew.mul(high, const(span, dt.uint64, high.shape))
    total = ew.add(middle, _high_product(low, span))
    return ew.add(_high_product(high, span), cast(ew.less(total, middle), dt.uint64))


def _high_product(x: Node, factor: int) -> Node:
    """The upper 64 bits of a product of 128, of a uint64 and a number below 2**64."""
    half = (1 << 32) - 1
    parts = ew.shift_right(x, 32), ew.bitwise_and(x, half)
    (both_high, high), (crossed, both_low) = (
        [ew.mul(part, const(f, dt.uint64, x.shape)) for f in (factor >> 32, factor & half)]
        for part in parts)
    carried = ew.add(ew.add(ew.shift_right(both_low, 32), ew.bitwise_and(high, half)),
                     ew.bitwise_and(crossed, half))
    upper = ew.add(ew.shift_right(high, 32), ew.shift_right(crossed, 32))
    return ew.add(both_high, ew.add(upper, ew.shift_right(carried, 32)))


def _bits_of_bool(low: int, high: int, shape: Shape, device: str, generator: Generator | None,
                  operation: str) -> Node:
    if low < 0 or high > 2:
        raise ArgumentError(f"{operation}: low={low} and high={high} do not fit in bool, which is "
                            f"0 to 1")
    return integers(low, high, shape, dt.uint8, device, generator, operation)


def permutation(count: int, device: str, generator: Generator | None = None) -> Node:
    """A random order of range(count), int64, made on the host: that is quicker than to sort."""
    make = partial(_order, random.chosen(generator), count)
    return random.host_array(make, dt.int64, count, device)


def _order(generator: Generator, count: int, examples: int) -> Array:
    orders = []
    for _ in range(examples):
        seed, first = generator.take(count)
        orders.append(np.random.default_rng((seed, first)).permutation(count))
    return np.array(orders)


# ---- choosing by weight --------------------------------------------------------------------------

def weighted(weights: Node, count: int, device: str, generator: Generator | None) -> Node:
    """`count` indices (int64) for each row of float weights, with probabilities proportional to
    them, independently.

    Weights become whole numbers, up to 2**WEIGHT_BITS in all: sums of these are exact. A weight
    that is that much less than the greatest, negative or NaN is never chosen.
    """
    rows, n = weights.shape
    wide = cast(weights, widest_float(device))
    share = ew.true_divide(wide, reductions.amax(wide, (1,), True))
    whole = cast(ew.mul(ew.maximum(share, 0.0), 2.0 ** (WEIGHT_BITS - n.bit_length())), dt.int64)
    sums = scans.cumulative_sum(whole, 1)
    total = move(Op.SHRINK, sums, ((0, rows), (n - 1, n)))
    drawn = random.uniform((rows, count), wide.dtype, device, generator)
    place = cast(ew.mul(drawn, cast(total, wide.dtype)), dt.int64)
    at = searching.found_places(sums, ew.minimum(place, ew.sub(total, 1)), True)
    return ew.minimum(at, n - 1)


def race(weights: Node, device: str, generator: Generator | None) -> Node:
    """When each of the weights of a row wins, float64 if the device has that: the k least are k
    indices chosen one after the other, without those chosen before (exponential waiting times,
    divided by the weights, of which -0.0 is 0)."""
    wide = widest_float(device)
    waiting = exponential(weights.shape, wide, device, generator, 1.0)
    return ew.true_divide(waiting, ew.absolute(cast(weights, wide)))
