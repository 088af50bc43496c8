"""A function's graphs at several sizes: whether formulas say them, and at which other sizes.

In: graphs of one skeleton, and numbers that the function computed of sizes. Out: whether these are
formulas of the sizes; and which sizes are alike: each number is to every other, and to those that
the function may compare it with, as it is at a size whose graph is known: equal, less or more. What
a function does otherwise at some size, it does as something is compared.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from lazyten.ir.numbers import Numbers, Skeleton
from lazyten.symbolic.formulas import Samples, Sizes


class Graph(NamedTuple):
    """What a function records at some sizes, and the numbers that it computes of these."""

    skeleton: Skeleton
    numbers: Numbers
    told: tuple[int, ...]

    @property
    def integers(self) -> tuple[int, ...]:
        """All whole numbers."""
        return self.numbers.integers + self.told


class GraphFormulas:
    """Of graphs at some sizes, which differ in nothing but numbers."""

    def __init__(self, graphs: Mapping[Sizes, Graph], known: Iterable[int]) -> None:
        """known: numbers that the function may compare sizes with."""
        self._first, *_ = graphs.values()
        self._fit = Samples(tuple(graphs))
        self._integers = list(zip(*(g.integers for g in graphs.values()), strict=True))
        self._floats = list(zip(*(g.numbers.floats for g in graphs.values()), strict=True))
        varying = {c for c in self._integers if len(set(c)) > 1}
        told = {c for c in zip(*(g.told for g in graphs.values()), strict=True) if len(set(c)) > 1}
        self._compared = list({_primitive(c) for c in varying} | told)
        self._constants = np.array(sorted({-1, 0, 1, *self._first.told, *known}))
        self.are_sure = all(map(self._fit.explains, varying)) and all(
            self._fit.float_value(c, s) is not None for s in graphs for c in {*self._floats})

    def has(self, sizes: Sizes, graph: Graph) -> bool:
        """Whether formulas say this graph at these sizes."""
        floats = [self._fit.float_value(column, sizes) for column in self._floats]
        return graph.skeleton == self._first.skeleton \
            and graph.integers == self._fit.values(self._integers, sizes) \
            and list(map(repr, graph.numbers.floats)) == list(map(repr, floats))

    def outcome(self, sizes: Sizes) -> bytes | None:
        """How numbers are to each other and to those that are known, the same for all sizes that
        are alike; None where a number is not certain."""
        values = self._fit.values(self._compared, sizes)
        if values is None:
            return None
        now = np.array([*sizes, *values])
        others = np.concatenate([now, self._constants])
        found: bytes = np.sign(now[:, None] - others).astype(np.int8).tobytes()
        return found

    def evenness(self, sizes: Sizes) -> int:
        """How often numbers can be halved, beside what they always can: most sizes fill no vectors
        or tiles, and so should those that one looks at."""
        return sum(map(_halvings, self._fit.values(self._compared, sizes) or ()))


def _primitive(column: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers without the factor that they have in common, as those of flat arrays have."""
    return tuple([n // math.gcd(*column) for n in column])


def _halvings(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else 0
