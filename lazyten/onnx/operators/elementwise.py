"""Operators that give an element for an element of each input."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

import lazyten as lt
from lazyten.onnx.operators import on_arrays
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, Value, make_tensor
from lazyten.support.errors import ArgumentError

T = lt.Tensor
F = lt.nn.functional

UNARY: dict[str, Callable[[T], T]] = {
    "Abs": lt.abs, "Acos": lt.acos, "Acosh": lt.acosh, "Asin": lt.asin, "Asinh": lt.asinh,
    "Atan": lt.atan, "Atanh": lt.atanh, "Ceil": lt.ceil, "Cos": lt.cos, "Cosh": lt.cosh,
    "Erf": lt.erf, "Exp": lt.exp, "Floor": lt.floor, "IsNaN": lt.isnan, "Log": lt.log,
    "Neg": lt.neg, "Not": lt.logical_not, "Reciprocal": lt.reciprocal, "Relu": lt.relu,
    "Round": lt.round, "Sigmoid": lt.sigmoid, "Sign": lt.sign, "Sin": lt.sin, "Sinh": lt.sinh,
    "Sqrt": lt.sqrt, "Tan": lt.tan, "Tanh": lt.tanh, "BitwiseNot": lt.bitwise_not,
    "Softsign": F.softsign, "Mish": F.mish, "HardSwish": F.hardswish,
}
BINARY: dict[str, Callable[[T, T], T]] = {
    "Add": lt.add, "Sub": lt.sub, "Mul": lt.mul, "And": lt.logical_and, "Or": lt.logical_or,
    "Xor": lt.logical_xor, "Greater": lt.gt, "GreaterOrEqual": lt.ge,
    "Less": lt.lt, "LessOrEqual": lt.le, "BitwiseAnd": lt.bitwise_and,
    "BitwiseOr": lt.bitwise_or, "BitwiseXor": lt.bitwise_xor,
}
OF_INTEGERS: dict[str, Callable[..., Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "And": np.logical_and,
    "Or": np.logical_or, "Xor": np.logical_xor, "Greater": np.greater, "Less": np.less,
    "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "Not": np.logical_not}
"""What NumPy has of these, for constants (on_arrays.py)."""


def _unary(function: Callable[[T], T]) -> Callable[[T], T]:
    def apply(x: T) -> T:
        return function(x)
    return apply


def _binary(function: Callable[[T, T], T]) -> Callable[[T, T], T]:
    def apply(a: T, b: T) -> T:
        return function(a, b)
    return apply


def _arrays(name: str) -> Callable[..., Array | None] | None:
    return on_arrays.of_integers(OF_INTEGERS[name]) if name in OF_INTEGERS else None


for _name, _one in UNARY.items():
    operator(_name, arrays=_arrays(_name))(_unary(_one))
for _name, _two in BINARY.items():
    operator(_name, since=7, arrays=_arrays(_name))(_binary(_two))


@operator("Equal", since=7, foreign=True, arrays=on_arrays.of_integers(np.equal))
def equal(a: Value, b: Value) -> Value:
    """Where elements are equal; of strings, too."""
    if isinstance(a, lt.Tensor) and isinstance(b, lt.Tensor):
        return lt.eq(a, b)
    return np.asarray(np.equal(a, b), bool)


def _divisor(a: T, b: T | Array) -> T | int:
    """What a is divided by. An integer that is known is a number, as kernels divide by one with a
    product and a shift."""
    if not isinstance(b, np.ndarray):
        return b
    if a.is_floating_point() or b.ndim > a.ndim or not 0 < abs(int(b.item())) < 1 << 63:
        return make_tensor(b, str(a.device))
    return int(b.item())


@operator("Div", since=7, numbers="b", arrays=on_arrays.divided)
def divide(a: T, b: T | Array) -> T:
    """Quotients; of integers without what is behind the point."""
    by = _divisor(a, b)
    return lt.div(a, by) if a.is_floating_point() else lt.div(a, by, rounding_mode="trunc")


@operator("Mod", numbers="b", arrays=on_arrays.remainders)
def modulo(a: T, b: T | Array, *, fmod: int = 0) -> T:
    """Remainders with the divisor's sign, or the dividend's."""
    by = _divisor(a, b)
    return lt.fmod(a, by) if fmod else lt.remainder(a, by)


@operator("Pow", since=7, numbers="exponent")
def power(base: T, exponent: T | Array) -> T:
    """Powers, of the base's type. A float that is known is a number, as kernels compute whole
    powers and halves of them by products and roots."""
    if not isinstance(exponent, np.ndarray):
        return lt.pow(base, exponent).to(base.dtype)
    number = float(exponent.item())
    with np.errstate(over="ignore"):
        is_held = float(np.dtype(base.dtype.name).type(number)) == number
    if base.dtype.is_float and is_held and exponent.ndim <= base.ndim:
        return lt.pow(base, number)
    return lt.pow(base, make_tensor(exponent, str(base.device))).to(base.dtype)


@operator("BitShift")
def bit_shift(x: T, y: T, *, direction: str) -> T:
    """Bits moved to the left or right."""
    if direction not in ("LEFT", "RIGHT"):
        raise ArgumentError(f"direction {direction!r}: LEFT and RIGHT are the ones there are")
    shift = lt.bitwise_left_shift if direction == "LEFT" else lt.bitwise_right_shift
    return shift(x, y)


@operator("Max", since=6)
def maximum(*inputs: T) -> T:
    """The greatest of the inputs."""
    return functools.reduce(lt.maximum, inputs)


@operator("Min", since=6)
def minimum(*inputs: T) -> T:
    """The least of the inputs."""
    return functools.reduce(lt.minimum, inputs)


@operator("Sum", since=6)
def total(*inputs: T) -> T:
    """The sum of the inputs."""
    return functools.reduce(lt.add, inputs)


@operator("Mean", since=6)
def mean(*inputs: T) -> T:
    """The mean of the inputs."""
    return functools.reduce(lt.add, inputs) / len(inputs)


@operator("Where", moves=True, arrays=on_arrays.chosen)
def where(condition: T, x: T, y: T) -> T:
    """Elements of x where the condition holds, and of y elsewhere."""
    found: T = lt.where(condition, x, y)
    return found


@operator("IsInf")
def is_infinite(x: T, *, detect_negative: int = 1, detect_positive: int = 1) -> T:
    """Where x is infinite, of the signs asked for."""
    return (x == math.inf) & bool(detect_positive) | (x == -math.inf) & bool(detect_negative)


@operator("Clip", since=11)
def clip(x: T, low: T | None = None, high: T | None = None) -> T:
    """x within bounds; the upper one where they cross."""
    if low is not None:
        x = lt.maximum(x, low.to(x.dtype))
    return x if high is None else lt.minimum(x, high.to(x.dtype))


@operator("Clip", since=6)
def clip_6(x: T, *, min: float = -math.inf, max: float = math.inf) -> T:
    """x within bounds that are attributes."""
    return lt.clamp(x, min, max)


@operator("Elu")
def elu(x: T, *, alpha: float = 1.0) -> T:
    """x, and alpha (exp(x) - 1) where it is negative."""
    return F.elu(x, alpha)


@operator("Celu")
def celu(x: T, *, alpha: float = 1.0) -> T:
    """x, and alpha (exp(x / alpha) - 1) where it is negative."""
    return F.celu(x, alpha)


@operator("Selu")
def selu(x: T, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> T:
    """gamma times elu."""
    return F.elu(x, alpha) * gamma


@operator("Gelu")
def gelu(x: T, *, approximate: str = "none") -> T:
    """x times the normal distribution's function, or an approximation of it."""
    return F.gelu(x, approximate=approximate)


