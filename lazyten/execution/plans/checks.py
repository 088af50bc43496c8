"""Checks of indices, and of others' values, that are known only once they are computed.

In: the nodes of a graph about to be computed. Out: for each CHECKED node, a number to compute with
it that tells whether an index is outside, and the error if so. `realization.py` and `replay.py`
look at the numbers before anybody sees a result. A rule of values is an axis of size 1: the flags
where it is broken are 1.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import IndexBound, ValueBound
from lazyten.ir.node import Node, cast, const, elementwise, reduce, reshape
from lazyten.ir.ops import Array, Op
from lazyten.storage.placement import has_values
from lazyten.storage.storage import Buffer
from lazyten.support.errors import IndexingError, ValueRangeError


def index_checks(order: Sequence[Node]) -> list[Node]:
    """The CHECKED nodes among these that have anything to check, one of equal ones."""
    found: dict[tuple[Node, int, bool], Node] = {}
    for node in order:
        if node.op is Op.CHECKED and node.numel:
            found.setdefault((node.src[0], node.arg.size, node.arg.from_end), node)
    return list(found.values())


def reach(check: Node) -> Node:
    """The greatest of the index's values, as int64 of shape (1,): what is inside an axis of size n
    is from 0 to n - 1. A negative i counts as -1 - i, or if none may be negative, as n."""
    index = check.src[0]
    within: IndexBound | ValueBound = check.arg
    if index.dtype.kind == "i":
        negative = elementwise(Op.CMPLT, index, const(0, index.dtype, index.shape))
        if within.from_end:
            instead = elementwise(Op.NOT, index)
        else:
            index = cast(index, dt.INDEX)
            instead = const(within.size, dt.INDEX, index.shape)
        index = elementwise(Op.WHERE, negative, instead, index)
    return reshape(cast(reduce(index, Op.MAX, range(len(index.shape))), dt.INDEX), (1,))


def is_outside(check: Node, reached: Buffer) -> bool:
    """Whether the value of `reach` says that an index is outside; not on a device without values.
    """
    within: IndexBound | ValueBound = check.arg
    return has_values(reached.device) and not 0 <= int(reached.numpy()[0]) < within.size


def outside_error(check: Node, values: Array) -> IndexingError:
    """The error for the first of these index values that is outside."""
    within: IndexBound | ValueBound = check.arg
    if isinstance(within, ValueBound):
        return ValueRangeError(f"{within.operation}: {within.rule}; this was asked for at "
                               f"{check.where}")
    size, low = within.size, -within.size if within.from_end else 0
    flat = [int(v) for v in np.asarray(values).reshape(-1)]
    first = next(v for v in flat if not low <= v < size)
    return IndexingError(f"{within.operation}: {within.called} {first} is outside axis "
                         f"{within.axis}, which has size {size}"
                         f"{f', so {low} to {size - 1} are inside' if size else ''}; the "
                         f"{within.called} was used at {check.where}")
