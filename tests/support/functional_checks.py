"""What torch.nn.functional says and lazyten's must say too, as in `semantic_checks.py`: options by
position and by keyword, and gradients.

`image` is (1, 2, 4, 5) and `line` (2, 4, 5): a batch, or one picture with two channels.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semantic_checks import Check, error_of, gradient_of, leaf, written


def functional(m: Any) -> Any:
    return m.nn.functional


def image(t: Any) -> Any:
    return (t.e.double() * 7).sin().unsqueeze(0)


def both(x: Any, function: Callable[[Any], Any]) -> Any:
    """What a function makes of x, and a gradient in which each element counts differently. Zeros of
    gradients are without a sign."""
    x = leaf(x)
    y = function(x)
    (y * y + y).sum().backward()
    return y, x.grad + 0


def activation(name: str, *args: Any, **kwargs: Any) -> Check:
    return lambda m, t: (
        both(t.f, lambda x: getattr(functional(m), name)(x, *args, **kwargs)),
        getattr(functional(m), name)(t.n, *args, **kwargs))


def in_place(name: str, *args: Any) -> Check:
    def check(m: Any, t: Any) -> Any:
        x = t.f.clone()
        y = getattr(functional(m), name)(x, *args, inplace=True)
        return x, y, y.data_ptr() == x.data_ptr() if m.__name__ == "torch" else y is x
    return check


ACTIVATIONS: dict[str, Check] = {
    "celu": activation("celu", 1.5), "selu": activation("selu"), "elu": activation("elu", 0.5),
    "mish": activation("mish"), "softsign": activation("softsign"),
    "tanhshrink": activation("tanhshrink"), "logsigmoid": activation("logsigmoid"),
    "relu6": activation("relu6"), "hardtanh": activation("hardtanh", -0.5, 2.0),
    "hardswish": activation("hardswish"), "hardsigmoid": activation("hardsigmoid"),
    "nn hardshrink": activation("hardshrink", 0.7),
    "softshrink": lambda m, t: both(t.f, lambda x: functional(m).softshrink(x, 0.7)),
    "threshold": activation("threshold", 0.6, -9.0),
    "rrelu without training": activation("rrelu", 0.1, 0.5),
    "softplus with beta": activation("softplus", 2.0),
    "softplus past its threshold": activation("softplus", beta=2, threshold=1),
    "linear to one number": lambda m, t: (
        both(t.f, lambda x: functional(m).linear(x, t.v)), functional(m).linear(t.v, t.v),
        both(t.v[:1], lambda b: functional(m).linear(t.f, t.f, b))),
    "softmin": lambda m, t: (functional(m).softmin(t.f, 1), functional(m).softmin(t.c, dim=0)),
    "softmax with a dtype": lambda m, t: functional(m).softmax(t.i, 1, dtype=m.float64),
    "softmax without an axis": lambda m, t: [functional(m).softmax(x) for x in (t.v, t.f, t.c)],
    "glu": lambda m, t: (both(t.c / 8, functional(m).glu), functional(m).glu(t.f, 0)),
    "glu of an odd axis": lambda m, t: error_of(lambda: functional(m).glu(t.f)),
    "prelu with one slope": lambda m, t: both(t.w[:1], lambda w: functional(m).prelu(t.f, w)),
    "prelu with slopes of channels": lambda m, t: both(
        t.w, lambda w: functional(m).prelu(t.c - 9.5, w)),
    "prelu with other slopes": lambda m, t: error_of(lambda: functional(m).prelu(t.c, t.w[:2])),
    "hardtanh of integers": lambda m, t: (functional(m).hardtanh(t.i, -1.5, 2.5),
                                          functional(m).relu6(t.j), [functional(m).threshold(
                                              t.i, *given) for given in ((1, 20), (1.5, 20.7))]),
    "dropout of integers without training": lambda m, t: [
        functional(m).dropout(t.i, 0.5, False), functional(m).alpha_dropout(t.i, 0.5)],
    "softmax of nothing in a low type": lambda m, t: [
        (x[:, :0].half().softmax(1), x[:, :0].half().log_softmax(1)) for x in (t.f, t.c)],
    "hardtanh the wrong way round": lambda m, t: error_of(
        lambda: functional(m).hardtanh(t.f, 1.0, -1.0)),
    "a negative lambda": lambda m, t: error_of(lambda: functional(m).softshrink(t.f, -1.0)),
    "relu in place": in_place("relu"), "elu in place": in_place("elu", 0.5),
    "hardtanh in place": in_place("hardtanh"), "threshold in place": in_place("threshold", 1, 2),
    "leaky_relu in place": in_place("leaky_relu", 0.2), "silu in place": in_place("silu"),
    "dropout of everything in place": in_place("dropout", 1.0, True),
}


def embedded(m: Any, t: Any, **options: Any) -> Any:
    weight = leaf(t.c.reshape(6, 4) / 10)
    rows = functional(m).embedding(t.s, weight, **options)
    (rows * rows).sum().backward()
    return rows, weight.grad


def renormalized(m: Any, t: Any, **options: Any) -> Any:
    weight = t.c.reshape(6, 4).clone()
    return functional(m).embedding(t.s, weight, **options), weight


LAYERS: dict[str, Check] = {
    "embedding of a number": lambda m, t: functional(m).embedding(t.x[1], t.c[0]),
    "what embedding of a number gives is no view": lambda m, t: [
        (functional(m).embedding(t.x[1], w).add_(1), w) for w in [t.c[0].clone()]],
    "embedding's padding_idx": lambda m, t: embedded(m, t, padding_idx=-3),
    "embedding's scale_grad_by_freq": lambda m, t: embedded(m, t, scale_grad_by_freq=True),
    "embedding's max_norm writes to the weight": lambda m, t: renormalized(m, t, max_norm=5.0),
    "embedding's norm_type": lambda m, t: renormalized(m, t, max_norm=9.0, norm_type=1.0),
    "one_hot counts the classes": lambda m, t: functional(m).one_hot(t.s),
    "bilinear": lambda m, t: both(t.e.reshape(2, 5, 4), lambda w: functional(m).bilinear(
        t.c[:, :, 0].reshape(3, 2).repeat(1, 3)[:, :5], t.c[0], w, t.v[:2])),
    "pad by reflection": lambda m, t: both(image(t), lambda x: functional(m).pad(
        x, (2, 4, 1, 3), "reflect")),
    "pad by the edge": lambda m, t: both(t.e, lambda x: functional(m).pad(
        x, (2, 7, 0, 5), mode="replicate")),
    "pad from the other end": lambda m, t: both(image(t), lambda x: functional(m).pad(
        x, (5, 2, 1, 4), "circular")),
    "negative pads cut": lambda m, t: [functional(m).pad(image(t), (-2, 3, 1, -1), mode) for mode
                                       in ("constant", "reflect", "replicate", "circular")],
    "pad replicates what it cuts off": lambda m, t: functional(m).pad(
        t.e, (-5, 6), "replicate"),
    "pad reflects too much": lambda m, t: error_of(
        lambda: functional(m).pad(t.e, (5, 0), "reflect")),
    "pad in a mode with a value": lambda m, t: error_of(
        lambda: functional(m).pad(t.e, (1, 0), "replicate", 2.0)),
    "pad in an unknown mode": lambda m, t: error_of(lambda: functional(m).pad(t.e, (1, 0), "edge")),
    "nn unfold": lambda m, t: both(image(t), lambda x: functional(m).unfold(x, (2, 3), 1, 1, 2)),
    "nn unfold without a batch": lambda m, t: functional(m).unfold(t.e, 2, dilation=2),
    "fold": lambda m, t: both(t.c.reshape(1, 8, 3), lambda x: functional(m).fold(
        x, (2, 4), 2)),
    "fold where windows are apart": lambda m, t: functional(m).fold(
        t.c.reshape(4, 6), (4, 5), (2, 2), dilation=(1, 2), padding=(0, 1), stride=2),
    "fold of another number of windows": lambda m, t: error_of(
        lambda: functional(m).fold(t.c.reshape(1, 8, 3), (2, 5), 2)),
    "pixel_shuffle": lambda m, t: functional(m).pixel_shuffle(t.c.reshape(1, 8, 3, 1), 2),
    "pixel_unshuffle": lambda m, t: functional(m).pixel_unshuffle(t.c.reshape(2, 2, 6), 2),
    "channel_shuffle": lambda m, t: functional(m).channel_shuffle(t.c.reshape(1, 6, 2, 2), 3),
    "channel_shuffle by what does not divide": lambda m, t: error_of(
        lambda: functional(m).channel_shuffle(t.c.reshape(1, 6, 2, 2), 4)),
}


def attended(m: Any, t: Any, *args: Any, **options: Any) -> Any:
    c = t.c.double()
    return both(c / 10, lambda q: functional(m).scaled_dot_product_attention(
        q, c.flip(1) / 9, (c * 3).sin(), *args, **options))


def grouped_heads(m: Any, t: Any) -> Any:
    key = (t.c.double() * 3).sin().unsqueeze(0)
    query = m.cat([key, key.flip(1)], 1)
    return both(key, lambda k: functional(m).scaled_dot_product_attention(
        query, k, k, enable_gqa=True))


ATTENTION: dict[str, Check] = {
    "attention by position": lambda m, t: attended(m, t, None, 0.0, True),
    "attention with a scale": lambda m, t: attended(m, t, scale=0.3),
    "attention with a bool mask": lambda m, t: attended(m, t, t.m > -2),
    "attention where a row sees nothing": lambda m, t: attended(m, t, t.m > 0)[0],
    "attention with an additive mask": lambda m, t: attended(m, t, t.m.double() / 3, dropout_p=0.0),
    "attention of grouped heads": grouped_heads,
    "attention of 2 heads for 3": lambda m, t: error_of(
        lambda: functional(m).scaled_dot_product_attention(
            t.c.reshape(1, 3, 2, 4), t.c.reshape(1, 2, 3, 4), t.c.reshape(1, 2, 3, 4),
            enable_gqa=True)),
}


def pooled(name: str, *args: Any, **options: Any) -> Check:
    return lambda m, t: both(image(t), lambda x: getattr(functional(m), name)(x, *args, **options))


def cube(t: Any) -> Any:
    return image(t).reshape(1, 1, 2, 4, 5)


def where_max(name: str, *args: Any, **options: Any) -> Check:
    def check(m: Any, t: Any) -> Any:
        x = cube(t) if name[-2] == "3" else image(t) if name[-2] == "2" else t.e
        return getattr(functional(m), name)(x, *args, return_indices=True, **options)
    return check


POOLING: dict[str, Check] = {
    "max_pool2d with ceil_mode": pooled("max_pool2d", 3, 2, ceil_mode=True),
    "max_pool2d by position": pooled("max_pool2d", (2, 3), (2, 1), (1, 0), (1, 2), True, False),
    "max_pool2d with an empty stride": pooled("max_pool2d", 2, []),
    "where max_pool2d is": where_max("max_pool2d", 3, 2, 1, ceil_mode=True),
    "where max_pool2d is of equal ones": lambda m, t: functional(m).max_pool2d(
        image(t) * 0 + 1, 3, 2, 1, return_indices=True),
    "where max_pool2d is of infinities": lambda m, t: functional(m).max_pool2d(
        image(t) * 0 - float("inf"), 3, 2, 1, return_indices=True),
    "max_pool1d": where_max("max_pool1d", 3, 2, 1, 2, True),
    "max_pool3d": where_max("max_pool3d", 2, 2, 1, 1, True),
    "a window longer than what it pools": pooled("max_pool2d", 3, 2, 1, 3, True),
    "a window of 5 that is longer than 4": pooled("max_pool2d", (5, 2), 2, ceil_mode=True),
    "a window far longer than what it pools": lambda m, t: error_of(
        lambda: functional(m).max_pool2d(image(t), 7, 2, ceil_mode=True)),
    "a mean of a window longer than what it is of": pooled("avg_pool2d", (5, 2), 2, 0, True),
    "a window that begins in the padding": pooled("max_pool2d", 2, 3, 1, ceil_mode=True),
    "avg_pool2d with ceil_mode": pooled("avg_pool2d", 3, 2, 1, True),
    "avg_pool2d without its padding": pooled("avg_pool2d", 3, 2, 1, True, False),
    "avg_pool2d without its padding or ceil_mode": pooled("avg_pool2d", 3, 2, 1,
                                                          count_include_pad=False),
    "avg_pool2d with a divisor": pooled("avg_pool2d", 3, 1, 1, divisor_override=-2),
    "avg_pool1d": lambda m, t: both(t.e, lambda x: functional(m).avg_pool1d(x, 2, 3, 1, True)),
    "avg_pool3d": lambda m, t: functional(m).avg_pool3d(cube(t), (1, 3, 2), 2, (0, 1, 1), True),
    "a divisor of 0": lambda m, t: error_of(
        lambda: functional(m).avg_pool2d(image(t), 2, divisor_override=0)),
    "more padding than half a window": lambda m, t: error_of(
        lambda: functional(m).avg_pool2d(image(t), 2, padding=2)),
    "adaptive_avg_pool1d": lambda m, t: both(
        t.e, lambda x: functional(m).adaptive_avg_pool1d(x, 3)),
    "adaptive_avg_pool2d": pooled("adaptive_avg_pool2d", (3, None)),
    "adaptive_avg_pool2d to more": pooled("adaptive_avg_pool2d", 7),
    "adaptive_avg_pool2d to one": pooled("adaptive_avg_pool2d", 1),
    "adaptive_avg_pool3d": lambda m, t: functional(m).adaptive_avg_pool3d(cube(t), (1, 3, 2)),
    "adaptive_max_pool1d": where_max("adaptive_max_pool1d", 3),
    "adaptive_max_pool2d": pooled("adaptive_max_pool2d", (3, 2)),
    "where adaptive_max_pool2d is": where_max("adaptive_max_pool2d", (None, 3)),
    "where adaptive_max_pool2d is of equal ones": lambda m, t: functional(m).adaptive_max_pool2d(
        image(t) * 0 + 1, 3, return_indices=True),
    "adaptive_max_pool3d": where_max("adaptive_max_pool3d", (1, 3, 2)),
}


def sampled(m: Any, t: Any, **options: Any) -> Any:
    """What is read at places inside and outside of an image, and gradients of both."""
    grid = (t.c.double() * 5).sin().reshape(1, 3, 4, 2) * 1.7
    return (both(image(t), lambda x: functional(m).grid_sample(x, grid, **options)),
            both(grid, lambda grid: functional(m).grid_sample(image(t), grid, **options)))


def unpooled(m: Any, t: Any, *args: Any, **options: Any) -> Any:
    x = image(t)
    y, at = functional(m).max_pool2d(x, *args, return_indices=True)
    return both(y, lambda y: functional(m).max_unpool2d(y, at, *args, **options))


SAMPLING: dict[str, Check] = {
    "grid_sample": lambda m, t: sampled(m, t),
    "grid_sample mirrored between corners": lambda m, t: sampled(
        m, t, padding_mode="reflection", align_corners=True),
    "grid_sample of a grid of another size": lambda m, t: error_of(
        lambda: functional(m).grid_sample(image(t), t.c.double().reshape(2, 3, 2, 2))),
    "grid_sample of no images": lambda m, t: functional(m).grid_sample(
        image(t)[:0], t.c.double().reshape(-1, 2, 2, 2)[:0], align_corners=False),
    "grid_sample in an unknown mode": lambda m, t: error_of(
        lambda: functional(m).grid_sample(image(t), t.c.double().reshape(1, 6, 2, 2), "cubic")),
    "affine_grid": lambda m, t: both(t.c.double()[:, :2, :3], lambda x: functional(
        m).affine_grid(x, (2, 1, 3, 4), False)),
    "affine_grid of another size": lambda m, t: error_of(
        lambda: functional(m).affine_grid(t.c, (2, 1, 3, 4))),
    "max_unpool2d": lambda m, t: unpooled(m, t, 2, 1),
    "max_unpool2d to a size": lambda m, t: unpooled(m, t, (2, 3), 2, output_size=(4, 5)),
    "max_unpool2d to a whole size": lambda m, t: unpooled(m, t, 2, output_size=(1, 2, 4, 5)),
    "max_unpool2d to too much": lambda m, t: error_of(
        lambda: unpooled(m, t, 2, output_size=(4, 7))),
    "max_unpool1d": lambda m, t: functional(m).max_unpool1d(t.f[:, :2], t.x[:2].expand(2, 2), 2),
    "max_unpool of fewer indices": lambda m, t: error_of(
        lambda: functional(m).max_unpool1d(t.f, t.x[:2].expand(2, 2), 2)),
    "fractional_max_pool2d": lambda m, t: (lambda u: both(image(t), lambda x: functional(
        m).fractional_max_pool2d(x, (2, 3), (2, 3), _random_samples=u)))(
            (t.p.double() / 5)[:, :2].unsqueeze(0)),
    "fractional_max_pool2d of one window": lambda m, t: functional(m).fractional_max_pool2d(
        image(t), 3, output_ratio=(0.3, 0.3), return_indices=True,
        _random_samples=(t.p.double() / 5)[:, :2].unsqueeze(0)),
    "fractional_max_pool2d of too many windows": lambda m, t: error_of(
        lambda: functional(m).fractional_max_pool2d(image(t), 2, (4, 3))),
    "fractional_max_pool2d of nothing": lambda m, t: error_of(
        lambda: functional(m).fractional_max_pool2d(image(t), 2)),
}


def resized(*args: Any, **options: Any) -> Check:
    return lambda m, t: both(image(t), lambda x: functional(m).interpolate(x, *args, **options))


RESIZING: dict[str, Check] = {
    "interpolate to nearest": resized((6, 3)),
    "interpolate to nearest by a factor": resized(scale_factor=2),
    "interpolate to nearest by a fraction": resized(None, (1.7, 0.6)),
    "interpolate to nearest, exactly": resized((6, 3), mode="nearest-exact"),
    "interpolate integers": lambda m, t: functional(m).interpolate(
        t.c.to(m.uint8).unsqueeze(0), scale_factor=1.5),
    "interpolate bilinearly": resized((7, 3), mode="bilinear"),
    "interpolate between corners": resized(7, mode="bilinear", align_corners=True),
    "interpolate to one between corners": resized(1, mode="bilinear", align_corners=True),
    "interpolate bilinearly by factors": resized(None, (1.7, 2.3), "bilinear"),
    "interpolate by recomputed factors": resized(None, (1.7, 2.3), "bilinear", None, True),
    "interpolate bicubically": resized((7, 3), mode="bicubic"),
    "interpolate bicubically between corners": resized((7, 3), None, "bicubic", True),
    "interpolate linearly": lambda m, t: both(t.e, lambda x: functional(m).interpolate(
        x, 8, mode="linear")),
    "interpolate trilinearly": lambda m, t: functional(m).interpolate(
        cube(t), (3, 5, 4), mode="trilinear"),
    "interpolate by areas": resized((3, 2), mode="area"),
    "interpolate by size and factor": lambda m, t: error_of(
        lambda: functional(m).interpolate(image(t), 3, 2)),
    "interpolate corners of the nearest": lambda m, t: error_of(
        lambda: functional(m).interpolate(image(t), 3, align_corners=True)),
    "interpolate linearly over two axes": lambda m, t: error_of(
        lambda: functional(m).interpolate(image(t), 3, mode="linear")),
}


def running(m: Any, t: Any, name: str, **options: Any) -> Any:
    """A normalization's result and gradient, and what becomes of its running statistics."""
    mean, var = t.v.double(), t.w.double().abs()
    found = both((t.c.double() * 7).sin(), lambda x: getattr(functional(m), name)(
        x, mean, var, t.w.double(), t.v.double(), **options))
    return found, mean, var


