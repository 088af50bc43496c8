"""Losses of numbers beside numbers, and of distributions. `lazyten.nn.functional` offers them.

`size_average` and `reduce` are PyTorch's older words for `reduction`. Input and target that have
not one shape broadcast, with a warning, as this is seldom meant.
"""
from __future__ import annotations

import math
import warnings

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.mixed_precision import WIDE, casting
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, const
from lazyten.nn.functions.options import check_floats, reduced, reduction_of
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import losses, shapes, special
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.location import user_location


def _warn_of_shapes(input: Tensor, target: Tensor, operation: str) -> None:
    """A UserWarning where input and target broadcast, and a ShapeError where they do not."""
    common = shapes.broadcast([input.shape, target.shape], operation)
    if input.shape != target.shape and tracing.current() is None:
        warnings.warn(f"{operation} at {user_location()}: input {input.shape} and target "
                      f"{target.shape} broadcast to {common}, so elements are compared with "
                      f"several; reshape one if that is not meant", stacklevel=2)


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str, name: str) -> Tensor:
    """The mean is then over the sum of the weights."""
    check_floats(name, loss)
    if weight is None:
        return reduced(loss, reduction, name)
    losses.check_same(loss.node, weight.node, f"{name}, weight")
    total = reduced(loss * weight, "sum" if reduction == "mean" else reduction, name)
    return total / weight.sum() if reduction == "mean" else total


@takes_tensors
@casting(WIDE)
def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
             reduce: bool | None = None, reduction: str = "mean",
             weight: Tensor | None = None) -> Tensor:
    """The squared difference. weight: shaped as the input; the mean is over the sum of weights."""
    _warn_of_shapes(input, target, "mse_loss")
    return _weighted((input - target).square(), weight,
                     reduction_of(size_average, reduce, reduction), "mse_loss")


@takes_tensors
@casting(WIDE)
def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
            reduce: bool | None = None, reduction: str = "mean",
            weight: Tensor | None = None) -> Tensor:
    """The absolute difference. weight: shaped as the input; the mean is over the sum of weights."""
    _warn_of_shapes(input, target, "l1_loss")
    return _weighted((input - target).abs(), weight,
                     reduction_of(size_average, reduce, reduction), "l1_loss")


@takes_tensors
@casting(WIDE)
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """Half the squared difference below delta, delta * (difference - delta / 2) from there on."""
    _warn_of_shapes(input, target, "huber_loss")
    check_floats("huber_loss", input, target)
    if not shapes.as_number(delta, "huber_loss", "delta") > 0:
        raise ArgumentError(f"huber_loss: delta={delta} must be above 0")
    size = (input - target).abs()
    near = size.clamp(max=delta)  # the other branch's slope is none of 0 times infinity
    loss = functions.where(size < delta, 0.5 * near * near, delta * (size - 0.5 * delta))
    return reduced(loss if weight is None else loss * weight, reduction, "huber_loss")


@takes_tensors
@casting(WIDE)
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                   reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
                   ) -> Tensor:
    """The squared difference over 2 * beta below beta, the difference - beta / 2 from there on."""
    _warn_of_shapes(input, target, "smooth_l1_loss")
    check_floats("smooth_l1_loss", input, target)
    if shapes.as_number(beta, "smooth_l1_loss", "beta") < 0:
        raise ArgumentError(f"smooth_l1_loss: beta={beta} is below 0; give 0 or more")
    size = (input - target).abs()
    near = size.clamp(max=beta)
    loss = size if beta == 0 else functions.where(
        size < beta, 0.5 * near * near / beta, size - 0.5 * beta)
    return reduced(loss, reduction_of(size_average, reduce, reduction), "smooth_l1_loss")


# ---- distributions -------------------------------------------------------------------------------

@takes_tensors
@casting(WIDE)
def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None,
           reduce: bool | None = None, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), input in logarithms; `target` too with log_target.

    reduction 'batchmean' is the sum over the size of the first axis: the divergence as defined.
    """
    shapes.broadcast([input.shape, target.shape], "kl_div")
    check_floats("kl_div", input, target)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target._special(_x_log_x) - target * input
    how = reduction_of(size_average, reduce, reduction)
    if how != "batchmean":
        return reduced(loss, how, "kl_div")
    return reduced(loss, "sum", "kl_div") / (input.shape[0] if input.ndim else 1)


def _x_log_x(x: Node) -> Node:
    """x * log(x), 0 for 0."""
    zero = ew.equal(x, 0.0)
    logs = special.log(ew.where(zero, const(1.0, x.dtype), x))
    return ew.where(zero, 0.0, ew.mul(x, logs))


@takes_tensors
@casting(WIDE)
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8,
                     reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """-log of the probability of `target` in Poisson's distribution with mean e ** input, or with
    mean `input` unless log_input; without log(target!), or `full`, with Stirling's formula for it.
    """
    shapes.broadcast([input.shape, target.shape], "poisson_nll_loss")
    input = input._unary(ew.as_float)  # a product of integers wraps
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        above = functions.where(target > 1, target, 1.0)
        stirling = above * above.log() - above + 0.5 * (2 * math.pi * above).log()
        loss = loss + functions.where(target > 1, stirling, 0.0)
    return reduced(loss, reduction_of(size_average, reduce, reduction), "poisson_nll_loss")


@takes_tensors
@casting(WIDE)
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False,
                      eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """-log of the density of `target` in a normal distribution with mean `input` and variance
    `var`, which counts as `eps` at least; `full`: with the constant log(2 pi) / 2.

    var: a number, or shaped as the input, without its last axis or with size 1 there.
    """
    check_floats("gaussian_nll_loss", input, target)
    if not isinstance(var, Tensor):
        number = shapes.as_float(var, "gaussian_nll_loss", "var")
        if number < 0:
            raise ArgumentError(f"gaussian_nll_loss: var={var} is below 0; a variance is 0 or more")
        var = functions.full_like(input, number)
    input._operand(var, "gaussian_nll_loss")
    if var.shape != input.shape:
        var = var.unsqueeze(-1) if var.shape == input.shape[:-1] else var
        if sum(n != m for n, m in zip(input.shape, var.shape, strict=False)) > 1 \
                or var.ndim != input.ndim:
            raise ShapeError(f"gaussian_nll_loss: var has shape {var.shape}; it needs that of the "
                             f"input, {input.shape}, or the same without its last axis")
    var = var._unary(lambda x: ew.obeying(x, ew.less(x, 0), "gaussian_nll_loss",
                                          "an element of var is below 0; a variance is 0 or more"))
    spread = functions.where(var < eps, var - var.detach() + eps, var)
    loss = 0.5 * (spread.log() + (input - target).square() / spread)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction,
                   "gaussian_nll_loss")
