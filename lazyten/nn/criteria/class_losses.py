"""Losses of classes: labels and probabilities beside scores. `lazyten.nn.functional` offers them.

`size_average` and `reduce` are PyTorch's older words for `reduction`.
"""
from __future__ import annotations

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.nn.functions.activations import logsigmoid
from lazyten.nn.functions.linear import linear
from lazyten.nn.functions.options import check_floats, reduced, reduction_of
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import losses, shapes, special
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.errors import ArgumentError, ShapeError


def _tensors(*given: Tensor | None) -> list[Tensor]:
    return [x for x in given if x is not None]


@takes_tensors
@casting(WIDE)
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                  size_average: bool | None = None, ignore_index: int = -100,
                  reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """-log softmax of the target class; logits (batch, classes, ..), integer labels (batch, ..) or
    probabilities shaped as the logits. The mean over labels that are not `ignore_index`.

    weight (classes,): a factor of each, by whose sum the mean is of labels. label_smoothing: the
    share of a label that all classes divide evenly. reduction: 'mean', 'sum', or 'none' for all, of
    shape (batch, ..). A label outside the classes is an IndexingError once the loss is computed.
    """
    ignore_index = shapes.as_int(ignore_index, "cross_entropy", "ignore_index")
    shapes.as_number(label_smoothing, "cross_entropy", "label_smoothing")
    if ignore_index >= 0 and target.shape == input.shape:
        raise ArgumentError(f"cross_entropy: ignore_index={ignore_index} is for labels, and a "
                            f"target of shape {target.shape} holds probabilities")
    node = losses.cross_entropy(input.node, target.node, None if weight is None else weight.node,
                                ignore_index, reduction_of(size_average, reduce, reduction),
                                label_smoothing)
    return Tensor._result(node, *_tensors(input, target, weight))


@takes_tensors
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *,
                         linear_bias: Tensor | None = None, weight: Tensor | None = None,
                         reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, options: object = None) -> Tensor:
    """cross_entropy() of linear(input, linear_weight, linear_bias), for an input of (features,) or
    (batch, features); weights (classes, .., features) give scores of (batch, classes, ..).

    options: PyTorch's, of how it saves memory, which change nothing.
    """
    _check_linear(input, linear_weight, linear_bias)
    classes = linear_weight.shape[:-1]
    shape = (*input.shape[:-1], *classes)
    if ignore_index is not None and target.shape == shape:
        raise ArgumentError(f"linear_cross_entropy: ignore_index={ignore_index} is for labels, and "
                            f"a target of shape {target.shape} holds probabilities")
    bias = None if linear_bias is None else linear_bias.flatten()
    scores = linear(input, linear_weight.flatten(0, -2), bias).reshape(shape)
    return cross_entropy(scores, target, weight, reduction=reduction,
                         ignore_index=-100 if ignore_index is None else ignore_index,
                         label_smoothing=label_smoothing)


def _check_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if input.ndim not in (1, 2) or weight.ndim < 2 or input.shape[-1] != weight.shape[-1] \
            or input.ndim == 1 and weight.ndim > 2:
        raise ShapeError(f"linear_cross_entropy: the input has shape {input.shape}, and the "
                         f"weights {weight.shape}; they must be (batch, features) and (classes, "
                         f".., features), or (features,) and (classes, features)")
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise ShapeError(f"linear_cross_entropy: the bias has shape {bias.shape}; for weights "
                         f"{weight.shape} it must be {weight.shape[:-1]}")


@takes_tensors
@casting(WIDE)
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
             size_average: bool | None = None, ignore_index: int = -100,
             reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """-input of the target class; input (batch, classes, ..) holds logarithms of probabilities, and
    labels are as in cross_entropy."""
    node = losses.nll(input.node, target.node, None if weight is None else weight.node,
                      shapes.as_int(ignore_index, "nll_loss", "ignore_index"),
                      reduction_of(size_average, reduce, reduction))
    return Tensor._result(node, *_tensors(input, target, weight))


