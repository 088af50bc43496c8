"""Normalization of tensors over some axes, which `lazyten.nn.functional` offers.

Means and variances of 16-bit floats are computed in float32, and the result rounded once.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.limits import finfo
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes, special
from lazyten.operators.math.shapes import Axes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError
from lazyten.support.grad_mode import no_grad


def _check_float(input: Tensor, operation: str) -> None:
    if not input.dtype.is_float:
        raise DTypeError(f"{operation} of {input.dtype.name}: it is for floats; convert with "
                         f".float()")


def _check_shape(x: Tensor | None, wanted: tuple[int, ...], what: str, operation: str) -> None:
    if x is not None and x.shape != wanted:
        raise ShapeError(f"{operation}: the {what} has shape {x.shape}; it needs {wanted}")


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype.is_half else x


def _scaled(centred: Tensor, factor: Tensor, weight: Tensor | None,
            bias: Tensor | None) -> Tensor:
    """centred * factor, then times weight, plus bias."""
    result = centred * factor
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _moments(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor, Tensor]:
    """The mean, what is left of x without it, and the mean square of that, all with their axes."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    return mean, centred, centred.square().mean(axes, keepdim=True)


def _over_root(mean_square: Tensor, eps: float) -> Tensor:
    """1 / sqrt(mean_square + eps). NaN of infinity, which is squares that overflow: by 0 all
    results would be 0."""
    return (mean_square + eps)._special(special.over_root)


def _inner_axes(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None,
                bias: Tensor | None, name: str) -> tuple[int, ...]:
    """The last axes, which must have normalized_shape, as must weight and bias."""
    inner = shapes.sizes([normalized_shape], name)
    if not inner or input.shape[-len(inner):] != inner:
        raise ShapeError(f"{name}: input {input.shape} does not end in normalized_shape {inner}; "
                         f"they must be equal there")
    _check_shape(weight, inner, "weight", name)
    _check_shape(bias, inner, "bias", name)
    _check_float(input, name)
    return tuple(range(input.ndim - len(inner), input.ndim))


@takes_tensors
@casting(WIDE)
def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
               bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """The last axes, `normalized_shape`, moved to mean 0 and scaled to variance 1, then times
    weight, plus bias, both of these axes: (x - mean) / sqrt(variance + eps) * weight + bias."""
    axes = _inner_axes(input, normalized_shape, weight, bias, "layer_norm")
    shapes.as_number(eps, "layer_norm", "eps")
    _, centred, variance = _moments(_wide(input), axes)
    return _scaled(centred, _over_root(variance, eps), weight, bias)._cast(input.dtype)


@takes_tensors
def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
             eps: float | None = None) -> Tensor:
    """The last axes over the root of their mean square plus `eps` (the type's own unless given),
    then times weight."""
    axes = _inner_axes(input, normalized_shape, weight, None, "rms_norm")
    wide = _wide(input)
    small = finfo(wide.dtype).eps if eps is None else shapes.as_number(eps, "rms_norm", "eps")
    factor = _over_root(wide.square().mean(axes, keepdim=True), small)
    return _scaled(wide, factor, weight, None)._cast(input.dtype)


@takes_tensors
@casting(WIDE)
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None,
               bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """The channels (axis 1) in groups of neighbours, each moved to mean 0 and scaled to variance 1
    for each example; then times weight (channels,), plus bias."""
    groups = shapes.as_int(num_groups, "group_norm", "num_groups")
    if input.ndim < 2:
        raise ShapeError(f"group_norm: the input has shape {input.shape}; it needs (batch, "
                         f"channels, ..)")
    channels = input.shape[1]
    if groups < 1 or channels % groups:
        raise ArgumentError(f"group_norm: num_groups={num_groups} must divide the {channels} "
                            f"channels of the input {input.shape}")
    _check_float(input, "group_norm")
    return _grouped(input, groups, weight, bias, eps, "group_norm")


