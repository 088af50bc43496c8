"""What a template can say: graphs over sources and constants alone, whose rules for gradients hold
no value of one step. Such nodes are met again in the next step."""
from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from lazyten.autodiff.fixed_rules import holds_no_value
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import SHARING_OPS, Op
from lazyten.storage.placeholder import Source
from lazyten.storage.storage import Buffer

OF_ONE_STEP = (Op.COPY, Op.COLLECTIVE, *SHARING_OPS)
"""What is done outside of kernels, once, where it was recorded."""
clean: WeakSet[Node] = WeakSet()
"""Nodes that are known to stand over sources and constants alone."""


class Unsayable(Exception):
    """An operation did what an Entry cannot say."""


def are_clean(roots: Sequence[Node], first_serial: int) -> bool:
    """Whether nodes stand over sources and constants alone, or memory that was made since.
    Unsayable for a copy from another device, a collective, and a rule for gradients that belongs to
    one step."""
    order = toposort(roots, known=clean)
    good = True
    for node in order:
        if node.op in OF_ONE_STEP \
                or node.op is Op.CUSTOM_GRADIENT and not holds_no_value(node.arg):
            raise Unsayable
        if node.op is Op.BUFFER and not isinstance(node.arg, Source):
            made_now = isinstance(node.arg, Buffer) and node.arg.serial >= first_serial
            good = good and made_now  # it is made each time
    if good:
        clean.update(order)
    return good


def are_sayable(roots: Sequence[Node]) -> bool:
    """Whether nodes stand over sources and constants alone."""
    try:
        return are_clean(roots, 1 << 62)
    except Unsayable:
        return False


def is_clean(node: Node) -> bool:
    """Whether it is known that a node stands over sources and constants alone."""
    return node in clean
