"""Softmax and the losses made with it, as graphs.

In and out: GRAPH nodes. 16-bit floats are computed in float32 and rounded once.
"""
from __future__ import annotations

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import IndexBound
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, make, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes, special
from lazyten.operators.math.elementwise import as_float
from lazyten.operators.math.gradients import flat_later
from lazyten.support.errors import ArgumentError, DTypeError, IndexingError, ShapeError

REDUCTIONS = ("mean", "sum", "none")


def softmax(x: Node, axis: int) -> Node:
    """e ** x over its sum along `axis`; NaN where the greatest is infinite."""
    x = as_float(x)
    wide = ew.wide(x)
    if not x.shape or x.shape[axis] == 0:
        return x if x.shape else ew.add(ew.mul(x, 0.0), 1.0)
    powers = special.exp(ew.sub(wide, reductions.detached_max(wide, (axis,))))
    total = reductions.sum(powers, (axis,), keepdim=True)
    return cast(ew.true_divide(powers, total), x.dtype)


def log_softmax(x: Node, axis: int) -> Node:
    """The logarithm of softmax, without the loss of taking it afterwards."""
    x = as_float(x)
    wide = ew.wide(x)
    if not x.shape or x.shape[axis] == 0:
        return x if x.shape else ew.mul(x, 0.0)
    below = ew.sub(wide, reductions.detached_max(wide, (axis,)))
    total = reductions.sum(special.exp(below), (axis,), keepdim=True)
    return cast(ew.sub(below, special.log(total)), x.dtype)


def one_hot(labels: Node, classes: int) -> Node:
    """int64 (..., classes): 1 at each label, 0 elsewhere. A label outside is an IndexingError once
    the values are computed."""
    if not labels.dtype.is_int:
        raise DTypeError(f"one_hot of {labels.dtype.name}: labels are integers; convert with "
                         f".long()")
    if classes < 1:
        raise ArgumentError(f"one_hot: {classes} classes; give 1 or more")
    inside = checked_labels(labels, "one_hot", len(labels.shape), classes)
    return cast(chosen(inside, classes), dt.int64)


def checked_labels(labels: Node, operation: str, axis: int, classes: int) -> Node:
    """The labels, which must be 0 to classes - 1: IndexingError once the values are computed, or
    now if there is no class for any. axis: where the user has the classes, for the message."""
    if labels.numel and not classes:
        raise IndexingError(f"{operation}: there are {labels.numel} labels, but axis {axis}, of "
                            f"classes, has size 0; no label is inside")
    within = IndexBound(operation, axis, classes, from_end=False, called="label")
    return make(Op.CHECKED, labels.dtype, (labels,), within)


def chosen(labels: Node, classes: int) -> Node:
    """Where the class along a new last axis is the label, whose type may hold fewer numbers."""
    shape = (*labels.shape, classes)
    kind = labels.dtype if classes - 1 <= labels.dtype.max else dt.int64
    wide = reshape(cast(labels, kind), (*labels.shape, 1))
    return ew.equal(reductions.positions(shape, len(shape) - 1, kind), wide)


def check_float(kind: DType, operation: str) -> None:
    """DTypeError for a loss of integers, whose differences and products wrap."""
    if not kind.is_float:
        raise DTypeError(f"{operation} of {kind.name}: a loss is a float; convert first with "
                         f".float()")


def reduced(loss: Node, how: str, operation: str) -> Node:
    """The mean, the sum, or the losses themselves. ArgumentError for any other word."""
    if how not in REDUCTIONS:
        raise ArgumentError(f"{operation}: reduction {how!r} is not one of {', '.join(REDUCTIONS)}")
    check_float(loss.dtype, operation)
    everything = tuple(range(len(loss.shape)))
    if how == "mean":
        return reductions.mean(loss, everything)
    return reductions.sum(loss, everything) if how == "sum" else loss


def cross_entropy(logits: Node, target: Node, weight: Node | None = None, ignore: int = -100,
                  how: str = "mean", smoothing: float = 0.0) -> Node:
    """-log softmax(logits) of the target class; classes are axis 1 (axis 0 of a single example).

    target: integer labels, shaped as logits without the class axis, or float probabilities shaped
    as logits. Labels are as in `nll`.
    """
    _check_targets(logits, target, weight, how, "cross_entropy")
    if not 0 <= smoothing <= 1:
        raise ArgumentError(f"cross_entropy: label_smoothing {smoothing} must be 0 to 1")
    axis = _class_axis(logits)
    scores = log_softmax(_classes_last(logits, axis), len(logits.shape) - 1)
    if target.dtype.is_float:
        return _probability_loss(scores, _classes_last(target, axis), weight, how, smoothing)
    return _label_loss(scores, target, weight, ignore, how, smoothing, "cross_entropy")


