"""Activations of tensors, which `lazyten.nn.functional` offers.

`inplace` writes the result to the input. 16-bit floats are computed in float32 and rounded once.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from lazyten import random
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.forms import made_of_others
from lazyten.frontend.core.mixed_precision import LOW, WIDE, casting
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node
from lazyten.nn.functions.options import placed
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes, special
from lazyten.operators.math.gradients import OfOperands, flat_in, flat_later, with_gradient
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _given(value: Scalar, name: str, what: str) -> float:
    return shapes.as_float(value, name, what)


# ---- rectifiers ----------------------------------------------------------------------------------

@takes_tensors
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return placed(input, input.relu(), inplace)


@takes_tensors
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x held between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


@takes_tensors
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, negative_slope * x elsewhere."""
    slope = _given(negative_slope, "leaky_relu", "negative_slope")
    return placed(input, input._special(lambda x: special.leaky_relu(x, slope)), inplace)


@takes_tensors
@casting(LOW)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, weight * x elsewhere; weight has one element, or one a channel (axis 1)."""
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(f"prelu: the weight has shape {weight.shape}; for an input {input.shape} "
                         f"it needs one element, or {channels}, one a channel")
    if weight.dtype is not input.dtype:
        raise DTypeError(f"prelu: the input is {input.dtype.name} and the weight "
                         f"{weight.dtype.name}; convert one")
    behind = (1,) * max(input.ndim - 2, 0)
    slope = weight.reshape(weight.numel(), *behind) if input.ndim > 1 else weight.reshape(())
    return Tensor._result(ew.where(ew.greater(input.node, 0.0), input.node,
                                   ew.mul(input.node, slope.node)), input, weight)


@takes_tensors
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    """leaky_relu with a slope for each element drawn from lower to upper; with their mean unless
    `training`."""
    low, high = _given(lower, "rrelu", "lower"), _given(upper, "rrelu", "upper")
    if low > high:
        raise ArgumentError(f"rrelu: lower={lower} is above upper={upper}; exchange them")
    if not training:
        return leaky_relu(input, (low + high) / 2, inplace)
    if not input.dtype.is_float:
        raise DTypeError(f"rrelu of {input.dtype.name}: it is for floats; convert with .float()")
    chance = random.uniform(input.shape, input.dtype, input.device)
    slope = ew.add(ew.mul(chance, high - low), low)
    return placed(input, input._unary(
        lambda x: ew.where(ew.greater(x, 0.0), x, ew.mul(x, slope))), inplace)


@takes_tensors
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where above `threshold`, `value` elsewhere."""
    limit = shapes.as_number(threshold, "threshold", "threshold")
    other = shapes.as_element(value, input.dtype, "threshold")
    if input.dtype.is_int:  # whose type the result has, as in PyTorch
        limit, other = (int(n) if math.isfinite(n) else n for n in (limit, other))
    return placed(input, input._unary(
        lambda x: ew.where(ew.less_equal(x, limit), other, flat_later(x))), inplace)


# ---- exponential units ---------------------------------------------------------------------------

@takes_tensors
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha * (e ** x - 1) elsewhere."""
    factor = _given(alpha, "elu", "alpha")
    return placed(input, input._special(lambda x: special.elu(x, factor)), inplace)


@takes_tensors
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha * (e ** (x / alpha) - 1) elsewhere."""
    scale = _given(alpha, "celu", "alpha")
    if scale == 0:
        raise ArgumentError("celu: alpha=0 divides by 0; give another number")
    return placed(input, input._special(lambda x: _celu(ew.as_float(x), scale)), inplace)


def _celu(x: Node, alpha: float) -> Node:
    powers = special.expm1(ew.true_divide(ew.clip(x, None, 0.0), alpha))
    return ew.where(ew.greater(x, 0.0), x, ew.mul(powers, alpha))


