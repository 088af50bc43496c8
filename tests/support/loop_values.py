"""What LOOP expressions evaluate to, all points of their ranges at once, by the op table."""
from __future__ import annotations

from typing import Any

import numpy as np

from lazyten.ir import ops
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op

Values = dict[Node, np.ndarray[Any, Any]]


def grid(ranges: list[Node]) -> Values:
    """Every combination of the values of some ranges, flat."""
    axes = np.indices([r.arg.extent for r in ranges]).reshape(len(ranges), -1)
    return dict(zip(ranges, axes.astype(np.int64), strict=True))


def evaluate_at(root: Node, known: Values) -> np.ndarray[Any, Any]:
    """The values of an elementwise expression, where `known` has those of its other leaves."""
    values = dict(known)
    for node in toposort([root], lambda n: () if n in values else n.src):
        if node.op is Op.CONST:
            exact = np.asarray(node.value, node.dtype.compute)
            values[node] = ops.round_to(exact, node.dtype)
        elif node not in values:
            values[node] = np.asarray(ops.evaluate(
                node.op, node.dtype, [values[s] for s in node.src], [s.dtype for s in node.src]))
    size = np.broadcast_shapes(*(v.shape for v in known.values()))
    return np.broadcast_to(values[root], size)
