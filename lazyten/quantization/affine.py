"""Integers in place of floats, each with a scale and a zero point.

    integer = round(value / scale) + zero point, held to the integers there are
    value   = (integer - zero point) * scale

so within the range of the integers a value is at most half a scale off. Rounding is to the nearest,
of two as near to the even one. `fake_quantize_per_tensor_affine` and `_per_channel_affine` do both,
under PyTorch's names: what they give are floats that have integers, and gradients flow straight
through where no integer was held (Y. Bengio and others, "Estimating or propagating gradients
through stochastic neurons", 2013).
"""
from __future__ import annotations

from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

Number = Tensor | float | int


def unheld(x: Tensor, scale: Number, zero_point: Number) -> Tensor:
    """Whole numbers, as floats, before they are held to the integers there are."""
    whole = (x * (1.0 / scale)).round()
    return whole + zero_point if isinstance(zero_point, Tensor) or zero_point != 0 else whole


def to_integers(x: Tensor, scale: Number, zero_point: Number, low: Number, high: Number) -> Tensor:
    """Integers of floats, as floats."""
    return unheld(x, scale, zero_point).clamp(low, high)


def from_integers(whole: Tensor, scale: Number, zero_point: Number) -> Tensor:
    """What integers, given as floats, stand for."""
    if isinstance(zero_point, Tensor) or zero_point != 0:
        whole = whole - zero_point
    return whole * scale


def straight_through(x: Tensor, value: Tensor, where: Tensor | None = None) -> Tensor:
    """`value`, with the gradient that x would have, but for 0 where `where` is False."""
    through = x - x.detach()
    return value.detach() + (through if where is None else functions.where(where, through, 0.0))


def faked(x: Tensor, scale: Number, zero_point: Number, low: Number, high: Number) -> Tensor:
    """from_integers(to_integers(x)), straight through where nothing is held."""
    whole = unheld(x.detach(), scale, zero_point)
    held = whole.clamp(low, high)
    return straight_through(x, from_integers(held, scale, zero_point), whole == held)


@takes_tensors
def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: int,
                                    quant_max: int) -> Tensor:
    """What is left of floats that become integers from quant_min to quant_max, with one scale and
    one zero point, numbers or tensors of one element. The gradient is that of the result where an
    integer is in this range, else 0; scale and zero_point get none."""
    name = "fake_quantize_per_tensor_affine"
    _check(name, input, quant_min, quant_max)
    if not isinstance(zero_point, Tensor) and not quant_min <= shapes.as_int(
            zero_point, name, "zero_point") <= quant_max:
        raise ArgumentError(f"{name}: zero_point={zero_point} is outside quant_min={quant_min} to "
                            f"quant_max={quant_max}; it is one of these integers")
    return faked(input, _one(scale, input, name, "scale"),
                 _one(zero_point, input, name, "zero_point"), quant_min, quant_max)


def _one(value: Any, input: Tensor, name: str, what: str) -> Tensor:
    """A number, or a tensor of one element, in the type of the input. ShapeError for several."""
    if not isinstance(value, Tensor):
        return functions.tensor(shapes.as_number(value, name, what), dtype=input.dtype,
                                device=input.device)
    if value.numel() != 1:
        raise ShapeError(f"{name}: {what} has shape {value.shape}; it is one number, and "
                         f"fake_quantize_per_channel_affine takes one for each channel")
    return value.detach().reshape(()).to(input.dtype)


@takes_tensors
def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int,
                                     quant_min: int, quant_max: int) -> Tensor:
    """fake_quantize_per_tensor_affine with a scale and a zero point for each place of an axis: both
    have the shape (size of the axis,)."""
    name = "fake_quantize_per_channel_affine"
    _check(name, input, quant_min, quant_max)
    axis = shapes.axis(axis, input.ndim, name)
    wanted = (input.shape[axis],)
    for what, value in (("scale", scale), ("zero_point", zero_point)):
        if value.shape != wanted:
            raise ShapeError(f"{name}: {what} has shape {value.shape}; axis {axis} of the input "
                             f"{input.shape} needs {wanted}, one for each place")
    along = [-1 if a == axis else 1 for a in range(input.ndim)]
    scales, zeros = (x.detach().to(input.dtype).reshape(along) for x in (scale, zero_point))
    return faked(input, scales, zeros, quant_min, quant_max)


def _check(name: str, input: Tensor, low: int, high: int) -> None:
    if not input.dtype.is_float:
        raise DTypeError(f"{name} of {input.dtype.name}: it is for floats; convert with .float()")
    if shapes.as_int(low, name, "quant_min") > shapes.as_int(high, name, "quant_max"):
        raise ArgumentError(f"{name}: quant_min={low} is above quant_max={high}; there is no "
                            f"integer between them")