@operator("LeakyRelu")
def leaky_relu(x: T, *, alpha: float = 0.01) -> T:
    """x, and alpha x where it is negative."""
    return F.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: T, *, alpha: float = 1.0) -> T:
    """x where it is above alpha, else 0."""
    found: T = lt.where(x > alpha, x, 0)
    return found


@operator("PRelu", since=7)
def parametric_relu(x: T, slope: T) -> T:
    """x, and slope x where it is negative."""
    found: T = lt.where(x < 0, slope * x, x)
    return found


@operator("HardSigmoid")
def hard_sigmoid(x: T, *, alpha: float = 0.2, beta: float = 0.5) -> T:
    """alpha x + beta between 0 and 1."""
    return (x * alpha + beta).clamp(0, 1)


@operator("Shrink")
def shrink(x: T, *, bias: float = 0.0, lambd: float = 0.5) -> T:
    """x nearer to 0 by bias, and 0 within lambd of it."""
    found: T = lt.where(x < -lambd, x + bias, lt.where(x > lambd, x - bias, 0))
    return found.to(x.dtype)


@operator("Softplus")
def softplus(x: T) -> T:
    """log(1 + exp(x))."""
    return lt.logaddexp(x, lt.zeros_like(x))


@operator("Swish")
def swish(x: T, *, alpha: float = 1.0) -> T:
    """x sigmoid(alpha x)."""
    return x * (x * alpha).sigmoid()


@operator("Dropout", since=12, host="ratio training_mode")
def dropout(x: T, ratio: object = None, training_mode: object = None, *, seed: int = 0
            ) -> tuple[T, ...]:
    """x, and in training with elements left out; and which were kept."""
    share = 0.5 if ratio is None else float(ratio)  # type: ignore[arg-type]
    if not training_mode or share == 0:
        return x, lt.ones_like(x, dtype=lt.bool_)
    kept = lt.rand(x.shape, device=x.device) >= share
    return x * kept / (1 - share), kept


@operator("Dropout", since=10)
def dropout_10(x: T, *, ratio: float = 0.5) -> tuple[T, ...]:
    """x, as these opsets have no training; which were kept is then not said, and false here, as in
    onnxruntime."""
    return x, lt.zeros_like(x, dtype=lt.bool_)


@operator("Dropout", since=7)
def dropout_7(x: T, *, ratio: float = 0.5) -> tuple[T, ...]:
    """The same, where what is not said is of x's type."""
    return x, lt.zeros_like(x)
