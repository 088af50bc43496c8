"""Functions of tensors for neural networks, with PyTorch's names and arguments."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten import elementwise as ew
from lazyten import functions, losses, reductions, shapes, special, windows
from lazyten import random as _random
from lazyten.arguments import takes_tensors
from lazyten.dtype import Scalar
from lazyten.errors import ArgumentError, DTypeError, ShapeError
from lazyten.nn.attention import scaled_dot_product_attention as scaled_dot_product_attention
from lazyten.nn.convolution import conv1d as conv1d
from lazyten.nn.convolution import conv2d as conv2d
from lazyten.nn.convolution import conv3d as conv3d
from lazyten.nn.convolution import conv_transpose1d as conv_transpose1d
from lazyten.nn.convolution import conv_transpose2d as conv_transpose2d
from lazyten.nn.convolution import conv_transpose3d as conv_transpose3d
from lazyten.tensor import Tensor
from lazyten.windows import Geometry

Sizes = int | Sequence[int]


# ---- layers --------------------------------------------------------------------------------------

@takes_tensors
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input (.., in) times weight (out, in) transposed, plus bias (out,): (.., out)."""
    if weight.ndim != 2:
        raise ShapeError(f"linear: the weight has shape {weight.shape}; it needs (out, in)")
    if not input.shape or input.shape[-1] != weight.shape[1]:
        raise ShapeError(f"linear: input {input.shape} and weight {weight.shape}: the input's last "
                         f"axis must be {weight.shape[1]}, the weight's axis 1")
    if bias is not None and bias.shape != (weight.shape[0],):
        raise ShapeError(f"linear: the bias has shape {bias.shape}; it needs ({weight.shape[0]},)")
    if input.dtype is not weight.dtype:
        raise DTypeError(f"linear: the input is {input.dtype.name} and the weight "
                         f"{weight.dtype.name}; convert one, for example with "
                         f"input.to(lazyten.{weight.dtype.name})")
    product = input @ weight.T
    return product if bias is None else product + bias


def _geometry(input: Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
              dilation: Sizes, name: str) -> Geometry:
    if input.ndim not in (3, 4):
        raise ShapeError(f"{name}: the input has shape {input.shape}; it needs (batch, channels, "
                         f"height, width), or the same without a batch")
    kernel = shapes.pair(kernel_size, 2, name, "kernel_size")
    steps = kernel if stride is None else shapes.pair(stride, 2, name, "stride")
    around = shapes.pair(padding, 2, name, "padding", least=0)
    if any(2 * p > k for p, k in zip(around, kernel, strict=True)):
        raise ArgumentError(f"{name}: padding {padding} is more than half of kernel_size "
                            f"{kernel_size}; some windows would hold nothing but padding")
    geometry = Geometry(kernel, steps, around, shapes.pair(dilation, 2, name, "dilation"))
    geometry.check(input.shape[-2:], name)
    return geometry


@takes_tensors
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1) -> Tensor:
    """The greatest of each window (stride: the kernel's size); padding never wins."""
    geometry = _geometry(input, kernel_size, stride, padding, dilation, "max_pool2d")
    return input._unary(lambda x: windows.max_pool(x, geometry))


@takes_tensors
def avg_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               count_include_pad: bool = True) -> Tensor:
    """The mean of each window (stride: the kernel's size)."""
    geometry = _geometry(input, kernel_size, stride, padding, 1, "avg_pool2d")
    return input._unary(lambda x: windows.average_pool(x, geometry, count_include_pad))


@takes_tensors
def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
               bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """The last axes moved to mean 0 and scaled to variance 1, then times weight, plus bias."""
    inner = shapes.sizes([normalized_shape], "layer_norm")
    if not inner or input.shape[-len(inner):] != inner:
        raise ShapeError(f"layer_norm: input {input.shape} does not end in normalized_shape "
                         f"{inner}; they must be equal there")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != inner:
            raise ShapeError(f"layer_norm: the {name} has shape {given.shape}; it needs {inner}")
    if not input.dtype.is_float:
        raise DTypeError(f"layer_norm of {input.dtype.name}: it is for floats; convert with "
                         f".float()")
    if not shapes.as_number(eps, "layer_norm", "eps") >= 0:
        raise ArgumentError(f"layer_norm: eps={eps} is below 0; give a small number such as 1e-5")
    axes = tuple(range(input.ndim - len(inner), input.ndim))
    centred = input - input.mean(axes, keepdim=True)
    scale = (centred.square().mean(axes, keepdim=True) + eps).rsqrt()
    result = centred * scale
    if weight is not None:
        result = result * weight
    return result if bias is None else result + bias


def check_probability(p: float, operation: str) -> None:
    """ArgumentError unless 0 <= p <= 1."""
    if not 0 <= shapes.as_number(p, operation, "p") <= 1:
        raise ArgumentError(f"{operation}: p={p} must be a probability, 0 to 1")


