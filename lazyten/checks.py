"""Checks of indices whose values are known only once they are computed.

In: the nodes of a graph about to be computed. Out: for each CHECKED node, a number to compute with
it that tells whether an index is outside, and the error if so. `realization.py` and `replay.py`
look at the numbers before anybody sees a result.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyten.errors import IndexingError
from lazyten.node import Node, const, elementwise, reduce, reshape
from lazyten.ops import Array, Op


def index_checks(order: Sequence[Node]) -> list[Node]:
    """The CHECKED nodes among these that have anything to check, one of equal ones."""
    found: dict[tuple[Node, int], Node] = {}
    for node in order:
        if node.op is Op.CHECKED and node.numel:
            found.setdefault((node.src[0], node.arg[2]), node)
    return list(found.values())


def reach(check: Node) -> Node:
    """The greatest of the index's values, -1 - i for a negative i, as shape (1,): what is inside an
    axis of size n, from either end, is less than n."""
    index = check.src[0]
    if index.dtype.kind == "i":
        negative = elementwise(Op.CMPLT, index, const(0, index.dtype, index.shape))
        index = elementwise(Op.WHERE, negative, elementwise(Op.NOT, index), index)
    return reshape(reduce(index, Op.MAX, range(len(index.shape))), (1,))


def is_outside(check: Node, reached: Array) -> bool:
    """Whether the value of `reach` says that an index is outside."""
    return int(reached[0]) >= int(check.arg[2])


def outside_error(check: Node, values: Array) -> IndexingError:
    """The error for the first of these index values that is outside."""
    operation, axis, size = check.arg
    flat = [int(v) for v in np.asarray(values).reshape(-1)]
    first = next(v for v in flat if not -size <= v < size)
    return IndexingError(f"{operation}: index {first} is outside axis {axis}, which has size {size}"
                         f"{f', so {-size} to {size - 1} are inside' if size else ''}; the index "
                         f"was used at {check.where}")