@takes_tensors
@casting(WIDE)
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: bool | None = None, reduce: bool | None = None,
                                     reduction: str = "mean", pos_weight: Tensor | None = None
                                     ) -> Tensor:
    """-log of the probability that sigmoid(input) gives to `target`, 0 to 1; safe for large x.

    pos_weight (broadcast to the target) multiplies the part of target 1, `weight` all of it.
    """
    name = "binary_cross_entropy_with_logits"
    losses.check_same(input.node, target.node, name)
    node = ew.together(name, _logit_loss, input.node, target.node,
                       1.0 if pos_weight is None else pos_weight.node)
    loss = Tensor._result(node, *_tensors(input, target, pos_weight))
    loss = loss if weight is None else loss * weight
    return reduced(loss, reduction_of(size_average, reduce, reduction), name)


def _logit_loss(x: Node, target: Node, factor: Node) -> Node:
    """factor * target * softplus(-x) + (1 - target) * softplus(x), where 0 times infinity is 0."""
    shape = ew.common_shape([x, target, factor], "binary_cross_entropy_with_logits")
    x, target, factor = (ew.broadcast_to(v, shape) for v in (x, target, factor))
    yes, no = ew.mul(factor, target), ew.sub(1.0, target)
    size, more = ew.absolute(x), ew.where(ew.less(x, 0.0), yes, no)
    value = ew.add(ew.where(ew.equal(more, 0.0), 0.0, ew.mul(size, more)), ew.mul(
        ew.add(yes, no), special.log1p(special.exp(ew.negative(size)))))
    return with_gradient(ew.where(ew.not_equal(x, x), x, value), (x, target, factor),
                            _logit_gradient)


def _logit_gradient(g: Node, node: Node) -> tuple[Node, Node, Node]:
    """For the target factor * softplus(-x) - softplus(x), by the smaller of both: -x without a
    factor, where their difference would lose digits."""
    _, x, target, factor = node.src
    missed, positive = special.softplus(ew.negative(x)), ew.greater_equal(x, 0.0)
    rest = ew.mul(ew.sub(factor, 1.0), ew.where(positive, missed, special.softplus(x)))
    far = ew.negative(ew.where(positive, x, ew.mul(factor, x)))
    slope = ew.sub(ew.mul(ew.sub(1.0, target), special.logistic(x)),
                   ew.mul(ew.mul(factor, target), special.logistic(ew.negative(x))))
    return (ew.mul(g, slope), ew.mul(g, ew.add(far, rest)),
            ew.mul(g, ew.mul(target, missed)))


@takes_tensors
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                         size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """-log of the probability that `input`, 0 to 1, gives to `target`; a logarithm counts as -100
    at least. ValueRangeError, once it is computed, for an input outside of that.
    """
    losses.check_same(input.node, target.node, "binary_cross_entropy")
    loss = Tensor._result(_binary_loss(input.node, target.node), input, target)
    loss = loss if weight is None else loss * weight
    return reduced(loss, reduction_of(size_average, reduce, reduction), "binary_cross_entropy")


def _binary_loss(x: Node, target: Node) -> Node:
    inside = ew.logical_and(ew.less_equal(0, x), ew.less_equal(x, 1))
    x = ew.obeying(x, ew.invert(inside), "binary_cross_entropy",
                   "an element of the input is below 0, above 1 or NaN; take its sigmoid() first, "
                   "or binary_cross_entropy_with_logits of it")
    yes, no = _limited_logs(x)
    value = ew.sub(ew.mul(ew.sub(target, 1.0), no), ew.mul(target, yes))
    return with_gradient(value, (x, target), _binary_gradient)


def _limited_logs(x: Node) -> tuple[Node, Node]:
    """log(x) and log(1 - x), at least -100."""
    return (ew.clip(special.log(x), -100.0, None),
            ew.clip(special.log1p(ew.negative(x)), -100.0, None))


def _binary_gradient(g: Node, node: Node) -> tuple[Node, Node]:
    x, target = node.src[1:]
    yes, no = _limited_logs(x)
    spread = ew.clip(ew.mul(x, ew.sub(1.0, x)), 1e-12, None)
    return (ew.mul(g, ew.true_divide(ew.sub(x, target), spread)), ew.mul(g, ew.sub(no, yes)))


