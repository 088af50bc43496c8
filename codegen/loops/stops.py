"""From which iteration on a loop changes nothing: where a comparison of indices hides the rest.

In: what a loop combines, its ranges split. Out: the number of iterations that matter, over the
ranges around the loop. A causal mask hides all keys behind the last row that a group has.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.ir.node import Node, const, ranges_of, rewrite, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine
from lazyten.symbolic.bounds import bounds
from lazyten.symbolic.simplify import simplify

OUTSIDE = frozenset({"parallel", "loop", "apart"})
"""Kinds of ranges that are the same for all items of a group."""


class Stop(NamedTuple):
    """(sum of factor * term + constant) // step iterations matter."""

    terms: dict[Node, int]
    constant: int
    step: int


def stop_of(neutral: Mapping[Node, Scalar], r: Node) -> Stop | None:
    """After which iteration of `r` all these expressions are the constants beside them, for all
    that a group of work items has; None if no comparison of indices says so."""
    for test in toposort(neutral):
        if test.op is Op.CMPLT and test.src[0].dtype is dt.INDEX \
                and not any(n.op in (Op.LOAD, Op.ACCUMULATE) for n in toposort([test])):
            for holds in (True, False):
                known = {test: const(holds, dt.bool_)}
                if all(_becomes(node, known, value) for node, value in neutral.items()):
                    return _first_of_all(test, holds, r)
    return None


def _becomes(node: Node, known: Mapping[Node, Node], value: Scalar) -> bool:
    made = simplify(rewrite([node], lambda n: None, dict(known))[0])
    return made.op is Op.CONST and made.value == value


def _first_of_all(test: Node, holds: bool, r: Node) -> Stop | None:
    """How many iterations there are before a comparison has this outcome for good."""
    less, more = test.src if holds else test.src[::-1]
    (terms, constant), (others, other) = affine(more), affine(less)
    factors = {t: terms.get(t, 0) - others.get(t, 0) for t in {**terms, **others}}
    step, least = factors.pop(r, 0), constant - other - holds  # it is so where their sum is >= 0
    if step <= 0:
        return None
    outside = {}
    for term, factor in factors.items():
        ranges = list(ranges_of([term]))
        limits = bounds(term)
        if r in ranges or limits is None:
            return None
        if all(n.arg.kind in OUTSIDE for n in ranges):
            outside[term] = -factor
        else:
            least += min(factor * limit for limit in limits)
    return Stop(outside, step - 1 - least, step)
