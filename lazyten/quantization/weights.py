"""Weights as integers: in 8 bits, or in 4, two to a byte.

A weight is a matrix here: a row for each output, and along it what the inputs are multiplied with.
A row is one group, or several of `group_size` elements; each group has a scale, and a zero point
unless the integers are symmetric. Its elements come back as ordinary operations of tensors, which
are computed inside the product that reads them.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from lazyten.frontend import functions
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.nn.module import Module
from lazyten.quantization.affine import from_integers, to_integers
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad


@dataclass(frozen=True, slots=True)
class Scheme:
    """How weights become integers. bits: 8 or 4. group_size: how many elements of a row share a
    scale, all if None. symmetric: 0 is the integer in the middle, else what lets a group's integers
    reach from its least to its greatest element, and 0."""

    bits: int = 8
    group_size: int | None = None
    symmetric: bool = True

    @property
    def name(self) -> str:
        """As users call it."""
        return f"int{self.bits}"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer: of 4 bits from 0 on, as they are in a byte."""
        least, number = (0, 16) if self.bits == 4 else (-128, 256)
        return least + self.symmetric, least + number - 1

    @property
    def middle(self) -> int:
        """The zero point of symmetric integers."""
        return 8 if self.bits == 4 else 0

    def groups(self, columns: int, where: str) -> int:
        """How many groups a row has. ArgumentError if they do not divide it."""
        size = columns if self.group_size is None else self.group_size
        if columns == 0 or columns % size:
            raise ArgumentError(
                f"{where}: group_size={size} does not divide the {columns} elements of a row of "
                f"the weight, which are those that an output is made of; give a divisor, None for "
                f"one scale a row, or leave the layer out with skip=[...]")
        return columns // size

    def __str__(self) -> str:
        groups = "" if self.group_size is None else f", groups of {self.group_size}"
        return f"{self.name}{groups}{'' if self.symmetric else ', zero points'}"


class Integers(NamedTuple):
    """Rows as integers. values: floats (rows, groups, size); scale, zero_point: (rows, groups, 1),
    the latter a number where it is the same for all."""

    values: Tensor
    scale: Tensor
    zero_point: Tensor | int


def integers_of(rows: Tensor, scheme: Scheme, where: str) -> Integers:
    """A matrix of floats as integers; of 16-bit floats worked out in float32, with scales that have
    16 bits. where: what an error names."""
    count, columns = rows.shape
    groups = scheme.groups(columns, where)
    low, high = scheme.limits
    parts = rows.reshape(count, groups, columns // groups)
    parts = parts.float() if rows.dtype.is_half else parts
    if scheme.symmetric:
        zero: Tensor | int = scheme.middle
        scale = _usable(parts.abs().amax(2, keepdim=True) / (high - scheme.middle), rows.dtype)
    else:
        least = parts.amin(2, keepdim=True).clamp(max=0.0)
        most = parts.amax(2, keepdim=True).clamp(min=0.0)
        scale = _usable((most - least) / (high - low), rows.dtype)
        zero = (low - least * (1.0 / scale)).round().clamp(low, high)
    return Integers(to_integers(parts, scale, zero, low, high), scale, zero)


def _usable(scale: Tensor, dtype: DType) -> Tensor:
    """As a type has it; 1 for a group of zeros, or so small that 1 / scale would be infinite."""
    rounded = scale.to(dtype).to(scale.dtype)
    usable: Tensor = functions.where((1.0 / rounded).isinf(), 1.0, rounded)
    return usable


def as_rows(weight: Tensor, axis: int) -> Tensor:
    """A weight as a matrix whose rows are the places of `axis`."""
    return weight.movedim(axis, 0).reshape(weight.shape[axis], -1)


def packed(nibbles: Tensor) -> Tensor:
    """Rows of integers below 16, two to a byte: the first half of a row in the low bits, the second
    in the high ones; the last byte of an odd row has 0 there."""
    half = -(-nibbles.shape[1] // 2)
    low, high = nibbles[:, :half], nibbles[:, half:]
    if high.shape[1] < half:
        high = high.pad((0, half - high.shape[1]))
    return low + high * 16


def unpacked(bytes_: Tensor, columns: int) -> Tensor:
    """What `packed` was given, for rows of so many elements."""
    rows, half = bytes_.shape
    shifts = functions.arange(0, 8, 4, dtype=dt.uint32, device=bytes_.device).reshape(2, 1)
    whole = (bytes_.unsqueeze(1).to(dt.uint32) >> shifts) & 15  # shifted as wide as it is used
    return whole.to(dt.uint8).reshape(rows, 2 * half)[:, :columns]


class QuantizedWeight(Module):
    """A weight kept as integers; called, it gives the floats that they stand for.

    shape: that of the weight; axis: that of the outputs. Buffers: values, int8 (rows, columns), or
    uint8 (rows, half as many) for two to a byte; scale, a float for each group (rows, groups);
    zero_point, int8 or uint8 of the same shape, or None if it is the same for all.
    """

    values: Tensor
    scale: Tensor
    zero_point: Tensor | None

    def __init__(self, weight: Tensor, scheme: Scheme, axis: int, where: str) -> None:
        super().__init__()
        if not weight.dtype.is_float:
            raise DTypeError(f"{where}: the weight is {weight.dtype.name}; only floats become "
                             f"integers")
        self.shape, self.axis, self.scheme = tuple(weight.shape), axis, scheme
        with no_grad():
            rows = as_rows(weight.detach(), axis)
            self.columns = rows.shape[1]
            found = integers_of(rows, scheme, where)
            if not found.scale.isfinite().all():
                raise ArgumentError(f"{where}: the weight has elements that are infinite or no "
                                    f"numbers, which no integers stand for")
            kind = dt.uint8 if scheme.bits == 4 else dt.int8
            whole = found.values.reshape(rows.shape).to(kind)
            self.register_buffer("values", _kept(packed(whole) if scheme.bits == 4 else whole))
            self.register_buffer("scale", _kept(found.scale.squeeze(2).to(weight.dtype)))
            zero = found.zero_point
            self.register_buffer("zero_point", _kept(zero.squeeze(2).to(kind))
                                 if isinstance(zero, Tensor) else None)

    def whole(self) -> Tensor:
        """The integers (rows, columns), int8 or uint8."""
        return unpacked(self.values, self.columns) if self.scheme.bits == 4 else self.values

    def shaped(self, rows: Tensor) -> Tensor:
        """Rows in the shape of the weight."""
        first = self.shape[self.axis]
        rest = [n for a, n in enumerate(self.shape) if a != self.axis]
        return rows.reshape(first, *rest).movedim(0, self.axis)

    def forward(self) -> Tensor:
        """The weight, in the type of the scales."""
        rows, groups = self.scale.shape
        kind = self.scale.dtype
        parts = self.whole().reshape(rows, groups, self.columns // groups).to(kind)
        zero = self.scheme.middle if self.zero_point is None else \
            self.zero_point.to(kind).unsqueeze(2)
        return self.shaped(from_integers(parts, self.scale.unsqueeze(2), zero)
                           .reshape(rows, self.columns))

    def extra_repr(self) -> str:
        return f"{self.shape}, {self.scheme}, {nbytes_of(self):,} bytes"


def _kept(x: Tensor) -> Tensor:
    """A tensor computed now, so that nothing holds what it was made of."""
    return x.detach().contiguous().realize()


def nbytes_of(module: Module) -> int:
    """Bytes of all parameters and buffers of a module, of one that is shared once."""
    return sum(math.prod(t.shape) * t.dtype.itemsize for t in (*module.parameters(),
                                                               *module.buffers()))
