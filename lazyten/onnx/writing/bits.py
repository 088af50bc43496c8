"""The bits of a float as an integer, and back, by arithmetic that is exact: the standard has no
operator that looks at them until opset 26.

A float is scaled by powers of two until it is from 1 to 2, which tells its exponent; what is left
is its fraction.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lazyten.onnx.writing.alike import Term
from lazyten.onnx.writing.writer import TYPES, Writer
from lazyten.support.errors import ArgumentError


class Layout(NamedTuple):
    """A float's type: how many bits its fraction has, the exponent that is 0, and NumPy's types of
    it and of an integer of its size."""

    fraction: int
    bias: int
    real: type
    whole: type

    @property
    def sign(self) -> int:
        """The integer whose bits are a sign alone."""
        return int(np.iinfo(self.whole).min)

    @property
    def least(self) -> float:
        """The least number that has all bits of its fraction."""
        return float(np.finfo(self.real).tiny)


LAYOUTS = {"float32": Layout(23, 127, np.float32, np.int32),
           "float64": Layout(52, 1023, np.float64, np.int64)}


class _Parts:
    """Writes nodes on floats of a layout, of so many axes."""

    def __init__(self, w: Writer, layout: Layout, rank: int) -> None:
        self.w, self.layout, self._shape = w, layout, [1] * rank
        self.add = w.add
        self.whole_type = TYPES[np.dtype(layout.whole).name]
        self.real_type = TYPES[np.dtype(layout.real).name]

    def real(self, value: float) -> str:
        """A float."""
        return self.w.constant(np.full(self._shape, value, self.layout.real))

    def whole(self, value: int) -> str:
        """An integer."""
        return self.w.constant(np.full(self._shape, value, self.layout.whole))

    def choose(self, condition: str, yes: str, no: str) -> str:
        """One or the other."""
        return self.add("Where", condition, yes, no)

    def bits(self, x: str) -> str:
        """The integer that has a float's bits. (NaN is the positive one.)"""
        fraction, bias, *_ = self.layout
        size = self.add("Abs", x)
        scaled, exponent = self._scaled(size)
        part = self.add("Mul", self.add("Sub", scaled, self.real(1)), self.real(2.0 ** fraction))
        high = self.add("Mul", self.add("Add", exponent, self.whole(bias)),
                        self.whole(1 << fraction))
        usual = self.add("Add", high, self.add("Cast", part, to=self.whole_type))
        wide = self.add("Mul", self.add("Mul", size, self.real(2.0 ** bias)),
                        self.real(2.0 ** (fraction - 1)))
        tiny = self.add("Cast", wide, to=self.whole_type)
        found = self.choose(self.add("Less", size, self.real(self.layout.least)), tiny, usual)
        top = (2 * bias + 1) << fraction
        found = self.choose(self.add("Equal", size, self.real(math.inf)), self.whole(top), found)
        found = self.choose(self.add("IsNaN", x), self.whole(top + (1 << fraction - 1)), found)
        side = self.choose(self.add("Equal", x, self.real(0)), self.add("Reciprocal", x), x)
        negative = self.add("Less", side, self.real(0))
        return self.choose(negative, self.add("Add", found, self.whole(self.layout.sign)), found)

    def _scaled(self, size: str) -> tuple[str, str]:
        """A number from 1 to 2, and the power of two that makes the given one of it."""
        exponent = self.whole(0)
        steps = [1 << k for k in range((self.layout.bias + 1).bit_length() - 2, -1, -1)]
        for k in steps:
            small = self.add("Less", size, self.real(2.0 ** k))
            size = self.choose(small, size, self.add("Mul", size, self.real(2.0 ** -k)))
            exponent = self.choose(small, exponent, self.add("Add", exponent, self.whole(k)))
        for k in steps:
            small = self.add("Less", size, self.real(2.0 ** (1 - k)))
            size = self.choose(small, self.add("Mul", size, self.real(2.0 ** k)), size)
            exponent = self.choose(small, self.add("Sub", exponent, self.whole(k)), exponent)
        return size, exponent

    def float_of(self, bits: str) -> str:
        """The float that has an integer's bits."""
        fraction, bias, real, _ = self.layout
        negative = self.add("Less", bits, self.whole(0))
        bits = self.choose(negative, self.add("Sub", bits, self.whole(self.layout.sign)), bits)
        exponent = self.add("Div", bits, self.whole(1 << fraction))
        part = self.add("Sub", bits, self.add("Mul", exponent, self.whole(1 << fraction)))
        table = [self.layout.least, *(2.0 ** (e - bias) for e in range(1, 2 * bias + 1)), math.inf]
        power = self.add("Gather", self.w.constant(np.array(table, real)), exponent)
        begin = self.choose(self.add("Equal", exponent, self.whole(0)), self.real(0), self.real(1))
        share = self.add("Mul", self.add("Cast", part, to=self.real_type),
                         self.real(2.0 ** -fraction))
        found = self.add("Mul", self.add("Add", begin, share), power)
        none = self.add("Less", self.whole((2 * bias + 1) << fraction), bits)
        found = self.choose(none, self.real(math.nan), found)
        side = self.choose(negative, self.real(-1), self.real(1))  # a Where may lose the sign of 0
        return self.add("Mul", found, side)


def bitcast(w: Writer, term: Term, name: str) -> str:
    """Floats of 32 or 64 bits as integers of their size, or such integers as floats."""
    source: Any = term.src[0]
    rank = len(term.shape)
    if source.dtype.name in LAYOUTS and term.dtype.is_int:
        parts = _Parts(w, LAYOUTS[source.dtype.name], rank)
        return w.add("Cast", parts.bits(name), to=TYPES[term.dtype.name])
    if term.dtype.name in LAYOUTS and source.dtype.is_int:
        parts = _Parts(w, LAYOUTS[term.dtype.name], rank)
        return parts.float_of(w.add("Cast", name, to=parts.whole_type))
    if source.dtype.is_int and term.dtype.is_int:
        return w.add("Cast", name, to=TYPES[term.dtype.name])
    raise ArgumentError(f"onnx.export: the bits of {source.dtype.name} as {term.dtype.name} are "
                        f"not exported")
