"""jvp: forward-mode differentiation as a graph transform.

In: GRAPH nodes, and tangents of some of the nodes that they are computed from. Out: tangents of the
outputs, as ordinary GRAPH nodes, which read the values that the outputs are computed from. The
rules are in `jvp_rules.py`; this module only walks, and only above the nodes with tangents.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazyten.autodiff.arithmetic import add
from lazyten.autodiff.gradient import (
    custom_cotangents,
    differentiable_sources,
    of_unknowns,
    vjp_of_all,
)
from lazyten.autodiff.jvp_rules import JVP
from lazyten.ir.node import Node, reshape, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.ir.unknown import unknown
from lazyten.support.errors import InternalError
from lazyten.support.location import attribute_to


def jvp(outputs: Sequence[Node], tangents: Mapping[Node, Node]) -> list[Node | None]:
    """The tangent of each output: the sum over given nodes of d output / d node * its tangent.

    A tangent has its node's shape and dtype. None for an output that depends on none of the given
    nodes in a differentiable way. Tangent nodes belong to the user's line of the forward node.
    """
    found = dict(tangents)
    for node in toposort(outputs, lambda n: () if n in found else differentiable_sources(n)):
        if node not in found and any(s in found for s in differentiable_sources(node)):
            with attribute_to(node.place):
                tangent = _passed_on(node, found)
            if tangent is not None:
                found[node] = tangent
    return [found.get(output) for output in outputs]


def _passed_on(node: Node, found: Mapping[Node, Node]) -> Node | None:
    """The tangent of `node`: the sum of what comes through its sources, in their order."""
    if node.op is Op.CUSTOM_GRADIENT:
        return _custom(node, found)
    if node.op is Op.SCAN:
        return _scan(node, found)
    total: Node | None = None
    for source, rule in zip(node.src, JVP[node.op], strict=True):
        if rule is not None and source in found:
            part = rule(found[source], node)
            if part.shape != node.shape or part.dtype is not node.dtype:
                raise InternalError(f"{node.op.name}'s tangent from {source} is {part}")
            total = part if total is None else add(total, part)
    return total


def _scan(node: Node, found: Mapping[Node, Node]) -> Node | None:
    """Through the nodes of its steps."""
    steps, holes = of_unknowns(node)
    flat = [f for _, f in holes]
    tangent, = jvp([steps], {f: reshape(found[s], f.shape)
                             for f, s in zip(flat, node.src, strict=True) if s in found})
    known = {f: reshape(s, f.shape) for f, s in zip(flat, node.src, strict=True)}
    return None if tangent is None else substitute([tangent], known)[0]


def _custom(node: Node, found: Mapping[Node, Node]) -> Node | None:
    """By the rule's own tangent, if it has one. Else it gives cotangents, linear in the output's;
    their vjp for that is the transpose."""
    push = getattr(node.arg, "pushed_forward", None)
    if push is not None:
        return push([found.get(s) for s in node.src[1:]], node)  # type: ignore[no-any-return]
    cotangent, flat = unknown(node.shape, node.dtype)
    parts = zip(custom_cotangents(node, cotangent), node.src[1:], strict=True)
    pairs = [(part, found[s]) for part, s in parts if part is not None and s in found]
    tangent, = vjp_of_all([p for p, _ in pairs], [t for _, t in pairs], [flat])
    return None if tangent is None else reshape(tangent, node.shape)