def _grouped(input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float,
             name: str) -> Tensor:
    batch, channels = input.shape[:2]
    for what, given in (("weight", weight), ("bias", bias)):
        _check_shape(given, (channels,), what, name)
    inner = math.prod(input.shape[2:])
    rows = _wide(input).reshape(batch, groups, channels // groups, inner)
    _, centred, variance = _moments(rows, (2, 3))
    scale, shift = (None if x is None else x.reshape(groups, channels // groups, 1)
                    for x in (weight, bias))
    result = _scaled(centred, _over_root(variance, eps), scale, shift)
    return result.reshape(input.shape)._cast(input.dtype)


# ---- with running statistics ---------------------------------------------------------------------

def _channels_first(x: Tensor | None, input: Tensor) -> Tensor | None:
    """(channels,) to lie beside axis 1 of the input."""
    return None if x is None else x.reshape(-1, *(1,) * (input.ndim - 2))


def _update_running(running: Tensor | None, found: Tensor, momentum: float | Tensor) -> None:
    if running is not None:
        share = momentum if isinstance(momentum, Tensor) else shapes.as_number(
            momentum, "batch_norm", "momentum")
        with no_grad():
            mixed = running * (1 - share) + found.detach().reshape(running.shape) * share
            running.copy_(mixed)


def _check_channels(input: Tensor, given: dict[str, Tensor | None], name: str) -> None:
    if input.ndim < 2:
        raise ShapeError(f"{name}: the input has shape {input.shape}; it needs (batch, channels, "
                         f"..)")
    for what, x in given.items():
        _check_shape(x, input.shape[1:2], what, name)
    _check_float(input, name)


def _by_running(input: Tensor, mean: Tensor | None, var: Tensor | None, weight: Tensor | None,
                bias: Tensor | None, eps: float, name: str) -> Tensor:
    if mean is None or var is None:
        raise ArgumentError(f"{name}: running_mean and running_var are both needed where the "
                            f"input's own mean and variance are not used; give them, or training")
    mean, var, weight, bias = (_channels_first(x, input) for x in (mean, var, weight, bias))
    assert mean is not None and var is not None
    return _scaled(_wide(input) - mean, (var + eps).rsqrt(), weight, bias)._cast(input.dtype)


@takes_tensors
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
               weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
               momentum: float | Tensor = 0.1, eps: float = 1e-5) -> Tensor:
    """Each channel (axis 1) of (batch, channels, ..) moved to mean 0 and scaled to variance 1, then
    times weight (channels,), plus bias.

    training: by its own mean and variance, of which a share `momentum` (a number, or a zero-dim
    tensor, which is not read) goes to running_mean and (without the bias of a sample) to
    running_var, in place. Else by those two.
    """
    if input.shape == (0,):  # as PyTorch has it
        return input.clone()
    _check_channels(input, {"running_mean": running_mean, "running_var": running_var,
                            "weight": weight, "bias": bias}, "batch_norm")
    if eps < 0 or training and eps == 0:
        raise ArgumentError(f"batch_norm: eps={eps!r} is added to variances, which divide; give "
                            f"more than 0 (0 only where training is off)")
    if not training:
        return _by_running(input, running_mean, running_var, weight, bias, eps, "batch_norm")
    count = input.numel() // input.shape[1] if input.shape[1] else 0
    if count == 1:
        raise ShapeError(f"batch_norm of shape {input.shape}: there is one value a channel, which "
                         f"has no variance; train with more than one")
    moments = _moments(_wide(input), (0, *range(2, input.ndim)))
    if not count:  # of no values there is nothing to remember
        running_mean = running_var = None
    return by_moments(input, running_mean, running_var, weight, bias, momentum, eps, moments,
                      count / max(count - 1, 1))


def by_moments(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
               weight: Tensor | None, bias: Tensor | None, momentum: float | Tensor, eps: float,
               moments: tuple[Tensor, Tensor, Tensor], unbiased: float | Tensor) -> Tensor:
    """batch_norm in training. moments: the mean of each channel, the input without it, and the
    variance; unbiased: what makes that a sample's."""
    mean, centred, variance = moments
    _update_running(running_mean, mean, momentum)
    _update_running(running_var, variance * unbiased, momentum)
    return _scaled(centred, _over_root(variance, eps), _channels_first(weight, input),
                   _channels_first(bias, input))._cast(input.dtype)


@takes_tensors
def instance_norm(input: Tensor, running_mean: Tensor | None = None,
                  running_var: Tensor | None = None, weight: Tensor | None = None,
                  bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
                  eps: float = 1e-5) -> Tensor:
    """Each channel of each example of (batch, channels, ..) moved to mean 0 and scaled to variance
    1, then times weight (channels,), plus bias.

    use_input_stats: by its own mean and variance, whose means over the batch go to running_mean and
    running_var as in batch_norm. Else by those two.
    """
    _check_channels(input, {"running_mean": running_mean, "running_var": running_var,
                            "weight": weight, "bias": bias}, "instance_norm")
    if not use_input_stats:
        return _by_running(input, running_mean, running_var, weight, bias, eps, "instance_norm")
    count = math.prod(input.shape[2:])
    if count == 1:
        raise ShapeError(f"instance_norm of shape {input.shape}: there is one value a channel and "
                         f"example, which has no variance; give more than one")
    if count and (running_mean is not None or running_var is not None):
        mean, _, variance = _moments(_wide(input.detach()), tuple(range(2, input.ndim)))
        _update_running(running_mean, mean.mean(0), momentum)
        _update_running(running_var, variance.mean(0) * (count / max(count - 1, 1)), momentum)
    return _grouped(input, max(input.shape[1], 1), weight, bias, eps, "instance_norm")


@takes_tensors
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75,
                        k: float = 1.0) -> Tensor:
    """x / (k + alpha * the mean of x * x over `size` neighbouring channels) ** beta; what is beyond
    the channels counts as 0."""
    width = shapes.as_int(size, "local_response_norm", "size")
    if input.ndim < 3 or width < 1:
        raise ShapeError(f"local_response_norm of shape {input.shape}, size {size}: it needs "
                         f"(batch, channels, spatial ..) and a size of 1 or more")
    _check_float(input, "local_response_norm")
    around = [0, 0] * (input.ndim - 2) + [width // 2, (width - 1) // 2]
    mean = input.square().pad(around).unfold(1, width, 1).mean(-1)
    return input / (mean * alpha + k).pow(beta)
