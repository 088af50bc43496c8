"""Values of their own for tensors that are computed alike, where one has hooks.

In: a node that hooks are registered for. Out: a node of the same value that is another, so that
these hooks are not called with its gradient; its gradient goes to the same sources.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lazyten.autodiff import gradient
from lazyten.autodiff.arithmetic import add
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op


def apart(node: Node, is_hooked: Callable[[Node], bool]) -> Node:
    """The node itself, or its first twin, where hooks are registered for it, that has none."""
    found, number = node, 0
    while is_hooked(found):
        number += 1
        twin = _twin(node, number)
        if twin is found:
            break
        found = twin
    return found


def _twin(node: Node, number: int) -> Node:
    sources = tuple(dict.fromkeys(gradient.differentiable_sources(node)))
    if not sources:
        return node
    return make(Op.CUSTOM_GRADIENT, node.dtype,
                (make(Op.DETACH, node.dtype, (node,)), *sources), _AsTheFirst(number))


@dataclass(frozen=True, slots=True)
class _AsTheFirst:
    """The gradient of a twin, the `number`-th of its node."""

    number: int

    def __call__(self, total: Node, node: Node) -> Sequence[Node | None]:
        found: dict[Node, Node] = {}
        for source, part in gradient.pass_back(node.src[0].src[0], total, {*node.src[1:]}):
            found[source] = part if source not in found else add(found[source], part)
        return [found.get(source) for source in node.src[1:]]