@takes_tensors
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the alpha and the scale that keep mean 0 and variance 1 from layer to layer."""
    return placed(input, input._special(
        lambda x: ew.mul(special.elu(x, SELU_ALPHA), SELU_SCALE)), inplace)


@takes_tensors
@casting(WIDE)
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e ** (beta * x)) / beta; x itself where beta * x is above `threshold`."""
    factor, limit = _given(beta, "softplus", "beta"), _given(threshold, "softplus", "threshold")
    if factor == 0:
        raise ArgumentError("softplus: beta=0 divides by 0; give another number")
    return input._special(lambda x: _softplus(ew.as_float(x), factor, limit))


def _softplus(x: Node, beta: float, threshold: float) -> Node:
    scaled = x if beta == 1 else ew.mul(x, beta)
    soft = special.softplus(scaled)
    return ew.where(ew.greater(scaled, threshold), x,
                    soft if beta == 1 else ew.true_divide(soft, beta))


@takes_tensors
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), safe for any x."""
    return input._special(special.logsigmoid)


# ---- smooth steps --------------------------------------------------------------------------------

@takes_tensors
@made_of_others
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e ** -x)."""
    return input.sigmoid()


@takes_tensors
@made_of_others
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


@takes_tensors
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x."""
    return input.gelu(approximate)


@takes_tensors
@made_of_others
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return placed(input, input.silu(), inplace)


@takes_tensors
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return placed(input, input._special(_mish), inplace)


def _mish(x: Node) -> Node:
    x = ew.as_float(x)
    return ew.mul(x, special.tanh(special.softplus(x)))


@takes_tensors
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input._special(lambda x: ew.true_divide(x, ew.add(ew.absolute(x), 1.0)))


@takes_tensors
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of its second half."""
    if input.ndim == 0:
        raise ShapeError("glu: a zero-dim tensor has no halves; give at least one axis")
    axis = shapes.axis(dim, input.ndim, "glu")
    if input.shape[axis] % 2:
        raise ShapeError(f"glu of shape {input.shape}: axis {axis} has size {input.shape[axis]}, "
                         f"which has no halves; it must be even")
    first, second = input.tensor_split(2, axis)
    return first * second.sigmoid()


# ---- in straight pieces --------------------------------------------------------------------------

@takes_tensors
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
             ) -> Tensor:
    """x held between min_val and max_val, where its gradient is 0."""
    low, high = (shapes.as_element(v, input.dtype, "hardtanh", wraps=False)
                 for v in (min_val, max_val))
    if input.dtype.is_int:
        low, high = int(low), int(high)
    if low > high:
        raise ArgumentError(f"hardtanh: min_val={min_val} is above max_val={max_val}; exchange "
                            f"them")
    return placed(input, input._unary(lambda x: _held(x, low, high)), inplace)


@dataclass(frozen=True, slots=True)
class _BetweenLimits(OfOperands):
    """The gradient of what is held between two limits: none at and beyond them."""

    low: ew.Operand
    high: ew.Operand

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        x = node.src[1]
        inside = ew.bitwise_and(ew.greater(x, self.low), ew.less(x, self.high))
        return (flat_in(x, ew.where(inside, g, 0.0)),)


def _held(x: Node, low: Scalar, high: Scalar) -> Node:
    """x held between low and high; the gradient is 0 at both."""
    value = ew.clip(x, low, high)
    return with_gradient(value, (x,), _BetweenLimits(low, high)) if x.dtype.is_float else value


@takes_tensors
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    return placed(input, input._special(lambda x: ew.true_divide(
        ew.mul(x, _held(ew.add(x, 3.0), 0.0, 6.0)), 6.0)), inplace)


@takes_tensors
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2, held between 0 and 1."""
    return placed(input, input._special(lambda x: ew.true_divide(
        _held(ew.add(x, 3.0), 0.0, 6.0), 6.0)), inplace)


@takes_tensors
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, but 0 where |x| <= lambd."""
    limit = _given(lambd, "hardshrink", "lambd")
    return input._unary(lambda x: special.hardshrink(x, limit))


@takes_tensors
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, and 0 where |x| <= lambd."""
    limit = _given(lambd, "softshrink", "lambd")
    if limit < 0:
        raise ArgumentError(f"softshrink: lambd={lambd} is below 0; give 0 or more")
    return input._special(lambda x: special.softshrink(x, limit))


@takes_tensors
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input._special(lambda x: ew.sub(ew.as_float(x), special.tanh(x)))
