"""What an index expression covers as its ranges run: each element once, some twice, or not all.

In: an index expression and all ranges that run. Out: a Coverage. Exact: a sum in mixed radix, such
as row-major positions, is one run of neighbours, and the starts of those runs are enumerated.
verify_rewrites.py and verify/loops.py prove loop nests with it.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyten.ir import ops
from lazyten.ir.node import Node, ranges_of, toposort
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import affine

MOST_STARTS = 1 << 22
"""Starts of runs that are enumerated."""

Values = np.ndarray[Any, Any]


class Coverage(NamedTuple):
    """The elements first .. last - 1, all of them if `whole`, and none twice if `once`."""

    first: int
    last: int
    whole: bool
    once: bool


def coverage(position: Node, ranges: Iterable[Node], most: int = MOST_STARTS) -> Coverage | None:
    """What `position` covers as `ranges` run; None if that takes more than `most` starts."""
    terms, constant = affine(position)
    run, rest = 1, dict(terms)
    within = {r for t in terms if t.op is not Op.RANGE for r in ranges_of([t])}
    for factor, r in sorted(((f, t) for t, f in terms.items() if t.op is Op.RANGE),
                            key=lambda pair: pair[0]):
        if factor == run and r not in within:
            run *= r.arg.extent
            del rest[r]
    done = terms.keys() - rest.keys()
    others = [r for r in ranges if r not in done]
    if math.prod(r.arg.extent for r in others) > most:
        return None
    known = grid(others)
    starts = np.sort(sum((f * values(t, known) for t, f in rest.items()),
                         np.full(_size(known), constant)))
    gaps = np.diff(starts)
    return Coverage(int(starts[0]), int(starts[-1]) + run,
                    bool((gaps <= run).all()), bool((gaps >= run).all()))


def grid(ranges: Sequence[Node]) -> dict[Node, Values]:
    """The values of ranges at every combination, one after the other."""
    if not ranges:
        return {}
    axes = np.indices([r.arg.extent for r in ranges]).reshape(len(ranges), -1)
    return dict(zip(ranges, axes, strict=True))


def _size(known: dict[Node, Values]) -> int:
    return next(iter(known.values())).size if known else 1


def values(root: Node, known: dict[Node, Values]) -> Values:
    """An expression of integers and bools at each combination of what is `known`."""
    found = dict(known)
    for node in toposort([root], known=found):
        if node.op is Op.CONST:
            found[node] = np.full(_size(known), node.value, node.dtype.numpy)
        elif node not in found:
            found[node] = ops.evaluate(node.op, node.dtype, [found[s] for s in node.src],
                                       [s.dtype for s in node.src])
    return found[root]