# ---- margins between classes ---------------------------------------------------------------------

def _rows(input: Tensor, operation: str) -> Tensor:
    """(batch, classes), also of a single example."""
    if input.ndim > 2:
        raise ShapeError(f"{operation}: the input has shape {input.shape}; it needs (batch, "
                         f"classes), or (classes,)")
    return input if input.ndim == 2 else input.reshape(1, -1)


@takes_tensors
@casting(WIDE)
def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0,
                      weight: Tensor | None = None, size_average: bool | None = None,
                      reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """sum over other classes of max(0, margin - x[target] + x[class]) ** p, over their number and
    the target's; input (batch, classes), integer labels (batch,)."""
    name = "multi_margin_loss"
    if p not in (1, 2):
        raise ArgumentError(f"{name}: p={p} is not 1 or 2")
    check_floats(name, input)
    rows = _rows(input, name)
    labels = target.reshape(-1)
    if not target.dtype.is_int or target.ndim >= 2 or labels.shape != rows.shape[:1]:
        raise ShapeError(f"{name}: an input {input.shape} takes integer labels of shape "
                         f"{input.shape[:-1]}, not {target.dtype.name} {target.shape}; convert "
                         f"labels with .long()")
    classes = rows.shape[1]
    labels = labels._unary(lambda x: losses.checked_labels(x, name, input.ndim - 1, classes))
    picked = rows.gather(1, labels.unsqueeze(1))
    gaps = (picked - rows)._unary(lambda x: _hinge(x, margin))
    gaps = gaps if p == 1 else gaps.square()
    if weight is not None:
        gaps = gaps * weight[labels].unsqueeze(1)
    own = labels._unary(lambda x: losses.chosen(x, classes))
    loss = gaps.masked_fill(own, 0.0).sum(1) / classes
    loss = loss if input.ndim == 2 else loss.reshape(target.shape)
    return reduced(loss, reduction_of(size_average, reduce, reduction), name)


def _hinge(gap: Node, margin: float) -> Node:
    """max(0, margin - gap)."""
    return special.relu(ew.sub(margin, gap))


@takes_tensors
@casting(WIDE)
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                           reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """sum over pairs of a target class and another of max(0, 1 - x[target] + x[other]), over the
    number of classes; labels (batch, classes), of which only those before the first -1 count."""
    name = "multilabel_margin_loss"
    check_floats(name, input)
    rows, labels = _rows(input, name), _rows(target, name)
    if target.shape != input.shape or not target.dtype.is_int:
        raise ShapeError(f"{name}: an input {input.shape} takes integer labels of its shape, not "
                         f"{target.dtype.name} {target.shape}; convert labels with .long()")
    classes = rows.shape[1]
    counts = (labels == -1).long().cumsum(1) == 0
    labels = labels.masked_fill(~counts, 0)._unary(
        lambda x: losses.checked_labels(x, name, input.ndim - 1, classes))
    is_target = labels._unary(lambda x: losses.chosen(x, classes)) & counts.unsqueeze(2)
    is_target = is_target.any(1)
    picked = rows.gather(1, labels)
    gaps = (picked.unsqueeze(2) - rows.unsqueeze(1))._unary(lambda x: _hinge(x, 1.0))
    used = counts.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = gaps.masked_fill(~used, 0.0).sum((1, 2)) / classes
    loss = loss if input.ndim == 2 else loss.reshape(())
    return reduced(loss, reduction_of(size_average, reduce, reduction), name)


@takes_tensors
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: bool | None = None, reduce: bool | None = None,
                                reduction: str = "mean") -> Tensor:
    """binary_cross_entropy_with_logits averaged over the last axis, of classes."""
    name = "multilabel_soft_margin_loss"
    check_floats(name, input)
    losses.check_same(input.node, target.node, name)
    if not input.ndim:
        raise ShapeError(f"{name}: the input has shape (); it needs a class axis")
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = (loss if weight is None else loss * weight).mean(-1)
    return reduced(loss, reduction_of(size_average, reduce, reduction), name)
