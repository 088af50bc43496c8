"""Sizes that vary, and numbers that follow from them, as nodes that compute them of inputs' shapes."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from lazyten.ir.dtype import DType
from lazyten.onnx.varying import Size, Varying, VaryingFloat
from lazyten.support.errors import ArgumentError
from lazyten.symbolic.fitting import Atom, Dimension, Expression, Fit

if TYPE_CHECKING:
    from lazyten.onnx.writer import Writer

MOST_PARTS = 64
"""A float is looked for among n / k and k / n, with k up to this and n from the sizes."""


class Sizes:
    """How sizes vary. names: of the Dims, in the order of the fit's sizes. places: for each an
    input and an axis that have it. fit: None where nothing varies."""

    def __init__(self, names: Sequence[str] = (), places: Mapping[int, tuple[str, int]] | None = None,
                 fit: Fit | None = None) -> None:
        self._names, self._places, self._fit = names, places or {}, fit
        self._atoms: dict[Atom, str] = {}

    def text(self, size: Size, w: Writer) -> int | str:
        """A size of an output: a number, or a formula as dim_param."""
        return size if isinstance(size, int) else self._expression(size, w).text(self._names)

    def write(self, w: Writer, number: Varying) -> str:
        """A list of one integer. ArgumentError where no expression is known for it."""
        found = self._expression(number, w)
        total = ""
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
        for root in (False, True):
            seen = [v * abs(v) if root else v for v in number.seen]
            found = self._quotient(w, seen, near)
            if found is not None:
                return found if not root else w.add("Sqrt", found)
        raise self._error(number.seen, w)

    def _quotient(self, w: Writer, seen: Sequence[float], near: float) -> str | None:
        """n / k, k / n, or c * n and c / n for a Dim n."""
        if any(v == 0 or not math.isfinite(v) for v in seen) or self._fit is None:
            return None
        for k in range(1, MOST_PARTS + 1):
            for over in (False, True):
                whole = [round(k / v if over else v * k) for v in seen]
                if any(n == 0 or abs((k / n if over else n / k) / v - 1) > near
                       for n, v in zip(whole, seen, strict=True)) or len({*whole}) == 1 \
                        or self._fit.expression(tuple(whole)) is None:
                    continue
                return self._divided(w, Varying(tuple(whole)), float(k), over)
        for number in range(len(self._names)):
            column = [s[number] for s in self._fit.samples]
            for over in (False, True):
                factors = [v * n if over else v / n for v, n in zip(seen, column, strict=True)]
                if max(abs(f / factors[0] - 1) for f in factors) <= near:
                    return self._divided(w, Varying(tuple(column)),
                                         factors[0] if over else 1 / factors[0], over)
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
            else:
                inner = self._atom(w, atom.of)
                if atom.plus:
                    inner = w.add("Add", inner, w.ints([atom.plus]))
                made = w.add("Div", inner, w.ints([atom.by]))
            self._atoms[atom] = made
        return self._atoms[atom]

    def _expression(self, number: Varying, w: Writer) -> Expression:
        found = None if self._fit is None else self._fit.expression(number.seen)
        if found is None:
            raise self._error(number.seen, w)
        return found

    def _error(self, seen: Sequence[float], w: Writer) -> ArgumentError:
        assert self._fit is not None
        few = range(0, len(seen), -(-len(seen) // 5))
        values = ", ".join(f"{seen[i]:.6g}" for i in few)
        sizes = ", ".join("x".join(map(str, self._fit.samples[i])) for i in few)
        return ArgumentError(
            f"onnx.export(dynamic=...): a number of {w.at} is {values} where {' x '.join(self._names)}"
            f" is {sizes}, and no expression of sizes says so. Compute it of tensors, such as of "
            f"lazyten.arange(size); give the Dim a range in which it follows one rule; or leave the"
            f" axis out of dynamic, so that its size is fixed")
