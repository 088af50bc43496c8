"""Softmax and its relatives along an axis, which `lazyten.nn.functional` offers."""
from __future__ import annotations

from lazyten import random
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.node import cast
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes, special
from lazyten.support.errors import DTypeError


def _softmax_axis(input: Tensor, dim: int | None) -> int:
    """The axis; PyTorch's choice if there is none: 0 of tensors with 0, 1 and 3 axes, else 1."""
    return dim if dim is not None else 0 if input.ndim in (0, 1, 3) else 1


@takes_tensors
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3,
            dtype: DTypeLike | None = None) -> Tensor:
    """e ** x over its sum along an axis. (_stacklevel only takes PyTorch's place for it.)"""
    return input.softmax(_softmax_axis(input, dim), dtype)


@takes_tensors
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3,
            dtype: DTypeLike | None = None) -> Tensor:
    """softmax of -x."""
    return (-input).softmax(_softmax_axis(input, dim), dtype)


@takes_tensors
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3,
                dtype: DTypeLike | None = None) -> Tensor:
    """The logarithm of softmax."""
    return input.log_softmax(_softmax_axis(input, dim), dtype)


@takes_tensors
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10,
                   dim: int = -1) -> Tensor:
    """softmax((logits + noise) / tau), a sample of the classes that is differentiable; `hard`: 1 at
    the greatest and 0 elsewhere, with the gradient of the soft one. (eps has no effect, as in
    PyTorch.)"""
    if not logits.dtype.is_float:
        raise DTypeError(f"gumbel_softmax of {logits.dtype.name}: logits are floats; convert with "
                         f".float()")
    kind = dt.float32 if logits.dtype.is_half else logits.dtype
    chance = ew.maximum(random.uniform(logits.shape, kind, logits.device), 2.0**-60)  # above 0
    noise = ew.negative(special.log(ew.negative(special.log(chance))))
    soft = logits._special(lambda x: ew.true_divide(ew.add(x, noise), tau)).softmax(dim)
    if not hard:
        return soft
    axis = shapes.axis(dim, logits.ndim, "gumbel_softmax")
    greatest = soft.detach().argmax(axis, keepdim=True)
    places = soft.detach()._unary(lambda x: cast(ew.equal(
        reductions.positions(x.shape, axis, dt.int64), greatest.node), x.dtype))
    return places - soft.detach() + soft