def of_nothing(m: Any, t: Any, name: str, part: slice, **options: Any) -> Any:
    """A normalization of an example without elements, and what becomes of its running statistics.
    part: of the last axis, or of the first."""
    mean, var = t.v.double(), t.w.double().abs()
    x = t.c[:, :, part] if name == "instance_norm" else t.c[part]
    return getattr(functional(m), name)(x.double(), mean, var, **options), mean, var


NORMALIZATION: dict[str, Check] = {
    "batch_norm of no examples": lambda m, t: of_nothing(
        m, t, "batch_norm", slice(0, 0), training=True),
    "instance_norm of no elements": lambda m, t: of_nothing(
        m, t, "instance_norm", slice(0, 0)),
    "instance_norm of no channels": lambda m, t: functional(m).instance_norm(t.c[:, :0]),
    "batch_norm in training": lambda m, t: running(m, t, "batch_norm", training=True),
    "batch_norm's momentum and eps": lambda m, t: running(
        m, t, "batch_norm", training=True, momentum=0.5, eps=0.3),
    "batch_norm by running statistics": lambda m, t: running(m, t, "batch_norm"),
    "batch_norm without running statistics": lambda m, t: functional(m).batch_norm(
        t.f, None, None, None, t.v, True),
    "batch_norm of one value": lambda m, t: error_of(
        lambda: functional(m).batch_norm(t.f[:1], None, None, training=True)),
    "instance_norm": lambda m, t: running(m, t, "instance_norm"),
    "instance_norm by running statistics": lambda m, t: running(
        m, t, "instance_norm", use_input_stats=False),
    "group_norm": lambda m, t: both(
        (t.c.double() * 7).sin().reshape(1, 6, 4), lambda x: functional(m).group_norm(
            x, 3, m.cat([t.v, t.w]).double(), m.cat([t.w, t.v]).double(), 1e-3)),
    "group_norm by what does not divide": lambda m, t: error_of(
        lambda: functional(m).group_norm(t.f, 2)),
    "layer_norm with a negative eps": lambda m, t: functional(m).layer_norm(
        t.c, (4,), None, None, -0.5),
    "rms_norm": lambda m, t: (both(t.f, lambda x: functional(m).rms_norm(x, (3,), t.w)),
                              functional(m).rms_norm(t.c, (3, 4), eps=0.1)),
    "local_response_norm": lambda m, t: both(  # parts of its gradient cancel
        t.c.double(), lambda x: functional(m).local_response_norm(x, 2, 0.1, 0.5, 2.0)),
    "normalize": lambda m, t: [both(t.f, lambda x, p=p: functional(m).normalize(x, p, dim=0))
                               for p in (1, 2, 3.0, float("inf"))],
    "normalize of zeros": lambda m, t: gradient_of(
        t.v * 0, lambda x: functional(m).normalize(x, dim=0)),
    "cosine_similarity": lambda m, t: (
        both(t.f, lambda x: functional(m).cosine_similarity(x, t.g)),
        functional(m).cosine_similarity(t.c, t.c[0] + 1, 0, 1e-3)),
    "pairwise_distance": lambda m, t: (
        both(t.f, lambda x: functional(m).pairwise_distance(x, t.g)),
        functional(m).pairwise_distance(t.f, t.v, 1.0, 0.5, True)),
    "pdist": lambda m, t: (both(t.m, functional(m).pdist), functional(m).pdist(t.m, 3.0)),
}


