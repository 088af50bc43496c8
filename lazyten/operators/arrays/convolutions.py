"""Convolutions over any number of axes, and transposed ones, which are gradients of those."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.autodiff.gradient import vjp
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, expand, make, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import joining
from lazyten.operators.arrays.indexing import Chain, apply
from lazyten.operators.arrays.windows import Geometry, all_windows
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.gradients import flat_in, written_over
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

Sizes = tuple[int, ...]


def convolution(x: Node, weight: Node, bias: Node | None, stride: Sizes, padding: Sizes,
                dilation: Sizes, groups: int) -> Node:
    """Cross-correlation of x (batch, in, *spatial) with weight (out, in / groups, *kernel).

    Gives (batch, out, *windows): the sum over input channels of the group and taps of input times
    weight, plus bias (out,); of 16-bit floats in float32, rounded once, of int32 and int64 exactly,
    as long as they hold the sum. Raises ShapeError and DTypeError if they do not fit.
    """
    spatial = len(weight.shape) - 2
    operation = f"conv{spatial}d"
    _check_convolution(x, weight, bias, groups, operation)
    geometry = Geometry(weight.shape[2:], stride, padding, dilation)
    geometry.check(x.shape[2:], operation)
    batch, channels, out = x.shape[0], x.shape[1], weight.shape[0]
    dtype, weight = x.dtype, ew.wide(weight)
    x = reshape(ew.wide(x), (batch, groups, 1, channels // groups, *x.shape[2:]))
    x = all_windows(x, geometry)  # batch, group, 1, channel, (window, taps) ...
    counts, taps = x.shape[4::2], x.shape[5::2]
    order = (0, 1, 2, *range(4, len(x.shape), 2), 3, *range(5, len(x.shape), 2))
    x = move(Op.PERMUTE, x, order)  # batch, group, 1, windows ..., channel, taps ...
    wide = (1, groups, out // groups, *(1,) * spatial, channels // groups, *taps)
    full = (batch, groups, out // groups, *counts, channels // groups, *taps)
    product = ew.mul(expand(x, full), expand(reshape(weight, wide), full))
    total = reduce(product, Op.ADD, range(3 + spatial, len(full)))
    return cast(_plus_bias(reshape(total, (batch, out, *counts)), bias), dtype)


def transposed(x: Node, weight: Node, bias: Node | None, stride: Sizes, padding: Sizes,
               output_padding: Sizes, dilation: Sizes, groups: int) -> Node:
    """The gradient of a convolution by `weight` with respect to its input, where x is the output's.

    x (batch, in, *spatial) and weight (in, out / groups, *kernel) give (batch, out, *sizes), each
    size (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1, and bias
    (out,) is added. Raises ShapeError, DTypeError and ArgumentError if they do not fit.
    """
    operation = f"conv_transpose{len(weight.shape) - 2}d"
    _check_operands(x, weight, operation, ())
    channels, per_group = weight.shape[:2]
    if groups < 1 or channels % groups:
        raise ArgumentError(f"{operation}: groups={groups} must divide the {channels} input "
                            f"channels of the weight {weight.shape}")
    if x.shape[1] != channels:
        raise ShapeError(f"{operation}: the input {x.shape} has {x.shape[1]} channels on axis 1, "
                         f"but the weight {weight.shape} is for {channels}")
    _check_bias(x, bias, per_group * groups, operation)
    sizes = _transposed_sizes(x.shape[2:], Geometry(weight.shape[2:], stride, padding, dilation),
                              output_padding, operation)
    input = make(Op.LEAF, x.dtype, (const(0.0, x.dtype, (x.shape[0], per_group * groups, *sizes)),),
                 operation)
    output = convolution(input, weight, None, stride, padding, dilation, groups)
    past = tuple((0, m - n) for n, m in zip(x.shape, output.shape, strict=True))
    total, = vjp(output, move(Op.PAD, x, past), [input])
    assert total is not None
    uneven = any(k % s for k, s in zip(weight.shape[2:], stride, strict=True))
    if uneven and set(dilation) == {1}:  # that is of windows of whole tiles, with taps of 0
        total = written_over(total, _of_phases(x, weight, stride, padding, sizes, groups))
    return _plus_bias(total if x.numel else flat_in(x, total), bias)


def _of_phases(x: Node, weight: Node, stride: Sizes, padding: Sizes, sizes: Sizes,
               groups: int) -> Node:
    """`transposed` as a convolution for each phase of the stride: outputs s apart have the same
    taps, which are s apart, too. An output gets a product for each of its taps, and no other."""
    channels, per_group, *taps = weight.shape
    split = reshape(weight, (groups, channels // groups, per_group, *taps))
    turned = move(Op.PERMUTE, split, (0, 2, 1, *range(3, len(split.shape))))
    kernel = reshape(turned, (groups * per_group, channels // groups, *taps))
    full = _interleaved(x, kernel, 0, stride, groups)
    chain = Chain(full.shape)
    for axis, (start, size) in enumerate(zip(padding, sizes, strict=True), 2):
        chain.shrink(axis, start, min(start + size, chain.shape[axis]))
        chain.on_axis(Op.PAD, axis, (0, size - chain.shape[axis]), lambda _: (0, 0))
    return apply(chain.moves, full)


def _interleaved(x: Node, weight: Node, done: int, stride: Sizes, groups: int) -> Node:
    """All sums of products of x and weight (out, in / groups, *taps) without padding, `stride`
    apart along the spatial axes from `done` on."""
    if done == len(stride):
        reach = tuple(k - 1 for k in weight.shape[2:])
        flipped = move(Op.FLIP, weight, tuple(range(2, len(weight.shape))))
        return convolution(x, flipped, None, (1,) * done, reach, (1,) * done, groups)
    axis, step = done + 2, stride[done]
    phases = []
    for phase in range(min(step, weight.shape[axis])):
        chain = Chain(weight.shape)
        chain.shrink(axis, phase, weight.shape[axis])
        chain.every(axis, step)
        phases.append(_interleaved(x, apply(chain.moves, weight), done + 1, stride, groups))
    longest = phases[0].shape[axis]
    around = [(0, 0)] * len(x.shape)
    wide = []
    for part in phases:
        around[axis] = (0, longest - part.shape[axis])
        wide.append(move(Op.PAD, part, tuple(around)))
    line = joining.stack(wide, axis + 1)
    if step > len(wide):  # no tap reaches the other phases
        past = [(0, 0)] * len(line.shape)
        past[axis + 1] = 0, step - len(wide)
        line = move(Op.PAD, line, tuple(past))
    return reshape(line, (*line.shape[:axis], longest * step, *line.shape[axis + 2:]))


def _transposed_sizes(sizes: Sizes, geometry: Geometry, output_padding: Sizes,
                      operation: str) -> Sizes:
    found = []
    for n, kernel, stride, padding, dilation, more in zip(
            sizes, geometry.kernel, geometry.stride, geometry.padding, geometry.dilation,
            output_padding, strict=True):
        if more >= max(stride, dilation):
            raise ArgumentError(f"{operation}: output_padding {more} must be smaller than stride "
                                f"{stride} or dilation {dilation}")
        size = (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
        if n < 1 or size < 1:
            raise ShapeError(f"{operation}: a spatial axis of {n} with kernel {kernel}, stride "
                             f"{stride} and padding {padding} gives a size of {size}; use less "
                             f"padding, or a larger input")
        found.append(size)
    return tuple(found)


def _plus_bias(x: Node, bias: Node | None) -> Node:
    if bias is None:
        return x
    return ew.add(x, reshape(bias, (*bias.shape, *(1,) * (len(x.shape) - 2))))


def _check_convolution(x: Node, weight: Node, bias: Node | None, groups: int,
                       operation: str) -> None:
    _check_operands(x, weight, operation, (dt.int32, dt.int64))
    out, per_group = weight.shape[:2]
    if groups < 1 or x.shape[1] % groups or out % groups:
        raise ArgumentError(f"{operation}: groups={groups} must divide the {x.shape[1]} input and "
                            f"{out} output channels")
    if x.shape[1] // groups != per_group:
        raise ShapeError(f"{operation}: the input {x.shape} has {x.shape[1]} channels on axis 1, "
                         f"but the weight {weight.shape} with groups={groups} is for "
                         f"{per_group * groups}")
    _check_bias(x, bias, out, operation)


def _check_operands(x: Node, weight: Node, operation: str, integers: Sequence[DType]) -> None:
    spatial = len(weight.shape) - 2
    if len(x.shape) != spatial + 2:
        raise ShapeError(f"{operation}: the input has shape {x.shape}; it needs {spatial + 2} axes "
                         f"(batch, channels, {spatial} spatial) for a weight of {weight.shape}")
    if x.dtype is not weight.dtype or not (x.dtype.is_float or x.dtype in integers):
        or_whole = "".join(f", or both {d.name}" for d in integers)
        raise DTypeError(f"{operation}: the input is {x.dtype.name} and the weight "
                         f"{weight.dtype.name}; both must be of one float type{or_whole}")
    if 0 in weight.shape[2:]:
        raise ShapeError(f"{operation}: the weight has shape {weight.shape}; kernel sizes are 1 or "
                         f"more")


def _check_bias(x: Node, bias: Node | None, out: int, operation: str) -> None:
    if bias is not None and bias.dtype is not x.dtype:
        raise DTypeError(f"{operation}: the bias is {bias.dtype.name} and the input "
                         f"{x.dtype.name}; both must be of one type")
    if bias is not None and bias.shape != (out,):
        raise ShapeError(f"{operation}: the bias has shape {bias.shape}; it needs ({out},), one "
                         f"element an output channel")
