"""The functions of `lazyten` that make tensors of random numbers.

`generator` is a `Generator`, or None for the default one.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyten import random
from lazyten.frontend.arguments import fills_out, takes_tensors
from lazyten.frontend.core.keywords import making
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, cast, const
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import shapes
from lazyten.operators.math.elementwise import Operand
from lazyten.random import Generator, distributions
from lazyten.storage.placement import placed
from lazyten.support.errors import ArgumentError, ComplexError, DTypeError

random.states_as(lambda state: Tensor._copy_of(state, dt.uint8, "cpu"))


def _type(dtype: DTypeLike | None, default: DType) -> DType:
    return default if dtype is None else dt.as_dtype(dtype)


def _floats(draw: Callable[[Shape, DType, str, Generator | None], Node], name: str,
            size: Sequence[Any], dtype: DTypeLike | None, device: str | None,
            generator: Generator | None, requires_grad: bool) -> Tensor:
    kind = _type(dtype, dt.default_float)
    if kind.is_complex:
        raise ComplexError
    if kind.kind != "f":
        raise DTypeError(f"{name}: {kind.name} is no float type with arithmetic; use randint for "
                         f"integers, and convert to 8-bit floats afterwards")
    where = placed(device)
    drawn = draw(shapes.new_shape(size, name), kind, where, generator)
    return _leaf(Tensor._of(drawn, where), requires_grad)


def _leaf(drawn: Tensor, requires_grad: bool) -> Tensor:
    return drawn.requires_grad_() if requires_grad else drawn


@fills_out
@making
@recorded
def rand(*size: Any, dtype: DTypeLike | None = None, device: str | None = None,
         generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """Numbers evenly spread over [0, 1), of the default float type unless `dtype` says otherwise.
    generator: where they come from, the default one that `manual_seed` seeds if None; the same on
    every device."""
    return _floats(random.uniform, "rand", size, dtype, device, generator, requires_grad)


@fills_out
@making
@recorded
def randn(*size: Any, dtype: DTypeLike | None = None, device: str | None = None,
          generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """Normally distributed numbers, mean 0 and variance 1; for the rest see rand()."""
    return _floats(distributions.normal, "randn", size, dtype, device, generator, requires_grad)


@fills_out
@making
@recorded
def randint(low: int = 0, high: Any = None, size: Any = None, dtype: DTypeLike | None = None,
            device: str | None = None, generator: Generator | None = None,
            requires_grad: bool = False) -> Tensor:
    """Whole numbers low <= n < high; randint(high, size) is from 0."""
    if size is None and high is not None:
        high, size = None, high
    if size is None:
        raise ArgumentError("randint: no size; give randint(low, high, size) or "
                            "randint(high, size)")
    if high is None:
        low, high = 0, low
    where, kind = placed(device), _type(dtype, dt.default_int)
    node = distributions.integers(shapes.as_int(low, "randint", "low"),
                                  shapes.as_int(high, "randint", "high"),
                                  shapes.new_shape([size], "randint"),
                                  dt.int64 if kind.is_float else kind, where, generator)
    return _leaf(Tensor._of(cast(node, kind), where), requires_grad)


@fills_out
@making
def randperm(n: int, device: str | None = None, generator: Generator | None = None,
             dtype: DTypeLike = dt.int64, requires_grad: bool = False) -> Tensor:
    """The numbers 0 to n - 1 in random order."""
    count, = shapes.new_shape([shapes.as_int(n, "randperm", "n")], "randperm")
    where = placed(device)
    order = Tensor._of(distributions.permutation(count, where, generator), where)
    return _leaf(order.to(dtype=dtype), requires_grad)


@making
@takes_tensors
def rand_like(input: Tensor, dtype: DTypeLike | None = None, device: str | None = None,
              generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """`rand` in another tensor's shape; its dtype and device unless others are given."""
    return rand(input.shape, dtype=dtype or input.dtype, device=device or input.device,
                generator=generator, requires_grad=requires_grad)


@making
@takes_tensors
def randn_like(input: Tensor, dtype: DTypeLike | None = None, device: str | None = None,
               generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """`randn` in another tensor's shape; its dtype and device unless others are given."""
    return randn(input.shape, dtype=dtype or input.dtype, device=device or input.device,
                 generator=generator, requires_grad=requires_grad)


@making
@takes_tensors
def randint_like(input: Tensor, low: int | None = None, high: int | None = None,
                 dtype: DTypeLike | None = None, device: str | None = None,
                 generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """`randint` in another tensor's shape; its dtype and device unless others are given.
    randint_like(input, high) is from 0."""
    first, end = (0, low) if high is None else (low or 0, high)
    if end is None:
        raise ArgumentError("randint_like: no bound; give high=, or low and high")
    kind = _type(dtype, input.dtype)
    return randint(first, end, input.shape, kind, device or input.device, generator,
                   requires_grad)


@fills_out
@making
@recorded
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, dtype: DTypeLike | None = None,
           device: str | None = None, generator: Generator | None = None,
           requires_grad: bool = False) -> Tensor:
    """Normally distributed numbers. mean and std are numbers (or zero-dim tensors), with a size;
    or one or both are tensors, which broadcast, for the mean and standard deviation of each
    element."""
    return _leaf(_normal(mean, std, size, dtype, device, generator), requires_grad)


def _normal(mean: Any, std: Any, size: Any, dtype: DTypeLike | None, device: str | None,
            generator: Generator | None) -> Tensor:
    given = [v for v in (mean, std) if isinstance(v, Tensor) and (v.ndim or size is None)]
    if not given:
        if size is None:
            raise ArgumentError("normal: no size; give one, or a tensor of means or of standard "
                                "deviations")
        kind, where = _type(dtype, dt.default_float), placed(device)
        zeros = const(0, kind, shapes.new_shape([size], "normal"))
        return Tensor._of(zeros, where).normal_(mean, std, generator)
    first = given[0]
    operands = [first._operand(v, "normal") for v in (mean, std)]
    nodes = [v.detach().node if isinstance(v, Tensor) else v for v in operands]
    kind = ew.result_type(nodes)
    if kind.kind != "f":
        raise DTypeError(f"normal: mean and std of {kind.name}; convert them with .float()")
    shape = ew.common_shape(nodes, "normal")
    unit = distributions.normal(shape, kind, first.device, generator)
    return Tensor._of(ew.add(ew.mul(unit, _deviation(nodes[1])), nodes[0]), first.device)


def _deviation(std: Operand) -> Operand:
    """A standard deviation, 0 or more: elements are checked as they are computed."""
    if isinstance(std, Node):
        return ew.obeying(std, ew.less(std, 0), "normal", "an element of std is below 0")
    if std < 0:
        raise ArgumentError(f"normal: std={std} is below 0; give 0 or more")
    return std
