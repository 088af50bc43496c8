"""Convolutions of tensors, which `lazyten.nn.functional` offers."""
from __future__ import annotations

import inspect
from typing import Any

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.complexes.computing import Pair, carry_out, form, rule
from lazyten.frontend.complexes.products import of_products
from lazyten.frontend.core.mixed_precision import LOW, casting
from lazyten.frontend.tensor import Tensor
from lazyten.operators.arrays import convolutions
from lazyten.operators.math import shapes
from lazyten.operators.math.shapes import Sizes
from lazyten.support.errors import ArgumentError, ShapeError


def _convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes,
                 padding: Sizes | str, dilation: Sizes, groups: int, spatial: int) -> Tensor:
    name = f"conv{spatial}d"
    if weight.ndim != spatial + 2:
        raise ShapeError(f"{name}: the weight has shape {weight.shape}; it needs (out, in/groups, "
                         f"{spatial} kernel sizes)")
    if input.ndim == spatial + 1:  # no batch
        return _convolution(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups,
                            spatial).squeeze(0)
    groups = shapes.as_int(groups, name, "groups")
    steps = shapes.pair(stride, spatial, name, "stride")
    gaps = shapes.pair(dilation, spatial, name, "dilation")
    if isinstance(padding, str):
        input, around = _named_padding(input, weight, padding, steps, gaps, name)
    else:
        around = shapes.pair(padding, spatial, name, "padding", least=0)
    node = convolutions.convolution(input.node, weight.node, None if bias is None else bias.node,
                               steps, around, gaps, groups)
    return Tensor._result(node, input, weight, *([] if bias is None else [bias]))


def _named_padding(input: Tensor, weight: Tensor, padding: str, stride: tuple[int, ...],
                   dilation: tuple[int, ...], name: str) -> tuple[Tensor, tuple[int, ...]]:
    """'valid': none. 'same': as many outputs as inputs, an odd element after the end."""
    none = (0,) * len(stride)
    if padding == "valid":
        return input, none
    if padding != "same" or any(s != 1 for s in stride):
        raise ArgumentError(f"{name}: padding {padding!r} with stride {stride}: it is a number, "
                            f"'valid', or 'same' with stride 1")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    pairs = [side for t in reversed(totals) for side in (t // 2, t - t // 2)]
    return input.pad(pairs), none


@takes_tensors
@casting(LOW)
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """input (batch, in, length), weight (out, in/groups, taps): (batch, out, windows)."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 1)


@takes_tensors
@casting(LOW)
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """input (batch, in, height, width), weight (out, in/groups, kernel height, kernel width):
    (batch, out, rows, columns), each the sum over a window of input times weight, plus bias.

    rows are (height + 2 padding - dilation (kernel - 1) - 1) // stride + 1, and columns alike;
    padding: zeros on both sides, 'valid' for none, or 'same', with stride 1. groups: so many parts
    of the channels, each of which only reads its own. ShapeError for shapes that do not fit."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 2)


@takes_tensors
@casting(LOW)
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """conv2d with one more spatial axis."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 3)


def _transposed(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes,
                output_padding: Sizes, groups: int, dilation: Sizes, spatial: int) -> Tensor:
    name = f"conv_transpose{spatial}d"
    if weight.ndim != spatial + 2:
        raise ShapeError(f"{name}: the weight has shape {weight.shape}; it needs (in, out/groups, "
                         f"{spatial} kernel sizes)")
    if input.ndim == spatial + 1:  # no batch
        return _transposed(input.unsqueeze(0), weight, bias, stride, padding, output_padding,
                           groups, dilation, spatial).squeeze(0)
    node = convolutions.transposed(
        input.node, weight.node, None if bias is None else bias.node,
        shapes.pair(stride, spatial, name, "stride"),
        shapes.pair(padding, spatial, name, "padding", least=0),
        shapes.pair(output_padding, spatial, name, "output_padding", least=0),
        shapes.pair(dilation, spatial, name, "dilation"), shapes.as_int(groups, name, "groups"))
    return Tensor._result(node, input, weight, *([] if bias is None else [bias]))


@takes_tensors
@casting(LOW)
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Tensor:
    """The gradient of conv1d with respect to its input, as an operation: input (batch, in, length)
    and weight (in, out/groups, taps) give (batch, out, (length - 1) * stride - 2 * padding +
    dilation * (taps - 1) + output_padding + 1)."""
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 1)


@takes_tensors
@casting(LOW)
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Tensor:
    """conv_transpose1d with one more spatial axis."""
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 2)


@takes_tensors
@casting(LOW)
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Tensor:
    """conv_transpose1d with two more spatial axes."""
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 3)


@takes_tensors
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (time, batch, in), weight (taps, in, out) and bias (out,): (windows, batch, out).
    """
    if input.ndim != 3 or weight.ndim != 3:
        raise ShapeError(f"conv_tbc: the input has shape {input.shape} and the weight "
                         f"{weight.shape}; they need to be (time, batch, in) and (taps, in, out)")
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad
                  ).permute(2, 0, 1)


# ---- complex numbers -----------------------------------------------------------------------------

OF_COMPLEX = {f.__name__: f for f in (conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d,
                                      conv_transpose3d)}


@rule
def convolved(a: Pair, b: Pair, name: str, *options: Any) -> Pair:
    """A convolution without a bias, as a product of parts."""
    return of_products(lambda x, w: OF_COMPLEX[name](x, w, None, *options), a, b)


def _of_parts(name: str) -> None:
    """Give a convolution its form."""
    order = inspect.signature(inspect.unwrap(OF_COMPLEX[name]))

    def found(*args: Any, **named: Any) -> Any:
        given = order.bind(*args, **named)
        given.apply_defaults()
        input, weight, bias, *options = given.arguments.values()
        product = carry_out("convolved", input, weight, others=(name, *options), called=name)
        return product if bias is None else product + bias.reshape(-1, *[1] * (weight.ndim - 2))
    form(f"nn.{name}")(found)


for _name in OF_COMPLEX:
    _of_parts(_name)
