"""Sizes that vary, and numbers that follow from them, as nodes that compute them of shapes."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from onnx import TensorProto

from lazyten.ir.dtype import DType
from lazyten.onnx.values import Array
from lazyten.onnx.writing.alike import Term
from lazyten.onnx.writing.varying import Size, Varying, VaryingFloat
from lazyten.support.errors import ArgumentError
from lazyten.symbolic.fitting import (
    Atom,
    Column,
    Dimension,
    Expression,
    Fit,
    Floor,
    Pieces,
    Product,
)

MOST_PARTS = 64
"""A float is looked for among n / k and k / n, with k up to this and n from the sizes."""
MOST_LOG = 16.0
"""Of a float that may be a logarithm: e to the power of it is a size, or a share of it."""


class Writer(Protocol):
    """What writes nodes: writer.py's."""

    at: Term | None

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A new node; the name of its output."""

    def ints(self, values: Iterable[Size]) -> str:
        """A list of integers."""

    def constant(self, array: Array) -> str:
        """A constant."""

    def size(self, number: Varying) -> str:
        """A size that varies, as a list of one."""


class Sizes:
    """How sizes vary. names: of the Dims, in the order of the fit's sizes. places: for each an
    input and an axis that have it. fit: None where nothing varies. shapes: numbers of which others
    may be made."""

    def __init__(self, names: Sequence[str] = (),
                 places: Mapping[int, tuple[str, int]] | None = None,
                 fit: Fit | None = None, shapes: Iterable[Column] = ()) -> None:
        self._names, self._places, self._fit = names, places or {}, fit
        self._shapes = shapes
        self._atoms: dict[Atom, str] = {}

    def text(self, size: Size, w: Writer) -> int | str:
        """A size of an output: a number, or a formula as dim_param."""
        return size if isinstance(size, int) else self._expression(size, w).text(self._names)

    def write(self, w: Writer, number: Varying) -> str:
        """A list of one integer. ArgumentError where no expression is known for it."""
        return self._written(w, self._expression(number, w))

    def _written(self, w: Writer, found: Expression) -> str:
        total = "" if found.terms else w.ints([0])
        for factor, atoms in found.terms:
            names = [self._atom(w, a) for a in atoms]
            if factor != 1 or not names:
                names.append(w.ints([factor]))
            product = names[0]
            for name in names[1:]:
                product = w.add("Mul", product, name)
            total = w.add("Add", total, product) if total else product
        return total if found.divisor == 1 else w.add("Div", total, w.ints([found.divisor]))

    def write_float(self, w: Writer, number: VaryingFloat, dtype: DType) -> str:
        """A list of one double. ArgumentError where no expression is known for it."""
        near = 1e-13 if dtype.name == "float64" else 1e-6
        assert self._fit is not None
        seen = number.seen
        if not all(map(math.isfinite, seen)):
            raise self._error(seen, w)
        found = self._float(w, seen, near)
        if found is None:
            found = self._float(w, seen[:self._fit.ordinary], near)
            self._fit.missed.update(self._fit.samples[self._fit.ordinary:])
        if found is None:
            raise self._error(seen, w)
        return found

    def _float(self, w: Writer, seen: Sequence[float], near: float) -> str | None:
        found = self._fraction(w, seen, near) or self._share(w, seen, near)
        if found is None and min(seen) >= 0:
            squares = [v * v for v in seen]
            root = self._fraction(w, squares, near) or self._share(w, squares, near)
            found = root and w.add("Sqrt", root)
        if found is None and max(seen) < MOST_LOG:
            power = self._fraction(w, [math.exp(v) for v in seen], 8 * near)
            found = power and w.add("Log", power)
        return found

    def _fraction(self, w: Writer, seen: Sequence[float], near: float) -> str | None:
        """n / k or k / n, with n from the sizes, and the least k."""
        assert self._fit is not None
        for over in (False, True):
            if over and 0 in seen:
                continue
            for k in range(1, MOST_PARTS + 1):
                whole = tuple(round(k / v if over else v * k) for v in seen)
                if over and 0 in whole or not all(
                        abs((k / n if over else n / k) - v) <= near * abs(v)
                        for n, v in zip(whole, seen, strict=True)):
                    continue
                if self._fit.expression(whole) is not None:
                    return self._divided(w, Varying(whole), float(k), over)
                break
        return None

    def _share(self, w: Writer, seen: Sequence[float], near: float) -> str | None:
        """c * n or c / n, with a size n of a Dim."""
        assert self._fit is not None
        if 0 in seen:
            return None
        for column in zip(*self._fit.samples[:len(seen)], strict=True):
            for over in (False, True):
                factors = [v * n if over else v / n for v, n in zip(seen, column, strict=True)]
                if max(abs(f / factors[0] - 1) for f in factors) <= near:
                    return self._divided(w, Varying(column), factors[0] if over else 1 / factors[0],
                                         over)
        return None

    def _divided(self, w: Writer, number: Varying, k: float, over: bool) -> str:
        whole = w.add("Cast", w.size(number), to=TensorProto.DOUBLE)
        factor = w.constant(np.array([k]))
        return w.add("Div", factor, whole) if over else w.add("Div", whole, factor)

    def _atom(self, w: Writer, atom: Atom) -> str:
        if atom not in self._atoms:
            if isinstance(atom, Dimension):
                name, axis = self._places[atom.number]
                made = w.add("Shape", name, start=axis, end=axis + 1)
            elif isinstance(atom, Product):
                made = w.add("Mul", self._atom(w, atom.one), self._atom(w, atom.other))
            elif isinstance(atom, Pieces):
                is_low = w.add("Less", self._atom(w, atom.size), w.ints([atom.start]))
                made = w.add("Where", is_low, self._written(w, atom.below),
                             self._written(w, atom.above))
            else:
                inner = self._written(w, atom.of) if isinstance(atom.of, Expression) \
                    else self._atom(w, atom.of)
                if atom.plus:
                    inner = w.add("Add", inner, w.ints([atom.plus]))
                made = w.add("Div", inner, w.ints([atom.by])) if isinstance(atom, Floor) else \
                    w.add("Min" if atom.least else "Max", inner, w.ints([atom.limit]))
            self._atoms[atom] = made
        return self._atoms[atom]

    def _expression(self, number: Varying, w: Writer) -> Expression:
        assert self._fit is not None
        found = self._fit.expression(number.seen)
        if found is None:
            self._fit.learn(self._shapes)
            self._shapes = ()
            found = self._fit.expression(number.seen)
        if found is None:
            raise self._error(number.seen, w)
        return found

    def _error(self, seen: Sequence[float], w: Writer) -> ArgumentError:
        assert self._fit is not None
        first = {v: i for i, v in reversed(list(enumerate(seen)))}
        few = sorted({*list(first.values())[::-1][:3], *range(0, len(seen), -(-len(seen) // 3))})
        told = ", ".join(f"{seen[i]:.6g} where {self._sizes(i)}" for i in few)
        return ArgumentError(
            f"onnx.export(dynamic=...): {self._what(seen, w)} is {told}, and no expression of "
            f"sizes says so. Compute it of tensors, such as of lazyten.arange(size); give the Dim "
            f"a range in which it follows one rule; or leave the axis out of dynamic, so that its "
            f"size is fixed")

    def _what(self, seen: Sequence[float], w: Writer) -> str:
        assert w.at is not None
        axes = [i for i, n in enumerate(w.at.shape) if isinstance(n, Varying) and n.seen == seen]
        return f"the size of axis {axes[0]} of {w.at}" if axes else f"a number of {w.at}"

    def _sizes(self, sample: int) -> str:
        assert self._fit is not None
        return ", ".join(f"{name} is {n}" for name, n in
                         zip(self._names, self._fit.samples[sample], strict=True))
