"""Normalizations and softmax."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import check_size
from lazyten.support.errors import ArgumentError

T = lt.Tensor
F = lt.nn.functional
Floats = {1: lt.float32, 10: lt.float16, 11: lt.float64, 16: lt.bfloat16}


@operator("Softmax", since=13)
def softmax(x: T, *, axis: int = -1) -> T:
    """exp(x), divided by its sum along an axis."""
    return x.softmax(axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: T, *, axis: int = -1) -> T:
    """Logarithms of softmax."""
    return x.log_softmax(axis)


def _of_rows(name: str) -> None:
    """Before opset 13 all axes from one on were one."""
    @operator(name)
    def flat(x: T, *, axis: int = 1) -> T:
        rows = x.flatten(axis % x.ndim if x.ndim else 0, -1)
        if name == "Hardmax":
            from lazyten.onnx.operators.indexing import hardmax
            return hardmax(rows, axis=-1).reshape(x.shape)  # type: ignore[no-any-return]
        return getattr(rows, "softmax" if name == "Softmax" else "log_softmax")(  # type: ignore[no-any-return]
            -1).reshape(x.shape)


for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    _of_rows(_name)


def _channels(values: T, x: T) -> T:
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


@operator("BatchNormalization", since=14)
def batch_normalization(x: T, scale: T, bias: T, mean: T, var: T, *, epsilon: float = 1e-5,
                        momentum: float = 0.9, training_mode: int = 0) -> tuple[T, ...]:
    """Normalized by given means and variances, or in training by those of the batch."""
    if training_mode:
        axes = (0, *range(2, x.ndim))
        old = mean, var
        mean, var = x.mean(axes), x.var(axes, correction=0)
        running = tuple(o * momentum + n * (1 - momentum)
                        for o, n in zip(old, (mean, var), strict=True))
    factor = scale * (var + epsilon).rsqrt()
    found = (x * _channels(factor, x) + _channels(bias - mean * factor, x)).to(x.dtype)
    return (found, *running) if training_mode else (found,)


@operator("BatchNormalization", since=9)
def batch_normalization_9(x: T, scale: T, bias: T, mean: T, var: T, *, epsilon: float = 1e-5,
                          momentum: float = 0.9) -> tuple[T, ...]:
    """Normalized by given means and variances."""
    return batch_normalization(x, scale, bias, mean, var, epsilon=epsilon)  # type: ignore[no-any-return]


@operator("BatchNormalization", since=7)
def batch_normalization_7(x: T, scale: T, bias: T, mean: T, var: T, *, epsilon: float = 1e-5,
                          momentum: float = 0.9, spatial: int = 1) -> tuple[T, ...]:
    """Normalized by given means and variances."""
    if not spatial:
        raise ArgumentError("spatial=0 is not supported; opset 9 took it back")
    return batch_normalization(x, scale, bias, mean, var, epsilon=epsilon)  # type: ignore[no-any-return]


@operator("InstanceNormalization")
def instance_normalization(x: T, scale: T, bias: T, *, epsilon: float = 1e-5) -> T:
    """Each channel of each example normalized."""
    return F.group_norm(x, x.shape[1], scale, bias, epsilon)


@operator("GroupNormalization", since=21)
def group_normalization(x: T, scale: T, bias: T, *, num_groups: int, epsilon: float = 1e-5,
                        stash_type: int = 1) -> T:
    """Groups of channels of each example normalized."""
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("GroupNormalization", since=18)
def group_normalization_18(x: T, scale: T, bias: T, *, num_groups: int,
                           epsilon: float = 1e-5) -> T:
    """Groups of channels of each example normalized, with a scale and a bias for each group."""
    each = x.shape[1] // num_groups
    return F.group_norm(x, num_groups, scale.repeat_interleave(each, dim=0),
                        bias.repeat_interleave(each, dim=0), epsilon)


@operator("LayerNormalization")
def layer_normalization(x: T, scale: T, bias: T | None = None, *, axis: int = -1,
                        epsilon: float = 1e-5, stash_type: int = 1) -> tuple[T, T, T]:
    """All axes from one on normalized together; the means, and 1 / the deviations."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.to(Floats[stash_type])
    mean = wide.mean(axes, keepdim=True)
    centred = wide - mean
    factor = ((centred * centred).mean(axes, keepdim=True) + epsilon).rsqrt()
    found = (centred * factor).to(x.dtype) * scale
    return found if bias is None else found + bias, mean, factor


@operator("RMSNormalization")
def rms_normalization(x: T, scale: T, *, axis: int = -1, epsilon: float = 1e-5,
                      stash_type: int = 1) -> T:
    """All axes from one on divided by the root of their mean square."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.to(Floats[stash_type])
    found = wide * ((wide * wide).mean(axes, keepdim=True) + epsilon).rsqrt()
    return found.to(x.dtype) * scale


@operator("LpNormalization")
def lp_normalization(x: T, *, axis: int = -1, p: int = 2) -> T:
    """Divided by the norm along an axis; 0 where that is 0."""
    norm = x.norm(p, axis, keepdim=True)
    found: T = lt.where(norm == 0, 0.0, x / lt.where(norm == 0, 1.0, norm))
    return found.to(x.dtype)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: T, *, axes: list[int] | None = None) -> T:
    """Of mean 0 and variance 1 over axes."""
    over = tuple(axes or [0, 2, 3])
    deviation, mean = lt.std_mean(x, over, correction=0, keepdim=True)
    return (x - mean) / (deviation + 1e-9)


@operator("LRN")
def local_response_normalization(x: T, *, size: int, alpha: float = 0.0001, beta: float = 0.75,
                                 bias: float = 1.0) -> T:
    """Divided by a power of the squares in neighbouring channels."""
    check_size([*x.shape, size], "windows of channels")
    before = (size - 1) // 2
    flat = [0, 0] * (x.ndim - 2) + [before, size - 1 - before]
    squares = F.pad(x * x, flat).unfold(1, size, 1).sum(-1)
    return x / (squares * (alpha / size) + bias) ** beta
