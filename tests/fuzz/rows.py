"""The language of rows: an operation as a form with holes, and how exact its result is.

A hole is `{name:spec}`; `{name}` alone repeats what it was filled with. Specs of tensors:

    kind flags shape @dtype
    kind    a any, w any but uint8, n number, f float, F float32 or float64, s float32,
            i integer, l int64, b bool
    flags   ! may be written to; ? requires a gradient; * a leaf that does; ^ a leaf that has one
    shape   2 axes, 2+ axes or more, [n,c,3] sizes by name (c<n: at most n; c*2, c/g: from another),
            ~x broadcasts with x, >x broadcasts to x, =x has x's shape
    @x      has x's dtype

A form of several lines, or with `{T} = ` in it, says itself what it names. What gives several
tensors is followed by statements that name them.

Any other spec is a literal of `holes.LITERALS`, such as axis(x) or int(1,4).
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

EXACT = "exact"
"""Moves, comparisons, integers, and what IEEE 754 rounds correctly: the same bits everywhere."""
SUM = "sum"
"""Sums and sums of products: the same bits if no partial sum is rounded, in whatever order."""
ROUGH = "rough"
"""Everything else: equal but for rounding."""

Test = Callable[..., Any]
_NAME = re.compile(r"(?:lt\.(?:\w+\.)?|F\.|\}\.)(\w+)\(")


@dataclass(frozen=True)
class Row:
    """An operation. `when` is given the operands' arrays and tells whether they are in its domain.

    effect: nothing is named by it. foreign: PyTorch gives the same values.
    """

    form: str
    exactness: str = EXACT
    name: str = ""
    when: Test | None = None
    weight: float = 1.0
    effect: bool = False
    foreign: bool = True


def row(form: str, exactness: str = EXACT, name: str = "", **options: Any) -> Row:
    found = _NAME.search(form)
    return Row(form, exactness, name or (found.group(1) if found else form), **options)


def rows(exactness: str, forms: Iterable[str], **options: Any) -> list[Row]:
    return [row(form, exactness, **options) for form in forms]


def nonzero(*arrays: Any) -> bool:
    """The last operand has no zero: it is divided by."""
    return bool(np.all(arrays[-1] != 0))


def moderate(*arrays: Any) -> bool:
    """No operand is far from 0: what is made of them fits everywhere."""
    return all(a.size == 0 or np.max(np.abs(a.astype(np.float64))) <= 30 for a in arrays)


def fits_int8(*arrays: Any) -> bool:
    return all(a.size == 0 or np.max(np.abs(a.astype(np.float64))) < 127 for a in arrays)


def not_negative(*arrays: Any) -> bool:
    return all(bool(np.all(a >= 0)) for a in arrays) and fits_int8(*arrays)


def positive(*arrays: Any) -> bool:
    return all(bool(np.all(a > 0.05)) for a in arrays) and moderate(*arrays)


def inside_one(*arrays: Any) -> bool:
    return all(bool(np.all(np.abs(a) < 0.95)) for a in arrays)


def both(*tests: Test) -> Test:
    return lambda *arrays: all(t(*arrays) for t in tests)