def loss(name: str, *args: Any, input: str = "f", target: str = "g", **options: Any) -> Check:
    """A loss with each reduction and its older words, with the gradient of the mean."""
    def check(m: Any, t: Any) -> Any:
        function, x, y = getattr(functional(m), name), getattr(t, input), getattr(t, target)
        words = [function(x, y, *args, reduction=how, **options) for how in ("none", "sum")]
        return words, both(x, lambda z: function(z, y, *args, **options))
    return check


def older_words(name: str, input: str, target: str) -> Check:
    """The older words for a reduction, by position (after a weight, if there is one) and name."""
    def check(m: Any, t: Any) -> Any:
        function, x, y = getattr(functional(m), name), getattr(t, input), getattr(t, target)
        return [function(x, y, size_average=average, reduce=reduce)
                for average in (None, True, False) for reduce in (None, True, False)]
    return check


def chances(t: Any) -> Any:
    return t.u.abs() * 0.9


REGRESSION_LOSSES: dict[str, Check] = {
    "mse_loss": loss("mse_loss"), "l1_loss": loss("l1_loss"),
    "mse_loss with a weight": lambda m, t: [functional(m).mse_loss(
        t.f, t.g, weight=t.p, reduction=how) for how in ("none", "sum", "mean")],
    "l1_loss with a weight": lambda m, t: functional(m).l1_loss(t.f, t.g, weight=t.p),
    "mse_loss in older words": older_words("mse_loss", "f", "g"),
    "mse_loss by position": lambda m, t: functional(m).mse_loss(t.f, t.g, None, None, "sum"),
    "an unknown reduction": lambda m, t: error_of(
        lambda: functional(m).mse_loss(t.f, t.g, reduction="median")),
    "huber_loss": loss("huber_loss", delta=1.5),
    "huber_loss with a weight": lambda m, t: functional(m).huber_loss(t.f, t.g, "mean", 2.0, t.p),
    "smooth_l1_loss": loss("smooth_l1_loss", beta=2.0),
    "smooth_l1_loss without a bend": loss("smooth_l1_loss", beta=0.0),
    "kl_div": loss("kl_div", target="p"),
    "kl_div's batchmean": lambda m, t: functional(m).kl_div(t.f, t.p, reduction="batchmean"),
    "kl_div of logarithms": loss("kl_div", log_target=True),
    "kl_div for the target": lambda m, t: gradient_of(
        t.p, lambda x: functional(m).kl_div(t.f, x, reduction="sum")),
    "kl_div of no chance": lambda m, t: functional(m).kl_div(t.f, t.f * 0, reduction="none"),
    "poisson_nll_loss": loss("poisson_nll_loss", target="p"),
    "poisson_nll_loss of a mean": loss("poisson_nll_loss", False, True, input="p", target="p"),
    "gaussian_nll_loss": lambda m, t: (
        functional(m).gaussian_nll_loss(t.f, t.g, t.p, True, 1e-3, "none"),
        functional(m).gaussian_nll_loss(t.f, t.g, t.v[::2] ** 2),
        functional(m).gaussian_nll_loss(t.f, t.g, 2.5),
        gradient_of(t.p - 1.25, lambda x: functional(m).gaussian_nll_loss(
            t.f, t.g, x.clamp(min=0), eps=0.5)[None])),
    "binary_cross_entropy": lambda m, t: both(chances(t), lambda x: functional(
        m).binary_cross_entropy(x, chances(t).flip(0), t.p, reduction="none")),
    "binary_cross_entropy of certainty": lambda m, t: both(
        t.b.float(), lambda x: functional(m).binary_cross_entropy(x, t.b.flip(1).float())),
    "binary_cross_entropy for the target": lambda m, t: gradient_of(
        chances(t), lambda x: functional(m).binary_cross_entropy(chances(t).flip(0), x)),
    "binary_cross_entropy_with_logits": lambda m, t: both(t.f, lambda x: functional(
        m).binary_cross_entropy_with_logits(x, chances(t), t.p, pos_weight=t.p[0])),
    "binary_cross_entropy_with_logits in older words": older_words(
        "binary_cross_entropy_with_logits", "f", "u"),
    "binary_cross_entropy_with_logits by position": lambda m, t: functional(
        m).binary_cross_entropy_with_logits(t.f, chances(t), t.p, None, None, "sum", t.p[1]),
}