@takes_tensors
def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element 0 with probability p, the rest over 1 - p; everything unless `training`."""
    check_probability(p, "dropout")
    if not input.dtype.is_float:
        raise DTypeError(f"dropout of {input.dtype.name}: it is for floats; convert with .float()")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0.0
    chance = _random.uniform(input.shape, input.dtype, input.device)
    kept = ew.greater_equal(chance, p)
    return input._unary(lambda x: ew.where(kept, ew.mul(x, 1 / (1 - p)), 0.0))


# ---- activations ---------------------------------------------------------------------------------

@takes_tensors
def relu(input: Tensor) -> Tensor:
    """max(x, 0)."""
    return input.relu()


@takes_tensors
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e ** -x)."""
    return input.sigmoid()


@takes_tensors
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


@takes_tensors
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x."""
    return input.gelu(approximate)


@takes_tensors
def silu(input: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return input.silu()


@takes_tensors
def softplus(input: Tensor) -> Tensor:
    """log(1 + e ** x)."""
    return input._special(special.softplus)


@takes_tensors
def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, negative_slope * x elsewhere."""
    return input._special(lambda x: special.leaky_relu(x, negative_slope))


@takes_tensors
def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, alpha * (e ** x - 1) elsewhere."""
    return input._special(lambda x: special.elu(x, alpha))


@takes_tensors
def softmax(input: Tensor, dim: int) -> Tensor:
    """e ** x over its sum along an axis."""
    return input.softmax(dim)


@takes_tensors
def log_softmax(input: Tensor, dim: int) -> Tensor:
    """The logarithm of softmax."""
    return input.log_softmax(dim)


@takes_tensors
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Scalar = 0) -> Tensor:
    """`value` around the last axes: (before, after) of the last axis, then of the one before."""
    if mode != "constant":
        raise ArgumentError(f"pad: mode {mode!r} is not supported; 'constant' is")
    return input.pad(pad, value)


# ---- losses --------------------------------------------------------------------------------------

@takes_tensors
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """weight[input]: a row of `weight` (rows, features) for each integer. The row `padding_idx`
    gets no gradient."""
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the weight has shape {weight.shape}; it needs (rows, "
                         f"features)")
    rows: Tensor = weight[input]
    if padding_idx is None:
        return rows
    padding = shapes.as_int(padding_idx, "embedding", "padding_idx")
    if not -weight.shape[0] <= padding < weight.shape[0]:
        raise ArgumentError(f"embedding: padding_idx={padding} is outside the {weight.shape[0]} "
                            f"rows of the weight")
    is_padding = (input % weight.shape[0] == padding % weight.shape[0]).unsqueeze(-1)
    held: Tensor = functions.where(is_padding, rows.detach(), rows)
    return held


@takes_tensors
def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """int64 (.., num_classes): 1 at each label, 0 elsewhere; all 0 for a label outside."""
    classes = shapes.as_int(num_classes, "one_hot", "num_classes")
    shapes.countable((*labels.shape, classes), "one_hot")
    return labels._unary(lambda x: losses.one_hot(x, classes))


@takes_tensors
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                  ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """-log softmax of the target class; logits (batch, classes, ..), integer labels (batch, ..) or
    probabilities shaped as the logits. The mean over labels that are not `ignore_index`.

    A label outside the classes makes the loss NaN (see lazyten/losses.py).
    """
    tensors = [input, target, *([] if weight is None else [weight])]
    ignore_index = shapes.as_int(ignore_index, "cross_entropy", "ignore_index")
    shapes.as_number(label_smoothing, "cross_entropy", "label_smoothing")
    node = losses.cross_entropy(input.node, target.node, None if weight is None else weight.node,
                                ignore_index, reduction, label_smoothing)
    return Tensor._result(node, *tensors)


@takes_tensors
def nll_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """-input of the target class; input (batch, classes) holds logarithms of probabilities."""
    if input.ndim != 2 or target.shape != input.shape[:1] or not target.dtype.is_int:
        raise ShapeError(f"nll_loss: input {input.shape} needs 2 axes and integer labels of shape "
                         f"{input.shape[:1]}, not {target.dtype.name} {target.shape}; convert "
                         f"labels with .long()")
    chosen = losses._chosen(target.node, input.shape[1])
    picked = reductions.sum(ew.where(chosen, input.node, 0.0), (1,))
    return Tensor._result(losses.reduced(ew.negative(picked), reduction, "nll_loss"), input, target)


@takes_tensors
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The squared difference."""
    losses.check_same(input.node, target.node, "mse_loss")
    return _loss((input - target).square(), reduction, "mse_loss")


@takes_tensors
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The absolute difference."""
    losses.check_same(input.node, target.node, "l1_loss")
    return _loss((input - target).abs(), reduction, "l1_loss")


@takes_tensors
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor,
                                     reduction: str = "mean") -> Tensor:
    """-log of the probability that sigmoid(input) gives to `target`, 0 to 1; safe for large x."""
    losses.check_same(input.node, target.node, "binary_cross_entropy_with_logits")
    loss = softplus(input) - input * target
    return _loss(loss, reduction, "binary_cross_entropy_with_logits")


def _loss(loss: Tensor, reduction: str, operation: str) -> Tensor:
    return loss._unary(lambda x: losses.reduced(x, reduction, operation))
