"""Losses with a margin, between pairs of vectors or of scores. `lazyten.nn.functional` offers them.

`target` says of each pair 1 or -1; `size_average` and `reduce` are PyTorch's older words for
`reduction`.
"""
from __future__ import annotations

from collections.abc import Callable

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.tensor import Tensor
from lazyten.nn.functions.distances import pairwise_distance
from lazyten.nn.functions.options import check_floats, reduced, reduction_of
from lazyten.operators.math import composites, losses, shapes, special
from lazyten.operators.math import elementwise as ew
from lazyten.support.errors import ArgumentError, ShapeError


@takes_tensors
@casting(WIDE)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0,
                         size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    shapes.broadcast([input.shape, target.shape], "hinge_embedding_loss")
    far = functions.where(target != 1, (margin - input).clamp(min=0), 0.0)
    near = functions.where(target != -1, input, 0.0)
    return reduced(far + near, reduction_of(size_average, reduce, reduction),
                   "hinge_embedding_loss")


@takes_tensors
@casting(WIDE)
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, margin - target * (input1 - input2)): target 1 wants input1 to be the greater."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(f"margin_ranking_loss: the inputs have shapes {input1.shape} and "
                         f"{input2.shape} and the target {target.shape}; they need the same number "
                         f"of axes")
    gap = input1._unary(composites.exact) - input2._unary(composites.exact)
    loss = (margin - target * gap._unary(ew.as_float)).clamp(min=0)
    return reduced(loss, reduction_of(size_average, reduce, reduction), "margin_ranking_loss")


@takes_tensors
@casting(WIDE)
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                          size_average: bool | None = None, reduce: bool | None = None,
                          reduction: str = "mean") -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1; inputs (batch,
    features) or (features,), targets (batch,) or ()."""
    if target.ndim not in (0, 1) or not target.ndim + 1 == input1.ndim == input2.ndim:
        raise ShapeError(f"cosine_embedding_loss: the inputs have shapes {input1.shape} and "
                         f"{input2.shape} and the target {target.shape}; they need (batch, "
                         f"features) twice and (batch,), or all without a batch")
    input1, input2 = input1._unary(ew.as_float), input2._unary(ew.as_float)
    product = (input1 * input2).sum(-1)
    squares = [x.square().sum(-1) + 1e-12 for x in (input1, input2)]
    cosine = product / (squares[0] * squares[1]).sqrt()
    loss = functions.where(target == 1, 1 - cosine, 0.0) + functions.where(
        target == -1, (cosine - margin).clamp(min=0), 0.0)
    return reduced(loss, reduction_of(size_average, reduce, reduction), "cosine_embedding_loss")


@takes_tensors
@casting(WIDE)
def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                     reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """log(1 + e ** (-target * input))."""
    losses.check_same(input.node, target.node, "soft_margin_loss")
    check_floats("soft_margin_loss", input, target)
    loss = (-target * input)._special(lambda x: special.softplus(ew.as_float(x)))
    return reduced(loss, reduction_of(size_average, reduce, reduction), "soft_margin_loss")


@takes_tensors
@casting(WIDE)
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0,
                        p: float = 2, eps: float = 1e-6, swap: bool = False,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, margin + distance(anchor, positive) - distance(anchor, negative)), pairwise distances
    of order p; `swap`: the negative's distance to the anchor or to the positive, what is less."""
    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)
    return _triplet(anchor, positive, negative, distance, margin, swap,
                    reduction_of(size_average, reduce, reduction), "triplet_margin_loss")


@takes_tensors
def triplet_margin_with_distance_loss(
        anchor: Tensor, positive: Tensor, negative: Tensor, *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean") -> Tensor:
    """triplet_margin_loss with any distance function of two tensors (pairwise_distance)."""
    return _triplet(anchor, positive, negative, distance_function or pairwise_distance, margin,
                    swap, reduction, "triplet_margin_with_distance_loss")


def _triplet(anchor: Tensor, positive: Tensor, negative: Tensor,
             distance: Callable[[Tensor, Tensor], Tensor], margin: float, swap: bool,
             reduction: str, name: str) -> Tensor:
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(f"{name}: anchor {anchor.shape}, positive {positive.shape} and negative "
                         f"{negative.shape} need the same number of axes")
    if not shapes.as_number(margin, name, "margin") > 0:
        raise ArgumentError(f"{name}: margin={margin} must be above 0")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction, name)