def signs(t: Any) -> Any:
    return t.b.float() * 2 - 1


MARGIN_LOSSES: dict[str, Check] = {
    "hinge_embedding_loss": lambda m, t: both(t.f, lambda x: functional(m).hinge_embedding_loss(
        x, signs(t), 2.0, reduction="none")),
    "margin_ranking_loss": lambda m, t: both(t.f, lambda x: functional(m).margin_ranking_loss(
        x, t.g, signs(t), 0.5)),
    "margin_ranking_loss of other axes": lambda m, t: error_of(
        lambda: functional(m).margin_ranking_loss(t.f, t.g, t.v)),
    "cosine_embedding_loss": lambda m, t: both(t.f, lambda x: functional(m).cosine_embedding_loss(
        x, t.g, signs(t)[:, 1:2].squeeze(1), -0.5, reduction="none")),
    "cosine_embedding_loss without a batch": lambda m, t: functional(m).cosine_embedding_loss(
        t.v, t.w, signs(t)[0, 0], reduction="none"),
    "soft_margin_loss": lambda m, t: both(t.f, lambda x: functional(m).soft_margin_loss(
        x, signs(t), reduction="sum")),
    "triplet_margin_loss": lambda m, t: [both(t.f, lambda x, s=s: functional(
        m).triplet_margin_loss(x, t.g, t.p, 3.0, swap=s, reduction="none")) for s in (False, True)],
    "triplet_margin_loss of order 1": lambda m, t: functional(m).triplet_margin_loss(
        t.f, t.g, t.p, 1.0, 1),
    "triplet_margin_with_distance_loss": lambda m, t: functional(
        m).triplet_margin_with_distance_loss(
            t.f, t.g, t.p, distance_function=lambda a, b: (a - b).abs().sum(-1), margin=4.0),
    "multi_margin_loss": lambda m, t: [both(t.f, lambda x, p=p: functional(m).multi_margin_loss(
        x, t.x[:2], p, 0.8, t.w.abs())) for p in (1, 2)],
    "multi_margin_loss without a batch": lambda m, t: functional(m).multi_margin_loss(
        t.v, t.x[1], reduction="none"),
    "multilabel_margin_loss": lambda m, t: both(t.f, lambda x: functional(
        m).multilabel_margin_loss(x, t.j.clamp(-1, 2), reduction="none")),
    "multilabel_margin_loss without a batch": lambda m, t: functional(
        m).multilabel_margin_loss(t.v, t.x - 1),
    "multilabel_soft_margin_loss": lambda m, t: both(t.f, lambda x: functional(
        m).multilabel_soft_margin_loss(x, t.b.float(), t.p, reduction="none")),
}


