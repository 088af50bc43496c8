"""Gradients that are held as the rows of a weight that have one: those of lookups with sparse=True.

The gradient of a lookup is a graph that adds the rows' gradients up in zeros. Where a weight was
looked up so, and in no other way, that sum is not computed: `.grad` is what is added, and where, in
coordinates. As in PyTorch it is not coalesced: a row that was looked up twice is there twice.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import int64
from lazyten.ir.node import Node, const, make, reshape, unexpanded
from lazyten.ir.ops import Op
from lazyten.sparse.arithmetic import add, joined
from lazyten.sparse.coordinates import CooTensor, coo
from lazyten.sparse.tensors import SparseTensor

ROWS = (0, Op.ADD)
"""A SCATTER that adds values up along axis 0."""


def _rows_of_gradient(self: Any, part: Node,
                      as_tensor: Callable[[Node], Tensor] | None = None) -> CooTensor | None:
    """The gradient of a weight as rows, of a graph that adds rows up in zeros; None of another.
    as_tensor: of what stands over a frame's sources in place of memory."""
    found: list[tuple[Node, Node]] = []
    if not _take(part, found):
        return None
    given = as_tensor or (lambda node: Tensor._of(node, self.device))
    if not found:
        found = [(const(0, int64, (0,)), const(0, part.dtype, (0, part.shape[1])))]
    places = functions.cat([given(index).long() for index, _ in found])
    values = functions.cat([given(make(Op.DETACH, rows.dtype, (rows,))) for _, rows in found])
    return coo(places.unsqueeze(0), values, self.shape, False)


def _take(part: Node, found: list[tuple[Node, Node]]) -> bool:
    """Whether a graph is a sum of lookups' gradients, each (numbers of rows, rows); zeros are that
    of a lookup of no row."""
    if part.op is Op.ADD:
        return _take(part.src[0], found) and _take(part.src[1], found)
    if _is_zero(part):
        return True
    if part.op is not Op.SCATTER or part.arg != ROWS or len(part.shape) != 2:
        return False
    base, index, rows = part.src
    if not _is_zero(base):
        return False
    index = unexpanded(index)
    if index.shape != (rows.shape[0], 1):
        return False
    found.append((reshape(index, index.shape[:1]), rows))
    return True


def _is_zero(part: Node) -> bool:
    """Whether a graph is a constant of 0, with whatever gradient."""
    while part.op is Op.CUSTOM_GRADIENT:
        part = part.src[0]
    return part.op is Op.CONST and part.arg[0] == 0


def _sum_of_gradients(one: Any, two: Any) -> Any:
    """The sum of gradients, of which one at least is sparse: sparse if both are, without a look at
    where values are."""
    if not (is_sparse(one) and is_sparse(two)):
        return add(two, one) if isinstance(one, SparseTensor) else add(one, two)
    if one._places is two._places:
        return one.with_values(one._elements + two._elements)
    return joined(one, two, one._elements, two._elements)