def nll(scores: Node, target: Node, weight: Node | None, ignore: int, how: str) -> Node:
    """-scores, which are logarithms of probabilities, of the target class; classes are axis 1 (axis
    0 of a single example). A label outside the classes, other than `ignore`, is an IndexingError
    once the values are computed.
    """
    _check_targets(scores, target, weight, how, "nll_loss")
    last = _classes_last(flat_later(scores), _class_axis(scores))
    return _label_loss(last, target, weight, ignore, how, 0.0, "nll_loss")


def _class_axis(x: Node) -> int:
    return 1 if len(x.shape) > 1 else 0


def _label_loss(scores: Node, target: Node, weight: Node | None, ignore: int, how: str,
                smoothing: float, operation: str) -> Node:
    """The loss of scores (.., classes) for labels (..)."""
    classes = scores.shape[-1]
    ignored = ew.equal(target, ignore)
    label = checked_labels(ew.where(ignored, 0, target), operation,
                           min(len(target.shape), 1), classes)
    own = chosen(label, classes)
    factors = const(1.0, scores.dtype, (classes,)) if weight is None else weight
    picked = _last_sum(ew.where(own, ew.mul(scores, factors), 0.0))
    loss = ew.negative(picked)
    if smoothing:
        spread = ew.negative(_last_sum(ew.mul(scores, factors)))
        loss = ew.add(ew.mul(loss, 1 - smoothing), ew.mul(spread, smoothing / max(classes, 1)))
    loss = ew.where(ignored, 0.0, loss)
    if how != "mean":
        return reduced(loss, how, operation)
    counted = ew.where(ignored, 0.0, const(1.0, scores.dtype, target.shape))
    if weight is not None:
        counted = ew.mul(counted, _last_sum(ew.where(own, factors, 0.0)))
    everything = tuple(range(len(loss.shape)))
    return ew.true_divide(reductions.sum(loss, everything), reductions.sum(counted, everything))


def _probability_loss(scores: Node, target: Node, weight: Node | None, how: str,
                      smoothing: float) -> Node:
    if smoothing:
        target = ew.add(ew.mul(target, 1 - smoothing), smoothing / max(target.shape[-1], 1))
    if weight is not None:
        scores = ew.mul(scores, weight)
    loss = ew.negative(_last_sum(ew.mul(scores, target)))
    if how != "mean":
        return reduced(loss, how, "cross_entropy")
    total = reductions.sum(loss, tuple(range(len(loss.shape))))
    return ew.true_divide(total, float(loss.numel if target.numel else 0))


def _classes_last(x: Node, axis: int) -> Node:
    rank = len(x.shape)
    return move(Op.PERMUTE, x, (*(a for a in range(rank) if a != axis), axis))


def _last_sum(x: Node) -> Node:
    return reductions.sum(x, (len(x.shape) - 1,))


def _check_targets(scores: Node, target: Node, weight: Node | None, how: str,
                   operation: str) -> None:
    if not scores.shape:
        raise ShapeError(f"{operation}: the input has shape (); it needs a class axis")
    if not scores.dtype.is_float:
        raise DTypeError(f"{operation}: the input is {scores.dtype.name}; it must be floats, "
                         f"convert with .float()")
    axis = _class_axis(scores)
    labels = scores.shape[:axis] + scores.shape[axis + 1:]
    probabilities = operation == "cross_entropy" and target.dtype.is_float
    kind = target.dtype.is_int or probabilities
    if not kind or target.shape != (scores.shape if probabilities else labels):
        other = f" or float probabilities of shape {scores.shape}" * (operation == "cross_entropy")
        raise ShapeError(f"{operation}: an input {scores.shape} takes integer labels of shape "
                         f"{labels}{other}, not {target.dtype.name} {target.shape}; convert labels "
                         f"with .long()")
    if weight is not None and weight.shape != (scores.shape[axis],):
        raise ShapeError(f"{operation}: weight {weight.shape} needs one element a class: "
                         f"({scores.shape[axis]},)")
    if how not in REDUCTIONS:
        raise ArgumentError(f"{operation}: reduction {how!r} is not one of "
                            f"{', '.join(REDUCTIONS)}")


def check_same(a: Node, b: Node, operation: str) -> None:
    """ShapeError unless input and target have one shape."""
    if a.shape != b.shape:
        shapes.broadcast([a.shape, b.shape], operation)
        raise ShapeError(f"{operation}: input {a.shape} and target {b.shape} must have one shape; "
                         f"reshape one")