def labels(t: Any) -> Any:
    return t.x[:2] // 2


def places(t: Any) -> Any:
    """Labels (2, 4) for (2, 3, 4), one of which is -100."""
    return written((t.c[:, 0] % 3).long(), lambda x: x[0, :1].fill_(-100))


CLASS_LOSSES: dict[str, Check] = {
    "nll_loss with a weight": lambda m, t: [functional(m).nll_loss(
        t.f, t.x[:2], t.p[0], reduction=how) for how in ("none", "sum", "mean")],
    "nll_loss of one example": lambda m, t: [functional(m).nll_loss(
        t.v, t.x[1], reduction=how) for how in ("none", "sum", "mean")],
    "nll_loss of places": lambda m, t: both(
        t.c, lambda x: functional(m).nll_loss(x, places(t), t.p[0])),
    "nll_loss of places, each": lambda m, t: functional(m).nll_loss(
        t.c, places(t), reduction="none"),
    "nll_loss that ignores a label": lambda m, t: both(t.f, lambda x: functional(m).nll_loss(
        x, t.x[:2], ignore_index=2)),
    "nll_loss that ignores all": lambda m, t: functional(m).nll_loss(
        t.f, t.x[:2] * 0, ignore_index=0),
    "nll_loss in older words": older_words("nll_loss", "m", "x"),
    "nll_loss by position": lambda m, t: functional(m).nll_loss(
        t.f, t.x[:2], t.p[0], None, 0, None, "sum"),
    "nll_loss of other labels": lambda m, t: error_of(lambda: functional(m).nll_loss(t.f, t.x)),
    "cross_entropy by position": lambda m, t: functional(m).cross_entropy(
        t.f, t.x[:2], t.p[0], None, 0, None, "sum", 0.2),
    "cross_entropy in older words": older_words("cross_entropy", "m", "x"),
    "cross_entropy of places, smoothed": lambda m, t: both(t.c, lambda x: functional(
        m).cross_entropy(x, places(t), t.p[0], label_smoothing=0.3)),
    "cross_entropy of chances": lambda m, t: both(t.f, lambda x: functional(m).cross_entropy(
        x, chances(t), t.p[0], label_smoothing=0.1)),
    "cross_entropy for chances": lambda m, t: gradient_of(
        chances(t), lambda x: functional(m).cross_entropy(t.f, x)),
    "cross_entropy of one example": lambda m, t: functional(m).cross_entropy(t.v, t.x[1]),
}

ALL = {**ACTIVATIONS, **LAYERS, **ATTENTION, **POOLING, **SAMPLING, **RESIZING, **NORMALIZATION,
       **REGRESSION_LOSSES, **MARGIN_LOSSES, **CLASS_LOSSES}
